"""Small image files for the tests, in folders and archives."""

import io
import tarfile
import zipfile

import numpy as np
from PIL import Image


def picture(colour, size=(8, 6), mode="RGB", form="PNG"):
    """The bytes of an image file of one colour."""
    stream = io.BytesIO()
    Image.new(mode, size, colour).save(stream, form)
    return stream.getvalue()


def noise(seed, side=8, form="PNG"):
    """The bytes of an image file of random pixels, and the pixels (C, H, W)."""
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, form)
    return stream.getvalue(), pixels.transpose(2, 0, 1)


def put(folder, files):
    """The files, by their names below the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def tar_of(path, files, mode="w:gz"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def zip_of(path, files, packing=zipfile.ZIP_STORED):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path
