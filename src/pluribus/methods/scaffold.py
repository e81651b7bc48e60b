"""SCAFFOLD: control variates take the drift out of each step.

Karimireddy, Kale, Mohri, Reddi, Stich & Suresh, "SCAFFOLD: Stochastic Controlled Averaging for Federated
Learning", ICML 2020.  arXiv:1910.06378

    min over w   (1/K) Σ_k L_k(w);   c_k is about ∇L_k(w), and c = (1/K) Σ_k c_k

    (a) client   y ← y - η (∇L_k(y) - c_k + c), E epochs of it, from y = w_t
    (b) client   c_k⁺ = c_k - c + (w_t - y) / (n η), n the number of steps (option ii), or ∇L_k(w_t) over
                 all its examples (option i); at first c_k = 0
    (c) server   w ← w_t + η_g (1/|S|) Σ_{k in S} (y_k - w_t)
    (d) server   c ← c + (1/K) Σ_{k in S} (c_k⁺ - c_k), over all K clients; at first c = 0
    (e) predict  generic and personal: w

w_t is what was received.  With option ii, c_k⁺ is the mean of the gradients that (a) computed.
Travels: w and c to a client, y and c_k⁺ - c_k back.  Stays: c_k.

Deviations
    A client sends y and not y - w_t, from which the server makes the same.
    c does not travel before the first round: it is 0.
    Running statistics of batch normalisation are averaged; no control is kept of them.  In option i the
    gradient at w_t is taken in evaluation mode, so that it moves none of them.
    Option ii holds for plain steps only; with momentum, Adam or clipping it is refused.

    @inproceedings{karimireddy2020scaffold,
      title     = {{SCAFFOLD}: Stochastic Controlled Averaging for Federated Learning},
      author    = {Karimireddy, Sai Praneeth and Kale, Satyen and Mohri, Mehryar and Reddi, Sashank J. and
                   Stich, Sebastian U. and Suresh, Ananda Theertha},
      booktitle = {International Conference on Machine Learning},
      year      = {2020}
    }
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from .. import usual
from ..client import Client, Parts, cross_entropy, gradients
from ..method import Method, MethodError, Server, Upload, setting
from ..stage import Stage
from ..state import Tensors, add, average, mix, under, within, zeros_like


@dataclass(frozen=True, kw_only=True)
class SCAFFOLD(Method):
    epochs: int = 1
    option: Literal["ii", "i"] = "ii"
    server_lr: float = setting(1.0, above=0)

    build = usual.all_shared
    plan = usual.every_round
    personal = usual.network_as_received  # (e)
    generic = usual.network_as_received  # (e)
    welcome = usual.tuned()

    def start(self, initial: Tensors, clients: Sequence[str]) -> Server:
        return Server(initial, memory={"clients/number": torch.tensor(len(clients))})

    def parts_and_control(self, server: Server, client: str, stage: Stage) -> Tensors:
        return {**server.shared, **under("control", within("control", server.memory))}

    message = usual.by_stage(round=parts_and_control, otherwise=usual.all_it_shares)

    def train(self, client: Client) -> Tensors:
        self.check(client)
        sent = {n: client.received[n] for n, _ in client.parts.named_parameters()}
        c, mine = (within("control", t) or zeros_like(sent) for t in (client.received, client.kept))
        at_first = full_gradient(client) if self.option == "i" else {}  # (b)
        drift = add(c, mine, -1)

        def corrected(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
            return cross_entropy(parts, x, y) + sum((drift[n] * p).sum() for n, p in parts.named_parameters())

        steps = client.fit(corrected, epochs=self.epochs)  # (a)
        moved = add(sent, {n: p.detach() for n, p in client.parts.named_parameters()}, -1)
        length = steps * client.lr
        new = at_first or (add(add(mine, c, -1), moved, 1 / length) if length else mine)  # (b)
        client.keep("control", new)
        return {**client.tensors(), **under("control", add(new, mine, -1))}

    def check(self, client: Client) -> None:
        t = client.training
        if self.option == "ii" and (t.momentum or t.optimiser != "sgd" or t.clip is not None):
            raise MethodError(
                f"SCAFFOLD's option ii needs plain steps; momentum is {t.momentum:g}, the optimiser "
                f"{t.optimiser}, clip {t.clip}\n    momentum=0, or option=i, would do"
            )

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        mean = average([u.tensors for u in uploads.values()], [1] * len(uploads))
        new = {n: t for n, t in mean.items() if n in server.shared}
        changed, share = within("control", mean), len(uploads) / int(server.memory["clients/number"])
        stepped = mix({n: server.shared[n] for n in changed}, new, self.server_lr)  # (c)
        c = add(within("control", server.memory) or zeros_like(changed), changed, share)  # (d)
        return replace(server, shared=new | stepped, memory={**server.memory, **under("control", c)})


def full_gradient(client: Client) -> dict[str, Tensor]:
    """∇L_k over all its examples, where it stands, in evaluation mode."""
    names, params = zip(*client.parts.eval().named_parameters(), strict=True)
    total = [torch.zeros_like(p, dtype=torch.float64) for p in params]
    for x, y in client.in_order():
        loss = cross_entropy(client.parts, x, y) * (len(y) / len(client.data))
        for sum_, g in zip(total, gradients(loss, params), strict=True):
            sum_.add_(g)
    return {n: t.to(p.dtype) for n, t, p in zip(names, total, params, strict=True)}
