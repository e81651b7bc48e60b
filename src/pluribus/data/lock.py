"""One process at a time: a lock on a file, which a killed process lets go of by itself."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .progress import note

if sys.platform == "win32":
    import msvcrt

    def take(file: int, *, wait: bool) -> None:
        while True:
            try:
                return msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError:
                if not wait:
                    raise BlockingIOError from None
else:
    import fcntl

    def take(file: int, *, wait: bool) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def alone(path: Path, what: str) -> Iterator[None]:
    """The only process in this block; a second one says that it waits for this, and waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            take(file, wait=False)
        except BlockingIOError:
            note(f"waiting for another process to be done with {what}")
            take(file, wait=True)
        yield
    finally:
        os.close(file)
