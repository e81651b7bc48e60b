"""Digits of several kinds as one dataset of 32 x 32 colour images: the same classes, another look."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from .entry import Arrays, Entry, Union
from .idx import MNIST
from .mat import SVHN, SYNTHDIGITS
from .mnist_m import MNIST_M
from .rendered_digits import RENDERED_DIGITS
from .usps import USPS

SIDE = 32
PARTS = (MNIST, USPS, MNIST_M, SVHN, SYNTHDIGITS, RENDERED_DIGITS)
DOMAINS = tuple(part.name for part in PARTS)  # the number of a domain is its place here
AT_A_TIME = 4096


def join(parts: Mapping[str, Arrays]) -> Arrays:
    """Training rows of all domains, then test rows; a domain that is not there has no rows."""
    halves = [[half(arrays, training) for arrays in parts.values()] for training in (True, False)]
    inputs, labels = (np.concatenate([one[i] for part in halves for one in part]) for i in (0, 1))
    sizes = [len(one[1]) for part in halves for one in part]
    domains = np.repeat([DOMAINS.index(name) for name in parts] * 2, sizes).astype(np.int64)
    return Arrays(inputs, labels, sum(len(one[1]) for one in halves[0]), {"domain": domains})


def half(arrays: Arrays, training: bool) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:  # noqa: FBT001
    """Images and labels of the official training set, or of the others."""
    assert isinstance(arrays.inputs, np.ndarray)
    rows = slice(None, arrays.official) if training else slice(arrays.official, None)
    return coloured(arrays.inputs[rows]), arrays.labels[rows]


def coloured(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The images at their size in three channels."""
    out = np.empty((len(images), 3, SIDE, SIDE), np.uint8)
    for start in range(0, len(images), AT_A_TIME):
        some = torch.from_numpy(np.array(images[start : start + AT_A_TIME]))
        if some.shape[-1] != SIDE:
            some = interpolate(some.float(), (SIDE, SIDE), mode="bilinear", antialias=True).round().byte()
        out[start : start + AT_A_TIME] = some.expand(-1, 3, -1, -1).numpy()
    return out


DIGIT_DOMAINS = Entry(
    name="digit-domains",
    title="Digits in two to six domains, as many as are here",
    shape=(3, SIDE, SIDE),
    train=MNIST.train + RENDERED_DIGITS.train,
    test=MNIST.test + RENDERED_DIGITS.test,
    classes=tuple("0123456789"),
    licence="as its parts",
    homepage="https://github.com/med-air/FedBN",
    citation="""@inproceedings{li2021fedbn,
  title     = {{FedBN}: Federated Learning on Non-{IID} Features via Local Batch Normalization},
  author    = {Li, Xiaoxiao and Jiang, Meirui and Zhang, Xiaofei and Kamp, Michael and Dou, Qi},
  booktitle = {ICLR},
  year      = {2021}
}""",
    forms=(Union(PARTS, join, optional=("usps", "mnist-m", "svhn", "synthdigits")),),
    wanted="the files of mnist, and of usps, mnist-m, svhn and synthdigits where you have them,",
    varies=True,
)
