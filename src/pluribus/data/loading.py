"""From a catalogue entry to a dataset: found or fetched, read and checked once, then mapped from our copy."""

import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ..errors import DataDamaged, DataError, DataNotFound, DownloadFailed
from . import cache, places
from .dataset import Dataset, content_digest, from_tensors
from .download import download, length
from .entry import Arrays, Delivery, Entry, Form, Union
from .files import md5_of, unreadable
from .lock import alone
from .places import Found
from .progress import Report, megabytes, progress

EXTRA = "digits and mnist-5k need no download: pip install 'pluribus[data]'"


@dataclass(frozen=True)
class Status:
    """Whether a dataset is here, where, and what it would cost to fetch."""

    entry: Entry
    files: tuple[Path, ...]
    parts: tuple[str, ...]  # of a union, the datasets that are here
    copy: Dataset | None  # of these files, or the newest where there are none
    download_bytes: int

    @property
    def here(self) -> bool:
        """It can be loaded without a network."""
        return bool(self.files) or self.copy is not None

    @property
    def counts(self) -> tuple[int, int] | None:
        """How many rows are for training and for testing; None if that is known only when they are read."""
        if self.copy:
            return self.copy.official, len(self.copy) - self.copy.official
        known = (self.entry.train, self.entry.test)
        return None if known == (0, 0) or (self.files and self.entry.varies) else known

    @property
    def summary(self) -> str:
        """Where it is, or how it would come here, in a few words."""
        if self.parts:
            return f"of {', '.join(self.parts)}"
        if self.files:
            return str(self.files[0].parent)
        if self.copy:
            return "in our cache"
        if self.download_bytes:
            return f"{megabytes(self.download_bytes)} to fetch"
        return f"by hand: {self.entry.homepage}" if self.entry.wanted else "pip install 'pluribus[data]'"


def load(entry: Entry, data_dir: Path | None = None, *, download: bool = True) -> Dataset:
    """The dataset, from the user's files if there are any, else from our copy, else downloaded."""
    found = places.find(entry, data_dir)
    if found is None and (copy := cache.latest(entry.name)):
        return copy
    if found is None and not download:
        raise absent(entry, data_dir)
    return of_files(entry, found or fetched(entry, places.originals(), data_dir))


def of_files(entry: Entry, found: Found) -> Dataset:
    """The dataset these files hold, read again only if they have changed."""
    try:
        stamp = cache.stamp(found.paths)
        if known := cache.of_files(entry.name, stamp):
            return known
        with cache.room(entry.name) as room:
            made = cache.of_files(entry.name, stamp)  # by another process, while we waited
            return made or cache.keep(built(entry, found, room), stamp, room)
    except OSError as error:
        raise unreadable(found.paths[0].parent, error) from error


def built(entry: Entry, found: Found, room: Path | None) -> Dataset:
    """The dataset as it is in the files, once their structure and checksums are right."""
    check_sums(entry, found, packed=True)
    arrays = read(entry, found, room)
    check_counts(entry, arrays, found)
    check_sums(entry, found, packed=False)
    statistics, official = None, arrays.official
    if isinstance(arrays.inputs, np.ndarray):
        inputs, rows = arrays.inputs, None
    else:
        images = arrays.inputs.developed(room)
        inputs, statistics, rows = images.inputs, images.statistics, images.rows
    if rows is not None:
        official = int((rows < official).sum())
    labels, *groups = (
        torch.from_numpy(values if rows is None else values[rows])
        for values in (arrays.labels, *arrays.groups.values())
    )
    return from_tensors(
        entry.name,
        torch.from_numpy(inputs),
        labels,
        classes=entry.classes,
        official=official,
        groups=dict(zip(arrays.groups, groups, strict=True)),
        statistics=statistics,
    )


def read(entry: Entry, found: Found, room: Path | None) -> Arrays:
    """What the files hold; the parts of a union are read one by one and joined."""
    if not isinstance(found.form, Union):
        return found.form.read(found.paths)
    parts = (part for part in found.form.parts if part.name in found.parts)
    return found.form.join({part.name: part_of(part, found.parts[part.name], room) for part in parts})


