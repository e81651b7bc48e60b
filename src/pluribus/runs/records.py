"""What a run writes down: a line a round, a line a client, and a result. Every number in JSON is finite."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, Self

import msgspec

from ..readings.score import Score, Summary


class Sums(msgspec.Struct, frozen=True):
    """Fields that add up."""

    def __add__(self, other: Self) -> Self:
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return type(self)(*map(operator.add, mine, theirs))


class Bytes(Sums, frozen=True):
    """Payload: what clients upload and what they are sent."""

    up: int = 0
    down: int = 0


class Seconds(Sums, frozen=True):
    """Where the wall time went; `overhead` is what is left: the log, the checkpoint, the bookkeeping."""

    train: float = 0.0
    evaluate: float = 0.0
    aggregate: float = 0.0
    overhead: float = 0.0
    wall: float = 0.0


class Cohort(msgspec.Struct, frozen=True):
    """How many were asked and heard in a round; whose uploads were refused, and why."""

    asked: int
    heard: int
    refused: dict[str, str] = {}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One round. Readings are by their full names, such as `personal/network`; none if nobody was read."""

    round: int
    stages: int  # of the plan that are done
    readings: dict[str, Summary] = {}
    validation: dict[str, Summary] = {}
    missing: dict[str, str] = {}  # a kind of reading there is none of, and why
    loss: float | None
    bytes: Bytes
    total_bytes: Bytes
    samples: int
    cohort: Cohort
    seconds: Seconds


class Seen(msgspec.Struct, frozen=True):
    """A client's score under one reading."""

    accuracy: float | None
    right: int
    seen: int

    @classmethod
    def of(cls, score: Score) -> Seen:
        return cls(finite(score.accuracy), score.right, score.seen)

    @property
    def score(self) -> Score:
        return Score(self.right, self.seen)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One client, or newcomer, at the end: how many examples, of which classes, and every reading."""

    id: str
    newcomer: bool
    train: int
    val: int
    test: int
    classes: list[int]  # examples of each class to train on
    readings: dict[str, Seen]
    validation: dict[str, Seen] = {}


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One reading over the run; the first three count every example the same, the others are of the end."""

    best_on_test: float | None = None
    last: float | None = None
    selected: float | None = None  # in the round that was best on validation data
    client_mean: float | None = None
    worst_tenth: float | None = None
    spread: float | None = None


class Newcomers(msgspec.Struct, frozen=True, kw_only=True):
    """Those who never took part: without training, and after some of their own."""

    clients: int
    zero_shot: float | None = None
    adapted: float | None = None


class Hash(msgspec.Struct, frozen=True):
    """SHA-256 of the final shared state, and of all that clients keep: equal runs have equal ones."""

    shared: str
    kept: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of a run."""

    method: str
    data: str
    partition: str
    model: str
    clients: int
    rounds: int
    seed: int
    generic: Reading
    personal: Reading
    newcomers: Newcomers
    missing: dict[str, str]
    reading: dict[str, str]  # how each number was read
    readings: dict[str, Reading]  # all of them by their full names
    payload_bytes: Bytes
    wire_bytes: Bytes | None  # measured on a transport, which a simulation has not
    samples: int
    refused: int
    seconds: Seconds
    hash: Hash
    partition_hash: str
    settings_hash: str
    settings: dict[str, Any]
    warnings: list[str]
    run_dir: str

    def to_json(self) -> str:
        """The result as one readable JSON document."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def finite(number: float) -> float | None:
    """The number; None if it is not one."""
    return number if math.isfinite(number) else None


def over_run(lines: Iterable[Line], name: str) -> Reading:
    """The reading of this name over all rounds in which it was taken."""
    taken = [line for line in lines if name in line.readings]
    if not taken:
        return Reading()
    last = taken[-1].readings[name]
    return Reading(
        best_on_test=max(line.readings[name].accuracy for line in taken),
        last=last.accuracy,
        selected=selected(taken, name),
        client_mean=last.client_mean,
        worst_tenth=last.worst_tenth,
        spread=last.spread,
    )


def selected(lines: Iterable[Line], name: str) -> float | None:
    """Accuracy on test data in the first round that is best on validation data; None if there are none."""
    judged = [line for line in lines if name in line.validation]
    if not judged:
        return None
    return max(judged, key=lambda line: line.validation[name].accuracy).readings[name].accuracy
