"""FedBN: everything is averaged but batch normalisation.

Li, Jiang, Zhang, Kamp & Dou, "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization",
ICLR 2021.  arXiv:2102.07623

    min over w, b_1..b_K   Σ_k (n_k / n) L_k(w, b_k)

    (a) client   w_k, b_k ← E epochs on L_k, both at once, from w and its own b_k
    (b) server   w ← Σ_{k in S} (n_k / n_S) w_k, or weights="uniform": (1/|S|) Σ_{k in S} w_k
    (c) predict  personal: the network with w and its own b_k
    (d) predict  newcomer: the same, running statistics measured on its own inputs without labels;
                 adapted, it has trained everything on them and their labels

b_k is scale, shift and running statistics of every batch normalisation, wherever it stands: they are known
by the type of their module.  w is all else.  Normalisation of groups or layers is shared.
Travels: w, both ways.  Stays: b_k.

Deviations
    The authors' code weighs clients alike, for its five domains; that is weights="uniform".
    Scale and shift of a newcomer are those of the initial network: nobody's travel.
    In a network without batch normalisation nothing stays, and this is FedAvg.

    @inproceedings{li2021fedbn,
      title     = {{FedBN}: Federated Learning on Non-{IID} Features via Local Batch Normalization},
      author    = {Li, Xiaoxiao and Jiang, Meirui and Zhang, Xiaofei and Kamp, Michael and Dou, Qi},
      booktitle = {International Conference on Learning Representations},
      year      = {2021}
    }
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .. import usual
from ..client import Client, Parts, has_batch_norm
from ..method import Method, Network, Owner, Part, Predictors, children
from ..state import Tensors


def of_batch_norm(module: nn.Module) -> dict[str, Owner]:
    """Every tensor of batch normalisation in it, as personal."""
    norms = [(path, m) for path, m in module.named_modules() if isinstance(m, _BatchNorm)]
    return {f"{path}.{name}".lstrip("."): "personal" for path, m in norms for name in m.state_dict()}


@dataclass(frozen=True, kw_only=True)
class FedBN(Method):
    epochs: int = 1
    weights: Literal["examples", "uniform"] = "examples"

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.by_setting("weights", examples=usual.mean_by_examples, uniform=usual.mean)  # (b)
    personal = usual.network_as_received  # (c)
    generic = usual.none_because("every client has batch normalisation of its own")

    def build(self, network: Network) -> Mapping[str, Part]:
        return {n: Part(m, "shared", owners=of_batch_norm(m)) for n, m in children(network).items()}

    def lacking(self, parts: Parts) -> list[str]:
        return [] if has_batch_norm(parts) else ["no batch normalisation, so that this is FedAvg"]

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs)  # (a)
        return client.tensors()

    def welcome(self, client: Client, epochs: int) -> Predictors:
        client.measure_statistics(*client.parts.path)  # (d)
        client.fit(epochs=epochs)  # (d)
        return self.personal(client)
