"""What stays of a finished cell: one small JSON file, the same form on every machine.

`read(path)` gives back what `as_bytes` made; a file that is torn or was changed by hand is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import RunError
from ..readings.score import Summary
from ..runs.contents import environment_in, members_of, rounds_in
from ..runs.environment import Environment
from ..runs.records import Bytes, Hash, Line, Member, Newcomers, Reading, Result, Seconds
from .experiment import Number, When

DIGITS = 6  # of an accuracy: one example of a million
LOSS_DIGITS, SECONDS_DIGITS = 4, 1
S = TypeVar("S", bound=msgspec.Struct)


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """A reading in each round in which it was taken."""

    rounds: list[int]
    accuracy: list[float]
    client_mean: list[float]
    validation: list[float] = []

    def at(self, when: When, values: Sequence[float]) -> float | None:
        """Of values of these rounds the last, the largest, or the one that validation data choose."""
        if when == "last":
            return values[-1]
        if when == "best_on_test":
            return max(values)
        return values[self.validation.index(max(self.validation))] if self.validation else None


class Clients(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody at the end, in one order: examples to train and test on, and how many of those were right."""

    id: list[str]
    newcomer: list[str]  # those of them that never took part
    train: list[int]
    test: list[int]
    right: dict[str, list[int | None]]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Where the run began: what may change its bits, and its speed."""

    versions: dict[str, str]
    machine: str
    capability: str
    cores: int
    commit: str | None


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cell, with all that a table, a figure or a comparison of it needs."""

    settings_hash: str
    settings: dict[str, Any]
    partition_hash: str
    readings: dict[str, Reading]
    newcomers: Newcomers
    missing: dict[str, str]
    courses: dict[str, Course]
    losses: list[float | None]  # in training, of each round
    clients: Clients
    payload_bytes: Bytes
    samples: int
    refused: int
    seconds: Seconds
    hash: Hash
    warnings: list[str]
    where: Where | None

    def number(self, number: Number) -> float | None:
        """This number as a fraction; None if the run has none."""
        if number.of in ("zero-shot", "adapted"):
            late = self.newcomers
            return late.zero_shot if number.of == "zero-shot" else late.adapted
        course = next(
            (c for name, c in self.courses.items() if number.of in (name, name.split("/", 1)[0])), None
        )
        if course is None:
            return None
        values = course.accuracy if number.over == "examples" else course.client_mean
        return course.at(number.when, values)

    def as_bytes(self) -> bytes:
        """A line for each field, so that two of them can be compared line by line."""
        fields = (
            f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False, sort_keys=name == 'settings')}"
            for name, value in msgspec.to_builtins(self).items()
        )
        return ("{\n" + ",\n".join(fields) + "\n}\n").encode()


# made ---------------------------------------------------------------------------------------------------


def of_run(result: Result) -> Finished:
    """What stays of the finished run with this result."""
    lines, members = rounds_in(result.run_dir), members_of(result.run_dir)
    return Finished(
        settings_hash=result.settings_hash,
        settings=result.settings,
        partition_hash=result.partition_hash,
        readings={name: rounded(reading) for name, reading in result.readings.items()},
        newcomers=rounded(result.newcomers),
        missing=result.missing,
        courses={name: course(lines, name) for name in result.readings},
        losses=[None if line.loss is None else round(line.loss, LOSS_DIGITS) for line in lines],
        clients=clients(members),
        payload_bytes=result.payload_bytes,
        samples=result.samples,
        refused=result.refused,
        seconds=rounded(result.seconds, SECONDS_DIGITS),
        hash=result.hash,
        warnings=result.warnings,
        where=where(environment_in(Path(result.run_dir))),
    )


def rounded(values: S, digits: int = DIGITS) -> S:
    """The same with fewer digits."""
    plain = msgspec.structs.asdict(values)
    return type(values)(**{n: round(v, digits) if isinstance(v, float) else v for n, v in plain.items()})


def course(lines: Sequence[Line], name: str) -> Course:
    taken = [line for line in lines if name in line.readings]
    judged: list[Summary] = [line.validation[name] for line in taken if name in line.validation]
    return Course(
        rounds=[line.round for line in taken],
        accuracy=[round(line.readings[name].accuracy, DIGITS) for line in taken],
        client_mean=[round(line.readings[name].client_mean, DIGITS) for line in taken],
        validation=[round(summary.accuracy, DIGITS) for summary in judged],
    )


def clients(members: Sequence[Member]) -> Clients:
    names = dict.fromkeys(name for member in members for name in member.readings)
    return Clients(
        id=[m.id for m in members],
        newcomer=[m.id for m in members if m.newcomer],
        train=[m.train for m in members],
        test=[m.test for m in members],
        right={n: [m.readings[n].right if n in m.readings else None for m in members] for n in names},
    )


def where(environment: Environment | None) -> Where | None:
    if environment is None:
        return None
    return Where(**{f.name: getattr(environment, f.name) for f in msgspec.structs.fields(Where)})


# read ---------------------------------------------------------------------------------------------------


def read(path: Path) -> Finished:
    """The finished cell in this file."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Finished)
    except (OSError, msgspec.MsgspecError) as error:
        raise RunError(f"{path} is damaged: {error}") from None
    settings = hashlib.sha256(msgspec.json.encode(found.settings, order="deterministic")).hexdigest()
    if found.settings_hash != settings or not settings.startswith(path.stem):
        raise RunError(f"{path} is damaged: it is not the cell of the settings in it")
    return found