def part_of(entry: Entry, found: Found, room: Path | None) -> Arrays:
    """A part of a union, its images decoded."""
    check_sums(entry, found, packed=True)
    arrays = read(entry, found, room)
    check_counts(entry, arrays, found)
    check_sums(entry, found, packed=False)
    if isinstance(arrays.inputs, np.ndarray):
        return arrays
    corner = room / entry.plain if room else None
    if corner:
        corner.mkdir()
    return replace(arrays, inputs=arrays.inputs.developed(corner).inputs)


def check_counts(entry: Entry, arrays: Arrays, found: Found) -> None:
    train, test, shape = arrays.official, len(arrays.labels) - arrays.official, arrays.inputs.shape[1:]
    counts = (entry.train, entry.test) if entry.varies else (train, test)
    if (*counts, shape) != (entry.train, entry.test, entry.shape) or not train + test:
        raise DataDamaged(
            f"the files in {found.paths[0].parent} are not {entry.name}: {train} + {test} images "
            f"of {size(shape)}; they should be {entry.train} + {entry.test} of {size(entry.shape)}\n"
            "    several datasets use the same file names: keep each in a folder of its own, "
            f"here {entry.plain}"
        )


def check_sums(entry: Entry, found: Found, *, packed: bool) -> None:
    """DataDamaged, if a file is not the original: other contents would silently change the numbers.

    Packed files are compared before anything in them is believed, the others once their form is known to be
    right: what is wrong with their form says more than a checksum.
    """
    files = found.form.files if isinstance(found.form, Form) else ()
    for file, path in zip(files, found.paths, strict=bool(files)):
        if file.archive == packed and file.md5 and (md5 := md5_of(path, as_it_is=file.archive)) != file.md5:
            raise DataDamaged(
                f"{path} is not the original of {entry.name}: md5 {md5}; it should be {file.md5}\n"
                f"    put the original in its place, or delete it and `pluribus data fetch {entry.name}`\n"
                "    several datasets use the same file names: keep each in a folder of its own, "
                f"here {entry.plain}"
            )


def size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def where(entry: Entry, data_dir: Path | None = None) -> tuple[Path, ...]:
    """The files that `load` would read; empty if there are none."""
    found = places.find(entry, data_dir)
    return found.paths if found else ()


def fetch(entry: Entry, data_dir: Path | None = None) -> tuple[Path, ...]:
    """The original files, downloaded to the folder named or to our cache, unless they are here."""
    root = data_dir or places.originals()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(root, error) from error
    return (places.find(entry, root) or fetched(entry, root, data_dir)).paths


def fetched(entry: Entry, root: Path, data_dir: Path | None) -> Found:
    """The files after a download to this folder; the first delivery that succeeds counts."""
    unions = [form for form in entry.forms if isinstance(form, Union)]
    if unions and not entry.deliveries:
        return fetched_parts(entry, unions[0], root, data_dir)
    if not entry.deliveries and entry.wanted:
        raise absent(entry, data_dir)
    if not entry.deliveries:
        packages = ", ".join(form.package for form in entry.forms if isinstance(form, Form))
        raise DataError(
            f"{entry.name} comes with the package {packages}, which is not installed\n"
            "    pip install 'pluribus[data]'"
        )
    failures = []
    for delivery in entry.deliveries:
        try:
            return received(entry, delivery, root)
        except DownloadFailed as failure:
            failures.append(str(failure).partition("\n")[2])
    sources = "\n".join(failures)
    raise DownloadFailed(f"{entry.name} could not be downloaded; tried\n{sources}\n{advice(entry, data_dir)}")


def fetched_parts(entry: Entry, union: Union, root: Path, data_dir: Path | None) -> Found:
    """The union, once every part it needs is here."""
    for part in union.needed:
        if not (places.find(part, root) or places.find(part, data_dir)):
            fetched(part, root, data_dir)
    if found := places.find(entry, root) or places.find(entry, data_dir):
        return found
    raise DataError(f"{root} does not have what was just written to it: {entry.name}")


