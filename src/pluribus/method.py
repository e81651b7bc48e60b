"""What every method answers, and the usual answers.

    build      which parts has a client's model, and who owns each?
    plan       which stages does a run of so many rounds have?
    start      what does the server know before the first stage?
    message    what does this client receive in this stage?
    train      what does a client do in its turn, and what does it send?
    aggregate  what does the server know after the uploads of a stage?
    personal   with what does a client predict? the first is P, others are extra readings
    generic    with what would anybody predict?
    welcome    with what does a newcomer predict after so many epochs of its own? 0 is zero-shot

A method gives all nine in its own file; where it has nothing to say it names a usual answer.  If an
answer differs from stage to stage, `by_stage` says which is whose.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from . import spelling
from .client import Client, Parts
from .errors import MethodError, SettingError
from .stage import Stage
from .state import Tensors, average

__all__ = [
    "Client", "Method", "MethodError", "Network", "OneOf", "Owner", "Part", "Predictors", "Server",
    "Statistics", "Upload", "averaged", "children", "fixed_part", "in_one_pass", "personal_part", "setting",
    "shared_part",
]  # fmt: skip

Owner = Literal["shared", "personal", "fixed"]
Statistics = Literal["average", "local"]
MOST_EPOCHS = 1_000_000  # of a turn: more is a slip
Predictors = Mapping[str, Callable[[Tensor], Tensor]]


class Network(Protocol):
    """What a method is given to build from: parts by name, and the sizes that new parts must fit."""

    features: int  # numbers that reach the head
    classes: int
    shape: tuple[int, ...]  # of one input

    def named_children(self) -> Iterator[tuple[str, nn.Module]]: ...

    def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Part:
    """A named block of a client's model, who owns it, and what becomes of its running statistics."""

    module: nn.Module
    owner: Owner
    statistics: Statistics = "average"
    owners: Mapping[str, Owner] = field(default_factory=dict)  # of single tensors that differ, by name within


def shared_part(module: nn.Module, statistics: Statistics = "average") -> Part:
    """Sent, averaged, the same for everybody."""
    return Part(module, "shared", statistics)


def personal_part(module: nn.Module) -> Part:
    """Never leaves its client."""
    return Part(module, "personal")


def fixed_part(module: nn.Module) -> Part:
    """The same everywhere and never trained."""
    return Part(module, "fixed")


@dataclass(frozen=True)
class Upload:
    """What a client sent; `tensors` is all that travelled and all that is billed."""

    tensors: Tensors
    examples: int  # known since the client joined
    statistics: frozenset[str] = frozenset()  # names of running statistics: averaged, never corrected


@dataclass(frozen=True)
class Server:
    """What usually travels; what does not; what is known of each client. Never changed, only replaced."""

    shared: Tensors
    memory: Tensors = field(default_factory=dict)
    of: Mapping[str, Tensors] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A frozen value: its fields are its own hyper-parameters, with the paper's defaults."""

    def __post_init__(self) -> None:
        types = spelling.fields(type(self))
        for f in dataclasses.fields(self):
            among_choices(type(self).__name__, f.name, types[f.name], getattr(self, f.name))
            within_limits(type(self).__name__, f, getattr(self, f.name))

    def dull(self) -> list[str]:
        """A sentence for each setting whose value makes the method into another one."""
        pairs = ((f, f.metadata.get("dull", {}).get(getattr(self, f.name))) for f in dataclasses.fields(self))
        return [f"{f.name} = {getattr(self, f.name)}: {why}" for f, why in pairs if why]

    def lacking(self, parts: Parts) -> list[str]:
        """A sentence for what this network has not and the method needs to be more than another one."""
        return []

    def why_no_generic(self) -> str | None:
        """The reason of `usual.none_because`, where that is the answer."""
        generic = type(self).generic
        return generic.__doc__ if generic.__name__ == "no_predictor" else None

    @abstractmethod
    def build(self, network: Network, /) -> Mapping[str, Part]: ...

    @abstractmethod
    def plan(self, rounds: int, rng: torch.Generator, /) -> Sequence[Stage]: ...

    @abstractmethod
    def start(self, initial: Tensors, clients: Sequence[str], /) -> Server: ...

    @abstractmethod
    def message(self, server: Server, client: str, stage: Stage, /) -> Tensors: ...

    @abstractmethod
    def train(self, client: Client, /) -> Tensors | None: ...

    @abstractmethod
    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator, /
    ) -> Server: ...

    @abstractmethod
    def personal(self, client: Client, /) -> Predictors: ...

    @abstractmethod
    def generic(self, client: Client, /) -> Predictors: ...

    @abstractmethod
    def welcome(self, client: Client, epochs: int, /) -> Predictors: ...


# settings of a method -------------------------------------------------------------------------------


def setting(
    default: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    dull: Mapping[Any, str] | None = None,
) -> Any:
    """A field with its limits, and the values that make the method into another one, each with the reason."""
    return field(default=default, metadata={"least": least, "above": above, "most": most, "dull": dull or {}})


def among_choices(method: str, name: str, type_: Any, value: Any) -> None:
    words, numbers = spelling.words(type_), float in get_args(type_)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if words and value not in words and not (numbers and is_number):
        known = ", ".join(map(repr, words)) + ", or a number" * numbers
        raise SettingError(f"{method}: {name} is {value!r}; it should be one of: {known}")


def within_limits(method: str, f: dataclasses.Field[Any], value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    wanted = {
        "least": ("at least", operator.ge),
        "above": ("above", operator.gt),
        "most": ("at most", operator.le),
    }
    usual = {"least": 0, "most": MOST_EPOCHS} if "epochs" in f.name else {}
    limits = usual | {name: limit for name, limit in f.metadata.items() if limit is not None}
    broken = [
        f"{words} {limits[name]:,}"
        for name, (words, holds) in wanted.items()
        if name in limits and not holds(value, limits[name])
    ]
    if not math.isfinite(value) or broken:
        raise SettingError(
            f"{method}: {f.name} is {value}; it should be {' and '.join(broken) or 'a finite number'}"
        )


# answers --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneOf:
    """A predictor whose answer is one of several that come from the same pass."""

    answers: Callable[[Tensor], Sequence[Tensor]]
    which: int

    def __call__(self, x: Tensor) -> Tensor:
        return self.answers(x)[self.which]


def in_one_pass(answers: Callable[[Tensor], Sequence[Tensor]], *names: str) -> Predictors:
    """Predictors by name, in the order of the answers; a batch passes the network once for all of them."""
    return {name: OneOf(answers, which) for which, name in enumerate(names)}


def children(network: Network) -> dict[str, nn.Module]:
    """The parts of a network: its top-level children, in order."""
    return dict(network.named_children())


def averaged(server: Server, uploads: Mapping[str, Upload], weights: Sequence[float]) -> Server:
    """The server with the weighted mean of the uploads among what it shares."""
    new = average([u.tensors for u in uploads.values()], weights)
    return replace(server, shared={**server.shared, **new})
