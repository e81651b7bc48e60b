"""FedALA: before training, learn how much of what arrives to take.

Zhang, Hua, Wang, Song, Xue, Ma & Guan, "FedALA: Adaptive Local Aggregation for Personalized Federated
Learning", AAAI 2023.  arXiv:2212.01197

    client k, top parts:  θ̂ = θ_k + (θ - θ_k) ⊙ W_k,   W_k = argmin over [0, 1] of L_k(θ̂)

    (a) client   W_k ← clip(W_k - η_W ∂L_k/∂θ̂ ⊙ (θ - θ_k), 0, 1), batch by batch on a share of its data
    (b) client   the first time until the loss settles, later for one epoch; starts at 1
    (c) client   top parts ← θ̂, the others ← θ; then E epochs on L_k, everything trained
    (d) server   θ ← Σ_{k in S} (n_k / n_S) θ_k
    (e) predict  personal: after the mixing; generic: θ

θ_k is the client's last model.
Travels: θ, both ways.  Stays: W_k, and the top parts of θ_k.

Deviations
    The top p layers are parts, by name; the default is the head.
    Epochs of (b) end at 100 (the authors' loop may never end).  Its loss is the mean of an epoch.
    The share of the data is drawn at random (the authors take the first stored).
    Running statistics are those received: what the mixing moves is put back.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pluribus import usual
from pluribus.client import Client, cross_entropy, gradients
from pluribus.method import Method, Predictors, setting
from pluribus.state import Tensors, copied, select, within


@dataclass(frozen=True, kw_only=True)
class FedALA(Method):
    epochs: int = 1
    rate: float = setting(1.0, least=0, dull={0: "the mixing weights never move from 1: this is FedAvg"})
    share: float = setting(0.8, above=0, most=1)
    settled: float = setting(0.01, least=0)
    top: tuple[str, ...] = ("head",)

    build = usual.all_shared
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (d)
    generic = usual.network_as_received  # (e)
    welcome = usual.tuned()

    def train(self, client: Client) -> Tensors:
        client.keep("w", self.mixed(client))
        client.fit(epochs=self.epochs)  # (c)
        client.keep("own", client.tensors(*self.top))
        return client.tensors()

    def personal(self, client: Client) -> Predictors:
        self.mixed(client)
        return {"after mixing": client.parts}  # (e)

    def mixed(self, client: Client) -> dict[str, Tensor]:
        """Loads the mixture of own and received, and returns the weights; nothing is mixed the first time."""
        own = within("own", client.kept)
        if not own:
            return {}
        before = copied(client.parts.state_dict())
        top = select(dict(client.parts.named_parameters()), *self.top)
        away = {n: before[n] - own[n] for n in top}
        w = within("w", client.kept) or {n: torch.ones_like(t) for n, t in away.items()}
        limit = 1 if within("w", client.kept) else 100  # (b)
        some = torch.randperm(len(client.data), generator=client.rng("some"))
        on = client.data.take(some[: max(1, int(self.share * len(some)))])
        losses: list[float] = []
        with client.learning(*self.top):
            while len(losses) < limit and not self.is_settled(losses):
                total = 0.0
                for x, y in client.batches(1, f"mixing {len(losses)}", on=on):
                    client.load({n: torch.lerp(own[n], before[n], w[n]) for n in top})
                    loss = cross_entropy(client.parts, x, y)
                    slopes = dict(zip(top, gradients(loss, list(top.values())), strict=True))
                    w = {n: (w[n] - self.rate * slopes[n] * away[n]).clamp(0, 1) for n in top}  # (a)
                    client.work.add(loss, len(y))
                    total += loss.item() * len(y)
                losses.append(total / len(on))
        client.load({**before, **{n: torch.lerp(own[n], before[n], w[n]) for n in top}})  # (c)
        return w

    def is_settled(self, losses: list[float]) -> bool:
        """Whether the last ten epochs' losses hardly differ."""  # (b)
        return len(losses) > 10 and float(torch.tensor(losses[-10:]).std()) < self.settled
