"""From files, from our copy, or from a server: the same dataset, or an error that says what would do."""

import gzip
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pluribus.data import cache, files, loading, lock
from pluribus.errors import DataDamaged, DataError, DataNotFound, DownloadFailed

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def unread(monkeypatch):
    """From now on, reading an original file is an error."""

    def opened(path, **_):
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr(files, "opened", opened)
    monkeypatch.setattr("pluribus.data.idx.opened", opened)


@pytest.fixture
def server(tiny, serve, deliver):
    """A server that has the tiny files, and the entry that names it."""
    packed = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in tiny.files.items()}
    running = serve(lambda request: request.part(packed[request.path.lstrip("/")]))
    entry = replace(tiny.entry, deliveries=(deliver(tiny.files, [running.url]),))
    return SimpleNamespace(entry=entry, asked=running.asked, url=running.url)


def test_the_files_are_read_once_and_then_our_copy_is_opened(tiny, put_files, tmp_path, monkeypatch):
    put_files(tiny.files)
    first = loading.load(tiny.entry, tmp_path / "data")
    unread(monkeypatch)

    second = loading.load(tiny.entry, tmp_path / "data")

    assert first.digest == second.digest
    assert np.array_equal(second.inputs[:6, 0], tiny.arrays[0])
    assert second.official == 6
    assert second.classes == ("a", "b", "c")


def test_packed_and_unpacked_files_are_the_same_dataset(tiny, put_files, tmp_path):
    put_files(tiny.files, tmp_path / "plain")
    put_files(
        {f"{name}.gz": gzip.compress(content, 1) for name, content in tiny.files.items()}, tmp_path / "packed"
    )

    plain, packed = (loading.load(tiny.entry, tmp_path / name) for name in ("plain", "packed"))

    assert plain.digest == packed.digest


def test_our_copy_serves_when_the_files_are_gone(tiny, put_files, tmp_path):
    folder = put_files(tiny.files)
    loading.load(tiny.entry, tmp_path / "data")

    for path in folder.iterdir():
        path.unlink()

    assert len(loading.load(tiny.entry, tmp_path / "data", download=False)) == 9


def test_a_file_that_is_damaged_later_is_noticed_in_spite_of_our_copy(tiny, put_files, tmp_path):
    folder = put_files(tiny.files)
    loading.load(tiny.entry, tmp_path / "data")

    (folder / IMAGES).write_bytes(tiny.files[IMAGES][:-1])

    with pytest.raises(DataDamaged, match="it is cut off"):
        loading.load(tiny.entry, tmp_path / "data")


def test_one_changed_byte_is_refused_with_both_checksums(tiny, put_files, tmp_path):
    folder = put_files(tiny.files)
    changed = bytearray(tiny.files[IMAGES])
    changed[-1] ^= 1
    (folder / IMAGES).write_bytes(changed)

    with pytest.raises(DataDamaged) as error:
        loading.load(tiny.entry, tmp_path / "data")

    assert str(folder / IMAGES) in str(error.value)
    assert files.md5_of(folder / IMAGES) in str(error.value)
    assert tiny.entry.forms[0].files[0].md5 in str(error.value)


def test_another_dataset_under_the_same_names_is_refused(tiny, write_idx, tmp_path):
    other = [np.ones((2, 4, 5)), [0, 1], np.ones((1, 4, 5)), [0]]
    for name, array in zip(tiny.files, other, strict=True):
        write_idx(tmp_path / "data" / name, array)

    with pytest.raises(
        DataDamaged, match=r"are not tiny: 2 \+ 1 images of 1x4x5; they should be 6 \+ 3 of 1x4x5"
    ):
        loading.load(tiny.entry, tmp_path / "data")


def test_without_files_and_without_download_the_error_says_what_to_put_where(tiny, put_files, tmp_path):
    folder = put_files({IMAGES: b""}, tmp_path / "data" / "tiny")

    with pytest.raises(DataNotFound) as error:
        loading.load(tiny.entry, tmp_path / "data", download=False)

    text = str(error.value)
    assert "there are no files of tiny; `pluribus data fetch tiny` downloads 0.0 MB" in text
    assert f"{folder} lacks {LABELS}, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte" in text
    assert f"looked in {tmp_path / 'data'}, {tmp_path / 'cache' / 'files'} (none), data (none)" in text
    assert "put train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz" in text
    assert "digits and mnist-5k need no download" in text


