"""Whatever is wrong with what a user gives: a paragraph that says so, exit code 1, and nothing half-written.

Every case is a line of a table; its first word is the id under which `pytest -k` finds it.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import io
import json
import os
import pickle
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import typer.main
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pluribus import data, runs
from pluribus.cli import main
from pluribus.cli.program import program
from pluribus.data import idx, places
from pluribus.data.entry import Delivery, Parcel
from pluribus.settings import Settings

LINES = 6  # of a paragraph, at most
SMALL = "--data digits --clients 4 --model mlp:16 --rounds 4 --quiet"
PLURIBUS = (sys.executable, "-m", "pluribus")


# where a case takes place -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Desk:
    """A folder of its own with `mine`, a run that was interrupted, and `done`, one that is finished."""

    root: Path
    patch: pytest.MonkeyPatch
    held: list[int] = field(default_factory=list)  # open folders

    @property
    def here(self) -> Path:
        return self.root / "here"

    def seen(self) -> dict[str, str]:
        """Every file with its sum, and every folder but those of the cache; a lock says nothing."""
        paths = [path for path in self.root.rglob("*") if path.suffix != ".lock"]
        cache = self.root / "cache"
        files = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()}
        folders = {path: "folder" for path in paths if path.is_dir() and cache not in (path, *path.parents)}
        return {str(path.relative_to(self.root)): what for path, what in (files | folders).items()}


@dataclass(frozen=True)
class Said:
    """Exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """What is said from the error on; notes on the progress may stand before it."""
        return self.err[self.err.index("error: ") :] if "error: " in self.err else ""


def call(line: str) -> Said:
    """What this command line ends with, and says where."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(shlex.split(line))
    return Said(code, out.getvalue(), err.getvalue())


class PowerCut(runs.Listener):
    """The run ends without warning in its third round of four."""

    def passed(self, line: runs.Line) -> None:
        if line.round == 3:
            raise InterruptedError


@contextmanager
def nothing_of_this_machine(root: Path) -> Iterator[pytest.MonkeyPatch]:
    """No case sees this machine's data or its cache, or leaves anything outside its folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("here", "tmp", "cache"):
            (root / name).mkdir(exist_ok=True)
        patch.setenv("PLURIBUS_CACHE", str(root / "cache"))
        patch.delenv("PLURIBUS_DATA", raising=False)
        patch.setenv("no_proxy", "127.0.0.1")
        patch.setattr(places, "SYSTEM", root / "system")
        patch.setattr(tempfile, "tempdir", str(root / "tmp"))
        patch.chdir(root / "here")
        yield patch


@pytest.fixture(scope="module")
def stock(tmp_path_factory) -> Path:
    """What every desk is a copy of."""
    root = tmp_path_factory.mktemp("stock")
    small = Settings(method="fedper", data="digits", clients=4, model="mlp:16", rounds=4)
    with nothing_of_this_machine(root):
        runs.run(small, out="done")
        with pytest.raises(InterruptedError):
            runs.run(small, out="mine", listener=PowerCut())
    return root


@pytest.fixture
def desk(stock, tmp_path) -> Iterator[Desk]:
    shutil.copytree(stock, tmp_path, dirs_exist_ok=True)
    with nothing_of_this_machine(tmp_path) as patch:
        made = Desk(tmp_path, patch)
        yield made
    for handle in made.held:
        os.close(handle)


# what is wrong there ----------------------------------------------------------------------------------

Given = Callable[[Desk], object]


def nothing(desk: Desk) -> None: ...


def file(name: str, content: str | bytes = "") -> Given:
    """A file of this content."""

    def write(desk: Desk) -> None:
        path = desk.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def cut(pattern: str) -> Given:
    """These files lose their second half."""

    def halve(desk: Desk) -> None:
        for path in found(desk, pattern):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return halve


def gone(pattern: str) -> Given:
    return lambda desk: [path.unlink() for path in found(desk, pattern)]


def changed(name: str, old: str, new: str) -> Given:
    """Every `old` in this text is `new`."""

    def change(desk: Desk) -> None:
        text = (desk.here / name).read_text()
        assert old in text
        (desk.here / name).write_text(text.replace(old, new))

    return change


def longer(name: str, text: str) -> Given:
    """This text stands at the end of the file."""

    def add(desk: Desk) -> None:
        with (desk.here / name).open("a") as end:
            end.write(text)

    return add


def found(desk: Desk, pattern: str) -> list[Path]:
    paths = list(desk.here.glob(pattern))
    assert paths
    return paths


def both(*parts: Given) -> Given:
    return lambda desk: [part(desk) for part in parts]


def locked(desk: Desk) -> None:
    """Somebody else is at work in `mine`; the lock ends with the desk."""
    desk.held.append(os.open(desk.here / "mine", os.O_RDONLY))
    fcntl.flock(desk.held[-1], fcntl.LOCK_EX)


def idx_bytes(array: object, magic: int | None = None) -> bytes:
    values = np.asarray(array, np.uint8)
    header = np.array([2048 + values.ndim if magic is None else magic, *values.shape], ">u4")
    return header.tobytes() + values.tobytes()


IMAGES, LABELS = idx.NAMES[:2]
TINY = dict(zip(idx.NAMES, [idx_bytes(np.ones(s)) for s in ((6, 28, 28), 6, (3, 28, 28), 3)], strict=True))


