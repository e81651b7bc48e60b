"""A user's own data: folders, NumPy archives, datasets of PyTorch."""

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from data.images import noise, picture, put
from pluribus import data
from pluribus.data import cache, own, pictures
from pluribus.data.division import divide
from pluribus.errors import DataDamaged, DataError, DataNotFound, SettingError, UnknownName


def test_a_folder_of_classes_is_a_dataset_in_the_order_of_its_names(tmp_path):
    put(
        tmp_path / "mine",
        {
            "dog/b.png": picture((0, 0, 255)),
            "cat/a.jpg": picture((255, 0, 0), form="JPEG"),
            "cat/deeper/c.png": picture(9, mode="L"),
            "dog/notes.txt": b"not an image",
            ".hidden/x.png": b"",
        },
    )

    dataset = data.load(f"{tmp_path / 'mine'}:size=4")

    assert dataset.classes == ("cat", "dog")
    assert dataset.labels.tolist() == [0, 0, 1]
    assert (dataset.shape, dataset.official, dict(dataset.groups)) == ((3, 4, 4), 3, {})
    assert dataset.inputs[0, :, 0, 0].tolist() == [254, 0, 0]
    assert dataset.inputs[1, :, 2, 2].tolist() == [9, 9, 9]
    assert dataset.inputs[2, :, 3, 3].tolist() == [0, 0, 255]


def test_domains_above_classes_are_groups_and_a_domain_may_lack_a_class(tmp_path):
    put(
        tmp_path / "mine",
        {
            "photo/cat/1.png": picture((1, 1, 1)),
            "photo/dog/2.png": picture((2, 2, 2)),
            "sketch/dog/3.png": picture((3, 3, 3)),
            "sketch/dog/4.png": picture((4, 4, 4)),
        },
    )

    dataset = data.load(f"{tmp_path / 'mine'}:size=2")
    division = divide(dataset, "domain", test=0.5)

    assert dataset.classes == ("cat", "dog")
    assert dataset.groups["domain"].tolist() == [0, 0, 1, 1]
    assert dataset.labels.tolist() == [0, 1, 1, 1]
    assert [sorted(split.rows.tolist()) for split in division.clients.values()] == [[0, 1], [2, 3]]


def test_train_and_test_folders_are_the_official_parts(tmp_path):
    files = {"test/cat/0.png": 7, "train/cat/1.png": 8, "train/dog/2.png": 9}
    put(tmp_path / "mine", {name: picture((v, v, v)) for name, v in files.items()})

    dataset = data.load(f"{tmp_path / 'mine'}:size=2")

    assert dataset.official == 2
    assert dataset.inputs[:, 0, 0, 0].tolist() == [8, 9, 7]
    assert dataset.groups == {}


def test_a_link_that_leads_back_is_not_followed(tmp_path):
    folder = put(tmp_path / "mine", {"a/1.png": picture((1, 1, 1)), "b/2.png": picture((2, 2, 2))})
    (folder / "a" / "back").symlink_to(folder, target_is_directory=True)
    put(tmp_path / "elsewhere", {"3.png": picture((3, 3, 3))})
    (folder / "a" / "more").symlink_to(tmp_path / "elsewhere", target_is_directory=True)

    dataset = data.load(f"{folder}:size=2")

    assert dataset.inputs[:, 0, 0, 0].tolist() == [1, 3, 2]
    assert dataset.labels.tolist() == [0, 0, 1]


def test_a_grey_folder_may_stay_grey(tmp_path):
    put(tmp_path / "mine", {"a/1.png": picture((255, 255, 255)), "b/2.png": picture(3, mode="L")})

    dataset = data.load(f"{tmp_path / 'mine'}:size=2,channels=1")

    assert dataset.shape == (1, 2, 2)
    assert dataset.inputs[:, 0, 0, 0].tolist() == [255, 3]


def test_a_folder_is_decoded_once_and_again_when_a_file_or_the_size_changes(tmp_path, monkeypatch):
    folder = put(tmp_path / "mine", {"a/1.png": noise(1)[0], "b/2.png": noise(2)[0]})
    first = data.load(f"{folder}:size=8")
    put(folder, {"b/3.png": noise(3)[0]})
    second = data.load(f"{folder}:size=8")
    smaller = data.load(f"{folder}:size=4")
    monkeypatch.setattr("pluribus.data.pictures.decode", lambda *_: pytest.fail("decoded again"))

    third = data.load(f"{folder}:size=8")

    assert (len(first), len(second), smaller.shape) == (2, 3, (3, 4, 4))
    assert third.digest == second.digest != first.digest
    assert np.array_equal(third.inputs[2], noise(3)[1])


