"""Experiments as tables: ours beside what was published, what is still to be run, and all there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..experiments import EXPERIMENTS, Claim, Experiment, Finished, Store
from ..experiments.plan import Planned, progress
from .table import Column, Noted, Spread, Table, duration, percent, points

Cells = Mapping[str, Finished]  # by the hash of their settings

RESULT = (
    Column("row", "method"),
    Column("column", "setting"),
    Column("number", "number"),
    Column("ours", "ours", percent, right=True),
    Column("published", "published", percent, right=True),
    Column("difference", "difference", points, right=True),
    Column("seeds", "seeds", right=True),
)
PLAN = (
    Column("row", "method"),
    Column("column", "setting"),
    Column("seed", "seed", right=True),
    Column("status", "status"),
    Column("rounds", "rounds", right=True),
    Column("spent", "spent", duration, right=True),
    Column("left", "left", duration, right=True),
)
PAPERS = (
    Column("name", "experiment"),
    Column("title", "what it shows"),
    Column("status", "status"),
    Column("cells", "cells", right=True),
)


# ours beside theirs -----------------------------------------------------------------------------------


def reproduction_table(experiment: Experiment, finished: Cells, failed: Mapping[str, str]) -> Table:
    """A line for each row, column and number; `failed` says by their keys which cells cannot be run."""
    rows = tuple(result_row(experiment, finished, failed, *line) for line in experiment.shown)
    shown = tuple(c for c in RESULT if c.key not in ("published", "difference") or experiment.published)
    return Table(shown, rows, tuple(below(experiment, finished)), experiment.title)


def result_row(
    experiment: Experiment, finished: Cells, failed: Mapping[str, str], row: str, column: str, number: str
) -> dict[str, Any]:
    values = values_of(experiment, finished, row, column, number)
    ours = Spread(tuple(values.values())) if values else None
    theirs = experiment.published.get((row, column, number))
    doubt = experiment.misprints.get((row, column, number), "")
    published = None if theirs is None else theirs / 100
    return {
        "row": row,
        "column": column,
        "number": number,
        "ours": ours or Noted(None, why_none(experiment, finished, failed, row, column)),
        "published": Noted(published, doubt) if doubt else published,
        "difference": ours.mean - published if ours and published is not None else None,
        "seeds": f"{len(values)} of {experiment.seeds}",
        "read": str(experiment.numbers[number]),
    }


def values_of(
    experiment: Experiment, finished: Cells, row: str, column: str, number: str
) -> dict[int, float]:
    """This number by the seeds that are finished."""
    cells = {s.seed: finished.get(s.hash) for s in experiment.seeds_of(row, column)}
    values = {seed: cell.number(experiment.numbers[number]) for seed, cell in cells.items() if cell}
    return {seed: value for seed, value in values.items() if value is not None}


def why_none(
    experiment: Experiment, finished: Cells, failed: Mapping[str, str], row: str, column: str
) -> str:
    """Why there is no number of ours."""
    settings = experiment.seeds_of(row, column)
    if any(s.hash in finished for s in settings):
        return "a run of this method has no such reading"
    reasons = [failed[s.hash[:16]] for s in settings if s.hash[:16] in failed]
    return reasons[0].splitlines()[0] if reasons else "not run yet"


def below(experiment: Experiment, finished: Cells) -> Iterator[str]:
    """How the numbers were read, what they claim, and what a reader must know."""
    reads = dict.fromkeys(number for _, _, number in experiment.shown)
    yield from (f"{number}: {experiment.numbers[number]}" for number in reads)
    if experiment.seeds > 1:
        yield "accuracy in %; mean ± standard deviation over the seeds; difference in points"
    else:
        yield "accuracy in %; difference in points"
    yield from claims_of(experiment, finished)
    if experiment.note:
        yield experiment.note
    if experiment.instead:
        changed = ", ".join(f"{name} = {value}" for name, value in experiment.instead.items())
        yield f"not the experiment as it is defined: {changed}"


def claims_of(experiment: Experiment, finished: Cells) -> Iterator[str]:
    return (
        claimed(experiment, finished, c, column) for c in experiment.claims for column in experiment.columns
    )


def claimed(experiment: Experiment, finished: Cells, claim: Claim, column: str) -> str:
    """Whether the claim holds in this column, over the mean of the seeds that both sides have."""
    above, under = (
        values_of(experiment, finished, row, column, number) for row, number in (claim.better, claim.worse)
    )
    margins = [100 * (above[seed] - under[seed]) for seed in above if seed in under]
    if not margins:
        return f"{column}: {claim}: open"
    margin = Spread(tuple(margins)).mean
    seeds = f" ({len(margins)} of {experiment.seeds} seeds)" if len(margins) < experiment.seeds else ""
    return f"{column}: {claim}: {'holds' if margin > claim.by else 'does not hold'}, {margin:+.1f}{seeds}"


# what is to be run ------------------------------------------------------------------------------------


def plan_table(experiment: Experiment, planned: Sequence[Planned], at_once: int) -> Table:
    """A line for each cell: how far it is, and what is left."""
    left = [p.left for p in planned if p.left is not None]
    alone = f"{sum(left) / 3600:.1f} hours of one core are left"
    shared = f", about {max(sum(left) / at_once, *left, 0) / 3600:.1f} hours on {at_once} cores"
    how = "estimates are from a short calibration on this machine, one core at a time"
    notes = (f"{alone}{shared if at_once > 1 else ''}; {how}",)
    return Table(PLAN, tuple(map(plan_row, planned)), notes, experiment.title)


def plan_row(planned: Planned) -> dict[str, Any]:
    settings = planned.cell.settings
    return {
        "row": planned.cell.row,
        "column": planned.cell.column,
        "seed": settings.seed,
        "key": planned.cell.key,
        "status": planned.status,
        "rounds": f"{planned.rounds} of {settings.rounds}",
        "spent": planned.spent or None,
        "left": Noted(None, planned.why) if planned.left is None else planned.left,
    }


# all there are ----------------------------------------------------------------------------------------


def papers_table(store: Store, finished: Cells) -> Table:
    """Every experiment with how far it is."""
    rows = tuple(paper_row(name, one, store, finished) for name, one in EXPERIMENTS.items())
    return Table(PAPERS, rows, ("pluribus reproduce NAME --plan: its cells, and the hours they would take",))


def paper_row(name: str, experiment: Experiment, store: Store, finished: Cells) -> dict[str, Any]:
    cells = {cell.key: cell for cell in experiment.cells}.values()
    states = [progress(cell, store, dict(finished)).status for cell in cells]
    done = states.count("done")
    begun = done or "partly" in states
    return {
        "name": name,
        "title": experiment.title,
        "status": "done" if done == len(states) else "partly" if begun else "missing",
        "cells": f"{done} of {len(states)}",
    }