def mnist(**broken: bytes) -> Given:
    """The four files of a small MNIST in `files`, with other images or labels."""
    content = TINY | {{"images": IMAGES, "labels": LABELS}[name]: value for name, value in broken.items()}
    return both(*(file(f"files/{name}", value) for name, value in content.items()))


def of_the_right_size(desk: Desk) -> None:
    """Files with the form of MNIST, and nothing in them."""
    for name, shape in zip(
        idx.NAMES, [(60_000, 28, 28), (60_000,), (10_000, 28, 28), (10_000,)], strict=True
    ):
        header = idx_bytes(np.empty((0,) * len(shape)))[:4] + np.array(shape, ">u4").tobytes()
        file(f"files/{name}", header)(desk)
        os.truncate(desk.here / "files" / name, len(header) + int(np.prod(shape)))


def batches(content: bytes, suffix: str = "") -> Given:
    """The six files of CIFAR-10, all the same."""
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    return both(*(file(f"files/{name}{suffix}", content) for name in names))


class Code:
    def __reduce__(self):
        return os.mkdir, ("pickled-code-was-run",)


def sent_from(address: str, content: bytes = b"") -> Given:
    """The source of MNIST is this address, where each file has as many bytes as this content."""

    def redirect(desk: Desk) -> None:
        entry = data.DATASETS["mnist"]
        parcels = [
            replace(parcel, urls=(address.format(desk.here),)) for parcel in entry.deliveries[0].parcels
        ]
        parcels = [Parcel(p.name, len(content) or p.size, p.md5, p.urls) for p in parcels]
        file("mirror", content)(desk)
        desk.patch.setitem(
            data.DATASETS, "mnist", replace(entry, deliveries=(Delivery("MNIST/raw", tuple(parcels)),))
        )

    return redirect


def little_room(desk: Desk) -> None:
    desk.patch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10**6, 10**6, 1000))


def cache_in_a_file(desk: Desk) -> None:
    file("plain")(desk)
    desk.patch.setenv("PLURIBUS_CACHE", str(desk.here / "plain" / "cache"))


def npz(**arrays: object) -> Given:
    """A file `own.npz` of these arrays."""

    def write(desk: Desk) -> None:
        np.savez(desk.here / "own.npz", **arrays)

    return write


PICTURES = np.ones((6, 8, 8), np.uint8)
DIGITS = np.arange(6) % 2
NO_NETWORK = sent_from("http://127.0.0.1:9/gone")
MNIST = "run fedavg --data mnist --data-dir files"
OWN = "run fedavg --data ./own.npz --model mlp:16 --rounds 1"


def settings_toml(text: str) -> Given:
    return file("settings.toml", text)


# the table --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A command line, patterns that the complaint matches in this order, and what is wrong before."""

    id: str
    line: str
    says: str
    given: Given = nothing


