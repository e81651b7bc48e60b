"""SphereFed: features on the sphere, a fixed orthonormal classifier, a closed form last.

Dong, Zhang, Li & Kung, "SphereFed: Hyperspherical Federated Learning", ECCV 2022.  arXiv:2207.09413

    client k:  min over φ   mean (W z - onehot(y))²,   z = φ(x) / ‖φ(x)‖,   W Wᵀ = I

    (a) client   φ_k ← E epochs on that loss; W gets no step
    (b) server   φ ← Σ_{k in S} (n_k / n_S) φ_k
    (c) client   once, after the last round: A_k = Σ z zᵀ, B_k = Σ z onehot(y)ᵀ; half of A_k is enough
    (d) server   W ← ((Σ A_k + ε I)⁻¹ Σ B_k)ᵀ, and sends it
    (e) predict  generic and personal: W z

φ is all before the head, W the head.  (c) and (d) are the fast federated calibration.
Travels: φ, both ways; at the end d(d+1)/2 + dC numbers up, dC down.  Stays: nothing.

Deviations
    The squared error is a mean over batch and classes; the paper's sum over classes has a smaller rate.
    ε counts in units of tr(Σ A_k) / d.  A newcomer trains φ, as clients do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pluribus import usual
from pluribus.client import Client, Parts
from pluribus.method import Method, MethodError, Part, Predictors, Server, Upload, fixed_part, setting
from pluribus.stage import Stage
from pluribus.state import Tensors, select


def direction(parts: Parts, x: Tensor) -> Tensor:
    return F.normalize(parts.features(x).flatten(1), dim=1)


def to_the_corner(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
    scores = parts.head(direction(parts, x))
    return F.mse_loss(scores, F.one_hot(y, scores.shape[1]).to(scores))


@dataclass(frozen=True, kw_only=True)
class SphereFed(Method):
    epochs: int = 1
    eps: float = setting(1e-6, above=0)

    start = usual.initial_parts
    welcome = usual.tuned(loss=to_the_corner)

    def build(self, network: nn.Module) -> dict[str, Part]:
        d, classes = cast("int", network.features), cast("int", network.classes)
        if d < classes:
            raise MethodError(
                f"SphereFed needs as many features as classes; this network has {d} for {classes}"
            )
        head = nn.Linear(d, classes, bias=False)
        nn.init.orthogonal_(head.weight)
        return {**usual.all_shared(self, network), "head": fixed_part(head)}

    def plan(self, rounds: int, rng: torch.Generator) -> list[Stage]:
        calibrate = Stage("calibrate", rounds + 1, rounds, everyone=True)
        return [
            *usual.every_round(self, rounds, rng),
            calibrate,
            Stage("classifier", rounds + 1, rounds, everyone=True, reply=False),
        ]

    def only_the_head(self, server: Server, client: str, stage: Stage) -> Tensors:
        return select(server.shared, "head")

    message = usual.by_stage(classifier=only_the_head, otherwise=usual.all_it_shares)

    def improve(self, client: Client) -> Tensors:
        client.fit(to_the_corner, epochs=self.epochs)  # (a)
        return client.tensors()

    @torch.no_grad()
    def moments(self, client: Client) -> Tensors:
        d, classes = client.parts.head.in_features, client.parts.head.out_features
        a, b = torch.zeros(d, d, dtype=torch.float64), torch.zeros(d, classes, dtype=torch.float64)
        client.parts.eval()
        for x, y in client.in_order():
            z = direction(client.parts, x).double()
            a += z.T @ z  # (c)
            b += z.T @ F.one_hot(y, classes).double()  # (c)
        rows, columns = torch.tril_indices(d, d)
        return {"ffc/a": a[rows, columns].float(), "ffc/b": b.float()}

    def take_note(self, client: Client) -> None:
        """Nothing: whoever asks for a prediction later gets the classifier in the message."""

    train = usual.by_stage(round=improve, calibrate=moments, classifier=take_note)

    def calibrated(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        half, b = (
            torch.stack([u.tensors[n].double() for u in uploads.values()]).sum(0) for n in ("ffc/a", "ffc/b")
        )
        rows, columns = torch.tril_indices(len(b), len(b))
        a = torch.zeros(len(b), len(b), dtype=torch.float64)
        a[rows, columns] = a[columns, rows] = half
        a += self.eps * a.trace() / len(b) * torch.eye(len(b))
        return Server(
            {**server.shared, "head.weight": torch.linalg.solve(a, b).T.float().contiguous()}
        )  # (d)

    aggregate = usual.by_stage(round=usual.mean_by_examples, calibrate=calibrated)  # (b)

    def generic(self, client: Client) -> Predictors:
        return {"on the sphere": lambda x: client.parts.head(direction(client.parts, x))}  # (e)

    personal = generic  # (e)
