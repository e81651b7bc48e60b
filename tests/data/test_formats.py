"""Small files in the exact formats of CIFAR-100, EMNIST, QMNIST, USPS, SVHN, MNIST-M and FEMNIST."""

import bz2
import gzip
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from data.images import noise, picture, put, tar_of, zip_of
from pluribus import data
from pluribus.data import cifar100, digit_domains, emnist, femnist, idx, loading, mat, mnist_m, usps, writers
from pluribus.data.division import divide
from pluribus.errors import DataDamaged, DataNotFound

NUMBERS = np.random.default_rng(4)


# CIFAR-100 --------------------------------------------------------------------------------------------

IMAGES = NUMBERS.integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)
FINE, COARSE = np.array([99, 0, 3, 7, 50]), np.array([19, 4, 8, 14, 16])
BATCHES = (slice(0, 3), slice(3, 5))


def as_binary(batch):
    """Coarse label, fine label, then red, green and blue."""
    columns = (COARSE[batch][:, None], FINE[batch][:, None], IMAGES[batch].reshape(-1, 3072))
    return np.concatenate(columns, axis=1).astype(np.uint8).tobytes()


def as_python(batch, **other):
    content = {
        b"data": IMAGES[batch].reshape(-1, 3072),
        b"fine_labels": FINE[batch].tolist(),
        b"coarse_labels": COARSE[batch].tolist(),
        b"filenames": [b"a.png"],
        **{name.encode(): value for name, value in other.items()},
    }
    return pickle.dumps(content, protocol=2)


@pytest.mark.parametrize(
    ("names", "write", "decode"),
    [(cifar100.BINARY, as_binary, cifar100.binary), (cifar100.PYTHON, as_python, cifar100.python)],
)
@pytest.mark.parametrize("level", ["fine", "coarse"])
def test_cifar100_has_both_labels_loose_and_packed(tmp_path, names, write, decode, level):
    files = {name: write(batch) for name, batch in zip(names, BATCHES, strict=True)}
    put(tmp_path, files)
    tar_of(tmp_path / "all.tar.gz", {f"cifar-100/{name}": content for name, content in files.items()})
    how = {"decode": decode, "level": level, "sizes": (3, 2)}

    loose = cifar100.read_files([tmp_path / name for name in names], **how)
    packed = cifar100.read_archive([tmp_path / "all.tar.gz"], names=names, **how)

    for arrays in (loose, packed):
        other = arrays.groups["superclass" if level == "fine" else "subclass"]
        assert np.array_equal(arrays.inputs, IMAGES)
        assert arrays.labels.tolist() == (FINE if level == "fine" else COARSE).tolist()
        assert other.tolist() == (COARSE if level == "fine" else FINE).tolist()
        assert arrays.official == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (as_binary(slice(0, 2)), "9222 bytes"),
        (as_python(BATCHES[0], fine_labels=[1, 2]), "'fine_labels' to be a list of 3"),
        (as_python(BATCHES[0], coarse_labels=[1, 2, 20]), "label 20 in record 2"),
        (as_python(BATCHES[0], data="text"), "found str"),
    ],
)
def test_a_batch_of_cifar100_has_its_exact_form(content, says):
    decode = cifar100.python if content[:1] == b"\x80" else cifar100.binary

    with pytest.raises(DataDamaged, match=says):
        decode(content, "train", 3)


def test_the_classes_of_cifar100_are_in_the_order_of_their_numbers():
    assert list(cifar100.FINE) == sorted(cifar100.FINE)
    assert (len(cifar100.FINE), cifar100.FINE[53], cifar100.COARSE[11]) == (
        100,
        "orange",
        "large_omnivores_and_herbivores",
    )


# EMNIST -----------------------------------------------------------------------------------------------


def emnist_files(write_idx, folder, split, labels):
    """The four files of a division; the images lie on their side, as NIST's do."""
    upright = NUMBERS.integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
    parts = {"train": slice(0, -1), "test": slice(-1, None)}
    for part, rows in parts.items():
        stem = f"emnist-{split}-{part}"
        write_idx(folder / f"{stem}-images-idx3-ubyte.gz", upright[rows].transpose(0, 2, 1))
        write_idx(folder / f"{stem}-labels-idx1-ubyte.gz", np.array(labels)[rows])
    return upright


