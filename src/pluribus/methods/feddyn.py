"""FedDyn: a linear term, learnt round by round, makes everybody's optimum the common one.

Acar, Zhao, Matas, Mattina, Whatmough & Saligrama, "Federated Learning Based on Dynamic Regularization",
ICLR 2021.  arXiv:2111.04263

    client k:  min over w   L_k(w) - ⟨g_k, w⟩ + α/2 ‖w - w_t‖²

    (a) client   w_k ← E epochs on L_k(w) - ⟨g_k, w⟩ + α/2 ‖w - w_t‖², from w_t
    (b) client   g_k ← g_k - α (w_k - w_t); at first g_k = 0
    (c) server   h ← h - α (1/K) Σ_{k in S} (w_k - w_t), over all K clients; at first h = 0
    (d) server   w ← (1/|S|) Σ_{k in S} w_k - h / α
    (e) predict  generic and personal: w

w_t is what was received, which is what the server sent.  So h is at any time the mean of all g_k.
Travels: w, both ways.  Stays: g_k.

Deviations
    α is the same for everybody, as in the paper; the authors' code divides it by the share of examples.
    Running statistics of batch normalisation are averaged without correction.
    The paper tunes α in {0.001, 0.01, 0.1}; its default here is 0.01.  Its plots read the mean of everybody's
    last model; `--personal-on trained` and the reading of whole models show what is near to that.

    @inproceedings{acar2021federated,
      title     = {Federated Learning Based on Dynamic Regularization},
      author    = {Acar, Durmus Alp Emre and Zhao, Yue and Matas, Ramon and Mattina, Matthew and
                   Whatmough, Paul and Saligrama, Venkatesh},
      booktitle = {International Conference on Learning Representations},
      year      = {2021}
    }
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import usual
from ..client import Client, Parts, cross_entropy
from ..method import Method, Server, Upload, setting
from ..stage import Stage
from ..state import Tensors, add, average, under, within, zeros_like


@dataclass(frozen=True, kw_only=True)
class FedDyn(Method):
    epochs: int = 1
    alpha: float = setting(0.01, above=0)

    build = usual.all_shared
    plan = usual.every_round
    message = usual.all_it_shares
    personal = usual.network_as_received  # (e)
    generic = usual.network_as_received  # (e)
    welcome = usual.tuned()

    def start(self, initial: Tensors, clients: Sequence[str]) -> Server:
        return Server(initial, memory={"clients/number": torch.tensor(len(clients))})

    def train(self, client: Client) -> Tensors:
        names = [n for n, _ in client.parts.named_parameters()]
        sent = {n: client.received[n] for n in names}
        g = within("dual", client.kept) or zeros_like(sent)

        def regularised(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
            terms = (
                self.alpha / 2 * (p - sent[n]).square().sum() - (g[n] * p).sum()
                for n, p in parts.named_parameters()
            )
            return cross_entropy(parts, x, y) + sum(terms)

        client.fit(regularised, epochs=self.epochs)  # (a)
        moved = add(dict(client.parts.named_parameters()), sent, -1)
        client.keep("dual", add(g, moved, -self.alpha))  # (b)
        return client.tensors()

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        mean = average([u.tensors for u in uploads.values()], [1] * len(uploads))
        names = set(mean).difference(*(u.statistics for u in uploads.values()))
        moved = add({n: mean[n] for n in sorted(names)}, server.shared, -1)
        h = within("dual", server.memory) or zeros_like(moved)
        share = len(uploads) / int(server.memory["clients/number"])
        h = add(h, moved, -self.alpha * share)  # (c)
        new = mean | add({n: mean[n] for n in h}, h, -1 / self.alpha)  # (d)
        return replace(server, shared=new, memory={**server.memory, **under("dual", h)})
