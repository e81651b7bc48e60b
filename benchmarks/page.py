"""Writes docs/benchmarks.md, and the picture in it, from the measurements in benchmarks/results."""
# ruff: noqa: INP001

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec

from pluribus.bench import Race, race_table
from pluribus.report.table import as_markdown

FOLDER = Path(__file__).resolve().parent / "results"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
PICTURE = PAGE.with_name("benchmarks-scale.svg")
INTRODUCTION = """# Benchmarks

This page is made by `make bench` from the measurements in `benchmarks/results`; nothing in it is typed.

The sides of a comparison do the same rounds in turns, one at a time, in one process tree: the same cohorts,
the same clients' rows, as many batches of the same size, two processes of one thread each.
A ratio is taken lap by lap, a lap being the rounds from one evaluation to the next.
What is shown is the median, and the quartiles in brackets.
The engine's rounds are those of `pluribus run`: with log, readings and a checkpoint after every round.
"""
SECTIONS = {
    "limit": """## Beside the bare passes

`benchmarks/bare.py` imports nothing of Pluribus: the same batches forward and backward, the same rows tested,
and no federation at all.
""",
    "peers": """## Beside other libraries

Flower's simulation runs without any evaluation; its client is written as in its quickstart, but keeps data
between turns.
pfl-research evaluates and trains as in its own benchmark.
Tuned, each trains with the bare loop's network and optimiser: what is left is the library.
Both run in environments of their own; where our side is bf16, theirs are float32.
""",
    "reuse": """## Features of frozen parts, computed once

FedRep with 10 epochs of the head and 1 of the body, without evaluation.
Live features run through the encoder in every epoch, without gradients.
""",
    "scale": """## Cost grows with the cohort, not with the federation

The same cohort out of more and more clients, with a checkpoint after every round and no evaluation.
""",
    "precision": """## bf16
""",
}


def write_page() -> None:
    """The page, of whatever has been measured."""
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
    }
    parts = [INTRODUCTION, *machines(list(found.values()))]
    for name, text in SECTIONS.items():
        mine = {key: one for key, one in found.items() if key.partition("-")[0] == name}
        parts += [text, *(shown(key, one) for key, one in mine.items()), *more(name, found)] if mine else []
    PAGE.write_text("\n".join(part.strip() + "\n" for part in parts), encoding="utf-8")


def machines(measurements: Sequence[dict[str, Any]]) -> Iterator[str]:
    """On what, with what and when it was measured; usually one line."""
    lines = {(tuple(m["machine"].values()), tuple(m["versions"].items())): m["date"] for m in measurements}
    for (machine, versions), date in lines.items():
        words = ", ".join(f"{name} {number}" for name, number in versions)
        yield f"Measured until {date} on {machine[0]}, {machine[1]} cores, {', '.join(machine[2:])}; {words}."


def shown(name: str, measured: dict[str, Any]) -> str:
    race = msgspec.convert(measured, Race)
    return f"### {name}\n\n{as_markdown(race_table(race))}"


def more(section: str, found: dict[str, Any]) -> Iterator[str]:
    """What a section has besides its races."""
    if section == "scale":
        draw(msgspec.convert(found["scale"], Race))
        yield f"![Seconds a round by the number of clients]({PICTURE.name})"
    if section == "scale" and (memory := found.get("memory")):
        yield (f"{memory['clients']:,} clients of 5 images of CIFAR-10's shape, FedPer: there after "
               f"{memory['seconds']:.1f} s; {memory['bytes'] / 1e9:.2f} GB of memory in all processes after "
               f"{memory['rounds']} rounds.")  # fmt: skip
    if section == "precision" and (accuracy := found.get("accuracy")):
        yield accuracy_table(accuracy)


def accuracy_table(accuracy: dict[str, Any]) -> str:
    """G and P in both precisions."""
    head = ["setting", "G float32", "G bf16", "P float32", "P bf16"]
    rows = [[row["setting"], *(f"{100 * fmean(row[kind][reading]):.1f}"
                               for reading in ("generic", "personal") for kind in ("float32", "bf16"))]
            for row in accuracy["rows"]]  # fmt: skip
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    about = f"Accuracy in % of {accuracy['method']} after its last round, mean of {accuracy['seeds']} seeds:"
    return f"{about}\n\n" + "\n".join(lines)


def draw(race: Race) -> None:
    """Seconds a round by the number of clients, both on logarithmic axes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    clients = [int(name.split()[0].replace(",", "")) for name in race.laps]
    seconds = [median(lap.seconds / lap.rounds for lap in laps) for laps in race.laps.values()]
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="clients", ylabel="seconds a round", xscale="log")
    axes.plot(clients, seconds, "o-", color="#3b6ea5")
    axes.set_ylim(bottom=0)
    axes.grid(linewidth=0.3, color="0.85")
    with rc_context({"svg.hashsalt": "pluribus"}):
        figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    write_page()
