"""Local: every client alone; the reference that any collaboration must beat.

    min over w_k   L_k(w_k),   for each client k by itself

    (a) plan     every client trains in every round, whatever the cohort of other methods
    (b) client   w_k ← E epochs on L_k, from its own w_k
    (c) predict  personal: w_k

Travels: nothing.  Stays: w_k.

Deviations: there is no paper.  All clients start from the same initial network.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .. import usual
from ..client import Client
from ..method import Method
from ..stage import Stage


@dataclass(frozen=True, kw_only=True)
class Local(Method):
    epochs: int = 1

    build = usual.all_personal
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.nothing_to_aggregate
    personal = usual.network_as_received  # (c)
    generic = usual.none_because("nobody shares anything")
    welcome = usual.tuned()

    def plan(self, rounds: int, rng: torch.Generator) -> Sequence[Stage]:
        return [
            Stage("round", t, rounds, everyone=True, send=False, reply=False) for t in range(1, rounds + 1)
        ]  # (a)

    def train(self, client: Client) -> None:
        client.fit(epochs=self.epochs)  # (b)