@pytest.mark.parametrize(("split", "labels"), [("letters", [1, 26, 2]), ("balanced", [0, 46, 10])])
def test_emnist_stands_upright_and_counts_from_zero_loose_and_packed(write_idx, tmp_path, split, labels):
    upright = emnist_files(write_idx, tmp_path / "raw", split, labels)
    files = {f"gzip/{path.name}": path.read_bytes() for path in (tmp_path / "raw").iterdir()}
    zip_of(tmp_path / "gzip.zip", files)
    paths = [tmp_path / "raw" / f"emnist-{split}-{name}-ubyte.gz" for name in emnist.NAMES]

    loose = emnist.read(paths, split=split)
    packed = emnist.read_archive([tmp_path / "gzip.zip"], split=split)

    for arrays in (loose, packed):
        assert np.array_equal(arrays.inputs[:, 0], upright)
        assert arrays.labels.tolist() == [y - (split == "letters") for y in labels]
        assert arrays.official == 2


def test_a_letter_that_is_no_class_is_refused(write_idx, tmp_path):
    emnist_files(write_idx, tmp_path, "letters", [1, 0, 2])
    paths = [tmp_path / f"emnist-letters-{name}-ubyte.gz" for name in emnist.NAMES]

    with pytest.raises(DataDamaged, match=r"labels from 1 to 26, found label 0 at row 1"):
        emnist.read(paths, split="letters")


def test_the_classes_of_emnist_are_characters():
    classes = {name: data.entry(f"emnist-{name}").classes for name in emnist.CLASSES}

    assert "".join(classes["byclass"]) == "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert classes["balanced"][36:] == tuple("abdefghnqrt")
    assert data.entry("emnist") is data.DATASETS["emnist-balanced"]


def test_an_archive_of_another_emnist_is_refused(tmp_path):
    zip_of(tmp_path / "gzip.zip", {"gzip/readme.txt": b""})

    with pytest.raises(DataDamaged, match="one without emnist-digits-train-images"):
        emnist.read_archive([tmp_path / "gzip.zip"], split="digits")


# MNIST by writer --------------------------------------------------------------------------------------


def qmnist(rows, columns=8, magic=0x0C02):
    """A label file: magic number, rows, columns, whole numbers of 32 bits, the highest byte first."""
    table = np.zeros((len(rows), columns), ">i4")
    table[:, [0, 2]] = rows
    return gzip.compress(np.array([magic, *table.shape], ">i4").tobytes() + table.tobytes(), mtime=0)


def qmnist_files(folder, digits):
    """Train: two by writer 2149, one by 12; test: two by writer 7, and one more than MNIST has."""
    train = [(digits[0], 2149), (digits[1], 12), (digits[2], 2149)]
    test = [(digits[3], 7), (digits[4], 7), (9, 99)]
    return put(
        folder, {f"{name}.gz": qmnist(rows) for name, rows in zip(writers.NAMES, (train, test), strict=True)}
    )


def test_the_writers_of_mnist_are_those_of_its_rows(tmp_path):
    folder = qmnist_files(tmp_path, [5, 0, 4, 7, 2])

    arrays = writers.read([folder / f"{name}.gz" for name in writers.NAMES], train=3, test=2)

    assert arrays.labels.tolist() == [5, 0, 4, 7, 2]
    assert arrays.groups["writer"].tolist() == [2149, 12, 2149, 7, 7]


def test_mnist_and_the_writers_may_lie_apart_and_are_joined(write_idx, tmp_path, monkeypatch):
    images = NUMBERS.integers(0, 256, (5, 28, 28))
    digits = np.array([5, 0, 4, 7, 2])
    for name, array in zip(idx.NAMES, (images[:3], digits[:3], images[3:], digits[3:]), strict=True):
        write_idx(tmp_path / "one" / "MNIST" / "raw" / name, array)
    qmnist_files(tmp_path / "two" / "QMNIST" / "raw", digits)
    entry = shrunk(data.entry("mnist-writers"), lambda paths: writers.read(paths, train=3, test=2))
    monkeypatch.setenv("PLURIBUS_DATA", f"{tmp_path / 'one'}:{tmp_path / 'two'}")

    dataset = loading.load(entry, download=False)
    division = divide(dataset, "natural:writer", test=0.5, pool="train")

    assert np.array_equal(dataset.inputs[:, 0], images)
    assert dataset.groups["writer"].tolist() == [2149, 12, 2149, 7, 7]
    assert [split.rows.tolist() for split in division.clients.values()] in ([[1], [0, 2]], [[1], [2, 0]])


