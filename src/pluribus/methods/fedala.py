"""FedALA: before training, each client learns how much of what arrives to take.

Zhang, Hua, Wang, Song, Xue, Ma & Guan, "FedALA: Adaptive Local Aggregation for Personalized Federated
Learning", AAAI 2023.  arXiv:2212.01197

    client k, top p layers:  θ̂ = θ_k + (θ - θ_k) ⊙ W_k,   W_k = argmin over [0, 1] of L_k(θ̂)

    (a) client   W_k ← clip(W_k - η ∂L_k/∂θ̂ ⊙ (θ - θ_k), 0, 1), batch by batch on a share of its data; at
                 first 1
    (b) client   the first time epochs of (a) until the loss settles, later one epoch
    (c) client   top layers ← θ̂, the others ← θ; then E epochs on L_k, everything trained
    (d) server   θ ← Σ_{k in S} (n_k / n_S) θ_k
    (e) predict  personal: after the mixing; generic: θ

θ is what was received, θ_k the client's last model; in its first turn there is none, and nothing is mixed.
A layer is a module with parameters of its own.  Losses have settled when those of the last ten epochs
deviate by less than `settled`.
Travels: θ, both ways.  Stays: W_k, and the top layers of θ_k.

Deviations
    The epochs of (b) end at 100: the authors' loop may never end.  An epoch's loss is its mean, theirs that
    of its last batch, and settled is 0.01 as in the paper, in their code 0.1.
    p counts layers; their code counts tensors, and its 2 are the weight and bias of one layer.
    The share of the data is drawn at random, anew in each round; theirs is a run of stored examples.
    Only clients that are asked learn W_k.  A reading before training mixes likewise and keeps nothing.
    In (a) the network is in training mode; the running statistics that it moves are put back.

    @inproceedings{zhang2023fedala,
      title     = {{FedALA}: Adaptive Local Aggregation for Personalized Federated Learning},
      author    = {Zhang, Jianqing and Hua, Yang and Wang, Hao and Song, Tao and Xue, Zhengui and
                   Ma, Ruhui and Guan, Haibing},
      booktitle = {AAAI Conference on Artificial Intelligence},
      year      = {2023}
    }
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor

from .. import usual
from ..client import Client, Examples, Parts, cross_entropy, gradients
from ..method import Method, Predictors, setting
from ..state import Tensors, part_of, within

MOST_EPOCHS = 100  # of mixing in one turn


@dataclass(frozen=True, kw_only=True)
class FedALA(Method):
    epochs: int = 1
    eta: float = setting(1.0, least=0, dull={0: "the mixing weights never move from 1: this is FedAvg"})
    share: float = setting(0.8, above=0, most=1)
    p: int = setting(1, least=0, dull={0: "no layer is mixed: this is FedAvg"})
    settled: float = setting(0.01, least=0)

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
        client.keep("own", top_layers(client.parts, self.p))
        return client.tensors()

    def personal(self, client: Client) -> Predictors:
        self.mixed(client)  # (e)
        return {"after mixing": client.parts}  # (e)

    def mixed(self, client: Client) -> Tensors:
        """Loads the mixture of own and received, and returns the weights; none if there is nothing to mix."""
        own = within("own", client.kept)
        if not own:
            return {}
        received = {n: t.clone() for n, t in client.parts.state_dict().items()}
        on = self.some_of(client, own)
        w: Tensors = within("w", client.kept)
        limit = 1 if w else MOST_EPOCHS  # (b)
        w = w or {n: torch.ones_like(t) for n, t in own.items()}  # (a)
        losses: list[float] = []
        while len(losses) < limit and not self.are_settled(losses):  # (b)
            w, loss = self.learnt(client, own, received, w, on, f"mixing {len(losses)}")
            losses.append(loss)
        client.load({**received, **between(own, received, w)})  # (c)
        return w

    def some_of(self, client: Client, own: Tensors) -> Examples:
        """A share of its data at random, behind the parts in which nothing is mixed."""
        mixed = {part_of(name) for name in own}
        on = client.through(*takewhile(lambda part: part not in mixed, client.parts.path))
        order = torch.randperm(len(on), generator=client.rng("share"))
        return on.take(order[: max(1, int(self.share * len(on)))])  # (a)

    def learnt(
        self, client: Client, own: Tensors, received: Tensors, w: Tensors, on: Examples, phase: str
    ) -> tuple[Tensors, float]:
        """The weights after an epoch, and its mean loss."""
        top = {n: p for n, p in client.parts.named_parameters() if n in own}
        total, seen = 0.0, 0
        with client.learning(), client.parts.behind(on.through):
            for x, y in client.batches(1, phase, on=on):
                client.load(between(own, received, w))  # (a)
                loss = cross_entropy(client.parts, x, y)  # (a)
                slopes = dict(zip(top, gradients(loss, list(top.values())), strict=True))
                w = {
                    n: (t - self.eta * slopes[n] * (received[n] - own[n])).clamp(0, 1)  # (a)
                    for n, t in w.items()
                }
                client.work.add(loss, len(y))
                total, seen = total + loss.item() * len(y), seen + len(y)
        return w, total / max(1, seen)

    def are_settled(self, losses: Sequence[float]) -> bool:
        """Whether the last ten hardly differ, and there is one before them."""
        return len(losses) > 10 and float(torch.tensor(losses[-10:]).std()) < self.settled  # (b)


def between(own: Tensors, received: Tensors, w: Tensors) -> dict[str, Tensor]:
    """θ̂: exactly its own at 0, exactly what was received at 1."""
    return {n: torch.lerp(t, received[n], w[n]) for n, t in own.items()}


def top_layers(parts: Parts, p: int) -> dict[str, Tensor]:
    """The parameters of the last p modules on the path that have any of their own."""
    layers = [
        path
        for part in parts.path
        for path, module in parts[part].named_modules(prefix=part)
        if next(module.parameters(recurse=False), None) is not None
    ]
    top = set(layers[max(0, len(layers) - p) :])
    return {n: t for n, t in parts.named_parameters() if n.rpartition(".")[0] in top}