def received(entry: Entry, delivery: Delivery, root: Path) -> Found:
    """The files once all parcels of this delivery are in its folder under the root."""
    folder = root / delivery.folder
    try:
        with alone(root / f".{shared_by_all(delivery)}.lock", entry.name):
            transfer(entry, delivery, folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    if found := places.find(entry, root):
        return found
    raise DataError(f"{folder} does not have what was just written to it: {entry.name}")


def shared_by_all(delivery: Delivery) -> str:
    """A name for what is delivered: several datasets may be in one and the same archive."""
    return "-".join([*Path(delivery.folder).parts, delivery.parcels[0].md5[:8]])


def unwritable(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"{folder} cannot be written: {error.strerror or error}\n"
        "    $PLURIBUS_CACHE or --data-dir names another folder"
    )


def transfer(entry: Entry, delivery: Delivery, folder: Path) -> None:
    """Download what is missing, under one progress bar; another process may have brought it meanwhile."""
    missing = [parcel for parcel in delivery.parcels if length(folder / parcel.name) != parcel.size]
    done, total = 0, sum(parcel.size for parcel in missing)
    if not missing:
        return
    make_room(folder, total)
    with progress(entry.name, total) as report:
        for parcel in missing:
            download(parcel, folder, behind(done, report))
            done += parcel.size


def behind(before: int, report: Report) -> Report:
    """Reports of one parcel, as reports of the whole delivery."""
    return lambda here: report(before + here)


def make_room(folder: Path, size: int) -> None:
    """DataError, if the disk has too little room."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < size:
        raise DataError(
            f"{folder} has room for {megabytes(free)}; {megabytes(size)} are to come\n"
            "    $PLURIBUS_CACHE or --data-dir names another folder"
        )


def verify(entry: Entry, data_dir: Path | None = None) -> tuple[Path, ...]:
    """The files, read again from beginning to end, all of them right; our copy is compared as well."""
    found = places.find(entry, data_dir)
    copy = cache.latest(entry.name)
    if found is None and copy is None:
        raise absent(entry, data_dir)
    if found:
        with cache.room(entry.name) as room:
            built(entry, found, room)
    if copy and content_digest(copy.inputs, copy.labels, copy.groups) != copy.digest:
        cache.discard(copy)
        raise DataDamaged(
            f"our copy of {entry.name} in {places.cache()} was damaged, and has been removed\n"
            "    the next start makes it anew"
        )
    return found.paths if found else ()


def sums(entry: Entry, data_dir: Path | None = None) -> tuple[int, int]:
    """How many of the files have a published checksum, and how many have none."""
    found = places.find(entry, data_dir)
    parts = [*found.parts.values(), found] if found else []
    files = [file for part in parts if isinstance(part.form, Form) for file in part.form.files]
    compared = sum(bool(file.md5) for file in files)
    return compared, len(found.paths) - compared if found else 0


def describe(entry: Entry, data_dir: Path | None = None) -> Status:
    """Whether it is here, where, and what it would cost to fetch."""
    found = places.find(entry, data_dir)
    if found is None:
        return Status(entry, (), (), cache.latest(entry.name), entry.size)
    copy = None
    with suppress(OSError):  # of files that we may not read there is none
        copy = cache.of_files(entry.name, cache.stamp(found.paths))
    return Status(entry, found.paths, tuple(found.parts), copy, 0)


def absent(entry: Entry, data_dir: Path | None) -> DataNotFound:
    cost = f"; `pluribus data fetch {entry.name}` downloads {megabytes(entry.size)}" if entry.size else ""
    return DataNotFound(f"there are no files of {entry.name}{cost}\n{advice(entry, data_dir)}")


def advice(entry: Entry, data_dir: Path | None) -> str:
    """What would do: which files to put where."""
    partly = [
        f"    {folder} lacks {', '.join(names)}" for folder, names in places.gaps(entry, data_dir).items()
    ]
    names = wanted(entry)
    if not names:
        return "\n".join([*partly, f"    {entry.name} comes with pip install 'pluribus[data]'"])
    return "\n".join(
        [
            *partly,
            f"    looked in {places.shown(places.roots(data_dir))}",
            f"    put {names} into a folder; --data-dir or $PLURIBUS_DATA name it",
            *([f"    they are told of at {entry.homepage}"] if entry.wanted else []),
            f"    {EXTRA}",
        ]
    )


def wanted(entry: Entry) -> str:
    """The files a user would put there by hand; empty if it comes with a package."""
    parts = [part for form in entry.forms if isinstance(form, Union) for part in form.needed]
    if entry.wanted or parts:
        return entry.wanted or ", and ".join(filter(None, map(wanted, parts)))
    sent = (", ".join(parcel.name for parcel in one.parcels) for one in entry.deliveries)
    return f"{files}, packed or unpacked," if (files := " or ".join(sent)) else ""
