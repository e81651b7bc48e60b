"""FedRoD: one head learns as if classes were balanced, another what a client's own classes add to it.

Chen & Chao, "On Bridging Generic and Personalized Federated Learning for Image Classification", ICLR 2022.
arXiv:2107.00778

    φ, h:   min   Σ_k (n_k / n) mean CE(h(z) + γ log n_kc, y)      z = φ(x),  n_kc examples of class c
    h_k:    min   mean CE(h(z) + h_k(z), y)                        z and h(z) held still

    (a) client   h_k at first: a copy of the h that it receives
    (b) client   batch by batch: φ_k, h_gk ← a step on CE(h(z) + γ log n_kc, y), from φ and h as received
    (c) client   and h_k ← a step on CE(h(z) + h_k(z), y), with z and h(z) from before that of (b)
    (d) client   own_head=hypernetwork: h_k = H(a_k; ν), a_k the share of each class; (c) moves ν, as received
    (e) server   φ, h (and ν) ← Σ_{k in S} (n_k / n_S) of everybody's
    (f) predict  generic: h(z), without the prior;   personal: h(z) + h_k(z)
    (g) predict  newcomer: h(z) + h_k(z), h_k as in (a) or (d); adapted, it has trained h_k, or ν, as in (c)

φ is all before the head h.  A class that a client has not is left out of its softmax in (b).
H is two linear layers with ReLU between, and makes weights and biases of a linear head.
Travels: φ and h, both ways; ν with them, if there is one.  Stays: h_k.

Deviations
    There is no code of the authors.  That (b) and (c) share a batch, z and h(z) is as in PFLlib; others
    train h_k in a second pass.  φ and h feel nothing of (c) in either.
    n_kc counts all examples of a client.  With one class only, (b) has nothing to say: its gradient is 0.
    A client that was never selected predicts as one that is now: h_k is h, so that P is G.
    How wide H is inside (`hidden`), and that a newcomer adapts ν, are our choice.

    @inproceedings{chen2022bridging,
      title     = {On Bridging Generic and Personalized Federated Learning for Image Classification},
      author    = {Chen, Hong-You and Chao, Wei-Lun},
      booktitle = {International Conference on Learning Representations},
      year      = {2022}
    }
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from .. import usual
from ..client import Client, Parts
from ..losses import balanced_cross_entropy
from ..method import Method, Network, Part, Predictors, setting, shared_part
from ..state import Tensors, select

OWN = {"linear": "head_personal", "hypernetwork": "hypernetwork"}  # the part that (c) moves


@dataclass(frozen=True, kw_only=True)
class FedRoD(Method):
    epochs: int = 1
    gamma: float = setting(1.0, least=0, dull={0: "without the prior φ and h are FedAvg's"})
    own_head: Literal["linear", "hypernetwork"] = "linear"
    hidden: int = setting(32, least=1)

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (e)
    generic = usual.network_as_received  # (f)

    def with_hypernetwork(self, network: Network) -> Mapping[str, Part]:
        usual.children_with(["head"], self, network)
        classes, numbers = network.classes, (network.features + 1) * network.classes
        layers = nn.Linear(classes, self.hidden), nn.ReLU(), nn.Linear(self.hidden, numbers)  # (d)
        made = nn.Sequential(*layers).to(next(network.parameters()).dtype)
        return {**usual.all_shared(self, network), "hypernetwork": shared_part(made)}

    build = usual.by_setting(
        "own_head", linear=usual.all_shared_and_own("head"), hypernetwork=with_hypernetwork
    )

    def train(self, client: Client) -> Tensors:
        self.begin(client)
        parts, counts = client.parts, client.data.counts
        steps = {"generic": client.optimiser(*parts.path, moments="generic")}
        steps["personal"] = client.optimiser(OWN[self.own_head], moments="personal")
        with client.learning():
            for x, y in client.batches(self.epochs):
                z = parts.features(x)
                o = parts.head(z)
                balanced = balanced_cross_entropy(o, y, counts, self.gamma)
                client.descend(steps["generic"], balanced, len(y))  # (b)
                both = o.detach() + self.added(client, z.detach())
                client.descend(steps["personal"], F.cross_entropy(both, y), len(y))  # (c)
        if client.training.keep_moments:
            for name, optimiser in steps.items():
                client.keep_moments(name, optimiser)
        return client.tensors()

    def begin(self, client: Client) -> None:
        """h_k of a client that has none yet."""
        if self.own_head == "linear" and not select(client.kept, "head_personal"):
            client.parts.head_personal.load_state_dict(client.parts.head.state_dict())  # (a)

    def added(self, client: Client, z: Tensor) -> Tensor:
        """h_k(z)."""
        parts, data = client.parts, client.data
        if self.own_head == "linear":
            return parts.head_personal(z)  # type: ignore[no-any-return]
        made = parts.hypernetwork((data.counts / max(1, len(data))).to(z))  # (d)
        weight, bias = made[: -data.classes], made[-data.classes :]  # (d)
        return F.linear(z.flatten(1), weight.view(data.classes, -1), bias)  # (d)

    def both(self, client: Client, x: Tensor) -> Tensor:
        """h(z) + h_k(z)."""
        z = client.parts.features(x)
        return client.parts.head(z) + self.added(client, z)  # type: ignore[no-any-return]

    def personal(self, client: Client) -> Predictors:
        self.begin(client)
        return {"both heads": lambda x: self.both(client, x)}  # (f)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        def own_loss(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(self.both(client, x), y)

        self.begin(client)
        z = client.through(*client.parts.path[:-1])
        client.fit(own_loss, epochs=epochs, train=[OWN[self.own_head]], on=z)  # (g)
        return {"both heads": lambda x: self.both(client, x)}  # (g)
