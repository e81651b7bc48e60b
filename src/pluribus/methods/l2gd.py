"""L2GD: a common coin says train alone, or move towards the mean.

Hanzely & Richtárik, "Federated Learning of a Mixture of Global and Local Models", 2020.  arXiv:2002.05516

    min over x_1..x_K   (1/K) Σ_k L_k(x_k) + λ/(2K) Σ_k ‖x_k - x̄‖²,    x̄ = (1/K) Σ_k x_k

    (a) plan     each round is averaging with probability p, else local; one coin for all
    (b) client   local: x_k ← E epochs on L_k, from its own x_k; at first from the initial network
    (c) server   x̄ ← mean of the x_k, every client counting the same; asked for only if they moved since
    (d) client   averaging: x_k ← (1 - a) x_k + a x̄
    (e) predict  personal: x_k; generic: x̄ as last taken
    (f) predict  newcomer: x̄; adapted, moved back towards x̄ by a after each epoch of its own

With the paper's step size α, a is αλ/(Kp) and the learning rate η is α/(K(1 - p)): λ is a p / (η (1 - p)).
Travels: x_k up and x̄ down, once for each local round that an averaging follows.
Stays: x_k, and x̄ as last received.

Deviations
    A local round is E epochs instead of one step on all examples; unit=step is one minibatch.
    Everybody takes part in every round, as the theory asks, whatever share of clients a run is to ask;
    with who=cohort those asked alone train, are averaged and move, and x̄ travels in every averaging.
    The paper chooses p and a by λ and the smoothness of L; 1/2 and 0.3 are ours, and a <= 1/2 as its theory
    asks.
    Running statistics of batch normalisation stay local.

    @article{hanzely2020federated,
      title   = {Federated Learning of a Mixture of Global and Local Models},
      author  = {Hanzely, Filip and Richtárik, Peter},
      journal = {arXiv preprint arXiv:2002.05516},
      year    = {2020}
    }
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from .. import usual
from ..client import Client
from ..method import Method, Network, Part, Predictors, children, setting, shared_part
from ..stage import Stage
from ..state import Tensors, mix, within


@dataclass(frozen=True, kw_only=True)
class L2GD(Method):
    p: float = setting(0.5, least=0, most=1, dull={0: "nobody ever averages", 1: "nobody ever trains"})
    a: float = setting(0.3, least=0, most=1, dull={0: "averaging moves nobody: this is Local"})
    epochs: int = setting(1, dull={0: "nobody ever trains"})
    unit: Literal["epochs", "step"] = "epochs"
    who: Literal["everyone", "cohort"] = "everyone"

    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean  # (c)
    generic = usual.network_as_received  # (e)

    def build(self, network: Network) -> Mapping[str, Part]:
        return {name: shared_part(module, statistics="local") for name, module in children(network).items()}

    def plan(self, rounds: int, rng: torch.Generator) -> Sequence[Stage]:
        everyone, moved = self.who == "everyone", False
        stages: list[Stage] = []
        for t in range(1, rounds + 1):
            averaging = bool(torch.rand((), generator=rng) < self.p)  # (a)
            news = averaging and self.a > 0 and (moved or not everyone)  # (c)
            if news:
                stages.append(Stage("collect", t, rounds, everyone, send=False))  # (c)
            name = "average" if averaging else "local"  # (a)
            stages.append(Stage(name, t, rounds, everyone, send=news, reply=False))
            moved = not averaging  # (c)
        return stages

    def local(self, client: Client) -> None:
        client.load(within("own", client.kept))  # (b)
        some = torch.randperm(len(client.data), generator=client.rng("step"))[: client.training.batch]
        if self.unit == "step":
            client.fit(epochs=1, on=client.data.take(some))  # (b)
        else:
            client.fit(epochs=self.epochs)  # (b)
        client.keep("own", client.tensors())  # (b)

    def collect(self, client: Client) -> Tensors:
        return within("own", client.kept) or client.tensors()

    def average(self, client: Client) -> None:
        own = self.collect(client)
        mean = client.received or within("mean", client.kept) or own
        client.keep("own", mix(own, mean, self.a))  # (d)
        client.keep("mean", mean)

    train = usual.by_stage(local=local, collect=collect, average=average)

    def personal(self, client: Client) -> Predictors:
        client.load(within("own", client.kept))  # (e)
        return {"own": client.parts}  # (e)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        for epoch in range(epochs):
            client.fit(epochs=1, phase=f"epoch {epoch}")  # (f)
            client.load(mix(client.tensors(), client.received, self.a))  # (f)
        return {"own": client.parts}
