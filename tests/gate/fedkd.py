"""FedKD: a private mentor and a small travelling mentee teach each other.

Wu, Wu, Lyu, Huang & Xie, "Communication-efficient federated learning via knowledge distillation",
Nature Communications 13, 2022.  arXiv:2108.13323

    q = CE(mentor) + CE(mentee),   p_t and p_s what they predict, f_t and f_s their features
    loss = q + (KL(p_s || p_t) + KL(p_t || p_s) + 2 MSE(f_t, W f_s)) / q

    (a) client   mentor, mentee, W ← E epochs on the loss, all at once
    (b) client   sends its mentee's change, each matrix cut to the smallest rank that holds T_t of its energy
    (c) server   mean of the changes, every client counting the same; cut again, added to the mentee
    (d) server   sends that cut change to whom it heard last time, the whole mentee to all others
    (e) predict  personal: mentor; generic: mentee

T_t goes from T_start to T_end with the finished rounds.
Travels: cut changes, or down the whole mentee.
Stays: mentor, W, the mentee as last received.

Deviations
    A matrix that would be longer cut than whole travels whole; a kernel is the matrix (out, all else).
    One learning rate for mentor and mentee.  The mentor begins as a copy of the mentee's network.
    KL is a mean over the batch (the authors' also over classes).  q is at least 1e-8.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pluribus import usual
from pluribus.client import Client, Parts
from pluribus.method import Method, Part, Predictors, Server, Upload, children, personal_part, setting
from pluribus.stage import Stage
from pluribus.state import Tensors, add, average, copied, under, within


@dataclass(frozen=True, kw_only=True)
class FedKD(Method):
    epochs: int = 1
    energy_start: float = setting(0.95, above=0, most=1)
    energy_end: float = setting(0.98, above=0, most=1)

    plan = usual.every_round
    start = usual.initial_parts
    generic = usual.network_as_received  # (e)

    def change_or_all(self, server: Server, client: str, stage: Stage) -> Tensors:
        return server.memory if client in server.of else server.shared  # (d)

    message = usual.by_stage(round=change_or_all, otherwise=usual.all_it_shares)

    def build(self, network: nn.Module) -> dict[str, Part]:
        mentor = {f"mentor_{n}": personal_part(copy.deepcopy(m)) for n, m in children(network).items()}
        d = cast("int", network.features)
        return {
            **usual.all_shared(self, network),
            **mentor,
            "bridge": personal_part(nn.Linear(d, d, bias=False)),
        }

    def train(self, client: Client) -> Tensors:
        if change := within("cut", client.received):
            mentee = within("mentee", client.kept)
            client.load(add(mentee, whole(change, mentee)))
        client.keep("mentee", client.tensors())
        client.fit(mutual, epochs=self.epochs)  # (a)
        change = add(client.tensors(), within("mentee", client.kept), -1)
        return under("cut", cut(change, self.energy(client.stage.round - 1, client.stage.rounds)))  # (b)

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        changes = [whole(within("cut", u.tensors), server.shared) for u in uploads.values()]
        change = cut(average(changes, [1] * len(changes)), self.energy(stage.round, stage.rounds))  # (c)
        there = {k: {"there": torch.tensor(1)} for k in uploads}  # (d)
        return Server(add(server.shared, whole(change, server.shared)), under("cut", change), there)  # (c)

    def energy(self, finished: int, rounds: int) -> float:
        return self.energy_start + (self.energy_end - self.energy_start) * finished / rounds

    def personal(self, client: Client) -> Predictors:
        return {"mentor": lambda x: mentor(client.parts, x)[1]}  # (e)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        client.load({f"mentor_{n}": t for n, t in client.tensors().items()})
        client.fit(mutual, epochs=epochs)
        return self.personal(client)


def cut(tensors: Tensors, energy: float) -> dict[str, Tensor]:
    """Matrices as U, s, V of the smallest rank that holds the energy, where that is shorter; others whole."""
    return {n: t for name, tensor in tensors.items() for n, t in cut_one(name, tensor, energy).items()}


def cut_one(name: str, tensor: Tensor, energy: float) -> dict[str, Tensor]:
    if tensor.dim() < 2 or not tensor.isfinite().all():
        return {name: tensor}
    u, s, v = torch.linalg.svd(tensor.flatten(1), full_matrices=False)
    k = rank(s, energy)
    shorter = k * (u.shape[0] + v.shape[1] + 1) < tensor.numel()
    return (
        copied({f"{name}:u": u[:, :k], f"{name}:s": s[:k], f"{name}:v": v[:k]}) if shorter else {name: tensor}
    )


def rank(s: Tensor, energy: float) -> int:
    """The fewest singular values whose squares sum to this share of all; 0 if there is nothing."""
    held = s.double().square().cumsum(0)
    return int((held < (energy - 1e-9) * held[-1]).sum()) + 1 if s.any() else 0


def whole(packed: Tensors, like: Tensors) -> dict[str, Tensor]:
    return {n: packed[n] if n in packed else unpacked(n, packed).reshape(t.shape) for n, t in like.items()}


def unpacked(name: str, packed: Tensors) -> Tensor:
    return (packed[f"{name}:u"] * packed[f"{name}:s"]) @ packed[f"{name}:v"]


def mentor(parts: Parts, x: Tensor) -> tuple[Tensor, Tensor]:
    """The mentor's features, and its scores."""
    *body, head = (parts[f"mentor_{name}"] for name in parts.path)
    for part in body:
        x = part(x)
    return x, head(x)


def mutual(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
    (f_t, o_t), f_s = mentor(parts, x), parts.features(x)
    o_s = parts[parts.path[-1]](f_s)
    q = F.cross_entropy(o_t, y) + F.cross_entropy(o_s, y)
    a, b = o_t.log_softmax(1), o_s.log_softmax(1)
    kl = ((a.exp() - b.exp()) * (a - b)).sum(1).mean()
    apart = kl + 2 * F.mse_loss(f_t.flatten(1), parts.bridge(f_s.flatten(1)))
    loss: Tensor = q + apart / (q + 1e-8)
    return loss
