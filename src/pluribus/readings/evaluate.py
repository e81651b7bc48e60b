"""Every reading of every client after a round: generic, personal, and of those who never took part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..engine import Round
from ..executors import Executor
from ..executors.serial import Serial
from ..ledger import Held
from ..stage import GENERIC, PERSONAL, WELCOME
from ..state import Tensors, average, of_parts
from ..turn import Place
from ..usual import network_as_received
from .look import Look, Split
from .score import Score, Summary, summary

PersonalOn = Literal["received", "trained"]
EXAMPLES_A_LOOK = 4096  # of clients that share a model; a constant, so that workers do not change a number


@dataclass(frozen=True)
class Readings:
    """{"personal/network": {client: score}}; the first of a kind is the one that is meant by its name."""

    scores: Mapping[str, Mapping[str, Score]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)  # a kind there is no reading of, and why

    def named(self, kind: str) -> str | None:
        """The full name of a kind's first reading."""
        return next((name for name in self.scores if name.split("/", 1)[0] == kind), None)

    def summary(self, kind: str) -> Summary | None:
        name = kind if kind in self.scores else self.named(kind)
        return summary(self.scores[name]) if name else None

    def accuracy(self, kind: str) -> float | None:
        found = self.summary(kind)
        return found.accuracy if found else None

    def client(self, client: str) -> dict[str, Score]:
        return {name: each[client] for name, each in self.scores.items() if client in each}

    def __or__(self, other: Readings) -> Readings:
        return Readings({**self.scores, **other.scores}, {**self.missing, **other.missing})


def evaluate(
    place: Place,
    now: Round,
    executor: Executor | None = None,
    *,
    split: Split = "test",
    personal_on: PersonalOn = "received",
    whole: Mapping[str, Tensors] | None = None,
) -> Readings:
    """G and P of every client. `whole` are trained models of a round's clients, where there is no other G."""
    looks = [("personal", look) for look in together(place, personal_looks(place, now, split, personal_on))]
    why = why_no_generic(place)
    mean = mean_of_whole(place, whole) if why and whole else None
    if not why:
        looks += [("generic", look) for look in together(place, generic_looks(place, now, split))]
    elif mean:
        looks += [("generic/whole models", look) for look in together(place, whole_looks(place, split, mean))]
    apart = "" if are_alike(place) else ", and clients' networks differ: there is no mean of whole ones"
    missing = {"generic": f"{why}{apart}"} if why and not mean else {}
    return Readings(collected(place, looks, executor), missing)


def welcome(place: Place, now: Round, executor: Executor | None = None, *, epochs: int) -> Readings:
    """What newcomers get without training (zero-shot) and after so many epochs of their own (adapted)."""
    looks = [
        (name, Look("welcome", (k,), place.method.message(now.server, k, WELCOME), {}, "test", e))
        for name, e in (("zero-shot", 0), ("adapted", epochs))
        for k, data in place.newcomers.items()
        if len(data.test)
    ]
    return Readings(collected(place, looks, executor))


def why_no_generic(place: Place) -> str | None:
    """The method's reason, if it has no generic predictor."""
    return place.method.why_no_generic()


def are_alike(place: Place) -> bool:
    """Whether all clients have the same network."""
    return len({id(place.built(k)) for k in place.clients}) == 1


def personal_looks(place: Place, now: Round, split: Split, personal_on: PersonalOn) -> Iterator[Look]:
    for k in place.clients:
        held = now.held.of(k)
        message = place.method.message(now.server, k, PERSONAL)
        if personal_on == "trained" and held.trained:
            message = {**message, **held.trained}
        yield Look("personal", (k,), message, held.kept, split)


def generic_looks(place: Place, now: Round, split: Split) -> Iterator[Look]:
    """Whatever anybody would predict with; only running statistics that stay local are a client's own."""
    for k in place.clients:
        local = statistics_of(place, k, now.held.of(k))
        yield Look("generic", (k,), place.method.message(now.server, k, GENERIC), local, split)


def whole_looks(place: Place, split: Split, message: Tensors) -> Iterator[Look]:
    """What the mean of whole models predicts; it is read like a personal model that nobody has changed."""
    for k in place.clients:
        yield Look("personal", (k,), message, {}, split)


def statistics_of(place: Place, client: str, held: Held) -> Tensors:
    local = place.built(client).statistics
    return {n: t for n, t in held.kept.items() if n in local}


def mean_of_whole(place: Place, whole: Mapping[str, Tensors]) -> Tensors | None:
    """The mean by examples of whole models, personal parts and all; none if networks differ."""
    if not are_alike(place):
        return None
    floating = [{n: t for n, t in tensors.items() if t.is_floating_point()} for tensors in whole.values()]
    return average(floating, [len(place.clients[k].train) for k in whole])


def together(place: Place, looks: Iterator[Look]) -> Iterator[Look]:
    """Looks through the same model as one, up to a number of examples: a model is tried once."""
    open_groups: dict[object, list[Look]] = {}
    sizes: dict[object, int] = {}
    for look in looks:
        size = len(getattr(place.data_of(look.clients[0]), look.split))
        if not size:
            continue
        if (key := model_key(place, look)) is None:
            yield look
            continue
        if sizes.get(key, 0) + size > EXAMPLES_A_LOOK and key in open_groups:
            yield merged(open_groups.pop(key))
            sizes[key] = 0
        open_groups.setdefault(key, []).append(look)
        sizes[key] = sizes.get(key, 0) + size
    yield from map(merged, open_groups.values())


def merged(looks: Sequence[Look]) -> Look:
    first = looks[0]
    return replace(first, clients=tuple(k for look in looks for k in look.clients))


def model_key(place: Place, look: Look) -> object | None:
    """Equal for looks through the same model; None for one that is its client's own."""
    plain = getattr(type(place.method), look.question) is network_as_received
    if of_parts(look.kept) or not (plain or look.question == "generic"):
        return None
    return id(look.message), id(place.built(look.clients[0])), "network" if plain else "generic"


def collected(
    place: Place, looks: Sequence[tuple[str, Look]], executor: Executor | None
) -> dict[str, dict[str, Score]]:
    """Does the looks, the same one once, and sorts the scores by reading and client."""
    keys = [
        (model_key(place, look) or number, look.clients, look.split) for number, (_, look) in enumerate(looks)
    ]
    different = {
        key: replace(look, number=number)
        for number, (key, (_, look)) in enumerate(zip(keys, looks, strict=True))
    }
    seen = {
        sight.number: sight.scores for sight in (executor or Serial()).run(place, list(different.values()))
    }
    scores: dict[str, dict[str, Score]] = {}
    for key, (kind, _) in zip(keys, looks, strict=True):
        for predictor, each in seen[different[key].number].items():
            scores.setdefault(kind if "/" in kind else f"{kind}/{predictor}", {}).update(each)
    return {name: {k: each[k] for k in sorted(each)} for name, each in scores.items()}
