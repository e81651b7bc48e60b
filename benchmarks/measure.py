"""Measures what docs/benchmarks.md reports, and writes it: `make bench`, or some of it.

    python benchmarks/measure.py                     everything, two hours or so
    python benchmarks/measure.py limit scale         these sections
    python benchmarks/measure.py page                nothing; only the page, from results/

Each measurement is a JSON file in benchmarks/results.  The machine should have nothing else to do.
"""
# ruff: noqa: INP001

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from page import FOLDER, write_page

from pluribus import runs
from pluribus.bench import Entrant, Race, Workload, bare, ours, race, race_table, seen_by, workload
from pluribus.bench.records import machine, today, versions
from pluribus.bench.workload import study_of
from pluribus.errors import DataNotFound, PluribusError
from pluribus.executors.processes import Processes
from pluribus.runs import Result
from pluribus.settings import Settings
from pluribus.training import Training

PEERS = Path(__file__).resolve().parent / "peers"
ENVIRONMENTS = Path(__file__).resolve().parent.parent / ".venv" / "peers"
NEVER = 1_000_000  # rounds between evaluations, where none is wanted
MEMORY_ROUNDS, SEEDS = 5, 2
MNIST = Settings(data="mnist-5k", clients=20, rounds=12, eval_every=12, training=Training(lr=0.05, batch=20))
READ = {
    "MNIST (5,000 images), 20 clients, dirichlet:0.1, PFLlib's CNN": MNIST.with_(model="pfllib-cnn"),
    "the same, ConvNet, momentum 0.9": MNIST.with_(
        model="convnet", training=Training(lr=0.01, momentum=0.9, batch=20)
    ),
    "digits, 10 clients, dirichlet:0.5, one hidden layer": Settings(
        data="digits", partition="dirichlet:0.5", clients=10, model="mlp", rounds=20, eval_every=20
    ),
}


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    data_dir: str | None
    repeats: int
    only: str | None = None

    def among(self, *names: str) -> tuple[str, ...]:
        """Of these settings those that are asked for."""
        return tuple(name for name in names if self.only in (None, name))


def limit(asked: Asked) -> None:
    """The engine beside the bare loop."""
    for name in asked.among("fmnist-cnn", "fmnist-convnet", "cifar-pfl"):
        for method in ("fedavg", "fedper"):
            keep(f"limit-{name}-{method}", asked, workload(name), method=method)
        keep(f"limit-{name}-bf16", asked, workload(name), precision="bf16")


def peers(asked: Asked) -> None:
    """The engine beside other libraries, in float32 and in bf16; theirs stay at float32."""
    others = [flower(), flower("tuned"), pfl(), pfl("tuned")]
    for name in asked.among("cifar-pfl", "fmnist-cnn"):
        entrants = [ours(), bare(), ours("engine bf16", precision="bf16"), *others]
        shown = keep(f"peers-{name}", asked, workload(name), entrants)
        half = seen_by(shown, "engine bf16", [entrant.name for entrant in others], "bf16")
        write(f"peers-{name}-bf16", half.to_json())


def flower(*how: str) -> Entrant:
    launch = (python("flower"), str(PEERS / "flower.py"), "{task}", "{workers}", *how)
    return Entrant(" ".join(("flower", *how)), launch)


def pfl(*how: str) -> Entrant:
    launch = (python("pfl"), "-m", "torch.distributed.run", "--nproc_per_node", "{workers}")
    return Entrant(" ".join(("pfl", *how)), (*launch, str(PEERS / "pfl_research.py"), "{task}", *how))


def python(name: str) -> str:
    return str(ENVIRONMENTS / name / "bin" / "python")


def reuse(asked: Asked) -> None:
    """FedRep with ten epochs of the head and one of the body, without evaluation, with and without reuse."""
    settings = workload("fmnist-cnn").settings.with_(method="fedrep", eval_every=NEVER)
    fedrep = Workload("reuse", "Fashion-MNIST, 50 clients, 10 a round, PFLlib's CNN", settings, ("fedrep",))
    entrants = [ours("live features", reuse=False), ours("reused features")]
    keep("reuse", asked, fedrep, entrants, method="fedrep")


def scale(asked: Asked) -> None:
    """The same cohort out of more and more clients; and what many clients cost before the first round."""
    settings = Settings(
        data="digits", partition="iid", clients=1000, join="100", test=0.2, model="mlp", set={"epochs": 1},
        training=Training(lr=0.05, batch=10), eval_every=NEVER,
    )  # fmt: skip
    many = Workload("scale", "8 x 8 images, 10 for each client, 100 clients a round, one hidden layer",
                    settings, ("fedavg", "fedper"), rows_each=10)  # fmt: skip
    entrants = [ours(f"{n:,} clients", clients=n) for n in (100_000, 30_000, 10_000, 3_000, 1_000)]
    keep("scale", replace(asked, repeats=10 * asked.repeats), many, entrants, method="fedper")
    memory()


