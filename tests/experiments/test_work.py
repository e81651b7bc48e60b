"""Cells that are filled: never twice, whatever is killed, and however many work on them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from pluribus.errors import SettingError
from pluribus.experiments import Store, finished, work
from pluribus.experiments.plan import plan
from pluribus.experiments.work import Order, attempt, fill
from pluribus.runs import Interrupted, Listener, run

from .conftest import ONE, SMALL

CELLS = SMALL.narrowed(only=["FedAvg", "Per"], seeds=1).cells
SLOW = """
import sys, time
from pathlib import Path
from pluribus.experiments import Cell, Store
from pluribus.experiments.work import Order, attempt
from pluribus.runs import Listener
from pluribus.settings import Settings

class Slow(Listener):
    def passed(self, line):
        print(line.round, flush=True)
        time.sleep(60 if line.round == 2 else 0)

cell = Cell("", "", Settings.from_toml(Path("settings.toml")).resolved())
attempt(cell, Order(Store(), None, 1, None), Slow(), lambda: False)
"""


def order(**changes):
    return Order(**{"store": Store(), "data_dir": None, "workers": 1, "until": None, **changes})


def done(cell):
    """What stays of the cell, but for what no two runs share."""
    found = finished.read(Store().file(cell))
    return msgspec.structs.replace(found, seconds=None, where=None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The cell from a run in one go."""
    result = run(ONE.settings, out=tmp_path_factory.mktemp("whole"))
    return msgspec.structs.replace(finished.of_run(result), seconds=None, where=None)


def never():
    return False


def test_all_cells_are_done_each_once_and_none_again():
    said = []

    filled = fill(SMALL.narrowed(seeds=1).cells, workers=2, tell=said.append)

    assert (filled.failed, filled.time_is_up) == ({}, False)
    assert len([text for text in said if ": done, " in text]) == 4
    files = sorted(Store().cells.iterdir())
    assert [path.stem for path in files] == sorted({c.key for c in CELLS})
    before = [path.stat().st_mtime_ns for path in files]
    fill(CELLS, workers=2, tell=pytest.fail)
    assert [path.stat().st_mtime_ns for path in files] == before


def test_where_it_was_run_changes_no_bit(whole):
    fill([ONE], workers=2)  # more cores than cells: worker processes of its own

    assert done(ONE) == whole


def test_killed_in_the_middle_it_goes_on_to_the_same_bits(whole):
    Path("settings.toml").write_text(ONE.settings.to_toml())
    with subprocess.Popen([sys.executable, "-c", SLOW], stdout=subprocess.PIPE, text=True) as killed:
        while killed.stdout.readline().strip() != "2":
            pass
        alone = attempt(ONE, order(), Listener(), never)  # the lock is held
        killed.kill()
    before = len(Store().lines(ONE))

    assert (alone, before) == ("elsewhere", 2)
    assert attempt(ONE, order(), Listener(), never) == "done"
    assert done(ONE) == whole


def test_killed_before_its_run_had_begun_it_begins(whole):
    folder = Store().folder(ONE)
    folder.mkdir(parents=True)
    (folder / "environment.json").write_text("{}")

    assert attempt(ONE, order(), Listener(), never) == "done"
    assert done(ONE) == whole


