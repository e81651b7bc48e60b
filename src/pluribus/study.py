"""A study: settings with the data, the clients and the model that they name, ready to run.

study = prepare(Settings(method="fedrep", data="digits", rounds=5))
for now in rounds(study.place, study.conduct):
    print(now.number, now.loss)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import data
from .cohort import Join
from .data.dataset import Dataset
from .data.division import Division, divide
from .data.federation import Federation, federate
from .engine import Conduct
from .errors import SettingError
from .memory import COPIES, ROOM, memory_of_machine, plan_of
from .models import MODELS, describe, for_clients, read_models
from .readings.evaluate import are_alike, why_no_generic
from .settings import Settings
from .turn import Built, Place, running_statistics


@dataclass(frozen=True, eq=False)
class Study:
    """All that a run needs; `warnings` name the settings that make it less than it seems."""

    settings: Settings  # resolved
    dataset: Dataset = field(repr=False)
    division: Division = field(repr=False)
    federation: Federation = field(repr=False)
    place: Place = field(repr=False)
    conduct: Conduct
    warnings: tuple[str, ...] = ()


def prepare(
    settings: Settings,
    data_dir: str | Path | None = None,
    *,
    download: bool = True,
    division: Callable[[Dataset], Division] | None = None,
) -> Study:
    """The study of these settings: data loaded and divided, the model built once, everything checked."""
    settings = settings.resolved()
    dataset = data.load(settings.data, data_dir, download=download)
    divided = division(dataset) if division else divided_by(settings, dataset)
    federation = federate(dataset, divided, dataset.scale(settings.normalise))
    check_somebody(settings, federation)
    check_model(settings, federation)
    place = place_of(settings, federation)
    check_networks(place)
    conduct = conduct_of(settings, place)
    plan_of(place, conduct).check(Path())
    warnings = tuple(warnings_of(settings, divided, federation, place))
    return Study(settings, dataset, divided, federation, place, conduct, warnings)


def divided_by(settings: Settings, dataset: Dataset) -> Division:
    """The dataset, divided as the settings say."""
    assert settings.pool != "auto"
    assert settings.test is not None
    assert settings.data_seed is not None
    return divide(
        dataset,
        settings.partition_value,
        clients=settings.clients,
        seed=settings.data_seed,
        pool=settings.pool,
        test=settings.test,
        val=settings.val,
        newcomers=settings.newcomers,
    )


def place_of(settings: Settings, federation: Federation) -> Place:
    """Where turns are taken."""
    assert settings.model_seed is not None
    return Place(
        method=settings.method_value,
        clients=federation.clients,
        newcomers=federation.newcomers,
        model=for_clients(read_models(settings.model, MODELS), [*federation.clients, *federation.newcomers]),
        shape=federation.shape,
        classes=federation.classes,
        training=settings.training,
        seed=settings.seed,
        model_seed=settings.model_seed,
        device=settings.device,
        statistics=None if settings.statistics == "method" else settings.statistics,
    )


def conduct_of(settings: Settings, place: Place) -> Conduct:
    """How the rounds are held. Whole models are watched only where there is no other G."""
    return Conduct(
        rounds=settings.rounds,
        join=Join.read(settings.join),
        drop=settings.drop,
        quorum=settings.quorum,
        watch=settings.eval_every if why_no_generic(place) and are_alike(place) else 0,
        keep_trained=settings.personal_on == "trained",
    )


# checked before work starts ---------------------------------------------------------------------------


def check_somebody(settings: Settings, federation: Federation) -> None:
    """An error if nobody has anything to train on."""
    if not any(len(client.train) for client in federation.clients.values()):
        raise SettingError(
            f"test = {settings.test} and val = {settings.val:g} leave no client an example to train on"
            "\n    smaller portions would do, or fewer clients"
        )


def check_model(settings: Settings, federation: Federation) -> None:
    """An error if the model alone cannot fit into this machine's memory; no weight is made to find out."""
    models = set(read_models(settings.model, MODELS))
    sizes = [describe(model, federation.shape, federation.classes).parameters for model in models]
    needed = COPIES * 4 * sum(sizes)
    if (memory := memory_of_machine()) and needed > ROOM * memory:
        raise SettingError(
            f"{settings.model} takes {needed / 1e9:.1f} GB to train; this machine has {memory / 1e9:.1f} GB "
            "of memory\n    a smaller model would do"
        )


def check_networks(place: Place) -> None:
    """An error if clients' networks differ in what they share: it could not be averaged."""
    first, *others = place.clients
    one = shapes_shared(place.built(first))
    for client in others:
        two = shapes_shared(place.built(client))
        if names := [n for n in {**one, **two} if one.get(n) != two.get(n)]:
            sizes = " and ".join(
                f"{s.get(names[0], 'missing')} of {k}" for s, k in ((one, first), (two, client))
            )
            raise SettingError(
                f"{type(place.method).__name__} shares {names[0]}, which is {sizes}: it cannot be averaged\n"
                "    one model for all clients would do, or a method that shares no such part: "
                "pfedpm, fedproto and local share none"
            )


def shapes_shared(built: Built) -> dict[str, tuple[int, ...]]:
    return {name: tuple(t.shape) for name, t in built.initial.items() if name in built.shares}


# what is legal, and rarely meant ----------------------------------------------------------------------


def warnings_of(
    settings: Settings, division: Division, federation: Federation, place: Place
) -> Iterator[str]:
    """A sentence for each setting that makes the run less than it seems."""
    yield from (f"{settings.method}: {why}" for why in place.method.dull())
    networks = place.networks.values()
    lacking = dict.fromkeys(why for built in networks for why in place.method.lacking(built.parts))
    yield from (f"{settings.method}: {settings.model} has {why}" for why in lacking)
    yield from about_training(settings, federation)
    yield from about_clients(settings, division, federation)
    running = any(running_statistics(built.parts) for built in place.networks.values())
    if settings.statistics != "method" and not running:
        yield f"statistics = {settings.statistics}: {settings.model} has no running statistics"


def about_training(settings: Settings, federation: Federation) -> Iterator[str]:
    training = settings.training
    largest = max(len(client.train) for client in federation.values())
    if training.lr == 0:
        yield "lr = 0: nothing is learned"
    if training.optimiser == "adam" and training.momentum:
        yield f"momentum = {training.momentum:g}: adam has its own and does not use it"
    if training.batch > largest:
        yield (
            f"batch = {training.batch}: no client has as many examples (at most {largest}), "
            "so an epoch is one step"
        )
    if late := [number for number, _ in training.lr_at if number > settings.rounds]:
        yield f"lr_at = {late[0]}=...: the run ends after round {settings.rounds}"


def about_clients(settings: Settings, division: Division, federation: Federation) -> Iterator[str]:
    join = Join.read(settings.join)
    if division.empty:
        yield f"{named(division.empty)} nothing to train on: never asked, but read"
    if not_read := [name for name, split in division.everyone.items() if not len(split.test)]:
        yield f"{named(not_read)} nothing to be tested on: not read"
    if join.number is not None and join.number > len(federation):
        yield f"join = {join}: there are {len(federation)} clients that train, so all of them join"
    if settings.newcomers and not settings.adapt_epochs:
        yield "adapt_epochs = 0: newcomers are read as adapted without having adapted"


def named(clients: list[str]) -> str:
    """`clients c03, c07 have`, and how many others."""
    shown, others = ", ".join(clients[:5]), len(clients) - 5
    more = f" and {others} more" if others > 0 else ""
    return f"client{'s' * (len(clients) > 1)} {shown}{more} {'have' if len(clients) > 1 else 'has'}"
