"""Who wants to hear of a run while it goes on."""

from __future__ import annotations

from pathlib import Path

from ..readings.evaluate import Readings
from ..study import Study
from .records import Line, Result


class Listener:
    """Hears nothing; whoever wants to hear something writes it."""

    def started(self, study: Study, folder: Path) -> None:
        """The run begins, or goes on, in this folder."""

    def passed(self, line: Line) -> None:
        """A round is over and written."""

    def evaluated(self, round: int, readings: Readings, line: Line) -> None:
        """Everybody was read after this round."""

    def note(self, text: str) -> None:
        """Something that a user should know."""

    def finished(self, result: Result) -> None:
        """All is done and written."""
