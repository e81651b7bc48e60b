"""A step of an optimiser on a loss, without writing down gradients that only plain SGD would read again.

A linear layer's gradient is a product, G = gᵀx, of what comes back to the layer and what went in.  Plain SGD
wants W ← (1 - ηλ) W - η G, and a matrix product can add to what is there: one pass over W instead of four
over W and G.  Where the layer is large and the batch small, that is most of a step's time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from .errors import MethodError

LARGE = 2**18  # numbers in a matrix, from which on this is faster


@dataclass(frozen=True)
class Product:
    """The only use of a weight: `x @ weight.T`, and the place where its gradient comes back."""

    x: Tensor
    out: GradientEdge


def descend(optimiser: torch.optim.Optimizer, loss: Tensor, clip: float | None = None) -> None:
    """One step on the optimiser's own parameters, all of which the loss must use."""
    params: list[Tensor] = [p for group in optimiser.param_groups for p in group["params"]]
    products = {} if clip is not None else products_of(loss, [p for p in params if is_plain(optimiser, p)])
    found = gradients(loss, [products[p].out if p in products else p for p in params])
    for p, g in zip(params, found, strict=True):
        p.grad = None if p in products else g
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(params, clip)
    optimiser.step()
    for p, g in zip(params, found, strict=True):
        if p in products:
            subtract(p, g, products[p].x, optimiser.param_groups[0])


@torch.no_grad()
def subtract(weight: Tensor, back: Tensor, x: Tensor, group: Mapping[str, Any]) -> None:
    """W ← (1 - ηλ) W - η gᵀx"""
    rate, decay = group["lr"], group["weight_decay"]
    weight.addmm_(back.t(), x, beta=1 - rate * decay, alpha=-rate)


def is_plain(optimiser: torch.optim.Optimizer, p: Tensor) -> bool:
    """Whether a step on this large matrix is W ← (1 - ηλ) W - η G and nothing else."""
    if p.dim() != 2 or p.numel() < LARGE or type(optimiser) is not torch.optim.SGD:
        return False
    groups = optimiser.param_groups
    return len(groups) == 1 and not (groups[0]["momentum"] or groups[0]["maximize"])


def products_of(loss: Tensor, weights: Sequence[Tensor]) -> dict[Tensor, Product]:
    """Of those of these weights that the loss uses once, in a linear layer on a batch of vectors."""
    if not weights or loss.grad_fn is None:
        return {}
    users = users_in(loss.grad_fn)
    found = {w: product_of(get_gradient_edge(w).node, users) for w in weights}
    return {w: product for w, product in found.items() if product}


def users_in(last: Node) -> dict[Node, list[tuple[Node, int]]]:
    """For every node of the graph those that have it as an input, and as which."""
    users: dict[Node, list[tuple[Node, int]]] = defaultdict(list)
    seen, waiting = {last}, [last]
    while waiting:
        node = waiting.pop()
        for place, (before, _) in enumerate(node.next_functions):
            if before is None:
                continue
            users[before].append((node, place))
            if before not in seen:
                seen.add(before)
                waiting.append(before)
    return users


def product_of(weight: Node, users: Mapping[Node, Sequence[tuple[Node, int]]]) -> Product | None:
    """What a weight is used in, if that is the product of one linear layer and nothing else.

    In bf16 a copy of the weight is used, and there is nothing to gain.
    """
    transposed = only_user(weight, users, "TBackward0", 0)
    product: Any = transposed and only_user(transposed, users, "AddmmBackward0", 2)  # bias + x @ weight.T
    if not product or product._saved_alpha != 1:  # noqa: SLF001  # how torch shows what a node holds
        return None
    return Product(product._saved_mat1, GradientEdge(product, 0))  # noqa: SLF001


def only_user(
    node: Node, users: Mapping[Node, Sequence[tuple[Node, int]]], name: str, place: int
) -> Node | None:
    """What has this node as its only use, if it is of this kind and takes it in this place."""
    uses = users.get(node, ())
    return uses[0][0] if len(uses) == 1 and (uses[0][0].name(), uses[0][1]) == (name, place) else None


def gradients(loss: Tensor, of: Sequence[Tensor | GradientEdge]) -> tuple[Tensor, ...]:
    """The loss's gradients; an error if it does not depend on one of them."""
    inputs: Any = list(of)  # torch's types know lists of the one or the other only
    try:
        found: tuple[Tensor, ...] = torch.autograd.grad(loss, inputs)
    except RuntimeError as error:
        if "have been used in the graph" in str(error) or "does not require grad" in str(error):
            raise MethodError("a part is named for training, but the loss does not depend on it") from error
        raise
    return found
