"""L2GD, by hand. Letters as in its file."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

import one_weight
from contracts import ENCODER, EVERYBODY, HEAD, World
from one_weight import One, Two, values, weights
from pluribus.client import Client
from pluribus.cohort import Join
from pluribus.engine import Round
from pluribus.executors.scripted import Scripted
from pluribus.method import Server, Upload
from pluribus.methods.l2gd import L2GD
from pluribus.methods.local import Local
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, add, average, copied, digest, square_distance, under, within
from pluribus.training import Training
from pluribus.turn import Outcome, Turn
from toy import PEOPLE, Net, history, place

WORLD = World(rounds=6)
BOTH = ENCODER + HEAD
NOTHING: Tensors = {}
FULL_BATCH = Training(lr=0.1, batch=1000)
EVENTS = history(place(L2GD()), number=30)


def own(now: Round, client: str) -> dict[str, Tensor]:
    return within("own", now.held.of(client).kept)


def asked(
    method: L2GD,
    stage: str,
    *,
    kept: Tensors = NOTHING,
    targets: tuple[float, ...] = (5.0,),
    **received: float,
) -> Outcome:
    """What a client with these targets does in this stage; its network was built at 9."""
    at = one_weight.place(method, One(w=9.0), a=targets)
    reply = stage == "collect"
    return at.take(Turn(1, Stage(stage, 1, 2, reply=reply), "a", weights(**received), 0, kept))


# (a) the plan -------------------------------------------------------------------------------------------


def test_a_a_common_coin_plans_averaging_with_probability_p() -> None:
    """2000 rounds, p = 0.3: 600 averagings, give or take three deviations of √(2000 · 0.3 · 0.7) = 20.5."""
    plan = L2GD(p=0.3).plan(2000, generator("plan"))

    events = [stage.name for stage in plan if stage.name != "collect"]
    assert len(events) == 2000
    assert 538 < events.count("average") < 662
    assert set(events) == {"average", "local"}


@pytest.mark.parametrize(("p", "name"), [(0.0, "local"), (1.0, "average")])
def test_a_the_coin_may_be_certain(p: float, name: str) -> None:
    assert {stage.name for stage in L2GD(p=p).plan(50, generator("plan"))} == {name}


def test_c_models_travel_once_for_each_local_round_that_an_averaging_follows() -> None:
    """C23-L5."""
    events = [now.stage.name for now in EVENTS if now.stage and now.stage.name != "collect"]
    changes = sum(a == "local" and b == "average" for a, b in pairwise(events))

    assert {"local", "average"} <= set(events)
    assert sum(bool(now.stage and now.stage.name == "collect") for now in EVENTS) == changes > 1
    for way in ("up", "down"):
        assert sum(sum(getattr(now, way).values()) for now in EVENTS) == changes * len(PEOPLE) * BOTH


def test_a_and_c_a_plan_by_hand() -> None:
    """The coin of seed "plan" written out: a collection stands before an averaging that follows training."""
    rng, moved, expected = generator("plan"), False, []
    for t in range(1, 13):
        if torch.rand((), generator=rng) < 0.5:
            expected += [("collect", t, False, True)] if moved else []
            expected += [("average", t, moved, False)]
            moved = False
        else:
            expected += [("local", t, False, False)]
            moved = True

    plan = L2GD().plan(12, generator("plan"))

    assert [(s.name, s.round, s.send, s.reply) for s in plan] == expected
    assert all(s.everyone and s.rounds == 12 for s in plan)


# (b) and (d) what a client does -------------------------------------------------------------------------


def test_b_local_steps_from_ones_own_by_hand() -> None:
    """L(x) = ½ (x - 5)², η = 0.1, from its own x = 2, two steps: 2 + 0.3 = 2.3, 2.3 + 0.27 = 2.57."""
    outcome = asked(L2GD(epochs=2), "local", kept=under("own", weights(head=2.0)))

    assert outcome.tensors is None
    assert values(within("own", outcome.kept)) == pytest.approx({"head": 2.57}, abs=1e-12)


def test_b_at_first_from_the_initial_network() -> None:
    """9 - 0.1 (9 - 5) = 8.6."""
    assert values(within("own", asked(L2GD(), "local").kept)) == pytest.approx({"head": 8.6}, abs=1e-12)


def test_b_everything_is_trained_at_once() -> None:
    """L = ½ (u·v - 5)², u = 2, v = 3:  u: 2 - 0.1 · 3 = 1.7,  v: 3 - 0.1 · 2 = 2.8."""
    at = one_weight.place(L2GD(), Two(u=9.0, v=9.0), a=[5.0])
    kept = under("own", weights(encoder=2.0, head=3.0))

    outcome = at.take(Turn(1, Stage("local", 1, 2, reply=False), "a", {}, 0, kept))

    assert values(within("own", outcome.kept)) == pytest.approx({"encoder": 1.7, "head": 2.8}, abs=1e-12)


def test_b_a_step_is_one_minibatch_drawn_at_random() -> None:
    """Of six targets one batch of two: 2 + 0.1 (mean of the two - 2), whatever the number of epochs."""
    targets = (1.0, 3.0, 4.0, 8.0, 16.0, 32.0)
    training = Training(lr=0.1, batch=2)
    seen = set()
    for t in range(1, 6):
        at = one_weight.place(L2GD(unit="step", epochs=7), One(), training=training, a=targets)
        outcome = at.take(Turn(1, Stage("local", t, 9, reply=False), "a", {}, 0, {}))
        assert outcome.samples == 2
        seen.add(round(values(within("own", outcome.kept))["head"], 9))
    sums = {a + b for i, a in enumerate(targets) for b in targets[i + 1 :]}

    assert seen <= {round(2 + 0.1 * (s / 2 - 2), 9) for s in sums}
    assert len(seen) > 1


def test_c_a_client_sends_its_own_model_as_it_is() -> None:
    """Who never trained sends the initial one."""
    assert values(asked(L2GD(), "collect", kept=under("own", weights(head=2.0))).tensors) == {"head": 2.0}
    assert values(asked(L2GD(who="cohort"), "collect").tensors) == {"head": 9.0}


def test_c_every_client_counts_the_same() -> None:
    """(2 + 6) / 2 = 4, with 1 and 30 examples."""
    uploads = {"a": Upload(weights(head=2.0), 1), "b": Upload(weights(head=6.0), 30)}

    server = L2GD().aggregate(Server(weights(head=9.0)), uploads, Stage("collect", 1, 1), generator("x"))

    assert values(server.shared) == {"head": 4.0}


def test_d_averaging_moves_by_a_towards_the_mean_by_hand() -> None:
    """0.7 · 2 + 0.3 · 12 = 5; again, with the mean as kept: 0.7 · 5 + 0.3 · 12 = 7.1."""
    one = asked(L2GD(), "average", kept=under("own", weights(head=2.0)), head=12.0)
    two = asked(L2GD(), "average", kept=one.kept)

    assert values(within("own", one.kept)) == pytest.approx({"head": 5.0}, abs=1e-12)
    assert values(within("mean", one.kept)) == {"head": 12.0}
    assert values(within("own", two.kept)) == pytest.approx({"head": 7.1}, abs=1e-12)
    assert values(within("mean", two.kept)) == {"head": 12.0}


def test_d_averaging_before_anybody_moved_moves_nobody() -> None:
    assert values(within("own", asked(L2GD(), "average").kept)) == {"head": 9.0}


def test_averaging_keeps_the_mean_and_draws_everybody_nearer() -> None:
    """C23-L1: x_k - x̄ shrinks to 0.7 of what it was, also when averagings follow each other."""
    averagings = [(a, b) for a, b in pairwise(EVENTS) if b.stage and b.stage.name == "average"]
    assert any(a.stage and a.stage.name == "average" for a, _ in averagings)

    for before, now in averagings:
        x = [own(now, k) for k in PEOPLE]
        if not own(before, "c0"):
            continue
        mean = average([own(before, k) for k in PEOPLE], [1] * len(PEOPLE))
        assert square_distance(average(x, [1] * len(x)), mean) < 1e-10
        for k in PEOPLE:
            away = {n: 0.7 * t for n, t in add(own(before, k), mean, -1).items()}
            assert square_distance(add(own(now, k), mean, -1), away) < 1e-10


def test_the_mean_is_of_everybodys_model() -> None:
    before, collect = next((a, b) for a, b in pairwise(EVENTS) if b.stage and b.stage.name == "collect")

    mean = average([own(before, k) for k in PEOPLE], [1] * len(PEOPLE))
    assert digest(mean) == digest(collect.server.shared)


@pytest.mark.parametrize("method", [L2GD(a=0.0), L2GD(p=0.0)], ids=["a = 0", "p = 0"])
def test_without_lambda_everybody_is_alone_and_nothing_travels(method: L2GD) -> None:
    """C23-L2: after as many local rounds everybody is where Local is."""
    alone = history(place(method, training=FULL_BATCH), number=6)
    trained = sum(bool(now.stage and now.stage.name == "local") for now in alone)
    local = history(place(Local(), training=FULL_BATCH), number=trained, join=EVERYBODY)[-1]

    assert trained
    assert all(square_distance(own(alone[-1], k), local.held[k].kept) < 1e-10 for k in PEOPLE)
    assert not any(any([*now.down.values(), *now.up.values()]) for now in alone)


def test_averaging_all_the_way_makes_everybody_the_mean() -> None:
    """C23-L3: a = 1."""
    met = 0
    for now in history(place(L2GD(a=1.0)), number=8):
        if now.stage and now.stage.name == "average" and now.stage.send:
            met += 1
            assert {digest(own(now, k)) for k in PEOPLE} == {digest(now.server.shared)}
    assert met


def test_a_step_goes_down_the_objective_on_average() -> None:
    """C23-L4, with α = 0.4, λ = 0.5, K = 2, p = ½: η = α / (K (1 - p)) = 0.4, a = αλ / (Kp) = 0.2.

    x = 2, x̄ = 4, target 5.  Local: 2 + 0.4 · 3 = 3.2.  Averaging: 0.8 · 2 + 0.2 · 4 = 2.4.  On average
    ½ 1.2 + ½ 0.4 = 0.8, which is -α times (∇L + λ (x - x̄)) / K = (-3 - 1) / 2 = -2.
    """
    method, mine = L2GD(p=0.5, a=0.2), under("own", weights(head=2.0))
    at = one_weight.place(method, One(w=9.0), training=Training(lr=0.4, batch=1000), a=[5.0])

    alone, nearer = (
        values(within("own", at.take(Turn(1, Stage(name, 1, 2, reply=False), "a", told, 0, mine)).kept))[
            "head"
        ]
        for name, told in (("local", NOTHING), ("average", weights(head=4.0)))
    )

    assert (alone, nearer) == pytest.approx((3.2, 2.4), abs=1e-12)
    assert 0.5 * (alone - 2) + 0.5 * (nearer - 2) == pytest.approx(-0.4 * ((2 - 5) + 0.5 * (2 - 4)) / 2)


# (e) and (f) who predicts -------------------------------------------------------------------------------


def seated(method: L2GD, stage: Stage, kept: Tensors, **received: float) -> Client:
    at = one_weight.place(method, One(w=9.0), a=[5.0])
    return at.seat(Turn(0, stage, "a", weights(**received), 0, kept))


def test_e_a_client_predicts_with_its_own_model_and_anybody_with_the_mean() -> None:
    kept = under("own", weights(head=2.0))

    mine, everybodys = seated(L2GD(), PERSONAL, kept, head=4.0), None
    assert L2GD().personal(mine)["own"] is mine.parts
    assert values(mine.tensors()) == {"head": 2.0}
    everybodys = seated(L2GD(), GENERIC, {}, head=4.0)
    assert L2GD().generic(everybodys)["network"] is everybodys.parts
    assert values(everybodys.tensors()) == {"head": 4.0}


def test_e_who_has_no_model_of_its_own_predicts_with_the_mean() -> None:
    client = seated(L2GD(), PERSONAL, {}, head=4.0)

    L2GD().personal(client)

    assert values(client.tensors()) == {"head": 4.0}


def test_f_a_newcomer_moves_back_towards_the_mean_after_each_epoch_by_hand() -> None:
    """From x̄ = 4: 4.1, back to 0.7 · 4.1 + 0.3 · 4 = 4.07; 4.163, back to 4.1141.  Without epochs: 4."""
    for epochs, expected in ((0, 4.0), (1, 4.07), (2, 4.1141)):
        client = seated(L2GD(), WELCOME, {}, head=4.0)

        (predict,) = L2GD().welcome(client, epochs).values()

        assert predict is client.parts
        assert values(client.tensors()) == pytest.approx({"head": expected}, abs=1e-12)


def test_f_every_epoch_of_a_newcomer_shuffles_anew() -> None:
    """With a = 0 two epochs, of four batches in orders of their own, are not twice the first."""
    at = one_weight.place(L2GD(a=0.0), One(), training=Training(lr=0.1, batch=1), a=[1.0, 3.0, 4.0, 8.0])
    orders = {}
    for epoch in range(2):
        client = at.seat(Turn(0, WELCOME, "a", weights(head=2.0), 0, {}))
        orders[epoch] = [float(x) for x, _ in client.batches(1, f"epoch {epoch}")]
    client = at.seat(Turn(0, WELCOME, "a", weights(head=2.0), 0, {}))

    L2GD(a=0.0).welcome(client, 2)

    w = 2.0
    for target in orders[0] + orders[1]:
        w += 0.1 * (target - w)
    assert orders[0] != orders[1]
    assert values(client.tensors()) == pytest.approx({"head": w}, abs=1e-9)


# whom, and what stays ------------------------------------------------------------------------------------


def test_among_those_asked_alone() -> None:
    """Half the clients a round: who was not asked stays, and every averaging is of those it asks."""
    rounds = history(place(L2GD(who="cohort")), number=12, join=Join(number=3))

    assert {len(now.cohort) for now in rounds} == {3}
    means = 0
    for before, now in pairwise(rounds):
        for k in set(PEOPLE) - set(now.cohort):
            assert digest(now.held.of(k).kept) == digest(before.held.of(k).kept)
        if now.stage and now.stage.name == "average":
            means += 1
            assert before.stage
            assert (before.stage.name, before.cohort) == ("collect", now.cohort)
            assert set(now.down.values()) == {BOTH}
    assert means > 1


def test_running_statistics_stay_at_home_and_are_not_mixed() -> None:
    at = place(L2GD(), model=Net(norm=True))
    for before, now in pairwise(history(at, number=12)):
        assert not [n for n in now.server.shared if "running" in n]
        assert not [n for n in own(now, "c0") if "running" in n]
        if now.stage and now.stage.name == "average":
            name = "encoder.norm.running_mean"
            assert torch.equal(now.held["c0"].kept[name], before.held["c0"].kept[name])


def test_who_missed_several_rounds_is_told_them_in_their_order() -> None:
    """c1 misses the first round, and is not asked for the second before it has done the first."""
    missed: list[Turn] = []

    def fate(turn: Any) -> Any:
        if turn.client == "c1" and len(missed) < 4:  # three tries, and once when told again
            missed.append(turn)
            return "drop"
        return "ok"

    rounds = history(place(L2GD(p=0.0)), number=3, executor=Scripted(fate))

    assert ["c1" in now.heard for now in rounds] == [False, False, True]
    usual = history(place(L2GD(p=0.0)), number=3)
    assert digest(own(rounds[-1], "c1")) == digest(own(usual[-1], "c1"))


@pytest.mark.parametrize(("name", "value"), [("p", 0), ("p", 1), ("a", 0), ("epochs", 0)])
def test_a_setting_that_makes_it_another_method_is_said(name: str, value: int) -> None:
    (sentence,) = replace(L2GD(), **{name: value}).dull()

    assert sentence.startswith(f"{name} = {value}: ")


def test_received_and_kept_are_left_as_they_are() -> None:
    kept = under("own", weights(head=2.0))
    before = digest(copied(kept))

    asked(L2GD(), "average", kept=kept, head=12.0)

    assert digest(kept) == before