def test_two_at_once_share_the_work():
    """Both do all cells; what one has, the other leaves to it."""
    fill_all = (
        "from conftest_of_cells import CELLS\nfrom pluribus.experiments import fill\n"
        "if __name__ == '__main__':\n    fill(CELLS, workers=1, tell=lambda text: print(text, flush=True))\n"
    )
    Path("conftest_of_cells.py").write_text(
        "from pluribus.experiments import Cell\nfrom pluribus.settings import Settings\n"
        f"CELLS = [Cell('', str(i), Settings.from_toml(text)) for i, text in enumerate({texts()!r})]\n"
    )
    Path("both.py").write_text(fill_all)
    both = [
        subprocess.Popen([sys.executable, "both.py"], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [process.communicate()[0] for process in both]

    assert [process.returncode for process in both] == [0, 0]
    begun = [path for path in Store().runs.iterdir() if path.is_dir()]
    assert len(begun) == len(list(Store().cells.iterdir())) == 4
    assert all(len(Store().lines(cell)) == 3 for cell in CELLS)
    assert "".join(said).count(": done, ") >= 4
    assert {c.key for c in CELLS} == {path.stem for path in Store().cells.iterdir()}


def texts():
    return [cell.settings.to_toml() for cell in CELLS]


def test_what_another_process_has_is_tried_again_until_it_is_done(monkeypatch):
    monkeypatch.setattr(work, "POLL", 0.2)
    said = []

    with Store().claimed(ONE):
        filled = fill([ONE], workers=1, minutes=0.05, tell=said.append)

    assert filled.time_is_up
    assert [text for text in said if "another process is at work on it" in text] == said[:1]
    assert not fill([ONE], workers=1, tell=said.append).time_is_up
    assert said[-1].endswith("done, 1 of 1")


def test_when_time_is_up_it_stops_after_a_round_and_goes_on_another_time(whole):
    """The budget ends in the first round; the round is finished and written."""
    late = order(until=time.time() - 1)

    with pytest.raises(Interrupted):
        attempt(ONE, late, Listener(), lambda: late.time_is_up)

    assert len(Store().lines(ONE)) == 1
    assert not Store().has(ONE)
    assert attempt(ONE, order(), Listener(), never) == "done"
    assert done(ONE) == whole


def test_a_budget_ends_all_of_it():
    long = SMALL.narrowed(only=["FedAvg"], seeds=1, rounds=100_000).cells

    started = time.monotonic()
    filled = fill(long, workers=2, minutes=0.1)

    assert filled.time_is_up
    assert time.monotonic() - started < 60
    assert all(Store().lines(cell) for cell in long)
    assert not Store().cells.exists()


def test_an_edited_setting_is_run_and_the_old_cell_stays():
    edited = SMALL.narrowed(only=["FedAvg"], seeds=1, rounds=1).cells[0]
    fill([ONE], workers=1)

    fill([edited], workers=1)

    assert {path.stem for path in Store().cells.iterdir()} == {ONE.key, edited.key}
    assert done(edited).settings["rounds"] == 1


def test_a_damaged_file_is_made_again_from_its_run(whole):
    fill([ONE], workers=1)
    path = Store().file(ONE)
    path.write_text("{")
    said = []

    fill([ONE], workers=1, tell=said.append)

    assert "is damaged" in said[0]
    assert done(ONE) == whole


def test_a_cell_that_cannot_be_run_does_not_stop_the_others():
    hopeless = SMALL.narrowed(only=["FedAvg"], seeds=1).cells
    bad = type(ONE)("bad", "alike", ONE.settings.with_(model="convnet"))
    said = []

    filled = fill([bad, *hopeless], workers=1, tell=said.append)

    assert list(filled.failed) == [bad.key]
    assert "convnet needs images" in filled.failed[bad.key]
    assert len(list(Store().cells.iterdir())) == 2


def test_ctrl_c_ends_it_after_a_round_and_it_can_go_on():
    Path("long.py").write_text(
        "from pathlib import Path\nfrom pluribus.experiments import Cell, fill\n"
        "from pluribus.settings import Settings\n"
        "if __name__ == '__main__':\n"
        "    fill([Cell('', '', Settings.from_toml(Path('settings.toml')))], workers=1)\n"
    )
    long = type(ONE)("", "", ONE.settings.with_(rounds=100_000))
    Path("settings.toml").write_text(long.settings.to_toml())
    with subprocess.Popen([sys.executable, "long.py"], stderr=subprocess.PIPE, text=True) as process:
        while not Store().lines(long):
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGINT)
        said = process.communicate(timeout=60)[1]

    assert process.returncode != 0
    assert "the same command goes on from there" in said
    with Store().claimed(long) as free:
        assert free
    assert not Store().has(long)


def test_when_its_foreman_is_killed_a_cell_stops_after_a_round():
    Path("long.py").write_text(
        "from pathlib import Path\nfrom pluribus.experiments import Cell, fill\n"
        "from pluribus.settings import Settings\n"
        "if __name__ == '__main__':\n"
        "    fill([Cell('', '', Settings.from_toml(Path('settings.toml')))], workers=1)\n"
    )
    long = type(ONE)("", "", ONE.settings.with_(rounds=100_000))
    Path("settings.toml").write_text(long.settings.to_toml())
    with subprocess.Popen([sys.executable, "long.py"]) as process:
        while not Store().lines(long):
            time.sleep(0.1)
        process.kill()
    for _ in range(600):
        with Store().claimed(long) as free:
            if free:
                break
        time.sleep(0.1)

    assert free
    assert Store().lines(long)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"workers": 0}, "workers is 0"), ({"minutes": 0}, "minutes is 0; it should be above")],
)
def test_what_cannot_be_is_refused(given, said):
    with pytest.raises(SettingError, match=said):
        fill([ONE], **given)


def test_the_plan_says_how_far_each_cell_is_and_writes_nothing():
    store = Store()
    first, second, *_ = CELLS
    fill([first], workers=1)
    with pytest.raises(Interrupted):
        attempt(second, order(), Listener(), lambda: True)
    before = sorted(path for path in Path().rglob("*"))

    planned = {p.cell.key: p for p in plan(SMALL.cells, store)}

    assert len(planned) == 8
    assert (planned[first.key].status, planned[first.key].left) == ("done", 0.0)
    partly = planned[second.key]
    assert (partly.status, partly.rounds) == ("partly", 1)
    assert partly.left == pytest.approx(2 * partly.spent)
    others = [p for key, p in planned.items() if key not in (first.key, second.key)]
    assert {(p.status, p.left > 0) for p in others} == {("missing", True)}
    assert sorted(path for path in Path().rglob("*")) == before


def test_the_plan_says_why_a_cell_cannot_be_run():
    bad = type(ONE)("bad", "alike", ONE.settings.with_(model="convnet"))

    (planned,) = plan([bad], Store())

    assert (planned.status, planned.left) == ("cannot run", None)
    assert "convnet needs images" in planned.why
