"""What every method must do, whatever it does: each check is tried on every line of the catalogue.

    for contract in CONTRACTS:
        contract(FedAvg(), World())

A check's docstring says what holds; laws U1 to U12 are named.  A method that needs another setting than
the usual toy says so in its World.
"""

from __future__ import annotations

import dataclasses
import io
import math
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from pluribus.cohort import Join
from pluribus.engine import Conduct, Round, rounds
from pluribus.errors import SettingError
from pluribus.executors import Executor
from pluribus.executors.devices import Devices
from pluribus.executors.scripted import Fate, Scripted
from pluribus.executors.serial import Serial
from pluribus.ledger import Held, Ledger
from pluribus.method import Method, Server, Statistics, Upload
from pluribus.readings.evaluate import Readings, evaluate, welcome
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, Stage
from pluribus.state import Tensors, digest, num_bytes, of_parts
from pluribus.store import Store
from pluribus.training import Training
from pluribus.turn import Model, Outcome, Place, Turn
from toy import CLASSES, FEATURES, INPUTS, PEOPLE, Net, Person, hashes, history, people, place

EVERYBODY = Join()
ENCODER = 4 * (INPUTS * FEATURES + FEATURES)  # bytes of float32: 4 (6·8 + 8) = 224
HEAD = 4 * (FEATURES * CLASSES + CLASSES)  # 4 (8·4 + 4) = 144
NORM = 4 * 2 * FEATURES  # scale and shift of batch normalisation


def two_newcomers() -> dict[str, Person]:
    return {
        f"n{k}": replace(person, id=f"n{k}", key=f"n{k}") for k, person in enumerate(people(2, 30).values())
    }


@dataclass(frozen=True, eq=False)
class World:
    """A toy setting in which a method is tried, and what is special about the method there."""

    clients: Mapping[str, Person] = field(default_factory=lambda: PEOPLE)
    model: Model | Callable[[str], Model] = Net()
    training: Training = Training(lr=0.1, batch=8)
    statistics: Statistics | None = None
    newcomers: Mapping[str, Person] = field(default_factory=two_newcomers)
    rounds: int = 4
    averages: bool = True  # what is sent of shared parts is averaged, and nothing else is done to it
    resting: Mapping[str, float] = field(default_factory=dict)  # the method's own learning rates, at rest
    moves: frozenset[str] = frozenset()  # tensors that move although nothing learns
    idle: frozenset[str] = frozenset()  # personal tensors that do not learn: what follows undoes them
    down: int | None = None  # payload bytes of a client in a round, if always the same
    up: int | None = None

    def place(self, method: Method, **changes: Any) -> Place:
        settings = {
            "clients": self.clients,
            "model": self.model,
            "training": self.training,
            "statistics": self.statistics,
            "newcomers": self.newcomers,
        }
        return place(method, **{**settings, **changes})

    def model_of(self, client: str) -> Model:
        return self.model if hasattr(self.model, "build") else self.model(client)


@dataclass(frozen=True)
class Networks:
    """Another name, the same network: for worlds in which clients have networks of their own."""

    model_of: Callable[[str], Model]
    name_of: Callable[[str], str]
    norm: bool = False

    def __call__(self, client: str) -> Model:
        model: Any = self.model_of(self.name_of(client))
        named: Model = replace(model, norm=True) if self.norm else model
        return named


def itself(client: str) -> str:
    return client


@cache
def run(method: Method, world: World) -> list[Round]:
    """The rounds of the usual run, in one process."""
    return history(world.place(method), number=world.rounds)


def other(
    method: Method,
    world: World,
    *,
    executor: Executor | None = None,
    after: Round | None = None,
    store: Store | None = None,
    conduct: Mapping[str, Any] | None = None,
    **changes: Any,
) -> list[Round]:
    """The rounds of a run that differs from the usual one in this."""
    at = world.place(method, **changes)
    return history(at, number=world.rounds, executor=executor, after=after, store=store, **(conduct or {}))


class Recording:
    """An executor that remembers, for each stage, every turn and what came of it."""

    def __init__(self) -> None:
        self.stages: list[dict[str, tuple[Turn, Outcome]]] = []

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        self.stages.append({})
        for turn in items:
            outcome = work(turn)
            self.stages[-1][turn.client] = (turn, outcome)
            yield outcome


