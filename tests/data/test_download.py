"""A file arrives whole or not at all, whatever the server does."""

import gzip
import threading
import time
from pathlib import Path

import pytest

from pluribus.data import download as module
from pluribus.data.download import download
from pluribus.errors import DataError, DownloadFailed

CONTENT = bytes(range(256)) * 1000
NAME = "train-images.gz"


@pytest.fixture
def parcel(deliver):
    """The parcel of one file, from the servers named."""

    def make(*servers):
        return deliver({"train-images": CONTENT}, [server.url for server in servers]).parcels[0]

    return make


@pytest.fixture
def sent():
    """What a good server sends."""
    return gzip.compress(CONTENT, mtime=0)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 64)


def fetch(parcel, folder, **settings):
    """Download, and what was reported on the way."""
    reports = []
    path = download(parcel, folder, reports.append, **settings)
    return path, reports


def test_a_good_server_is_asked_once(serve, parcel, sent, tmp_path):
    server = serve(lambda request: request.part(sent))

    path, reports = fetch(parcel(server), tmp_path / "new" / "folder")

    assert path == tmp_path / "new" / "folder" / NAME
    assert path.read_bytes() == sent
    assert server.asked == [(NAME, None)]
    assert reports == sorted(reports)
    assert reports[-1] == len(sent)
    assert not list(tmp_path.rglob("*.part"))


def test_what_broke_off_is_resumed_in_the_same_download(serve, parcel, sent, tmp_path):
    def answer(request):
        if not request.headers.get("Range"):
            return request.send(sent[:100], Content_Length=len(sent))
        return request.part(sent)

    server = serve(answer)

    path, _ = fetch(parcel(server), tmp_path)

    assert path.read_bytes() == sent
    assert server.asked == [(NAME, None), (NAME, "bytes=100-")]


def test_what_a_killed_process_left_is_resumed(serve, parcel, sent, tmp_path):
    server = serve(lambda request: request.part(sent))
    (tmp_path / f"{NAME}.part").write_bytes(sent[:150])

    path, _ = fetch(parcel(server), tmp_path)

    assert path.read_bytes() == sent
    assert server.asked == [(NAME, "bytes=150-")]


def test_the_next_source_goes_on_where_the_first_gave_up(serve, parcel, sent, tmp_path):
    dying = serve(
        lambda request: request.send(b"" if request.headers.get("Range") else sent[:90], Content_Length=None)
    )
    good = serve(lambda request: request.part(sent))

    path, _ = fetch(parcel(dying, good), tmp_path)

    assert path.read_bytes() == sent
    assert good.asked == [(NAME, "bytes=90-")]


def test_a_server_that_ignores_range_sends_all_again(serve, parcel, sent, tmp_path):
    server = serve(lambda request: request.send(sent))
    (tmp_path / f"{NAME}.part").write_bytes(b"x" * 150)

    path, _ = fetch(parcel(server), tmp_path)

    assert path.read_bytes() == sent
    assert len(server.asked) == 1


def test_a_part_that_is_too_long_is_thrown_away(serve, parcel, sent, tmp_path):
    server = serve(lambda request: request.part(sent))
    (tmp_path / f"{NAME}.part").write_bytes(sent + b"x")

    path, _ = fetch(parcel(server), tmp_path)

    assert path.read_bytes() == sent
    assert server.asked == [(NAME, None)]


def test_a_part_whose_beginning_is_wrong_is_fetched_anew(serve, parcel, sent, tmp_path):
    server = serve(lambda request: request.part(sent))
    (tmp_path / f"{NAME}.part").write_bytes(b"x" * 150)

    path, _ = fetch(parcel(server), tmp_path)

    assert path.read_bytes() == sent
    assert server.asked == [(NAME, "bytes=150-"), (NAME, None)]


def test_a_server_that_cannot_resume_there_is_asked_from_zero(serve, parcel, sent, tmp_path):
    server = serve(
        lambda request: request.send(b"", status=416) if request.headers.get("Range") else request.part(sent)
    )
    (tmp_path / f"{NAME}.part").write_bytes(sent[:150])

    path, _ = fetch(parcel(server), tmp_path)

    assert path.read_bytes() == sent
    assert server.asked == [(NAME, "bytes=150-"), (NAME, None)]


