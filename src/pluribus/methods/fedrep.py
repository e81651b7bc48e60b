"""FedRep: learn the head to the end, then move the shared body a little.

Collins, Hassani, Mokhtari & Shakkottai, "Exploiting Shared Representations for Personalized Federated
Learning", ICML 2021.  arXiv:2102.07078

    min over φ, h_1..h_K   (1/K) Σ_k L_k(h_k ∘ φ)

    (a) client   h_k ← head_epochs on L_k(h ∘ φ), φ fixed, from its own h_k
    (b) client   φ_k ← body_epochs on L_k(h_k ∘ φ), h_k fixed, from φ
    (c) server   φ ← Σ_{k in S} (n_k / n_S) φ_k
    (d) predict  personal: h_k ∘ φ

φ is the body, which is the encoder and all else before the head; h_k the head of client k.
Travels: φ, both ways.  Stays: h_k.

Deviations
    Steps are counted in epochs, as in the paper's experiments.
    Clients weigh by n_k (the authors' code does so for FEMNIST and Sent140; uniform for CIFAR).
    In (a) the network is in training mode, as in the authors' code: running statistics of
    batch normalisation move, the body's weights do not.
    No last round of head training for everybody; `welcome` and the reading on trained models show it.

    @inproceedings{collins2021exploiting,
      title     = {Exploiting Shared Representations for Personalized Federated Learning},
      author    = {Collins, Liam and Hassani, Hamed and Mokhtari, Aryan and Shakkottai, Sanjay},
      booktitle = {International Conference on Machine Learning},
      year      = {2021}
    }
"""

from dataclasses import dataclass

from .. import usual
from ..client import Client
from ..method import Method, setting
from ..state import Tensors


@dataclass(frozen=True, kw_only=True)
class FedRep(Method):
    head_epochs: int = 10
    body_epochs: int = setting(1, least=0, dull={0: "the body never moves"})

    build = usual.all_shared_but("head")
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (c)
    personal = usual.network_as_received  # (d)
    generic = usual.none_because("every client has a head of its own")
    welcome = usual.tuned("head")

    def train(self, client: Client) -> Tensors:
        body = [name for name in client.parts if name != "head"]
        client.fit(epochs=self.head_epochs, train=["head"], on=client.through(*body))  # (a)
        client.fit(epochs=self.body_epochs, train=body)  # (b)
        return client.tensors()
