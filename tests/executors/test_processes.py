"""Worker processes: the same numbers as one process, whatever happens to a worker."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from deadly import Deadly, Failing
from pluribus.cohort import Join
from pluribus.errors import ClientFailed, RunError
from pluribus.executors.processes import Processes
from pluribus.executors.serial import Serial
from pluribus.executors.slabs import SharedFolder, Slabs, write
from pluribus.methods import METHODS
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.readings.evaluate import evaluate
from test_every_method import tried
from toy import PEOPLE, Net, hashes, history, place


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


@pytest.mark.parametrize("name", METHODS)
def test_two_workers_give_the_bits_and_the_readings_of_one_process(name: str, two: Processes) -> None:
    method, world = tried(name)
    at = world.place(method)

    alone, shared = history(at, number=2), history(at, number=2, executor=two)

    assert [hashes(a) for a in alone] == [hashes(b) for b in shared]
    assert evaluate(at, alone[-1], Serial()) == evaluate(at, shared[-1], two)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_every_way_to_start_a_worker_gives_the_same_bits(start: Any) -> None:
    at = place(METHODS["fedrep"](head_epochs=1), model=Net(norm=True))

    with Processes(1, start=start) as one:
        shared = history(at, executor=one, number=2)

    assert [hashes(a) for a in history(at, number=2)] == [hashes(b) for b in shared]


def test_a_killed_worker_is_replaced_and_its_turns_are_done_again(tmp_path: Path, two: Processes) -> None:
    deadly = place(Deadly(folder=str(tmp_path)))

    shared = history(deadly, executor=two, number=3)

    assert any(tmp_path.rglob("0"))
    assert [hashes(a) for a in history(place(FedPer()), number=3)] == [hashes(b) for b in shared]


def test_a_turn_that_kills_every_worker_ends_the_run_with_its_name(tmp_path: Path) -> None:
    deadly = place(Deadly(folder=str(tmp_path), times=99), clients={"c1": PEOPLE["c1"]})

    with (
        Processes(1, start="fork") as one,
        pytest.raises(RunError, match="client 'c1' took 3 worker processes"),
    ):
        history(deadly, executor=one, number=1)


def test_an_error_in_a_worker_arrives_with_client_and_traceback(two: Processes) -> None:
    with pytest.raises(
        ClientFailed, match="round 1, client 'c.', Failing: ZeroDivisionError: on purpose"
    ) as caught:
        history(place(Failing()), executor=two)

    assert "in train" in caught.value.__notes__[0]


def test_the_executor_works_on_after_an_error(two: Processes) -> None:
    with pytest.raises(ClientFailed):
        history(place(Failing()), executor=two)

    assert len(history(place(FedAvg()), executor=two, number=1)) == 1


def test_there_are_no_more_workers_than_items() -> None:
    with Processes(64, start="fork") as many:
        history(place(FedAvg()), executor=many, number=2, join=Join(number=2))

        assert many.started == 2


def test_closing_twice_is_harmless_and_leaves_no_files() -> None:
    executor = Processes(1, start="fork")
    history(place(FedAvg()), executor=executor, number=1)

    executor.close()
    executor.close()

    assert not executor.folder.exists()


def test_a_slip_carries_large_and_small_tensors_with_their_strides(tmp_path: Path) -> None:
    large = torch.randn(7, 3, 40, 40).to(memory_format=torch.channels_last)
    thing = {
        "large": large,
        "twice": large,
        "small": torch.arange(3),
        "empty": torch.zeros(0, 2),
        "row": large[1],
    }

    read = write(thing, Slabs(tmp_path, "t")).open()

    assert all(torch.equal(read[name], thing[name]) for name in thing)
    assert read["large"].stride() == large.stride()
    assert read["large"].data_ptr() == read["twice"].data_ptr()


def test_a_slab_is_free_again_only_when_no_tensor_reads_it(tmp_path: Path) -> None:
    slabs, freed = Slabs(tmp_path, "t"), []
    slip = write([torch.ones(5000), torch.ones(6000)], slabs)
    read = slip.open(lambda: freed.append(slip.path))
    part = read[1][10:20]

    del read
    held = list(freed)
    del part

    assert held == []
    assert freed == [slip.path]


def test_a_slab_that_was_given_back_is_written_to_again(tmp_path: Path) -> None:
    slabs = Slabs(tmp_path, "t")
    first = write(torch.ones(5000), slabs)
    slabs.give_back([first.path or ""])

    second = write(torch.zeros(4000), slabs)

    assert second.path == first.path


COORDINATOR = """
import os, sys
sys.path[:0] = sys.argv[1:2]
from deadly import Orphaned
from toy import history, place
from pluribus.executors.processes import Processes
from pluribus.methods.fedavg import FedAvg
if __name__ == "__main__":
    executor = Processes(1, start="fork")
    print(executor.folder, flush=True)
    history(place({"between": FedAvg, "in mid-turn": Orphaned}[sys.argv[2]]()), executor=executor, number=1)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("when", ["between", "in mid-turn"])
def test_a_killed_coordinator_leaves_nothing_in_memory_and_its_workers_say_nothing(
    tmp_path: Path, when: str
) -> None:
    script = tmp_path / "coordinator.py"
    script.write_text(COORDINATOR)
    tests = str(Path(__file__).resolve().parent.parent)
    done = subprocess.run([sys.executable, script, tests, when], capture_output=True, text=True, check=False)
    folder = Path(done.stdout.strip())

    deadline = time.monotonic() + 20
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.1)

    assert done.returncode == -signal.SIGKILL
    assert folder.name.startswith("pluribus-shared-")
    assert not folder.exists()
    assert done.stderr == ""


def test_a_folder_whose_process_is_gone_is_removed_by_the_next_one(tmp_path: Path) -> None:
    with Processes(1, start="fork") as alive:
        left = alive.folder.with_name("pluribus-shared-left-by-a-test")
        left.mkdir()
        (left / "in-use").touch()

        SharedFolder().remove()

        assert not left.exists()
        assert alive.folder.exists()


def test_what_a_worker_cannot_read_is_an_error_and_not_a_death(
    two: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("only_here")
    exec("from pluribus.methods.fedavg import FedAvg\nclass Nowhere(FedAvg): ...", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)

    with pytest.raises(ModuleNotFoundError, match="only_here"):
        history(place(module.Nowhere()), executor=two)
