"""Where data are looked for, and what is there."""

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataNotFound
from .entry import Entry, File, Form, Tree, Union

SYSTEM = Path("/usr/share/datasets")


@dataclass(frozen=True)
class Found:
    """All files of one form; of a union, those of its parts by name."""

    form: Form | Tree | Union
    paths: tuple[Path, ...]
    parts: Mapping[str, "Found"] = field(default_factory=dict)


def find(entry: Entry, data_dir: Path | None = None) -> Found | None:
    """The first complete set of files; None if there is none anywhere."""
    for form, folder in candidates(entry, data_dir):
        if isinstance(form, Tree):
            if whole := form.find(folder):
                return Found(form, whole)
        else:
            paths = [present(file, folder) for file in form.files]
            if None not in paths:
                return Found(form, tuple(path for path in paths if path))
    unions = (form for form in entry.forms if isinstance(form, Union))
    return next((found for union in unions if (found := together(union, data_dir))), None)


def together(union: Union, data_dir: Path | None) -> Found | None:
    """What is there of the parts; None if one that is needed is missing."""
    parts = {part.name: found for part in union.parts if (found := find(part, data_dir))}
    if any(part.name not in parts for part in union.needed):
        return None
    return Found(union, tuple(path for found in parts.values() for path in found.paths), parts)


def gaps(entry: Entry, data_dir: Path | None = None) -> dict[Path, list[str]]:
    """Folders with some of the files, and the names of those that are missing."""
    missing = {}
    for form, folder in candidates(entry, data_dir):
        if isinstance(form, Tree):
            continue
        absent = [file.name for file in form.files if not present(file, folder)]
        if 0 < len(absent) < len(form.files):
            missing[folder] = absent
    return missing


def candidates(entry: Entry, data_dir: Path | None) -> Iterator[tuple[Form | Tree, Path]]:
    """Every form with every folder it may lie in; places the user names come first."""
    places = roots(data_dir)  # looked at first: a --data-dir that does not exist is a slip in any case
    for form in entry.forms:
        if isinstance(form, Form) and form.package and (home := package_folder(form.package)):
            yield from ((form, home / folder) for folder in form.folders)
    for root in places:
        for form in entry.forms:
            if isinstance(form, Tree):
                yield form, root
            elif isinstance(form, Form) and not form.package:
                folders = dict.fromkeys((*form.folders, entry.plain, "raw", "."))
                yield from ((form, root / folder) for folder in folders)


def present(file: File, folder: Path) -> Path | None:
    """The path under which the folder has this file."""
    paths = (folder / name for name in file.names)
    return next((path for path in paths if is_file(path)), None)


def package_folder(package: str) -> Path | None:
    """Where a package is installed, without importing it."""
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else None


def roots(data_dir: Path | None = None) -> list[Path]:
    """--data-dir, the folders of $PLURIBUS_DATA, our cache, ./data, and the system's."""
    if data_dir and not is_folder(data_dir):
        kind = "is a file, not a folder" if is_file(data_dir) else "does not exist"
        raise DataNotFound(f"--data-dir: '{data_dir}' {kind}\n    name the folder that holds the datasets")
    named = [
        Path(name).expanduser() for name in os.environ.get("PLURIBUS_DATA", "").split(os.pathsep) if name
    ]
    all_of_them = [*([data_dir] if data_dir else []), *named, originals(), Path("data"), SYSTEM]
    return list(dict.fromkeys(all_of_them))


def originals() -> Path:
    """Where downloaded files stay."""
    return cache() / "files"


def cache() -> Path:
    """$PLURIBUS_CACHE, or the folder this system has for such things."""
    if named := os.environ.get("PLURIBUS_CACHE"):
        return Path(named).expanduser()
    return Path(cache_home(os.environ)).expanduser() / "pluribus"


def cache_home(environment: Mapping[str, str]) -> str:
    """The folder for caches of all programs."""
    if xdg := environment.get("XDG_CACHE_HOME"):
        return xdg
    if sys.platform == "win32":
        return environment.get("LOCALAPPDATA", "~/AppData/Local")
    return "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"


def shown(folders: list[Path]) -> str:
    """Folders in a sentence; those that do not exist say so."""
    return ", ".join(f"{folder}{'' if is_folder(folder) else ' (none)'}" for folder in folders)


def is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises where a folder above may not be entered


def is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - so does Path.is_dir
