"""PFedPM: clients exchange class means of features; each mixes everybody's with its own.

Xing, Shi, Peng, Hu & Li, "Personalized federated learning based on feature fusion", CSCWD 2024.
arXiv:2406.16583

    φ_i, h_i:  min  L_i(h_i ∘ φ_i) + λ R_i,     R_i = mean over batch and features of (f - C̃_y)²,   f = φ_i(x)
    ψ_i:       min  mean over examples and known classes j of (ψ_i(f, C̃_j) - 1[y = j])²

    (a) client   C̃_j ← a C_ij + (1 - a) C̄_j, with C_i as it sent it last; of a class it has not, C̄_j
    (b) client   φ_i, h_i ← a step on L_i + λ R_i, C̃ constant, over E epochs; without C̄, R is 0
    (c) client   after each such step: ψ_i ← a step on its loss, φ_i fixed; without C̄, none
    (d) client   C_ij ← mean of φ_i(x) over all its examples of class j, in evaluation mode
    (e) server   C̄_j ← Σ_i n_ij C_ij / Σ_i n_ij over those who sent one; of a class nobody sent, as it was
    (f) predict  personal: h_i ∘ φ_i (pFedPM), and besides the class of the highest ψ_i(f, C̃_j) (R-pFedPM),
                 with C̃ as last mixed; both from one run

φ_i is all before the head h_i, so networks may differ where as many features reach all heads (pFedPM-mh).
ψ_i, the relation module, sees a feature and a prototype as the two channels of a vector, or with
map=20+4+4 as twice 20 channels of a map: a convolution, two linear layers, a sigmoid.
Travels: C̄ with classes and counts to a client, its own C_i with classes and counts back.
Stays: φ_i, h_i, ψ_i.

Deviations
    Equation 7 divides once more by the number of owners, after weights that sum to 1: C̄ would shrink
    seven- to tenfold.  agg=literal does so; agg=uniform is FedProto's code.
    Equation 11 is a distance of class means; λ = 1 and 0.1 are FedProto's, whose code has R as above.
    reg=class_l2 is Σ_j (n_ij / n_j) ‖mean_{y=j} f - C̃_j‖ over the classes of the batch.
    C̃ is fixed while w moves (below equation 11); mix=live takes C_i from the batch at hand instead, as
    Algorithm 1 may be read: then a = 1 leaves of class_l2 nothing, and of the default a class's variance.
    Equation 12 squares twice; once is meant.  In (c) φ is in evaluation mode, as in prediction: else its
    dropout would be drawn and its running statistics moved a second time.
    proto_source=running averages features as seen in the last epoch of training, as FedProto's code does.
    The text's feature is what leaves the convolutions, its numbers of sent parameters are those of the
    next layer, the default; the model says where the head begins: pfedpm-cnn:head_layers=2, map=20+4+4.
    ψ's sizes are those of its origin, Sung et al. (2018).  A newcomer begins with the initial network.
    The paper tunes a and reports 0.3, 0.4 and 0.6 on FEMNIST; the default is the middle one.

    @inproceedings{xing2024personalized,
      title     = {Personalized Federated Learning Based on Feature Fusion},
      author    = {Xing, Wolong and Shi, Zhenkui and Peng, Hongyan and Hu, Xiantao and Li, Xianxian},
      booktitle = {International Conference on Computer Supported Cooperative Work in Design},
      year      = {2024}
    }
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import prototypes, usual
from ..client import Client, Parts
from ..losses import prototype_distance
from ..method import Method, Network, Part, Predictors, Server, Upload, personal_part, setting
from ..side_networks import relate, relation_module
from ..stage import Stage
from ..state import Tensors, under, within

PIECE = 64  # examples whose pairs with all prototypes are scored at once


@dataclass(frozen=True, kw_only=True)
class PFedPM(Method):
    a: float = setting(0.4, least=0, most=1, dull={1: "nobody's features are pulled to those of others"})
    lam: float = setting(1.0, least=0, dull={0: "without the pull to prototypes training is Local's"})
    epochs: int = 1
    agg: Literal["sample", "uniform", "literal"] = "sample"
    reg: Literal["sample_mse", "class_l2"] = "sample_mse"
    mix: Literal["fixed", "live"] = "fixed"
    proto_source: Literal["after", "running"] = "after"
    map: tuple[int, ...] = ()  # channels, height, width of a feature; empty: a vector

    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    generic = usual.none_because("nobody shares weights")
    welcome = usual.by_taking_turns

    def build(self, network: Network) -> Mapping[str, Part]:
        relation = relation_module(network.features, self.map).to(next(network.parameters()).dtype)
        return {**usual.all_personal(self, network), "relation": personal_part(relation)}

    def train(self, client: Client) -> Tensors:
        parts, mixed, towards = client.parts, self.mixed(client), self.anchors(client)
        body = client.optimiser(*parts.path, moments="body")
        relation = client.optimiser("relation", moments="relation")
        seen: list[tuple[Tensor, Tensor]] = []
        with client.learning():
            for x, y in client.batches(self.epochs, into=parts.path):
                f = parts.features(x)
                seen.append((f.detach(), y))
                client.descend(body, self.loss(parts, f, y, towards), len(y))  # (b)
                if mixed:
                    client.descend(relation, relation_loss(parts, x, y, mixed), len(y))  # (c)
        if client.training.keep_moments:
            client.keep_moments("body", body)
            client.keep_moments("relation", relation)
        running = self.proto_source == "running" and seen
        own = prototypes.of_last_epoch(seen, self.epochs) if running else prototypes.of_data(client)  # (d)
        client.keep("mixed", mixed)
        client.keep("own", own)
        return under("own", own)

    def mixed(self, client: Client) -> Tensors:
        """C̃ of all known classes."""
        known, own = within("global", client.received), within("own", client.kept)
        if not (known and own):
            return known
        mine, row = prototypes.rows_of(known["class"], own["class"])
        pulled = torch.lerp(known["prototype"], own["prototype"][row], self.a)  # (a)
        return {**known, "prototype": torch.where(mine[:, None], pulled, known["prototype"])}  # (a)

    def anchors(self, client: Client) -> Tensors:
        """What features are pulled to: C̃, or C̄ where C̃ is mixed batch by batch; the client's n_ij / n_j."""
        known = self.mixed(client) if self.mix == "fixed" else within("global", client.received)
        mine = client.data.counts.to(client.device)
        return {**known, "share": mine[known["class"]] / known["count"]} if known else {}

    def loss(self, parts: Parts, f: Tensor, y: Tensor, towards: Tensors) -> Tensor:
        """The objective on features of a batch."""
        loss = F.cross_entropy(parts[parts.path[-1]](f), y)
        return loss + self.lam * self.pull(f.flatten(1), y, towards) if towards else loss  # (b)

    def pull(self, f: Tensor, y: Tensor, towards: Tensors) -> Tensor:
        """R; classes without a prototype count 0."""
        classes, at = y.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        there, row = prototypes.rows_of(classes, towards["class"])
        same, target = (classes[:, None] == y).to(f), towards["prototype"][row].to(f)
        means = same @ f / same.sum(1, keepdim=True)
        if self.mix == "live":
            target = torch.lerp(target, means, self.a)
        if self.reg == "sample_mse":
            return prototype_distance(f, target[at], there[at])
        apart = torch.linalg.vector_norm(means - target, dim=1)  # whose slope at 0 is 0
        return torch.sum(towards["share"][row] * there * apart)

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        sent = [within("own", u.tensors) for u in uploads.values()]
        new = prototypes.mean_by_class(sent, within("global", server.shared), self.agg)  # (e)
        return replace(server, shared=under("global", new))

    def personal(self, client: Client) -> Predictors:
        parts, known = client.parts, within("mixed", client.kept) or self.mixed(client)  # (f)
        if not known:
            return {"head": parts}  # (f)

        def relation(x: Tensor) -> Tensor:
            pieces = torch.split(parts.features(x).flatten(1), PIECE)
            scores = torch.cat([relate(parts.relation, f, known["prototype"]) for f in pieces])
            return scores.new_full((len(x), client.data.classes), -1).index_copy(1, known["class"], scores)

        return {"head": parts, "relation": relation}  # (f)


def relation_loss(parts: Parts, x: Tensor, y: Tensor, known: Tensors) -> Tensor:
    """ψ's loss on features as they are in prediction."""
    with torch.no_grad():
        parts.eval()
        f = parts.features(x).flatten(1)
        parts.train()
    scores = relate(parts.relation, f, known["prototype"])
    return F.mse_loss(scores, (y[:, None] == known["class"]).to(scores))
