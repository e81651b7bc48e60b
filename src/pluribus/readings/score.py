"""Accuracy as a value that adds, and what is derived from one for each client."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """So many right of so many seen. Over batches, clients and workers it is the same sum."""

    right: int = 0
    seen: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(self.right + other.right, self.seen + other.seen)

    @property
    def accuracy(self) -> float:
        """The fraction that is right; NaN if nothing was seen."""
        return self.right / self.seen if self.seen else math.nan


@dataclass(frozen=True)
class Summary:
    """One reading of one model over all clients."""

    accuracy: float  # every example counts the same
    client_mean: float  # every client counts the same
    worst_tenth: float  # mean over the worst tenth of the clients, at least one
    spread: float  # standard deviation over clients
    clients: int


def summary(scores: Mapping[str, Score]) -> Summary | None:
    """None if no client has anything to be tested on."""
    each = sorted(s.accuracy for s in scores.values() if s.seen)
    if not each:
        return None
    mean = sum(each) / len(each)
    worst = each[: max(1, len(each) // 10)]
    spread = math.sqrt(sum((a - mean) ** 2 for a in each) / len(each))
    return Summary(total(scores.values()).accuracy, mean, sum(worst) / len(worst), spread, len(each))


def total(scores: Iterable[Score]) -> Score:
    return sum(scores, Score())


def joint_score(generic: float, personal: float) -> float:
    """ln(10 G) + ln(10 P) of two fractions, by which FedReG's Figure 7 compares: both must be high."""
    return math.log(100 * generic * personal) if generic * personal > 0 else -math.inf
