"""Fetching by processes that know nothing of each other: two at once, and one after another was killed."""

import os
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace
from hashlib import md5

import numpy as np
import pytest

from pluribus.data import idx
from pluribus.data.download import CHUNK
from pluribus.data.entry import Delivery, File, Form, Parcel

CONTENT = np.random.default_rng(0).bytes(4 * CHUNK + 17)
FETCH = "import pickle, sys; from pluribus.data import loading; loading.fetch(pickle.load(sys.stdin.buffer))"


def fetching(entry, said):
    """A process of its own that fetches the entry, and tells what it has to tell."""
    process = subprocess.Popen([sys.executable, "-c", FETCH], stdin=subprocess.PIPE, stderr=said)
    process.stdin.write(pickle.dumps(entry))
    process.stdin.close()
    return process


@pytest.fixture
def large(tiny, serve):
    """An entry of one file that is larger than what is written at a time, and its server."""

    def make(answer):
        server = serve(answer)
        sum_ = md5(CONTENT).hexdigest()
        parcel = Parcel("large", len(CONTENT), sum_, (f"{server.url}/large",))
        entry = replace(
            tiny.entry,
            forms=(Form((File("large", sum_),), ("Tiny/raw",), idx.read),),
            deliveries=(Delivery("Tiny/raw", (parcel,)),),
        )
        return entry, server

    return make


def what_is_kept(folder):
    """Each file below the folder that is no lock, and its length."""
    return {p.name: p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"}


def test_two_processes_at_once_fetch_once(large, tmp_path):
    somebody_waits = threading.Event()

    def answer(request):
        somebody_waits.wait(30)
        request.part(CONTENT)

    entry, server = large(answer)
    heard, said = os.pipe()
    processes = [fetching(entry, said) for _ in range(2)]
    os.close(said)
    with os.fdopen(heard) as lines:
        waited = []
        for line in lines:
            if "waiting for another process to be done with tiny" in line:
                waited.append(line)
                somebody_waits.set()

    assert [process.wait() for process in processes] == [0, 0]
    assert len(waited) == 1
    assert server.asked == [("large", None)]
    assert what_is_kept(tmp_path / "cache") == {"large": len(CONTENT)}


def test_what_a_killed_process_had_fetched_is_not_fetched_again(large, tmp_path):
    killed = threading.Event()

    def answer(request):
        if request.headers.get("Range"):
            return request.part(CONTENT)
        request.send_response(200)
        request.send_header("Content-Length", str(len(CONTENT)))
        request.end_headers()
        request.wfile.write(CONTENT[: 3 * CHUNK])
        request.wfile.flush()
        return killed.wait(30)

    entry, server = large(answer)
    first = fetching(entry, subprocess.DEVNULL)
    while what_is_kept(tmp_path / "cache") != {"large.part": 3 * CHUNK} and first.poll() is None:
        time.sleep(0.01)
    first.kill()
    first.wait()
    killed.set()

    second = fetching(entry, subprocess.DEVNULL)

    assert second.wait() == 0
    assert server.asked == [("large", None), ("large", f"bytes={3 * CHUNK}-")]
    (path,) = (tmp_path / "cache").rglob("large")
    assert path.read_bytes() == CONTENT
    assert what_is_kept(tmp_path / "cache") == {"large": len(CONTENT)}
