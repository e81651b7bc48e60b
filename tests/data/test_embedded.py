"""The two datasets that need no network."""

import importlib.util

import numpy as np
import pytest
import torch

from pluribus import data
from pluribus.data import embedded
from pluribus.errors import DataDamaged, DataError, DataNotFound

DIGESTS = {
    "digits": "243e51d06b9f0f30cd98831cdda0181bcdfc34e5985477e68a17bf54df805c4e",
    "mnist-5k": "db062a34855138f76159829789afa813a4fec80dfa1d5aae45a977adea6fc3be",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_the_contents_are_the_same_on_every_machine(name):
    assert data.load(name).digest == DIGESTS[name]


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    theirs = load_digits()
    scaled = sorted(np.round(image * 255 / 16).astype(np.uint8).tobytes() for image in theirs.images)

    ours = data.load("digits")

    assert sorted(image.numpy().tobytes() for image in ours.inputs) == scaled
    assert np.array_equal(np.bincount(ours.labels), np.bincount(theirs.target))
    assert ours.shape == (1, 8, 8)


def test_mnist_5k_has_500_images_of_each_digit_and_100_of_them_for_testing():
    dataset = data.load("mnist-5k")

    assert torch.bincount(dataset.labels).tolist() == [500] * 10
    assert torch.bincount(dataset.labels[dataset.official :]).tolist() == [100] * 10
    assert dataset.shape == (1, 28, 28)


def test_of_each_class_every_fifth_row_is_for_testing():
    """Row 10 is of class 1, all others of class 0: the fifth and tenth of those are rows 4 and 9."""
    labels = np.array([0] * 10 + [1, 0])
    inputs = np.arange(12).reshape(12, 1, 1, 1)

    arrays = embedded.split(inputs, labels)

    assert arrays.inputs.flatten().tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 4, 9]
    assert arrays.labels.tolist() == [0] * 8 + [1, 0] + [0, 0]
    assert arrays.official == 10


def test_sixteenths_become_bytes(tmp_path):
    """0, 1, 8 and 16 sixteenths of 255 are 0, 15.9, 127.5 and 255."""
    line = ",".join(["0", "1", "8", "16"] + ["0"] * 60 + ["3"])
    (tmp_path / "digits.csv").write_text(f"{line}\n")

    arrays = embedded.read_digits([tmp_path / "digits.csv"])

    assert arrays.inputs[0, 0, 0, :4].tolist() == [0, 16, 128, 255]
    assert arrays.labels.tolist() == [3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1,2,3\n", "expected 64 values and a digit a line, found 3 columns"),
        ("<html>\n", "a table of whole numbers"),
        (",".join(["17"] + ["0"] * 64), "found values to 17"),
        (",".join(["0"] * 64 + ["10"]), "labels to 10"),
    ],
)
def test_another_table_is_refused(tmp_path, text, says):
    (tmp_path / "digits.csv").write_text(text)

    with pytest.raises(DataDamaged, match=says):
        embedded.read_digits([tmp_path / "digits.csv"])


@pytest.mark.parametrize("name", DIGESTS)
def test_without_the_package_the_error_names_what_to_install(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)

    with pytest.raises(DataError, match=r"pip install 'pluribus\[data\]'"):
        data.load(name)
    with pytest.raises(DataNotFound, match=r"pip install 'pluribus\[data\]'"):
        data.load(name, download=False)
    assert data.describe(name).summary == "pip install 'pluribus[data]'"


def test_what_was_copied_once_needs_the_package_no_more(monkeypatch):
    data.load("digits")
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)

    assert data.load("digits").digest == DIGESTS["digits"]