@cache
def recorded(method: Method, world: World) -> tuple[list[Round], list[dict[str, tuple[Turn, Outcome]]]]:
    """The rounds of the usual run, and the turns of each."""
    executor = Recording()
    return other(method, world, executor=executor), executor.stages


def same(one: Sequence[Round], two: Sequence[Round]) -> bool:
    return [hashes(now) for now in one] == [hashes(now) for now in two]


def for_everyone(rounds_: Sequence[Round]) -> bool:
    return all(now.stage is None or now.stage.everyone for now in rounds_)


def kept_by(now: Round | None, client: str) -> str:
    return digest(now.held.of(client).kept if now else {})


# where and when it runs changes nothing -----------------------------------------------------------


def check_the_same_seed_gives_the_same_bits_and_another_seed_does_not(method: Method, world: World) -> None:
    """U1."""
    assert same(run(method, world), other(method, world))
    assert not same(run(method, world), other(method, world, seed=1, model_seed=0))
    assert not same(run(method, world), other(method, world, seed=0, model_seed=1))


def check_the_global_generator_is_neither_read_nor_moved(method: Method, world: World) -> None:
    """Not by building, training or reading."""
    torch.manual_seed(7)
    before = torch.get_rng_state()
    now = other(method, world)[-1]
    every_reading(method, world, now)

    assert torch.equal(before, torch.get_rng_state())
    assert hashes(now) == hashes(run(method, world)[-1])


def check_two_builds_are_equal(method: Method, world: World) -> None:
    """Whatever the global generator is at, and for each client."""
    for client in world.clients:
        at = world.place(method)
        torch.manual_seed(1)
        one = at.build(world.model_of(client))
        torch.manual_seed(2)
        two = at.build(world.model_of(client))
        assert digest(one.initial) == digest(two.initial)


def check_replies_in_another_order_or_twice_change_nothing(method: Method, world: World) -> None:
    twice = Scripted(lambda turn: "twice" if turn.client == "c1" else "ok")
    for executor in (Scripted(), Scripted(seed=7), twice):
        assert same(run(method, world), other(method, world, executor=executor))


class Elsewhere:
    """A stand-in for worker processes: place, turns and outcomes arrive as bytes."""

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        there = through_bytes(work)
        for item in items:
            yield through_bytes(there(through_bytes(item)))


