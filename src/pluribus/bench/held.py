"""Our side of a race: a usual run, held after each of its rounds until it is asked for the next.

python -m pluribus.bench.held TASK WORKERS [SETTING=VALUE ...]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from .. import runs
from ..executors.processes import Processes
from ..runs import Line, Listener
from ..settings import Settings
from ..study import Study
from .workload import study_of

SETTINGS, WHERE = "settings.toml", "where.json"


class Over(Exception):
    """Nobody asks for another round."""


@dataclass
class Held(Listener):
    """Answers after each round with what it took, and waits. A round's checkpoint is part of the next."""

    asks: TextIO
    answers: TextIO
    asked: float = 0.0

    def started(self, study: Study, folder: Path) -> None:
        self.wait()

    def passed(self, line: Line) -> None:
        self.say(self.took(line, time.perf_counter() - self.asked))
        self.wait()

    def took(self, line: Line, seconds: float) -> dict[str, Any]:
        parts = {"train": line.seconds.train, "evaluate": line.seconds.evaluate,
                 "aggregate": line.seconds.aggregate}  # fmt: skip
        parts["overhead"] = max(0.0, seconds - sum(parts.values()))
        return {"round": line.round - 1, "seconds": seconds, **parts, "samples": line.samples}

    def say(self, answer: dict[str, Any]) -> None:
        self.answers.write(json.dumps(answer) + "\n")
        self.answers.flush()

    def wait(self) -> None:
        """Until the next round is asked for."""
        if not self.asks.readline():
            raise Over
        self.asked = time.perf_counter()


def hold(folder: Path, workers: int, changes: Sequence[str], asks: TextIO, answers: TextIO) -> None:
    """The run of the settings in this folder, changed, with log, readings and checkpoints."""
    settings = changed(Settings.from_toml(folder / SETTINGS), changes)
    study = study_of(settings, **json.loads((folder / WHERE).read_text()))
    out = tempfile.mkdtemp(prefix="run-", dir=folder)
    with Processes(workers) as executor, suppress(Over):
        runs.run(settings, out=out, study=study, executor=executor, listener=Held(asks, answers))


def changed(settings: Settings, changes: Sequence[str]) -> Settings:
    """The settings with these in their place, each a name and a value in JSON: `reuse=false`."""
    pairs = (change.partition("=") for change in changes)
    return settings.with_given({name: json.loads(value) for name, _, value in pairs})[0].resolved()


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing else may speak on this line
    hold(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:], sys.stdin, answers)


if __name__ == "__main__":
    main()
