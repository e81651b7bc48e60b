"""How long decoding a dataset of image files takes, beside a bare loop over Pillow on as many processes.

    python benchmarks/decoding.py pacs
    python benchmarks/decoding.py pacs --side 227        the same images, made as large as this before

Both read the same files from the same folder, make them as large as the dataset has them, and leave an array
on the disk; ours besides counts every value, hashes the whole and keeps it.  The two take turns, each in a
new process and with an empty cache; the best of their times counts.  Then the time until a new process has
the dataset ready once it was kept.  A line of JSON.
"""
# ruff: noqa: INP001, T201, S603

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pluribus import data
from pluribus.data.rolls import roll

OURS = """
import sys, time
import torch
import pluribus
from pluribus import data
from pluribus.data import entry, loading
began = time.perf_counter()
data.load(sys.argv[1], sys.argv[2], download=False)
print(time.perf_counter() - began)
"""


def main() -> None:
    """Write the files, take turns, print."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    options.add_argument("name", help="a dataset of image files, such as pacs")
    options.add_argument("--side", type=int, default=0, help="height and width of the files; 0: as they are")
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / given.name
        files = write_files(given.name, folder, given.side)
        side = data.entry(given.name).shape[1]
        bare, ours = [], []
        for turn in range(given.repeats):
            bare.append(in_turn(partial(bare_loop, files, side, Path(place) / "bare.npy")))
            ours.append(loaded(given.name, place, Path(place) / f"cache{turn}"))
        again = [loaded(given.name, place, Path(place) / "cache0") for _ in range(given.repeats)]
    print(
        json.dumps(
            {
                "data": given.name,
                "images": len(files),
                "file_side": given.side or "as they are",
                "side": side,
                "processes": os.cpu_count(),
                "bare_seconds": rounded(bare),
                "our_seconds": rounded(ours),
                "ratio": round(min(ours) / min(bare), 3),
                "second_start_seconds": rounded(again),
            }
        )
    )


def write_files(name: str, folder: Path, side: int) -> list[Path]:
    """The images of the dataset's files or archives as files in this folder."""
    written = []
    for source in map(roll, data.where(name)):
        names = [one for one in source.names() if one.lower().endswith((".jpg", ".jpeg", ".png"))]
        for _, one, content in source.items(dict.fromkeys(names, 0)):
            path = folder / one
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(enlarged(content if isinstance(content, bytes) else content.read_bytes(), side))
            written.append(path)
    return sorted(written)


def enlarged(content: bytes, side: int) -> bytes:
    if not side:
        return content
    stream = io.BytesIO()
    with Image.open(io.BytesIO(content)) as image:
        image.convert("RGB").resize((side, side), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def in_turn(work: partial[None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bare_loop(files: Sequence[Path], side: int, out: Path) -> None:
    """Pillow on all cores, a pool of processes; what it gives is collected in one array on the disk."""
    inputs = np.lib.format.open_memmap(out, mode="w+", dtype=np.uint8, shape=(len(files), 3, side, side))
    with multiprocessing.get_context("fork").Pool() as pool:
        decode = partial(decoded, side=side)
        for row, pixels in enumerate(pool.imap(decode, files, chunksize=64)):
            inputs[row] = pixels
    inputs.flush()


def decoded(path: Path, side: int) -> NDArray[np.uint8]:
    with Image.open(path) as image:
        there = image.convert("RGB")
    if there.size != (side, side):
        there = there.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(there).transpose(2, 0, 1)


def loaded(name: str, folder: str, cache: Path) -> float:
    """Seconds until a new process has the dataset, with this cache; importing is not counted."""
    environment = {**os.environ, "PLURIBUS_CACHE": str(cache)}
    found = subprocess.run(
        [sys.executable, "-c", OURS, name, folder],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(found.stdout)


def rounded(seconds: Sequence[float]) -> list[float]:
    return [round(one, 2) for one in seconds]


if __name__ == "__main__":
    main()
