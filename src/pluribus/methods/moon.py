"""MOON: features are pulled to those of the model that was received, and away from those of one's last.

Li, He & Song, "Model-Contrastive Federated Learning", CVPR 2021.  arXiv:2103.16257

    client k:  min over w   L_k(w) + μ mean ℓ,    ℓ = -log( e^{s_g/τ} / (e^{s_g/τ} + e^{s_p/τ}) )
    s_g = cos(z, z_g),  s_p = cos(z, z_p),  z a projection of the features, by w, by w_t, by w_k of last time

    (a) client   w_k ← E epochs on L_k(w) + μ mean ℓ, from w_t;  ℓ = log(1 + e^{(s_p - s_g)/τ})
    (b) client   z_g and z_p by models that hold still, in evaluation mode; who was never here has z_p = z_g
    (c) client   keeps w_k until its next turn, whenever that is
    (d) server   w ← Σ_{k in S} (n_k / n_S) w_k
    (e) predict  generic and personal: w

z is what leaves a projection of two layers (ReLU between), which the head begins with; the classes are read
from it by one more.  A network with a projector (`projector=256`) is given none: z is what reaches its
head, as with projection=0.
Travels: w, both ways.  Stays: w_k of last time.

Deviations
    In a client's first turn ℓ = log 2 pulls nowhere; the authors' code leaves it out.
    The head of a network is replaced by projection and one layer, also where it had several.
    One model of the past is kept, as in the paper; the authors' code can keep more.
    μ = 5 and τ = 0.5 are the paper's for CIFAR-10; for CIFAR-100 and Tiny-ImageNet its μ is 1.

    @inproceedings{li2021model,
      title     = {Model-Contrastive Federated Learning},
      author    = {Li, Qinbin and He, Bingsheng and Song, Dawn},
      booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
      year      = {2021}
    }
"""

import copy
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from .. import usual
from ..client import Client, Parts
from ..method import Method, Network, Part, setting, shared_part
from ..state import Tensors, within


def contrast(z: Tensor, received: Tensor, previous: Tensor, tau: float) -> Tensor:
    """log(1 + e^{(s_p - s_g)/τ}), mean over the batch."""
    s_g, s_p = F.cosine_similarity(z, received), F.cosine_similarity(z, previous)
    return F.softplus((s_p - s_g) / tau).mean()


def still(parts: Parts, state: Tensors) -> Parts:
    """The same network with these tensors; it does not learn, and predicts as when it is read."""
    frozen = copy.deepcopy(parts).eval().requires_grad_(False)
    frozen.load_state_dict(state)
    return frozen


@dataclass(frozen=True, kw_only=True)
class MOON(Method):
    epochs: int = 1
    mu: float = setting(5.0, least=0, dull={0: "without the contrast this is FedAvg"})
    tau: float = setting(0.5, above=0)
    projection: int = setting(256, least=0)

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    aggregate = usual.mean_by_examples  # (d)
    personal = usual.network_as_received  # (e)
    generic = usual.network_as_received  # (e)
    welcome = usual.tuned()

    def build(self, network: Network) -> Mapping[str, Part]:
        parts = usual.children_with(["head"], self, network)
        if self.is_given_projection(parts):
            parts["head"] = self.projecting_head(network)
        return {name: shared_part(module) for name, module in parts.items()}

    def is_given_projection(self, parts: Iterable[str]) -> bool:
        return self.projection > 0 and "projector" not in parts

    def projecting_head(self, network: Network) -> nn.Module:
        d, into = network.features, self.projection
        layers = nn.Flatten(), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, into)
        head = OrderedDict(projection=nn.Sequential(*layers), last=nn.Linear(into, network.classes))
        return nn.Sequential(head).to(next(network.parameters()).dtype)

    def lacking(self, parts: Parts) -> list[str]:
        given = (
            "no projector, so it is given a projection that other methods do not have; projection=0 is none"
        )
        return [given] if self.is_given_projection(parts.path) else []

    def train(self, client: Client) -> Tensors:
        now = client.parts.state_dict()
        received = still(client.parts, now)  # (b)
        previous = still(client.parts, within("previous", client.kept) or now)  # (b)

        def pulled(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
            z, logits = self.seen(parts, x)
            z_g, z_p = self.seen(received, x)[0], self.seen(previous, x)[0]
            return F.cross_entropy(logits, y) + self.mu * contrast(z, z_g, z_p, self.tau)

        client.fit(pulled, epochs=self.epochs)  # (a)
        client.keep("previous", client.parts.state_dict())  # (c)
        return client.tensors()

    def seen(self, parts: Parts, x: Tensor) -> tuple[Tensor, Tensor]:
        """z, a vector for each example, and the logits."""
        features = parts.features(x)
        if not self.is_given_projection(parts.path):
            return features.flatten(1), parts.head(features)
        z = parts.head.projection(features)
        return z, parts.head.last(z)
