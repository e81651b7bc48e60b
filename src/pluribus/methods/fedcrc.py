"""FedCRC: everybody's features are learnt against one slow predictor; each client has a fast one besides.

Wang, Xie, Yu, Qu, Zhang & Cao, "Federated Learning with Common Representation Learning Criterion and
Personalized Predictor", SMC 2023.

    f:    min   Σ_k (n_k / n) L_k(h_g ∘ f)               h_g held still: the common criterion
    h_k:  min   L_k(h_k ∘ f)                             f held still
    h_g:  min   L_k(h_g ∘ f) + λ mean KL(p_k ‖ p_g)      f and h_k held still,  p = softmax(h(f(x)))

    (a) client   f_k ← encoder_epochs on L_k(h_g ∘ f), from f; the gradient flows through h_g
    (b) client   h_k ← personal_epochs on L_k(h ∘ f_k), from its own h_k
    (c) client   h_gk ← global_epochs on L_k(h ∘ f_k) + λ KL, from h_g; its own h_k, as of (b), teaches
    (d) server   f ← Σ_{k in S} (n_k / n_S) f_k;   h' ← Σ_{k in S} (n_k / n_S) h_gk
    (e) server   h_g ← τ h_g + (1 - τ) h'
    (f) predict  generic: h_g ∘ f;   personal: h_k ∘ f, with f as averaged; both from one run

f is the encoder and all else before the head, h_g the head, λ is kl_weight.  All h_k start as h_g starts.
Travels: f and h_g, both ways.  Stays: h_k.

Deviations
    The paper prints KLoss(h_g, h_k), student first as libraries take it; its text wants h_g to imitate
    h_k, which is KL(p_k ‖ p_g), the default here.  direction="reverse" is KL(p_g ‖ p_k).
    The paper's introduction holds h_g still while predictors are trained; its Algorithm 1 trains it, as here.
    Each phase has an optimiser of its own.  What the paper leaves out (batch size, initial h_k, what a
    client away for some rounds predicts with: its last h_k on the newest f) is our choice.
    In (b) and (c) the network is in training mode: running statistics of batch normalisation move there,
    weights of f do not.  The CNN taken for the paper's (`fedcrc-cnn`) has none: it normalises by the
    batch at hand, also when predicting, and is read client by client in batches of 128, so that G and P
    of an example depend on its neighbours in the test data; `norm=gn` or `norm=none` end that.
    A newcomer predicts with h_g ∘ f (zero-shot), as in the paper's Table II.  Adapted, it has trained a
    predictor of its own, from h_g and as in (b); the paper has no such reading.
    With τ = 0.99 and 100 rounds 0.99^100 = 0.37 of h_g is still its random start.

    @inproceedings{wang2023federated,
      title     = {Federated Learning with Common Representation Learning Criterion and Personalized
                   Predictor},
      author    = {Wang, Wenzhong and Xie, Zaipeng and Yu, Bingzhe and Qu, Zhihao and Zhang, Yufeng and
                   Cao, Hongli},
      booktitle = {IEEE International Conference on Systems, Man, and Cybernetics},
      year      = {2023}
    }
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import usual
from ..client import Client, Parts
from ..losses import kl
from ..method import Method, Predictors, Server, Upload, setting
from ..stage import Stage
from ..state import Tensors, mix, select


def own_logits(parts: Parts, x: Tensor) -> Tensor:
    return parts.head_personal(parts.features(x))  # type: ignore[no-any-return]


def own_loss(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(own_logits(parts, x), y)


@dataclass(frozen=True, kw_only=True)
class FedCRC(Method):
    tau: float = setting(
        0.99, least=0, most=1, dull={0: "h_g is a plain average", 1: "h_g never moves, as in FedBABU"}
    )
    kl_weight: float = setting(1.0, least=0, dull={0: "no h_k teaches h_g"})
    direction: Literal["forward", "reverse"] = "forward"
    encoder_epochs: int = setting(5, least=0, dull={0: "f never moves"})
    personal_epochs: int = setting(5, least=0, dull={0: "h_k stays as it was built"})
    global_epochs: int = setting(1, least=0, dull={0: "h_g never moves"})

    build = usual.all_shared_and_own("head")
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    generic = usual.network_as_received  # (f)

    def train(self, client: Client) -> Tensors:
        encoder = client.parts.path[:-1]
        client.fit(epochs=self.encoder_epochs, train=encoder)  # (a)
        features = client.through(*encoder)
        client.fit(own_loss, epochs=self.personal_epochs, train=["head_personal"], on=features)  # (b)
        client.fit(self.taught_loss, epochs=self.global_epochs, train=["head"], on=features)  # (c)
        return client.tensors()

    def taught_loss(self, parts: Parts, x: Tensor, y: Tensor) -> Tensor:
        z = parts.features(x)
        student, teacher = parts.head(z), parts.head_personal(z)
        apart = kl(teacher, student) if self.direction == "forward" else kl(student, teacher)
        return F.cross_entropy(student, y) + self.kl_weight * apart

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        mean = usual.mean_by_examples(self, server, uploads, stage, rng)  # (d)
        head = mix(select(server.shared, "head"), select(mean.shared, "head"), 1 - self.tau)  # (e)
        return replace(mean, shared={**mean.shared, **head})

    def personal(self, client: Client) -> Predictors:
        return {"own predictor": lambda x: own_logits(client.parts, x)}  # (f)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        client.parts.head_personal.load_state_dict(client.parts.head.state_dict())
        encoder = client.through(*client.parts.path[:-1])
        client.fit(own_loss, epochs=epochs, train=["head_personal"], on=encoder)
        return self.personal(client)
