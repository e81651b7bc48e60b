"""FedKD: a private mentor and a travelling mentee teach each other; what travels is cut to its energy.

Wu, Wu, Lyu, Huang & Xie, "Communication-efficient federated learning via knowledge distillation",
Nature Communications 13, 2022.  arXiv:2108.13323

    mentor o_t, f_t and mentee o_s, f_s: scores and features;  p = softmax(o);  q = CE(o_t, y) + CE(o_s, y)
    loss = q + (KL(p_s ‖ p_t) + KL(p_t ‖ p_s) + 2 MSE(f_t, W f_s)) / (q + 1e-8)

    (a) client   mentor, mentee, W ← E epochs on the loss, all at once and through all of it
    (b) client   sends its mentee's change, each matrix cut to the smallest rank that holds T_t of its energy
    (c) server   mean of the changes, every client counting the same; cut again, added to the mentee
    (d) server   sends that cut change to whom it heard last time, the whole mentee to all others
    (e) predict  personal: mentor; generic: mentee
    (f) predict  newcomer: a mentor that begins as the mentee, and has been through (a)

The energy of a matrix is the sum of its squared singular values; T_t goes from energy_start to energy_end
with the finished rounds.  Cut to rank k it travels as U, s and V: k (rows + columns + 1) numbers.
Travels: cut changes, or down the whole mentee.  Stays: mentor, W, and the mentee as last received.

Deviations
    A matrix that would be longer cut than whole travels whole; a kernel is the matrix (out, all else).
    Rank 0 is for a change of 0 alone: the authors' code also erases a tensor that needs all its ranks.
    The mentor is a network like the mentee, and begins as its copy; it may not be larger.
    One learning rate for both.  Clipping, as others do with this method, is the experiment's: clip=10.
    KL is a mean over the batch; kl=mean divides it by the number of classes too, as the authors' code does.
    detach=yes keeps each from moving towards the other where it is the other's teacher.
    Running statistics of the mentee change and travel as vectors do, uncut; the mentor's stay.

    @article{wu2022communication,
      title   = {Communication-efficient federated learning via knowledge distillation},
      author  = {Wu, Chuhan and Wu, Fangzhao and Lyu, Lingjuan and Huang, Yongfeng and Xie, Xing},
      journal = {Nature Communications},
      volume  = {13},
      year    = {2022}
    }
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import usual
from ..client import Client, Parts
from ..losses import kl
from ..method import Method, Network, Part, Predictors, Server, Upload, children, personal_part, setting
from ..stage import Stage
from ..state import Tensors, add, average, copied, under, within


@dataclass(frozen=True, kw_only=True)
class FedKD(Method):
    epochs: int = 1
    energy_start: float = setting(0.95, above=0, most=1)
    energy_end: float = setting(0.98, above=0, most=1)
    distil: float = setting(
        1.0, least=0, dull={0: "nobody teaches: mentors are Local's, mentees FedAvg's of equal weights"}
    )
    kl: Literal["batchmean", "mean"] = "batchmean"
    detach: Literal["no", "yes"] = "no"

    plan = usual.every_round
    start = usual.initial_parts
    generic = usual.network_as_received  # (e)

    def build(self, network: Network) -> Mapping[str, Part]:
        mentor = {f"mentor_{n}": personal_part(copy.deepcopy(m)) for n, m in children(network).items()}
        w = personal_part(nn.Linear(network.features, network.features, bias=False))
        return {**usual.all_shared(self, network), **mentor, "bridge": w}

    def change_or_all(self, server: Server, client: str, stage: Stage) -> Tensors:
        return server.memory if client in server.of else server.shared  # (d)

    message = usual.by_stage(round=change_or_all, otherwise=usual.all_it_shares)

    def train(self, client: Client) -> Tensors:
        if change := within("cut", client.received):
            mentee = within("mentee", client.kept)
            client.load(add(mentee, whole(change, mentee)))  # (d)
        client.keep("mentee", client.tensors())  # (d)
        client.fit(self.loss, epochs=self.epochs)  # (a)
        change = add(client.tensors(), within("mentee", client.kept), -1)  # (b)
        return under("cut", cut(change, self.energy(client.stage.round - 1, client.stage.rounds)))  # (b)

    def loss(self, parts: Parts, x: Tensor, y: Tensor) -> Tensor:
        (f_t, o_t), f_s = mentor(parts, x), parts.features(x)
        o_s: Tensor = parts[parts.path[-1]](f_s)
        f_t, wf_s = f_t.flatten(1), parts.bridge(f_s.flatten(1))
        q = F.cross_entropy(o_t, y) + F.cross_entropy(o_s, y)  # (a)
        share = 1 / o_t.shape[1] if self.kl == "mean" else 1  # (a)
        kls = share * (kl(self.told(o_s), o_t) + kl(self.told(o_t), o_s))  # (a)
        features = F.mse_loss(f_t, self.told(wf_s)) + F.mse_loss(wf_s, self.told(f_t))  # (a)
        return q + self.distil * (kls + features) / (q + 1e-8)  # (a)

    def told(self, teacher: Tensor) -> Tensor:
        """What a teacher says, to the learner."""
        return teacher.detach() if self.detach == "yes" else teacher

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        changes = [whole(within("cut", u.tensors), server.shared) for u in uploads.values()]
        change = cut(average(changes, [1] * len(changes)), self.energy(stage.round, stage.rounds))  # (c)
        there = {k: {"there": torch.tensor(1)} for k in uploads}  # (d)
        return Server(add(server.shared, whole(change, server.shared)), under("cut", change), there)  # (c)

    def energy(self, finished: int, rounds: int) -> float:
        return self.energy_start + (self.energy_end - self.energy_start) * finished / rounds  # (b)

    def personal(self, client: Client) -> Predictors:
        return {"mentor": lambda x: mentor(client.parts, x)[1]}  # (e)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        client.load({f"mentor_{n}": t for n, t in client.tensors().items()})  # (f)
        client.fit(self.loss, epochs=epochs)  # (f)
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