def shrunk(entry, read):
    """The entry of MNIST by writer for five images, whatever their sums."""
    parts = []
    for part in entry.forms[0].parts:
        form = part.forms[0]
        files = tuple(replace(file, md5="") for file in form.files)
        reader = read if part.name == "qmnist-labels" else form.read
        parts.append(replace(part, train=3, test=2, forms=(replace(form, files=files, read=reader),)))
    return replace(entry, train=3, test=2, forms=(replace(entry.forms[0], parts=tuple(parts)),))


def test_labels_of_other_images_are_refused(write_idx, tmp_path, monkeypatch):
    images = NUMBERS.integers(0, 256, (5, 28, 28))
    for name, array in zip(idx.NAMES, (images[:3], [1, 2, 3], images[3:], [4, 5]), strict=True):
        write_idx(tmp_path / "MNIST" / "raw" / name, array)
    qmnist_files(tmp_path / "QMNIST", [1, 2, 4, 4, 5])
    entry = shrunk(data.entry("mnist-writers"), lambda paths: writers.read(paths, train=3, test=2))

    with pytest.raises(DataDamaged, match="do not belong to these images"):
        loading.load(entry, tmp_path, download=False)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (qmnist([(1, 2)]), "found 1 x 8"),
        (qmnist([(1, 2)] * 3, columns=3), "found 3 x 3"),
        (qmnist([(1, 2)] * 3, magic=2049), "found a file that begins with"),
        (gzip.compress(gzip.decompress(qmnist([(1, 2)] * 3))[:-1], mtime=0), "it is cut off"),
        (b"<html>", "found a web page"),
    ],
)
def test_a_label_file_of_another_form_is_refused(tmp_path, content, says):
    put(tmp_path, {"labels.gz": content})

    with pytest.raises(DataDamaged, match=says):
        writers.table(tmp_path / "labels.gz", 3)


# USPS -------------------------------------------------------------------------------------------------


def usps_text(values, labels):
    """LIBSVM's lines: labels from 1, indices from 1, values from -1 to 1, zeros left out."""
    rows = (
        f"{y + 1} " + " ".join(f"{i + 1}:{v:.6g}" for i, v in enumerate(x) if v)
        for x, y in zip(values, labels, strict=True)
    )
    return bz2.compress("\n".join(rows).encode() + b"\n")


def usps_files(folder):
    values = np.where(NUMBERS.random((3, 256)) < 0.1, 0, NUMBERS.uniform(-1, 1, (3, 256)))
    put(folder, {"usps.bz2": usps_text(values[:2], [6, 0]), "usps.t.bz2": usps_text(values[2:], [9])})
    return values


def test_usps_as_text(tmp_path):
    values = usps_files(tmp_path)

    arrays = usps.read_text([tmp_path / "usps.bz2", tmp_path / "usps.t.bz2"])

    assert arrays.labels.tolist() == [6, 0, 9]
    assert arrays.official == 2
    assert np.abs(arrays.inputs.reshape(3, 256) - (values + 1) / 2 * 255).max() <= 0.501


def test_usps_is_the_same_as_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    values = usps_files(tmp_path)
    with h5py.File(tmp_path / "usps.h5", "w") as file:
        for part, rows, labels in (("train", slice(0, 2), [6, 0]), ("test", slice(2, 3), [9])):
            file[f"{part}/data"] = ((values[rows] + 1) / 2).astype(np.float32)
            file[f"{part}/target"] = np.array(labels, np.int32)

    text = usps.read_text([tmp_path / "usps.bz2", tmp_path / "usps.t.bz2"])
    binary = usps.read_hdf5([tmp_path / "usps.h5"])

    assert np.array_equal(text.inputs, binary.inputs)
    assert np.array_equal(text.labels, binary.labels)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (bz2.compress(b"1 257:0.5\n"), "line 1: index 257"),
        (bz2.compress(b"1 1:0.5\nx 2:1\n"), "line 2"),
        (bz2.compress(b"11 1:0.5\n"), "labels 0 to 10"),
        (bz2.compress(b"1 1:3\n"), "values from 0 to 1"),
        (bz2.compress(b"1 1:0.5\n")[:-8], "breaks off"),
        (b"<html>", "a bz2 file"),
    ],
)
def test_text_that_is_not_usps_is_refused(tmp_path, content, says):
    put(tmp_path, {"usps.bz2": content, "usps.t.bz2": bz2.compress(b"1 1:0.5\n")})

    with pytest.raises(DataDamaged, match=says):
        usps.read_text([tmp_path / "usps.bz2", tmp_path / "usps.t.bz2"])


