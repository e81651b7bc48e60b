"""FedProto: clients exchange class means of features in place of weights, and predict by the nearest.

Tan, Long, Liu, Zhou, Lu, Jiang & Zhang, "FedProto: Federated Prototype Learning across Heterogeneous
Clients", AAAI 2022.  arXiv:2105.00243

    min over w_1..w_K   Σ_k L_k(w_k) + λ R_k,    R_k = mean over batch and features of (f - C̄_y)²,  f = φ_k(x)

    (a) client   φ_k, h_k ← E epochs on L_k + λ R_k, from its own, C̄ as received; without C̄, R is 0
    (b) client   C_kj ← mean of φ_k(x) over all its examples of class j, in evaluation mode
    (c) server   C̄_j ← mean of the C_kj of those who sent one; of a class nobody sent, as it was
    (d) predict  personal: the class whose C̄_j is nearest to φ_k(x), by Euclidean distance; h_k ∘ φ_k besides

φ_k is all before the head h_k, so networks may differ where as many features reach all heads.
Travels: C̄ of all known classes to a client, its own C_k back, each with its class.  Stays: φ_k and h_k.

Deviations
    The paper's server weighs by examples and divides once more by the number of owners, which would
    shrink prototypes; the authors' code takes the plain mean, the default here.  agg=sample weighs by
    examples, and sends their numbers too.
    The paper's R is a distance, the authors' code a mean of squares over the features, as here: λ goes
    with their number.
    The authors' code takes C_k from features as seen in training, in the last epoch
    (proto_source=running), and scores both predictors; predict=head makes h_k ∘ φ_k the first.
    An example whose class has no C̄ adds 0 to R.  Before there is any C̄, h_k ∘ φ_k predicts alone.
    G, where networks are alike, is the mean of whole models with its own head.  A newcomer begins with
    the initial network: no weights travel.

    @inproceedings{tan2022fedproto,
      title     = {{FedProto}: Federated Prototype Learning across Heterogeneous Clients},
      author    = {Tan, Yue and Long, Guodong and Liu, Lu and Zhou, Tianyi and Lu, Qinghua and
                   Jiang, Jing and Zhang, Chengqi},
      booktitle = {AAAI Conference on Artificial Intelligence},
      year      = {2022}
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
from ..method import Method, Predictors, Server, Upload, setting
from ..stage import Stage
from ..state import Tensors, under, within


@dataclass(frozen=True, kw_only=True)
class FedProto(Method):
    lam: float = setting(1.0, least=0, dull={0: "without the pull to prototypes training is Local's"})
    epochs: int = 1
    agg: Literal["uniform", "sample"] = "uniform"
    proto_source: Literal["after", "running"] = "after"
    predict: Literal["prototype", "head"] = "prototype"

    build = usual.all_personal
    plan = usual.every_round
    start = usual.initial_parts
    message = usual.all_it_shares
    generic = usual.none_because("nobody shares weights")
    welcome = usual.by_taking_turns

    def train(self, client: Client) -> Tensors:
        known, optimiser = self.anchors(client), client.optimiser(moments="all")
        seen: list[tuple[Tensor, Tensor]] = []
        with client.learning():
            for x, y in client.batches(self.epochs):
                f = client.parts.features(x)
                seen.append((f.detach(), y))
                client.descend(optimiser, self.loss(client.parts, f, y, known), len(y))  # (a)
        if client.training.keep_moments:
            client.keep_moments("all", optimiser)
        running = self.proto_source == "running" and seen
        own = prototypes.of_last_epoch(seen, self.epochs) if running else prototypes.of_data(client)  # (b)
        return under("own", own if self.agg == "sample" else {n: own[n] for n in ("class", "prototype")})

    def anchors(self, client: Client) -> Tensors:
        """What features are pulled to."""
        return within("global", client.received)

    def loss(self, parts: Parts, f: Tensor, y: Tensor, known: Tensors) -> Tensor:
        """The objective on features of a batch."""
        loss = F.cross_entropy(parts[parts.path[-1]](f), y)
        if not known:
            return loss
        there, row = prototypes.rows_of(y, known["class"])
        return loss + self.lam * prototype_distance(f.flatten(1), known["prototype"][row], there)  # (a)

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        sent = [within("own", u.tensors) for u in uploads.values()]
        new = prototypes.mean_by_class(sent, within("global", server.shared), self.agg)  # (c)
        return replace(server, shared=under("global", new))

    def personal(self, client: Client) -> Predictors:
        known = within("global", client.received)
        if not known:
            return {"head": client.parts}  # (d)

        def nearest(x: Tensor) -> Tensor:
            f = client.parts.features(x).flatten(1).to(known["prototype"])
            near = -torch.cdist(f, known["prototype"], compute_mode="donot_use_mm_for_euclid_dist")  # (d)
            return near.new_full((len(x), client.data.classes), -torch.inf).index_copy(
                1, known["class"], near
            )

        both: Predictors = {"prototype": nearest, "head": client.parts}  # (d)
        return {self.predict: both[self.predict], **both}  # (d)