def through_bytes(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def check_turns_in_another_process_are_the_same(method: Method, world: World) -> None:
    assert same(run(method, world), other(method, world, executor=Elsewhere()))


def check_what_lies_in_files_is_the_same(method: Method, world: World) -> None:
    """All that is sent and kept, or what is past the first kilobyte of it."""
    for room in (0, 1000):
        assert same(run(method, world), other(method, world, store=Store(room)))


def saved(now: Round) -> Round:
    """Through bytes and back, tensors and numbers only: what a checkpoint may hold."""
    server = {f.name: plain(getattr(now.server, f.name)) for f in dataclasses.fields(now.server)}
    held = {k: (plain(h.kept), h.since, h.owes) for k, h in now.held.items()}
    file = io.BytesIO()
    torch.save({"server": server, "held": held, "counts": (now.number, now.exchanges, now.barren)}, file)
    file.seek(0)
    tree = torch.load(file, weights_only=True)
    number, exchanges, barren = tree["counts"]
    ledger = Ledger().with_({k: Held(*entry) for k, entry in tree["held"].items()})
    return Round(number, exchanges, None, Server(**tree["server"]), ledger, barren=barren)


def plain(tensors: Any) -> Any:
    return {n: plain(t) for n, t in tensors.items()} if isinstance(tensors, Mapping) else tensors


def check_resumed_equals_uninterrupted(method: Method, world: World) -> None:
    """U1, from every round."""
    full = run(method, world)
    for at in range(1, len(full)):
        assert same(other(method, world, after=saved(full[at - 1])), full[at:])


def lossy() -> Scripted:
    """Drops and delays; who is asked again answers."""
    seen = set()

    def fate(turn: Turn) -> Fate:
        again = (turn.number, turn.client) in seen
        seen.add((turn.number, turn.client))
        roll = int(torch.randint(4, (), generator=generator("fate", turn.number, turn.client)))
        fates: tuple[Fate, ...] = ("ok", "ok", "drop", "late")
        return "ok" if again else fates[roll]

    return Scripted(fate)


def dropping() -> Scripted:
    """Drops whatever `lossy` drops or delays."""
    fate = lossy().fate
    return Scripted(lambda turn: "ok" if fate(turn) == "ok" else "drop")


def check_a_late_turn_is_a_lost_turn_is_no_turn(method: Method, world: World) -> None:
    """On a network that loses, wherever the clients keep what they keep."""
    one = other(method, world, executor=lossy())
    for executor in (lossy(), dropping(), Devices(lossy())):
        assert same(one, other(method, world, executor=executor))

    lost = 0
    for before, now in zip([None, *one[:-1]], one, strict=True):
        for client in set(now.cohort) - set(now.heard):
            lost += 1
            assert client not in now.up
            assert kept_by(now, client) == kept_by(before, client)
    assert lost or for_everyone(one)


def check_watching_changes_nothing(method: Method, world: World) -> None:
    assert same(run(method, world), other(method, world, conduct={"watch": 1}))
    assert same(run(method, world), other(method, world, conduct={"keep_trained": True}))


# nothing changes but what should ------------------------------------------------------------------


def check_a_yielded_round_never_changes(method: Method, world: World) -> None:
    seen = []
    for now in other(method, world):
        seen.append((now, hashes(now)))
        every_reading(method, world, now)
    assert all(hashes(now) == then for now, then in seen)


def check_what_is_received_and_kept_is_not_changed_in_place(method: Method, world: World) -> None:
    at = world.place(method)
    for turn, outcome in (pair for stage in recorded(method, world)[1] for pair in stage.values()):
        before = digest(turn.message), digest(turn.kept)
        again = at.take(turn)
        assert (digest(turn.message), digest(turn.kept)) == before
        assert digest(again.tensors or {}) == digest(outcome.tensors or {})


def check_who_was_not_asked_kept_everything(method: Method, world: World) -> None:
    """U3."""
    at_home = 0
    all_rounds = run(method, world)
    for before, now in zip([None, *all_rounds[:-1]], all_rounds, strict=True):
        for client in set(world.clients) - set(now.cohort):
            at_home += 1
            assert kept_by(now, client) == kept_by(before, client)
    assert at_home or for_everyone(all_rounds)


def check_fixed_parts_never_move(method: Method, world: World) -> None:
    """U3: nobody trains them, sends them or keeps them."""
    at = world.place(method)
    now = other(method, world, conduct={"watch": 1})[-1]
    for client, trained in now.trained.items():
        built = at.built(client)
        told = of_parts(method.message(now.server, client, PERSONAL))
        for name in (n for n in trained if n.partition(".")[0] in built.fixed and n not in told):
            assert torch.equal(trained[name], built.initial[name]), name


def check_who_comes_back_finds_everything(method: Method, world: World) -> None:
    """Its personal parts as it left them, and learnt; what it received, as it was sent."""
    at, now = world.place(method), run(method, world)[-1]
    for client, held in now.held.items():
        message, fresh = method.message(now.server, client, PERSONAL), at.built(client).initial
        state = at.seat(Turn(7, PERSONAL, client, message, 0, held.kept)).parts.state_dict()
        for name, tensor in state.items():
            assert torch.equal(tensor, message.get(name, held.kept.get(name, fresh[name]))), name
        own = [n for n in of_parts(held.kept).keys() - world.idle if not n.endswith("num_batches_tracked")]
        assert all(not torch.equal(held.kept[n], fresh[n]) for n in own), "personal parts have learnt"
        assert set(of_parts(held.kept)) == at.built(client).stays


def check_personal_parts_never_travel(method: Method, world: World) -> None:
    """Neither under their own name nor under another."""
    executor, at = Recording(), world.place(method)
    all_rounds = other(method, world, executor=executor, conduct={"watch": 1})
    for turn, outcome in (pair for stage in executor.stages for pair in stage.values()):
        personal = [t for n, t in (outcome.trained or {}).items() if n in at.built(turn.client).stays]
        personal += [t for n, t in of_parts(turn.kept).items() if n in at.built(turn.client).stays]
        for name, sent in (outcome.tensors or {}).items():
            assert name not in at.built(turn.client).stays, name
            assert not any(
                t.numel() > 1 and t.shape == sent.shape and torch.equal(t, sent) for t in personal
            ), name
    for now in all_rounds:
        for client in world.clients:
            assert not at.built(client).stays & set(method.message(now.server, client, PERSONAL))


# readings -----------------------------------------------------------------------------------------


def every_reading(method: Method, world: World, now: Round) -> Readings:
    at = world.place(method)
    return evaluate(at, now, Serial()) | welcome(at, now, Serial(), epochs=1)


def check_readings_are_fractions_are_equal_twice_and_change_nothing(method: Method, world: World) -> None:
    """U11."""
    for now in (run(method, world)[0], run(method, world)[-1]):
        before = hashes(now)

        one, two = every_reading(method, world, now), every_reading(method, world, now)

        assert one == two
        assert hashes(now) == before
        assert all(
            math.isfinite(s.accuracy) and 0 <= s.accuracy <= 1
            for each in one.scores.values()
            for s in each.values()
        )
        assert set(one.scores[one.named("personal") or ""]) == set(world.clients)
        for kind in ("zero-shot", "adapted"):
            assert set(one.scores[one.named(kind) or ""]) == set(world.newcomers)
        assert bool(one.named("generic")) != bool(one.missing.get("generic")), (
            "there is a generic reading, or a reason"
        )


def check_reading_in_between_changes_no_later_round(method: Method, world: World) -> None:
    """U11: around a round, on the very place that trains."""
    at, seen = world.place(method), []
    for now in rounds(at, Conduct(rounds=world.rounds, join=Join(number=3))):
        evaluate(at, now, Serial())
        welcome(at, now, Serial(), epochs=1)
        seen.append(hashes(now))

    assert seen == [hashes(now) for now in run(method, world)]


# laws ---------------------------------------------------------------------------------------------


def check_learning_at_rate_zero_moves_nothing(method: Method, world: World) -> None:
    """U2, exact: neither what is shared nor what is personal."""
    resting = replace(method, **world.resting)
    at = world.place(resting, training=replace(world.training, lr=0.0))
    for now in history(at, number=world.rounds):
        pairs = [(now.server.shared, at.built(next(iter(world.clients))).initial)]
        pairs += [(held.kept, at.built(client).initial) for client, held in now.held.items()]
        for tensors, initial in pairs:
            for name in of_parts(tensors).keys() - world.moves:
                assert torch.equal(tensors[name], initial[name]), name


def check_bytes_are_what_was_sent(method: Method, world: World) -> None:
    """U4: of those who were asked, and what the sheet's formula says where the world states it."""
    all_rounds, turns = recorded(method, world)
    for now, stage in zip(all_rounds, turns, strict=True):
        assert now.down == {client: num_bytes(turn.message) for client, (turn, _) in stage.items()}
        assert now.up == {client: num_bytes(outcome.tensors or {}) for client, (_, outcome) in stage.items()}
        assert set(now.down) == set(now.cohort)
        for formula, counted in ((world.down, now.down), (world.up, now.up)):
            assert formula is None or set(counted.values()) == {formula}


def check_the_order_of_clients_does_not_matter(method: Method, world: World) -> None:
    """U5."""
    backwards = dict(reversed(list(world.clients.items())))

    assert same(run(method, world), other(method, world, clients=backwards))


def original(client: str) -> str:
    return client.partition("-")[2]


def check_renaming_clients_renames_what_they_keep_and_nothing_else(method: Method, world: World) -> None:
    """U5, as amended: they keep the keys of their randomness."""
    names = {k: f"{99 - i}-{k}" for i, k in enumerate(world.clients)}  # in another order, too
    clients = {names[k]: replace(p, id=names[k]) for k, p in world.clients.items()}
    model = world.model if hasattr(world.model, "build") else Networks(world.model, original)

    renamed = other(method, world, clients=clients, model=model)

    for one, two in zip(run(method, world), renamed, strict=True):
        shared, memory, of, kept = hashes(two)
        assert hashes(one) == (
            shared,
            memory,
            {original(k): d for k, d in of.items()},
            {original(k): d for k, d in kept.items()},
        )


def not_twin(client: str) -> str:
    return client.partition("-")[0]


def check_equal_clients_send_equal_uploads(method: Method, world: World) -> None:
    """U6: data, state and random keys equal; only the name differs."""
    twins = {f"{k}-twin": replace(p, id=f"{k}-twin") for k, p in world.clients.items()}
    model = world.model if hasattr(world.model, "build") else Networks(world.model, not_twin)
    at = world.place(method, clients=twins, model=model)
    for turn, outcome in (pair for stage in recorded(method, world)[1] for pair in stage.values()):
        twin = at.take(replace(turn, client=f"{turn.client}-twin"))

        assert digest(twin.tensors or {}) == digest(outcome.tensors or {})
        assert digest(twin.kept) == digest(outcome.kept)


def uploads_of(stage: Mapping[str, tuple[Turn, Outcome]], clients: Mapping[str, Person]) -> dict[str, Upload]:
    return {
        k: Upload(outcome.tensors, len(clients[k].train))
        for k, (_, outcome) in stage.items()
        if outcome.tensors is not None
    }


def check_an_average_lies_between_what_was_sent(method: Method, world: World) -> None:
    """U7, to one step of float32."""
    averaged = 0
    for now, stage in zip(*recorded(method, world), strict=True):
        uploads = [u.tensors for u in uploads_of(stage, world.clients).values()]
        for name in (
            of_parts(uploads[0] if uploads and world.averages else {}).keys() & now.server.shared.keys()
        ):
            sent = torch.stack([u[name] for u in uploads])
            low, high = (
                torch.nextafter(sent.amin(0), torch.tensor(-math.inf)),
                torch.nextafter(sent.amax(0), torch.tensor(math.inf)),
            )
            averaged += 1
            assert bool(((low <= now.server.shared[name]) & (now.server.shared[name] <= high)).all()), name
    assert averaged or not world.averages or not travels(method, world)


def travels(method: Method, world: World) -> bool:
    return any(any(now.up.values()) for now in run(method, world))


def weighing(
    examples: int, method: Method, server: Server, uploads: Mapping[str, Upload], now: Round
) -> Server:
    """The next server if everybody had so many examples."""
    assert now.stage
    equal = {k: replace(u, examples=examples) for k, u in uploads.items()}
    return method.aggregate(server, equal, now.stage, generator("aggregate"))


def check_equal_sizes_weigh_the_same(method: Method, world: World) -> None:
    """U8: seven examples each is one example each."""
    all_rounds, stages = recorded(method, world)
    at = world.place(method)
    start = method.start(at.seat(Turn(0, PERSONAL, "c0", {}, 0, {})).tensors(), tuple(sorted(world.clients)))
    for before, now, stage in zip([None, *all_rounds[:-1]], all_rounds, stages, strict=True):
        uploads = uploads_of(stage, world.clients)
        if uploads:
            server = before.server if before else start
            one, seven = (weighing(n, method, server, uploads, now) for n in (1, 7))
            assert one.shared.keys() == seven.shared.keys()
            assert all(
                torch.allclose(one.shared[n], seven.shared[n], rtol=1e-6, atol=1e-7) for n in one.shared
            )


def check_the_average_of_one_client_is_that_client(method: Method, world: World) -> None:
    """U9: the server does nothing at all, to the bit."""
    alone = replace(world, clients={"c0": world.clients["c0"]})
    for now, stage in zip(*recorded(method, alone), strict=True):
        sent = of_parts(stage["c0"][1].tensors or {}) if world.averages else {}
        assert all(torch.equal(now.server.shared[n], t) for n, t in sent.items())


def check_other_data_of_one_client_change_no_other_upload(method: Method, world: World) -> None:
    """U10, as amended: sizes and labels stay. In the round itself; for ever, where nothing is shared."""
    victim = world.clients["c1"]
    negated = replace(victim.train, inputs=-victim.train.inputs)
    changed = {**world.clients, "c1": replace(victim, train=negated)}
    one, two = Recording(), Recording()
    other(method, world, executor=one, conduct={"join": EVERYBODY})
    other(method, world, executor=two, clients=changed, conduct={"join": EVERYBODY})

    for before, after in zip(one.stages, two.stages, strict=True):
        for client in before.keys() - {"c1"}:
            a, b = before[client][1], after[client][1]
            assert (digest(a.tensors or {}), digest(a.kept)) == (digest(b.tensors or {}), digest(b.kept))
        if digest(before["c1"][1].tensors or {}) != digest(after["c1"][1].tensors or {}):
            return
    assert not travels(method, world)


def awkward(world: World) -> dict[str, Person]:
    """The world's clients, and one with one class, one with one example, one with none."""
    first = world.clients["c0"]
    one_class = first.train.take((first.train.y == first.train.y[0]).nonzero().flatten())
    none = torch.arange(0)
    extra = {"c6": one_class, "c7": first.train.take(torch.arange(1)), "c8": first.train.take(none)}
    return {**world.clients, **{k: replace(first, id=k, key=k, train=data) for k, data in extra.items()}}


def check_one_class_one_example_and_none(method: Method, world: World) -> None:
    """U12: all numbers are finite; who has no example is never asked, and read like everybody."""
    clients = awkward(world)
    all_rounds = other(method, world, clients=clients, conduct={"join": EVERYBODY})

    now = all_rounds[-1]
    assert all(set(r.cohort) == clients.keys() - {"c8"} and not r.refused for r in all_rounds)
    assert "c8" not in now.held
    all_finite(now)
    readings = evaluate(world.place(method, clients=clients), now, Serial())
    assert set(readings.scores[readings.named("personal") or ""]) == set(clients)


def all_finite(now: Round) -> None:
    server = now.server
    for tensors in (server.shared, server.memory, *server.of.values(), *(h.kept for h in now.held.values())):
        for name, tensor in tensors.items():
            assert bool(torch.isfinite(tensor).all()), name


def check_batch_norm_with_a_last_batch_of_one(method: Method, world: World) -> None:
    """Finite; the counter of batches never travels; running statistics travel unless they are local."""
    first = world.clients["c0"]
    clients = {**awkward(world), "c0": replace(first, train=first.train.take(torch.arange(2 * 8 + 1)))}
    model = Networks(world.model_of, itself, norm=True)
    for statistics in ("average", "local"):
        executor = Recording()
        all_rounds = other(
            method,
            world,
            clients=clients,
            model=model,
            statistics=statistics,
            executor=executor,
            conduct={"join": EVERYBODY},
        )
        all_finite(all_rounds[-1])
        for turn, outcome in (pair for stage in executor.stages for pair in stage.values()):
            for name in {**turn.message, **(outcome.tensors or {})}:
                assert not name.endswith("num_batches_tracked")
                assert "/" in name or statistics == "average" or "running_" not in name
        evaluate(
            world.place(method, clients=clients, model=model, statistics=statistics), all_rounds[-1], Serial()
        )


# uploads that cannot be used ----------------------------------------------------------------------


class Tampering:
    """One upload arrives spoilt: of the first client, in the first stage of this name and round."""

    def __init__(self, stage: Stage, spoil: Callable[[Tensors], Tensors]):
        self.stage, self.spoil = stage, spoil

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        for position, turn in enumerate(items):
            outcome = work(turn)
            spoilt = turn.stage == self.stage and position == 0
            yield replace(outcome, tensors=self.spoil(outcome.tensors)) if spoilt else outcome


def with_nan(tensors: Tensors) -> Tensors:
    name = next(n for n, t in tensors.items() if t.is_floating_point() and t.numel())
    return {**tensors, name: torch.full_like(tensors[name], math.nan)}


def with_infinity(tensors: Tensors) -> Tensors:
    name = [n for n, t in tensors.items() if t.is_floating_point() and t.numel()][-1]
    return {**tensors, name: torch.full_like(tensors[name], math.inf)}


def mis_shaped(tensors: Tensors) -> Tensors:
    name = next(iter(of_parts(tensors)))
    return {**tensors, name: tensors[name].unsqueeze(0)}


def incomplete(tensors: Tensors) -> Tensors:
    name = next(iter(of_parts(tensors)))
    return {n: t for n, t in tensors.items() if n != name}


def check_an_upload_that_cannot_be_used_is_refused(method: Method, world: World) -> None:
    """It is counted and said; for all else, that client did not answer."""
    all_rounds, stages = recorded(method, world)
    found = next((s for s in (now.stage for now in all_rounds) if s and s.reply and not s.everyone), None)
    if found is None:
        return
    at = next(i for i, now in enumerate(all_rounds) if now.stage == found)
    victim, (_, outcome) = next(iter(stages[at].items()))
    dropped = other(
        method,
        world,
        executor=Scripted(lambda turn: "drop" if (turn.stage, turn.client) == (found, victim) else "ok"),
    )[at]
    spoilers = [with_nan, with_infinity] + (
        [mis_shaped, incomplete] if of_parts(outcome.tensors or {}) else []
    )
    for spoil in spoilers:
        now = other(method, world, executor=Tampering(found, spoil))[at]

        assert list(now.refused) == [victim], spoil.__name__
        assert victim not in now.heard
        assert victim in now.up
        assert hashes(now) == hashes(dropped)
        now_held, before = now.held.of(victim), all_rounds[at - 1].held.of(victim) if at else Held()
        assert (now_held.since, now_held.owes) == (before.since, before.owes)
        assert digest(now_held.kept) == digest(before.kept)


# the method as a value, and its card --------------------------------------------------------------


def check_a_method_is_a_value(method: Method, world: World) -> None:
    """Equal to itself after a journey, usable as a key, and not to be changed."""
    assert through_bytes(method) == method
    assert hash(through_bytes(method)) == hash(method)
    for f in dataclasses.fields(method):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, f.name, getattr(method, f.name))


