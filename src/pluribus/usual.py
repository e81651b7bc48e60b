"""The usual answers to a method's questions, by name: `aggregate = usual.mean_by_examples`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from .client import Client, Loss, cross_entropy
from .errors import MethodError, ModelError
from .method import (
    Method,
    Network,
    Part,
    Predictors,
    Server,
    Upload,
    averaged,
    children,
    personal_part,
    shared_part,
)
from .stage import Stage
from .state import Tensors


def all_shared(method: Method, network: Network) -> Mapping[str, Part]:
    return {name: shared_part(module) for name, module in children(network).items()}


def all_personal(method: Method, network: Network) -> Mapping[str, Part]:
    return {name: personal_part(module) for name, module in children(network).items()}


def all_shared_but(*personal: str) -> Callable[[Any, Network], Mapping[str, Part]]:
    """Everything is shared but these parts."""

    def build(method: Method, network: Network) -> Mapping[str, Part]:
        parts = children_with(personal, method, network)
        return {n: personal_part(m) if n in personal else shared_part(m) for n, m in parts.items()}

    return build


def all_personal_but(*shared: str) -> Callable[[Any, Network], Mapping[str, Part]]:
    """Everything stays with its client but these parts."""

    def build(method: Method, network: Network) -> Mapping[str, Part]:
        parts = children_with(shared, method, network)
        return {n: shared_part(m) if n in shared else personal_part(m) for n, m in parts.items()}

    return build


def all_shared_and_own(*doubled: str) -> Callable[[Any, Network], Mapping[str, Part]]:
    """Everything is shared; of these parts (all, if none is named) clients have a copy: `head_personal`."""

    def build(method: Method, network: Network) -> Mapping[str, Part]:
        parts = children_with(doubled, method, network)
        own = {f"{n}_personal": copy.deepcopy(parts[n]) for n in doubled or parts}
        return {**all_shared(method, network), **{n: personal_part(m) for n, m in own.items()}}

    return build


def children_with(needed: Sequence[str], method: Method, network: Network) -> dict[str, nn.Module]:
    """The parts of a network; an error if one that the method needs is not among them."""
    parts = children(network)
    if missing := set(needed) - set(parts):
        raise ModelError(
            f"{type(method).__name__} needs the part {sorted(missing)}; this network has {list(parts)}"
            "\n    name them: parts(network, encoder=[...], head=[...])"
        )
    return parts


def every_round(method: Method, rounds: int, rng: torch.Generator) -> Sequence[Stage]:
    return [Stage("round", t, rounds) for t in range(1, rounds + 1)]


def initial_parts(method: Method, initial: Tensors, clients: Sequence[str]) -> Server:
    return Server(initial)


def all_it_shares(method: Method, server: Server, client: str, stage: Stage) -> Tensors:
    return server.shared


def mean(
    method: Method, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
) -> Server:
    return averaged(server, uploads, [1] * len(uploads))


def mean_by_examples(
    method: Method, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
) -> Server:
    return averaged(server, uploads, [u.examples for u in uploads.values()])


def nothing_to_aggregate(
    method: Method, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
) -> Server:
    return server


def network_as_received(method: Method, client: Client) -> Predictors:
    return {"network": client.parts}


def none_because(reason: str) -> Callable[[Any, Client], Predictors]:
    """There is no such predictor; the reason stands in the card and in the results."""

    def no_predictor(method: Method, client: Client) -> Predictors:
        return {}

    no_predictor.__doc__ = reason
    return no_predictor


def tuned(*parts: str, loss: Loss = cross_entropy) -> Callable[[Any, Client, int], Predictors]:
    """So many epochs of the loss on these parts (all, if none is named), then whatever is personal."""

    def welcome(method: Method, client: Client, epochs: int) -> Predictors:
        client.fit(loss, epochs=epochs, train=parts)
        return method.personal(client)

    return welcome


def by_taking_turns(method: Method, client: Client, epochs: int) -> Predictors:
    """Its own turn, once an epoch; nothing is uploaded."""
    for t in range(1, epochs + 1):
        method.train(replace(client, stage=Stage("round", t, epochs)))
    return method.personal(client)


def by_setting(name: str, **answers: Callable[..., Any]) -> Callable[..., Any]:
    """For each value of this setting of the method its own answer."""

    def answer(method: Method, *args: Any) -> Any:
        return answers[vars(method)[name]](method, *args)

    return answer


def by_stage(**answers: Callable[..., Any]) -> Callable[..., Any]:
    """For each stage, by its name, its own answer; `otherwise` for those not named."""

    def answer(method: Method, *args: Any) -> Any:
        stage = next(a if isinstance(a, Stage) else a.stage for a in args if isinstance(a, Stage | Client))
        if found := answers.get(stage.name, answers.get("otherwise")):
            return found(method, *args)
        raise MethodError(
            f"{type(method).__name__} has no answer for the stage '{stage.name}'; "
            f"it has them for {sorted(answers)}"
        )

    return answer
