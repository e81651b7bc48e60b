"""Runs from beginning to end: a new one, or one that was interrupted."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import torch

from ..data import short
from ..engine import Coordinator, Round, rounds
from ..errors import RunError, SettingError
from ..executors import Executor
from ..executors.serial import Serial
from ..memory import Plan, plan_of
from ..readings.evaluate import Readings, evaluate, welcome
from ..settings import Settings
from ..study import Study, prepare
from .brake import Brake, Interrupted
from .checkpoint import Checkpoints, Manifest
from .contents import (
    CHECKPOINT,
    LOG,
    MEMBERS,
    RESULT,
    begin,
    check_is_run,
    gone_if_nothing_came_of_it,
    members_of,
    note_environment,
    result_in,
    rounds_in,
    study_in,
)
from .folder import RUNS, alone, made, settle, write
from .listener import Listener
from .log import Log, reaches
from .outcome import line_of, member_of, result_of
from .records import Result, Seconds


def run(
    settings: Settings,
    *,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    data_dir: str | Path | None = None,
    executor: Executor | None = None,
    listener: Listener | None = None,
    study: Study | None = None,
    checkpoint_every: int = 1,
    stop: Callable[[], bool] = lambda: False,
    memory: float | None = None,
) -> Result:
    """The result of a new run, in a folder of its own: `out`, or runs/<name>.

    A study of these settings that is prepared already saves preparing it.  `stop` is asked after every
    round; if it is true, all is written and `Interrupted` raised, as after Ctrl-C.  `memory` is how many
    gigabytes the run may take, if not most of the machine's: what clients keep and send past that lies in
    files.
    """
    study = study or prepare(settings, data_dir)
    if study.settings != settings.resolved():
        raise SettingError("study was prepared from other settings; leave it out, or prepare it from these")
    at_least_one(checkpoint_every)
    plan = planned(study, executor, memory)
    plan.check(Path(out) if out is not None else RUNS)
    folder = made(out, plain(name) if name is not None else usual_name(study.settings))
    with alone(folder), one_thread():
        begin(study, folder)
        with gone_if_nothing_came_of_it(folder):
            return Run(study, folder, executor, listener, checkpoint_every, plan, stop).go()


def resume(
    folder: str | os.PathLike[str],
    *,
    data_dir: str | Path | None = None,
    executor: Executor | None = None,
    listener: Listener | None = None,
    checkpoint_every: int = 1,
    stop: Callable[[], bool] = lambda: False,
    memory: float | None = None,
) -> Result:
    """The result of the run in this folder, gone on with from its last checkpoint if it is not finished."""
    folder, listener = Path(folder), listener or Listener()
    at_least_one(checkpoint_every)
    check_is_run(folder)
    with alone(folder), one_thread():
        if result := result_in(folder):
            listener.note(f"the run in {folder} is finished; nothing was left to do")
            return result
        note_environment(folder, listener.note)
        study = study_in(folder, data_dir, listener.note)
        plan = planned(study, executor, memory)
        plan.check(folder)
        work = Run(study, folder, executor, listener, checkpoint_every, plan, stop)
        return work.go(work.take_up())


def reopen(folder: str | os.PathLike[str], data_dir: str | Path | None = None) -> tuple[Study, Round]:
    """The study of the run in this folder, and what held at its last checkpoint."""
    folder, listener = Path(folder), Listener()
    check_is_run(folder)
    study = study_in(folder, data_dir, listener.note)
    found, _ = Run(study, folder, None, listener, 1, planned(study, None, None)).latest()
    if found is None:
        raise RunError(f"{folder} has no checkpoint yet\n    to go on with it: pluribus resume {folder}")
    return study, found


def planned(study: Study, executor: Executor | None, memory: float | None) -> Plan:
    """What the run will take of memory; an error if it is told to take nothing."""
    if memory is not None and not (math.isfinite(memory) and memory > 0):
        raise SettingError(f"memory is {memory}; it should be a number of gigabytes above 0")
    return plan_of(study.place, study.conduct, workers=getattr(executor, "size", 0), memory=memory)


def usual_name(settings: Settings) -> str:
    """The name of a run's folder, unless another is given."""
    return f"{settings.method}-{short(settings.data)}-{settings.hash[:8]}"


def plain(name: str) -> str:
    """The name, if it is one of a single folder."""
    if Path(name).name != name or name in ("", ".", "..") or not name.isprintable():
        raise SettingError(f"name is {name!r}; it should be the name of one folder, without a path")
    return name


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums come out the same on any number of cores; more cores are for more workers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# a run at work ----------------------------------------------------------------------------------------