@pytest.mark.parametrize("content", [b"", b"<html>", b"\x89HDF\r\n\x1a\n garbled"])
def test_what_is_no_hdf5_is_refused(tmp_path, content):
    pytest.importorskip("h5py")
    put(tmp_path, {"usps.h5": content})

    with pytest.raises(DataDamaged, match="an HDF5 file"):
        usps.read_hdf5([tmp_path / "usps.h5"])


# SVHN -------------------------------------------------------------------------------------------------


def test_svhn_has_its_last_axis_first_and_ten_for_zero(tmp_path):
    from scipy.io import savemat

    x = NUMBERS.integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    savemat(tmp_path / "train.mat", {"X": x[..., :3], "y": np.array([[10], [1], [9]], np.uint8)})
    savemat(tmp_path / "test.mat", {"X": x[..., 3:], "y": np.array([[5]], np.uint8)})

    arrays = mat.read([tmp_path / "train.mat", tmp_path / "test.mat"])

    assert arrays.labels.tolist() == [0, 1, 9, 5]
    assert arrays.official == 3
    assert arrays.inputs[2, 1, 7, 30] == x[7, 30, 1, 2]


@pytest.mark.parametrize("content", [{"y": [[1]]}, {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [[1]]}])
def test_a_matlab_file_without_images_or_labels_is_refused(tmp_path, content):
    from scipy.io import savemat

    savemat(tmp_path / "a.mat", content)

    with pytest.raises(DataDamaged, match=r"a.mat: expected [Xy] to be"):
        mat.pair(tmp_path / "a.mat")


@pytest.mark.parametrize("content", [b"", b"<html>", b"MATLAB 5.0 MAT-file" + bytes(200)])
def test_what_is_no_matlab_file_is_refused(tmp_path, content):
    put(tmp_path, {"a.mat": content})

    with pytest.raises(DataDamaged, match="a MATLAB file"):
        mat.pair(tmp_path / "a.mat")


# MNIST-M ----------------------------------------------------------------------------------------------


def mnist_m_files():
    """Two training images and one for testing, as the authors pack them."""
    return {
        **{f"mnist_m/mnist_m_train/{i:08}.png": noise(i, 32)[0] for i in range(2)},
        "mnist_m/mnist_m_test/00000000.png": noise(9, 32)[0],
        "mnist_m/mnist_m_train_labels.txt": b"00000001.png 7\n00000000.png 3\n",
        "mnist_m/mnist_m_test_labels.txt": b"00000000.png 1\n",
    }


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_m_is_as_its_lists_say(tmp_path, packed):
    if packed:
        tar_of(tmp_path / "root" / "mnist_m.tar.gz", mnist_m_files())
    else:
        put(tmp_path / "root", mnist_m_files())

    dataset = loading.load(mnist_m.MNIST_M, tmp_path / "root", download=False)

    assert dataset.labels.tolist() == [7, 3, 1]
    assert dataset.official == 2
    assert np.array_equal(dataset.inputs, np.stack([noise(i, 32)[1] for i in (1, 0, 9)]))


