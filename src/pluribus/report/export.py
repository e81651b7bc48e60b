"""A model to take home: what one client, or anybody, predicts with after a run, and how to load it.

tensors, manifest = export("runs/mine", client="3")
network = load(manifest)
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import safetensors
import safetensors.torch

from .. import spelling
from ..client import Client, Parts
from ..data.division import write_beside
from ..engine import Round
from ..errors import DataDamaged, DataNotFound, ModelError, UnknownName
from ..method import Predictors
from ..models import MODELS, Network
from ..readings.evaluate import generic_looks, personal_looks, why_no_generic
from ..readings.look import STAGES, Look
from ..runs import reopen
from ..seeds import lent
from ..stage import WELCOME
from ..state import select
from ..study import Study
from ..turn import Turn

FORMAT = "pluribus model 1"
HOW = "from pluribus.report.export import load; network = load(path of this file)"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to know of the tensors in the file beside it."""

    format: str = FORMAT
    load: str = HOW
    tensors: str
    client: str | None  # whose model it is; none: everybody's
    predictor: str
    method: str
    settings: dict[str, Any]  # the method's own
    data: str
    model: str
    shape: tuple[int, ...]  # of one input
    classes: tuple[str, ...]
    mean: tuple[float, ...]  # an input is (bytes / 255 - mean) / std, channel by channel
    std: tuple[float, ...]
    parts: dict[str, int]  # parameters of each


def export(
    folder: str | PathLike[str],
    *,
    client: str | None = None,
    out: str | PathLike[str] | None = None,
    data_dir: str | Path | None = None,
) -> tuple[Path, Path]:
    """The files of tensors and manifest: of this client's model, or of everybody's if no client is named."""
    study, now = reopen(folder, data_dir)
    look = generic_look(study, now) if client is None else look_of(study, now, named(client, everyone(study)))
    target = Path(out) if out is not None else Path(folder) / "export"
    return written(study, look, target, "generic" if client is None else look.clients[0])


# whose model ------------------------------------------------------------------------------------------


def everyone(study: Study) -> list[str]:
    place = study.place
    return [*place.clients, *place.newcomers]


def named(text: str, clients: Iterable[str]) -> str:
    """The client of this name, or of this number."""
    known = {client: client for client in clients}
    numbers = {str(int(client[1:])): client for client in known if client[1:].isdigit()}
    if found := known.get(text) or numbers.get(text):
        return found
    raise UnknownName("client", text, known)


def look_of(study: Study, now: Round, client: str) -> Look:
    """How this client is read; a newcomer, once it has adapted."""
    place, settings = study.place, study.settings
    if client in place.newcomers:
        message = place.method.message(now.server, client, WELCOME)
        return Look("welcome", (client,), message, {}, epochs=settings.adapt_epochs)
    looks = personal_looks(place, now, "test", settings.personal_on)
    return next(look for look in looks if look.clients == (client,))


def generic_look(study: Study, now: Round) -> Look:
    """How the model of everybody is read."""
    if why := why_no_generic(study.place):
        method = study.settings.method
        raise ModelError(f"{method} has no model for everybody, since {why}\n    a client's own: --client 0")
    return next(generic_looks(study.place, now, "test"))


# what is written --------------------------------------------------------------------------------------


def written(study: Study, look: Look, folder: Path, name: str) -> tuple[Path, Path]:
    """The model that the look sees, in two files of this name."""
    place, first = study.place, look.clients[0]
    with lent(place.seed, look.question, place.data_of(first).key, "noise"):
        client = place.seat(Turn(0, STAGES[look.question], first, look.message, 0, look.kept))
        predictor, parts = network_among(look.answer(place, client), client, study)
        path = select(parts.state_dict(), *parts.path)
        state = {n: t.detach().clone().contiguous() for n, t in path.items()}
        whose = None if name == "generic" else name
        made = manifest(study, parts, f"{name}.safetensors", predictor, first, whose)
    paths = folder / made.tensors, folder / f"{name}.json"
    write_beside(paths[0], safetensors.torch.save(state))
    write_beside(paths[1], msgspec.json.format(msgspec.json.encode(made)))
    return paths


def network_among(predictors: Predictors, client: Client, study: Study) -> tuple[str, Parts]:
    """The first predictor, which must be the network itself: all else needs the method to be loaded."""
    name, predictor = next(iter(predictors.items()))
    if predictor is not client.parts:
        raise ModelError(
            f"{study.settings.method} predicts with '{name}', which is more than its network; "
            "it cannot be exported"
        )
    return name, client.parts


def manifest(
    study: Study, parts: Parts, tensors: str, predictor: str, client: str, whose: str | None
) -> Manifest:
    settings = study.settings
    scale = study.dataset.scale(settings.normalise)
    return Manifest(
        tensors=tensors,
        client=whose,
        predictor=predictor,
        method=settings.method,
        settings=settings.set,
        data=settings.data,
        model=spelling.write(study.place.model_of(client), MODELS),
        shape=study.place.shape,
        classes=study.dataset.classes,
        mean=scale.mean,
        std=scale.std,
        parts={name: sum(p.numel() for p in parts[name].parameters()) for name in parts.path},
    )


# and read again ---------------------------------------------------------------------------------------


def load(path: str | PathLike[str]) -> Network:
    """The network of this manifest, ready to predict."""
    path = Path(path)
    try:
        made = msgspec.json.decode(path.read_bytes(), type=Manifest)
        state = safetensors.torch.load_file(path.with_name(made.tensors))
    except FileNotFoundError as error:
        raise DataNotFound(
            f"there is no {error.filename or path}\n    an export is two files, side by side"
        ) from None
    except (msgspec.MsgspecError, safetensors.SafetensorError, OSError) as error:
        raise DataDamaged(f"{path} is no exported model: {error}\n    export it again") from error
    network: Network = spelling.read(made.model, MODELS, "model").build(made.shape, len(made.classes))
    network.load_state_dict(state)
    return network.eval()