def test_without_a_network_the_error_names_the_sources_and_what_to_put_where(server, tiny, deliver, tmp_path):
    dead = ("http://127.0.0.1:1", "http://127.0.0.1:2")
    entry = replace(tiny.entry, deliveries=(deliver(tiny.files, dead),))

    with pytest.raises(DownloadFailed) as error:
        loading.load(entry)

    text = str(error.value)
    assert text.startswith("tiny could not be downloaded; tried\n    http://127.0.0.1:1/")
    assert text.count("no connection (Connection refused)") == 2
    assert "--data-dir" in text
    assert "digits and mnist-5k need no download: pip install 'pluribus[data]'" in text
    assert not list((tmp_path / "cache").rglob("*ubyte*"))


def test_what_is_not_here_is_downloaded_to_our_cache_and_only_once(server, tmp_path, capsys):
    first = loading.load(server.entry)
    second = loading.load(server.entry)

    assert first.digest == second.digest
    assert len(server.asked) == 4
    assert len(list((tmp_path / "cache" / "files" / "Tiny" / "raw").iterdir())) == 4
    assert not list((tmp_path / "here").iterdir())
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("tiny: fetching 0.0 MB\n")


def test_the_second_delivery_is_tried_when_the_first_fails(server, tiny, deliver):
    dead = deliver(tiny.files, ["http://127.0.0.1:1"])
    entry = replace(server.entry, deliveries=(dead, *server.entry.deliveries))

    assert len(loading.load(entry)) == 9


def test_fetch_puts_the_files_where_it_is_told(server, tmp_path):
    paths = loading.fetch(server.entry, tmp_path / "new")

    assert [path.parent for path in paths] == [tmp_path / "new" / "Tiny" / "raw"] * 4
    assert loading.where(server.entry, tmp_path / "new") == paths
    assert loading.where(server.entry) == ()


def test_fetch_does_nothing_where_the_files_are(server, tiny, put_files, tmp_path):
    put_files(tiny.files)

    paths = loading.fetch(server.entry, tmp_path / "data")

    assert len(paths) == 4
    assert server.asked == []


def test_fetch_takes_only_what_is_missing(server, tmp_path):
    loading.fetch(server.entry, tmp_path / "new")
    (tmp_path / "new" / "Tiny" / "raw" / f"{LABELS}.gz").unlink()

    loading.fetch(server.entry, tmp_path / "new")

    assert [name for name, _ in server.asked[4:]] == [f"{LABELS}.gz"]


def test_where_nothing_can_be_written_fetch_says_so(server, tmp_path):
    (tmp_path / "cache").touch()

    with pytest.raises(DataError, match=r"cannot be written: .*\n.*PLURIBUS_CACHE or --data-dir"):
        loading.fetch(server.entry)
    with pytest.raises(DataError, match="cannot be written"):
        loading.load(server.entry)


def test_too_small_a_disk_is_noticed_before_anything_is_fetched(server, monkeypatch):
    monkeypatch.setattr(loading.shutil, "disk_usage", lambda path: SimpleNamespace(free=10))

    with pytest.raises(DataError, match=r"has room for 0.0 MB"):
        loading.fetch(server.entry)

    assert server.asked == []


def test_verify_returns_the_files_that_are_right(tiny, put_files, tmp_path):
    put_files(tiny.files)

    assert len(loading.verify(tiny.entry, tmp_path / "data")) == 4


