"""The coordinator of stages: whom it asks, what it believes, and when it stops."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from pluribus import engine
from pluribus.client import Client
from pluribus.cohort import Join
from pluribus.engine import Conduct, Coordinator, Round, judge, rounds
from pluribus.errors import ClientFailed, MethodError, RunError
from pluribus.executors.scripted import Fate, Scripted
from pluribus.executors.serial import Serial
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.methods.local import Local
from pluribus.stage import Stage
from pluribus.state import Tensors, digest
from pluribus.training import Training
from pluribus.turn import Outcome, Turn
from pluribus.usual import by_stage, mean_by_examples, nothing_to_aggregate
from toy import PEOPLE, hashes, history, place

NAMES = tuple(PEOPLE)


def told(method: FedAvg, client: Client) -> None:
    client.keep("told", {"word": client.received["told/word"], "round": torch.tensor(client.stage.round)})


def counted(method: FedAvg, client: Client) -> Tensors:
    return {"count/examples": torch.tensor(len(client.data))}


def trained(method: FedAvg, client: Client) -> Tensors:
    assert client.kept["told/word"].item() == 42, "nobody trains before it was told"
    client.fit(epochs=method.epochs)
    return client.tensors()


def add_up(
    method: FedAvg, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
) -> Server:
    total = sum(int(u.tensors["count/examples"]) for u in uploads.values())
    return replace(server, memory={"total": torch.tensor(total)})


@dataclass(frozen=True, kw_only=True)
class Census(FedAvg):
    """Everyone is counted, everyone is told a word, and then there are rounds."""

    train = by_stage(count=counted, tell=told, round=trained)
    aggregate = by_stage(count=add_up, tell=nothing_to_aggregate, round=mean_by_examples)

    def plan(self, rounds: int, rng: torch.Generator) -> Sequence[Stage]:
        first = [
            Stage("count", 0, rounds, everyone=True, send=False),
            Stage("tell", 0, rounds, everyone=True, reply=False),
        ]
        return [*first, *(Stage("round", t, rounds) for t in range(1, rounds + 1))]

    def message(self, server: Server, client: str, stage: Stage) -> Tensors:
        return {"told/word": torch.tensor(42)} if stage.name == "tell" else server.shared


def asked(fate: Callable[[Any], Fate] = lambda turn: "ok") -> tuple[Scripted, list[tuple[str, int, str]]]:
    """An executor, and the list of (stage, number, client) that it was asked for."""
    turns: list[tuple[str, int, str]] = []

    def noted(turn: Any) -> Fate:
        turns.append((turn.stage.name, turn.number, turn.client))
        return fate(turn)

    return Scripted(noted), turns


# the loop -----------------------------------------------------------------------------------------


def test_the_loop_fits_on_a_screen() -> None:
    assert len(inspect.getsource(engine.rounds).splitlines()) < 25


def test_every_stage_of_the_plan_yields_a_round() -> None:
    now = history(place(FedAvg()), number=3)

    assert [(r.number, r.stage.name, r.stage.round, r.ends) for r in now if r.stage] == [
        (1, "round", 1, True),
        (2, "round", 2, True),
        (3, "round", 3, True),
    ]


def test_a_round_ends_with_its_last_stage() -> None:
    assert [(r.stage.name, r.ends) for r in history(place(Census()), number=2) if r.stage] == [
        ("count", False),
        ("tell", True),
        ("round", True),
        ("round", True),
    ]


def test_no_rounds_yield_nothing() -> None:
    assert history(place(FedAvg()), number=0) == []


def test_after_the_last_round_there_is_nothing_left() -> None:
    full = history(place(FedAvg()), number=2)

    assert history(place(FedAvg()), number=2, after=full[-1]) == []


@dataclass(frozen=True, kw_only=True)
class Stammering(FedAvg):
    def plan(self, rounds: int, rng: torch.Generator) -> Sequence[Stage]:
        return [
            Stage("round", 1, rounds),
            Stage("other", 1, rounds),
            Stage("round", 1, rounds, everyone=True),
        ]


def test_a_plan_that_names_a_stage_twice_is_an_error() -> None:
    with pytest.raises(MethodError, match=r"Stammering plans \('round', 1\) twice"):
        history(place(Stammering()))


def test_without_an_example_anywhere_there_is_nothing_to_run() -> None:
    empty = {"c0": replace(PEOPLE["c0"], train=PEOPLE["c0"].train.take(torch.arange(0)))}

    with pytest.raises(RunError, match="no client has an example to train on"):
        history(place(FedAvg(), clients=empty))


def test_a_client_without_an_example_is_never_asked() -> None:
    clients = {**PEOPLE, "c2": replace(PEOPLE["c2"], train=PEOPLE["c2"].train.take(torch.arange(0)))}

    now = history(place(Census(), clients=clients), join=Join())

    assert {k for r in now for k in r.cohort} == set(PEOPLE) - {"c2"}


def test_a_failing_client_ends_the_run_with_its_name() -> None:
    broken = replace(PEOPLE["c1"], train=replace(PEOPLE["c1"].train, inputs=torch.zeros(40, 5)))

    with pytest.raises(ClientFailed, match="round 1, client 'c1', FedAvg"):
        history(place(FedAvg(), clients={**PEOPLE, "c1": broken}), join=Join())


# cohorts ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TwoStages(FedAvg):
    def plan(self, rounds: int, rng: torch.Generator) -> Sequence[Stage]:
        return [Stage(name, t, rounds) for t in range(1, rounds + 1) for name in ("one", "two")]


def test_the_stages_of_a_round_share_its_cohort() -> None:
    cohorts = [r.cohort for r in history(place(TwoStages()), number=4)]

    assert cohorts[0::2] == cohorts[1::2]
    assert len(set(cohorts)) > 1


def test_the_cohort_depends_on_the_seed_and_the_round_and_not_on_the_method() -> None:
    def cohorts(method: Any, seed: int = 0) -> list[tuple[str, ...]]:
        return [r.cohort for r in history(place(method, seed=seed), number=4)]

    assert cohorts(FedAvg()) == cohorts(FedPer())
    assert cohorts(FedAvg()) != cohorts(FedAvg(), seed=1)


def test_everyone_takes_part_in_a_stage_for_everyone() -> None:
    count, tell, first, *_ = history(place(Census()))

    assert count.cohort == tell.cohort == NAMES
    assert count.server.memory["total"].item() == sum(len(p.train) for p in PEOPLE.values()) == 195
    assert len(first.cohort) == 3


# asking again -------------------------------------------------------------------------------------


def test_a_stage_for_everyone_asks_those_again_who_did_not_answer() -> None:
    seen: list[str] = []

    def fate(turn: Any) -> Fate:
        seen.append(turn.client)
        return "drop" if turn.client in ("c1", "c4") and seen.count(turn.client) == 1 else "ok"

    executor, turns = asked(fate)

    count = history(place(Census()), executor=executor)[0]

    assert count.heard == NAMES
    assert sorted(k for name, number, k in turns if number == 1) == sorted([*NAMES, "c1", "c4"])


def test_too_few_answers_end_a_stage_for_everyone_with_the_names_of_the_silent() -> None:
    executor, turns = asked(lambda turn: "ok" if turn.client in ("c0", "c3") else "drop")

    with pytest.raises(
        RunError,
        match=r"count 0 needs everyone, and 4 of 6 clients did not answer in 3 tries: c1, c2, c4, c5",
    ):
        history(place(Census()), executor=executor)
    assert [k for *_, k in turns].count("c1") == 3


def test_a_smaller_quorum_goes_on_without_the_silent() -> None:
    executor, _ = asked(away_in("count", "c1"))

    count = history(place(Census()), executor=executor, quorum=0.8)[0]

    assert count.heard == tuple(k for k in NAMES if k != "c1")
    assert count.server.memory["total"].item() == 195 - 40


def test_a_cohort_is_asked_once() -> None:
    executor, turns = asked(lambda turn: "drop")

    now = history(place(FedAvg()), executor=executor, number=2)

    assert len(turns) == 2 * 3
    assert all(r.heard == () and r.up == {} for r in now)
    assert digest(now[-1].server.shared) == digest(place(FedAvg()).built("c0").initial)


# debts --------------------------------------------------------------------------------------------


def away_in(stage: str, *clients: str) -> Callable[[Any], Fate]:
    return lambda turn: (
        "drop" if turn.stage.name == stage and turn.stage.everyone and turn.client in clients else "ok"
    )


def test_who_missed_what_everyone_was_told_is_told_before_its_next_turn() -> None:
    executor, turns = asked(away_in("tell", "c1", "c4"))

    now = history(place(Census()), executor=executor, join=Join())

    tell, first, second = now[1:4]
    assert set(tell.heard) == {"c0", "c2", "c3", "c5"}
    assert tell.held["c1"].owes == tell.held["c4"].owes == (1,)
    assert first.heard == NAMES
    assert first.held["c1"].owes == ()
    assert sorted(k for name, number, k in turns if (name, number) == ("tell", 3)) == ["c1", "c4"]
    assert (tell.exchanges, first.exchanges, second.exchanges) == (2, 4, 5)
    assert first.held["c1"].kept["told/round"].item() == 0


def test_a_debt_that_was_paid_changes_nothing_else() -> None:
    executor, _ = asked(away_in("tell", "c1"))

    late = history(place(Census()), executor=executor, join=Join())[-1]
    punctual = history(place(Census()), join=Join())[-1]

    assert hashes(late) == hashes(punctual)


def test_the_bytes_of_a_debt_are_billed_when_it_is_paid() -> None:
    executor, _ = asked(away_in("tell", "c1"))

    first, second = history(place(Census()), executor=executor, join=Join())[2:4]

    assert first.down == {k: 4 * 92 + 8 * (k == "c1") for k in NAMES}
    assert second.down == dict.fromkeys(NAMES, 4 * 92)


def test_who_could_not_be_told_yet_is_not_asked_to_train() -> None:
    """c1 misses the telling, and again when it is owed; then it answers."""
    silent = {("tell", 2), ("tell", 3)}
    executor, turns = asked(
        lambda turn: "drop" if (turn.stage.name, turn.number) in silent and turn.client == "c1" else "ok"
    )

    first, second = history(place(Census()), executor=executor, join=Join())[2:4]

    assert first.held["c1"].owes == (1,)
    assert "c1" in first.cohort
    assert "c1" not in first.heard
    assert ("round", 4, "c1") not in turns
    assert second.heard == NAMES
    assert second.held["c1"].owes == ()


def test_who_is_away_when_everyone_is_told_is_not_away_for_ever() -> None:
    """The chance of not answering is a new one each time."""
    full = history(place(Census()), drop=0.6, tries=1, quorum=0.1, join=Join(), number=12)

    told = [{k for k, h in r.held.items() if "told/word" in h.kept} for r in full]
    assert len(told[1]) < 6
    assert told[-1] == set(NAMES)
    resumed = history(place(Census()), drop=0.6, tries=1, quorum=0.1, join=Join(), number=12, after=full[4])
    assert [hashes(r) for r in resumed] == [hashes(r) for r in full[5:]]


def test_a_debt_waits_for_a_client_that_is_not_asked_and_survives_a_resume() -> None:
    executor, _ = asked(away_in("tell", "c1"))
    full = history(place(Census()), executor=executor, number=6)

    for r in full[1:]:
        paid = any("c1" in s.cohort for s in full[2:] if s.number <= r.number)
        assert r.held["c1"].owes == (() if paid else (1,))
    resumed = history(place(Census()), number=6, after=full[1])
    assert [hashes(r) for r in resumed] == [hashes(r) for r in full[2:]]


def test_a_late_reply_is_no_answer() -> None:
    late = Scripted(lambda turn: "late" if (turn.number, turn.client) == (1, "c0") else "ok")
    drop = Scripted(lambda turn: "drop" if (turn.number, turn.client) == (1, "c0") else "ok")

    one, two = (history(place(FedAvg()), executor=e, join=Join()) for e in (late, drop))

    assert "c0" not in one[0].heard
    assert [hashes(r) for r in one] == [hashes(r) for r in two]


class Strangers:
    """An executor on which somebody else answers too."""

    def run(self, work: Any, items: Any) -> Any:
        for turn in items:
            yield replace(work(turn), client="nobody")
            yield work(turn)


def test_who_was_not_asked_is_not_heard() -> None:
    now, plain = history(place(FedAvg()), executor=Strangers()), history(place(FedAvg()))

    assert [hashes(r) for r in now] == [hashes(r) for r in plain]


def test_who_was_not_asked_makes_no_quorum() -> None:
    class OnlyStrangers:
        def run(self, work: Any, items: Any) -> Any:
            for turn in items:
                yield replace(work(turn), client=f"not {turn.client}")

    with pytest.raises(RunError, match="6 of 6 clients did not answer"):
        history(place(Census()), executor=OnlyStrangers())


def test_the_first_reply_counts() -> None:
    class Regretting:
        def run(self, work: Any, items: Any) -> Any:
            for turn in items:
                outcome = work(turn)
                yield outcome
                yield replace(outcome, tensors={n: t + 1 for n, t in outcome.tensors.items()})

    now, plain = history(place(FedAvg()), executor=Regretting()), history(place(FedAvg()))

    assert [hashes(r) for r in now] == [hashes(r) for r in plain]


# dropout ------------------------------------------------------------------------------------------


def test_clients_fail_to_answer_as_often_as_the_experiment_says() -> None:
    """60 turns at 0.3: 18 are missing, with a deviation of 3.5."""
    now = history(place(FedAvg(epochs=0)), number=10, join=Join(), drop=0.3)

    missing = sum(len(r.cohort) - len(r.heard) for r in now)
    assert abs(missing - 18) < 12
    assert len({r.heard for r in now}) > 5


def test_who_fails_to_answer_is_the_same_every_time() -> None:
    one, two, other = (
        history(place(FedAvg(epochs=0), seed=s), number=5, join=Join(), drop=0.5) for s in (0, 0, 1)
    )

    assert [r.heard for r in one] == [r.heard for r in two] != [r.heard for r in other]


def test_without_dropout_everybody_answers() -> None:
    assert all(r.heard == r.cohort for r in history(place(FedAvg(epochs=0))))


def test_a_stage_for_everyone_outlives_dropout() -> None:
    """Asked three times, each time by a chance of its own."""
    now = history(place(Census()), drop=0.4, quorum=0.1)

    assert len(now[0].heard) >= 4


# uploads that cannot be used ----------------------------------------------------------------------


def refusing(client: str, change: Callable[[Tensors], Tensors]) -> Any:
    class Spoiling:
        def run(self, work: Any, items: Any) -> Any:
            for turn in items:
                outcome: Outcome = work(turn)
                yield (
                    replace(outcome, tensors=change(outcome.tensors or {}))
                    if turn.client == client
                    else outcome
                )

    return Spoiling()


def test_each_fault_of_an_upload_is_said() -> None:
    at = place(FedAvg())
    good = at.built("c0").initial
    faults = {
        "head.bias is (2,) torch.float32; it should be (4,) torch.float32": {
            **good,
            "head.bias": torch.zeros(2),
        },
        "head.bias is (4,) torch.float64; it should be (4,) torch.float32": {
            **good,
            "head.bias": torch.zeros(4).double(),
        },
        "haed is no tensor of this client's parts": {**good, "haed": torch.zeros(1)},
        "head.bias is missing": {n: t for n, t in good.items() if n != "head.bias"},
        "head.bias is not finite": {**good, "head.bias": torch.full((4,), math.nan)},
        "own/w is not finite": {**good, "own/w": torch.tensor(math.inf)},
        "": {**good, "own/w": torch.zeros(3)},
    }
    for words, upload in faults.items():
        outcomes = {
            "c0": Outcome(1, "c0", upload, {}),
            "c1": Outcome(1, "c1", good, {}),
            "c2": Outcome(1, "c2", good, {}),
        }

        assert judge(at, Stage("round", 1, 1), outcomes) == {"c0": words, "c1": "", "c2": ""}


def test_all_numbers_are_of_those_whose_upload_was_used() -> None:
    spoil = refusing("c0", lambda t: {**t, "head.bias": torch.full((4,), math.nan)})

    now = history(place(FedAvg()), executor=spoil, join=Join(), number=1)[0]

    assert now.refused == {"c0": "head.bias is not finite"}
    assert now.heard == NAMES[1:]
    assert now.samples == 195 - 45
    assert set(now.up) == set(NAMES), "it did travel"
    assert "c0" not in now.held


@dataclass(frozen=True, kw_only=True)
class Counting(FedAvg):
    """Sends a number of its own, and divides by it."""

    def train(self, client: Client) -> dict[str, Tensor]:
        client.fit(epochs=1)
        return {**client.tensors(), "count/n": torch.tensor(len(client.data))}

    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        for upload in uploads.values():
            100 // int(upload.tensors["count/n"])
        return mean_by_examples(self, server, uploads, stage, rng)


def test_an_upload_that_makes_aggregation_fail_is_refused_alone() -> None:
    zero = refusing("c2", lambda t: {**t, "count/n": torch.tensor(0)})
    missing = refusing("c2", lambda t: {n: v for n, v in t.items() if n != "count/n"})
    without = Scripted(lambda turn: "drop" if turn.client == "c2" else "ok")
    expected = history(place(Counting()), executor=without, join=Join(), number=1)[0]

    for executor, words in ((zero, "ZeroDivisionError"), (missing, "KeyError")):
        now = history(place(Counting()), executor=executor, join=Join(), number=1)[0]

        assert list(now.refused) == ["c2"]
        assert now.refused["c2"].startswith(f"cannot be aggregated: {words}")
        assert hashes(now) == hashes(expected)


@dataclass(frozen=True, kw_only=True)
class Wrong(FedAvg):
    def aggregate(
        self, server: Server, uploads: Mapping[str, Upload], stage: Stage, rng: torch.Generator
    ) -> Server:
        raise ZeroDivisionError("ours")


def test_an_aggregation_that_always_fails_is_the_methods_fault() -> None:
    with pytest.raises(MethodError, match="Wrong cannot aggregate round 1: ZeroDivisionError: ours"):
        history(place(Wrong()))


def test_a_run_of_which_no_upload_can_be_used_stops_and_says_why() -> None:
    hopeless = place(FedAvg(), training=Training(lr=1e30, batch=8))

    with pytest.raises(
        RunError,
        match=r"no upload could be used for 3 stages; the last was round 3, client 'c\d': "
        r".* is not finite\n    a smaller learning rate than 1e\+30",
    ):
        history(hopeless)


def test_stages_without_a_usable_upload_are_counted_in_a_row() -> None:
    bad = {1, 2, 4}

    class Sometimes:
        def run(self, work: Any, items: Any) -> Any:
            for turn in items:
                outcome = work(turn)
                nan = {n: t * math.nan for n, t in outcome.tensors.items()}
                yield replace(outcome, tensors=nan) if turn.stage.round in bad else outcome

    now = history(place(FedAvg()), executor=Sometimes(), number=5)

    assert [r.barren for r in now] == [1, 2, 0, 1, 0]
    assert digest(now[1].server.shared) == digest(place(FedAvg()).built("c0").initial)


@dataclass(frozen=True, kw_only=True)
class WithASilentStage(FedAvg):
    """After each round something without a reply."""

    train = by_stage(round=FedAvg.train, nothing=lambda method, client: None)

    def plan(self, rounds: int, rng: torch.Generator) -> Sequence[Stage]:
        return [
            s
            for t in range(1, rounds + 1)
            for s in (Stage("round", t, rounds), Stage("nothing", t, rounds, reply=False))
        ]


def test_a_stage_without_replies_does_not_break_the_row() -> None:
    hopeless = place(WithASilentStage(), training=Training(lr=1e30, batch=8))

    now = history(hopeless, number=2)

    assert [r.barren for r in now] == [1, 1, 2, 2]


def test_stages_without_replies_are_not_barren() -> None:
    assert [r.barren for r in history(place(Local()), number=4)] == [0, 0, 0, 0]


# what a round says --------------------------------------------------------------------------------


def test_a_round_counts_samples_and_the_mean_loss_over_them() -> None:
    at = place(FedAvg())
    now = history(at, number=1, join=Join())[0]

    outcomes = [at.take(Turn(1, Stage("round", 1, 1), k, at.built(k).initial, 0, {})) for k in NAMES]
    assert now.samples == 195
    assert now.loss == pytest.approx(sum(o.loss * o.samples for o in outcomes) / 195)
    assert 0 < now.seconds.train <= now.seconds.wall
    assert 0 < now.seconds.aggregate < now.seconds.wall


def test_held_says_since_when() -> None:
    for before, now in pairwise([None, *history(place(FedPer()))]):
        assert isinstance(now, Round)
        for k in NAMES:
            expected = now.exchanges if k in now.heard else before.held.of(k).since if before else 0
            assert now.held.of(k).since == expected


def test_whole_models_come_back_every_so_many_rounds_and_in_the_last() -> None:
    now = history(place(FedAvg(epochs=0)), number=5, watch=2)

    assert [r.number for r in now if r.trained] == [2, 4, 5]
    assert [set(r.trained) == set(r.heard) for r in now if r.trained] == [True] * 3
    assert not any(r.trained for r in history(place(FedAvg(epochs=0)), number=2))


def test_each_clients_last_trained_model_is_held_if_it_is_read() -> None:
    kept = history(place(FedPer()), keep_trained=True)
    plain = history(place(FedPer()))[-1]

    now = kept[-1]
    assert all(set(h.trained) == set(place(FedPer()).built(k).initial) for k, h in now.held.items())
    assert not any(h.trained for h in plain.held.values())
    assert not now.trained, "it is held, and not a measurement of this round"


def test_the_server_starts_with_what_is_shared() -> None:
    first = Coordinator(place(FedPer()), Conduct(rounds=1), Serial()).first()

    assert set(first.server.shared) == {"encoder.first.weight", "encoder.first.bias"}
    assert (first.number, len(first.held)) == (0, 0)


def test_rounds_are_made_one_at_a_time() -> None:
    run = rounds(place(FedAvg()), Conduct(rounds=1000))

    assert next(run).number == 1
    assert next(run).number == 2
