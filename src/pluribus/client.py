"""A client in its turn: its data, its parts, what it received and what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

from .augment import augmentation
from .descent import descend, gradients
from .errors import MethodError
from .examples import Examples
from .seeds import generator, lent
from .stage import Stage
from .state import Tensors, copied, of_parts, part_of, select, under, within
from .training import Training

Loss = Callable[["Parts", Tensor, Tensor], Tensor]

__all__ = [
    "Client", "Examples", "Loss", "Parts", "Work", "cross_entropy", "gradients", "has_batch_norm", "repeats",
]  # fmt: skip


class Parts(nn.ModuleDict):
    """A client's parts by name. Called, it is the network: its parts one after the other."""

    def __init__(self, parts: Mapping[str, nn.Module], path: Sequence[str]):
        super().__init__(dict(parts))
        self.path = tuple(name for name in path if name in parts)
        self.passed = 0  # parts of the path that the inputs have been through already

    def __getattr__(self, name: str) -> Any:
        """`parts.encoder`: a part by its name."""
        return super().__getattr__(name)

    def features(self, x: Tensor) -> Tensor:
        """What reaches the last part of the network."""
        return self.through(x, *self.path[:-1])

    def through(self, x: Tensor, *parts: str) -> Tensor:
        """What leaves these first parts of the path; those that x has been through are passed over."""
        for name in parts[self.passed :]:
            x = self[name](x)
        return x

    @contextmanager
    def behind(self, parts: Sequence[str]) -> Iterator[None]:
        """For inputs that have been through these first parts of the path."""
        self.passed = len(parts)
        try:
            yield
        finally:
            self.passed = 0

    def forward(self, x: Tensor) -> Tensor:
        return self[self.path[-1]](self.features(x))  # type: ignore[no-any-return]