CASES = [
    # names
    Case("verb", "rnu fedavg", "no such command 'rnu'.* 'run'.*--help"),
    Case("verb-of-data", "data fetsch mnist", "no such command 'fetsch'.* 'fetch'"),
    Case("option", "run fedavg --rouds 3", "no such option: --rouds.*--rounds"),
    Case("option-without-value", "run fedavg --clients", "--clients.* requires an argument"),
    Case("argument-too-many", "run fedavg fedper", "unexpected extra argument.*fedper"),
    Case("argument-missing", "compare", "missing argument 'METHOD'"),
    Case("method", "run fedrap", "no method 'fedrap'; did you mean 'fedrep'.*there are: .*fedavg"),
    Case("method-empty", "run ''", "no method ''.*there are: .*fedavg"),
    Case("method-compared", "compare fedavg fedrap", "no method 'fedrap'; did you mean 'fedrep'"),
    Case("method-shown", "show fedrap", "'fedrap'; did you mean 'fedrep'"),
    Case(
        "data", "run fedavg --data fashion-minst", "no dataset 'fashion-minst'; did you mean 'fashion-mnist'"
    ),
    Case("data-of-models", "models --data cifar", "no dataset 'cifar'; did you mean 'cifar10'"),
    Case("data-where", "data where nothing", "no dataset 'nothing'.*there are: cifar10"),
    Case(
        "partition", "run fedavg --partition dirichle:1", "no partition 'dirichle'; did you mean 'dirichlet'"
    ),
    Case("model", "run fedavg --model convnte", "no model 'convnte'; did you mean 'convnet'"),
    Case("optimiser", "run fedavg --optimiser sdg", "no optimiser 'sdg'; did you mean 'sgd'.*adam, sgd"),
    Case("pool", "run fedavg --pool mixed", "no pool 'mixed'; did you mean 'mix'.*official, train"),
    Case("normalise", "run fedavg --normalise haf", "no normalise 'haf'; did you mean 'half'"),
    Case("statistics", "run fedavg --statistics avg", "no statistics 'avg'; did you mean 'average'"),
    Case("personal-on", "run fedavg --personal-on sent", "no personal_on 'sent'.*received, trained"),
    Case("last-batch", "run fedavg --last-batch kep", "no last_batch 'kep'; did you mean 'keep'"),
    Case("executor", "run fedavg --executor moon", "--executor.*'moon' is not one of .*'serial'"),
    Case("reading", "compare fedavg --reading first", "--reading.*'first' is not one of 'last'"),
    # settings of a method, a model, a partition
    Case("set-unknown", "run fedavg --set mu=0.1", "no setting of fedavg 'mu'.*there are: epochs"),
    Case("set-close", "run fedrep --set head_epoch=3", "'head_epoch'; did you mean 'head_epochs'"),
    Case("set-spelled", "run fedrep:head_epoch=3", "'head_epoch'; did you mean 'head_epochs'"),
    Case("set-without-value", "run fedprox --set mu", "set is 'mu'; it should be name=value, e.g."),
    Case("set-without-name", "run fedprox --set =3", "no setting of fedprox ''.*there are: epochs, mu"),
    Case("set-type", "run fedprox --set mu=strong", "mu is 'strong'; it should be"),
    Case("set-fraction", "run fedrep --set head_epochs=0.5", "head_epochs is '0.5'; it should be"),
    Case("set-negative", "run fedprox --set mu=-1", "mu is -1.0; it should be at least 0"),
    Case("set-range", "run fedprox --set mu=1e999", "mu is '1e999'; it should be a number in range"),
    Case("set-twice", "run fedprox --set mu=1 --set mu=2", "mu is given twice, as '1' and as '2'.*leave one"),
    Case("set-spelled-twice", "run fedprox:mu=1,mu=2", "mu is given twice, as '1' and as '2'"),
    Case("set-huge", f"run fedavg --set epochs={10**20}", "epochs is 1000.*; it should be at most 1,000,000"),
    Case("set-nan", "run fedprox --set mu=nan", "mu is nan; it should be at least 0"),
    Case("set-too-many", "run fedrep:1,2,3", "fedrep takes 2 values, got '1,2,3'.*head_epochs, body_epochs"),
    Case("epochs-many", "run fedavg --epochs 1000001", "epochs is 1000001; it should be at most 1,000,000"),
    Case("epochs-negative", "run fedavg --epochs -1", "epochs is -1; it should be at least 0"),
    Case("model-width", "run fedavg --model mlp:0", r"mlp: hidden is \(0,\).*positive widths, like 200\+100"),
    Case("model-width-type", "run fedavg --model mlp:wide", "mlp: hidden is 'wide'; it should be"),
    Case(
        "model-choice", "run fedavg --model convnet:head_layers=9", "head_layers is 9; it should be one of: 1"
    ),
    Case(
        "model-too-large", f"run fedavg {SMALL} --model convnet", "at least 16 x 16; got 8 x 8.*mlp, logistic"
    ),
    Case("model-too-wide", "run fedavg --model mlp:99999999999", "positive widths.* at most 1,000,000"),
    Case(
        "model-too-heavy",
        f"run fedavg {SMALL} --model mlp:1000000+1000000",
        "takes .* GB to train; this machine has .* GB.*a smaller model",
    ),
    Case("model-many", "run local --data digits --clients 1 --model mlp:8|mlp:9", "2 networks, .* 1 clients"),
    Case("models-shared", f"run fedavg {SMALL} --model mlp:8|mlp:9", "shares encoder.* pfedpm, fedproto"),
    Case("models-shown", "show fedavg --model mlp|logistic", "a card is of one network; .* names 2"),
    Case("model-shown", "show convnet --data digits", "at least 16 x 16; got 8 x 8.*mlp, logistic"),
    # numbers
    Case("lr-nan", "run fedavg --lr nan", "lr is nan; it should be a finite number, 0 or more"),
    Case("lr-infinite", "run fedavg --lr inf", "lr is inf; it should be a finite number"),
    Case("lr-negative", "run fedavg --lr -0.1", "lr is -0.1; it should be a finite number, 0 or more"),
    Case("lr-type", "run fedavg --lr fast", "--lr.*valid number"),
    Case("lr-decay", "run fedavg --lr-decay 0", "lr_decay is 0.0; it should be a finite number above 0"),
    Case("lr-at", "run fedavg --lr-at soon", "lr_at is 'soon'; it should be round=rate, e.g. 50=0.01"),
    Case(
        "lr-at-nan", "run fedavg --lr-at 5=nan", "lr_at round 5 is nan; it should be a finite number above 0"
    ),
    Case("lr-at-before", "run fedavg --lr-at -3=0.1", "lr_at.*-3.*rounds count from 1"),
    Case("lr-at-twice", "run fedavg --lr-at 5=0.1 --lr-at 5=0.2", "lr_at names round 5 twice"),
    Case("momentum", "run fedavg --momentum 1", "momentum is 1.0; it should be at least 0 and below 1"),
    Case("momentum-nan", "run fedavg --momentum nan", "momentum is nan; it should be at least 0 and below 1"),
    Case("weight-decay", "run fedavg --weight-decay -1", "weight_decay is -1.0; it should be"),
    Case("batch", "run fedavg --batch 0", "batch is 0; it should be 1 or more"),
    Case("batch-type", "run fedavg --batch 2.5", "--batch.*valid integer"),
    Case("batch-huge", f"run fedavg --batch {10**20}", "batch is 1000.*; it should be at most"),
    Case("clients", "run fedavg --clients 0", "clients is 0; it should be 1 or more"),
    Case("rounds", "run fedavg --rounds 0", "rounds is 0; it should be 1 or more"),
    Case("rounds-negative", "run fedavg --rounds -1", "rounds is -1; it should be 1 or more"),
    Case("rounds-type", "run fedavg --rounds many", "--rounds.*valid integer"),
    Case("rounds-huge", f"run fedavg --rounds {10**20}", "rounds is 1000.*; it should be.* at most"),
    Case("seed", "run fedavg --seed abc", "--seed.*valid integer"),
    Case("join-zero", "run fedavg --join 0", "join is 0; a rate should be above 0 and at most 1"),
    Case("join-nan", "run fedavg --join nan", "join is nan.*above 0 and at most 1"),
    Case("join-between", "run fedavg --join 2.5", "join is 2.5; a rate should be above 0 and at most 1"),
    Case("join-text", "run fedavg --join half", "join is 'half'; it should be a rate .0.2., a number"),
    Case("join-range", "run fedavg --join 1..0.5", "join is 1..0.5; a rate should be"),
    Case("drop", "run fedavg --drop 1", "drop is 1.0; it should be a portion: 0 or more, and below 1"),
    Case("drop-nan", "run fedavg --drop nan", "drop is nan; it should be a portion"),
    Case("test", "run fedavg --test 1.5", "test is 1.5; it should be a portion: 0 or more, and below 1"),
    Case("val", "run fedavg --val -0.1", "val is -0.1; it should be a portion"),
    Case("newcomers", "run fedavg --newcomers -1", "newcomers is -1; it should be 0 or more"),
    Case("eval-every", "run fedavg --eval-every 0", "eval_every is 0; it should be 1 or more"),
    Case("adapt-epochs", "run fedavg --adapt-epochs -1", "adapt_epochs is -1; it should be 0 or more"),
    Case("workers", f"run fedavg {SMALL} --workers 0", "workers is 0; it should be 1 or more"),
    Case(
        "workers-huge", f"run fedavg {SMALL} --workers 100000", "workers is 100000; it should be at most 512"
    ),
    Case(
        "workers-of-serial",
        f"run fedavg {SMALL} --workers 2 --executor serial",
        "workers is 2, but the executor 'serial' has none",
    ),
    Case(
        "scaffold-momentum",
        f"run scaffold {SMALL} --momentum 0.9",
        "SCAFFOLD's option ii needs plain steps; momentum is 0.9.*momentum=0, or option=i",
    ),
    Case("test-all", f"run fedavg {SMALL} --test 0.999", "test = 0.999 .*leave no client an example"),
    Case("seeds", "compare fedavg --seeds few", r"seeds is 'few'; it should be how many \(3\) or which"),
    Case("seeds-none", "compare fedavg --seeds 0", "seeds is '0'; it should be 1 or more"),
    Case("selected", "compare fedavg --reading selected", "no validation data.*val=0.1"),
    # divisions
    Case("alpha-zero", "run fedavg --partition dirichlet:0", "alpha is 0.0; it should be a number above 0"),
    Case("alpha-nan", "run fedavg --partition dirichlet:nan", "alpha is nan; it should be a number above 0"),
    Case("alpha-type", "run fedavg --partition dirichlet:low", "alpha is 'low'; it should be"),
    Case(
        "alpha-twice", "run fedavg --partition dirichlet:1,alpha=2", "alpha is given twice, as '1' and as '2'"
    ),
    Case(
        "alpha-range", "run fedavg --partition dirichlet:1e999", "alpha is '1e999'; it should be a number in"
    ),
    Case("least", "run fedavg --partition dirichlet:1,least=-1", "least is -1; it should be 0 or more"),
    Case("field", "run fedavg --partition dirichlet:1,leest=1", "'leest'; did you mean 'least'"),
    Case("classes", f"run fedavg {SMALL} --partition pathological:11", "digits has 10.*try classes=10"),
    Case("clients-many", f"run fedavg {SMALL} --clients 5000", "5000 clients.*1797.*try clients=1797"),
    Case("clients-huge", f"run fedavg --clients {10**20}", "clients is 1000.*; it should be at most"),
    Case("newcomers-all", f"run fedavg {SMALL} --newcomers 4", "leave nobody to train.*try newcomers=3"),
    Case(
        "infeasible",
        f"run fedavg {SMALL} --clients 100 --partition dirichlet:0.0001,least=17",
        "no division gives every client 8 samples.*try alpha=.*least=0",
    ),
    Case(
        "classes-scarce",
        f"run fedavg {SMALL} --partition pathological:2 --clients 1700",
        "too few samples of class '0'.*try clients=",
    ),
    Case("shots", f"run fedavg {SMALL} --partition nway-kshot", "client 0 needs 40 test samples.*try "),
    Case("writers", f"run fedavg {SMALL} --partition natural", "no groups named 'writer'.*try iid"),
    Case(
        "pool-official",
        f"run fedavg {SMALL} --partition iid --pool official",
        "iid.*'official'.*try pool=mix",
    ),
    Case("portrait", "show dirichlet:1 --data digits --out p.xyz", r"'p.xyz'; its name should end in .svg"),
    # settings in a file
    Case("settings-missing", "run --config nowhere.toml", "the settings in nowhere.toml: No such file"),
    Case("settings-folder", "run --config done", "the settings in done: Is a directory"),
    Case("settings-bytes", "run --config a.toml", "a.toml: it is not text", file("a.toml", b"\xff\xfe\0")),
    Case(
        "settings-not-toml",
        "run --config settings.toml",
        "settings.toml: this is not TOML.*Invalid value",
        settings_toml("rounds = "),
    ),
    Case(
        "settings-field",
        "run --config settings.toml",
        "settings.toml: no setting 'roundz'; did you mean 'rounds'",
        settings_toml("roundz = 3"),
    ),
    Case(
        "settings-type",
        "run --config settings.toml",
        "settings.toml: rounds is 'three'; it should be a whole number, got text",
        settings_toml('rounds = "three"'),
    ),
    Case(
        "settings-lr-on-top",
        "run --config settings.toml",
        r"lr is a setting of training.*under \[training\]",
        settings_toml("lr = 0.1"),
    ),
    Case(
        "settings-training-field",
        "run --config settings.toml",
        "no setting of training 'learning'.*there are: .*batch",
        settings_toml("[training]\nlearning = 1"),
    ),
    Case(
        "settings-lr-nan",
        "run --config settings.toml",
        "settings.toml: lr is nan; it should be a finite number",
        settings_toml("[training]\nlr = nan"),
    ),
    Case(
        "settings-fraction",
        "run --config settings.toml",
        "clients is 1.5; it should be a whole number, got a fraction",
        settings_toml("clients = 1.5"),
    ),
    Case(
        "settings-list",
        "run --config settings.toml",
        r"settings.toml: method is \['fedavg'\]; it should be text, got a list",
        settings_toml('method = ["fedavg"]'),
    ),
    Case(
        "settings-twice",
        "run --config settings.toml",
        "settings.toml: this is not TOML: Cannot overwrite a value",
        settings_toml("rounds = 2\nrounds = 3"),
    ),
    Case(
        "settings-truth",
        "run --config settings.toml",
        "clients is True; it should be a whole number, got true or false",
        settings_toml("clients = true"),
    ),
    Case(
        "settings-set",
        "run --config settings.toml",
        "set is 3; it should be a table",
        settings_toml("set = 3"),
    ),
    # a dataset's files
    Case(
        "file-cut",
        MNIST,
        f"{IMAGES}: expected 4704 bytes.*cut off.*original",
        mnist(images=TINY[IMAGES][:-9]),
    ),
    Case(
        "file-swapped",
        MNIST,
        f"{IMAGES}: expected an idx file of images.*found an idx file of labels.*original",
        mnist(images=TINY[LABELS]),
    ),
    Case(
        "file-empty",
        MNIST,
        f"{LABELS}: expected an idx file of labels.*found an empty file",
        mnist(labels=b""),
    ),
    Case("file-web-page", MNIST, f"{LABELS}: expected.*found a web page", mnist(labels=b"<!DOCTYPE html>")),
    Case(
        "file-gzip-cut",
        MNIST,
        f"{IMAGES}: expected a whole gzip file.*breaks off",
        mnist(images=gzip.compress(TINY[IMAGES])[:-12]),
    ),
    Case(
        "file-gzip-garbled",
        MNIST,
        f"{IMAGES}: expected a whole gzip file.*garbled",
        mnist(images=gzip.compress(TINY[IMAGES])[:10] + b"\xff" * 40),
    ),
    Case(
        "file-header",
        MNIST,
        f"{IMAGES}: expected between.*a header that announces",
        mnist(images=idx_bytes(np.empty((0, 0, 0)))[:4] + b"\xff" * 12),
    ),
    Case(
        "file-label",
        MNIST,
        "labels from 0 to 9, found label 77 at row 2",
        mnist(labels=idx_bytes([1, 1, 77, 1, 1, 1])),
    ),
    Case("file-lengths", MNIST, "6 images.*5 labels", mnist(labels=idx_bytes([1] * 5))),
    Case("file-other-data", MNIST, "not mnist: 6 .*60000.*folder of its own", mnist()),
    Case(
        "file-checksum", MNIST, "not the original of mnist: md5.*it should be.*fetch mnist", of_the_right_size
    ),
    Case(
        "verify-checksum",
        "data verify mnist --data-dir files",
        "not the original of mnist",
        of_the_right_size,
    ),
    Case("verify-nothing", "data verify mnist", "no files of mnist.*`pluribus data fetch mnist`"),
    Case(
        "file-missing",
        MNIST,
        f"mnist could not be downloaded.*files lacks {LABELS}",
        both(mnist(), gone(f"files/{LABELS}"), NO_NETWORK),
    ),
    Case(
        "cifar-size",
        "run fedavg --data cifar10 --data-dir files",
        "data_batch_1.bin: expected 30730000 bytes .10000 records of 3073., found 3073",
        batches(b"\0" * 3073, ".bin"),
    ),
    Case(
        "cifar-code",
        "run fedavg --data cifar10 --data-dir files",
        "data_batch_1: expected a pickle of arrays.*mkdir; nothing was run",
        batches(pickle.dumps(Code())),
    ),
    Case(
        "cifar-pickle-cut",
        "run fedavg --data cifar10 --data-dir files",
        "data_batch_1: expected a whole pickle",
        batches(pickle.dumps({b"data": b"0" * 99})[:-20]),
    ),
    Case(
        "cifar-tar",
        "run fedavg --data cifar10 --data-dir files",
        "is not the original of cifar10: md5 .*delete it and `pluribus data fetch cifar10`",
        file("files/cifar-10-binary.tar.gz", gzip.compress(b"no tar" * 200)[:-9]),
    ),
    Case(
        "data-dir-missing", f"run fedavg {SMALL} --data-dir nowhere", "--data-dir: 'nowhere' does not exist"
    ),
    Case("data-dir-file", f"{MNIST}/plain", "--data-dir: 'files/plain' is a file", file("files/plain")),
    # the network
    Case(
        "no-network",
        "run fedavg --data mnist",
        "mnist could not be downloaded.*refused.*--data-dir",
        NO_NETWORK,
    ),
    Case("no-network-fetch", "data fetch mnist", "mnist could not be downloaded.*127.0.0.1", NO_NETWORK),
    Case(
        "download-checksum",
        "data fetch mnist",
        "could not be downloaded.*sent a file of md5.*it should be",
        sent_from("file://{}/mirror", b"not what was asked for"),
    ),
    Case(
        "disk-small",
        "data fetch mnist",
        "has room for .*MB are to come.*PLURIBUS_CACHE",
        both(NO_NETWORK, little_room),
    ),
    Case("cache-unwritable", "data fetch mnist", "cannot be written.*PLURIBUS_CACHE", cache_in_a_file),
    # a user's own data
    Case("own-missing", "run fedavg --data ./nowhere", "nothing at '.*nowhere'.*folder of images or an .npz"),
    Case(
        "own-address",
        "run fedavg --data https://example.com/own.npz",
        "'https://example.com/own.npz' is an address.*download it",
    ),
    Case(
        "own-other", "run fedavg --data ./a.csv", "neither a folder nor an .npz.*numpy.savez", file("a.csv")
    ),
    Case("own-not-npz", OWN, "own.npz: expected a NumPy archive", file("own.npz", b"hello")),
    Case(
        "own-cut", OWN, "own.npz: expected a NumPy archive", both(npz(x=PICTURES, y=DIGITS), cut("own.npz"))
    ),
    Case("own-no-labels", OWN, "own.npz: expected arrays x and y, .*found x", npz(x=PICTURES)),
    Case("own-lengths", OWN, "as many labels as images.*6 images, 4 labels", npz(x=PICTURES, y=DIGITS[:4])),
    Case("own-negative", OWN, "labels that are whole numbers from 0.*-1", npz(x=PICTURES, y=DIGITS - 1)),
    Case(
        "own-range", OWN, "bytes, or numbers from 0 to 1; these are float64", npz(x=PICTURES * 2.5, y=DIGITS)
    ),
    Case(
        "own-nan", OWN, "bytes, or numbers from 0 to 1; these are float64", npz(x=PICTURES * np.nan, y=DIGITS)
    ),
    Case(
        "own-objects",
        OWN,
        "'x' to hold numbers.*nothing of it was run",
        npz(x=np.array([Code()] * 6), y=DIGITS),
    ),
    Case("own-shape", OWN, r"images \(N, H, W\).*\(6, 8\)", npz(x=PICTURES[0, :6], y=DIGITS)),
    Case(
        "own-folder-empty", "run fedavg --data ./tmp/none", "none.*CLASS/FILE.jpg", file("tmp/none/note.txt")
    ),
    Case(
        "own-image",
        "run fedavg --data ./tmp/pets --rounds 1",
        "cat/1.jpg.*broken=skip",
        both(file("tmp/pets/cat/1.jpg", "<html>"), file("tmp/pets/dog/1.jpg", "<html>")),
    ),
    # where runs are written
    Case("out-not-empty", f"run fedavg {SMALL} --out mine", "mine is not empty.*pluribus resume mine"),
    Case("out-file", f"run fedavg {SMALL} --out plain", "cannot write plain.*choose a folder", file("plain")),
    Case("out-below-file", f"run fedavg {SMALL} --out plain/run", "cannot write plain/run", file("plain")),
    Case("runs-is-file", f"run fedavg {SMALL}", "cannot write runs/.*choose a folder", file("runs")),
    Case("name-path", f"run fedavg {SMALL} --name a/b", "name is 'a/b'; it should be the name of one folder"),
    Case("name-empty", f"run fedavg {SMALL} --name ''", "name is ''; it should be the name of one folder"),
    Case("name-two-lines", f"run fedavg {SMALL} --name 'a\nb'", r"name is 'a\\nb'; it should be the name"),
    Case("name-and-out", f"run fedavg {SMALL} --name a --out b", "only one of --out and --name"),
    Case("compare-both", f"compare fedavg {SMALL} --json --markdown", "only one of --json and --markdown"),
    Case("compare-out", f"compare fedavg {SMALL} --out done", "done exists and is not a comparison's.*--out"),
    Case("compare-out-file", f"compare fedavg {SMALL} --out plain/a", "plain/a.*--out names", file("plain")),
    # runs that were interrupted, and what became of their folders
    Case("resume-nowhere", "resume nowhere", "nowhere is not the folder of a run.*settings.toml"),
    Case("resume-file", "resume plain", "plain is not the folder of a run", file("plain")),
    Case("resume-locked", "resume mine", "another process is at work in mine.*wait until it is done", locked),
    Case(
        "resume-edited",
        "resume mine",
        "settings.toml is not what this run began with.*pluribus run --config",
        changed("mine/settings.toml", "rounds = 4", "rounds = 9"),
    ),
    Case(
        "resume-settings-garbled",
        "resume mine",
        "mine/settings.toml: this is not TOML",
        file("mine/settings.toml", "rounds = "),
    ),
    Case(
        "resume-open",
        "resume new",
        "new/settings.toml is not what a run writes: it leaves something open.*pluribus run --config",
        file("new/settings.toml"),
    ),
    Case(
        "resume-of-others",
        "resume mine",
        "belongs to other settings.*nothing was deleted; to begin anew: pluribus run",
        both(changed("mine/settings.toml", "rounds = 4", "rounds = 9"), gone("mine/environment.json")),
    ),
    Case(
        "checkpoints-cut",
        "resume mine",
        "checkpoint 000002 cannot be used.*were written.*to begin anew: pluribus run --config",
        cut("mine/checkpoint/*.safetensors"),
    ),
    Case(
        "manifests-cut",
        "resume mine",
        "checkpoint 000002.*is damaged.*to begin anew",
        cut("mine/checkpoint/*.json"),
    ),
    Case(
        "checkpoint-files-gone",
        "resume mine",
        "cannot be used.*to begin anew",
        gone("mine/checkpoint/*.safetensors"),
    ),
    Case(
        "log-gone",
        "resume mine",
        "rounds.jsonl does not reach round 2.*to begin anew",
        gone("mine/rounds.jsonl"),
    ),
    Case("export-nowhere", "export nowhere --client 3", "nowhere is not the folder of a run"),
    Case("export-client", "export done --client c99", "no client 'c99'.*there are: c00, c01, c02, c03"),
    Case("export-number", "export done --client 4", "no client '4'.*there are: c00, c01, c02, c03"),
    Case("export-whose", "export done", "one of --client and --generic is needed"),
    Case("export-both", "export done --client 1 --generic", "one of --client and --generic is needed"),
    Case("export-no-generic", "export done --generic", "fedper has no model for everybody.*--client 0"),
    Case(
        "export-unbegun",
        "export mine --client 1",
        "no checkpoint yet.*pluribus resume mine",
        gone("mine/checkpoint/*.json"),
    ),
    Case("export-damaged", "export done --client 1", "000004 cannot be used", cut("done/checkpoint/*")),
    Case("export-out", "export done --client 1 --out plain/a", "cannot write plain/a", file("plain")),
]