def memory() -> None:
    """10,000 clients of 5 images of CIFAR-10's shape: seconds until they are there, and memory in use."""
    settings = workload("cifar-pfl").settings.with_(
        method="fedper", clients=10_000, join="50", test=0.0, rounds=MEMORY_ROUNDS, eval_every=NEVER
    )
    started = time.perf_counter()
    study = study_of(settings.resolved(), rows_each=5)
    made = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder, Processes(2) as executor:
        runs.run(study.settings, out=Path(folder) / "run", study=study, executor=executor)
        used = sum(bytes_of(pid) for pid in (os.getpid(), *(w.process.pid for w in executor.workers)))
    save("memory", {"clients": 10_000, "seconds": made, "bytes": used, "rounds": MEMORY_ROUNDS})


def bytes_of(process: int) -> int:
    """Memory of a process; what it shares with others is divided among them."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])


def precision(asked: Asked) -> None:
    """bf16 beside float32: the ConvNet at batch 100."""
    training = Training(lr=0.01, momentum=0.9, batch=100)
    usual = workload("fmnist-convnet")
    title = "Fashion-MNIST, 50 clients, 10 a round, FedReG's ConvNet, batch 100, 5 epochs"
    large = replace(usual, settings=usual.settings.with_(training=training), title=title)
    keep("precision", asked, large, [ours("float32"), ours("bf16", precision="bf16")])


def accuracy(asked: Asked) -> None:
    """What becomes of accuracy in bf16; no time is measured."""
    rows = [accuracies(name, settings, asked.data_dir) for name, settings in READ.items()]
    save("accuracy", {"method": "fedper", "seeds": SEEDS, "rows": rows})


def accuracies(name: str, settings: Settings, data_dir: str | None) -> dict[str, Any]:
    """G and P of one setting in both precisions, of each seed."""
    row: dict[str, Any] = {"setting": name}
    for kind in ("float32", "bf16"):
        results = [finished(settings, kind, seed, data_dir) for seed in range(SEEDS)]
        row[kind] = {
            "generic": [r.generic.last for r in results], "personal": [r.personal.last for r in results]
        }  # fmt: skip
    return row


def finished(settings: Settings, kind: str, seed: int, data_dir: str | None) -> Result:
    """The result of a whole run of FedPer."""
    asked = settings.with_given({"method": "fedper", "precision": kind, "seed": seed})[0]
    with tempfile.TemporaryDirectory() as folder, Processes(2) as executor:
        return runs.run(asked, out=Path(folder) / "run", data_dir=data_dir, executor=executor)


# writing ----------------------------------------------------------------------------------------------


def keep(name: str, asked: Asked, work: Workload, *arguments: Any, **options: Any) -> Race:
    """Holds a race and writes what it has shown."""
    say(f"{name}: {work.title}")
    shown = race(work, *arguments, **options, repeats=asked.repeats, data_dir=asked.data_dir, hear=say)
    write(name, shown.to_json())
    for line in race_table(shown).cells:
        say("  ".join(line))
    return shown


def save(name: str, shown: dict[str, Any]) -> None:
    about = {"machine": machine(), "versions": versions(), "date": today()}
    write(name, json.dumps(shown | about, indent=2))


def write(name: str, text: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


SECTIONS: dict[str, Callable[[Asked], None]] = {
    "limit": limit, "peers": peers, "reuse": reuse, "scale": scale, "precision": precision,
    "accuracy": accuracy,
}  # fmt: skip


def main() -> int:
    """Measures the sections that were asked for, goes on if one cannot be measured, and writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "sections", nargs="*", help=f"{', '.join(SECTIONS)}, page; everything if none is named"
    )
    parser.add_argument("--only", help="of the settings of a section this one")
    parser.add_argument("--data-dir", help="folder of the datasets' files")
    parser.add_argument("--repeats", type=int, default=7, help="laps of each side")
    given = parser.parse_args()
    if unknown := set(given.sections) - {*SECTIONS, "page"}:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}, page")
    asked, failed = Asked(given.data_dir, given.repeats, given.only), 0
    for name in given.sections or SECTIONS:
        try:
            if name != "page":
                SECTIONS[name](asked)
        except PluribusError as error:
            say(f"{name}: {error}")
            failed += not isinstance(error, DataNotFound)
    write_page()
    return failed


if __name__ == "__main__":
    sys.exit(main())
