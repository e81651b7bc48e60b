"""LGFedAvg: a body of one's own, a shared head.

Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov & Morency, "Think Locally, Act Globally: Federated
Learning with Local and Global Representations", 2020.  arXiv:2001.01523

    min over φ_1..φ_K, h   Σ_k (n_k / n) L_k(h ∘ φ_k)

    (a) client   φ_k, h_k ← E epochs on L_k, both at once, from its own φ_k and h
    (b) server   h ← Σ_{k in S} (n_k / n_S) h_k, or weights="uniform": (1/|S|) Σ_{k in S} h_k
    (c) predict  personal: h ∘ φ_k
    (d) predict  newcomer: h behind the initial body; adapted, it has trained a body of its own, h held still

φ_k is the encoder and all else before the head: FedPer the other way round.
Travels: h, both ways.  Stays: φ_k and its running statistics.

Deviations
    The authors' code weighs clients alike; that is weights="uniform".
    Its runs begin with a model that FedAvg has trained; here bodies begin as they are built, which may be
    with weights from a file.
    It keeps, of each client, the model that was best on test data; here the last one counts.
    How many layers the head has is a setting of the model.
    A newcomer is not given the mean of the others' bodies, nor their votes: bodies do not travel.

    @article{liang2020think,
      title   = {Think Locally, Act Globally: Federated Learning with Local and Global Representations},
      author  = {Liang, Paul Pu and Liu, Terrance and Ziyin, Liu and Allen, Nicholas B. and Auerbach, Randy P.
                 and Brent, David and Salakhutdinov, Ruslan and Morency, Louis-Philippe},
      journal = {arXiv preprint arXiv:2001.01523},
      year    = {2020}
    }
"""

from dataclasses import dataclass
from typing import Literal

from .. import usual
from ..client import Client
from ..method import Method, Predictors
from ..state import Tensors


@dataclass(frozen=True, kw_only=True)
class LGFedAvg(Method):
    epochs: int = 1
    weights: Literal["examples", "uniform"] = "examples"

    build = usual.all_personal_but("head")
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.by_setting("weights", examples=usual.mean_by_examples, uniform=usual.mean)  # (b)
    personal = usual.network_as_received  # (c)
    generic = usual.none_because("every client has a body of its own")

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs)  # (a)
        return client.tensors()

    def welcome(self, client: Client, epochs: int) -> Predictors:
        client.fit(epochs=epochs, train=client.parts.path[:-1])  # (d)
        return self.personal(client)
