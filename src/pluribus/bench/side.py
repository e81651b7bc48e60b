"""A side of a race: a process that does a round when it is asked for one, and waits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import RunError, SettingError

LAST_WORDS = 12  # lines of what a side said before it ended


@dataclass(frozen=True)
class Entrant:
    """Who takes part, and how it is started; `{task}` and `{workers}` stand for the task and its workers."""

    name: str
    command: tuple[str, ...]


def ours(name: str = "engine", **changes: Any) -> Entrant:
    """The engine; changes are settings, by the flat names of the command line, in which it is to differ."""
    words = (sys.executable, "-m", "pluribus.bench.held", "{task}", "{workers}")
    return Entrant(name, (*words, *(f"{key}={json.dumps(value)}" for key, value in changes.items())))


def bare() -> Entrant:
    """The bare loop, from the package or from the checkout it is read from."""
    here = Path(__file__).resolve()
    places = [here.with_name("bare.py"), *(p / "benchmarks" / "bare.py" for p in here.parents[3:4])]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise SettingError(f"bare.py is missing beside {here.parent.name}\n    install the package anew")
    return Entrant("bare", (sys.executable, str(found), "--task", "{task}", "--workers", "{workers}"))


class Side:
    """An entrant at work on the task in this folder."""

    def __init__(self, entrant: Entrant, folder: Path, workers: int):
        self.entrant, self.said = entrant, folder / f"{entrant.name}.log"
        words = [w.replace("{task}", str(folder)).replace("{workers}", str(workers)) for w in entrant.command]
        with self.said.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603  # the commands are ours
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def round(self, number: int) -> dict[str, Any]:
        """What this round of the task took."""
        answer = self.ask(str(number))
        if answer["round"] != number:
            raise RunError(f"{self.entrant.name} was asked for round {number} and did {answer['round']}")
        return answer

    def ask(self, line: str) -> dict[str, Any]:
        """Its answer to this line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            raise RunError(f"{self.entrant.name} gave no answer{self.last_words()}") from None
        return answer

    def last_words(self) -> str:
        lines = self.said.read_text(errors="replace").splitlines()[-LAST_WORDS:]
        return "".join(f"\n    {line}" for line in lines)

    def close(self) -> None:
        """Ends it: nobody asks any more."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def started(entrants: Sequence[Entrant], folder: Path, workers: int) -> list[Side]:
    """All of them at work; none if one cannot be started."""
    sides: list[Side] = []
    try:
        for entrant in entrants:
            sides.append(Side(entrant, folder, workers))  # noqa: PERF401  # those before it must be ended
    except OSError as error:
        for side in sides:
            side.close()
        raise RunError(f"{entrants[len(sides)].name} cannot be started: {error}") from error
    return sides
