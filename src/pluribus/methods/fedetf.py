"""FedETF: classes at the corners of a fixed simplex; a balanced loss; tuning for oneself, simplex and all.

Li, Shang, He, Lin & Wu, "No Fear of Classifier Biases: Neural Collapse Inspired Federated Learning with
Synthetic and Fixed Classifier", ICCV 2023.  arXiv:2303.10058

    v = g(φ(x)) / ‖g(φ(x))‖,   o = β vᵀ M,   M = √(C/(C-1)) U (I - 1 1ᵀ / C),   Uᵀ U = I
    client k:  min over φ, g, β   CE(o + γ log n_k, y),   n_k the number of its examples of each class

    (a) client   φ_k, g_k, β_k ← E epochs on that loss; M gets no step
    (b) server   φ, g, β ← Σ_{k in S} (n_k / n_S) φ_k, g_k, β_k
    (c) predict  generic: o, without n_k
    (d) predict  personal: on a copy that is thrown away, E epochs of (a); then `cycles` times 3 epochs of M
                 on CE(o, y) and 3 epochs of g on it, all else held; o
    (e) predict  newcomer: the same with as many epochs of (a) as it has; before any, o

φ is all before the head, g a linear part called projection, β a number called temperature, M the head.
Travels: φ, g and β, both ways.  Stays: nothing.

Deviations
    n_k counts as 1 where there is no example, as in the authors' code.
    v has C numbers, as in their residual networks; `size` is another number, as in their CNN (64).
    β begins at 1, as there; in their CNN it begins at 10.
    The head of the network is not built; in their code an unused one is averaged too.
    The rates of (d) are those of their code; momentum 0.9 and weight decay 5e-4 are g's alone.
    With cycles = 0 nobody is tuned, not for E epochs either.

    @inproceedings{li2023fedetf,
      title     = {No Fear of Classifier Biases: Neural Collapse Inspired Federated Learning with Synthetic
                   and Fixed Classifier},
      author    = {Li, Zexi and Shang, Xinyi and He, Rui and Lin, Tao and Wu, Chao},
      booktitle = {International Conference on Computer Vision},
      year      = {2023}
    }
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import usual
from ..client import Client, Parts
from ..losses import balanced_cross_entropy
from ..method import Method, MethodError, Network, Part, Predictors, fixed_part, setting, shared_part
from ..state import Tensors

TUNING_EPOCHS = 3  # of the simplex, and of the projection, in each cycle


class Temperature(nn.Module):
    """β, by which scores are multiplied."""

    def __init__(self, beta: float):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([beta]))

    def forward(self, scores: Tensor) -> Tensor:
        return self.weight * scores


@dataclass(frozen=True, kw_only=True)
class FedETF(Method):
    epochs: int = 1
    gamma: float = setting(1.0, least=0, dull={0: "the loss is not balanced"})
    beta: float = setting(1.0, above=0)
    size: int = setting(0, least=0)
    cycles: int = setting(20, least=0, dull={0: "nobody is tuned: P is that of the shared network"})
    etf_lr: float = setting(0.1, least=0)
    projection_lr: float = setting(0.05, least=0)

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (b)

    def build(self, network: Network) -> Mapping[str, Part]:
        usual.children_with(("head",), self, network)
        size, classes = self.size or network.classes, network.classes
        if size < classes:
            raise MethodError(
                f"FedETF: size is {size}; a simplex of {classes} classes needs {classes} or more"
                "\n    size=0 takes the number of classes"
            )
        head = nn.Linear(size, classes, bias=False)
        head.weight.data = simplex(size, classes).T.contiguous()
        own = {"projection": nn.Linear(network.features, size), "temperature": Temperature(self.beta)}
        shared = {name: shared_part(module) for name, module in own.items()}
        return {**usual.all_shared(self, network), **shared, "head": fixed_part(head)}

    def train(self, client: Client) -> Tensors:
        self.balanced(client, self.epochs)  # (a)
        return client.tensors()

    def balanced(self, client: Client, epochs: int) -> None:
        counts = client.data.counts.clamp(min=1).to(client.device)  # (a)

        def loss(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
            return balanced_cross_entropy(scores(parts, x), y, counts, self.gamma)  # (a)

        client.fit(loss, epochs=epochs)  # (a)

    def generic(self, client: Client) -> Predictors:
        return {"simplex": lambda x: scores(client.parts, x)}  # (c)

    def personal(self, client: Client) -> Predictors:
        return self.tuned(client, self.epochs if self.cycles else 0)  # (d)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        return self.tuned(client, epochs) if epochs else self.generic(client)  # (e)

    def tuned(self, client: Client, epochs: int) -> Predictors:
        self.balanced(client, epochs)  # (d)
        of_etf = torch.optim.SGD(client.parameters("head"), lr=self.etf_lr)  # (d)
        on = client.through(*client.parts.path[:-1])
        for cycle in range(self.cycles):  # (d)
            of_projection = torch.optim.SGD(
                client.parameters("projection"),
                lr=self.projection_lr,
                momentum=0.9,
                weight_decay=5e-4,  # (d)
            )
            for part, optimiser in (("head", of_etf), ("projection", of_projection)):  # (d)
                with client.learning(part), client.parts.behind(on.through):
                    for x, y in client.batches(TUNING_EPOCHS, f"{part} {cycle}", on=on):  # (d)
                        client.descend(optimiser, F.cross_entropy(scores(client.parts, x), y), len(y))  # (d)
        return self.generic(client)


def simplex(size: int, classes: int) -> Tensor:
    """M: a column a class, of length 1 and as far from each other as can be."""
    u: Tensor = torch.linalg.qr(torch.randn(size, classes))[0]
    stretch: float = (classes / (classes - 1)) ** 0.5
    return stretch * u @ (torch.eye(classes) - torch.full((classes, classes), 1 / classes))  # (a)


def scores(parts: Parts, x: Tensor) -> Tensor:
    """o: the temperature times the cosines with the corners."""
    v = F.normalize(parts.projection(parts.features(x).flatten(1)), dim=1, eps=1e-12)
    o: Tensor = parts.temperature(parts.head(v))
    return o
