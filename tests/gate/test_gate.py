"""The gate: hard methods keep every contract of every method."""

from collections.abc import Callable

import pytest

from contracts import CONTRACTS, World
from gate import GATE, QUICK
from pluribus.method import Method


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda f: f.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", GATE)
def test_every_method(name: str, contract: Callable[[Method, World], None]) -> None:
    method, world = GATE[name]

    contract(QUICK.get(name) or method(), world)
