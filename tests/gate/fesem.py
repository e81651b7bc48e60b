"""FeSEM: several centres; each client belongs to the nearest.

Xie, Long, Shen, Zhou, Wang, Jiang & Zhang, "Multi-center federated learning: clients clustering for better
personalization", World Wide Web 26, 2023.  arXiv:2005.01026

    min over c_1..c_K   Σ_k min_r ‖w_k - c_r‖²

    (a) client   w_k ← E epochs on L_k, from its centre
    (b) server   the first time: K centres among the uploads, far from each other (k-means++)
    (c) server   r_k ← the nearest centre, for each client heard
    (d) server   each centre ← mean of its members among those heard; without any it stays
    (e) predict  personal: its centre; generic: mean of the centres by number of members

Travels: one centre down, one model up; a newcomer gets all centres and takes the one of least loss.
Stays: nothing.

Deviations
    Centres are kept and moved by one E and one M step a round (the authors cluster anew every few rounds).
    The distance is over all that travels, running statistics too (the authors take one large layer).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from pluribus import usual
from pluribus.client import Client, cross_entropy
from pluribus.method import Method, Predictors, Server, Upload, setting
from pluribus.stage import Stage
from pluribus.state import Tensors, average, square_distance, under, within


@dataclass(frozen=True, kw_only=True)
class FeSEM(Method):
    centres: int = setting(2, least=1, dull={1: "with one centre this is FedAvg with equal weights"})
    epochs: int = 1

    build = usual.all_shared
    plan = usual.every_round
    start = usual.initial_parts
    personal = usual.network_as_received  # (e)
    generic = usual.network_as_received  # (e)

    def its_centre(self, server: Server, client: str, stage: Stage) -> Tensors:
        known = server.of.get(client)
        return within(f"centre{int(known['centre'])}", server.memory) if known else server.shared

    def every_centre(self, server: Server, client: str, stage: Stage) -> Tensors:
        return server.memory or server.shared

    message = usual.by_stage(
        round=its_centre, personal=its_centre, generic=usual.all_it_shares, welcome=every_centre
    )

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs)  # (a)
        return client.tensors()

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        sent = {k: u.tensors for k, u in uploads.items()}
        centres = self.centres_in(server.memory) or self.far_apart(list(sent.values()), rng)  # (b)
        now = {
            k: min(range(self.centres), key=lambda r: square_distance(w, centres[r])) for k, w in sent.items()
        }
        for r in set(now.values()):
            members = [w for k, w in sent.items() if now[k] == r]
            centres[r] = average(members, [1] * len(members))  # (d)
        of = {**server.of, **{k: {"centre": torch.tensor(r)} for k, r in now.items()}}  # (c)
        sizes = Counter(int(one["centre"]) for one in of.values())
        memory = {n: t for r, c in enumerate(centres) for n, t in under(f"centre{r}", c).items()}
        return Server(average(centres, [sizes[r] for r in range(self.centres)]), memory, of)  # (e)

    def centres_in(self, tensors: Tensors) -> list[Tensors]:
        return [centre for r in range(self.centres) if (centre := within(f"centre{r}", tensors))]

    def far_apart(self, models: Sequence[Tensors], rng: torch.Generator) -> list[Tensors]:
        """A first by chance; each next with a chance that grows with its distance from those chosen."""
        chosen = [models[int(torch.randint(len(models), (), generator=rng))]]
        while len(chosen) < self.centres:
            gaps = [min(square_distance(m, c) for c in chosen) for m in models]
            chances = torch.tensor(gaps, dtype=torch.float64) + 1e-300  # all models may be equal
            chosen.append(models[int(torch.multinomial(chances, 1, generator=rng))])
        return chosen

    def welcome(self, client: Client, epochs: int) -> Predictors:
        centres = self.centres_in(client.received) or [client.tensors()]
        client.load(min(centres, key=lambda centre: loss_at(centre, client)))
        client.fit(epochs=epochs)
        return self.personal(client)


@torch.no_grad()
def loss_at(centre: Tensors, client: Client) -> float:
    """The loss of this model over all the client's data."""
    client.load(centre)
    client.parts.eval()
    return sum(cross_entropy(client.parts, x, y).item() * len(y) for x, y in client.in_order())