def test_there_are_enough_cases_and_each_has_a_name_of_its_own():
    assert len({case.id for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_bad_input_ends_in_a_paragraph_and_leaves_nothing(desk, case):
    case.given(desk)
    before = desk.seen()

    said = call(case.line)

    assert said.code == 1, said.err
    assert re.search(case.says, said.complaint, re.DOTALL), said.err
    assert said.complaint.count("\n") <= LINES
    assert "Traceback" not in said.err
    assert said.out == ""
    assert desk.seen() == before


# what is damaged, and heals -----------------------------------------------------------------------------


HEALED = [
    Case(
        "checkpoint-cut",
        "mine",
        "checkpoint 000002.*going back to the one before",
        cut("mine/checkpoint/000002.server*"),
    ),
    Case(
        "manifest-cut",
        "mine",
        "checkpoint 000002.*going back to the one before",
        cut("mine/checkpoint/000002.json"),
    ),
    Case(
        "division-cut",
        "mine",
        "division.safetensors is not a whole division.*divided again",
        cut("mine/division*"),
    ),
    Case("division-gone", "mine", "no division at.*divided again", gone("mine/division*")),
    Case("environment-garbled", "mine", "", file("mine/environment.json", "{")),
    Case("log-torn", "mine", "", longer("mine/rounds.jsonl", '{"round": 4, "sta')),
    Case("result-garbled", "done", "", file("done/result.json", "}{")),
    Case(
        "clients-torn",
        "done",
        "clients.jsonl is missing or damaged",
        both(gone("done/result.json"), cut("done/clients*")),
    ),
]


@pytest.mark.parametrize("case", HEALED, ids=lambda case: case.id)
def test_a_damaged_run_goes_on_to_the_same_bits_where_it_can(desk, case):
    whole = json.loads((desk.here / "done/result.json").read_text())
    case.given(desk)

    said = call(f"resume {case.line} --json")

    assert said.code == 0, said.err
    assert re.search(case.says, said.err, re.DOTALL), said.err
    assert json.loads(said.out)["hash"] == whole["hash"]
    assert json.loads((desk.here / case.line / "result.json").read_text())["hash"] == whole["hash"]


# a full disk ------------------------------------------------------------------------------------------


def full_disk(desk: Desk, at: str) -> None:
    """From the first file of such a name on, nothing reaches the disk."""
    sync, full = os.fsync, []

    def fsync(handle: int) -> None:
        inode = os.fstat(handle).st_ino
        names = [path.name for path in desk.root.rglob("*") if path.stat().st_ino == inode]
        if full or any(re.fullmatch(at, name) for name in names):
            full.append(names)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    desk.patch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("at", [".environment.json.part", r".division.*\.part", ".settings.toml.part", "new"])
def test_a_disk_that_is_full_at_the_beginning_leaves_no_folder(desk, at):
    before = desk.seen()
    full_disk(desk, at)

    said = call(f"run fedper {SMALL} --out new")

    assert said.code == 1
    assert re.search("cannot write new.*: No space left on device\n    .*make room", said.complaint)
    assert said.out == ""
    assert desk.seen() == before


@pytest.mark.parametrize(
    "at",
    ["rounds.jsonl", r".000001.server.*\.part", r".000002.clients.*\.part", ".000003.json.part", "checkpoint",
     ".clients.jsonl.part", ".result.json.part"],
)  # fmt: skip
def test_a_disk_that_is_full_later_leaves_a_run_that_goes_on(desk, at):
    whole = json.loads((desk.here / "done/result.json").read_text())
    full_disk(desk, at)

    said = call(f"run fedper {SMALL} --out new")
    left = [path.name for path in desk.root.rglob("*.part")]
    desk.patch.undo()
    with nothing_of_this_machine(desk.root):
        again = call("resume new --json")

    assert (said.code, said.out, left) == (1, "", [])
    assert re.search(
        "cannot write new.*: No space left on device\n    make room.*pluribus resume", said.complaint
    )
    assert again.code == 0, again.err
    assert json.loads(again.out)["hash"] == whole["hash"]


def test_an_export_on_a_full_disk_leaves_no_file(desk):
    before = desk.seen()
    full_disk(desk, r".c01.safetensors.*\.part")

    said = call("export done --client 1 --out models")

    assert said.code == 1
    assert "cannot write models/c01.safetensors: No space left on device" in said.complaint
    assert said.out == ""
    assert desk.seen() == {**before, "here/models": "folder"}


class Full(io.StringIO):
    """Output to a file for which there is no room; it is noticed late."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_results_for_which_the_disk_has_no_room_are_no_fault_of_ours(desk):
    err, before = io.StringIO(), desk.seen()

    with redirect_stdout(Full()), redirect_stderr(err):
        code = main(["partitions"])

    assert code == 1
    assert (
        err.getvalue()
        == "error: cannot write the output: No space left on device\n    make room and start it again\n"
    )
    assert desk.seen() == before


def test_a_folder_that_was_removed_beneath_us_is_said(desk):
    (desk.root / "gone").mkdir()
    desk.patch.chdir(desk.root / "gone")
    (desk.root / "gone").rmdir()

    said = call("methods")

    assert (said.code, said.out) == (1, "")
    assert re.match(
        "error: the folder you are in cannot be used: No such file.*\n    cd to another", said.err
    )


def test_a_cache_that_cannot_be_written_costs_a_warning_only(desk):
    cache_in_a_file(desk)

    said = call(f"run fedper {SMALL} --rounds 1 --json")

    assert said.code == 0
    assert re.fullmatch("warning: digits stays in memory: .*PLURIBUS_CACHE names another folder\n", said.err)


# in a process of its own ------------------------------------------------------------------------------


def in_a_process(desk: Desk, line: str, **how: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PLURIBUS, *shlex.split(line)], cwd=desk.here, stderr=subprocess.PIPE, text=True, check=False, **how
    )


def test_a_file_that_may_not_grow_ends_the_run_and_it_goes_on_later(desk):
    line = "run fedper --data digits --clients 4 --model mlp:100 --rounds 2 --quiet --json --out new"

    limit = (20_000, 20_000)  # bytes: more than a division has, less than this model
    said = in_a_process(desk, line, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    left = [path.name for path in desk.root.rglob("*.part")]

    assert (said.returncode, left) == (1, [])
    assert re.fullmatch(
        "error: cannot write new/checkpoint/000001.server.*: File too large\n    make room.*\n", said.stderr
    )
    assert call("resume new --json").code == 0


@pytest.mark.parametrize("line", ["run fedrap", "resume nowhere"])
def test_the_program_itself_ends_like_that(desk, line):
    before = desk.seen()

    said = in_a_process(desk, line, stdout=subprocess.PIPE)

    assert (said.returncode, said.stdout) == (1, "")
    assert re.match("error: .*'?(fedrap|nowhere)", said.stderr)
    assert "Traceback" not in said.stderr
    assert desk.seen() == before


# anything at all --------------------------------------------------------------------------------------


def options_of_run() -> list[str]:
    """Every option of `run` but `--help`, by its long name."""
    command = typer.main.get_command(program()).commands["run"]
    longest = [max(p.opts, key=len) for p in command.params if p.param_type_name == "option"]
    return [name for name in longest if name != "--help"]


NASTY = [
    "",
    " ",
    "0",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1e-999",
    "0x10",
    "1_0",
    "½",
    "٣",
    "None",
    "null",
    "true",
    ":",
    "=",
    ",",
    "..",
    "0..",
    "..1",
    "a:b=c",
    "dirichlet:",
    "mlp:+",
    "fedrep:=",
    "=1",
    "-",
    "--",
    "~",
    "\udce9",
    "a\nb",
    "[red]",
    "%s",
    "{}",
    "'",
    "x" * 300,
    "1" * 400,
]
ANYTHING = st.sampled_from(NASTY) | st.text(
    st.characters(exclude_characters="/\0", max_codepoint=0x2FFF), max_size=9
)


@settings(max_examples=60)
@given(option=st.sampled_from(options_of_run()), text=ANYTHING)
@example(option="--out", text="x" * 300)
@example(option="--name", text="\udce9")
@example(option="--data", text="\udce9/x")
@example(option="--config", text="a\nb")
def test_no_text_given_to_an_option_ends_in_a_traceback(stock, option, text):
    root = stock.parent / "anything"
    root.mkdir(exist_ok=True)
    out, err = io.StringIO(), io.StringIO()
    small = ["--data=digits", "--clients=2", "--model=logistic", "--rounds=1", "--partition=iid", "--quiet"]

    with nothing_of_this_machine(root), redirect_stdout(out), redirect_stderr(err):
        code = main(["run", "fedavg", *small, f"{option}={text}"])

    shutil.rmtree(root / "here")
    assert code in (0, 1), err.getvalue()
    assert "Traceback" not in err.getvalue()
    assert list((root / "tmp").iterdir()) == []