def test_mnist_m_on_sheets_is_cut_row_by_row(tmp_path):
    sheet = np.zeros((64, 96, 3), np.uint8)
    for i in range(5):
        sheet[32 * (i // 3) : 32 * (i // 3) + 32, 32 * (i % 3) : 32 * (i % 3) + 32] = i + 1
    about = {"n": 5, "cols": 3, "labels": [4, 3, 2, 1, 0]}
    put(
        tmp_path / "root" / "mnist_m",
        {"labels.json": json.dumps({"train": about, "test": about}).encode(), "train.webp": webp(sheet),
         "test.webp": webp(sheet)},
    )  # fmt: skip

    dataset = loading.load(mnist_m.MNIST_M, tmp_path / "root", download=False)

    assert dataset.inputs[:, 0, 31, 0].tolist() == [1, 2, 3, 4, 5] * 2
    assert dataset.labels.tolist() == [4, 3, 2, 1, 0] * 2
    assert dataset.official == 5


def webp(pixels):
    import io

    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "WEBP", lossless=True)
    return stream.getvalue()


def test_a_list_of_mnist_m_names_what_is_there(tmp_path):
    files = {**mnist_m_files(), "mnist_m/mnist_m_test_labels.txt": b"00000005.png 1\n"}
    put(tmp_path / "root", files)

    with pytest.raises(DataDamaged, match=r"names 00000005.png, which is not there"):
        loading.load(mnist_m.MNIST_M, tmp_path / "root", download=False)


# FEMNIST ----------------------------------------------------------------------------------------------


def leaf(users):
    """One of LEAF's files: users, num_samples, user_data."""
    data = {
        name: {"x": [[v] * 784 for v, _ in rows], "y": [y for _, y in rows]} for name, rows in users.items()
    }
    return json.dumps(
        {"users": list(users), "num_samples": [len(rows) for rows in users.values()], "user_data": data}
    ).encode()


def test_femnist_is_read_from_leafs_nested_json_by_writer(tmp_path):
    put(
        tmp_path / "root" / "femnist" / "data",
        {
            "train/all_data_1.json": leaf({"f2": [(0.5, 61)], "f1": [(0.0, 0), (1.0, 10)]}),
            "train/all_data_0.json": leaf({"f3": [(1.0, 36)], "f9": []}),
            "test/all_data_0.json": leaf({"f3": [(0.2, 1)], "f1": [(0.4, 2)]}),
        },
    )

    dataset = loading.load(femnist.FEMNIST, tmp_path / "root", download=False)

    assert dataset.labels.tolist() == [0, 10, 61, 36, 2, 1]
    assert dataset.groups["writer"].tolist() == [0, 0, 1, 2, 0, 2]
    assert dataset.inputs[:, 0, 3, 3].tolist() == [0, 255, 128, 255, 102, 51]
    assert (dataset.official, dataset.classes[36]) == (4, "a")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"<html>", "LEAF's users"),
        (b"{}", "LEAF's users"),
        (b'{"a":' + b"[" * 200_000, "LEAF's users"),
        (json.dumps({"users": ["a"], "user_data": {}}).encode(), "none of a"),
        (json.dumps({"users": ["a"], "user_data": {"a": {"x": [[0.0]], "y": [1]}}}).encode(), "784 numbers"),
        (leaf({"a": [(2.0, 1)]}), "values from 0 to 1"),
        (leaf({"a": [(1.0, 62)]}), "62 classes"),
    ],
)
def test_json_that_is_not_leafs_is_refused(tmp_path, content, says):
    put(tmp_path, {"a.json": content})

    with pytest.raises(DataDamaged, match=says):
        list(femnist.writers(tmp_path / "a.json"))


@pytest.mark.parametrize("packed", [True, False])
def test_nists_images_are_read_by_their_codes_and_no_image_twice(tmp_path, packed):
    files = {
        "by_class/4a/hsf_0/hsf_0_00000.png": picture(10, (128, 128), "L"),
        "by_class/4a/hsf_4/hsf_4_00000.png": picture(20, (128, 128), "L"),
        "by_class/61/hsf_1/hsf_1_00000.png": picture((30, 30, 30), (128, 128)),
        "by_class/30/train_30/train_30_00000.png": picture(40, (128, 128), "L"),
        "by_class/30/hsf_0.mit": b"hsf_0/hsf_0_00000.png\n",
    }
    if packed:
        zip_of(tmp_path / "root" / "by_class.zip", files)
    else:
        put(tmp_path / "root", files)

    dataset = loading.load(data.entry("femnist-128"), tmp_path / "root", download=False)

    assert dataset.shape == (1, 128, 128)
    assert [dataset.classes[y] for y in dataset.labels.tolist()] == ["J", "a", "J"]
    assert dataset.inputs[:, 0, 64, 64].tolist() == [10, 30, 20]
    assert dataset.official == 2


# digit domains ----------------------------------------------------------------------------------------


