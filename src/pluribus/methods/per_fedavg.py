"""PerFedAvg: a start from which one local step goes far.

Fallah, Mokhtari & Ozdaglar, "Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic
Meta-Learning Approach", NeurIPS 2020.  arXiv:2002.07948

    min over w   (1/K) Σ_k L_k(w - α ∇L_k(w))

    (a) client   w' = w - α ∇L(w; D),   g = ∇L(w'; D')
    (b) client   gradient=hessian-free: g ← g - α (∇L(w + δg; D'') - ∇L(w - δg; D'')) / 2δ
    (c) client   w ← w - β g, `steps` times from what was received, each time on new batches
    (d) server   w ← mean of the w_k, every client counting the same
    (e) predict  generic: w;   personal: w after personal_steps of α, each on a batch of its training data;
                 a newcomer takes as many as it has epochs

gradient=first-order leaves (b) out.
Travels: w, both ways.  Stays: nothing.

Deviations
    α and β are the method's own learning rates: of the experiment's training only the batches count, and
    neither its learning rate nor momentum, weight decay or clipping.
    α = 0.01, β = 0.001 and 10 steps are the paper's, for 1,000 rounds; with fewer a larger β is in place.
    Running statistics of batch normalisation move in the pass at w' only; all others put them back.
    Both passes of (b) see the same dropout.

    @inproceedings{fallah2020personalized,
      title     = {Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic
                   Meta-Learning Approach},
      author    = {Fallah, Alireza and Mokhtari, Aryan and Ozdaglar, Asuman},
      booktitle = {Advances in Neural Information Processing Systems},
      year      = {2020}
    }
"""

from dataclasses import dataclass
from itertools import islice
from typing import Literal

from torch import Tensor

from .. import usual
from ..client import Client, cross_entropy, gradients
from ..method import Method, Predictors, setting
from ..state import Tensors, add, copied

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class PerFedAvg(Method):
    alpha: float = setting(0.01, least=0, dull={0: "without inner steps w is trained as it is, and P is G"})
    beta: float = setting(0.001, least=0, dull={0: "w never moves"})
    steps: int = setting(10, least=0, dull={0: "w never moves"})
    gradient: Literal["first-order", "hessian-free"] = "first-order"
    delta: float = setting(1e-3, above=0)
    personal_steps: int = setting(1, least=0, dull={0: "P is G"})

    build = usual.all_shared
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean  # (d)
    generic = usual.network_as_received  # (e)

    def train(self, client: Client) -> Tensors:
        w = weights(client)
        each = 2 if self.gradient == "first-order" else 3
        batches = client.batches(each * self.steps)  # enough: an epoch has one at least
        with client.learning():
            for step in islice(zip(*[batches] * each, strict=False), self.steps):
                w = add(w, self.slope_ahead(client, w, *step), -self.beta)  # (c)
        client.load(w)
        return client.tensors()

    def slope_ahead(
        self, client: Client, w: Tensors, inner: Batch, outer: Batch, third: Batch | None = None
    ) -> Tensors:
        """By which w moves: the gradient where a step leads, corrected for that step if there is a third."""
        ahead = add(w, probe(client, w, inner), -self.alpha)  # (a)
        g = slope(client, ahead, outer)  # (a)
        if third is None:
            return g
        dropout = f"probes {len(client.work.losses)}"
        with client.noise(dropout):
            forward = probe(client, add(w, g, self.delta), third)  # (b)
        with client.noise(dropout):
            backward = probe(client, add(w, g, -self.delta), third)  # (b)
        return add(g, add(forward, backward, -1), -self.alpha / (2 * self.delta))  # (b)

    def personal(self, client: Client) -> Predictors:
        return self.welcome(client, self.personal_steps)  # (e)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        w = weights(client)
        with client.learning():
            for batch in islice(client.batches(epochs), epochs):  # (e)
                w = add(w, probe(client, w, batch), -self.alpha)  # (e)
        client.load(w)
        return {"after steps": client.parts}  # (e)


def weights(client: Client) -> dict[str, Tensor]:
    return copied(dict(client.parts.named_parameters()))


def slope(client: Client, at: Tensors, batch: Batch) -> dict[str, Tensor]:
    """The gradient of the batch's loss at these weights."""
    client.load(at)
    parameters, (x, y) = dict(client.parts.named_parameters()), batch
    loss = cross_entropy(client.parts, x, y)
    client.work.add(loss, len(y))
    return dict(zip(parameters, gradients(loss, list(parameters.values())), strict=True))


def probe(client: Client, at: Tensors, batch: Batch) -> dict[str, Tensor]:
    """The same, and running statistics as if the network had not been used."""
    before = copied(dict(client.parts.named_buffers()))
    found = slope(client, at, batch)
    client.load(before)
    return found
