"""`record_bounds("runs/mine")` writes what Theorem 1 of pFedPM says of a run into its folder."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ..executors import Executor
from ..readings.bounds import Bounds, bounds
from .folder import write
from .run import one_thread, reopen

BOUNDS = "bounds.jsonl"


def record_bounds(
    folder: str | os.PathLike[str],
    *,
    data_dir: str | Path | None = None,
    executor: Executor | None = None,
    steps: int = 10,
) -> list[Bounds]:
    """A line for each client in bounds.jsonl, at the run's last checkpoint; the run stays as it is."""
    study, now = reopen(folder, data_dir)
    with one_thread():
        found = bounds(study.place, now, executor, steps=steps)
    number = now.stage.round if now.stage else 0
    lines = [msgspec.json.encode({"round": number, **one.as_data}) for one in found]
    write(Path(folder) / BOUNDS, b"".join(line + b"\n" for line in lines))
    return found