def test_a_file_that_changes_while_images_are_decoded_is_read_again(tmp_path, monkeypatch):
    folder = put(tmp_path / "mine", {"a/1.png": noise(1)[0], "b/2.png": noise(2)[0]})

    def meanwhile(*given, decode=pictures.decode):
        done = decode(*given)
        put(folder, {"a/1.png": noise(3)[0]})
        return done

    with monkeypatch.context() as patch:
        patch.setattr(pictures, "decode", meanwhile)
        data.load(f"{folder}:size=8")

    assert np.array_equal(data.load(f"{folder}:size=8").inputs[0], noise(3)[1])


def test_the_statistics_of_decoded_images_are_those_of_all_their_pixels(tmp_path):
    folder = put(tmp_path / "mine", {f"{'ab'[i % 2]}/{i}.png": noise(i)[0] for i in range(5)})

    scale = data.load(f"{folder}:size=8").scale("statistics")

    pixels = np.stack([noise(i)[1] for i in range(5)]).transpose(1, 0, 2, 3).reshape(3, -1) / 255
    assert scale.mean == pytest.approx(pixels.mean(1))
    assert scale.std == pytest.approx(pixels.std(1))


BROKEN = {
    "cut.jpg": lambda: noise(4, 64, "JPEG")[0][:900],
    "empty.png": lambda: b"",
    "page.png": lambda: b"<!DOCTYPE html><html>not found</html>",
    "bomb.png": lambda: picture(0, (9000, 9000), mode="1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_image_is_refused_by_its_name(tmp_path, name):
    put(tmp_path / "mine", {"a/1.png": picture((1, 1, 1)), f"b/{name}": BROKEN[name]()})

    with pytest.raises(DataDamaged, match=rf"1 of the 2 images .*\n    b/{name}: "):
        data.load(f"{tmp_path / 'mine'}:size=4")

    assert cache.latest(own.entry(f"{tmp_path / 'mine'}:size=4").name) is None


def test_what_is_wrong_with_an_image_is_said(tmp_path):
    put(tmp_path / "mine", {f"a/{name}": make() for name, make in BROKEN.items()})

    with pytest.raises(DataDamaged) as error:
        data.load(f"{tmp_path / 'mine'}:size=4")

    text = str(error.value)
    assert "9000 x 9000 pixels: a decompression bomb" in text
    assert "page.png: it is a web page" in text
    assert "empty.png: it is an empty file" in text
    assert "cut.jpg: it breaks off or is garbled" in text
    assert "size=4,broken=skip" in text


def test_broken_images_are_left_out_when_told_so(tmp_path):
    good = {"a/1.png": noise(1)[0], "b/3.png": noise(3)[0]}
    put(tmp_path / "mine", {**good, "a/2.png": b"", "b/4.png": b"x"})

    with pytest.warns(UserWarning, match="2 images are left out"):
        dataset = data.load(f"{tmp_path / 'mine'}:size=8,broken=skip")

    assert dataset.labels.tolist() == [0, 1]
    assert dataset.official == 2
    assert np.array_equal(dataset.inputs, np.stack([noise(1)[1], noise(3)[1]]))


def test_a_cropped_folder_is_the_same_each_time_and_no_plain_resize(tmp_path, monkeypatch):
    files = {
        "train/a/1.png": noise(1, 32)[0],
        "train/b/2.png": noise(2, 32)[0],
        "test/a/3.png": noise(3, 32)[0],
    }
    put(tmp_path / "mine", files)
    plain = data.load(f"{tmp_path / 'mine'}:size=16")
    first = data.load(f"{tmp_path / 'mine'}:size=16,crop=once")
    monkeypatch.setenv("PLURIBUS_CACHE", str(tmp_path / "another"))

    again = data.load(f"{tmp_path / 'mine'}:size=16,crop=once")

    assert again.digest == first.digest
    assert [torch.equal(a, b) for a, b in zip(plain.inputs, first.inputs, strict=True)] == [
        False,
        False,
        True,
    ]


def test_images_that_cannot_be_kept_are_decoded_into_memory(tmp_path, monkeypatch):
    put(tmp_path / "mine", {"a/1.png": noise(1)[0], "b/2.png": noise(2)[0]})
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("PLURIBUS_CACHE", str(tmp_path / "file"))

    with pytest.warns(UserWarning, match="stays in memory"):
        dataset = data.load(f"{tmp_path / 'mine'}:size=8")

    assert np.array_equal(dataset.inputs[0], noise(1)[1])


def test_a_folder_without_classes_or_without_images_is_refused(tmp_path):
    put(tmp_path / "flat", {"1.png": noise(1)[0]})
    put(tmp_path / "empty", {"a/readme.txt": b"", "b/readme.txt": b""})

    with pytest.raises(DataDamaged, match="one for each class"):
        data.load(str(tmp_path / "flat"))
    with pytest.raises(DataNotFound, match="holds no images"):
        data.load(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        ("size=0", SettingError),
        ("sise=4", UnknownName),
        ("broken=maybe", SettingError),
        ("channels=2", SettingError),
    ],
)
def test_a_setting_that_cannot_be_is_refused(tmp_path, rest, error):
    put(tmp_path / "mine", {"a/1.png": noise(1)[0]})

    with pytest.raises(error):
        data.entry(f"{tmp_path / 'mine'}:{rest}")


def test_a_folder_that_is_named_without_a_slash_is_told_how_to_be_named():
    put(Path("mine"), {"a/1.png": picture((1, 1, 1))})

    with pytest.raises(
        SettingError, match=r"no dataset 'mine:8'\n    the .* folder of this name is \./mine:8$"
    ):
        data.entry("mine:8")


def test_an_archive_without_labels_says_how_to_save_one(tmp_path):
    np.savez(tmp_path / "own.npz", images=X)

    with pytest.raises(DataDamaged, match=r"np\.savez\('mine\.npz', x=images, y=labels\)$"):
        data.load(str(tmp_path / "own.npz"))


def test_a_path_that_leads_nowhere_says_what_would_do():
    with pytest.raises(
        DataNotFound, match="there is nothing at .*missing'\n.*folder of images or an .npz file"
    ):
        data.entry("./missing")


def test_a_path_is_named_in_full_so_that_it_is_found_from_anywhere(tmp_path):
    put(tmp_path / "here" / "mine", {"a/1.png": noise(1)[0], "b/1.png": noise(1)[0]})

    assert data.entry("./mine").name == str(tmp_path / "here" / "mine")
    assert data.entry("./mine:96").name == f"{tmp_path / 'here' / 'mine'}:size=96"


# NumPy archives ---------------------------------------------------------------------------------------


def arrays(rows=6, shape=(5, 4, 3)):
    rng = np.random.default_rng(2)
    return rng.integers(0, 256, (rows, *shape), dtype=np.uint8), np.arange(rows) % 3


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_of_x_and_y_is_a_dataset(tmp_path, save):
    x, y = arrays()
    save(tmp_path / "mine.npz", x=x, y=y, writer=y + 4)

    dataset = data.load(str(tmp_path / "mine.npz"))

    assert np.array_equal(dataset.inputs, x.transpose(0, 3, 1, 2))
    assert dataset.labels.tolist() == y.tolist()
    assert dataset.groups["writer"].tolist() == (y + 4).tolist()
    assert (dataset.official, dataset.classes) == (6, ("0", "1", "2"))


def test_an_archive_may_have_a_test_set_and_names_of_classes(tmp_path):
    x, y = arrays(shape=(4, 4))
    np.savez(
        tmp_path / "mine.npz",
        x_train=x[:4],
        y_train=y[:4],
        x_test=x[4:],
        y_test=y[4:],
        classes=["a", "b", "c"],
    )

    dataset = data.load(str(tmp_path / "mine.npz"))

    assert (dataset.official, dataset.classes, dataset.shape) == (4, ("a", "b", "c"), (1, 4, 4))
    assert np.array_equal(dataset.inputs[:, 0], x)


def test_more_rows_than_are_read_at_a_time_stay_in_order(tmp_path):
    x = np.arange(600, dtype=np.int64).astype(np.uint8).reshape(600, 1, 1)
    np.savez(tmp_path / "mine.npz", x=x, y=np.arange(600) % 2)

    assert np.array_equal(data.load(str(tmp_path / "mine.npz")).inputs[:, 0], x)


def test_numbers_from_0_to_1_become_bytes(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.array([0, 0.5, 1]).reshape(3, 1, 1), y=[0, 1, 1])

    assert data.load(str(tmp_path / "mine.npz")).inputs.flatten().tolist() == [0, 128, 255]


X, Y = arrays()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"x": X}, "arrays x and y"),
        ({"x": X, "y": Y[:-1]}, "6 images, 5 labels"),
        ({"x": X, "y": Y - 1}, "whole numbers from 0"),
        ({"x": X, "y": Y / 2}, "whole numbers from 0"),
        ({"x": X[..., :2], "y": Y}, "1 or 3 channels"),
        ({"x": X - 100.0, "y": Y}, "numbers from 0 to 1"),
        ({"x": X, "y": Y, "other": Y[:2]}, "found other"),
        ({"x": np.asfortranarray(X), "y": Y}, "ascontiguousarray"),
    ],
)
def test_an_archive_that_does_not_fit_together_is_refused(tmp_path, content, says):
    np.savez(tmp_path / "mine.npz", **content)

    with pytest.raises(DataError, match=says):
        data.load(str(tmp_path / "mine.npz"))


