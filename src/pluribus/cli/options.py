"""The options that decide the numbers, written once for all verbs that train.

None of them has a default here: what is not given is left to `Settings`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from typer import Option

AsJson = Annotated[bool, Option("--json", help="One JSON document on stdout.")]
AsMarkdown = Annotated[bool, Option("--markdown", help="The table as Markdown.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress; results, warnings and errors only.")]
DataDir = Annotated[Path | None, Option(help="Folder to look in for the dataset's files first.")]
Executor = Annotated[
    Literal["auto", "serial", "processes"],
    Option(help="Where turns happen: in this process, on workers, or auto. The numbers are the same."),
]
Workers = Annotated[int | None, Option(help="Worker processes; one a core if not given.")]
Cells = Annotated[Path | None, Option(help="Folder of finished cells; results/cells, if not given.")]
Memory = Annotated[
    float | None,
    Option(help="Gigabytes the run may take, if not most of the machine's; states past that lie in files."),
]
DATA, CLIENTS, TRAINING, READING = "Data", "Clients", "Training", "Readings"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What may be given to `run` and `compare`; None, or nothing in a list, is not given."""

    config: Annotated[
        Path | None, Option(help="A settings.toml to start from; options given here override it.")
    ] = None
    data: Annotated[
        str | None, Option(help="Dataset, as listed by `pluribus datasets`.", rich_help_panel=DATA)
    ] = None
    data_dir: DataDir = None
    pool: Annotated[
        str | None,
        Option(
            help="Rows that take part: mix (official training and test rows), train, or official.",
            rich_help_panel=DATA,
        ),
    ] = None
    normalise: Annotated[
        str | None,
        Option(
            help="How bytes become inputs: half (-1 to 1), statistics (mean 0, deviation 1), none (0 to 1).",
            rich_help_panel=DATA,
        ),
    ] = None
    test: Annotated[
        float | None, Option(help="Portion of a client's rows that it is tested on.", rich_help_panel=DATA)
    ] = None
    val: Annotated[
        float | None,
        Option(
            help="Portion of the other rows by which the round `selected` is chosen.", rich_help_panel=DATA
        ),
    ] = None

    partition: Annotated[
        str | None,
        Option(
            help="How the data are divided, e.g. dirichlet:0.1, pathological:2, iid.", rich_help_panel=CLIENTS
        ),
    ] = None
    clients: Annotated[
        int | None, Option(help="How many clients there are, newcomers among them.", rich_help_panel=CLIENTS)
    ] = None
    newcomers: Annotated[
        int | None,
        Option(
            help="How many of the clients never take part and are read at the end.", rich_help_panel=CLIENTS
        ),
    ] = None
    join: Annotated[
        str | None,
        Option(
            help="Who takes part in a round: a rate (0.2), a number (10), or a range of rates (0.5..1).",
            rich_help_panel=CLIENTS,
        ),
    ] = None
    drop: Annotated[
        float | None,
        Option(help="Chance that a client that is asked does not answer.", rich_help_panel=CLIENTS),
    ] = None

    rounds: Annotated[int | None, Option(help="Rounds of the run.", rich_help_panel=TRAINING)] = None
    epochs: Annotated[
        int | None,
        Option(
            help="Epochs of a client's turn, for methods that have a setting of this name.",
            rich_help_panel=TRAINING,
        ),
    ] = None
    model: Annotated[
        str | None,
        Option(
            help="Model, e.g. convnet or mlp:200+100; auto chooses by the images' size. Several are for "
            "clients that differ: 'mlp:200|mlp:100'.",
            rich_help_panel=TRAINING,
        ),
    ] = None
    batch: Annotated[int | None, Option(help="Examples in a batch.", rich_help_panel=TRAINING)] = None
    lr: Annotated[float | None, Option(help="Learning rate.", rich_help_panel=TRAINING)] = None
    momentum: Annotated[float | None, Option(help="Momentum of SGD.", rich_help_panel=TRAINING)] = None
    weight_decay: Annotated[float | None, Option(help="Weight decay.", rich_help_panel=TRAINING)] = None
    optimiser: Annotated[str | None, Option(help="sgd or adam.", rich_help_panel=TRAINING)] = None
    lr_decay: Annotated[
        float | None, Option(help="Factor on the learning rate after each round.", rich_help_panel=TRAINING)
    ] = None
    lr_at: Annotated[
        list[str] | None,
        Option(
            metavar="ROUND=RATE",
            help="From this round on, this learning rate; may be given several times.",
            rich_help_panel=TRAINING,
        ),
    ] = None
    augment: Annotated[
        str | None,
        Option(
            help="Changes to images in training: none, flips, crop-flip, dualfed, simple, auto.",
            rich_help_panel=TRAINING,
        ),
    ] = None
    precision: Annotated[
        str | None, Option(help="Of matrix products: float32, bf16, or auto.", rich_help_panel=TRAINING)
    ] = None
    device: Annotated[
        str | None, Option(help="cpu, cuda (never run by us), or auto.", rich_help_panel=TRAINING)
    ] = None
    last_batch: Annotated[
        str | None,
        Option(help="keep or drop what is left over after the last whole batch.", rich_help_panel=TRAINING),
    ] = None
    statistics: Annotated[
        str | None,
        Option(
            help="Running statistics of batch normalisation: method (as it says), average, or local.",
            rich_help_panel=TRAINING,
        ),
    ] = None
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the method; may be given several times.",
            rich_help_panel=TRAINING,
        ),
    ] = None
    data_seed: Annotated[
        int | None, Option(help="Seed of the partition; the seed, if not given.", rich_help_panel=TRAINING)
    ] = None
    model_seed: Annotated[
        int | None,
        Option(help="Seed of the initial network; the seed, if not given.", rich_help_panel=TRAINING),
    ] = None

    eval_every: Annotated[
        int | None,
        Option(help="Read everybody every so many rounds, and after the last.", rich_help_panel=READING),
    ] = None
    adapt_epochs: Annotated[
        int | None,
        Option(help="Epochs a newcomer trains before it is read as adapted.", rich_help_panel=READING),
    ] = None
    personal_on: Annotated[
        str | None,
        Option(
            help="P is read on what a client just received, or on what it trained last: received, trained.",
            rich_help_panel=READING,
        ),
    ] = None

    def settings(self, **more: Any) -> dict[str, Any]:
        """What was given of the settings, and what else was, by their names."""
        values = {f.name.rstrip("_"): getattr(self, f.name) for f in fields(self)} | more
        return {
            name: value
            for name, value in values.items()
            if value not in (None, []) and name not in ("config", "data_dir")
        }


def spread(verb: Callable[..., None], without: tuple[str, ...] = ()) -> Callable[..., None]:
    """The verb with the fields of its `options` as options of its own."""
    hints = get_type_hints(verb, include_extras=True)
    own = [p.replace(annotation=hints[p.name]) for p in inspect.signature(verb).parameters.values()]
    names = [f.name for f in fields(Options) if f.name not in without]

    def spread_out(**given: Any) -> None:
        options = Options(**{name: given.pop(name) for name in names})
        verb(options=options, **given)

    parameters = [p for p in own if p.name != "options"] + as_parameters(names)
    spread_out.__name__, spread_out.__doc__ = verb.__name__, verb.__doc__
    spread_out.__annotations__ = {p.name: p.annotation for p in parameters}
    spread_out.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return spread_out


def as_parameters(names: Sequence[str]) -> list[inspect.Parameter]:
    """The fields of these names, as parameters that need not be given."""
    hints = get_type_hints(Options, include_extras=True)
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hints[name])
        for name in names
    ]
