"""Naming the parts of a network of one's own."""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from ..errors import ModelError
from ..seeds import generator, lent
from .network import Network, Shape, evaluating, quoted, tensors


def parts(
    network: nn.Module | None = None, *, shape: Shape, classes: int, **named: nn.Module | str | Sequence[str]
) -> Network:
    """The network with named parts, made of the very modules given, not of copies.

    parts(net, encoder=["features"], head=["fc"], shape=(3, 32, 32), classes=10) names the modules of a
    network by their paths, in the order in which it applies them, and checks that nothing is lost.
    parts(encoder=..., head=..., shape=..., classes=...) puts modules together.
    """
    if network is None:
        modules = {name: a_module(name, part) for name, part in named.items()}
        return Network(modules, shape=shape, classes=classes)
    paths = {name: path_list(name, value) for name, value in named.items()}
    check_complete(network, [path for part in paths.values() for path in part])
    modules = {name: chain(network, part) for name, part in paths.items()}
    result = Network(modules, shape=shape, classes=classes)
    check_same(network, result)
    return result


def a_module(name: str, part: object) -> nn.Module:
    if not isinstance(part, nn.Module):
        raise ModelError(
            f"the part '{name}' is {part!r}; without a network it should be a module\n"
            f"    to name a network's modules: parts(network, {name}=[...], ...)"
        )
    return part


def path_list(name: str, value: object) -> list[str]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, Sequence) or not paths or not all(isinstance(path, str) for path in paths):
        raise ModelError(
            f"the part '{name}' is {value!r}; it should list paths of modules, like ['features']"
        )
    return list(paths)


def check_complete(network: nn.Module, paths: list[str]) -> None:
    """Every parameter and buffer of the network is in exactly one of the modules named."""
    seen = Counter(id(tensor) for path in paths for _, tensor in tensors(module_at(network, path)))
    missing = [name for name, tensor in tensors(network) if seen[id(tensor)] == 0]
    if missing:
        raise ModelError(
            f"no part has {some(missing)} of the network\n"
            f"    its modules are: {quoted([name for name, _ in network.named_children()])}"
        )
    twice = [name for name, tensor in tensors(network) if seen[id(tensor)] > 1]
    if twice:
        raise ModelError(f"{some(twice)} would be in the parts more than once; named are: {quoted(paths)}")


def module_at(network: nn.Module, path: str) -> nn.Module:
    try:
        return network.get_submodule(path)
    except AttributeError:
        known = quoted([name for name, _ in network.named_children()])
        raise ModelError(f"the network has no module '{path}'\n    its modules are: {known}") from None


def chain(network: nn.Module, paths: list[str]) -> nn.Module:
    """The modules one after the other; one alone stands for itself."""
    if len(paths) == 1:
        return module_at(network, paths[0])
    named = ((key(paths, i), module_at(network, path)) for i, path in enumerate(paths))
    return nn.Sequential(OrderedDict(named))


def key(paths: list[str], i: int) -> str:
    """A name for the i-th module: its path, with its place in the row where that would not be unique."""
    keys = [path.replace(".", "_") for path in paths]
    return keys[i] if keys.count(keys[i]) == 1 else f"{keys[i]}_{i}"


def check_same(network: nn.Module, result: Network) -> None:
    """The parts in order compute what the network computes, predicting and, noise included, training."""
    first = next(result.parameters(), torch.zeros(()))
    x = torch.randn(4, *result.shape, generator=generator("parts")).to(first)
    with evaluating(network), torch.no_grad():
        expect_equal(answer(network, x), answer(result, x), "predicting")
    theirs, ours = deepcopy((network, result))
    with torch.no_grad():
        expect_equal(answer(theirs.train(), x), answer(ours.train(), x), "training")


def answer(network: nn.Module, x: Tensor) -> Tensor:
    """What the network says to x, its noise always the same."""
    with lent("parts", "noise"):
        z = network(x)
    if not isinstance(z, Tensor):
        raise ModelError(f"the network gives a {type(z).__name__}; it should give one tensor")
    return z


def expect_equal(theirs: Tensor, ours: Tensor, when: str) -> None:
    if theirs.shape != ours.shape or not torch.allclose(theirs, ours, rtol=1e-4, atol=1e-5):
        raise ModelError(
            f"when {when}, the parts in order do not compute what the network computes\n"
            "    what its forward does between modules is lost, such as a flatten, relu or dropout that is\n"
            "    a function; or the order differs. Make each a module, such as nn.Flatten(), and name it too"
        )


def some(names: list[str]) -> str:
    """The first names, and how many more there are."""
    return quoted(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
