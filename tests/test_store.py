"""The store: the same values wherever they lie, and blocks that are used again when nobody reads them."""

import os

import pytest
import torch

from pluribus import store as stores
from pluribus.errors import RunError
from pluribus.state import digest
from pluribus.store import Store


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    monkeypatch.setattr(stores, "CHUNK", 4096)


def state(fill, numbers=100):
    return {"a": torch.full((numbers,), fill), "b": torch.full((3,), fill)}


def in_file(tensors):
    return any(t.untyped_storage().nbytes() % stores.ALIGN == 0 for t in tensors.values())


def test_without_a_limit_nothing_is_copied():
    tensors = state(1.0)

    assert Store().keep("a", tensors) is tensors


def test_what_is_past_the_room_lies_in_a_file():
    """412 bytes each, and room for two."""
    store = Store(room=900)

    held = [store.keep(k, state(float(k))) for k in range(3)]

    assert [in_file(tensors) for tensors in held] == [False, False, True]
    assert [digest(tensors) for tensors in held] == [digest(state(float(k))) for k in range(3)]
    assert len(store.chunks) == 1


def test_room_is_counted_by_owner():
    store = Store(room=900)
    store.keep("a", state(1.0))
    store.keep("a", state(2.0))
    store.keep("b", state(3.0))

    assert store.in_memory == 824
    assert in_file(store.keep("c", state(4.0)))

    store.forget(["a", "nobody"])

    assert not in_file(store.keep("c", state(4.0)))


def test_layout_types_and_names_stay_as_they_are():
    images = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    thing = {
        "slow": images, "window": images[:, 1:, ::2], "count": torch.tensor(7), "empty": torch.zeros(0, 4),
        "half": torch.randn(5).bfloat16(), "turned": torch.randn(3, 4).t(), "flag": torch.tensor([True]),
    }  # fmt: skip

    kept = Store(room=0).keep("a", thing)

    assert digest(kept) == digest(thing)
    assert list(kept) == list(thing)
    assert kept["slow"].stride() == images.stride()
    assert kept["turned"].stride() == (1, 4)
    assert not {t.untyped_storage().data_ptr() for t in kept.values() if t.numel()} & {images.data_ptr()}


def test_an_older_state_is_not_changed_by_a_newer_one():
    store = Store(room=0)
    old = store.keep("a", state(1.0))

    new = store.keep("a", state(2.0))

    assert digest(old) == digest(state(1.0))
    assert digest(new) == digest(state(2.0))


def test_a_block_is_used_again_only_when_no_tensor_reads_it():
    store = Store(room=0)
    first = store.keep("a", state(1.0))
    place, part = first["a"].data_ptr(), first["b"][1:]

    del first
    second = store.keep("a", state(2.0))
    assert second["a"].data_ptr() != place

    del part
    assert store.keep("a", state(3.0))["a"].data_ptr() == place


def test_a_state_larger_than_a_file_has_one_of_its_own():
    store = Store(room=0)
    store.keep("a", state(1.0))

    kept = store.keep("b", state(2.0, 5000))

    assert [len(chunk) for chunk in store.chunks] == [4096, 20_096]
    assert digest(kept) == digest(state(2.0, 5000))


def test_files_have_no_name(tmp_path):
    store = Store(room=0, folder=tmp_path)

    store.keep("a", state(1.0))

    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_an_error_that_says_so(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)

    with pytest.raises(RunError, match="has no room for 0.0 GB more of it: No space left"):
        Store(room=0, folder=tmp_path).keep("a", state(1.0))
