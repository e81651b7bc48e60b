"""Flower's client, in a module of its own so that Ray's actors find it."""
# ruff: noqa: INP001

from __future__ import annotations

from functools import cache
from pathlib import Path

import bare  # in the folder above, which flower.py puts on the path
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

app = ClientApp()


@cache
def bench(task: str) -> bare.Bench:
    """What an actor needs, read once."""
    torch.set_num_threads(1)
    return bare.bench(Path(task))


@app.train()
def train(message: Message, _: Context) -> Message:
    """A client's turn."""
    config = message.content["config"]
    here, client, state = (
        bench(config["task"]),
        config["client"],
        message.content["arrays"].to_torch_state_dict(),
    )
    network = tuned(here, client, state) if config["tuned"] else usual(here, client, state)
    metrics = MetricRecord({"num-examples": len(here.rows["train"][client])})
    arrays = ArrayRecord(network.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def tuned(here: bare.Bench, client: str, state: dict[str, Tensor]) -> nn.Module:
    """Trained by the bare loop, on a network that an actor keeps."""
    here.network.load_state_dict(state)
    here.train(client)
    return here.network


def usual(here: bare.Bench, client: str, state: dict[str, Tensor]) -> nn.Module:
    """Trained as in Flower's quickstart: a network for each turn, a loader, torch's usual SGD."""
    task = here.task
    network = bare.plain(bare.built(task))
    network.load_state_dict(state)
    data = TensorDataset(*here.batch(here.rows["train"][client]))
    loader = DataLoader(data, batch_size=task["batch"], shuffle=True)
    optimiser = torch.optim.SGD(network.parameters(), lr=task["lr"], momentum=task["momentum"])
    network.train()
    for _ in range(task["epochs"]):
        for x, y in loader:
            optimiser.zero_grad()
            F.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]  # torch's own
            optimiser.step()
    return network
