"""FedBABU: everybody learns the body against one head that never moves; who uses it fine-tunes a copy.

Oh, Kim & Yun, "FedBABU: Toward Enhanced Representation for Federated Image Classification", ICLR 2022.
arXiv:2106.06042

    min over φ   Σ_k (n_k / n) L_k(h ∘ φ)      h as it was built, for everybody

    (a) client   φ_k ← E epochs on L_k(h ∘ φ), h held still, from φ; the gradient flows through h
    (b) server   φ ← Σ_{k in S} (n_k / n_S) φ_k
    (c) predict  generic: h ∘ φ
    (d) predict  personal: h_k ∘ φ_k, tune_epochs of L_k on a copy of h ∘ φ that is thrown away afterwards:
                 of all (tune=full), the head or the body; a newcomer does the same for its epochs

φ is all before the head h.
Travels: φ, both ways.  Stays: nothing.

Deviations
    Clients weigh by n_k; the authors' code takes the plain mean.
    The paper's abstract speaks of fine-tuning the head; the authors' code fine-tunes all, for 5 epochs, the
    default here, at the last round's learning rate.  Here it is the first round's, `--lr`: with a rate that
    falls over the rounds, what is tuned moves further than theirs.
    h is built from the model seed at every client and never sent.
    P is read after as much training of every client as tune_epochs says, each time it is read.

    @inproceedings{oh2022fedbabu,
      title     = {{FedBABU}: Toward Enhanced Representation for Federated Image Classification},
      author    = {Oh, Jaehoon and Kim, Sangmook and Yun, Se-Young},
      booktitle = {International Conference on Learning Representations},
      year      = {2022}
    }
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .. import usual
from ..client import Client
from ..method import Method, Network, Part, Predictors, fixed_part, setting
from ..state import Tensors


@dataclass(frozen=True, kw_only=True)
class FedBABU(Method):
    epochs: int = 1
    tune: Literal["full", "head", "body"] = "full"
    tune_epochs: int = setting(5, least=0, dull={0: "P is G"})

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (b)
    generic = usual.network_as_received  # (c)

    def build(self, network: Network) -> Mapping[str, Part]:
        parts = usual.all_shared_but("head")(self, network)
        return {**parts, "head": fixed_part(parts["head"].module)}  # (a)

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs, train=client.parts.path[:-1])  # (a)
        return client.tensors()

    def personal(self, client: Client) -> Predictors:
        return self.welcome(client, self.tune_epochs)  # (d)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        body, head = client.parts.path[:-1], client.parts.path[-1:]
        train = {"full": [*body, *head], "head": head, "body": body}[self.tune]  # (d)
        on = client.through(*body) if self.tune == "head" else None
        client.fit(epochs=epochs, train=train, on=on, phase="tune")  # (d)
        return {"fine-tuned": client.parts}  # (d)
