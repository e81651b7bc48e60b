"""FedRIR: shared features and features of one's own, learnt apart and read together.

Huang, Shao, Yang, Lu & Zhang, "FedRIR: Rethinking Information Representation in Federated Learning",
WWW 2025.  arXiv:2502.00859

    F_cs, G:  min  mean (G(z) - x)² + 0.1 KL(N(μ, e^λ) ‖ N(0, 1))     (μ, λ) = F_cs(mask(x)),  z ~ N(μ, e^λ)
    I:        max  mean log q(f_g | f_cs)                             q = N(m, e^v),  (m, v) = I(f_cs)
    F_g, H:   min  CE(H([f_g, f_cs]), y) + max(0, vCLUB_q(f_cs; f_g))       f_g = F_g(x),  f_cs = μ of F_cs(x)

    (a) client   F_cs, G ← E epochs of the first line; mask_ratio of the 4 x 4 patches are 0, drawn anew
    (b) client   batch by batch, E epochs: I ← a step of the second line, f_g and f_cs held still
    (c) client   the same batch: F_g, H ← a step of the third line, F_cs and the new I held still
    (d) server   F_g ← Σ_{k in S} (n_k / n_S) F_g,k, parameters only
    (e) predict  personal: H([f_g, f_cs]), nothing is drawn

F_g is all before the head, F_cs the same with twice the features: means μ and log variances λ.
Travels: F_g, both ways.  Stays: F_cs, G, I, H, running statistics, and the moments of three optimisers.

Deviations
    The paper lets I and F_g minimise vCLUB together (id_mode=vclub_joint); linear in m, it has no minimum
    over I.  The authors' code (nll_joint; for the paper's tables) minimises -log q(f_cs | f_g) over both,
    so that the features tell more of each other, not less.  The default is CLUB as its own authors train
    it; 0 is our floor, since the bound of what is never negative is below 0 only where I is behind.
    As in the authors' code and not as printed: (a) has a mean square and KL, not a norm; I has no ReLU at
    its end, and tanh on v; f_g comes first; F_cs is in training mode in (b) and (c) too, so that its
    running statistics, local like those of F_g, are also of whole images.
    mcsl=off skips (a), F_cs stays as built; mcsl=joint trains F_cs in (c) instead.
    The optimiser is the experiment's (paper: Adam, 5e-4, batches of 100, an incomplete one dropped); its
    moments stay over rounds whatever the experiment keeps.
    All clients start alike, and F_cs with F_g's layers, so that pretrained ones serve both; F_cs gets a
    linear layer behind if F_g does not end in one.  G is linear where two deconvolutions do not give the
    size of the image (they do for 28, 32, 64); of inputs that are no images a patch is one number.
    A newcomer does (a) to (c) in so many rounds of its own, with F_g as received.

    @inproceedings{huang2025fedrir,
      title     = {{FedRIR}: Rethinking Information Representation in Federated Learning},
      author    = {Huang, Yongqiang and Shao, Zerui and Yang, Ziyuan and Lu, Zexin and Zhang, Yi},
      booktitle = {Proceedings of the ACM Web Conference},
      year      = {2025}
    }
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import usual
from ..client import Client, Loss, Parts
from ..losses import unlikelihood, vclub
from ..masking import masked
from ..method import Method, Network, Part, Predictors, personal_part, setting, shared_part
from ..side_networks import generator, twice_as_wide, two_layers
from ..stage import Stage
from ..state import Tensors


@dataclass(frozen=True, kw_only=True)
class FedRIR(Method):
    epochs: int = 1
    mask_ratio: float = setting(0.6, least=0, most=1, dull={0: "nothing is masked", 1: "all is masked"})
    mcsl: Literal["on", "off", "joint"] = setting("on", dull={"off": "F_cs stays as built"})
    id_mode: Literal["vclub", "nll_joint", "vclub_joint", "off"] = setting(
        "vclub", dull={"vclub_joint": "I lowers the loss without end", "off": "nothing parts the features"}
    )

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (d)
    generic = usual.none_because("every head reads features that are its client's own")

    def build(self, network: Network) -> dict[str, Part]:
        *body, _ = usual.children_with(["head"], self, network).items()
        d = network.features
        own = {
            "encoder_personal": twice_as_wide([module for _, module in body], d),
            "generator": generator(tuple(network.shape), d),
            "information": nn.ModuleDict(
                {"mean": two_layers(d), "spread": nn.Sequential(*two_layers(d), nn.Tanh())}
            ),
            "head": nn.Linear(2 * d, network.classes),
        }
        shared = {name: shared_part(module, statistics="local") for name, module in body}
        return shared | {name: personal_part(module) for name, module in own.items()}

    def train(self, client: Client) -> Tensors:
        self.learn(client, *client.parts.path[:-1])
        return client.tensors()

    def welcome(self, client: Client, epochs: int) -> Predictors:
        for t in range(1, epochs + 1):
            self.learn(replace(client, stage=Stage("welcome", t, epochs)))
        return self.personal(client)

    def learn(self, client: Client, *body: str) -> None:
        """Both stages of a turn; the body learns only if it is named."""
        client = replace(client, training=replace(client.training, keep_moments=True))
        if self.mcsl == "on":
            its = ["encoder_personal", "generator"]
            client.fit(self.rebuilding(client), epochs=self.epochs, train=its, phase="rebuild")  # (a)
        moved = [*body, "head"]
        moved += ["encoder_personal"] if self.mcsl == "joint" else []
        moved += ["information"] if self.id_mode in ("nll_joint", "vclub_joint") else []
        inform = client.optimiser("information", moments="inform")
        classify = client.optimiser(*moved, moments="classify")
        with client.learning(*moved, "information"):
            for x, y in client.batches(self.epochs, "classify"):
                f, own = features(client.parts, x)
                if self.id_mode == "vclub":
                    unlikely = unlikelihood(*guess(client.parts, own.detach()), f.detach())
                    client.descend(inform, unlikely, examples=0)  # (b)
                right = F.cross_entropy(client.parts.head(torch.cat([f, own], 1)), y)
                client.descend(classify, right + self.dependence(client.parts, f, own), len(y))  # (c)
        client.keep_moments("inform", inform)
        client.keep_moments("classify", classify)

    def rebuilding(self, client: Client) -> Loss:
        mask, noise = client.rng("mask"), client.rng("noise")

        def loss(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
            mean, spread = code(parts, masked(x, self.mask_ratio, mask))
            z = mean + torch.randn(mean.shape, generator=noise).to(mean) * (spread / 2).exp()
            kl = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
            return F.mse_loss(parts.generator(z), x) + 0.1 * kl

        return loss

    def dependence(self, parts: Parts, f: Tensor, own: Tensor) -> Tensor:
        """L_id, how much f_g and f_cs tell of each other; its opposite under nll_joint."""
        if self.id_mode == "off":
            return f.new_zeros(())
        if self.id_mode == "nll_joint":
            return unlikelihood(*guess(parts, f), own)
        bound = vclub(*guess(parts, own), f)
        return bound.clamp(min=0) if self.id_mode == "vclub" else bound

    def personal(self, client: Client) -> Predictors:
        parts = client.parts
        return {"both features": lambda x: parts.head(torch.cat(features(parts, x), 1))}  # (e)


def features(parts: Parts, x: Tensor) -> tuple[Tensor, Tensor]:
    """f_g, and f_cs, which is a mean."""
    return parts.features(x).flatten(1), code(parts, x)[0]


def code(parts: Parts, x: Tensor) -> tuple[Tensor, Tensor]:
    """μ and λ, mean and log variance."""
    mean, spread = parts.encoder_personal(x).chunk(2, dim=1)
    return mean, spread


def guess(parts: Parts, told: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log variance that I expects of a feature, told the other."""
    return parts.information["mean"](told), parts.information["spread"](told)
