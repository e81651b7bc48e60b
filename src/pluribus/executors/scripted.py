"""A bad network, the same every time: it reorders, drops, repeats and holds replies back. For tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch

from ..seeds import generator

Fate = Literal["ok", "drop", "twice", "late"]


class Scripted:
    """`fate(item)` is "ok", "drop", "twice" or "late" (delivered when the next stage runs)."""

    def __init__(self, fate: Callable[[Any], Fate] = lambda item: "ok", seed: int = 0):
        self.fate, self.seed = fate, seed
        self.late: list[Any] = []
        self.calls = 0

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        yield from self.late
        self.late, self.calls = [], self.calls + 1
        replies: list[Any] = []
        for i in torch.randperm(len(items), generator=generator(self.seed, self.calls)).tolist():
            fate, result = self.fate(items[i]), work(items[i])
            replies += [result] * {"ok": 1, "twice": 2, "drop": 0, "late": 0}[fate]
            self.late += [result] if fate == "late" else []
        yield from replies
