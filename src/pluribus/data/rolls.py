"""Folders, zip and tar files of images, by names; archives are read in place, nothing is unpacked to disk."""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..errors import DataDamaged
from .files import check_bomb, damaged, leads_back, unreadable
from .pictures import LARGEST, Item

ZIPS = (".zip",)
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


@dataclass(frozen=True)
class Folder:
    """The files below a folder; names have slashes and begin below it."""

    path: Path

    def names(self) -> list[str]:
        return sorted(self._below(self.path, ""))

    def _below(self, path: Path, before: str) -> Iterator[str]:
        with os.scandir(path) as inside:
            for one in inside:
                if one.is_dir() and not leads_back(one):
                    yield from self._below(Path(one), f"{before}{one.name}/")
                elif one.is_file():
                    yield f"{before}{one.name}"

    def items(self, rows: Mapping[str, int]) -> Iterator[Item]:
        for name, row in rows.items():
            yield row, name, self.path / name

    def content(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


@dataclass(frozen=True)
class Zip:
    """A zip file."""

    path: Path

    def names(self) -> list[str]:
        with self._open() as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            check_bomb(self.path, sum(info.file_size for info in members))
            return sorted(safe(info.filename, self.path) for info in members)

    def items(self, rows: Mapping[str, int]) -> Iterator[Item]:
        with self._open() as archive:
            for name, row in rows.items():
                yield row, name, self._read(archive, name)

    def content(self, name: str) -> bytes:
        with self._open() as archive:
            return self._read(archive, name)

    def _read(self, archive: zipfile.ZipFile, name: str) -> bytes:
        info = archive.getinfo(name)
        if info.file_size > LARGEST:
            raise damaged(f"{self.path}: {name}", f"at most {LARGEST} bytes", f"{info.file_size}")
        if info.flag_bits & 1:
            raise damaged(f"{self.path}: {name}", "a file anybody can read", "one with a password")
        with archive.open(info) as stream:
            return stream.read(LARGEST)

    @contextmanager
    def _open(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise damaged(
                self.path, "a whole zip archive", f"one that breaks off or is garbled ({error})"
            ) from error
        except OSError as error:
            raise unreadable(self.path, error) from error


@dataclass(frozen=True)
class Tar:
    """A tar file, packed or not; it can only be read from its beginning on."""

    path: Path

    def names(self) -> list[str]:
        names, size = [], 0
        with self._open() as archive:
            for member in archive:
                size += member.size
                check_bomb(self.path, size)  # before the next one is looked for, behind all of this one
                if member.isreg():
                    names.append(safe(member.name, self.path))
        return sorted(names)

    def items(self, rows: Mapping[str, int]) -> Iterator[Item]:
        with self._open() as archive:
            for member in archive:
                if member.isreg() and member.name in rows:
                    yield rows[member.name], member.name, self._read(archive, member)

    def content(self, name: str) -> bytes:
        return next(content for _, _, content in self.items({name: 0}) if isinstance(content, bytes))

    def _read(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
        if member.size > LARGEST:
            raise damaged(f"{self.path}: {member.name}", f"at most {LARGEST} bytes", f"{member.size}")
        stream = archive.extractfile(member)
        return stream.read() if stream else b""

    @contextmanager
    def _open(self) -> Iterator[tarfile.TarFile]:
        try:
            with tarfile.open(self.path, "r:*") as archive:
                yield archive
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise damaged(
                self.path, "a whole tar archive", f"one that breaks off or is garbled ({error})"
            ) from error
        except OSError as error:
            raise unreadable(self.path, error) from error


AnyRoll = Folder | Zip | Tar


def roll(path: Path) -> AnyRoll:
    """The folder or archive at this path."""
    if path.is_dir():
        return Folder(path)
    return Zip(path) if path.name.lower().endswith(ZIPS) else Tar(path)


def is_archive(name: str) -> bool:
    return name.lower().endswith((*ZIPS, *TARS))


def safe(name: str, where: Path) -> str:
    """The name, if it leads nowhere but into its own folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise DataDamaged(
            f"{where} holds a file called '{name}', which would leave its folder\n"
            "    this is not the original; nothing was written. Fetch it again from its source"
        )
    return name