class Program:
    def __reduce__(self):
        return open, ("ran", "w")


def test_an_archive_that_holds_code_is_refused_and_nothing_runs(tmp_path):
    np.savez(tmp_path / "mine.npz", x=X, y=Y, z=np.array([Program()], dtype=object))

    with pytest.raises(DataDamaged, match="'z' to hold numbers.*nothing of it was run"):
        data.load(str(tmp_path / "mine.npz"))

    assert not (tmp_path / "here" / "ran").exists()


def test_an_archive_that_is_none_or_breaks_off_or_announces_too_much_is_refused(tmp_path):
    np.savez(tmp_path / "cut.npz", x=X, y=Y)
    whole = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:200])
    (tmp_path / "page.npz").write_bytes(b"<html>")
    (tmp_path / "code.npz").write_bytes(pickle.dumps(Program()))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 50,)}
    )
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
        archive.writestr("y.npy", header.getvalue())

    for name in ("cut", "page", "code", "bomb"):
        with pytest.raises(DataDamaged, match=f"{name}.npz"):
            data.load(str(tmp_path / f"{name}.npz"))


def test_an_archive_that_unpacks_to_far_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("pluribus.data.files.LARGE", 1 << 20)
    np.savez_compressed(tmp_path / "zeros.npz", x=X, y=np.zeros(1 << 18, np.int64))

    with pytest.raises(DataDamaged, match=r"zeros.npz: expected at most 100 times .*a decompression bomb"):
        data.load(str(tmp_path / "zeros.npz"))