def test_verify_reads_the_files_again(tiny, put_files, tmp_path):
    folder = put_files(tiny.files)
    loading.load(tiny.entry, tmp_path / "data")
    before = (folder / LABELS).stat()
    changed = bytearray(tiny.files[LABELS])
    changed[-1] ^= 1
    (folder / LABELS).write_bytes(changed)
    os.utime(folder / LABELS, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(DataDamaged):
        loading.verify(tiny.entry, tmp_path / "data")


def test_verify_finds_a_byte_that_changed_in_our_copy_and_removes_the_copy(tiny, put_files, tmp_path):
    put_files(tiny.files)
    loading.load(tiny.entry, tmp_path / "data")
    inputs = next((tmp_path / "cache").rglob("inputs.npy"))
    inputs.write_bytes(inputs.read_bytes()[:-1] + b"\x07")

    with pytest.raises(DataDamaged, match="our copy of tiny"):
        loading.verify(tiny.entry, tmp_path / "data")

    assert cache.latest("tiny") is None
    assert loading.load(tiny.entry, tmp_path / "data").inputs[-1, -1, -1, -1] == tiny.arrays[2][-1, -1, -1]


def test_verify_needs_something_to_verify(tiny):
    with pytest.raises(DataNotFound):
        loading.verify(tiny.entry)


def test_a_description_says_where_it_is_or_what_it_costs(server, tiny, put_files, tmp_path):
    absent = loading.describe(server.entry)
    folder = put_files(tiny.files)
    present = loading.describe(server.entry, tmp_path / "data")
    loading.load(server.entry, tmp_path / "data")
    copied = loading.describe(server.entry)

    assert (absent.here, absent.summary) == (False, "0.0 MB to fetch")
    assert absent.download_bytes == server.entry.size > 0
    assert (present.here, present.summary, present.download_bytes) == (True, str(folder), 0)
    assert (copied.here, copied.files, copied.summary) == (True, (), "in our cache")


@pytest.fixture
def contended(tiny, serve, deliver, monkeypatch):
    """An entry whose server answers nobody before somebody else waits; what was asked, and what was noted.

    The lock is on an open file: two threads that open it, each for itself, stand for two processes.
    """
    packed = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in tiny.files.items()}
    noted, waits = [], threading.Event()
    monkeypatch.setattr(lock, "note", lambda text: (noted.append(text), waits.set()))

    def answer(request):
        waits.wait(10)
        request.part(packed[request.path.lstrip("/")])

    server = serve(answer)
    entry = replace(tiny.entry, deliveries=(deliver(tiny.files, [server.url]),))
    return SimpleNamespace(entry=entry, asked=server.asked, noted=noted)


def test_two_processes_at_once_fetch_once(contended):
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(loading.fetch, [contended.entry, contended.entry]))

    assert both[0] == both[1]
    assert len(contended.asked) == 4
    assert contended.noted == ["waiting for another process to be done with tiny"]


def test_two_datasets_out_of_one_archive_fetch_it_once(contended):
    """As cifar100 and cifar100-coarse, or the six of EMNIST: the second waits, and finds it there."""
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(loading.fetch, [contended.entry, replace(contended.entry, name="other")]))

    assert both[0] == both[1]
    assert len(contended.asked) == len(both[0]) == 4
    assert len(contended.noted) == 1


def test_a_packed_file_is_compared_before_anything_in_it_is_believed(tiny, put_files, tmp_path):
    """What reads MATLAB's and HDF5's files is large and old; a file that is no original never comes to it."""
    folder = put_files(tiny.files, tmp_path / "data" / "Tiny" / "raw")
    form = tiny.entry.forms[0]
    packed = tuple(replace(file, archive=True) for file in form.files)
    entry = replace(
        tiny.entry, forms=(replace(form, files=packed, read=lambda _: pytest.fail("it was read")),)
    )
    (folder / LABELS).write_bytes(tiny.files[LABELS][:-1])

    with pytest.raises(DataDamaged, match="is not the original of tiny: md5"):
        loading.load(entry, tmp_path / "data")


def test_sums_count_what_was_compared(tiny, put_files, tmp_path):
    put_files(tiny.files)
    form = tiny.entry.forms[0]
    unknown = (replace(form.files[0], md5=""), *form.files[1:])

    assert loading.sums(tiny.entry, tmp_path / "data") == (4, 0)
    assert loading.sums(replace(tiny.entry, forms=(replace(form, files=unknown),)), tmp_path / "data") == (
        3,
        1,
    )
    assert loading.sums(tiny.entry) == (0, 0)