class Run:
    """Goes from round to round, reads everybody, and writes what must not be lost."""

    def __init__(
        self,
        study: Study,
        folder: Path,
        executor: Executor | None,
        listener: Listener | None,
        checkpoint_every: int,
        plan: Plan,
        stop: Callable[[], bool] = lambda: False,
    ):
        self.study, self.folder, self.plan = study, folder, plan
        self.store = plan.store(folder)
        self.executor, self.listener = executor or Serial(), listener or Listener()
        self.checkpoint_every, self.stop = checkpoint_every, stop
        self.stages = len(Coordinator(study.place, study.conduct, self.executor).plan)
        self.log = Log(folder / LOG)
        self.checkpoints = Checkpoints(
            folder / CHECKPOINT, study.settings.hash, study.division.hash, self.store
        )
        self.brake = Brake(self.listener.note)
        self.clock = time.perf_counter()
        self.evaluating = 0.0  # seconds since the last line

    def take_up(self) -> Round | None:
        """What held at the last checkpoint; the log is cut back to it."""
        found, problems = self.latest()
        for problem in problems:
            self.listener.note(f"{problem}; going back to the one before")
        self.log.cut(found.number if found else 0)
        return found

    def latest(self) -> tuple[Round | None, list[str]]:
        lines = rounds_in(self.folder)

        def usable(manifest: Manifest) -> str:
            if not self.checkpoints.are_of(manifest):
                return "it belongs to other settings, or to another division of the data"
            if not reaches(lines, manifest.stages):
                return f"{LOG} does not reach round {manifest.stage.round}"
            if manifest.stages == self.stages and not self.has_members():
                return f"{MEMBERS} is missing or damaged"
            return ""

        return self.checkpoints.latest(usable=usable)

    def has_members(self) -> bool:
        """Whether everybody was read at the end, and the file of that is whole."""
        return [member.id for member in members_of(self.folder)] == list(self.study.division.everyone)

    def go(self, after: Round | None = None) -> Result:
        """The rest of the run, and its result."""
        self.listener.started(self.study, self.folder)
        self.listener.note(str(self.plan))
        now = after
        with self.brake:
            for stages in by_round(self.rounds(after)):
                now = stages[-1]
                self.close(stages)
        assert now is not None
        return self.finish(now)

    def rounds(self, after: Round | None) -> Iterator[Round]:
        return rounds(
            self.study.place, self.study.conduct, executor=self.executor, after=after, store=self.store
        )

    def close(self, stages: Sequence[Round]) -> None:
        """Reads, logs and saves what holds at the end of a round; then stops, if it is to."""
        now, number = stages[-1], round_of(stages)
        last = now.number == self.stages
        readings, validation = self.read(stages) if last or self.is_due(number) else (None, None)
        self.add_line(stages, readings, validation)
        if readings and last:
            self.write_members(now, readings, validation)
        for stage in stages:
            self.checkpoints.saw(stage)
        pulled = (self.brake.pulled or self.stop()) and not last
        if last or pulled or number % self.checkpoint_every == 0:
            self.checkpoints.save(now)
        if pulled:
            raise Interrupted(self.folder, number, self.study.settings.rounds)

    def is_due(self, round: int) -> bool:
        return round > 0 and round % self.study.settings.eval_every == 0

    def read(self, stages: Sequence[Round]) -> tuple[Readings, Readings | None]:
        """Readings on test data, and on validation data where there are any."""
        place, now = self.study.place, stages[-1]
        whole = {k: tensors for stage in stages for k, tensors in stage.trained.items()}
        personal_on = self.study.settings.personal_on
        with self.timed():
            test = evaluate(place, now, self.executor, personal_on=personal_on, whole=whole)
            if not any(len(client.val) for client in place.clients.values()):
                return test, None
            return test, evaluate(
                place, now, self.executor, split="val", personal_on=personal_on, whole=whole
            )

    @contextmanager
    def timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.evaluating += time.perf_counter() - started

    def add_line(
        self, stages: Sequence[Round], readings: Readings | None, validation: Readings | None
    ) -> None:
        before = self.log.lines[-1] if self.log.lines else None
        line = line_of(stages, before, readings, validation, self.spent(stages))
        self.log.add(line)
        self.listener.passed(line)
        if readings:
            self.listener.evaluated(line.round, readings, line)

    def spent(self, stages: Sequence[Round] = ()) -> Seconds:
        """Where the time went since this was asked last."""
        aggregate = sum(s.seconds.aggregate for s in stages)
        train = sum(s.seconds.wall for s in stages) - aggregate
        wall, evaluating = time.perf_counter() - self.clock, self.evaluating
        self.clock, self.evaluating = self.clock + wall, 0.0
        return Seconds(train, evaluating, aggregate, max(0.0, wall - train - aggregate - evaluating), wall)

    def write_members(self, now: Round, readings: Readings, validation: Readings | None) -> None:
        """Everybody, clients and newcomers, with every reading."""
        with self.timed():
            late = welcome(self.study.place, now, self.executor, epochs=self.study.settings.adapt_epochs)
        members = [
            member_of(self.study, k, readings | late, validation) for k in self.study.division.everyone
        ]
        write(self.folder / MEMBERS, b"".join(msgspec.json.encode(m) + b"\n" for m in members))

    def finish(self, now: Round) -> Result:
        lines, members = self.log.lines, members_of(self.folder)
        seconds = sum((line.seconds for line in lines), self.spent())
        result = result_of(self.study, now, lines, members, seconds, str(self.folder))
        write(self.folder / RESULT, result.to_json().encode() + b"\n")
        settle(self.folder)
        self.listener.finished(result)
        return result


def at_least_one(checkpoint_every: int) -> None:
    if checkpoint_every < 1:
        raise SettingError(f"checkpoint_every is {checkpoint_every}; it should be 1 or more rounds")


def round_of(stages: Sequence[Round]) -> int:
    stage = stages[-1].stage
    assert stage is not None
    return stage.round


def by_round(stages: Iterable[Round]) -> Iterator[list[Round]]:
    """The stages of each round together."""
    together: list[Round] = []
    for stage in stages:
        together.append(stage)
        if stage.ends:
            yield together
            together = []