def check_a_plan_names_each_stage_once_and_is_drawn_from_its_generator(method: Method, world: World) -> None:
    one, two = (method.plan(world.rounds, generator("plan")) for _ in range(2))

    assert list(one) == list(two)
    assert len({(stage.name, stage.round) for stage in one}) == len(one)
    assert {stage.rounds for stage in one} <= {world.rounds}


def numbers(method: Method) -> dict[str, dataclasses.Field[Any]]:
    return {
        f.name: f
        for f in dataclasses.fields(method)
        if isinstance(getattr(method, f.name), int | float) and not isinstance(getattr(method, f.name), bool)
    }


def check_settings_have_limits(method: Method, world: World) -> None:
    """NaN and infinity nowhere; no fewer than zero epochs; and what the field says itself."""
    for name, f in numbers(method).items():
        wrong = [math.nan, math.inf]
        wrong += [-1] if "epochs" in name else []
        for limit, step in (("least", -1), ("above", 0), ("most", 1)):
            bound = f.metadata.get(limit)
            wrong += [] if bound is None else [bound + step]
        for value in wrong:
            with pytest.raises(SettingError, match=name):
                replace(method, **{name: value})


def check_settings_that_make_it_another_method_are_said(method: Method, world: World) -> None:
    assert type(method)().dull() == []
    for f in dataclasses.fields(method):
        for value in f.metadata.get("dull", {}):
            assert any(sentence.startswith(f.name) for sentence in replace(method, **{f.name: value}).dull())


