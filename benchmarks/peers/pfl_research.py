"""pfl-research's side of a race: FedAvg in its simulated backend, a process a worker, its own evaluation.

    python -m torch.distributed.run --nproc_per_node WORKERS benchmarks/peers/pfl_research.py TASK [tuned]

Runs in an environment of its own (benchmarks/peers/install).  As in its benchmarks: every user's data lie
ready as tensors, clients weigh the same, the test set is read every so many rounds by all processes
together.  Users of different sizes are dealt to the processes by their sizes.  `tuned` gives it our network
(pooling before ReLU, channels last) and a fused optimiser: what is left is the library.
"""
# ruff: noqa: INP001

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import bare  # in the folder above
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal.ops.selector import get_default_framework_module as get_ops
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F

TESTED = 10_000  # rows in a batch of its evaluation
TUNED = "tuned" in sys.argv  # with the bare loop's network and optimiser, else as its own benchmark has them


class Network(nn.Module):
    """The task's network, with the two functions that pfl asks for."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def loss(self, x: Tensor, y: Tensor, *, eval: bool = False) -> Tensor:
        self.train(not eval)
        return F.cross_entropy(self.network(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor, *, eval: bool = True) -> dict[str, Weighted]:
        self.train(not eval)
        return {"accuracy": Weighted(int((self.network(x).argmax(1) == y).sum()), len(y))}


class InTurns(TrainingProcessCallback):
    """After each round the first process answers, and all wait until the next is asked for."""

    def __init__(self, task: dict[str, Any]):
        self.task, self.started = task, 0.0

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        self.wait()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        if is_first():
            seconds = time.perf_counter() - self.started
            cohort = self.task["rounds"][central_iteration]["cohort"]
            samples = self.task["epochs"] * sum(len(self.task["train"][k]) for k in cohort)
            say({"round": central_iteration, "seconds": seconds, "train": seconds, "evaluate": 0.0,
                 "samples": samples})  # fmt: skip
        return not self.wait(), Metrics()

    def wait(self) -> bool:
        """Whether there is another round to do; nobody begins it before it is asked for."""
        go = torch.tensor(int(bool(sys.stdin.readline())) if is_first() else 0)
        if torch.distributed.is_initialized():
            torch.distributed.broadcast(go, 0)
        self.started = time.perf_counter()
        return bool(go)


def is_first() -> bool:
    return get_ops().distributed.global_rank == 0


def say(answer: dict[str, Any]) -> None:
    os.write(ANSWERS, (json.dumps(answer) + "\n").encode())


def run(here: bare.Bench) -> None:
    """The task's rounds."""
    task, rounds = here.task, here.task["rounds"]
    every = 1 + next(i for i, one in enumerate(rounds) if one["evaluate"])
    cohort = len(rounds[0]["cohort"])
    network = Network(here.network if TUNED else bare.plain(here.network))
    model = PyTorchModel(
        network,
        local_optimizer_create=partial(torch.optim.SGD, momentum=task["momentum"], fused=TUNED or None),
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    users, test = federation(here), test_set(here)
    tested = CentralEvaluationCallback(test, NNEvalHyperParams(local_batch_size=TESTED), frequency=every)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=len(rounds), evaluation_frequency=len(rounds) + 1,
            train_cohort_size=cohort, val_cohort_size=None,
        ),
        SimulatedBackend(training_data=users, val_data=users, postprocessors=[WeightByUser()]),
        model,
        NNTrainHyperParams(
            local_num_epochs=task["epochs"], local_learning_rate=task["lr"], local_batch_size=task["batch"]
        ),
        callbacks=[tested, InTurns(task)],
    )  # fmt: skip


def federation(here: bare.Bench) -> FederatedDataset:
    """The users; those of a round are drawn as the task says."""
    users = {k: here.batch(rows) for k, rows in here.rows["train"].items()}
    drawn = chain.from_iterable(one["cohort"] for one in here.task["rounds"])
    sizes = {k: len(rows) for k, rows in here.rows["train"].items()}
    weights = sizes if len(set(sizes.values())) > 1 else None
    return FederatedDataset(lambda k: Dataset(users[k], user_id=k), partial(next, drawn, "c0"), weights)


def test_set(here: bare.Bench) -> Dataset:
    rows = torch.cat(list(here.rows["test"].values()))
    return Dataset(here.batch(rows), eval_kwargs={"eval": True})


if __name__ == "__main__":
    ANSWERS = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    torch.set_num_threads(1)
    bench = bare.bench(Path(sys.argv[1]))
    run(bench)
