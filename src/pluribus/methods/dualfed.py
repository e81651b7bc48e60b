"""DualFed: a shared encoder with a shared head, and behind it a projector and a head of one's own.

Zhu, Liu, Niu, Tang, Wu & Zhang, "DualFed: Enjoying both Generalization and Personalization in Federated
Learning via Hierachical Representations", MM 2024.  arXiv:2407.17754

    z = f(x),  u = g_k(z)
    L_k = CE(h_k(u), y) + λ SupCon(u, y; τ)      the main branch
    S_k = CE(h_s(z), y)

    (a) client   stage 1: f_k, g_k, h_k ← main_epochs on L_k, from f and its own g_k and h_k
    (b) client   stage 2: h_sk ← global_epochs on S_k, from h_s, with f_k as of (a)
    (c) client   or, strategy="simultaneous": all four ← main_epochs on L_k + S_k; S_k reaches f
    (d) server   f ← (1/M) Σ f_k;  h_s ← (1/M) Σ h_sk;  sizes do not count
    (e) predict  personal: h_k(u) + h_s(z), of logits or ensemble="probs"; besides, each head alone
    (f) predict  generic: h_s(z)
    (g) predict  newcomer: h_s(z), f's running statistics measured on its own inputs without labels;
                 adapted, it has trained g and h_k of its own on L_k and predicts as in (e)

f is all before the projector, h_k is `head`, h_s `head_global`.  SupCon (Khosla et al., 2020) pulls the u
of a class together, over the batch.  position="after" has h_s read u: this is DualFed-P, and DualFed-G
with projector="shared" (Table 6).  Each of the four can be shared or personal (Table 7).
Travels: f and h_s, both ways.  Stays: g_k, h_k and all running statistics.

Deviations
    Equations 6 and 9 lack a sign and 1/N: mean cross entropy.  The anchor is none of its own positives in
    equation 7; who has no positive counts 0, also in a batch of one, where the authors' code gives NaN.
    Equation 5 adds softmax outputs; the authors' code, and the default here, adds logits.
    A sentence of section 4.1 lets h_s read u; equation 3 and the authors' code say z.
    λ = 40, τ = 0.2 are the authors' for PACS, at learning rate 0.01; above it, small networks diverged in our
    trials.  Their other script, for Office-Home, has λ = 2, τ = 0.05, which did not.
    In (b) the network is in training mode, as in the authors' code: running statistics move, weights do
    not.  stage2_eval=True reads f and g by their running statistics and leaves those alone.
    h_s begins as h_k does.  A network without a projector is given the paper's, half as wide inside as it
    has features; for a comparison all methods should have one: a model with projector=256.
    The paper's Table 8 counts bytes of the projector too; it stays, and ours are the bytes that travel.

    @inproceedings{zhu2024dualfed,
      title     = {{DualFed}: Enjoying both Generalization and Personalization in Federated Learning via
                   Hierachical Representations},
      author    = {Zhu, Guogang and Liu, Xuefeng and Niu, Jianwei and Tang, Shaojie and Wu, Xinghao and
                   Zhang, Jiayuan},
      booktitle = {ACM International Conference on Multimedia},
      year      = {2024}
    }
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from .. import usual
from ..client import Client, Parts
from ..losses import supervised_contrastive
from ..method import Method, Network, Part, Predictors, in_one_pass, setting
from ..side_networks import usual_projector
from ..state import Tensors

Owner = Literal["shared", "personal"]


def encoder_of(parts: Parts) -> tuple[str, ...]:
    return tuple(name for name in parts.path if name not in ("projector", "head"))


@dataclass(frozen=True, kw_only=True)
class DualFed(Method):
    lam: float = setting(40.0, least=0, dull={0: "cross entropy alone trains the main branch"})
    tau: float = setting(0.2, above=0)
    strategy: Literal["stage-wise", "simultaneous"] = "stage-wise"
    main_epochs: int = setting(1, least=0, dull={0: "f, g and h_k never move"})
    global_epochs: int = setting(1, least=0, dull={0: "h_s never moves"})
    stage2_eval: bool = False
    position: Literal["before", "after"] = "before"
    ensemble: Literal["logits", "probs"] = "logits"
    encoder: Owner = "shared"
    projector: Owner = "personal"
    head: Owner = "personal"
    head_global: Owner = "shared"

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean  # (d)

    def build(self, network: Network) -> Mapping[str, Part]:
        parts = usual.children_with(["head"], self, network)
        if "projector" not in parts:
            parts["projector"] = usual_projector(network.features)
        parts["head_global"] = copy.deepcopy(parts["head"])
        owners = {"projector": self.projector, "head": self.head, "head_global": self.head_global}
        return {n: Part(m, owners.get(n, self.encoder), "local") for n, m in parts.items()}

    def lacking(self, parts: Parts) -> list[str]:
        own = "no projector, so it is given one that other methods do not have; projector=256 is for all"
        return [] if "projector" in parts.path else [own]

    def train(self, client: Client) -> Tensors:
        if self.strategy == "simultaneous":
            client.fit(self.whole_loss, epochs=self.main_epochs, phase="main")  # (c)
            return client.tensors()
        encoder = encoder_of(client.parts)
        main = [*encoder, "projector", "head"]
        client.fit(self.main_loss, epochs=self.main_epochs, train=main, phase="main")  # (a)
        z = client.through(*encoder)
        client.fit(self.global_loss, epochs=self.global_epochs, train=["head_global"], on=z)  # (b)
        return client.tensors()

    def heads(self, parts: Parts, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """u, what the personal head says of it, and what the shared head says."""
        z = parts.through(x, *encoder_of(parts))
        u = parts.projector(z)
        return u, parts.head(u), parts.head_global(z if self.position == "before" else u)

    def main_loss(self, parts: Parts, x: Tensor, y: Tensor) -> Tensor:
        u, own, _ = self.heads(parts, x)
        return F.cross_entropy(own, y) + self.lam * supervised_contrastive(u, y, self.tau)

    def global_loss(self, parts: Parts, x: Tensor, y: Tensor) -> Tensor:
        for name in (*encoder_of(parts), "projector"):
            parts[name].train(not self.stage2_eval)
        return F.cross_entropy(self.heads(parts, x)[2], y)

    def whole_loss(self, parts: Parts, x: Tensor, y: Tensor) -> Tensor:
        u, own, shared = self.heads(parts, x)
        contrast = supervised_contrastive(u, y, self.tau)
        return F.cross_entropy(own, y) + self.lam * contrast + F.cross_entropy(shared, y)

    def personal(self, client: Client) -> Predictors:
        names = "both heads", "personal head", "global head"  # (e)
        return in_one_pass(lambda x: self.answers(client.parts, x), *names)  # (e)

    def answers(self, parts: Parts, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _, own, shared = self.heads(parts, x)
        both = own + shared if self.ensemble == "logits" else own.softmax(1) + shared.softmax(1)
        return both, own, shared

    def generic(self, client: Client) -> Predictors:
        return {} if self.why_no_generic() else self.of_everybody(client)  # (f)

    def of_everybody(self, client: Client) -> Predictors:
        return {"global head": lambda x: self.heads(client.parts, x)[2]}

    def why_no_generic(self) -> str | None:
        needed = self.encoder, self.head_global, self.projector if self.position == "after" else "shared"
        return "as set, a part that it needs is each client's own" if "personal" in needed else None

    def welcome(self, client: Client, epochs: int) -> Predictors:
        encoder = encoder_of(client.parts)
        client.measure_statistics(*encoder)  # (g)
        if not epochs:
            return self.of_everybody(client)  # (g)
        own, z = ["projector", "head"], client.through(*encoder)
        client.fit(self.main_loss, epochs=epochs, train=own, on=z)  # (g)
        return self.personal(client)  # (g)
