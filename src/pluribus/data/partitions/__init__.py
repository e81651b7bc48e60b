"""The catalogue of partitions: ways to divide a dataset between clients."""

from .dirichlet import Dirichlet
from .dirichlet_client import DirichletClient
from .domain import Domain
from .iid import Iid
from .natural import Natural
from .nway_kshot import NWayKShot
from .partition import Partition, Pool, Rows, Source, Split
from .pathological import Pathological

PARTITIONS: dict[str, type] = {
    "iid": Iid,
    "dirichlet": Dirichlet,
    "dirichlet-client": DirichletClient,
    "pathological": Pathological,
    "nway-kshot": NWayKShot,
    "domain": Domain,
    "natural": Natural,
}

__all__ = [
    "PARTITIONS",
    "Dirichlet",
    "DirichletClient",
    "Domain",
    "Iid",
    "NWayKShot",
    "Natural",
    "Partition",
    "Pathological",
    "Pool",
    "Rows",
    "Source",
    "Split",
]
