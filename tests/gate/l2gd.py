"""L2GD: a common coin says step alone, or move towards the mean.

Hanzely & Richtárik, "Federated Learning of a Mixture of Global and Local Models", 2020.  arXiv:2002.05516

    min over x_1..x_N   (1/N) Σ_k L_k(x_k) + λ/(2N) Σ_k ‖x_k - x̄‖²

    (a) plan     each event is averaging with probability p, else local; one coin for all
    (b) client   local: x_k ← E epochs on L_k, from x_k
    (c) server   x̄ ← mean of the x_k, every client counting the same; asked for only if they moved since
    (d) client   averaging: x_k ← (1 - a) x_k + a x̄
    (e) predict  personal: x_k; generic: x̄

a is αλ/(Np) with the paper's step size α; its local step size α/(N(1 - p)) is the learning rate.
Travels: x_k up and x̄ down, once for each local event that an averaging follows.
Stays: x_k, and x̄ as last received.

Deviations
    A local event is E epochs instead of one step.  Running statistics stay local.
    A newcomer begins at x̄ and moves back towards it after each epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from pluribus import usual
from pluribus.client import Client
from pluribus.method import Method, Part, Predictors, children, setting, shared_part
from pluribus.stage import Stage
from pluribus.state import Tensors, mix, within


@dataclass(frozen=True, kw_only=True)
class L2GD(Method):
    p: float = setting(0.5, least=0, most=1, dull={0: "nobody ever averages", 1: "nobody ever trains"})
    a: float = setting(0.3, least=0, most=1, dull={0: "averaging moves nobody"})
    epochs: int = 1

    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean  # (c)
    generic = usual.network_as_received  # (e)

    def build(self, network: nn.Module) -> dict[str, Part]:
        return {name: shared_part(module, statistics="local") for name, module in children(network).items()}

    def plan(self, rounds: int, rng: torch.Generator) -> Sequence[Stage]:
        stages, moved = [], False
        for t in range(1, rounds + 1):
            averaging = bool(torch.rand((), generator=rng) < self.p)  # (a)
            news = averaging and moved
            if news:
                stages.append(Stage("collect", t, rounds, everyone=True, send=False))  # (c)
            name = "average" if averaging else "local"
            stages.append(Stage(name, t, rounds, everyone=True, send=news, reply=False))
            moved = not averaging
        return stages

    def local(self, client: Client) -> None:
        client.load(within("own", client.kept))
        client.fit(epochs=self.epochs)  # (b)
        client.keep("own", client.tensors())

    def collect(self, client: Client) -> Tensors:
        return within("own", client.kept)

    def average(self, client: Client) -> None:
        own = within("own", client.kept) or client.tensors()
        mean = client.received or within("mean", client.kept) or own
        client.keep("own", mix(own, mean, self.a))  # (d)
        client.keep("mean", mean)

    train = usual.by_stage(local=local, collect=collect, average=average)

    def personal(self, client: Client) -> Predictors:
        client.load(within("own", client.kept))
        return {"own": client.parts}  # (e)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        for epoch in range(epochs):
            client.fit(epochs=1, phase=f"epoch {epoch}")
            client.load(mix(client.tensors(), client.received, self.a))
        return {"own": client.parts}
