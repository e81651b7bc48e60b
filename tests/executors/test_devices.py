"""Devices that hold what they keep."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from pluribus.cohort import Join
from pluribus.executors.devices import Devices
from pluribus.executors.scripted import Scripted
from pluribus.executors.serial import Serial
from pluribus.methods.fedper import FedPer
from pluribus.training import Training
from toy import hashes, history, place


class Wire(Serial):
    """A network that remembers what went over it."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        self.items += items
        yield from super().run(work, items)


def test_turns_reach_a_device_without_what_it_keeps() -> None:
    wire = Wire()

    history(place(FedPer()), executor=Devices(wire))

    assert len(wire.items) == 6 * 3
    assert all(turn.kept == {} for turn in wire.items)
    assert any(turn.since for turn in wire.items)


def test_a_run_on_devices_is_the_run() -> None:
    at = place(FedPer(), training=Training(momentum=0.9, keep_moments=True))

    assert [hashes(r) for r in history(at, executor=Devices(Serial()))] == [hashes(r) for r in history(at)]


def test_a_device_goes_back_to_its_last_accepted_state() -> None:
    """c0 is lost in two exchanges in a row; then its head is what it was before them."""

    def fate(turn: Any) -> Any:
        return "drop" if turn.client == "c0" and turn.number in (2, 3) else "ok"

    devices = Devices(Scripted(fate))
    now = history(place(FedPer()), executor=devices, join=Join(), number=3)[-1]

    assert now.held["c0"].since == 1
    held = devices.holds["c0"]
    assert sorted(held) == [1, 2, 3]
    assert torch.equal(held[1]["head.weight"], now.held["c0"].kept["head.weight"])
    assert not torch.equal(held[3]["head.weight"], held[1]["head.weight"])


def test_what_a_lost_turn_did_is_not_there_in_the_next() -> None:
    """The same exchanges are lost where the server holds what clients keep."""

    def fate(turn: Any) -> Any:
        return "drop" if turn.client == "c0" and turn.number in (2, 3) else "ok"

    devices = history(place(FedPer()), executor=Devices(Scripted(fate)), join=Join())
    server = history(place(FedPer()), executor=Scripted(fate), join=Join())

    assert [hashes(r) for r in devices] == [hashes(r) for r in server]


def test_a_device_forgets_what_lies_before_its_last_accepted_state() -> None:
    devices = Devices(Serial())

    history(place(FedPer()), executor=devices, join=Join(), number=6)

    assert all(sorted(states) == [5, 6] for states in devices.holds.values())
