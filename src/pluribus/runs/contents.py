"""What a run's folder holds: how it is begun, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ..data import division as divisions
from ..data.dataset import Dataset
from ..data.division import Division
from ..errors import DataError, MethodError, ModelError, PluribusError, RunError, SettingError
from ..settings import Settings
from ..study import Study, divided_by, prepare
from .environment import Environment, environment
from .folder import RUNS, settle, write
from .log import read
from .records import Line, Member, Result

SETTINGS, ENVIRONMENT, DIVISION = "settings.toml", "environment.json", "division.safetensors"
LOG, MEMBERS, CHECKPOINT, RESULT = "rounds.jsonl", "clients.jsonl", "checkpoint", "result.json"


def result_in(folder: str | os.PathLike[str]) -> Result | None:
    """The result of the run in this folder; None if it is not finished, or the file is damaged."""
    try:
        result = msgspec.json.decode((Path(folder) / RESULT).read_bytes(), type=Result)
    except (OSError, msgspec.MsgspecError):
        return None
    return msgspec.structs.replace(result, run_dir=str(folder))


def rounds_in(folder: str | os.PathLike[str]) -> list[Line]:
    """The rounds of the run in this folder, as far as it has come."""
    return [line for line, _ in read(Path(folder) / LOG)]


def members_of(folder: str | os.PathLike[str]) -> list[Member]:
    """Clients and newcomers of the run in this folder, as they were read at its end; none before that."""
    try:
        lines = (Path(folder) / MEMBERS).read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Member) for line in lines]
    except (OSError, msgspec.MsgspecError):
        return []


def check_is_run(folder: Path) -> None:
    if not (folder / SETTINGS).is_file():
        raise RunError(f"{folder} is not the folder of a run: there is no {SETTINGS} in it")


def study_in(folder: Path, data_dir: str | Path | None, note: Callable[[str], None]) -> Study:
    """The study of the settings in this folder, with the division that was saved there."""
    settings = Settings.from_toml(folder / SETTINGS)
    began = environment_in(folder)
    if began and began.settings_hash != settings.hash:
        raise RunError(
            f"{folder / SETTINGS} is not what this run began with\n    put it back as it was, or "
            f"begin a new run with it: pluribus run --config {folder / SETTINGS}"
        )

    if settings != settings.resolved():
        raise RunError(
            f"{folder / SETTINGS} is not what a run writes: it leaves something open"
            f"\n    to begin a run with it: pluribus run --config {folder / SETTINGS}"
        )

    def division(dataset: Dataset) -> Division:
        try:
            return divisions.load(folder / DIVISION)
        except DataError as error:
            note(f"{str(error).splitlines()[0]}; divided again")
            return divided_by(settings, dataset)

    return prepare(settings, data_dir, division=division)


def environment_in(folder: Path) -> Environment | None:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((folder / ENVIRONMENT).read_bytes(), type=Environment)
    return None


def note_environment(folder: Path, note: Callable[[str], None]) -> None:
    """Says what is not as it was when the run began and may change its bits."""
    began = environment_in(folder)
    if began and (changed := environment(began.settings_hash).differs(began)):
        note(f"this run began elsewhere, and may not end with the same bits: {'; '.join(changed)}")


def begin(study: Study, folder: Path) -> None:
    """Writes what the run begins with; if that fails, leaves nothing."""
    try:
        settings = study.settings
        here = msgspec.json.format(msgspec.json.encode(environment(settings.hash)), indent=2)
        write(folder / ENVIRONMENT, here + b"\n")
        study.division.save(folder / DIVISION)
        write(folder / SETTINGS, settings.to_toml().encode())
        settle(folder)
    except PluribusError:
        remove(folder)
        raise


@contextmanager
def gone_if_nothing_came_of_it(folder: Path) -> Iterator[None]:
    """Where these settings cannot be run at all, which the first round tells, no folder is left of them."""
    try:
        yield
    except (MethodError, ModelError, SettingError):
        if not rounds_in(folder):
            remove(folder)
        raise


def remove(folder: Path) -> None:
    """The folder of a run of which no round was done."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        if folder.parent == RUNS:
            RUNS.rmdir()  # where others are in it, it stays
