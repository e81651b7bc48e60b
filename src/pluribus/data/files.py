"""Reading the original files, gzipped or not, with errors that name the file."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

from ..errors import DataDamaged, DataError

GZIP = b"\x1f\x8b"
LARGE, MOST_DENSE = 1 << 30, 100  # an archive of less is none to be afraid of; what images pack to at most
REMEDY = "delete this file or put the original in its place; `pluribus data fetch NAME` downloads it again"


@contextmanager
def opened(path: Path, *, as_it_is: bool = False) -> Iterator[BufferedIOBase]:
    """The file for reading, unpacked on the way if it is gzipped, whatever its name."""
    try:
        with path.open("rb") as raw:
            if as_it_is or raw.peek(2)[:2] != GZIP:
                yield raw
            else:
                with gzip.open(raw) as unpacked:
                    yield unpacked
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(path, "a whole gzip file", f"one that breaks off or is garbled ({error})") from error
    except OSError as error:
        raise unreadable(path, error) from error


def md5_of(path: Path, *, as_it_is: bool = False) -> str:
    """The md5 of what is inside, or of the file as it is."""
    digest = hashlib.md5(usedforsecurity=False)
    with opened(path, as_it_is=as_it_is) as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be read: {error.strerror or error}")


def damaged(where: Path | str, expected: str, found: str, remedy: str = REMEDY) -> DataDamaged:
    """The error that says what a file should be, what it is, and what would do."""
    return DataDamaged(f"{where}: expected {expected}, found {found}\n    {remedy}")


def check_bomb(path: Path, announced: int) -> None:
    """DataDamaged, if a file would unpack to far more than images and arrays ever do."""
    size = path.stat().st_size
    if announced > LARGE and announced > MOST_DENSE * size:
        raise damaged(
            path, f"at most {MOST_DENSE} times its {size} bytes inside", f"{announced}: a decompression bomb"
        )


def leads_back(one: os.DirEntry[str]) -> bool:
    """Whether this is a link to a folder in which it lies itself."""
    path = Path(one.path)
    return one.is_symlink() and path.parent.resolve().is_relative_to(path.resolve())


def described(start: bytes) -> str:
    """What a file that begins like this seems to be."""
    if not start:
        return "an empty file"
    head = start[:16].lstrip().lower()
    if head.startswith((b"<!doc", b"<html", b"<?xml", b"<head")):
        return "a web page"
    printable = all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start)
    return (
        f"a text file ({start[:16].decode()!r})"
        if printable
        else f"a file that begins with {start[:4].hex(' ')}"
    )
