"""Digits rendered from fonts: a domain of our own, always at hand, and no published dataset.

Each image has a digit in one of fourteen fonts, of some size, place, turn, colour and blur, in front of
coloured blotches with a little noise.  All of it is drawn by the number of the image alone.  The fonts are
those that matplotlib carries: with the same versions of it and of Pillow, the images are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..seeds import numpy_generator
from .entry import Arrays, Entry, File, Form
from .files import damaged
from .pictures import check_pillow
from .progress import counted

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

SIDE = 32
FINER = 2  # the digit is drawn so many times larger, and shrunk
TRAIN, TEST = 10_000, 2_000
SIZES = (22, 38)  # pixels of a font, of which a digit takes three quarters
DEGREES, SHIFT, BLUR, NOISE = 20.0, 3.0, 0.8, 12.0  # at most
UNLIKE = 80  # how far blotches are from their common colour, in red, in green and in blue
CONTRAST = 200  # between the digit's colour and what is behind it, red, green and blue together
FONTS = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique",
    "DejaVuSansMono", "DejaVuSansMono-Bold",
    "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic",
    "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta",
)  # fmt: skip


def read(paths: Sequence[Path], *, train: int = TRAIN, test: int = TEST) -> Arrays:
    """Each digit equally often, in turn; the training rows first."""
    check_pillow()
    labels = np.concatenate([np.arange(train), np.arange(test)]) % 10
    images = np.empty((train + test, 3, SIDE, SIDE), np.uint8)
    with counted("rendered-digits", len(labels), "rendering") as report:
        for row, label in enumerate(labels.tolist()):
            images[row] = rendered(paths, label, row)
            report(row + 1)
    return Arrays(images, labels.astype(np.int64), train)


def rendered(fonts: Sequence[Path], digit: int, row: int) -> NDArray[np.uint8]:
    """The image (3, H, W) of this number, which shows this digit."""
    rng = numpy_generator("rendered-digits", row)
    behind = blotches(rng)
    ink = colour_unlike(behind.mean((0, 1)), rng)
    covered = mask(fonts[int(rng.integers(len(fonts)))], digit, rng)[:, :, None]
    pixels = behind * (1 - covered) + ink * covered + rng.normal(0, rng.uniform(0, NOISE), behind.shape)
    image: NDArray[np.uint8] = np.rint(pixels.clip(0, 255)).astype(np.uint8).transpose(2, 0, 1)
    return image


def blotches(rng: np.random.Generator) -> NDArray[np.float64]:
    """A background (H, W, 3): from one colour to four times four alike that run into each other."""
    from PIL import Image

    cells = int(rng.integers(1, 5))
    colours = rng.uniform(0, 255, 3) + rng.uniform(-UNLIKE, UNLIKE, (cells, cells, 3))
    colours = colours.clip(0, 255).astype(np.uint8)
    return np.asarray(Image.fromarray(colours).resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float64)


def colour_unlike(other: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """A colour that is easy to tell from this one."""
    while True:
        colour = rng.uniform(0, 255, 3)
        if np.abs(colour - other).sum() >= CONTRAST:
            return colour


def mask(path: Path, digit: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """How much of each pixel (H, W) the digit covers, from 0 to 1."""
    from PIL import Image, ImageDraw, ImageFilter

    size = FINER * int(rng.integers(*SIZES))
    middle = FINER * (SIDE / 2 + rng.uniform(-SHIFT, SHIFT, 2))
    drawn: Image.Image = Image.new("L", (FINER * SIDE, FINER * SIDE))
    ImageDraw.Draw(drawn).text(tuple(middle), str(digit), 255, font(path, size), anchor="mm")
    turned = drawn.rotate(rng.uniform(-DEGREES, DEGREES), Image.Resampling.BILINEAR).reduce(FINER)
    return np.asarray(turned.filter(ImageFilter.GaussianBlur(rng.uniform(0, BLUR))), np.float64) / 255


@lru_cache
def font(path: Path, size: int) -> FreeTypeFont:
    """The font at this size, without the help of other libraries, which not every machine has."""
    from PIL import ImageFont

    try:
        return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)
    except OSError as error:
        raise damaged(path, "a font", f"another file ({error})") from error


RENDERED_DIGITS = Entry(
    name="rendered-digits",
    title="Digits we render from fonts; no published set",
    shape=(3, SIDE, SIDE),
    train=TRAIN,
    test=TEST,
    classes=tuple("0123456789"),
    licence="the images CC0; the fonts Bitstream Vera and SIL OFL",
    homepage="https://dejavu-fonts.github.io",
    citation="""@misc{dejavu2016,
  title        = {{DejaVu} fonts 2.37},
  author       = {{The DejaVu fonts team}},
  year         = {2016},
  howpublished = {https://dejavu-fonts.github.io}
}""",
    forms=(
        Form(
            tuple(File(f"{name}.ttf", "", archive=True) for name in FONTS),
            ("mpl-data/fonts/ttf",),
            read,
            package="matplotlib",
        ),
    ),
)
