"""How fast the engine is, beside the bare passes in it and beside other libraries, measured in turns."""

from .race import race
from .records import Race, Ratio, seen_by
from .side import Entrant, bare, ours
from .table import race_table
from .workload import WORKLOADS, Workload, workload

__all__ = [
    "WORKLOADS",
    "Entrant",
    "Race",
    "Ratio",
    "Workload",
    "bare",
    "ours",
    "race",
    "race_table",
    "seen_by",
    "workload",
]
