"""Flower's client, in a module of its own so that Ray's actors find it."""
# ruff: noqa: INP001

from __future__ import annotations

from functools import cache
from pathlib import Path

import bare  # in the folder above, which flower.py puts on the path
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

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
    here = bench(config["task"])
    here.network.load_state_dict(message.content["arrays"].to_torch_state_dict())
    here.train(config["client"])
    metrics = MetricRecord({"num-examples": len(here.rows["train"][config["client"]])})
    arrays = ArrayRecord(here.network.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
