"""A network with named parts: an encoder, whatever comes between, and a head."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor, nn

from ..errors import ModelError

Shape = tuple[int, ...]


class Network(nn.Module):
    """A network whose top-level children are its parts, applied in order; the last is the head.

    `features` numbers reach the head for each example; `shape` is that of one input, without the batch.
    """

    def __init__(self, parts: Mapping[str, nn.Module], *, shape: Shape, classes: int):
        super().__init__()
        check_input(shape, classes)
        self.shape, self.classes, self.features = tuple(shape), classes, 0
        check_names(list(parts))
        for name, module in parts.items():
            self._add(name, module)
        check_owners(parts)
        self.features = features(self)

    def _add(self, name: str, module: nn.Module) -> None:
        try:
            self.add_module(name, module)
        except (KeyError, TypeError) as error:
            raise ModelError(f"a part cannot be called '{name}': {error.args[0]}") from error

    @property
    def parts(self) -> dict[str, nn.Module]:
        """The parts by name, in the order in which they are applied."""
        return dict(self.named_children())

    def forward(self, x: Tensor) -> Tensor:
        for part in self.children():
            x = part(x)
        return x


class Model(Protocol):
    """What every entry of the catalogue can do."""

    def build(self, shape: Shape, classes: int) -> Network:
        """A network for inputs of this shape, with the weights the global generator gives it."""


def check_input(shape: Shape, classes: int) -> None:
    """Raises what a user can put right about the two things a network is built for."""
    if len(shape) != 3 or any(not is_positive(size) for size in shape):
        raise ModelError(f"an input's shape is (channels, height, width), all positive; got {tuple(shape)}")
    if not is_positive(classes) or classes < 2:
        raise ModelError(f"a network needs at least 2 classes to tell apart; got {classes!r}")


def is_positive(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1


def check_names(names: list[str]) -> None:
    """The first part is the encoder, the last the head: methods ask for them by these names."""
    if len(names) < 2 or names[0] != "encoder" or names[-1] != "head":
        raise ModelError(f"a network's parts begin with 'encoder' and end with 'head'; got {quoted(names)}")


def check_owners(parts: Mapping[str, nn.Module]) -> None:
    """Every module and every tensor belongs to one part, else it would have two owners."""
    if len({id(module) for module in parts.values()}) < len(parts):
        raise ModelError(
            f"two of the parts {quoted(list(parts))} are the same module; each is one of its own"
        )
    owner: dict[int, str] = {}
    for part, module in parts.items():
        for name, tensor in tensors(module):
            if owner.setdefault(id(tensor), part) != part:
                raise ModelError(f"'{part}.{name}' is in the part '{owner[id(tensor)]}' too; it can have one")


def tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers with their names, each tensor as often as it has a name."""
    parameters = module.named_parameters(remove_duplicate=False)
    return chain(parameters, module.named_buffers(remove_duplicate=False))


def features(network: Network) -> int:
    """How many numbers reach the head for each example, found by sending two blank inputs through."""
    with evaluating(network), torch.no_grad():
        x = blank(network)
        for name, part in network.named_children():
            reached, x = x, step(name, part, x)
    if tuple(x.shape) != (2, network.classes):
        wanted = (network.classes,)
        raise ModelError(f"the head gives {tuple(x.shape[1:])} numbers an example; it should give {wanted}")
    return reached[0].numel()


def step(name: str, part: nn.Module, x: Tensor) -> Tensor:
    """What the part makes of what reached it, or an error that names the part."""
    try:
        z = part(x)
    except (RuntimeError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        reached = tuple(x.shape[1:])
        raise ModelError(
            f"the part '{name}' cannot take what reaches it, {reached} an example\n    {reason}"
        ) from error
    if not isinstance(z, Tensor):
        raise ModelError(f"the part '{name}' gives a {type(z).__name__}; a part gives one tensor")
    return z


def blank(network: Network) -> Tensor:
    """Two inputs of zeros; two, because batch statistics of a single one may not exist."""
    first = next(network.parameters(), torch.zeros(()))
    return torch.zeros(2, *network.shape, device=first.device, dtype=first.dtype)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every module is in the mode it was in."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
