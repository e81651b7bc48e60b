"""The idx reader believes nothing that a file does not prove."""

import gzip

import numpy as np
import pytest

from pluribus.data import idx
from pluribus.errors import DataDamaged, DataError

IMAGES, LABELS = 2051, 2049


def test_images_come_back_as_they_were_written(tmp_path, write_idx):
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)

    plain = idx.array(write_idx(tmp_path / "plain", images), IMAGES)
    packed = idx.array(write_idx(tmp_path / "packed.gz", images), IMAGES)

    assert np.array_equal(plain, images)
    assert np.array_equal(packed, images)


def test_a_gzipped_file_is_known_by_its_contents_and_not_by_its_name(tmp_path, write_idx):
    path = write_idx(tmp_path / "images.gz", np.ones((1, 2, 2)))

    renamed = path.rename(tmp_path / "images")

    assert idx.array(renamed, IMAGES).shape == (1, 2, 2)


def test_training_rows_come_first(tmp_path, tiny, put_files):
    folder = put_files(tiny.files)

    arrays = idx.read([folder / name for name in idx.NAMES], classes=3)

    assert arrays.official == 6
    assert arrays.labels.tolist() == [0, 1, 2, 0, 1, 2, 2, 1, 0]
    assert arrays.inputs.shape == (9, 1, 4, 5)
    assert np.array_equal(arrays.inputs[6:, 0], tiny.arrays[2])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "an empty file"),
        (b"\x00\x00", "begins with 00 00"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"not found, sorry about that", "a text file"),
        (b"\x00\x00\x08\x01" + b"\x00" * 20, "an idx file of labels"),
        (b"\x00\x00\x08\x03" + b"\x00\x00\x00\x01", "only 8 bytes: it is cut off"),
        (b"\x00\x00\x08\x03" + b"\x00\x00\x00\x02" * 3 + b"1234567", "found 7: it is cut off"),
        (b"\x00\x00\x08\x03" + b"\x00\x00\x00\x02" * 3 + b"123456789", "found more"),
        (
            b"\x00\x00\x08\x03" + b"\xff\xff\xff\xff" * 3,
            "a header that announces 79228162458924105385300197375",
        ),
        (b"\x00\x00\x08\x03" + b"\x00\x00\x00\x00" * 3, "a header that announces 0"),
        (gzip.compress(b"\x00\x00\x08\x03" * 9, mtime=0)[:-12], "a whole gzip file"),
        (b"\x1f\x8bnonsense", "a whole gzip file"),
    ],
)
def test_a_file_that_is_no_idx_file_of_images_is_refused(tmp_path, content, says):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)

    with pytest.raises(DataDamaged) as error:
        idx.array(path, IMAGES)

    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_images_in_place_of_labels_are_named_as_such(tmp_path, write_idx):
    path = write_idx(tmp_path / "train-labels-idx1-ubyte", np.ones((1, 2, 2)))

    with pytest.raises(DataDamaged, match=r"expected an idx file of labels .*, found an idx file of images"):
        idx.array(path, LABELS)


def test_as_many_labels_as_images_are_needed(tmp_path, write_idx):
    images = write_idx(tmp_path / "images", np.ones((3, 2, 2)))
    labels = write_idx(tmp_path / "labels", [0, 1])

    with pytest.raises(DataDamaged, match=r"has 3 images, but .*labels has 2 labels"):
        idx.pair(images, labels, classes=2)


def test_a_label_that_is_no_class_is_refused(tmp_path, write_idx):
    images = write_idx(tmp_path / "images", np.ones((3, 2, 2)))
    labels = write_idx(tmp_path / "labels", [0, 9, 10])

    with pytest.raises(DataDamaged, match=r"expected labels from 0 to 9, found label 10 at row 2"):
        idx.pair(images, labels, classes=10)


def test_test_images_have_the_size_of_the_training_images(tmp_path, write_idx):
    paths = [
        write_idx(tmp_path / name, array)
        for name, array in zip(idx.NAMES, [np.ones((1, 2, 2)), [0], np.ones((1, 3, 2)), [0]], strict=True)
    ]

    with pytest.raises(DataDamaged, match=r"t10k-images.*2x2.*found images of 2x3"):
        idx.read(paths, classes=2)


def test_what_cannot_be_read_is_an_error_of_data(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read: Is a directory"):
        idx.array(tmp_path, IMAGES)
