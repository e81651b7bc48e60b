"""FeSEM: several centres; each client belongs to the nearest.

Xie, Long, Shen, Zhou, Wang, Jiang & Zhang, "Multi-center federated learning: clients clustering for better
personalization", World Wide Web 26, 2023.  arXiv:2005.01026

    min over c_1..c_R   Σ_k min_r ‖w_k - c_r‖²

    (a) client   w_k ← E epochs on L_k, from its centre; the first time from the initial network
    (b) server   the first time: R centres among the uploads, far from each other (k-means++)
    (c) server   r_k ← the nearest centre, for each client heard
    (d) server   each centre ← mean of its members among those heard, every client counting the same, or
                 weights="examples": by n_k; without any it stays
    (e) predict  personal: its centre; generic: mean of the centres by number of members
    (f) predict  newcomer: of all centres that of least loss on its own data; adapted, from there on L_k

Travels: one centre down, one model up; to a newcomer all centres.  Stays: nothing.

Deviations
    Centres are kept and moved by one step of each kind a round; the authors' code clusters anew every few
    rounds, beginning with some of the clients' models.
    The distance is over all parameters, as in the paper, or nearest_by names the parts: the authors' code
    takes one large layer.  Running statistics of batch normalisation do not count in it; they are averaged.
    Who is not heard stays with its centre.  Who was never heard gets the generic model.
    With fewer uploads than centres in the first round some centres begin equal.

    @article{xie2023multicenter,
      title   = {Multi-center federated learning: clients clustering for better personalization},
      author  = {Xie, Ming and Long, Guodong and Shen, Tao and Zhou, Tianyi and Wang, Xianzhi and
                 Jiang, Jing and Zhang, Chengqi},
      journal = {World Wide Web},
      volume  = {26},
      year    = {2023}
    }
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from .. import usual
from ..client import Client, cross_entropy
from ..method import Method, Network, Part, Predictors, Server, Upload, setting
from ..stage import Stage
from ..state import Tensors, average, of_parts, select, square_distance, under, within


@dataclass(frozen=True, kw_only=True)
class FeSEM(Method):
    centres: int = setting(2, least=1, dull={1: "with one centre this is FedAvg"})
    epochs: int = 1
    weights: Literal["uniform", "examples"] = "uniform"
    nearest_by: tuple[str, ...] = ()

    plan = usual.every_round
    start = usual.initial_parts
    personal = usual.network_as_received  # (e)
    generic = usual.network_as_received  # (e)

    def build(self, network: Network) -> Mapping[str, Part]:
        usual.children_with(self.nearest_by, self, network)
        return usual.all_shared(self, network)

    def its_centre(self, server: Server, client: str, stage: Stage) -> Tensors:
        known = server.of.get(client)
        return within(f"centre{int(known['centre'])}", server.memory) if known else server.shared

    def every_centre(self, server: Server, client: str, stage: Stage) -> Tensors:
        return server.memory or server.shared

    message = usual.by_stage(generic=usual.all_it_shares, welcome=every_centre, otherwise=its_centre)

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs)  # (a)
        return client.tensors()

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        there = self.centres_in(server.memory) if server.memory else []
        centres = there or self.far_apart(list(uploads.values()), rng)  # (b)
        now = {k: nearest(self.place_of(u), centres) for k, u in uploads.items()}  # (c)
        for r in set(now.values()):
            members = [uploads[k] for k in uploads if now[k] == r]
            weigh = [u.examples if self.weights == "examples" else 1 for u in members]
            centres[r] = average([u.tensors for u in members], weigh)  # (d)
        of = {**server.of, **{k: {"centre": torch.tensor(r)} for k, r in now.items()}}  # (c)
        sizes = Counter(int(one["centre"]) for one in of.values())
        memory = {n: t for r, c in enumerate(centres) for n, t in under(f"centre{r}", c).items()}
        return Server(average(centres, [sizes[r] for r in range(self.centres)]), memory, of)  # (e)

    def place_of(self, upload: Upload) -> Tensors:
        """Of an upload what counts in a distance."""
        tensors = select(upload.tensors, *self.nearest_by) if self.nearest_by else upload.tensors
        return {n: t for n, t in tensors.items() if n not in upload.statistics}

    def centres_in(self, tensors: Tensors) -> list[Tensors]:
        return [within(f"centre{r}", tensors) for r in range(self.centres)]

    def far_apart(self, uploads: Sequence[Upload], rng: torch.Generator) -> list[Tensors]:
        """A first by chance; each next with a chance that grows with its distance² from those chosen."""
        places = [self.place_of(u) for u in uploads]
        chosen = [int(torch.randint(len(uploads), (), generator=rng))]
        while len(chosen) < self.centres:
            gaps = [min(square_distance(one, places[i]) for i in chosen) for one in places]
            far = torch.tensor(gaps, dtype=torch.float64)
            chances = far if far.any() else torch.ones_like(far)  # all models may be equal
            chosen.append(int(torch.multinomial(chances, 1, generator=rng)))
        return [uploads[i].tensors for i in chosen]

    def welcome(self, client: Client, epochs: int) -> Predictors:
        one = of_parts(client.received)
        centres = [one] if one else self.centres_in(client.received)
        client.load(min(centres, key=lambda centre: loss_at(centre, client)))  # (f)
        client.fit(epochs=epochs)  # (f)
        return self.personal(client)


def nearest(place: Tensors, centres: Sequence[Tensors]) -> int:
    """The number of the centre of least distance; of several, the first."""
    return min(range(len(centres)), key=lambda r: square_distance(place, centres[r]))


@torch.no_grad()
def loss_at(centre: Tensors, client: Client) -> float:
    """The loss of this model, summed over all the client's data, in evaluation mode."""
    client.load(centre)
    client.parts.eval()
    return sum(cross_entropy(client.parts, x, y).item() * len(y) for x, y in client.in_order())