def cross_entropy(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
    """The usual loss: of the network, over the batch."""
    return F.cross_entropy(parts(x), y)


@dataclass
class Work:
    """What was done in a turn, counted where it was done."""

    samples: int = 0
    losses: list[Tensor] = field(default_factory=list)  # of each step
    sizes: list[int] = field(default_factory=list)  # of its batch

    def add(self, loss: Tensor, examples: int) -> None:
        self.samples += examples
        self.losses.append(loss.detach())
        self.sizes.append(examples)

    @property
    def loss(self) -> float:
        """The mean loss over all examples trained on; NaN if there were none."""
        if not self.losses:
            return float("nan")
        sizes = torch.tensor(self.sizes, dtype=torch.float64)
        return float(torch.stack(self.losses).double().cpu() @ sizes / sizes.sum())


@dataclass
class Client:
    """Lives for one turn. `kept` goes in as the client left it and out as it leaves it."""

    id: str
    key: str  # of its randomness: the id, unless a test renames clients
    data: Examples  # what it trains on
    parts: Parts
    shares: frozenset[str]  # names of the tensors that may travel: shared parts, without local statistics
    stays: frozenset[str]  # names of those that are kept: personal parts, and local statistics
    fixed: frozenset[str]  # names of the parts nobody trains
    kept: dict[str, Tensor]
    received: Tensors  # empty in a stage that sends nothing
    stage: Stage
    training: Training
    seed: int
    device: str = "cpu"
    work: Work = field(default_factory=Work)

    @property
    def lr(self) -> float:
        """The learning rate of this round."""
        return self.training.lr_in(self.stage.round)

    def rng(self, purpose: str, *, always: bool = False) -> torch.Generator:
        """A generator of this client for this purpose: of this stage and round, or always the same."""
        when = ("always",) if always else (self.stage.name, self.stage.round)
        return generator(self.seed, *when, self.key, purpose)

    @contextmanager
    def noise(self, purpose: str) -> Iterator[None]:
        """What the network draws in here (dropout) has this name: the same twice under the same."""
        with lent(self.seed, self.stage.name, self.stage.round, self.key, purpose):
            yield

    # tensors ---------------------------------------------------------------------------------------

    def tensors(self, *parts: str) -> dict[str, Tensor]:
        """A copy of what may travel, of these parts or of all."""
        state = {n: t for n, t in self.parts.state_dict().items() if n in self.shares}
        return copied(select(state, *parts) if parts else state)

    def load(self, tensors: Tensors) -> None:
        """Into the parts, by name; what the method has named for itself is passed over."""
        state, own = self.parts.state_dict(), of_parts(tensors)
        if unknown := own.keys() - state.keys():
            raise MethodError(
                f"client '{self.id}' has no tensor {sorted(unknown)}; its parts are {list(self.parts)}"
            )
        for name, tensor in own.items():
            if state[name].shape != tensor.shape:
                raise MethodError(
                    f"client '{self.id}': {name} is {tuple(state[name].shape)}, not {tuple(tensor.shape)}"
                )
            state[name].copy_(tensor)

    def keep(self, name: str, tensors: Tensors) -> None:
        """A copy of these under `name/`, instead of what was there."""
        for old in within(name, self.kept):
            del self.kept[f"{name}/{old}"]
        self.kept.update(under(name, copied(tensors)))

    def keep_parts(self) -> None:
        """A copy of all that stays; done for every client at the end of its turn."""
        self.kept.update(copied({n: t for n, t in self.parts.state_dict().items() if n in self.stays}))

    # training --------------------------------------------------------------------------------------

    def fit(
        self,
        loss: Loss = cross_entropy,
        *,
        epochs: int,
        train: Sequence[str] = (),
        on: Examples | None = None,
        phase: str | None = None,
        optimiser: torch.optim.Optimizer | None = None,
    ) -> int:
        """Trains the named parts (all that are not fixed, if none is named); the number of steps.

        An optimiser that is handed in goes on where it is; its moments are left to whoever made it.
        """
        phase, on = phase or "+".join(train) or "all", self.data if on is None else on
        its = self.optimiser(*train, moments=phase) if optimiser is None else optimiser
        steps = 0
        with self.learning(*train), self.parts.behind(on.through):
            for x, y in self.batches(epochs, phase, on=on):
                self.descend(its, loss(self.parts, x, y), len(y))
                steps += 1
        if self.training.keep_moments and optimiser is None:
            self.keep_moments(phase, its)
        return steps

    def descend(self, optimiser: torch.optim.Optimizer, loss: Tensor, examples: int) -> None:
        """One step on the optimiser's own parameters, all of which the loss must use."""
        descend(optimiser, loss, self.training.clip)
        self.work.add(loss, examples)

    def batches(
        self,
        epochs: int | None = None,
        phase: str = "all",
        *,
        on: Examples | None = None,
        into: Sequence[str] = (),
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Minibatches, shuffled anew each epoch; without end if no epochs are named and there are any.

        `into` are the parts that see such a batch as it is, all if none is named.
        """
        data, rng = self.data if on is None else on, self.rng(phase)
        change = self.augmented(phase)
        for _ in count() if epochs is None else range(epochs):
            if not (pieces := self.cut(torch.randperm(len(data), generator=rng), into)):
                return
            yield from (self.batch(data, piece, change) for piece in pieces)

    def cut(self, order: Tensor, into: Sequence[str] = ()) -> Sequence[Tensor]:
        """The minibatches of one epoch; a batch of one is left out if these parts (or any) normalise it."""
        size = self.training.batch
        pieces = list(torch.split(order, size)) if len(order) else []
        if len(pieces) > 1 and len(pieces[-1]) < size and self.training.last_batch == "drop":
            pieces.pop()
        seen_by = [self.parts[name] for name in into or self.parts]
        if pieces and len(pieces[-1]) == 1 and any(map(has_batch_norm, seen_by)):
            pieces.pop()
        return pieces

    def in_order(self, batch: int = 128, *, on: Examples | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """All its data once, in large batches, in the order they are stored."""
        data = self.data if on is None else on
        for positions in torch.split(torch.arange(len(data)), batch):
            yield self.batch(data, positions)

    def augmented(self, phase: str) -> Callable[[Tensor], Tensor] | None:
        """The experiment's change to images in training, drawn for this client, round and phase."""
        change, rng = augmentation(self.training.augment), self.rng(f"augment {phase}")
        return None if change is None else lambda images: change(images, rng)

    def batch(
        self, data: Examples, positions: Tensor, change: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Inputs and labels at these positions, where the network is."""
        x, y = data.batch(positions, change)
        return x.to(self.device), y.to(self.device)

    def through(self, *parts: str) -> Examples:
        """Its data behind these first parts of the network, computed once; the data where that would differ.

        For phases that train what comes after: `client.fit(train=["head"], on=client.through("encoder"))`.
        """
        asked = self.training.reuse and self.training.augment == "none"
        if not asked or not parts or self.parts.path[: len(parts)] != parts or not len(self.data):
            return self.data
        first = Parts({name: self.parts[name] for name in parts}, parts)
        with torch.no_grad():
            if not repeats(first, self.batch(self.data, torch.arange(min(2, len(self.data))))[0]):
                return self.data
            features = torch.cat([first(x) for x, _ in self.in_order()])
        return Examples(features, self.data.y, torch.arange(len(self.data)), self.data.classes, through=parts)

    def measure_statistics(self, *parts: str) -> None:
        """Running statistics of these first parts that did not arrive, anew from its inputs (no labels)."""
        norms = {f"{path}.running_mean": m for path, m in self.parts.named_modules() if is_running(m)}
        own = [m for name, m in norms.items() if part_of(name) in parts and name not in self.received]
        pieces = torch.arange(len(self.data)).chunk(-(-len(self.data) // 128) or 1)
        if not own or len(pieces[-1]) < 2:
            return
        self.parts.eval()
        with averaging(own), torch.no_grad():
            for positions in pieces:
                self.parts.through(self.batch(self.data, positions)[0], *parts)

    def names(self, *parts: str) -> tuple[str, ...]:
        """These parts, or all that are not fixed."""
        if unknown := set(parts) - set(self.parts):
            raise MethodError(f"no part {sorted(unknown)} to train; the parts are {list(self.parts)}")
        return parts or tuple(name for name in self.parts if name not in self.fixed)

    def parameters(self, *parts: str) -> list[nn.Parameter]:
        """The parameters of these parts, or of all that are not fixed."""
        return [p for name in self.names(*parts) for p in self.parts[name].parameters()]

    @contextmanager
    def learning(self, *parts: str) -> Iterator[None]:
        """Training mode everywhere; gradients for these parts (all that are not fixed) and no others."""
        self.parts.train()
        trained = {id(p) for p in self.parameters(*parts)}
        for p in self.parts.parameters():
            p.requires_grad_(id(p) in trained)
        try:
            yield
        finally:
            self.parts.requires_grad_(True)

    def optimiser(self, *parts: str, moments: str | None = None) -> torch.optim.Optimizer:
        """The experiment's optimiser for these parts: fresh, unless moments are kept over rounds."""
        params, t = self.parameters(*parts), self.training
        if not params:
            raise MethodError(f"{', '.join(self.names(*parts))}: no parameter to train in these parts")
        made: torch.optim.Optimizer
        if t.optimiser == "adam":
            made = torch.optim.Adam(params, lr=self.lr, weight_decay=t.weight_decay, fused=True)
        else:
            made = torch.optim.SGD(
                params, lr=self.lr, momentum=t.momentum, weight_decay=t.weight_decay, fused=True
            )
        return self.resume(moments, made) if moments and t.keep_moments else made

    def resume(self, name: str, optimiser: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The optimiser with the moments kept under this name, if any."""
        params = [p for group in optimiser.param_groups for p in group["params"]]
        for key, t in within(f"moments/{name}", self.kept).items():
            position, _, moment = key.partition(".")
            optimiser.state[params[int(position)]][moment] = t.clone()
        return optimiser

    def keep_moments(self, name: str, optimiser: torch.optim.Optimizer) -> None:
        """Keeps the optimiser's moments over rounds, under this name."""
        state = optimiser.state_dict()["state"]
        self.keep(
            f"moments/{name}",
            {f"{i}.{m}": t for i, s in state.items() for m, t in s.items() if torch.is_tensor(t)},
        )


def repeats(module: nn.Module, x: Tensor) -> bool:
    """Whether this module, in training, gives an example the same features every time and in any batch."""
    if any(isinstance(m, _NormBase | _DropoutNd) for m in module.modules()):
        return False
    with torch.random.fork_rng(devices=[]):
        return torch.allclose(module.train()(x)[:1], module(x[:1]), rtol=1e-4, atol=1e-5)


@contextmanager
def averaging(norms: Sequence[_BatchNorm]) -> Iterator[None]:
    """Inside, these forget their running statistics and take the plain mean of those of each batch."""
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.train().reset_running_stats()
        m.momentum = None
    try:
        yield
    finally:
        for m, momentum in zip(norms, momenta, strict=True):
            m.eval().momentum = momentum


def is_running(module: nn.Module) -> TypeGuard[_BatchNorm]:
    """Whether it normalises batches by running statistics."""
    return isinstance(module, _BatchNorm) and module.running_mean is not None


def has_batch_norm(module: nn.Module) -> bool:
    return any(isinstance(m, _BatchNorm) for m in module.modules())
