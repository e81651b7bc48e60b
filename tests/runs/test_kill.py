"""Processes that are killed: at every step of every write, and by the real signal."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from pluribus.errors import RunError
from pluribus.runs import resume, rounds_in, run
from pluribus.settings import Settings
from pluribus.study import prepare

TINY = Settings(method="fedper", data="digits", clients=5, newcomers=1, rounds=2, model="mlp:4", join="0.5")

KILLED = """
import os, signal, sys
from pathlib import Path
from pluribus.runs import run
from pluribus.settings import Settings
from pluribus.turn import Place

owner, name = {"turn": (Place, "take"), "rename": (Path, "replace")}[sys.argv[1]]
number = int(sys.argv[2])
really, calls = getattr(owner, name), 0

def dying(*args, **kwargs):
    global calls
    calls += 1
    if calls == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return really(*args, **kwargs)

setattr(owner, name, dying)
run(Settings.from_toml(Path("settings.toml")), out="run")
"""


class Killed(BaseException):
    """As a kill does, it passes by everything that would tidy up."""


class Fate:
    """Kills at one of the steps: a file is brought to the disk, renamed, or removed."""

    def __init__(self, monkeypatch, at):
        self.at, self.steps = at, 0
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name), disk=name == "fsync"))

    def counted(self, really, *, disk):
        def step(*args, **kwargs):
            self.steps += 1
            if self.steps == self.at:
                raise Killed
            return None if disk else really(*args, **kwargs)

        return step


def numbers(result):
    return msgspec.structs.replace(result, seconds=None, run_dir="")


def without_seconds(folder):
    return [msgspec.structs.replace(line, seconds=None) for line in rounds_in(folder)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    study = prepare(TINY)
    return study, run(TINY, out=tmp_path_factory.mktemp("tiny"), study=study)


def test_killed_at_any_step_of_any_write_it_ends_with_the_same_bits(tiny, monkeypatch):
    study, whole = tiny
    at, resumed = 0, 0
    while True:
        at, folder = at + 1, f"run{at + 1}"
        with monkeypatch.context() as patched:
            fate = Fate(patched, at)
            with suppress(Killed):
                run(TINY, out=folder, study=study)
        if fate.steps < at:
            break
        if not Path(folder, "settings.toml").exists():
            with pytest.raises(RunError, match="not the folder of a run"):
                resume(folder)
            continue
        result, resumed = resume(folder), resumed + 1
        assert numbers(result) == numbers(whole), at
        assert without_seconds(folder) == without_seconds(whole.run_dir), at

    assert resumed >= 20


@pytest.mark.parametrize(
    ("where", "number"),
    [("turn", 3), ("turn", 4), ("rename", 9)],
    ids=["after round 1", "in round 2", "in a checkpoint"],
)
def test_killed_by_the_real_signal_it_ends_with_the_same_bits(tiny, where, number):
    _, whole = tiny
    Path("settings.toml").write_text(TINY.to_toml())

    done = subprocess.run(
        [sys.executable, "-c", KILLED, where, str(number)], capture_output=True, text=True, check=False
    )
    lines = len(rounds_in("run"))
    result = resume("run")

    assert done.returncode == -9, done.stderr
    assert lines >= 1
    assert numbers(result) == numbers(whole)
    assert without_seconds("run") == without_seconds(whole.run_dir)
