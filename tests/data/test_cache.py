"""Our own copy is whole, cheap to open, and never in the way."""

import os
import warnings

import numpy as np
import pytest
import torch

from pluribus.data import cache
from pluribus.data.dataset import from_tensors, measured


@pytest.fixture
def dataset():
    inputs = torch.arange(24, dtype=torch.uint8).reshape(4, 1, 2, 3)
    writers = torch.tensor([3, 3, 4, 4])
    return from_tensors(
        "small",
        inputs,
        torch.tensor([0, 1, 1, 0]),
        classes=("a", "b"),
        official=3,
        groups={"writer": writers},
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "original"
    path.write_text("one")
    return path


def copies(tmp_path):
    return list(tmp_path.rglob("meta.json"))


def test_the_copy_holds_what_the_dataset_held(dataset, file):
    copy = cache.keep(dataset, cache.stamp([file]))

    for opened in (copy, cache.of_files("small", cache.stamp([file])), cache.latest("small")):
        assert torch.equal(opened.inputs, dataset.inputs)
        assert torch.equal(opened.labels, dataset.labels)
        assert torch.equal(opened.groups["writer"], dataset.groups["writer"])
        assert (opened.name, opened.classes, opened.official) == ("small", ("a", "b"), 3)
        assert opened.digest == dataset.digest
        assert opened.statistics == measured(dataset.inputs, 3)


def test_the_copy_is_mapped_and_writing_to_it_does_not_reach_the_disk(dataset, file):
    copy = cache.keep(dataset, cache.stamp([file]))

    copy.inputs.zero_()

    assert torch.equal(cache.latest("small").inputs, dataset.inputs)


def test_a_file_that_changed_is_not_known_any_more_even_if_size_and_date_are_the_same(dataset, file):
    cache.keep(dataset, cache.stamp([file]))
    before = file.stat()

    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert cache.of_files("small", cache.stamp([file])) is None


def test_equal_contents_from_two_places_are_kept_once(dataset, file, tmp_path):
    other = tmp_path / "other"
    other.write_text("one")

    cache.keep(dataset, cache.stamp([file]))
    cache.keep(dataset, cache.stamp([other]))

    assert len(copies(tmp_path)) == 1
    assert (
        cache.of_files("small", cache.stamp([file])).digest
        == cache.of_files("small", cache.stamp([other])).digest
    )


def spoil(path):
    """Cut a file in the middle."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("name", ["inputs.npy", "labels.npy", "group-writer.npy", "meta.json"])
@pytest.mark.parametrize("harm", [spoil, lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_a_damaged_copy_is_made_anew(dataset, file, tmp_path, name, harm):
    cache.keep(dataset, cache.stamp([file]))

    harm(next(tmp_path.rglob(name)))

    assert cache.of_files("small", cache.stamp([file])) is None
    assert cache.latest("small") is None
    assert torch.equal(cache.keep(dataset, cache.stamp([file])).inputs, dataset.inputs)
    assert torch.equal(
        cache.of_files("small", cache.stamp([file])).groups["writer"], dataset.groups["writer"]
    )


def test_a_pickle_in_place_of_an_array_is_not_opened(dataset, file, tmp_path):
    cache.keep(dataset, cache.stamp([file]))
    np.save(next(tmp_path.rglob("labels.npy")), np.array([print], dtype=object), allow_pickle=True)

    assert cache.latest("small") is None


def test_what_a_killed_process_left_is_never_opened_and_swept_away(dataset, file, tmp_path):
    cache.keep(dataset, cache.stamp([file]))
    left = cache.home("small") / "unfinished-1234"
    (cache.home("small") / dataset.digest[:16]).rename(left)

    assert cache.latest("small") is None
    cache.keep(dataset, cache.stamp([file]))

    assert not left.exists()


def test_a_copy_that_fails_midway_leaves_nothing(dataset, file, tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "flush", full)

    with pytest.warns(UserWarning, match="small stays in memory: .*No space left on device"):
        kept = cache.keep(dataset, cache.stamp([file]))

    assert torch.equal(kept.inputs, dataset.inputs)
    assert not list(tmp_path.rglob("*.npy"))


def test_where_no_copy_can_be_written_the_data_stay_in_memory_and_it_is_said(dataset, file, tmp_path):
    (tmp_path / "cache").touch()

    with pytest.warns(UserWarning, match=r"stays in memory: .*cache cannot be written .*\$PLURIBUS_CACHE"):
        kept = cache.keep(dataset, cache.stamp([file]))

    assert kept.digest == dataset.digest
    assert kept.statistics == measured(dataset.inputs, 3)


def test_the_newest_copy_counts_where_there_are_two(dataset, file, tmp_path):
    newer = from_tensors("small", dataset.inputs + 1, dataset.labels, classes=("a", "b"), official=3)
    cache.keep(dataset, cache.stamp([file]))
    cache.keep(newer, cache.stamp([file]))
    old, new = (cache.home("small") / each.digest[:16] for each in (dataset, newer))
    os.utime(old, (1000, 1000))
    os.utime(new, (2000, 2000))

    assert cache.latest("small").digest == newer.digest


def test_no_warning_comes_from_opening_a_copy(dataset, file):
    cache.keep(dataset, cache.stamp([file]))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.latest("small")
