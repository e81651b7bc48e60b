"""The limit that Pluribus is measured against: the same batches in plain PyTorch, without any federation.

    python benchmarks/bare.py --setting fmnist-cnn --rounds 3

It imports nothing of Pluribus.  Same networks, batches, optimiser and tested rows; two worker processes of
one thread; images as bytes in memory that both map; no weights are sent, averaged, kept or written.  Beside
its GFLOP/s it prints those of a plain float32 matrix product on the same processes: a training sample costs
six FLOP a multiply-add, a tested row two.

As a child of `pluribus bench` it is given the folder of a task (task.json, inputs.npy, labels.npy), does one
of the task's rounds for each line it reads, and answers with a line of JSON.
"""
# ruff: noqa: INP001

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

PIECE = 4096  # tested rows that a worker is given at a time
TESTED = 128  # rows in a forward pass without gradients: what is between the layers stays in the cache
AHEAD = 2  # pieces of work a worker holds
KEPT = 1 << 30  # bytes that a worker does not give back to the system when it frees them
PRODUCT = 1024  # side of the matrices whose product is the yardstick
Task = dict[str, Any]
Rows = NDArray[np.int64]


# networks ---------------------------------------------------------------------------------------------


def pfllib_cnn(shape: Sequence[int], classes: int) -> nn.Sequential:
    """PFLlib's two-layer CNN."""
    convolutions = [nn.Conv2d(shape[0], 32, 5), nn.MaxPool2d(2), nn.ReLU()]
    convolutions += [nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
    return closed(convolutions, shape, [512, classes])


def convnet(shape: Sequence[int], classes: int) -> nn.Sequential:
    """FedReG's ConvNet."""
    convolutions = [nn.Conv2d(shape[0], 64, 5), nn.MaxPool2d(2), nn.ReLU()]
    convolutions += [nn.Conv2d(64, 64, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
    return closed(convolutions, shape, [384, 192, classes])


def pfl_cnn(shape: Sequence[int], classes: int) -> nn.Sequential:
    """The CNN of pfl-research's benchmarks, with its dropout and its first weights."""
    layers = [nn.Conv2d(shape[0], 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU()]
    layers += [nn.Dropout(0.25), nn.Flatten()]
    layers += [nn.Linear(width(layers, shape), 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, classes)]
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return nn.Sequential(*layers)


def mlp(shape: Sequence[int], classes: int) -> nn.Sequential:
    """One hidden layer of 200."""
    return closed([nn.Flatten()], shape, [200, classes])


def closed(layers: list[nn.Module], shape: Sequence[int], widths: Sequence[int]) -> nn.Sequential:
    """The layers, and behind them linear ones of these widths with ReLU between."""
    layers = [*layers, nn.Linear(width(layers, shape), widths[0])]
    for before, after in pairwise(widths):
        layers += [nn.ReLU(), nn.Linear(before, after)]
    return nn.Sequential(*layers)


def width(layers: Sequence[nn.Module], shape: Sequence[int]) -> int:
    """How many numbers leave these layers for each input."""
    with torch.no_grad():
        out: Tensor = nn.Sequential(*layers)(torch.zeros(1, *shape))
    return out.numel()


NETWORKS = {"pfllib-cnn": pfllib_cnn, "convnet": convnet, "pfl-cnn": pfl_cnn, "mlp": mlp}


def built(task: Task) -> nn.Sequential:
    """The task's network, laid out as convolutions like it."""
    network = NETWORKS[task["network"]](task["shape"], task["classes"])
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    return network


def plain(network: nn.Sequential) -> nn.Sequential:
    """The network as everybody writes it: ReLU before pooling, images as they lie."""
    layers = list(network)
    for i, (one, other) in enumerate(pairwise(network)):
        if isinstance(one, nn.MaxPool2d) and isinstance(other, nn.ReLU):
            layers[i : i + 2] = other, one
    return nn.Sequential(*layers).to(memory_format=torch.contiguous_format)


def multiply_adds(task: Task) -> int:
    """Of one input's way through the network, convolutions and linear layers only."""
    counted: list[int] = []

    def count(module: nn.Module, _: Any, out: Tensor) -> None:
        counted.append(out.numel() * getattr(module, "weight")[0].numel())  # noqa: B009  # modules are untyped

    network = built(task).eval()
    for module in network:
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    with torch.no_grad():
        network(torch.zeros(1, *task["shape"]))
    return sum(counted)


# in a worker ------------------------------------------------------------------------------------------


@dataclass
class Bench:
    """What a worker has: a network, the images as bytes, and every client's rows."""

    task: Task
    network: nn.Sequential
    inputs: Tensor
    labels: Tensor
    rows: dict[str, dict[str, Tensor]]  # of each client, to train on and to test

    @property
    def precision(self) -> AbstractContextManager[object]:
        half = self.task["precision"] == "bf16"
        return torch.autocast("cpu", dtype=torch.bfloat16) if half else nullcontext()

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs from -1 to 1, and labels."""
        return self.inputs[rows].float().sub_(127.5).div_(127.5), self.labels[rows]

    def train(self, client: str) -> None:
        """The client's epochs."""
        rows, task = self.rows["train"][client], self.task
        optimiser = torch.optim.SGD(
            self.network.parameters(), lr=task["lr"], momentum=task["momentum"], fused=True
        )
        self.network.train()
        for _ in range(task["epochs"]):
            for positions in torch.split(torch.randperm(len(rows)), task["batch"]):
                x, y = self.batch(rows[positions])
                with self.precision:
                    loss = F.cross_entropy(self.network(x), y)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # torch's own
                optimiser.step()

    @torch.inference_mode()
    def test(self, clients: Sequence[str]) -> int:
        """How many of these clients' rows the network has right."""
        self.network.eval()
        right = 0
        for rows in torch.split(torch.cat([self.rows["test"][k] for k in clients]), TESTED):
            x, y = self.batch(rows)
            with self.precision:
                right += int((self.network(x).argmax(1) == y).sum())
        return right

    def product(self, seconds: float) -> float:
        """GFLOP/s of a plain float32 matrix product on one thread."""
        a, b = torch.randn(2, PRODUCT, PRODUCT)
        out, times = a @ b, 0
        started = time.perf_counter()
        while (taken := time.perf_counter() - started) < seconds:
            torch.mm(a, b, out=out)
            times += 1
        return 2 * PRODUCT**3 * times / taken / 1e9


def bench(folder: Path) -> Bench:
    """The bench of the task in this folder."""
    task = json.loads((folder / "task.json").read_text())
    inputs, labels = (torch.from_numpy(np.load(folder / f"{name}.npy", mmap_mode="c"))
                      for name in ("inputs", "labels"))  # fmt: skip
    rows = {use: {k: torch.tensor(r) for k, r in task[use].items()} for use in ("train", "test")}
    return Bench(task, built(task), inputs, labels, rows)


def serve(line: Connection, folder: Path) -> None:
    """A worker's life: `("train", client)`, `("test", clients)`, until the other end is closed."""
    torch.set_num_threads(1)
    keep_memory()
    here = bench(folder)
    initial = [p.detach().clone() for p in here.network.parameters()]
    while True:
        try:
            verb, value = line.recv()
        except EOFError:
            return
        if verb == "reset":  # once a round, so that it neither overflows nor stops learning
            with torch.no_grad():
                for parameter, first in zip(here.network.parameters(), initial, strict=True):
                    parameter.copy_(first)
        line.send(None if verb == "reset" else getattr(here, verb)(value))


def keep_memory() -> None:
    """What is freed stays with the process, where the C library can be told so: pages are made once."""
    trim, top, mmap = -1, -2, -3  # mallopt's names for these numbers
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt:
        for name, size in ((trim, KEPT), (mmap, KEPT), (top, KEPT // 16)):
            mallopt(name, size)


# the other end ----------------------------------------------------------------------------------------


class Team:
    """Worker processes of one thread each. They start clean, as they must where there is no fork."""

    def __init__(self, folder: Path, size: int):
        self.folder, self.context = folder, multiprocessing.get_context("spawn")
        self.task: Task = json.loads((folder / "task.json").read_text())
        self.per_sample = multiply_adds(self.task)
        self.lines = [self.start() for _ in range(size)]
        self.to_all("reset", None)

    def start(self) -> Connection:
        ours, theirs = self.context.Pipe()
        self.context.Process(target=serve, args=(theirs, self.folder), daemon=True).start()
        theirs.close()
        return ours

    def to_all(self, verb: str, value: Any) -> list[Any]:
        """The same to every worker, at the same time."""
        for line in self.lines:
            line.send((verb, value))
        return [line.recv() for line in self.lines]

    def share(self, verb: str, values: Sequence[Any], sizes: Sequence[int]) -> None:
        """All of these done, the longest first."""
        waiting = [values[i] for i in sorted(range(len(values)), key=lambda i: sizes[i])]
        held = dict.fromkeys(self.lines, 0)
        while waiting or any(held.values()):
            while waiting and held[idlest := min(held, key=held.__getitem__)] < AHEAD:
                idlest.send((verb, waiting.pop()))
                held[idlest] += 1
            ready = wait(line for line, number in held.items() if number)
            for line in held.keys() & set(ready):
                line.recv()
                held[line] -= 1

    def round(self, number: int) -> dict[str, Any]:
        """One of the task's rounds, and what it took."""
        cohort, groups = self.task["rounds"][number]["cohort"], self.task["rounds"][number]["evaluate"]
        started = time.perf_counter()
        self.to_all("reset", None)
        self.share("train", cohort, [len(self.task["train"][k]) for k in cohort])
        trained = time.perf_counter()
        pieces = [piece for group in groups for piece in self.pieces(group)]
        self.share("test", pieces, [self.tested([piece]) for piece in pieces])
        ended = time.perf_counter()
        samples = self.task["epochs"] * sum(len(self.task["train"][k]) for k in cohort)
        tested = self.tested(groups)
        flop = self.per_sample * (6 * samples + 2 * tested)
        return {"round": number, "seconds": ended - started, "train": trained - started,
                "evaluate": ended - trained, "samples": samples, "tested": tested,
                "gflops": flop / (ended - started) / 1e9}  # fmt: skip

    def tested(self, groups: Sequence[Sequence[str]]) -> int:
        return sum(len(self.task["test"][k]) for group in groups for k in group)

    def pieces(self, group: Sequence[str]) -> Iterator[list[str]]:
        """Clients of one model in pieces of so many rows, so that both workers have something to do."""
        piece: list[str] = []
        for client in group:
            if piece and self.tested([[*piece, client]]) > PIECE:
                yield piece
                piece = []
            piece.append(client)
        yield piece


# alone ------------------------------------------------------------------------------------------------

FASHION: Task = {
    "shape": [1, 28, 28], "classes": 10, "rows": 70_000, "clients": 50, "alpha": 0.1, "test": 0.25,
    "cohort": 10, "batch": 20, "epochs": 5, "lr": 0.01, "momentum": 0.0, "every": 1,
}  # fmt: skip
ALONE: dict[str, Task] = {
    "fmnist-cnn": {**FASHION, "network": "pfllib-cnn"},
    "fmnist-convnet": {**FASHION, "network": "convnet", "momentum": 0.9},
    "cifar-pfl": {
        "network": "pfl-cnn", "shape": [3, 32, 32], "classes": 10, "rows": 60_000, "clients": 1000,
        "alpha": None, "test": 1 / 6, "cohort": 50, "batch": 10, "epochs": 1, "lr": 0.1, "momentum": 0.0,
        "every": 10,
    },
    "tiny": {
        "network": "mlp", "shape": [1, 8, 8], "classes": 10, "rows": 1797, "clients": 10, "alpha": 0.5,
        "test": 0.25, "cohort": 5, "batch": 20, "epochs": 2, "lr": 0.05, "momentum": 0.0, "every": 1,
    },
}  # fmt: skip


@contextmanager
def task_of(name: str, rounds: int, precision: str) -> Iterator[Path]:
    """A folder with random images of the setting's shape, divided as skewed as the setting says."""
    setting, rng = ALONE[name], np.random.default_rng(0)
    labels: Rows = np.asarray(rng.integers(0, setting["classes"], setting["rows"]))
    shares = {f"c{i}": share.tolist() for i, share in enumerate(divided(setting, labels, rng))}
    kept = {k: len(share) - round(setting["test"] * len(share)) for k, share in shares.items()}
    clients = [k for k in shares if kept[k]]
    plan = [{"cohort": rng.choice(clients, setting["cohort"], replace=False).tolist(),
             "evaluate": [list(shares)] if number and number % setting["every"] == 0 else []}
            for number in range(rounds + 1)]  # fmt: skip
    task = {**setting, "precision": precision, "rounds": plan,
            "train": {k: share[: kept[k]] for k, share in shares.items()},
            "test": {k: share[kept[k] :] for k, share in shares.items()}}  # fmt: skip
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "task.json").write_text(json.dumps(task))
        np.save(folder / "inputs.npy", rng.integers(0, 256, (setting["rows"], *setting["shape"]), np.uint8))
        np.save(folder / "labels.npy", labels)
        yield folder


def divided(setting: Task, labels: Rows, rng: np.random.Generator) -> list[Rows]:
    """The rows of each client: equal parts, or of each class as a Dirichlet distribution says."""
    if setting["alpha"] is None:
        return np.array_split(rng.permutation(len(labels)), setting["clients"])
    shares: list[list[Rows]] = [[] for _ in range(setting["clients"])]
    for k in range(setting["classes"]):
        rows = rng.permutation(np.flatnonzero(labels == k))
        ends = np.cumsum(rng.dirichlet([setting["alpha"]] * setting["clients"])) * len(rows)
        for share, piece in zip(shares, np.split(rows, ends[:-1].astype(int)), strict=True):
            share.append(piece)
    return [np.concatenate(share) for share in shares]


def print_rounds(team: Team, rounds: int) -> None:
    """A line a round, and what a matrix product reaches at the same time on the same processes."""
    team.round(0)  # the first is slower
    for number in range(1, rounds + 1):
        one = team.round(number)
        say(f"round {number}: {one['seconds']:6.2f} s  train {one['train']:6.2f} s  evaluate "
            f"{one['evaluate']:5.2f} s  {one['samples'] / one['train']:7.0f} samples/s  "
            f"{one['gflops']:6.1f} GFLOP/s")  # fmt: skip
    product = sum(team.to_all("product", 1.0))
    say(f"a float32 matrix product on {len(team.lines)} processes: {product:.1f} GFLOP/s")


def answer(team: Team) -> None:
    """For each line that is read a round, or the matrix product."""
    for line in sys.stdin:
        wanted = line.strip()
        product = wanted == "product"
        say(json.dumps({"gflops": sum(team.to_all("product", 1.0))} if product else team.round(int(wanted))))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--setting", choices=ALONE, default="fmnist-cnn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--task", type=Path, help="folder of a task; rounds are then asked for on stdin")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.task:
        answer(Team(asked.task, asked.workers))
        return
    with task_of(asked.setting, asked.rounds, asked.precision) as folder:
        print_rounds(Team(folder, asked.workers), asked.rounds)


if __name__ == "__main__":
    main()
