"""FedReG: one head for balanced data, one for one's own, on one encoder.

Liu, Yang & Wang, "FedReG: Recouping the Global Model in Personalized Federated Learning", TU Delft, 2024.

    o = h(φ(x)) + h_k(φ(x)) on the client's own data,   h(φ(x)) on a balanced copy of it

    (a) client   before round 1: says how many examples it has
    (b) server   t ← a statistic of everybody's sizes: average, median, max, or the second smallest
    (c) client   once: of each of its i classes max(1, ⌊t/i⌋) examples, drawn; if it has fewer, all and copies
    (d) client   φ, h_k ← E epochs of CE of both heads' sum, h fixed
    (e) client   φ, h ← E epochs of CE of h on the balanced data
    (f) server   φ ← mean by number of examples; h ← mean by number of balanced examples that are no copies
    (g) predict  generic: h; personal: h + h_k

φ is all before the head h; h_k starts so that it says nothing.
Travels: φ and h, both ways; one size up and t down before round 1; two sizes up each round.
Stays: h_k; which examples are in the balanced data.

Deviations
    A copy differs from its original by a little noise, not by crops and flips.
    h weighs by originals, as in the text; the algorithms of the paper say the size of the balanced data.
    Phases follow each other, E epochs of (d) and then E of (e); the last, smaller batch is used.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pluribus import usual
from pluribus.client import Client, Parts
from pluribus.examples import Examples
from pluribus.method import Method, Part, Predictors, Server, Upload, children, personal_part, setting
from pluribus.stage import Stage
from pluribus.state import Tensors, average, select


def both_heads(parts: Parts, x: Tensor) -> Tensor:
    z = parts.features(x)
    return parts.head(z) + parts.head_personal(z)  # type: ignore[no-any-return]


def both_loss(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(both_heads(parts, x), y)


@dataclass(frozen=True, kw_only=True)
class FedReG(Method):
    epochs: int = 5
    threshold: Literal["average", "median", "max", "sec-min"] = "average"
    noise: float = setting(0.05, least=0)

    start = usual.initial_parts
    generic = usual.network_as_received  # (g)
    welcome = usual.tuned("head_personal", loss=both_loss)

    def build(self, network: nn.Module) -> dict[str, Part]:
        own = copy.deepcopy(children(network)["head"])
        for p in [m for m in own.modules() if isinstance(m, nn.Linear)][-1].parameters():
            nn.init.zeros_(p)
        return {**usual.all_shared(self, network), "head_personal": personal_part(own)}

    def plan(self, rounds: int, rng: torch.Generator) -> list[Stage]:
        census = Stage("sizes", 0, rounds, everyone=True, send=False)
        told = Stage("threshold", 0, rounds, everyone=True, reply=False)
        return [census, told, *usual.every_round(self, rounds, rng)]

    def what_it_remembers(self, server: Server, client: str, stage: Stage) -> Tensors:
        return server.memory

    message = usual.by_stage(threshold=what_it_remembers, otherwise=usual.all_it_shares)

    def say_size(self, client: Client) -> Tensors:
        return {"census/size": torch.tensor(len(client.data))}  # (a)

    def choose(self, client: Client) -> None:
        """Keeps which examples the balanced data have, which are copies, and the seed of their noise."""
        rng, counts = client.rng("balance"), client.data.counts
        want = max(1, int(client.received["census/threshold"] / int((counts > 0).sum())))  # (c)
        chosen, copies = [], []
        for c in counts.nonzero().flatten():
            members = (client.data.y == c).nonzero().flatten()
            originals = members[torch.randperm(len(members), generator=rng)[:want]]
            again = torch.randint(len(members), (want - len(originals),), generator=rng)
            chosen += [originals, members[again]]
            copies += [torch.zeros(len(originals)), torch.ones(len(again))]
        client.keep(
            "census",
            {
                "index": torch.cat(chosen),
                "copies": torch.cat(copies).bool(),
                "noise": torch.tensor(rng.initial_seed()),
            },
        )

    def learn(self, client: Client) -> Tensors:
        body, copies = list(client.parts.path[:-1]), client.kept["census/copies"]
        client.fit(both_loss, epochs=self.epochs, train=[*body, "head_personal"])  # (d)
        client.fit(epochs=self.epochs, train=[*body, "head"], on=self.balanced(client))  # (e)
        return {**client.tensors(), "census/sizes": torch.tensor([len(client.data), int((~copies).sum())])}

    train = usual.by_stage(sizes=say_size, threshold=choose, round=learn)

    def balanced(self, client: Client) -> Examples:
        data, copies = client.data.take(client.kept["census/index"]), client.kept["census/copies"]
        rng = torch.Generator().manual_seed(int(client.kept["census/noise"]))
        x = data.x
        x[copies] += self.noise * torch.randn(x[copies].shape, generator=rng)
        return replace(data, inputs=x, labels=data.y, index=torch.arange(len(x)))

    def take_stock(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        sizes = torch.stack([u.tensors["census/size"] for u in uploads.values()]).double().sort().values
        t = {
            "average": sizes.mean(),
            "median": sizes.quantile(0.5),
            "max": sizes[-1],
            "sec-min": sizes[:2][-1],
        }
        return replace(server, memory={"census/threshold": t[self.threshold]})  # (b)

    def merge(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        own, effective = zip(*(u.tensors["census/sizes"].tolist() for u in uploads.values()), strict=True)
        sent = [u.tensors for u in uploads.values()]
        head = average([select(tensors, "head") for tensors in sent], effective)
        body = average(
            [{n: t for n, t in s.items() if n in server.shared and n not in head} for s in sent], own
        )
        return replace(server, shared={**body, **head})  # (f)

    aggregate = usual.by_stage(sizes=take_stock, round=merge)

    def personal(self, client: Client) -> Predictors:
        return {"head + own head": lambda x: both_heads(client.parts, x)}  # (g)
