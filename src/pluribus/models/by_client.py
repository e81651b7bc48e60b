"""Networks that differ between clients, spelled one after the other: `mlp:200|mlp:100|mlp:50`.

Clients and newcomers, in the order of their names, are cut into as many blocks in a row, of equal size
but that the first ones have one client more where it does not come out even: of 20 clients and three
models c00 to c06 have the first, c07 to c13 the second, c14 to c19 the third, as in pFedPM-mh.  A model
that stands twice has two blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .. import spelling
from ..errors import SettingError
from .network import Model

BETWEEN = "|"


@dataclass(frozen=True)
class ByClient:
    """Each client's own model, by the client's name."""

    models: Mapping[str, Model]

    def __call__(self, client: str) -> Model:
        return self.models[client]


def read_models(text: str, catalogue: Mapping[str, type]) -> tuple[Model, ...]:
    """The models that the text spells: one for all clients, or several."""
    return tuple(spelling.read(piece, catalogue, "model") for piece in text.split(BETWEEN))


def write_models(models: Sequence[Model], catalogue: Mapping[str, type]) -> str:
    """The shortest text that spells them; several that are equal are one."""
    different = models if len(set(models)) > 1 else models[:1]
    return BETWEEN.join(spelling.write(model, catalogue) for model in different)


def for_clients(models: Sequence[Model], clients: Sequence[str]) -> Model | ByClient:
    """One model for all, or for each client, by its place in the row, the one of its block."""
    if len(models) == 1:
        return models[0]
    if len(models) > len(clients):
        raise SettingError(
            f"model names {len(models)} networks, but there are {len(clients)} clients\n"
            "    as many networks as clients, or fewer, would do"
        )
    names, size, more = sorted(clients), *divmod(len(clients), len(models))
    ends = [size * n + min(n, more) for n in range(len(models) + 1)]
    blocks = zip(models, pairwise(ends), strict=True)
    return ByClient({name: model for model, (first, end) in blocks for name in names[first:end]})
