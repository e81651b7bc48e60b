"""Files are found where users have them."""

import os
from pathlib import Path

import pytest

from pluribus.data import places
from pluribus.errors import DataNotFound


@pytest.mark.parametrize("folder", ["Tiny/raw", "tiny", "raw", "."])
def test_the_usual_folders_are_known(tiny, put_files, tmp_path, folder):
    put_files(tiny.files, tmp_path / "data" / folder)

    found = places.find(tiny.entry, tmp_path / "data")

    assert [path.parent for path in found.paths] == [tmp_path / "data" / folder] * 4
    assert [path.name for path in found.paths] == list(tiny.files)


def test_every_place_is_looked_in_and_the_one_named_comes_first(tiny, put_files, tmp_path, monkeypatch):
    monkeypatch.setenv("PLURIBUS_DATA", f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    order = [
        tmp_path / "named",
        tmp_path / "one",
        tmp_path / "two",
        tmp_path / "cache" / "files",
        tmp_path / "here" / "data",
        tmp_path / "system",
    ]

    for root in reversed(order):
        put_files(tiny.files, root)
        found = places.find(tiny.entry, tmp_path / "named" if root == order[0] else None)

        assert found.paths[0].parent.resolve() == root


def test_some_of_the_files_are_not_enough(tiny, put_files, tmp_path):
    files = dict(tiny.files)
    del files["t10k-labels-idx1-ubyte"]
    folder = put_files(files, tmp_path / "data" / "tiny")

    assert places.find(tiny.entry, tmp_path / "data") is None
    assert places.gaps(tiny.entry, tmp_path / "data") == {folder: ["t10k-labels-idx1-ubyte"]}


def test_a_folder_of_the_name_of_a_file_is_not_the_file(tiny, put_files, tmp_path):
    folder = put_files(tiny.files, tmp_path / "data")
    (folder / "train-images-idx3-ubyte").unlink()
    (folder / "train-images-idx3-ubyte").mkdir()

    assert places.find(tiny.entry, tmp_path / "data") is None


def test_a_data_dir_that_does_not_exist_is_an_error(tiny, tmp_path):
    with pytest.raises(DataNotFound, match=r"--data-dir: '.*nowhere' does not exist"):
        places.find(tiny.entry, tmp_path / "nowhere")


def test_a_data_dir_that_is_a_file_is_an_error(tiny, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(DataNotFound, match=r"--data-dir: '.*file' is a file, not a folder"):
        places.find(tiny.entry, tmp_path / "file")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PLURIBUS_CACHE": "/mine", "XDG_CACHE_HOME": "/xdg"}, "/mine"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/pluribus"),
        ({"HOME": "/home/me"}, "/home/me/.cache/pluribus"),
    ],
)
def test_the_cache_is_where_the_user_or_the_system_wants_it(monkeypatch, environment, expected):
    monkeypatch.setattr(places.sys, "platform", "linux")
    for name in ("PLURIBUS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert places.cache() == Path(expected)
