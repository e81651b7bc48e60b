"""Small data for the tests: idx files of nine images, their entry, and a web server that misbehaves."""

import gzip
import hashlib
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

from pluribus.data import idx, places
from pluribus.data.entry import Delivery, Entry, File, Form, Parcel


def written_idx(path, array, magic=None):
    """An idx file as the originals are: magic number, dimensions, bytes."""
    array = np.asarray(array, np.uint8)
    header = np.array([2048 + array.ndim if magic is None else magic, *array.shape], ">u4").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress if path.suffix == ".gz" else bytes
    path.write_bytes(packed(header + array.tobytes()))
    return path


@pytest.fixture
def write_idx():
    return written_idx


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch, request):
    """No test sees this machine's data, nor its cache; one that is about real data is left $PLURIBUS_DATA."""
    monkeypatch.setenv("PLURIBUS_CACHE", str(tmp_path / "cache"))
    if not request.node.get_closest_marker("real_data"):
        monkeypatch.delenv("PLURIBUS_DATA", raising=False)
    monkeypatch.setattr(places, "SYSTEM", tmp_path / "system")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def tiny(tmp_path):
    """An entry of 6 + 3 images of 4x5 in 3 classes, and `files`, the contents of its four files."""
    numbers = np.random.default_rng(5)
    arrays = [
        numbers.integers(0, 256, (6, 4, 5)),
        [0, 1, 2, 0, 1, 2],
        numbers.integers(0, 256, (3, 4, 5)),
        [2, 1, 0],
    ]
    drafts = (written_idx(tmp_path / "draft" / name, a) for name, a in zip(idx.NAMES, arrays, strict=True))
    files = {path.name: path.read_bytes() for path in drafts}
    form = Form(
        tuple(File(name, md5(files[name])) for name in files), ("Tiny/raw",), partial(idx.read, classes=3)
    )
    entry = Entry(
        "tiny", "Tiny", (1, 4, 5), 6, 3, ("a", "b", "c"), "none", "", "", (form,), (delivery(files, ()),)
    )
    return SimpleNamespace(entry=entry, files=files, arrays=arrays)


def delivery(files, sources):
    """How these files are sent, gzipped, by servers at these addresses."""
    packed = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()}
    return Delivery(
        "Tiny/raw",
        tuple(
            Parcel(name, len(content), md5(content), tuple(f"{source}/{name}" for source in sources))
            for name, content in packed.items()
        ),
    )


def md5(content):
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def put_files(tmp_path):
    """Put the files of a tiny entry into a folder."""

    def put(files, folder=tmp_path / "data" / "Tiny" / "raw"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder

    return put


class Handler(BaseHTTPRequestHandler):
    """Answers each path as the test says, and notes what was asked for."""

    def do_GET(self):
        self.server.asked.append((self.path.lstrip("/"), self.headers.get("Range")))
        self.server.answer(self)

    def send(self, body, *, status=200, **headers):
        self.send_response(status)
        for name, value in {"Content_Length": len(body), **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def part(self, content):
        """The rest of the content that the Range header asks for."""
        wanted = self.headers.get("Range")
        if not wanted:
            return self.send(content)
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        place = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self.send(content[start:], status=206, Content_Range=place)

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    """Start a server whose answers the given function writes."""
    servers = []

    def start(answer):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.answer, server.asked, server.daemon_threads = answer, [], True
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=partial(server.serve_forever, poll_interval=0.01), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def deliver():
    return delivery
