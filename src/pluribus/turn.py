"""A turn as a value, and what happens in it: the same code in this process, a worker, a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from .client import Client, Parts
from .device import computing, on_device
from .errors import ClientFailed, MethodError, PluribusError
from .examples import Examples
from .method import Method, Network, Part, Statistics
from .seeds import lent
from .stage import Stage
from .state import Tensors, copied, of_parts
from .training import Training

Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True)
class Turn:
    """One client's part of one stage."""

    number: int  # of the exchange; a reply that carries another number is late
    stage: Stage
    client: str
    message: Tensors
    since: int  # the exchange after which `kept` was true: what a device that holds `kept` goes back to
    kept: Tensors
    watch: bool = False  # a measurement wants the whole model as trained

    def done_in(self, place: Place) -> Outcome:
        return place.take(self)

    def size_in(self, place: Place) -> int:
        """How long it takes, beside others: by its examples."""
        return len(place.data_of(self.client).train)


@dataclass(frozen=True)
class Outcome:
    """What came of a turn. `tensors` is the upload, None in a stage without reply."""

    number: int
    client: str
    tensors: Tensors | None
    kept: Tensors
    trained: Tensors | None = None
    samples: int = 0
    loss: float = float("nan")
    seconds: float = 0.0


class Data(Protocol):
    """What a turn asks of a client's data."""

    @property
    def id(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def train(self) -> Examples: ...
    @property
    def val(self) -> Examples: ...
    @property
    def test(self) -> Examples: ...


class Item(Protocol[Result_co]):
    """Work that can be done wherever there is a place: a turn, or a look at what is predicted."""

    def done_in(self, place: Place) -> Result_co: ...


class Model(Protocol):
    """Whatever can build a network for these inputs: a value, equal if it builds the same."""

    def build(self, shape: tuple[int, ...], classes: int) -> Network: ...


@dataclass(frozen=True)
class Built:
    """A live network in its parts, the values it was built with, and who may do what with its tensors."""

    parts: Parts
    initial: Tensors
    shares: frozenset[str]
    stays: frozenset[str]
    fixed: frozenset[str]
    statistics: frozenset[str]  # running statistics that stay with each client, of parts that are shared
    running: frozenset[str]  # all running statistics, whoever has them


@dataclass(frozen=True)
class Place:
    """All that a turn needs besides itself: in a simulation for every client, on a device for its own."""

    method: Method
    clients: Mapping[str, Data]
    model: Model | Callable[[str], Model]  # one for all, or for each client its own
    shape: tuple[int, ...]
    classes: int
    training: Training
    seed: int
    model_seed: int
    statistics: Statistics | None = None  # None: as the method says
    newcomers: Mapping[str, Data] = field(default_factory=dict)  # never asked; they come when all is done
    device: str = "cpu"
    networks: dict[Any, Built] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Live networks do not travel between processes; they are built again."""
        return self.__dict__ | {"networks": {}}

    def __call__(self, item: Item[Result_co]) -> Result_co:
        return item.done_in(self)

    def data_of(self, client: str) -> Data:
        return self.clients[client] if client in self.clients else self.newcomers[client]

    def model_of(self, client: str) -> Model:
        return self.model if hasattr(self.model, "build") else self.model(client)

    def built(self, client: str) -> Built:
        """This client's network; equal models share one, which is filled anew for each turn."""
        model = self.model_of(client)
        if model not in self.networks:
            self.networks[model] = self.build(model)
        return self.networks[model]

    def build(self, model: Model) -> Built:
        with lent(self.model_seed, "network"):
            network = model.build(self.shape, self.classes)
        path = [name for name, _ in network.named_children()]
        with lent(self.model_seed, "build"):
            built = self.method.build(network)
        parts = Parts({name: part.module for name, part in built.items()}, path)
        parts.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
        running = running_statistics(parts)
        return Built(
            parts, copied(parts.state_dict()), *ownership(built, parts, running, self.statistics), running
        )

    def seat(self, turn: Turn) -> Client:
        """The client as built, then as kept, then as received, by name. Valid until the next is seated."""
        data, built = self.data_of(turn.client), self.built(turn.client)
        client = Client(
            id=turn.client,
            key=data.key,
            data=data.train,
            parts=built.parts,
            shares=built.shares,
            stays=built.stays,
            fixed=built.fixed,
            kept=on_device(turn.kept, self.device),
            received=on_device(turn.message, self.device),
            stage=turn.stage,
            training=self.training,
            seed=self.seed,
            device=self.device,
        )
        client.load({**built.initial, **of_parts(turn.kept), **of_parts(turn.message)})
        return client

    def take(self, turn: Turn) -> Outcome:
        """Seats the client, lets it train, and hands back what it sends and what it keeps."""
        started = time.perf_counter()
        try:
            with lent(self.seed, turn.stage.name, turn.stage.round, self.data_of(turn.client).key, "noise"):
                return self.taken(turn, started)
        except PluribusError as error:
            raise self.failed(turn, str(error)) from error
        except Exception as error:
            raise self.failed(turn, f"{type(error).__name__}: {error}") from error

    def taken(self, turn: Turn, started: float) -> Outcome:
        client = self.seat(turn)
        given = {**client.kept, **client.received}
        versions = {name: t._version for name, t in given.items()}  # noqa: SLF001  # it counts changes in place
        with computing(self.device, self.training.precision):
            tensors = self.method.train(client)
        client.keep_parts()
        changed = [n for n, t in given.items() if t._version != versions[n]]  # noqa: SLF001
        if changed:
            raise MethodError(f"{changed} was changed in place; what is kept or received is read-only")
        check_upload(client, tensors, turn.stage)
        live = {t.untyped_storage().data_ptr() for t in client.parts.state_dict().values()}
        return Outcome(
            number=turn.number,
            client=turn.client,
            samples=client.work.samples,
            loss=client.work.loss,
            tensors=None if tensors is None else apart(tensors, live),
            kept=apart(client.kept, live),
            trained=copied(client.parts.state_dict()) if turn.watch else None,
            seconds=time.perf_counter() - started,
        )

    def failed(self, turn: Turn, reason: str) -> ClientFailed:
        return ClientFailed(
            method=type(self.method).__name__,
            stage=turn.stage.name,
            round=turn.stage.round,
            client=turn.client,
            reason=reason,
        )


def apart(tensors: Tensors, live: set[int]) -> dict[str, Tensor]:
    """The same values, in memory that the next turn will not write to."""
    return {
        n: t.detach().clone() if t.untyped_storage().data_ptr() in live else t.detach().cpu()
        for n, t in tensors.items()
    }


def check_upload(client: Client, tensors: Tensors | None, stage: Stage) -> None:
    """What a method may not send is found where it would be sent."""
    if (tensors is not None) != stage.reply:
        raise MethodError(
            f"the stage '{stage.name}' has reply={stage.reply}, but train returned "
            f"{'nothing' if tensors is None else 'an upload'}"
        )
    for name in of_parts(tensors or {}):
        if name in client.stays or name not in client.shares:
            raise MethodError(
                f"the upload holds '{name}', which "
                f"{'stays with its client' if name in client.stays else 'is no tensor of a shared part'}"
            )


def ownership(
    built: Mapping[str, Part], parts: Parts, running: frozenset[str], override: Statistics | None
) -> tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]:
    """Names that may travel, names that stay, parts that are fixed, and local statistics of shared parts."""
    shares: set[str] = set()
    stays: set[str] = set()
    local: set[str] = set()
    for name in parts.state_dict():
        part_name, _, rest = name.partition(".")
        part = built[part_name]
        owner = part.owners.get(rest, part.owner)
        is_local = name in running and (override or part.statistics) == "local"
        if owner == "shared" and (is_local or name.endswith(".num_batches_tracked")):
            stays.add(name)
            local |= {name} if is_local else set()
        elif owner != "fixed":
            (shares if owner == "shared" else stays).add(name)
    fixed = frozenset(name for name, part in built.items() if part.owner == "fixed")
    return frozenset(shares), frozenset(stays), fixed, frozenset(local)


def running_statistics(parts: nn.Module) -> frozenset[str]:
    """Names of running statistics, told by the type of their module and never by their own name."""
    return frozenset(
        f"{path}.{name}"
        for path, m in parts.named_modules()
        if isinstance(m, _NormBase)
        for name, _ in m.named_buffers(recurse=False)
    )