WRONG = {
    "404": (lambda request, sent: request.send(b"gone", status=404), "answered 404 Not Found"),
    "500": (lambda request, sent: request.send(b"oh", status=500), "answered 500 Internal Server Error"),
    "a page, said": (
        lambda request, sent: request.send(b"<p>log in", Content_Type="text/html; charset=utf-8"),
        "sent a web page instead of the file",
    ),
    "a page, not said": (
        lambda request, sent: request.send(b"\n<!DOCTYPE html><html>log in", Content_Length=None),
        "sent a web page instead of the file",
    ),
    "too short": (lambda request, sent: request.send(sent[:-9]), "announced"),
    "too long": (lambda request, sent: request.send(sent + b"x"), "announced"),
    "too long, not said": (
        lambda request, sent: request.send(sent * 3, Content_Length=None),
        "sends more than the",
    ),
    "other contents": (lambda request, sent: request.send(b"x" * len(sent)), "sent a file of md5"),
    "always broken off": (
        lambda request, sent: (
            request.send(sent[:5], Content_Length=len(sent))
            if not request.headers.get("Range")
            else request.send(
                b"", status=206, Content_Range=f"bytes 5-{len(sent) - 1}/{len(sent)}", Content_Length=None
            )
        ),
        "broke off, after 5 of",
    ),
    "another place": (
        lambda request, sent: (
            request.send(sent[:5], Content_Length=len(sent))
            if not request.headers.get("Range")
            else request.send(
                sent[7:],
                status=206,
                Content_Range=f"bytes 7-{len(sent) - 1}/{len(sent)}",
                Content_Length=None,
            )
        ),
        "resumed at 'bytes 7-",
    ),
    "hangs up": (lambda request, sent: request.connection.close(), "broke off"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_source_that_does_wrong_is_named_and_the_next_one_is_asked(serve, parcel, sent, tmp_path, wrong):
    answer, says = WRONG[wrong]
    bad = serve(lambda request: answer(request, sent))
    good = serve(lambda request: request.part(sent))

    with pytest.raises(DownloadFailed) as error:
        download(parcel(bad), tmp_path / "alone", lambda _: None)
    path, _ = fetch(parcel(bad, good), tmp_path / "both")

    assert f"{bad.url}/{NAME}: " in str(error.value)
    assert says in str(error.value)
    assert not (tmp_path / "alone" / NAME).exists()
    assert path.read_bytes() == sent


def test_no_more_than_the_size_of_the_file_is_written(serve, parcel, sent, tmp_path):
    endless = serve(lambda request: request.send(sent * 100, Content_Length=None))

    with pytest.raises(DownloadFailed):
        download(parcel(endless), tmp_path, lambda _: None)

    assert sum(path.stat().st_size for path in tmp_path.rglob("*.part")) <= len(sent)


def test_a_server_that_falls_silent_is_given_up(serve, parcel, sent, tmp_path):
    done = threading.Event()
    silent = serve(lambda request: done.wait(5))
    began = time.monotonic()

    with pytest.raises(DownloadFailed, match="timed out"):
        download(parcel(silent), tmp_path, lambda _: None, timeout=0.1)

    done.set()
    assert time.monotonic() - began < 4


def test_a_server_that_is_not_there_is_no_connection(serve, parcel, tmp_path):
    server = serve(lambda request: None)
    server.shutdown()
    server.socket.close()

    with pytest.raises(DownloadFailed, match="no connection"):
        download(parcel(server), tmp_path, lambda _: None)


def test_a_full_disk_is_an_error_of_data_and_what_came_is_resumed(serve, parcel, sent, tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full to write to")
    server = serve(lambda request: request.part(sent))
    (tmp_path / f"{NAME}.part").symlink_to(full)

    with pytest.raises(DataError, match=r"\.part cannot be written: No space left on device"):
        download(parcel(server), tmp_path, lambda _: None)


def test_a_folder_that_cannot_be_made_is_an_error_of_data(serve, parcel, sent, tmp_path):
    server = serve(lambda request: request.part(sent))
    (tmp_path / "file").touch()

    with pytest.raises(DataError, match="cannot be written"):
        download(parcel(server), tmp_path / "file" / "below", lambda _: None)
