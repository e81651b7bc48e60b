"""Every method of the catalogue gives the same two hashes wherever and however its turns are taken."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mortal import mortal
from pluribus.executors import Executor
from pluribus.executors.processes import Processes
from pluribus.methods import METHODS
from pluribus.turn import Place
from test_every_method import tried
from toy import hashes, history

ROUNDS = 2
WAYS = {
    "one forked": (1, "fork"),
    "two forked": (2, "fork"),
    "one spawned": (1, "spawn"),
    "two spawned": (2, "spawn"),
}


@pytest.fixture(scope="module", params=WAYS)
def workers(request: pytest.FixtureRequest) -> Iterator[Processes]:
    size, start = WAYS[request.param]
    with Processes(size, start=start) as executor:
        yield executor


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


def place_of(name: str) -> Place:
    method, world = tried(name)
    return world.place(method)


def all_hashes(at: Place, executor: Executor | None = None) -> list[Any]:
    """Of what is shared and of what each client keeps, after every stage."""
    return [hashes(now) for now in history(at, number=ROUNDS, executor=executor)]


@cache
def alone(name: str) -> list[Any]:
    return all_hashes(place_of(name))


@pytest.mark.parametrize("name", METHODS)
def test_workers_however_many_and_however_started_give_the_bits_of_one_process(
    name: str, workers: Processes
) -> None:
    assert all_hashes(place_of(name), workers) == alone(name)


@pytest.mark.parametrize("name", METHODS)
def test_a_worker_killed_in_mid_turn_changes_no_bit(name: str, two: Processes, tmp_path: Path) -> None:
    before = two.started

    assert all_hashes(mortal(place_of(name), tmp_path), two) == alone(name)
    assert two.started - before >= len(list(tmp_path.iterdir())) > 0
