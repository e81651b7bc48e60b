"""Image files to arrays: decoded once, on all cores, into one array that may be larger than memory."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import DataDamaged, DataError
from ..seeds import numpy_generator
from .dataset import channel_counts, scale_of
from .entry import Developed, Look
from .files import described
from .progress import counted

if TYPE_CHECKING:
    from PIL.Image import Image

AT_A_TIME = 64  # images a thread takes at once
BYTES_AT_A_TIME = 64 << 20  # of decoded images, and of files out of an archive, which wait in memory
MOST_PIXELS = 64_000_000  # of one image: more is no photograph, it is meant to fill the memory
LARGEST = 256 << 20  # bytes of one image file
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
Source = Path | bytes
Item = tuple[int, str, Source]  # row, name, and the file or what is in it
Decoded = tuple[int, NDArray[np.int64], dict[int, str]]  # how many images; counts of values; what is broken


class Roll(Protocol):
    """A folder, or an archive: image files by name."""

    def items(self, rows: Mapping[str, int]) -> Iterator[Item]:
        """The files of these names, in any order."""


@dataclass(frozen=True)
class Pictures:
    """Image files of one roll or several that are still to be decoded; the row of each by its name."""

    title: str
    rolls: Sequence[tuple[Roll, Mapping[str, int]]]
    look: Look
    official: int  # rows before this one are for training

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self.rolls)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.look.shape)

    def developed(self, room: Path | None) -> Developed:
        """The images, decoded on all cores, in `inputs.npy` in this room; in memory, if there is none."""
        check_pillow()
        inputs = blank(self.shape, room)
        counts = np.zeros((self.look.channels, 256), np.int64)
        broken: dict[int, str] = {}
        items = (item for roll, rows in self.rolls for item in roll.items(rows))
        with counted(self.title, len(self)) as report:
            done = 0
            for size, found, spoilt in self.batches(items, inputs):
                done += size
                counts += found
                broken |= spoilt
                report(done)
        rows, statistics = self.whole(broken), scale_of(torch.from_numpy(counts))
        return Developed(inputs if rows is None else together(inputs, rows, room), statistics, rows)

    def batches(self, items: Iterator[Item], inputs: NDArray[np.uint8]) -> Iterator[Decoded]:
        """What became of each batch; few wait at a time, so what is read stays small."""
        workers, waiting = os.cpu_count() or 1, deque[Future[Decoded]]()
        with ThreadPoolExecutor(workers) as pool:
            for batch in in_batches(items, most=max(1, BYTES_AT_A_TIME // prod(self.look.shape))):
                waiting.append(pool.submit(decode, batch, inputs, self.look, self.official))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def whole(self, broken: Mapping[int, str]) -> NDArray[np.int64] | None:
        """The rows that could be decoded, moved to the front; None if all could."""
        if not broken:
            return None
        named = "\n".join(f"    {broken[row]}" for row in sorted(broken)[:5])
        more = f"\n    and {len(broken) - 5} more" if len(broken) > 5 else ""
        if self.look.broken == "refuse":
            raise DataDamaged(
                f"{len(broken)} of the {len(self)} images of {self.title} cannot be used\n{named}{more}\n"
                f"    put them right or delete them; or leave them out: --data {self.title}"
                f"{',' if ':' in self.title else ':'}broken=skip"
            )
        warnings.warn(f"{self.title}: {len(broken)} images are left out\n{named}{more}", stacklevel=2)
        return np.setdiff1d(np.arange(len(self)), np.fromiter(broken, np.int64))


def check_pillow() -> None:
    """DataError, if images cannot be decoded here."""
    try:
        from PIL import Image

        Image.init()
    except ImportError:
        raise DataError("images are decoded with Pillow\n    pip install 'pluribus[data]'") from None


def blank(shape: tuple[int, ...], room: Path | None) -> NDArray[np.uint8]:
    """An array to fill: a file in this room, its space set aside; in memory, if there is none."""
    if room is None:
        return np.empty(shape, np.uint8)
    path, size = room / "inputs.npy", int(np.prod(shape))
    try:
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
        if hasattr(os, "posix_fallocate"):
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, max(path.stat().st_size, 1))
    except OSError as error:
        raise DataError(
            f"{room} has no room for {size / 1e6:.1f} MB: {error.strerror or error}\n"
            "    $PLURIBUS_CACHE names another folder; a smaller size=... needs less"
        ) from error
    return array


def together(inputs: NDArray[np.uint8], rows: NDArray[np.int64], room: Path | None) -> NDArray[np.uint8]:
    """These rows alone."""
    if not len(rows):
        raise DataDamaged("not one of the images can be used")
    whole = Path(str(inputs.filename)).replace(room / "with-gaps.npy") if room else None  # type: ignore[attr-defined]
    kept = blank((len(rows), *inputs.shape[1:]), room)
    for start in range(0, len(rows), AT_A_TIME):
        kept[start : start + AT_A_TIME] = inputs[rows[start : start + AT_A_TIME]]
    if whole:
        whole.unlink()
    return kept


def decode(batch: Sequence[Item], inputs: NDArray[np.uint8], look: Look, official: int) -> Decoded:
    """Fill these rows; how often each value occurs in those for training, and what is broken."""
    channels, *size = look.shape
    block = np.empty((len(batch), *size, channels), np.uint8)  # as Pillow has them: the channels last
    rows: list[int] = []
    broken: dict[int, str] = {}
    for row, name, source in batch:
        try:
            image = taken(source, look, row if row < official else None)
        except Unusable as reason:
            broken[row] = f"{name}: {reason}"
            continue
        block[len(rows)] = np.asarray(image).reshape(*size, channels)
        rows.append(row)
    images = block[: len(rows)].transpose(0, 3, 1, 2)
    inputs[rows] = images
    training = torch.from_numpy(images[[row < official or not official for row in rows]])
    counts = np.stack([channel_counts(training, channel).numpy() for channel in range(channels)])
    return len(batch), counts, broken


def in_batches(items: Iterator[Item], *, most: int) -> Iterator[list[Item]]:
    """So many images at a time; fewer, where they are large, or what was read of them is."""
    batch: list[Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item[2]) if isinstance(item[2], bytes) else 0
        if len(batch) == min(most, AT_A_TIME) or size > BYTES_AT_A_TIME:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Unusable(Exception):
    """Why a file is no image for us."""


def taken(source: Source, look: Look, row: int | None) -> Image:
    """The image of this file at its size, grey or in colour; cropped if it is a row for training."""
    from PIL import Image

    image = whole(source, look.channels)
    if look.crop == "once" and row is not None:
        return cropped(image, row, look)
    side = (look.size, look.size)
    return image if image.size == side else image.resize(side, Image.Resampling.BILINEAR)


def whole(source: Source, channels: int) -> Image:
    """The image of this file as large as it is, grey or in colour; Unusable, if it is none."""
    from PIL import Image, UnidentifiedImageError

    content = source if isinstance(source, Path) else BytesIO(source)
    try:
        with Image.open(content, formats=[f for f in FORMATS if f in Image.OPEN]) as image:
            check_pixels(image)
            return in_colours(image, channels)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Unusable("far too many pixels: a decompression bomb") from error
    except UnidentifiedImageError as error:
        raise Unusable(f"it is {start_of(source)}") from error
    except Unusable:
        raise
    except Exception as error:  # what a garbled image raises depends on its format
        raise Unusable(f"it breaks off or is garbled ({str(error) or type(error).__name__})") from error


def check_pixels(image: Image) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise Unusable(f"{image.width} x {image.height} pixels: a decompression bomb")


def in_colours(image: Image, channels: int) -> Image:
    """The image in red, green and blue, or in grey; a palette's transparency is passed over."""
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode.startswith("I;16"):  # sixteen bits a pixel, of which conversion would cut the upper
        image = in_eight_bits(image)
    mode = "RGB" if channels == 3 else "L"
    image.load()
    return image if image.mode == mode else image.convert(mode)


def in_eight_bits(image: Image) -> Image:
    from PIL.Image import fromarray

    return fromarray((np.asarray(image) >> 8).astype(np.uint8))


def cropped(image: Image, row: int, look: Look) -> Image:
    """FedRIR's random piece: 3/4 to all of the area, ratio 3:4 to 4:3, flipped in half of the cases."""
    from PIL import Image

    rng = numpy_generator("crop", row)
    left, top, width, height = piece(image.size, rng)
    side = (look.size, look.size)
    out = image.resize(side, Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    return out.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else out


def piece(size: tuple[int, int], rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Left, top, width and height of a random piece; after ten misses, the largest of a fitting ratio."""
    width, height = size
    for _ in range(10):
        area = width * height * rng.uniform(0.75, 1)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1)), w, h
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


def start_of(source: Source) -> str:
    """What a file that is no image seems to be."""
    if isinstance(source, bytes):
        return described(source[:16])
    try:
        with source.open("rb") as file:
            return described(file.read(16))
    except OSError as error:
        return f"unreadable ({error.strerror})"


def is_image(name: str) -> bool:
    """Whether a file of this name should be an image."""
    base = name.rpartition("/")[2]
    return base.lower().endswith(SUFFIXES) and not base.startswith(".")
