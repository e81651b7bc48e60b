"""FedReG: a shared head learns from data in which classes are balanced, one's own head from those one has.

Liu, Yang & Wang, "FedReG: Recouping the Global Model in Personalized Federated Learning", TU Delft, 2024.

    φ, h_k:  min   L(h∘φ + h_k∘φ)  on d_k, the client's own data            h held still, its slope reaches φ
    φ, h:    min   L(h∘φ)          on r_k, as many of each class it has     h_k held still

    (a) client   h_k at first says nothing: its last layer is 0
    (b) plan     before round 1 everybody says how many examples it has, and is told a threshold t
    (c) server   t ← mean, median, largest or second smallest of everybody's sizes
    (d) client   of each of its i classes r_k has t_c = max(1, ⌊t/i⌋) examples: t_c of its n originals, drawn,
                 none twice; if n < t_c all n, and t_c - n changed copies of some drawn among them
    (e) client   φ_k, h_k ← original_epochs on d_k, from φ and its own h_k
    (f) client   φ_k, h_gk ← rebalanced_epochs on r_k, from φ_k as of (e) and h
    (g) server   φ ← Σ_{k in S} (D_k / D_S) φ_k,     D_k = |d_k|
    (h) server   h ← Σ_{k in S} (E_k / E_S) h_gk,    E_k = Σ_c min(n_c, t_c): r_k but for copies
    (i) predict  generic: h∘φ;  personal: h∘φ + h_k∘φ, with φ and h as averaged

φ is all before the head h, which is the last layer; the paper says "usually the last few linear layers":
`--model convnet:head_layers=3` takes those.
Travels: φ and h, both ways; one size and t before round 1, D_k and E_k up each round.
Stays: h_k, t.

Settings for the paper's ablation: head_weight=original-size is a, own_head=none b (one head learns from d_k,
then from r_k), threshold=none c (r_k is d_k), original_epochs=0 d (h_k never learns, so that P is G).

Deviations
    The paper's algorithms send |r_k| and weigh h by it, its equations and text by E_k, as here: with one t
    for all, |r_k| is about t for everybody.  head_weight=rebalanced-size does as the algorithms do.
    t/i is no whole number: it is rounded down, to 1 at least.
    "5 local rounds" are five epochs of (e), then five of (f); interleaved=true takes turns, an epoch each.
    Each phase has an optimiser of its own, new in each round.
    r_k is drawn once, as in the paper's Algorithm 3, and made again in every turn from the same numbers;
    redraw=true changes the copies anew in every epoch.
    How h_k begins is our choice: saying nothing, so that P is G for who has not trained yet (and is read
    every round); own_head=copy begins as h did.  A newcomer predicts with h∘φ, or has trained an h_k.
    How strongly copies are changed is our choice (`augmentation`).  Where inputs are no 8-bit images, and
    with augmentation=none, a copy equals its original.

    @misc{liu2024fedreg,
      title        = {{FedReG}: Recouping the Global Model in Personalized Federated Learning},
      author       = {Liu, Tianyi and Yang, Mingkun and Wang, Qing},
      howpublished = {Delft University of Technology},
      year         = {2024}
    }
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import fmean, median
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import usual
from ..augment import augmentation
from ..client import Client, Loss, Parts, cross_entropy
from ..examples import Examples
from ..method import Method, Network, Part, Predictors, Server, Upload, setting
from ..rebalancing import balanced, with_copies
from ..side_networks import say_nothing
from ..stage import Stage
from ..state import Tensors, average, part_of, select

STATISTICS: dict[str | float, Callable[[Sequence[int]], float]] = {
    "mean": fmean,
    "median": median,
    "max": max,
    "sec-min": lambda sizes: sorted(sizes)[:2][-1],  # (c)
}


def both_heads(parts: Parts, x: Tensor) -> Tensor:
    z = parts.features(x)
    return parts.head(z) + parts.head_personal(z)  # type: ignore[no-any-return]


def both_loss(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(both_heads(parts, x), y)


@dataclass(frozen=True, kw_only=True)
class FedReG(Method):
    original_epochs: int = setting(5, least=0, dull={0: "the paper's variant d, h_k never learns"})
    rebalanced_epochs: int = setting(5, least=0, dull={0: "h never learns"})
    interleaved: bool = False
    threshold: Literal["mean", "median", "max", "sec-min", "none"] | float = setting(
        "mean", least=1, dull={"none": "the paper's variant c, nothing is rebalanced"}
    )
    augmentation: str = "simple"
    redraw: bool = False
    head_weight: Literal["effective-size", "rebalanced-size", "original-size"] = setting(
        "effective-size", dull={"original-size": "the paper's variant a, h weighs as φ does"}
    )
    own_head: Literal["zeros", "copy", "none"] = setting(
        "zeros", dull={"none": "the paper's variant b, there is one head and P is G"}
    )

    start = usual.initial_parts
    generic = usual.network_as_received  # (i)

    def __post_init__(self) -> None:
        super().__post_init__()
        augmentation(self.augmentation)

    def build(self, network: Network) -> Mapping[str, Part]:
        if self.own_head == "none":
            return usual.all_shared(self, network)
        parts = usual.all_shared_and_own("head")(self, network)
        if self.own_head == "zeros":
            say_nothing(parts["head_personal"].module)  # (a)
        return parts

    def plan(self, rounds: int, rng: torch.Generator) -> list[Stage]:
        sizes = Stage("sizes", 0, rounds, everyone=True, send=False)  # (b)
        told = Stage("threshold", 0, rounds, everyone=True, reply=False)  # (b)
        census = [sizes, told] if self.threshold in STATISTICS else []
        return [*census, *usual.every_round(self, rounds, rng)]

    def what_it_remembers(self, server: Server, *_: object) -> Tensors:
        return server.memory

    message = usual.by_stage(threshold=what_it_remembers, otherwise=usual.all_it_shares)

    def say_size(self, client: Client) -> Tensors:
        return {"census/size": torch.tensor(len(client.data))}  # (b)

    def note_threshold(self, client: Client) -> None:
        client.keep("census", {"threshold": client.received["census/threshold"]})  # (b)

    def learn(self, client: Client) -> Tensors:
        drawn, body, (own, own_loss) = self.drawn(client), client.parts.path[:-1], self.own()
        times = self.rebalanced_epochs  # (f)
        data = [self.rebalanced(client, *drawn, e) for e in range(times if self.redraw else 1)]
        moved = {"original": [*body, own], "rebalanced": [*body, "head"]}  # (e), (f)
        steps = {phase: client.optimiser(*parts, moments=phase) for phase, parts in moved.items()}
        epochs = [(e, "original", own_loss, client.data) for e in range(self.original_epochs)]  # (e)
        epochs += [(e, "rebalanced", cross_entropy, data[e % len(data)]) for e in range(times)]  # (f)
        for e, phase, loss, on in sorted(epochs, key=itemgetter(0)) if self.interleaved else epochs:
            its = moved[phase]
            client.fit(loss, epochs=1, train=its, on=on, phase=f"{phase} {e}", optimiser=steps[phase])
        if client.training.keep_moments:
            for phase, optimiser in steps.items():
                client.keep_moments(phase, optimiser)
        return {**client.tensors(), "census/sizes": self.sizes(client, *drawn)}

    train = usual.by_stage(sizes=say_size, threshold=note_threshold, round=learn)

    def own(self) -> tuple[str, Loss]:
        """The head that learns from a client's own data, and by what loss."""
        return ("head", cross_entropy) if self.own_head == "none" else ("head_personal", both_loss)

    def drawn(self, client: Client) -> tuple[Tensor, Tensor]:
        """Positions in d_k: of the originals in r_k, and of those it has copies of. Always the same."""
        y, t = client.data.y, self.threshold
        if t == "none":
            return torch.arange(len(y)), torch.arange(0)
        t = float(client.kept["census/threshold"]) if isinstance(t, str) else t
        each = max(1, int(t / len(client.data.counts.nonzero())))  # (d)
        return balanced(y, each, client.rng("rebalanced", always=True))  # (d)

    def rebalanced(self, client: Client, originals: Tensor, copied: Tensor, epoch: int) -> Examples:
        """r_k: those examples as they are, and changed copies of these."""
        change = augmentation(self.augmentation)
        rng = client.rng(f"copies {epoch}" if self.redraw else "copies", always=not self.redraw)
        changed = None if change is None else lambda images: change(images, rng)
        return with_copies(client.data, originals, copied, changed)  # (d)

    def sizes(self, client: Client, originals: Tensor, copied: Tensor) -> Tensor:
        """By what φ weighs, and by what h does."""
        own, effective = len(client.data), len(originals)  # (g), (h)
        by = {"effective-size": effective, "rebalanced-size": effective + len(copied), "original-size": own}
        return torch.tensor([own, by[self.head_weight]])

    def take_stock(self, server: Server, uploads: Mapping[str, Upload], *_: object) -> Server:
        t = STATISTICS[self.threshold]([int(u.tensors["census/size"]) for u in uploads.values()])  # (c)
        return replace(server, memory={"census/threshold": torch.tensor(t, dtype=torch.float64)})

    def merge(self, server: Server, uploads: Mapping[str, Upload], *_: object) -> Server:
        sent = [u.tensors for u in uploads.values()]
        own, effective = zip(*(tensors["census/sizes"].tolist() for tensors in sent), strict=True)
        body = {part_of(name) for name in server.shared} - {"head"}
        phi = average([select(tensors, *body) for tensors in sent], own)  # (g)
        head = average([select(tensors, "head") for tensors in sent], effective)  # (h)
        return replace(server, shared={**phi, **head})

    aggregate = usual.by_stage(sizes=take_stock, round=merge)

    def personal(self, client: Client) -> Predictors:
        if self.own_head == "none":
            return self.generic(client)
        return {"both heads": lambda x: both_heads(client.parts, x)}  # (i)

    def welcome(self, client: Client, epochs: int) -> Predictors:
        own, loss = self.own()
        client.fit(loss, epochs=epochs, train=[own], on=client.through(*client.parts.path[:-1]))
        return self.personal(client) if epochs else self.generic(client)
