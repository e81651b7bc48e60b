"""Devices that hold what they keep: a turn names the exchange whose state to go back to. For tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..state import Tensors
from ..turn import Outcome, Turn
from . import Executor


class Devices:
    """Around another executor. A device needs two states: the last accepted one, and the one in doubt."""

    def __init__(self, network: Executor):
        self.network = network
        self.holds: dict[str, dict[int, Tensors]] = defaultdict(dict)

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        def on_device(turn: Turn) -> Outcome:
            states = self.holds[turn.client]
            outcome: Outcome = work(replace(turn, kept=states[turn.since] if turn.since else {}))
            for number in [n for n in states if n < turn.since]:
                del states[number]
            states[turn.number] = outcome.kept
            return outcome

        yield from self.network.run(on_device, [replace(turn, kept={}) for turn in items])
