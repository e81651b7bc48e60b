"""What came of one run, as a small table."""

from __future__ import annotations

from typing import Any

import msgspec

from ..runs import Reading, Result
from .table import Column, Noted, Table, duration, megabytes, percent

COLUMNS = (
    Column("kind", "accuracy in %"),
    Column("last", "last", percent, right=True),
    Column("best_on_test", "best on test", percent, right=True),
    Column("selected", "selected", percent, right=True),
    Column("client_mean", "client mean", percent, right=True),
    Column("worst_tenth", "worst 10 %", percent, right=True),
    Column("spread", "spread", percent, right=True),
)
NAMES = {"generic": "G", "personal": "P"}


def outcome_table(result: Result) -> Table:
    """G, P and what newcomers get; below, bytes, time and where it all lies."""
    shown = tuple(c for c in COLUMNS if c.key != "selected" or result.personal.selected is not None)
    return Table(shown, tuple(rows(result)), tuple(below(result)))


def rows(result: Result) -> list[dict[str, Any]]:
    """A row for each reading; the first of a kind is called G or P."""
    found = []
    for kind, name in NAMES.items():
        readings = {
            full: reading for full, reading in result.readings.items() if full.partition("/")[0] == kind
        }
        for number, (full, reading) in enumerate(readings.items()):
            called = name if number == 0 else f"{name} {full.partition('/')[2]}"
            found.append(
                row(called, reading, "mean of whole models" if full == "generic/whole models" else "")
            )
        if not readings:
            found.append({"kind": name, "last": Noted(None, result.missing.get(kind, "it was not read"))})
    return [*found, *newcomers(result)]


def row(name: str, reading: Reading, note: str) -> dict[str, Any]:
    last = Noted(reading.last, note) if note else reading.last
    return {"kind": name, **msgspec.structs.asdict(reading), "last": last}


def newcomers(result: Result) -> list[dict[str, Any]]:
    """Two more rows, if there are any."""
    found = result.newcomers
    if not found.clients:
        return []
    return [
        {"kind": "newcomers", "last": found.zero_shot},
        {"kind": "newcomers, adapted", "last": found.adapted},
    ]


def below(result: Result) -> list[str]:
    """What else there is to say of a run."""
    seconds, payload = result.seconds, result.payload_bytes
    refused = [f"{result.refused} uploads were refused: rounds.jsonl says why"] if result.refused else []
    times = (
        f"train {duration(seconds.train)}, evaluate {duration(seconds.evaluate)}, "
        f"aggregate {duration(seconds.aggregate)}, overhead {duration(seconds.overhead)}"
    )
    return [
        f"{megabytes(payload.up)} MB up, {megabytes(payload.down)} MB down; {result.samples:,} samples",
        f"{duration(seconds.wall)}: {times}",
        *refused,
        f"all of it in {result.run_dir}",
    ]
