"""FedProx: FedAvg, with a pull back to what was received.

Li, Sahu, Zaheer, Sanjabi, Talwalkar & Smith, "Federated Optimization in Heterogeneous Networks",
MLSys 2020.  arXiv:1812.06127

    client k:  min over w   L_k(w) + μ/2 ‖w - w_t‖²

    (a) client   w_k ← E epochs on L_k(w) + μ/2 ‖w - w_t‖², from w_t
    (b) server   w ← Σ_{k in S} (n_k / n_S) w_k
    (c) predict  generic and personal: w

The pull is part of the loss, so it passes through momentum like any gradient; w_t is what was received.
Travels: w, both ways.  Stays: nothing.

Deviations
    Clients are drawn uniformly and weighted by n_k, as in the authors' code; the paper's text draws
    them with probability n_k / n and averages uniformly.
    Stragglers that do fewer epochs are not simulated.
    The paper tunes μ in {0.001, 0.01, 0.1, 1}; its default here is 0.01.

    @inproceedings{li2020federated,
      title     = {Federated Optimization in Heterogeneous Networks},
      author    = {Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and
                   Talwalkar, Ameet and Smith, Virginia},
      booktitle = {Proceedings of Machine Learning and Systems},
      year      = {2020}
    }
"""

from dataclasses import dataclass

from torch import Tensor

from .. import usual
from ..client import Client, Parts, cross_entropy
from ..losses import square_pull
from ..method import Method, setting
from ..state import Tensors


@dataclass(frozen=True, kw_only=True)
class FedProx(Method):
    epochs: int = 1
    mu: float = setting(0.01, least=0, dull={0: "without the pull this is FedAvg"})

    build = usual.all_shared
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (b)
    personal = usual.network_as_received  # (c)
    generic = usual.network_as_received  # (c)
    welcome = usual.tuned()

    def train(self, client: Client) -> Tensors:
        def pulled(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
            pull = square_pull(parts.named_parameters(), client.received)
            return cross_entropy(parts, x, y) + self.mu / 2 * pull

        client.fit(pulled, epochs=self.epochs)  # (a)
        return client.tensors()
