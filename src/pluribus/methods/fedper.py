"""FedPer: a shared encoder, a head of one's own.

Arivazhagan, Aggarwal, Singh & Choudhary, "Federated Learning with Personalization Layers", 2019.
arXiv:1912.00818

    min over φ, h_1..h_K   Σ_k (n_k / n) L_k(h_k ∘ φ)

    (a) client   φ_k, h_k ← E epochs on L_k, both at once, from φ and its own h_k
    (b) server   φ ← Σ_{k in S} (n_k / n_S) φ_k
    (c) predict  personal: h_k ∘ φ

φ is the encoder and all else before the head; h_k the head of client k.
Travels: φ, both ways.  Stays: h_k.

Deviations: none.  How many layers the head has is a setting of the model.

    @article{arivazhagan2019federated,
      title   = {Federated Learning with Personalization Layers},
      author  = {Arivazhagan, Manoj Ghuhan and Aggarwal, Vinay and Singh, Aaditya Kumar and Choudhary, Sunav},
      journal = {arXiv preprint arXiv:1912.00818},
      year    = {2019}
    }
"""

from dataclasses import dataclass

from .. import usual
from ..client import Client
from ..method import Method
from ..state import Tensors


@dataclass(frozen=True, kw_only=True)
class FedPer(Method):
    epochs: int = 1

    build = usual.all_shared_but("head")
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (b)
    personal = usual.network_as_received  # (c)
    generic = usual.none_because("every client has a head of its own")
    welcome = usual.tuned("head")

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs)  # (a)
        return client.tensors()
