"""PerFedAvg: a start from which one local step goes far.

Fallah, Mokhtari & Ozdaglar, "Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic
Meta-Learning Approach", NeurIPS 2020.  arXiv:2002.07948

    min over w   (1/N) Σ_k L_k(w - α ∇L_k(w))

    (a) client   w' = w - α ∇L(w; D),   g = ∇L(w'; D')
    (b) client   HF: g ← g - α (∇L(w + δg; D'') - ∇L(w - δg; D'')) / 2δ;   FO leaves g as it is
    (c) client   w ← w - β g, τ times from what was received, each time on new batches
    (d) server   w ← mean of the w_k, every client counting the same
    (e) predict  generic: w; personal: w after one step of α on one batch of its own training data

Travels: w, both ways.  Stays: nothing.

Deviations
    Running statistics move in the pass at w' only; all other passes put them back.
    A newcomer takes as many steps as it has epochs.
"""

from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from pluribus import usual
from pluribus.client import Client, cross_entropy, gradients
from pluribus.method import Method, Predictors, setting
from pluribus.state import Tensors, add, copied

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class PerFedAvg(Method):
    alpha: float = setting(0.01, least=0, dull={0: "without inner steps this is FedAvg"})
    beta: float = setting(0.001, least=0)
    delta: float = setting(1e-3, above=0)
    steps: int = setting(10, least=0)
    hessian_free: bool = True

    build = usual.all_shared
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean  # (d)
    generic = usual.network_as_received  # (e)

    def train(self, client: Client) -> Tensors:
        w = weights(client)
        each = 3 if self.hessian_free else 2
        batches = client.batches(each * self.steps)  # an epoch has at least one
        with client.learning():
            for step in islice(zip(*[batches] * each, strict=False), self.steps):
                w = add(w, self.meta_gradient(client, w, *step), -self.beta)  # (c)
        client.load(w)
        return client.tensors()

    def meta_gradient(
        self, client: Client, w: Tensors, inner: Batch, outer: Batch, third: Batch | None = None
    ) -> Tensors:
        ahead = add(w, probe(client, w, inner), -self.alpha)  # (a)
        g = slope(client, ahead, outer)  # (a)
        if third is None:
            return g
        with torch.random.fork_rng(devices=[]):  # both probes see the same dropout
            forward = probe(client, add(w, g, self.delta), third)
        backward = probe(client, add(w, g, -self.delta), third)
        return add(g, add(forward, backward, -1), -self.alpha / (2 * self.delta))  # (b)

    def personal(self, client: Client) -> Predictors:
        return self.welcome(client, 1)  # (e)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        w = weights(client)
        with client.learning():
            for batch in islice(client.batches(epochs), epochs):
                w = add(w, probe(client, w, batch), -self.alpha)  # (e)
        client.load(w)
        return {"after steps": client.parts}


def weights(client: Client) -> dict[str, Tensor]:
    return copied(dict(client.parts.named_parameters()))


def slope(client: Client, at: Tensors, batch: Batch) -> dict[str, Tensor]:
    """The gradient of the batch's loss at these weights."""
    client.load(at)
    parameters = dict(client.parts.named_parameters())
    loss = cross_entropy(client.parts, *batch)
    client.work.add(loss, len(batch[1]))
    return dict(zip(parameters, gradients(loss, list(parameters.values())), strict=True))


def probe(client: Client, at: Tensors, batch: Batch) -> dict[str, Tensor]:
    """The same, and running statistics as if the network had not been used."""
    before = copied(dict(client.parts.named_buffers()))
    found = slope(client, at, batch)
    client.load(before)
    return found
