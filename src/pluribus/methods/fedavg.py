"""FedAvg: average what the clients have trained.

McMahan, Moore, Ramage, Hampson & Agüera y Arcas, "Communication-Efficient Learning of Deep Networks
from Decentralized Data", AISTATS 2017.  arXiv:1602.05629

    min over w   Σ_k (n_k / n) L_k(w)

    (a) client   w_k ← E epochs of mini-batch SGD on L_k, from w
    (b) server   w ← Σ_{k in S} (n_k / n_S) w_k
    (c) predict  generic and personal: w

Travels: w, both ways.  Stays: nothing.

Deviations: none.

    @inproceedings{mcmahan2017communication,
      title     = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
      author    = {McMahan, H. Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and
                   Agüera y Arcas, Blaise},
      booktitle = {Artificial Intelligence and Statistics},
      year      = {2017}
    }
"""

from dataclasses import dataclass

from .. import usual
from ..client import Client
from ..method import Method
from ..state import Tensors


@dataclass(frozen=True, kw_only=True)
class FedAvg(Method):
    epochs: int = 1

    build = usual.all_shared
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (b)
    personal = usual.network_as_received  # (c)
    generic = usual.network_as_received  # (c)
    welcome = usual.tuned()

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs)  # (a)
        return client.tensors()
