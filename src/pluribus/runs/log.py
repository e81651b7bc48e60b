"""The log of a run: a line a round, each on the disk before it counts, and the bytes of all up to there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from .folder import append, told
from .records import Line


def read(path: Path) -> list[tuple[Line, int]]:
    """The lines that are whole, each with where it ends in the file; what follows a broken one is lost."""
    lines: list[tuple[Line, int]] = []
    end = 0
    for text in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        end += len(text)
        try:
            lines.append((msgspec.json.decode(text, type=Line), end))
        except msgspec.MsgspecError:
            break
        if not text.endswith(b"\n"):
            return lines[:-1]
    return lines


class Log:
    """The lines of a run so far; it only grows."""

    def __init__(self, path: Path):
        self.path = path
        self.lines: list[Line] = []

    def add(self, line: Line) -> None:
        append(self.path, msgspec.json.encode(line))
        self.lines.append(line)

    def cut(self, stages: int) -> None:
        """Forgets every line after so many stages of the plan, and what is left of a torn one."""
        kept = [(line, end) for line, end in read(self.path) if line.stages <= stages]
        with told(self.path):
            self.path.touch()
            with self.path.open("r+b") as file:
                file.truncate(kept[-1][1] if kept else 0)
        self.lines = [line for line, _ in kept]


def reaches(lines: Sequence[Line], stages: int) -> bool:
    """Whether there is a line for the round that ended after so many stages."""
    return any(line.stages == stages for line in lines)
