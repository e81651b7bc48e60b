"""Flower's side of a race: its simulation on Ray, FedAvg by its own strategy, without any evaluation.

    python benchmarks/peers/flower.py TASK WORKERS [tuned]

Runs in an environment of its own (benchmarks/peers/install).  One actor a worker, one thread each, as many
as there are cores.  The client is written as in Flower's quickstart, but for images and rows, which an actor
keeps from turn to turn.  `tuned` keeps the network too and trains with the bare loop: what is left is Flower.
"""
# ruff: noqa: INP001

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ["PYTHONPATH"] = f"{HERE}{os.pathsep}{HERE.parent}"  # for the actors, which are started later
for switch in ("FLWR_TELEMETRY_ENABLED", "RAY_USAGE_STATS_ENABLED"):
    os.environ[switch] = "0"

import bare  # noqa: E402  # in the folder above
from flower_client import app  # noqa: E402
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

TASK, WORKERS, TUNED = Path(sys.argv[1]), int(sys.argv[2]), "tuned" in sys.argv[3:]
server_app = ServerApp()


@server_app.main()
def main(grid: Grid, _: Context) -> None:
    """Round after round, as they are asked for."""
    task = json.loads((TASK / "task.json").read_text())
    strategy = FedAvg()
    arrays, nodes = ArrayRecord(bare.built(task).state_dict()), connected(grid, len(task["train"]))
    for line in sys.stdin:
        started, number = time.perf_counter(), int(line)
        cohort = task["rounds"][number]["cohort"]
        messages = [turn(k, nodes[k], arrays) for k in cohort]
        replies = list(grid.send_and_receive(messages))
        if bad := [reply.error for reply in replies if reply.has_error()]:
            raise RuntimeError(str(bad[0]))
        arrays, _metrics = strategy.aggregate_train(number, replies)
        seconds = time.perf_counter() - started
        samples = task["epochs"] * sum(len(task["train"][k]) for k in cohort)
        say({"round": number, "seconds": seconds, "train": seconds, "evaluate": 0.0, "samples": samples})


def connected(grid: Grid, number: int) -> dict[str, int]:
    """A node for each client, once all of them are there."""
    while len(nodes := sorted(grid.get_node_ids())) < number:
        time.sleep(0.1)
    clients = json.loads((TASK / "task.json").read_text())["train"]
    return dict(zip(clients, nodes, strict=True))


def turn(client: str, node: int, arrays: ArrayRecord) -> Message:
    config = ConfigRecord({"client": client, "task": str(TASK), "tuned": TUNED})
    return Message(RecordDict({"arrays": arrays, "config": config}), node, "train")


def say(answer: dict[str, Any]) -> None:
    os.write(ANSWERS, (json.dumps(answer) + "\n").encode())


if __name__ == "__main__":
    ANSWERS = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    run_simulation(
        server_app=server_app, client_app=app,
        num_supernodes=len(json.loads((TASK / "task.json").read_text())["train"]),
        backend_config={"init_args": {"num_cpus": WORKERS, "include_dashboard": False},
                        "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )  # fmt: skip