def test_digit_domains_have_what_is_there_at_one_size_in_colour(tmp_path):
    grey = np.full((3, 1, 28, 28), 200, np.uint8)
    colour = NUMBERS.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    arrays = {
        "mnist": idx.Arrays(grey, np.array([1, 2, 3]), 2),
        "svhn": idx.Arrays(colour, np.array([4, 5]), 1),
    }

    joined = digit_domains.join(arrays)

    assert joined.labels.tolist() == [1, 2, 4, 3, 5]
    assert joined.groups["domain"].tolist() == [0, 0, 3, 0, 3]
    assert joined.official == 3
    assert (joined.inputs[[0, 1, 3]] == 200).all()
    assert np.array_equal(joined.inputs[[2, 4]], colour)


def test_digit_domains_need_mnist_beside_what_we_render():
    with pytest.raises(DataNotFound, match="put the files of mnist, and of usps, mnist-m, svhn"):
        data.load("digit-domains", download=False)


def test_digit_domains_name_the_domains_that_are_here(write_idx, tmp_path):
    digits = np.arange(10)
    for name, shape in zip(idx.NAMES, ((10, 28, 28), None, (10, 28, 28), None), strict=True):
        write_idx(tmp_path / "MNIST" / "raw" / name, digits if shape is None else np.zeros(shape))
    put(tmp_path / "SVHN", {"train_32x32.mat": b"", "test_32x32.mat": b""})

    absent, here = data.describe("digit-domains"), data.describe("digit-domains", tmp_path)

    assert absent.summary == "11.6 MB to fetch"
    assert here.summary == "of mnist, svhn, rendered-digits"
    assert here.counts is None


def test_how_many_rows_there_are_is_known_once_they_were_read(tmp_path):
    put(tmp_path / "root" / "femnist" / "data", {
        "train/all_data_0.json": leaf({"f1": [(0.0, 0), (1.0, 10)]}),
        "test/all_data_0.json": leaf({"f1": [(0.4, 2)]}),
    })  # fmt: skip
    whole = loading.describe(femnist.FEMNIST)
    unread = loading.describe(femnist.FEMNIST, tmp_path / "root")
    loading.load(femnist.FEMNIST, tmp_path / "root", download=False)

    read = loading.describe(femnist.FEMNIST, tmp_path / "root")

    assert (whole.counts, unread.counts, read.counts) == ((805_263, 0), None, (2, 1))


# real -------------------------------------------------------------------------------------------------


@pytest.mark.real_data("mnist-writers")
def test_real_mnist_has_539_training_writers():
    dataset = data.load("mnist-writers", download=False)

    assert len(dataset.groups["writer"][:60_000].unique()) == 539
    assert dataset.digest != data.load("mnist", download=False).digest


@pytest.mark.real_data(writers.LABELS)
def test_the_real_label_files_of_qmnist_name_539_writers_who_wrote_for_training():
    arrays = loading.load(writers.LABELS, download=False)

    assert len(arrays.groups["writer"][:60_000].unique()) == 539
    assert np.bincount(arrays.labels[:60_000]).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip


@pytest.mark.real_data("usps")
def test_real_usps_has_its_published_size():
    dataset = data.load("usps", download=False)

    assert (dataset.official, len(dataset)) == (7_291, 9_298)
    assert np.bincount(dataset.labels[:7_291]).tolist() == [
        1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644,
    ]  # fmt: skip


@pytest.mark.real_data("mnist-m")
def test_real_mnist_m_has_mnists_classes():
    dataset = data.load("mnist-m", download=False)

    assert dataset.shape == (3, 32, 32)
    assert (0 < dataset.official <= 59_001, len(dataset) - dataset.official) == (True, 9_001)
    assert np.bincount(dataset.labels, minlength=10).min() > 0


@pytest.mark.real_data("mnist-m", "mnist")
def test_real_mnist_m_follows_mnists_order():
    dataset, mnist = data.load("mnist-m", download=False), data.load("mnist", download=False)

    train, test = dataset.official, len(dataset) - dataset.official
    assert dataset.labels[train:].tolist() == mnist.labels[60_000 : 60_000 + test].tolist()


@pytest.mark.real_data("mnist", "usps")
def test_real_digit_domains_hold_at_least_mnist_and_usps_and_what_we_render():
    dataset = data.load("digit-domains", download=False)

    counts = np.bincount(dataset.groups["domain"], minlength=6)
    assert counts[[0, 1, 5]].tolist() == [70_000, 9_298, 12_000]
