"""A task: the work of a race as files that a program without Pluribus can read.

task.json     network, batches, optimiser; each client's rows; who trains and is tested in each round
inputs.npy    images as bytes, (N, C, H, W)
labels.npy
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..engine import Coordinator
from ..executors.serial import Serial
from ..readings.evaluate import why_no_generic
from ..study import Study


def write_task(study: Study, folder: Path, *, precision: str) -> None:
    """The study's rounds, written down in this folder."""
    np.save(folder / "inputs.npy", study.dataset.inputs.numpy())
    np.save(folder / "labels.npy", study.dataset.labels.numpy())
    (folder / "task.json").write_text(json.dumps(task_of(study, precision)))


def task_of(study: Study, precision: str) -> dict[str, Any]:
    """What task.json holds."""
    settings, training = study.settings, study.settings.training
    return {
        "network": settings.model,
        "shape": study.federation.shape,
        "classes": study.federation.classes,
        "batch": training.batch,
        "epochs": settings.set.get("epochs"),
        "lr": training.lr,
        "momentum": training.momentum,
        "precision": precision,
        "train": {k: client.train.index.tolist() for k, client in study.federation.items()},
        "test": {k: client.test.index.tolist() for k, client in study.federation.items()},
        "rounds": list(rounds_of(study)),
    }


def rounds_of(study: Study) -> Iterator[dict[str, Any]]:
    """For each round its cohort, and the groups of clients that are tested together, if it is read."""
    coordinator = Coordinator(study.place, study.conduct, Serial())
    own: set[str] = set()
    for stage in coordinator.plan:
        cohort = coordinator.asked(stage)
        own |= set(cohort) if why_no_generic(study.place) else set()
        due = stage.round % study.settings.eval_every == 0 or stage.round == stage.rounds
        yield {"cohort": cohort, "evaluate": groups(study, own) if due else []}


def groups(study: Study, own: set[str]) -> list[list[str]]:
    """Who is tested together: clients with a model of their own alone, the others through the same one."""
    tested = [k for k, client in study.federation.items() if len(client.test)]
    if not own:
        return [tested]  # personal and generic models are the same one
    others = [k for k in tested if k not in own]
    alone = [[k] for k in tested if k in own]
    return [*alone, *([others] if others else []), tested]  # all of them through the mean of whole models
