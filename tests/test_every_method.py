"""What every method of the catalogue must do; a new line there is covered by its name alone.

A method that needs another setting than the usual toy, or whose bytes are known, says so in its own test
file: `WORLD` there is the toy it is tried in, `QUICK` the same method with fewer epochs.
"""

import importlib
from collections.abc import Callable
from functools import cache

import pytest

from contracts import CONTRACTS, World
from pluribus.method import Method
from pluribus.methods import METHODS

USUAL = World()


@cache
def tried(name: str) -> tuple[Method, World]:
    """The method and its world, as its own tests say."""
    own = importlib.import_module(f"methods.test_{name.replace('-', '_')}")
    method = METHODS[name]
    quick = getattr(own, "QUICK", None) or method()
    assert type(quick) is method
    return quick, getattr(own, "WORLD", USUAL)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda f: f.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", METHODS)
def test_every_method(name: str, contract: Callable[[Method, World], None]) -> None:
    contract(*tried(name))
