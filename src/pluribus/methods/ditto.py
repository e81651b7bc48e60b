"""Ditto: FedAvg's model for everybody, and beside it one of one's own that is pulled towards it.

Li, Hu, Beirami & Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021.
arXiv:2012.04221

    w:          min   Σ_k (n_k / n) L_k(w)
    client k:   min over v_k   L_k(v_k) + λ/2 ‖v_k - w_t‖²

    (a) client   w_k ← E epochs on L_k(w), from w_t
    (b) client   v_k ← personal_epochs on L_k(v) + λ/2 ‖v - w_t‖², from its own v_k; w_t is what was received
    (c) server   w ← Σ_{k in S} (n_k / n_S) w_k
    (d) predict  personal: v_k;   generic: w;   newcomer: w; adapted, it has trained a v of its own, from w

The pull is part of the loss, so it passes through momentum like any gradient; running statistics feel none.
Travels: w, both ways.  Stays: v_k.

Deviations
    The authors' code trains w and v in turns, with the same batches; here one after the other, each with
    batches drawn for itself.  Neither feels the other within a turn.
    Clients weigh by n_k; the authors' code adds the plain mean of what clients changed.
    λ is the same for everybody: 1, as in the authors' scripts.  Their paper also picks it client by client
    from {0.1, 1, 2}, on validation data.
    All v_k start as w starts, whenever a client is first selected.

    @inproceedings{li2021ditto,
      title     = {Ditto: Fair and Robust Federated Learning Through Personalization},
      author    = {Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia},
      booktitle = {International Conference on Machine Learning},
      year      = {2021}
    }
"""

from dataclasses import dataclass

from torch import Tensor

from .. import usual
from ..client import Client, Parts, cross_entropy
from ..losses import square_pull
from ..method import Method, Predictors, setting
from ..state import Tensors


def own(parts: Parts) -> Parts:
    """v_k: the network of a client's own parts, under the names of those that travel."""
    return Parts({name: parts[f"{name}_personal"] for name in parts.path}, parts.path)


@dataclass(frozen=True, kw_only=True)
class Ditto(Method):
    epochs: int = 1
    personal_epochs: int = setting(1, least=0, dull={0: "v_k never moves"})
    lam: float = setting(1.0, least=0, dull={0: "without the pull v_k is Local's"})

    build = usual.all_shared_and_own()
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (c)
    generic = usual.network_as_received  # (d)

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs, train=client.parts.path, phase="all")  # (a)
        self.fit_own(client, self.personal_epochs)  # (b)
        return client.tensors()

    def fit_own(self, client: Client, epochs: int) -> None:
        v = own(client.parts)

        def pulled(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
            pull = square_pull(v.named_parameters(), client.received)
            return cross_entropy(v, x, y) + self.lam / 2 * pull

        names = [f"{name}_personal" for name in client.parts.path]
        client.fit(pulled, epochs=epochs, train=names, phase="personal")

    def personal(self, client: Client) -> Predictors:
        return {"own network": own(client.parts)}  # (d)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        for name in client.parts.path:
            client.parts[f"{name}_personal"].load_state_dict(client.parts[name].state_dict())  # (d)
        self.fit_own(client, epochs)  # (d)
        return self.personal(client)
