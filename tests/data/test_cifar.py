"""CIFAR-10 in each of its four forms, and pickles that would rather be programs."""

import codecs
import io
import os
import pickle
import tarfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pluribus.data import cifar, pickles
from pluribus.errors import DataDamaged

RECORDS = 2
NUMBERS = np.random.default_rng(3)
IMAGES = NUMBERS.integers(0, 256, (6, RECORDS, 3, 32, 32), dtype=np.uint8)
LABELS = NUMBERS.integers(0, 10, (6, RECORDS))


def records(batch):
    """A binary batch as the originals are: label byte, then red, green and blue."""
    rows = np.concatenate(
        [LABELS[batch][:, None].astype(np.uint8), IMAGES[batch].reshape(RECORDS, -1)], axis=1
    )
    return rows.tobytes()


def pickled(batch, other=()):
    """A python batch: a dictionary with names in bytes."""
    content = {
        b"data": IMAGES[batch].reshape(RECORDS, -1),
        b"labels": LABELS[batch].tolist(),
        b"batch_label": b"training batch 1 of 5",
        b"filenames": [b"a.png", b"b.png"],
        **dict(other),
    }
    return pickle.dumps(content, protocol=2)


def folder_of(tmp_path, names, content):
    for batch, name in enumerate(names):
        (tmp_path / name).write_bytes(content(batch))
    return [tmp_path / name for name in names]


def tar_of(path, names, content, kind=tarfile.REGTYPE):
    with tarfile.open(path, "w:gz") as tar:
        for batch, name in enumerate(names):
            member = tarfile.TarInfo(f"cifar-10-batches/{name}")
            member.type, member.linkname = kind, "/etc/hostname"
            member.size = len(content(batch)) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content(batch)))
    return path


@pytest.mark.parametrize(
    ("names", "content", "decode"),
    [(cifar.BINARY, records, cifar.binary), (cifar.PYTHON, pickled, cifar.python)],
)
def test_loose_and_packed_hold_the_same(tmp_path, names, content, decode):
    loose = cifar.read_files(folder_of(tmp_path, names, content), decode=decode, records=RECORDS)
    tar = tar_of(tmp_path / "all.tar.gz", names, content)

    packed = cifar.read_archive([tar], names=names, decode=decode, records=RECORDS)

    for arrays in (loose, packed):
        assert np.array_equal(arrays.inputs, IMAGES.reshape(-1, 3, 32, 32))
        assert np.array_equal(arrays.labels, LABELS.reshape(-1))
        assert arrays.official == 5 * RECORDS


@pytest.mark.parametrize("change", [-1, 1])
def test_a_binary_batch_has_its_exact_length(change):
    data = (records(0) + b"x")[: len(records(0)) + change]

    with pytest.raises(DataDamaged, match=f"expected 6146 bytes .*, found {6146 + change}"):
        cifar.binary(data, "data_batch_1.bin", RECORDS)


def test_a_label_that_is_no_class_is_refused():
    data = bytearray(records(0))
    data[3073] = 10

    with pytest.raises(DataDamaged, match=r"data_batch_1.bin: .*found label 10 in record 1"):
        cifar.binary(bytes(data), "data_batch_1.bin", RECORDS)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({b"data": IMAGES[0, :1].reshape(1, -1)}, r"found uint8 \(1, 3072\)"),
        ({b"data": IMAGES[0].reshape(RECORDS, -1).astype(np.float32)}, "found float32"),
        ({b"data": "text"}, "found str"),
        ({b"labels": [1]}, "found 1 entries"),
        ({b"labels": None}, "found NoneType"),
        ({b"labels": [1, -1]}, "found label -1 in record 1"),
        ({b"labels": [1, "2"]}, "a list of 2 whole numbers"),
    ],
)
def test_a_python_batch_has_its_exact_form(other, says):
    with pytest.raises(DataDamaged, match=says):
        cifar.python(pickled(0, other), "data_batch_1", RECORDS)


def test_a_python_batch_is_a_dictionary():
    with pytest.raises(DataDamaged, match=r"found NoneType"):
        cifar.python(pickle.dumps([1, 2]), "data_batch_1", RECORDS)


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_of_every_protocol_are_read(protocol):
    content = {b"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"column": np.asfortranarray(np.eye(2))}

    back = pickles.loads(pickle.dumps(content, protocol=protocol), "here")

    assert np.array_equal(back[b"data"], content[b"data"])
    assert np.array_equal(back[b"column"], np.eye(2))


def test_a_pickle_of_python_2_and_an_old_numpy_is_read():
    """As the originals begin: str as bytes, and numpy.core, which newer versions call numpy._core."""
    old = (
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x02\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89U\x04\x01\x02\x03\x04tbs."
    )

    assert pickles.loads(old, "data_batch_1")[b"data"].tolist() == [[1, 2], [3, 4]]


class Program:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (os.system, ("touch ran",)),
        (eval, ("open('ran', 'w')",)),
        (np.load, ("x.npy",)),
        (np.fromfile, ("x",)),
        (getattr, (str, "join")),
        (np.dtype, ("O",)),
        (codecs.encode, ("x", "rot13")),
    ],
)
def test_a_pickle_that_holds_code_is_refused_and_nothing_runs(function, arguments):
    content = pickle.dumps({b"data": Program(function, *arguments)}, protocol=2)

    with pytest.raises(
        DataDamaged, match=r"data_batch_1: expected a pickle of arrays and plain values, found one that"
    ):
        pickles.loads(content, "data_batch_1")

    assert not Path("ran").exists()


@pytest.mark.parametrize("cut", [0, 1, 10, 100, -1])
def test_a_pickle_that_breaks_off_is_refused(cut):
    with pytest.raises(DataDamaged, match=r"a whole pickle"):
        pickles.loads(pickled(0)[:cut], "data_batch_1")


def test_an_archive_without_one_of_the_batches_is_refused(tmp_path):
    tar = tar_of(tmp_path / "all.tar.gz", cifar.BINARY[:-1], records)

    with pytest.raises(DataDamaged, match=r"found none of the name test_batch.bin"):
        cifar.read_archive([tar], names=cifar.BINARY, decode=cifar.binary, records=RECORDS)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.DIRTYPE])
def test_a_link_in_place_of_a_batch_is_not_followed(tmp_path, kind):
    tar = tar_of(tmp_path / "all.tar.gz", cifar.BINARY, records, kind)

    with pytest.raises(DataDamaged, match=r"found 0"):
        cifar.read_archive([tar], names=cifar.BINARY, decode=cifar.binary, records=RECORDS)


@pytest.mark.parametrize(
    "spoil", [lambda b: b[:1000], lambda b: b"<html>", lambda b: b[:50] + b"\0" * 50 + b[100:]]
)
def test_a_damaged_archive_is_refused(tmp_path, spoil):
    tar = tar_of(tmp_path / "all.tar.gz", cifar.BINARY, records)
    tar.write_bytes(spoil(tar.read_bytes()))

    with pytest.raises(DataDamaged, match=r"all.tar.gz: expected a whole tar.gz archive"):
        cifar.read_archive([tar], names=cifar.BINARY, decode=cifar.binary, records=RECORDS)


def test_nothing_of_an_archive_is_written_to_disk(tmp_path):
    (tmp_path / "work").mkdir()
    tar = tar_of(tmp_path / "all.tar.gz", ("../../slipped", *cifar.BINARY), lambda b: records(b % 6))
    read = partial(cifar.read_archive, names=cifar.BINARY, decode=cifar.binary, records=RECORDS)

    read([tar])

    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["all.tar.gz"]
