"""FedRIR: what is common and what is one's own, kept apart.

"FedRIR: Rethinking Information Representation in Federated Learning", WWW 2025.

    (a) client   F_cs, G ← E epochs: ‖G(z) - x‖² per number + 0.1 KL, z drawn from F_cs(masked x)
    (b) client   batch by batch, E epochs: I ← one step of the likelihood of f_g given f_cs, both fixed
    (c) client   same batch: F_g, H ← one step of CE(H([f_g, f_cs]), y) + max(0, vCLUB(f_cs; f_g)), I fixed
    (d) server   F_g ← Σ_{k in S} (n_k / n_S) F_g,k, parameters only
    (e) predict  personal: H([f_g, mean of F_cs])

F_g is all before the head; F_cs the same with twice the features, mean and log variance; G the generator;
I two small networks, mean and log variance of f_g; H reads both features, f_g first.
Travels: F_g's parameters.  Stays: all else, running statistics, and the moments of three Adams.

Deviations
    I is trained apart, as the cited estimator has it; the authors' code takes one loss for I and F_g.
    vCLUB is at least 0: an upper bound of what is not negative can only be lower if I is behind.
    An encoder that does not end in a linear layer gets one for F_cs.  Inputs that are no images: a patch is
    one number, and G is linear.  A newcomer trains all but F_g.
"""

import copy
import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pluribus import usual
from pluribus.client import Client, Parts
from pluribus.method import Method, Part, Predictors, children, personal_part, setting, shared_part
from pluribus.state import Tensors


@dataclass(frozen=True, kw_only=True)
class FedRIR(Method):
    epochs: int = 1
    masked: float = setting(0.6, least=0, most=1)

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (d)
    generic = usual.none_because("every head reads its client's own features")

    def build(self, network: nn.Module) -> dict[str, Part]:
        d, classes = cast("int", network.features), cast("int", network.classes)
        *body, _ = children(network).items()
        own = {
            "encoder_own": nn.Sequential(*(copy.deepcopy(m) for _, m in body[:-1]), doubled(body[-1][1], d)),
            "generator": generator_of(cast("tuple[int, ...]", network.shape), d),
            "information": nn.ModuleDict(
                {"mean": perceptron(d), "spread": nn.Sequential(*perceptron(d), nn.Tanh())}
            ),
            "head": nn.Linear(2 * d, classes),
        }
        shared = {name: shared_part(module, statistics="local") for name, module in body}
        return shared | {name: personal_part(module) for name, module in own.items()}

    def train(self, client: Client) -> Tensors:
        self.learn(client, self.epochs, [*client.parts.path[:-1], "head"])
        return client.tensors()

    def welcome(self, client: Client, epochs: int) -> Predictors:
        self.learn(client, epochs, ["head"])
        return self.personal(client)

    def learn(self, client: Client, epochs: int, last: list[str]) -> None:
        parts, rng = client.parts.train(), client.rng("noise")
        trained = {"rebuild": ["encoder_own", "generator"], "inform": ["information"], "classify": last}
        adam = {
            n: client.resume(n, torch.optim.Adam(client.parameters(*its), client.lr))
            for n, its in trained.items()
        }
        for x, _ in client.batches(epochs, "rebuild"):
            client.descend(adam["rebuild"], self.rebuilding(parts, x, rng), len(x))  # (a)
        for x, y in client.batches(epochs, "classify"):
            f, own = parts.features(x).flatten(1), own_features(parts, x).detach()
            client.descend(adam["inform"], unlikelihood(parts, own, f.detach()), len(x))  # (b)
            loss = F.cross_entropy(parts.head(torch.cat([f, own], 1)), y) + dependence(parts, own, f)
            client.descend(adam["classify"], loss, len(x))  # (c)
        for name, its in adam.items():
            client.keep_moments(name, its)

    def rebuilding(self, parts: Parts, x: Tensor, rng: torch.Generator) -> Tensor:
        mean, spread = parts.encoder_own(masked(x, self.masked, rng)).chunk(2, dim=1)
        z = mean + torch.randn(mean.shape, generator=rng) * (spread / 2).exp()
        kl = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
        loss: Tensor = F.mse_loss(parts.generator(z), x) + 0.1 * kl  # (a)
        return loss

    def personal(self, client: Client) -> Predictors:
        parts = client.parts
        return {
            "both features": lambda x: parts.head(
                torch.cat([parts.features(x).flatten(1), own_features(parts, x)], 1)
            )
        }  # (e)


def own_features(parts: Parts, x: Tensor) -> Tensor:
    mean: Tensor = parts.encoder_own(x).chunk(2, dim=1)[0]
    return mean


def masked(x: Tensor, share: float, rng: torch.Generator) -> Tensor:
    """Each example with exactly this share of its 4 x 4 patches at 0, others than its neighbour's."""
    patch = 4 if x.dim() == 4 else 1
    grid = [math.ceil(size / patch) for size in x.shape[2:]] or [1, x.shape[1]]
    order = torch.rand(len(x), math.prod(grid), generator=rng).argsort(1)
    seen = (order >= math.floor(share * order.shape[1] + 1e-9)).view(len(x), 1, *grid)
    seen = seen.repeat_interleave(patch, 2).repeat_interleave(patch, 3)[..., : x.shape[-2], : x.shape[-1]]
    return x * (seen if x.dim() == 4 else seen.flatten(1))


def unlikelihood(parts: Parts, own: Tensor, f: Tensor) -> Tensor:
    """How badly I tells f from own: minus the log likelihood, but for constants and a factor."""
    mean, spread = parts.information["mean"](own), parts.information["spread"](own)
    loss: Tensor = ((mean - f).square() / spread.exp() + spread).sum(1).mean()
    return loss


def dependence(parts: Parts, own: Tensor, f: Tensor) -> Tensor:
    """vCLUB: how much better own tells its f than the average other's; at least 0."""
    mean, spread = parts.information["mean"](own), parts.information["spread"](own)
    others = (mean - f.mean(0)).square() + f.var(0, correction=0)  # the mean over j of (m_i - f_j)²
    gap: Tensor = ((others - (mean - f).square()) / (2 * spread.exp())).sum(1).mean()
    return gap.clamp(min=0)


def perceptron(d: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(d, 128), nn.ReLU(), nn.Linear(128, d))


def doubled(encoder: nn.Module, d: int) -> nn.Module:
    """A copy with twice the features."""
    own = copy.deepcopy(encoder)
    if isinstance(own, nn.Sequential) and isinstance(own[-1], nn.Linear):
        own[-1] = nn.Linear(own[-1].in_features, 2 * d)
        return own
    return nn.Sequential(own, nn.Flatten(), nn.Linear(d, 2 * d))


def generator_of(shape: tuple[int, ...], d: int) -> nn.Sequential:
    """From features to inputs of this shape."""
    p = (shape[-1] - 12) // 4
    if len(shape) < 3 or p < 1 or shape[1:] != (4 * p + 12,) * 2:
        return nn.Sequential(nn.Linear(d, math.prod(shape)), nn.Unflatten(1, shape))
    up = (
        nn.ConvTranspose2d(64, 32, 5, 2, output_padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, shape[0], 5, 2, output_padding=1),
    )
    return nn.Sequential(nn.Linear(d, 64 * p * p), nn.Unflatten(1, (64, p, p)), *up)
