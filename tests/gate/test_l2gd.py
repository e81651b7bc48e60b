"""L2GD's coin, its two kinds of event, and what they cost."""

from itertools import pairwise

import torch

from contracts import ENCODER, HEAD
from gate.by_hand import EVERYBODY, FULL_BATCH, near, run, seated
from gate.l2gd import L2GD
from pluribus.executors.scripted import Scripted
from pluribus.methods.local import Local
from pluribus.seeds import generator
from pluribus.stage import WELCOME
from pluribus.state import average, copied, digest, within
from pluribus.turn import Turn
from toy import PEOPLE, history, place

EVENTS = run("l2gd", number=30)


def own(now, client):
    return within("own", now.held[client].kept)


def test_a_common_coin_plans_averaging_with_probability_p():
    """2000 events, p = 0.3: 600 averagings, give or take three deviations of √(2000 · 0.3 · 0.7) = 20.5."""
    plan = L2GD(p=0.3).plan(2000, generator("plan"))

    averagings = sum(stage.name == "average" for stage in plan)
    assert 538 < averagings < 662
    assert averagings + sum(stage.name == "local" for stage in plan) == 2000


def test_models_travel_once_for_each_local_event_that_an_averaging_follows():
    """C23-L5."""
    events = [now.stage.name for now in EVENTS if now.stage.name != "collect"]
    changes = sum(a == "local" and b == "average" for a, b in pairwise(events))

    assert {"local", "average"} <= set(events)
    assert sum(now.stage.name == "collect" for now in EVENTS) == changes > 1
    assert sum(sum(now.up.values()) for now in EVENTS) == changes * len(PEOPLE) * (ENCODER + HEAD)
    assert sum(sum(now.down.values()) for now in EVENTS) == changes * len(PEOPLE) * (ENCODER + HEAD)


def test_the_mean_counts_every_client_the_same():
    before, collect = next((a, b) for a, b in pairwise(EVENTS) if b.stage.name == "collect")

    mean = average([own(before, k) for k in PEOPLE], [1] * len(PEOPLE))
    assert digest(mean) == digest(collect.server.shared)


def test_averaging_keeps_the_mean_and_draws_everybody_nearer():
    """C23-L1: x_k - x̄ shrinks to 1 - a = 0.7 of what it was, also when averagings follow each other."""
    averagings = [(a, b) for a, b in pairwise(EVENTS) if b.stage.name == "average"]
    assert any(a.stage.name == "average" and b.stage.name == "average" for a, b in averagings)

    for before, now in averagings:
        mean = now.server.shared["head.weight"]
        for k in before.held:
            old, new = own(before, k).get("head.weight", mean), own(now, k)["head.weight"]
            assert torch.allclose(new - mean, 0.7 * (old - mean), atol=1e-6)


def test_a_run_that_never_averages_is_local():
    """C23-L2: λ = 0, hence p = 0."""
    alone = run("l2gd", method=L2GD(p=0.0), training=FULL_BATCH, number=3)[-1]
    local = history(place(Local(), training=FULL_BATCH), number=3, join=EVERYBODY)[-1]

    assert all(near(own(alone, k), local.held[k].kept) for k in PEOPLE)
    assert not any([*alone.down.values(), *alone.up.values()])


def test_averaging_all_the_way_makes_everybody_the_mean():
    """C23-L3: a = 1."""
    for now in run("l2gd", method=L2GD(a=1.0)):
        if now.stage.name == "average" and now.stage.send:
            assert {digest(own(now, k)) for k in PEOPLE} == {digest(now.server.shared)}


def test_a_newcomer_moves_back_towards_the_mean_after_each_epoch():
    """It ends 1 - 0.3 of the way from the mean to where the epoch alone would have brought it."""
    mean = EVENTS[-1].server.shared

    there = {}
    for a in (0.0, 0.3):
        client = seated(place(L2GD(a=a), training=FULL_BATCH), message=mean, stage=WELCOME)
        L2GD(a=a).welcome(client, 1)
        there[a] = copied(client.parts.state_dict())

    assert near(
        {n: t - mean[n] for n, t in there[0.3].items()},
        {n: 0.7 * (t - mean[n]) for n, t in there[0.0].items()},
    )
    assert not near(there[0.0], mean)


def test_who_missed_several_events_is_told_them_in_their_order():
    """c1 misses the first event, and is not asked for the second before it has done the first."""
    missed: list[Turn] = []

    def fate(turn):
        if turn.client == "c1" and len(missed) < 4:  # three tries, and once when told again
            missed.append(turn)
            return "drop"
        return "ok"

    rounds = run("l2gd", method=L2GD(p=0.0), number=3, executor=Scripted(fate))

    assert ["c1" in now.heard for now in rounds] == [False, False, True]
    usual = run("l2gd", method=L2GD(p=0.0), number=3)
    assert digest(own(rounds[-1], "c1")) == digest(own(usual[-1], "c1"))
