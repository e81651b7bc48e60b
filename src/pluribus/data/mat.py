"""SVHN and Synthetic Digits: MATLAB files with X (32 x 32 x 3 x N) and y, in which ten stands for zero."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .entry import Arrays, Delivery, Entry, File, Form, Parcel
from .files import damaged, unreadable

SHAPE = (32, 32, 3)


def read(paths: Sequence[Path]) -> Arrays:
    """Training images and labels, then those for testing."""
    parts = [pair(path) for path in paths]
    x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Arrays(x, y, len(parts[0][1]))


def pair(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (N, C, H, W) and labels of one file."""
    content = loaded(path)
    x, y = content.get("X"), content.get("y")
    if not isinstance(x, np.ndarray) or x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != SHAPE:
        form = f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else "none"
        raise damaged(path, "X to be 32 x 32 x 3 x N bytes", form)
    if not isinstance(y, np.ndarray) or y.dtype.kind not in "iuf" or y.size != x.shape[3]:
        raise damaged(path, f"y to be {x.shape[3]} whole numbers", f"{getattr(y, 'shape', 'none')}")
    labels = y.ravel().astype(np.int64)
    if labels.min() < 0 or labels.max() > 10:
        raise damaged(path, "labels from 0 to 10", f"{labels.min()} to {labels.max()}")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), labels % 10


def loaded(path: Path) -> dict[str, Any]:
    """The arrays of a MATLAB file."""
    try:
        from scipy.io import loadmat
    except ImportError:
        raise DataError(f"{path} is read with SciPy\n    pip install 'pluribus[data]'") from None
    try:
        found: dict[str, Any] = loadmat(path, variable_names=["X", "y"])
        return found
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # a garbled file can raise almost anything
        raise damaged(path, "a MATLAB file", f"one that breaks off or is garbled ({error})") from error


SVHN_PARCELS = (
    Parcel(
        "train_32x32.mat",
        182_040_794,
        "e26dedcc434d2e4c54c9b2d4a06d8373",
        ("http://ufldl.stanford.edu/housenumbers/train_32x32.mat",),
    ),
    Parcel(
        "test_32x32.mat",
        64_275_384,
        "eb5a983be6a315427106f1b164d9cef3",
        ("http://ufldl.stanford.edu/housenumbers/test_32x32.mat",),
    ),
)

SVHN = Entry(
    name="svhn",
    title="SVHN house numbers, cropped to digits",
    shape=(3, 32, 32),
    train=73_257,
    test=26_032,
    classes=tuple("0123456789"),
    licence="for non-commercial use",
    homepage="http://ufldl.stanford.edu/housenumbers/",
    citation="""@inproceedings{netzer2011reading,
  title     = {Reading Digits in Natural Images with Unsupervised Feature Learning},
  author    = {Netzer, Yuval and Wang, Tao and Coates, Adam and Bissacco, Alessandro and Wu, Bo and
               Ng, Andrew Y.},
  booktitle = {NIPS Workshop on Deep Learning and Unsupervised Feature Learning},
  year      = {2011}
}""",
    forms=(Form(tuple(File(p.name, p.md5, archive=True) for p in SVHN_PARCELS), ("SVHN",), read),),
    deliveries=(Delivery("SVHN", SVHN_PARCELS),),  # its server answers over http only; the sums stand guard
)

SYNTHDIGITS = Entry(
    name="synthdigits",
    title="Synthetic Digits, rendered from fonts",
    shape=(3, 32, 32),
    train=479_400,
    test=9_553,
    classes=tuple("0123456789"),
    licence="none stated",
    homepage="https://sites.skoltech.ru/compvision/projects/grl/",
    citation="""@inproceedings{ganin2015unsupervised,
  title     = {Unsupervised Domain Adaptation by Backpropagation},
  author    = {Ganin, Yaroslav and Lempitsky, Victor},
  booktitle = {ICML},
  year      = {2015}
}""",
    forms=(
        Form(
            (File("synth_train_32x32.mat", "", archive=True), File("synth_test_32x32.mat", "", archive=True)),
            ("SynthDigits", "synth_digits"),
            read,
        ),
    ),
    wanted="synth_train_32x32.mat and synth_test_32x32.mat",
)