def test_one_image_that_would_fill_the_memory_is_refused(tmp_path):
    header = io.BytesIO()
    shape = (1, 3, 1 << 16, 1 << 13)
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())

    with pytest.raises(DataDamaged, match="expected 'x' to be an array of rows"):
        data.load(str(tmp_path / "huge.npz"))


# datasets of PyTorch ----------------------------------------------------------------------------------


class Pillows:
    classes = ("cat", "dog")

    def __init__(self, number, side=6):
        self.number, self.side = number, side

    def __len__(self):
        return self.number

    def __getitem__(self, row):
        return Image.new("RGB", (self.side + row % 2, self.side), (row, 0, 0)), row % 2


def test_a_dataset_of_pytorch_is_kept_under_a_name_that_is_then_enough():
    x, y = torch.rand(5, 1, 4, 4), torch.tensor([0, 1, 2, 1, 0])

    made = data.from_torch("my-own", TensorDataset(x[:3], y[:3]), TensorDataset(x[3:], y[3:]))
    loaded = data.load("my-own")

    assert loaded.digest == made.digest
    assert (loaded.official, loaded.shape, loaded.classes) == (3, (1, 4, 4), ("0", "1", "2"))
    assert torch.equal(loaded.inputs, (x * 255).round().byte())
    assert loaded.labels.tolist() == y.tolist()
    assert data.entry("my-own").shape == (1, 4, 4)


def test_images_of_pillow_are_brought_to_one_size():
    dataset = data.from_torch("pillows", Pillows(4), size=6)

    assert dataset.classes == ("cat", "dog")
    assert dataset.inputs[:, 0, 3, 3].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "train", "says"),
    [
        ("sizes", Pillows(4), "item 1 is"),
        ("normal", TensorDataset(torch.randn(4, 1, 4, 4) - 3, torch.zeros(4)), "leave normalising to us"),
        ("one", TensorDataset(torch.rand(4, 1, 4, 4)), "an image and its label"),
        ("none", Pillows(0), "no items"),
        ("a/b", Pillows(2), "letters, digits and hyphens"),
        ("mnist", Pillows(2), "catalogue"),
    ],
)
def test_a_dataset_that_cannot_be_kept_says_why(name, train, says):
    with pytest.raises((DataError, SettingError), match=says):
        data.from_torch(name, train)


@pytest.mark.parametrize(
    ("name", "short"),
    [("pacs", "pacs"), ("pacs:size=64", "pacs-size=64"), ("/home/me/my images:size=9", "my-images-size=9")],
)
def test_a_short_name_can_be_part_of_a_files_name(name, short):
    assert data.short(name) == short
