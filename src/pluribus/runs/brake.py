"""Ctrl-C: once, and the round is finished and written; twice, and it stops at once."""

import contextlib
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupted(KeyboardInterrupt):
    """The run was asked to stop, and has: all is written, and it can go on."""

    def __init__(self, folder: Path, round: int, rounds: int):
        self.folder, self.round, self.rounds = folder, round, rounds
        super().__init__(f"stopped after round {round} of {rounds}; to go on: pluribus resume {folder}")


class Brake:
    """Inside, Ctrl-C pulls the brake instead of interrupting; signals reach the main thread only."""

    def __init__(self, note: Callable[[str], None]):
        self.note = note
        self.pulled = False
        self.before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGINT, self.pull)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)

    def pull(self, number: int, frame: FrameType | None) -> None:
        if self.pulled:
            raise KeyboardInterrupt
        self.pulled = True
        with contextlib.suppress(RuntimeError):  # the signal may come in the middle of another note
            self.note("finishing this round; Ctrl-C again stops at once")
