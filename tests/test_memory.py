"""The plan of what a run takes of memory: sums done by hand, and what is refused with which advice."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from pluribus import memory
from pluribus.engine import rounds
from pluribus.errors import SettingError
from pluribus.executors.processes import Processes
from pluribus.memory import COPIES, PROCESS, Plan, in_words, memory_of_machine, plan_of
from pluribus.runs import Listener, resume, run
from pluribus.settings import Settings
from pluribus.state import num_bytes
from pluribus.study import prepare
from pluribus.training import Training

SMALL = Settings(data="digits", clients=5, model="mlp:8", rounds=2, join="2", method="fedper")
ENCODER, HEAD = 4 * (64 * 8 + 8), 4 * (8 * 10 + 10)  # bytes of mlp:8 on digits
PLAN = Plan(
    clients=10, states=3 * 10**9, uploads=10**9, data=10**9, workers=2, process=10**9, memory=6 * 10**9
)


class Disk(NamedTuple):
    free: int


def plan(settings=SMALL, **more):
    study = prepare(settings)
    return plan_of(study.place, study.conduct, **more)


@pytest.fixture
def disk(monkeypatch):
    """Sets how many bytes are free, wherever."""
    return lambda free: monkeypatch.setattr(memory.shutil, "disk_usage", lambda _: Disk(free))


def test_states_and_uploads_by_hand():
    """Five heads stay; two clients send an encoder, and a whole model for the reading of G."""
    planned = plan()

    assert planned.states == 5 * HEAD
    assert planned.uploads == 2 * (ENCODER + ENCODER + HEAD)
    assert planned.data == 1797 * 64 + 1797 * 8 + 1797 * 8  # images, labels, rows


def test_moments_that_are_kept_are_counted():
    kept = Training(lr=0.1, optimiser="adam", keep_moments=True)

    assert plan(SMALL.with_(training=kept)).states == 5 * (HEAD + 2 * (ENCODER + HEAD))


def test_a_process_holds_copies_of_the_network_and_a_batch_with_its_gradients():
    """Through mlp:8 go 64 + 8 + 8 + 10 numbers: flattened, before and after ReLU, and logits."""
    training = Training(lr=0.1, batch=100)

    process = plan(SMALL.with_(training=training)).process

    assert process == PROCESS + COPIES * (ENCODER + HEAD) + 4 * 2 * 100 * (64 + 8 + 8 + 10)


def test_workers_are_counted_and_share_a_copy_of_the_data():
    alone, two = plan(), plan(workers=2)

    assert two.processes == 3 * alone.processes
    assert two.data == 2 * alone.data


def test_what_is_known_before_is_what_is_kept_after():
    study = prepare(SMALL)

    *_, now = rounds(study.place, study.conduct)

    heard = len(now.held)
    assert sum(num_bytes(held.kept) for held in now.held.values()) * 5 == heard * plan().states


def test_what_does_not_fit_into_memory_lies_in_files():
    """6 GB less 1 of data and 3 of processes leave 2; states and uploads have 4."""
    assert (PLAN.room, PLAN.in_files) == (2 * 10**9, 2 * 10**9)
    assert "2.0 GB of that in files" in str(PLAN)
    assert replace(PLAN, memory=0).room is None
    assert "files" not in str(replace(PLAN, memory=10**11))


def test_a_plan_that_fits_is_not_refused(disk, tmp_path):
    disk(2 * 10**9)

    PLAN.check(tmp_path)


def test_states_that_fit_nowhere_are_refused_with_advice(disk, tmp_path):
    disk(10**9)

    with pytest.raises(
        SettingError, match=r"10 clients keep 3.0 GB in all; .*memory, and for 1.0 GB in .*\n.*fewer"
    ):
        PLAN.check(tmp_path / "not" / "yet")


def test_workers_that_do_not_fit_are_refused_with_advice(disk, tmp_path):
    disk(10**12)

    with pytest.raises(
        SettingError, match=r"2 workers of 1.0 GB 3.0 GB; .* 3.0 GB of memory here\n.*--workers 1"
    ):
        replace(PLAN, memory=3 * 10**9).check(tmp_path)


def test_a_container_may_have_less_than_its_machine(monkeypatch, tmp_path):
    whole = memory_of_machine()
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "LIMIT", limit)

    limit.write_text("12345\n")
    assert memory_of_machine() == 12345
    limit.write_text("max\n")
    assert memory_of_machine() == whole


def test_sizes_are_told_in_words():
    assert [in_words(n) for n in (0, 31_400, 4_200_000, 420_000_000, 1_340_000_000, 23_400_000_000)] == [
        "0 kB", "31 kB", "4.2 MB", "420 MB", "1.3 GB", "23 GB",
    ]  # fmt: skip


class Notes(Listener):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def test_a_run_says_its_plan_first_and_ends_with_the_same_bits_in_files(tmp_path):
    """So much memory that nothing is left for states: all of them lie in files, and come back from there."""
    whole, listener = run(SMALL, out=tmp_path / "whole"), Notes()
    little = (plan().data + plan().processes + 100) / 1e9

    filed = run(SMALL, out=tmp_path / "filed", memory=little, listener=listener)

    assert "in files" in listener.notes[0]
    assert filed.hash == whole.hash
    (tmp_path / "filed" / "result.json").unlink()
    assert resume(tmp_path / "filed", memory=little).hash == whole.hash


def test_workers_are_in_the_plan_of_a_run(tmp_path):
    listener = Notes()

    with Processes(1) as executor:
        run(SMALL, out=tmp_path / "run", executor=executor, listener=listener)

    assert "a coordinator and a worker of" in listener.notes[0]


@pytest.mark.parametrize("wrong", [0, -1, float("nan")])
def test_no_memory_at_all_is_refused(tmp_path, wrong):
    with pytest.raises(SettingError, match="it should be a number of gigabytes above 0"):
        run(SMALL, out=tmp_path / "run", memory=wrong)
    assert not (tmp_path / "run").exists()