def module_of(method: Method) -> Any:
    return sys.modules[type(method).__module__]


def source_of(method: Method) -> str:
    return Path(module_of(method).__file__).read_text(encoding="utf-8")


def check_the_card_names_the_paper_and_its_letters_stand_at_the_lines(method: Method, world: World) -> None:
    card = module_of(method).__doc__ or ""
    code = source_of(method).replace(card, "")
    lettered = re.findall(r"^ +\(([a-z])\) (?:client|server|predict|plan)\b", card, re.MULTILINE)
    at_lines = {
        letter for comment in re.findall(r"#(.*)", code) for letter in re.findall(r"\(([a-z])\)", comment)
    }

    assert re.match(rf"{type(method).__name__}\b[^\n]*: ", card), "the first line names the method"
    assert re.search(r"\b(19|20)\d\d\b", card) or "there is no paper" in card
    assert "Deviations" in card
    assert lettered == sorted(set(lettered)), "each letter once, in order"
    assert lettered[:1] == ["a"]
    assert set(lettered) == at_lines


def check_what_the_card_says_travels_is_what_travels(method: Method, world: World) -> None:
    card = module_of(method).__doc__ or ""
    found = re.search(r"^Travels: (.*?)\s+Stays: (.*?)\.$", card, re.MULTILINE | re.DOTALL)
    assert found, "the card says: Travels: ..., both ways.  Stays: ..."
    travel, stay = found.groups()
    all_rounds = run(method, world)
    down, up = (
        any(any(way.values()) for way in ways)
        for ways in zip(*((r.down, r.up) for r in all_rounds), strict=True)
    )
    keeps = any(held.kept for held in all_rounds[-1].held.values())

    assert travel.startswith("nothing") == (not down and not up)
    assert "both ways" not in travel or (down and up)
    assert stay.startswith("nothing") == (not keeps)


CONTRACTS: tuple[Callable[[Method, World], None], ...] = tuple(
    f for name, f in list(globals().items()) if name.startswith("check_")
)
