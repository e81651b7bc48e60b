"""SphereFed: features on the sphere, a fixed orthonormal classifier, a closed form last.

Dong, Zhang, Li & Kung, "SphereFed: Hyperspherical Federated Learning", ECCV 2022.  arXiv:2207.09413

    client k:  min over φ   mean of ‖W z - e_y‖²,   z = φ(x) / ‖φ(x)‖,   W Wᵀ = I,   e_y = onehot(y)

    (a) client   φ_k ← E epochs on that loss; W gets no step
    (b) server   φ ← Σ_{k in S} (n_k / n_S) φ_k
    (c) client   once, after the last round: A_k = Σ z zᵀ and B_k = Σ z e_yᵀ over its data, in evaluation
                 mode; half of A_k is enough, for it is symmetric
    (d) server   W ← ((Σ A_k + ε I)⁻¹ Σ B_k)ᵀ, ε = eps · tr(Σ A_k) / d, and sends it
    (e) predict  generic and personal: W z

φ is all before the head, W the head.  (c) and (d) are the fast federated calibration, which calibrate=no
leaves out.
Travels: φ, both ways; at the end d(d+1)/2 + dC numbers up, dC down.  Stays: nothing.

Deviations
    The squared error is a sum over classes, as in the paper; reduction=mean divides it by their number, as
    others who wrote this do, and needs a learning rate that many times larger.
    ε counts in units of tr(Σ A_k) / d; the sums are solved in float64 and travel in float32.
    With fewer features than classes W has no orthonormal rows: a linear part of C features, called
    projection, comes before it, and φ ends there.
    The method has no personal model; P is the generic one.  A newcomer trains φ, as clients do.

    @inproceedings{dong2022spherefed,
      title     = {{SphereFed}: Hyperspherical Federated Learning},
      author    = {Dong, Xin and Zhang, Sai Qian and Li, Ang and Kung, H. T.},
      booktitle = {European Conference on Computer Vision},
      year      = {2022}
    }
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import usual
from ..client import Client, Parts
from ..method import Method, Network, Part, Predictors, Server, Upload, fixed_part, setting, shared_part
from ..stage import Stage
from ..state import Tensors, select


@dataclass(frozen=True, kw_only=True)
class SphereFed(Method):
    epochs: int = 1
    reduction: Literal["sum", "mean"] = "sum"
    calibrate: Literal["yes", "no"] = "yes"
    eps: float = setting(1e-6, above=0)

    start = usual.initial_parts

    def build(self, network: Network) -> Mapping[str, Part]:
        usual.children_with(("head",), self, network)
        d, classes = network.features, network.classes
        wider = {"projection": shared_part(nn.Linear(d, classes))} if d < classes else {}
        head = nn.Linear(max(d, classes), classes, bias=False)
        nn.init.orthogonal_(head.weight)
        return {**usual.all_shared(self, network), **wider, "head": fixed_part(head)}

    def plan(self, rounds: int, rng: torch.Generator) -> Sequence[Stage]:
        moments = Stage("moments", rounds + 1, rounds, everyone=True)  # (c)
        classifier = Stage("classifier", rounds + 1, rounds, everyone=True, reply=False)  # (d)
        last = [moments, classifier] if self.calibrate == "yes" else []
        return [*usual.every_round(self, rounds, rng), *last]

    def only_the_head(self, server: Server, client: str, stage: Stage) -> Tensors:
        return select(server.shared, "head")

    message = usual.by_stage(classifier=only_the_head, otherwise=usual.all_it_shares)

    def loss(self, parts: Parts, x: Tensor, y: Tensor) -> Tensor:
        scores: Tensor = parts.head(direction(parts, x))
        apart = (scores - F.one_hot(y, scores.shape[1])).square()
        return apart.sum(1).mean() if self.reduction == "sum" else apart.mean()

    def improve(self, client: Client) -> Tensors:
        client.fit(self.loss, epochs=self.epochs)  # (a)
        return client.tensors()

    @torch.no_grad()
    def moments(self, client: Client) -> Tensors:
        classes, d = client.parts.head.weight.shape
        a = torch.zeros(d, d, dtype=torch.float64, device=client.device)
        b = torch.zeros(d, classes, dtype=torch.float64, device=client.device)
        client.parts.eval()  # (c)
        for x, y in client.in_order():
            z = direction(client.parts, x).double()
            a += z.T @ z  # (c)
            b += z.T @ F.one_hot(y, classes).double()  # (c)
        rows, columns = torch.tril_indices(d, d)
        return {"moments/a": a[rows, columns].float(), "moments/b": b.float()}

    def take_note(self, client: Client) -> None:
        """Nothing: whoever asks for a prediction later gets the classifier in the message."""

    train = usual.by_stage(round=improve, moments=moments, classifier=take_note)

    def calibrated(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        half, b = (
            torch.stack([u.tensors[f"moments/{n}"].double() for u in uploads.values()]).sum(0) for n in "ab"
        )
        d = len(b)
        rows, columns = torch.tril_indices(d, d)
        a = torch.zeros(d, d, dtype=torch.float64)
        a[rows, columns] = a[columns, rows] = half
        a += self.eps * a.trace() / d * torch.eye(d)
        w = torch.linalg.solve(a, b).T  # (d)
        return replace(server, shared={**server.shared, "head.weight": w.float().contiguous()})  # (d)

    aggregate = usual.by_stage(round=usual.mean_by_examples, moments=calibrated)  # (b)

    def generic(self, client: Client) -> Predictors:
        return {"on the sphere": lambda x: client.parts.head(direction(client.parts, x))}  # (e)

    personal = generic  # (e)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        client.fit(self.loss, epochs=epochs)
        return self.personal(client)


def direction(parts: Parts, x: Tensor) -> Tensor:
    """The features of these inputs on the sphere; of length 0 they stay 0."""
    features = parts.features(x).flatten(1)
    wide = parts.projection(features) if "projection" in parts else features
    return F.normalize(wide, dim=1, eps=1e-12)
