"""`pluribus bench`."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Option

from .options import AsJson, DataDir, Quiet
from .printing import note, show_json, show_table


def bench(
    setting: Annotated[
        str | None, Option(help="fmnist-cnn (usual), fmnist-convnet, cifar-pfl, or tiny.")
    ] = None,
    *,
    method: Annotated[str, Option(help="fedavg or fedper.")] = "fedavg",
    precision: Annotated[Literal["float32", "bf16"], Option(help="Of both sides.")] = "float32",
    repeats: Annotated[int | None, Option(help="Laps of each side; 5, if not given, 2 with --quick.")] = None,
    workers: Annotated[int, Option(help="Processes of one thread, on each side.")] = 2,
    quick: Annotated[
        bool, Option("--quick", help="A few laps, of `tiny` unless --setting says otherwise.")
    ] = False,
    data_dir: DataDir = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure whole rounds beside the bare passes in them, in turns: the ratio, and how it spreads."""
    from msgspec import to_builtins

    from ..bench import race, race_table, workload

    shown = race(
        workload(setting or ("tiny" if quick else "fmnist-cnn")), repeats=repeats or (2 if quick else 5),
        method=method, precision=precision, workers=workers, data_dir=data_dir,
        hear=(lambda text: None) if quiet else note,
    )  # fmt: skip
    show_json(to_builtins(shown)) if json else show_table(race_table(shown))
