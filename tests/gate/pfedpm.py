"""PFedPM: clients exchange class means of features, so their networks may differ.

Xing, Shi, Peng, Hu & Li, "Personalized federated learning based on feature fusion", CSCWD 2024.
arXiv:2406.16583

    client k:  CE(h_k(f), y) + λ mean (f - C̃_y)²,    f = φ_k(x),   C̃_j = a C_k,j + (1 - a) C̄_j

    (a) client   C̃ ← own and global class means mixed; of a class it has not, the global one
    (b) client   φ, h ← one epoch on that loss, C̃ constant
    (c) client   after each such step: ψ ← one step of (ψ(f, C̃_j) - 1[y = j])² over all known classes, φ fixed
    (d) client   C_k,j ← mean of φ(x) over all its examples of class j, in evaluation mode
    (e) server   C̄_j ← mean of the C_k,j by number of examples; of a class nobody sent, as it was
    (f) predict  personal: h (pFedPM), and the class of the highest ψ (R-pFedPM), with C̃ as last mixed

φ is all before the head h; ψ scores pairs of feature and prototype.
Travels: for each class a vector, its number, a count (up).  Stays: every part, C_k, C̃.

Deviations
    Server means are weighted means (the paper divides once more by the number of owners).
    The first round has no C̄: λ and ψ have nothing to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pluribus import usual
from pluribus.client import Client, Parts
from pluribus.method import Method, MethodError, Part, Predictors, Server, Upload, personal_part, setting
from pluribus.stage import Stage
from pluribus.state import Tensors, under, within


@dataclass(frozen=True, kw_only=True)
class PFedPM(Method):
    a: float = setting(0.4, least=0, most=1, dull={1: "clients ignore each other"})
    lam: float = setting(1.0, least=0, dull={0: "without the pull this is Local"})

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    generic = usual.none_because("no part is shared")
    welcome = usual.by_taking_turns

    def build(self, network: nn.Module) -> dict[str, Part]:
        d = cast("int", network.features)
        return {**usual.all_personal(self, network), "relation": personal_part(relation_of(d))}

    def train(self, client: Client) -> Tensors:
        parts, known = client.parts, self.mixed(client)
        client.keep("mixed", known)
        body, link = client.optimiser(*parts.path), client.optimiser("relation")
        parts.train()
        for x, y in client.batches(epochs=1):
            f = parts.features(x).flatten(1)
            loss = F.cross_entropy(parts[parts.path[-1]](f), y)
            client.descend(body, loss + self.lam * away(f, y, known) if known else loss, len(y))  # (b)
            if known:
                with torch.no_grad():
                    f = parts.features(x).flatten(1)
                match = (y[:, None] == known["class"]).to(f)
                client.descend(link, F.mse_loss(relate(parts, f, known["prototype"]), match), len(y))  # (c)
        client.keep("own", prototypes(client))
        return under("own", within("own", client.kept))

    def mixed(self, client: Client) -> dict[str, Tensor]:
        known, own = within("global", client.received), within("own", client.kept)
        if not (known and own):
            return known
        mine, at = (known["class"][:, None] == own["class"]).max(1)
        pulled = torch.lerp(known["prototype"], own["prototype"][at], self.a)  # (a)
        return {"class": known["class"], "prototype": torch.where(mine[:, None], pulled, known["prototype"])}

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        sent = [within("own", u.tensors) for u in uploads.values()]
        if len(sizes := {int(one["prototype"].shape[1]) for one in sent}) > 1:
            raise MethodError(f"pFedPM needs features of one size from everybody; there are {sorted(sizes)}")
        vectors, classes, counts = (
            torch.cat([one[n] for one in sent]) for n in ("prototype", "class", "count")
        )
        new = classes.unique()  # type: ignore[no-untyped-call]
        weight = (new[:, None] == classes) * counts.double()
        prototype = (weight @ vectors.double() / weight.sum(1, keepdim=True)).float()  # (e)
        if old := within("global", server.shared):
            silent = ~torch.isin(old["class"], new)
            new, prototype = (
                torch.cat([new, old["class"][silent]]),
                torch.cat([prototype, old["prototype"][silent]]),
            )  # (e)
        return Server(under("global", {"class": new, "prototype": prototype}))

    def personal(self, client: Client) -> Predictors:
        parts, known = client.parts, within("mixed", client.kept)
        if not known:
            return {"head": parts}  # (f)

        def relation(x: Tensor) -> Tensor:
            scores = relate(parts, parts.features(x).flatten(1), known["prototype"])
            return scores.new_full((len(x), client.data.classes), -1).index_copy(1, known["class"], scores)

        return {"head": parts, "relation": relation}  # (f)


def away(f: Tensor, y: Tensor, known: Tensors) -> Tensor:
    """How far features are from their classes' mixed means; a class without one counts 0."""
    there, at = (y[:, None] == known["class"]).max(1)
    return ((f - known["prototype"][at]).square() * there[:, None]).mean()


@torch.no_grad()
def prototypes(client: Client) -> dict[str, Tensor]:
    """The mean feature of each class the client has."""
    client.parts.eval()
    f = torch.cat([client.parts.features(x).flatten(1) for x, _ in client.in_order()])
    classes = client.data.counts.nonzero().flatten()
    each = torch.stack([f[client.data.y == c].mean(0) for c in classes])  # (d)
    return {"prototype": each, "class": classes, "count": client.data.counts[classes]}


def relation_of(d: int) -> nn.Sequential:
    """Feature and prototype as two channels of a convolution, two linear layers, a score between 0 and 1."""
    first = nn.Conv1d(2, 64, 3, padding=1), nn.BatchNorm1d(64), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten()
    return nn.Sequential(*first, nn.Linear(64 * (d // 2), 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())


def relate(parts: Parts, f: Tensor, prototypes: Tensor) -> Tensor:
    """How well each of the features goes with each of the prototypes."""
    size = (len(f), *prototypes.shape)
    pairs = torch.stack([f[:, None].expand(size), prototypes[None].expand(size)], dim=2)
    scores: Tensor = parts.relation(pairs.flatten(0, 1))
    return scores.view(len(f), len(prototypes))
