"""Generic, personal, zero-shot and adapted: every reading of every client."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from pluribus.cohort import Join
from pluribus.examples import Examples
from pluribus.executors.scripted import Scripted
from pluribus.executors.serial import Serial
from pluribus.method import Predictors
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.methods.fedprox import FedProx
from pluribus.methods.local import Local
from pluribus.readings import evaluate as evaluating
from pluribus.readings.evaluate import Readings, evaluate, mean_of_whole, welcome
from pluribus.readings.score import Score
from pluribus.state import Tensors, average, digest
from pluribus.turn import Place
from toy import PEOPLE, Net, Person, history, place

NEWCOMERS = {"n0": replace(PEOPLE["c0"], id="n0", key="n0"), "n1": replace(PEOPLE["c3"], id="n1", key="n1")}


class Counting(Serial):
    """An executor that remembers what it was asked to do."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        self.items += items
        yield from super().run(work, items)


def right(at: Place, state: Tensors, person: Person, model: Any = None) -> int:
    network = at.build(model or Net()).parts
    network.load_state_dict(state, strict=False)
    return int((network.eval()(person.test.x).argmax(1) == person.test.y).sum())


def test_generic_and_personal_by_hand() -> None:
    at = place(FedPer(), newcomers=NEWCOMERS)
    now = history(at)[-1]

    readings = evaluate(at, now, Serial())

    for k, person in PEOPLE.items():
        state = {**now.server.shared, **now.held.of(k).kept}
        assert readings.scores["personal/network"][k] == Score(right(at, state, person), 30)
    assert readings.named("generic") is None
    assert readings.missing == {"generic": "every client has a head of its own"}


@pytest.mark.parametrize("method", [FedAvg(), FedProx()])
def test_of_a_single_model_generic_is_personal_in_every_round(method: Any) -> None:
    """Law 5g.8, and U-law of the papers: one model, all test data, every example the same."""
    at = place(method)
    for now in history(at):
        readings = evaluate(at, now, Serial())

        assert readings.summary("generic") == readings.summary("personal")
        assert readings.scores["generic/network"] == readings.scores["personal/network"]


def test_one_model_is_tried_once_for_both_readings_and_all_clients() -> None:
    at, executor = place(FedAvg()), Counting()

    evaluate(at, history(at, number=1)[-1], executor)

    assert [look.clients for look in executor.items] == [tuple(PEOPLE)]


def test_a_personal_model_is_tried_by_its_client_alone() -> None:
    at, executor = place(FedPer()), Counting()

    evaluate(at, history(at, join=Join(), number=1)[-1], executor)

    assert sorted(look.clients for look in executor.items) == [(k,) for k in sorted(PEOPLE)]


@pytest.mark.parametrize("method", [FedAvg(), FedPer(), Local()])
@pytest.mark.parametrize("norm", [False, True])
def test_looks_taken_together_read_what_they_read_alone(
    method: Any, norm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = place(method, model=Net(norm=norm))
    now = history(at, number=2)[-1]
    together = evaluate(at, now, Serial())

    monkeypatch.setattr(evaluating, "EXAMPLES_A_LOOK", 1)
    one_by_one = Counting()

    assert evaluate(at, now, one_by_one) == together
    assert {len(look.clients) for look in one_by_one.items} == {1}


def test_so_many_examples_are_looked_at_together_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "EXAMPLES_A_LOOK", 75)
    at, executor = place(FedAvg()), Counting()

    evaluate(at, history(at, number=1)[-1], executor)

    assert [len(look.clients) for look in executor.items] == [2, 2, 2]


def test_the_order_of_replies_changes_no_reading() -> None:
    at = place(FedPer(), newcomers=NEWCOMERS)
    now = history(at)[-1]

    one, two = (evaluate(at, now, e) | welcome(at, now, e, epochs=1) for e in (Serial(), Scripted(seed=5)))

    assert one == two
    assert list(one.scores["personal/network"]) == sorted(PEOPLE)


# the mean of whole models -------------------------------------------------------------------------


def test_the_mean_of_whole_models_is_fedavgs_own_result() -> None:
    at = place(FedAvg())
    for now in history(at, watch=1):
        assert digest(mean_of_whole(at, now.trained) or {}) == digest(now.server.shared)


def test_where_there_is_no_generic_model_the_mean_of_whole_models_is_read() -> None:
    at = place(FedPer())
    now = history(at, watch=1, number=2)[-1]
    sizes = [len(PEOPLE[k].train) for k in now.trained]
    mean = average(list(now.trained.values()), sizes)

    readings = evaluate(at, now, Serial(), whole=now.trained)

    assert readings.missing == {}
    assert readings.named("generic") == "generic/whole models"
    assert readings.scores["generic/whole models"] == {
        k: Score(right(at, mean, p), 30) for k, p in PEOPLE.items()
    }


def test_reading_whole_models_leaves_the_personal_reading_as_it_is() -> None:
    at = place(FedPer())
    now = history(at, watch=1)[-1]

    with_, without = evaluate(at, now, Serial(), whole=now.trained), evaluate(at, now, Serial())

    assert with_.scores["personal/network"] == without.scores["personal/network"]


def test_of_different_networks_there_is_no_mean() -> None:
    at = place(Local(), model=lambda client: Net(width=5 if client == "c0" else 0))
    now = history(at, watch=1, number=1)[-1]

    readings = evaluate(at, now, Serial(), whole=now.trained)

    why = "nobody shares anything, and clients' networks differ: there is no mean of whole ones"
    assert readings.missing == {"generic": why}


def test_the_counter_of_batches_is_no_part_of_a_mean() -> None:
    at = place(Local(), model=Net(norm=True))
    now = history(at, watch=1, number=1)[-1]

    mean = mean_of_whole(at, now.trained)

    assert mean is not None
    assert "encoder.norm.running_mean" in mean
    assert "encoder.norm.num_batches_tracked" not in mean


# personal on trained ------------------------------------------------------------------------------


def test_personal_can_be_read_on_each_clients_own_last_trained_model() -> None:
    at = place(FedAvg())
    now = history(at, keep_trained=True)[-1]

    readings = evaluate(at, now, Serial(), personal_on="trained")

    for k, person in PEOPLE.items():
        state = now.held.of(k).trained or now.server.shared
        assert readings.scores["personal/network"][k] == Score(right(at, state, person), 30)
    assert readings.scores["personal/network"] != evaluate(at, now, Serial()).scores["personal/network"]
    assert readings.scores["generic/network"] == evaluate(at, now, Serial()).scores["generic/network"]


def test_who_never_trained_is_read_on_what_it_would_receive() -> None:
    at = place(FedPer())
    now = history(at, number=1, join=Join(number=1), keep_trained=True)[-1]
    away = [k for k in PEOPLE if k not in now.heard]

    trained, received = (evaluate(at, now, Serial(), personal_on=on) for on in ("trained", "received"))

    assert all(trained.client(k) == received.client(k) for k in away)


# batch statistics ---------------------------------------------------------------------------------


def test_local_statistics_are_each_clients_own_in_the_generic_reading_too() -> None:
    at = place(FedAvg(), model=Net(norm=True), statistics="local")
    now = history(at, join=Join())[-1]

    readings = evaluate(at, now, Serial())

    for k, person in PEOPLE.items():
        state = {**now.server.shared, **now.held.of(k).kept}
        expected = Score(right(at, state, person, Net(norm=True)), 30)
        assert readings.scores["generic/network"][k] == readings.scores["personal/network"][k] == expected


# splits and clients -------------------------------------------------------------------------------


def test_another_split_can_be_read() -> None:
    people = {k: replace(p, val=p.train.take(torch.arange(7))) for k, p in PEOPLE.items()}
    at = place(FedAvg(), clients=people)

    readings = evaluate(at, history(at, number=1)[-1], Serial(), split="val")

    assert {s.seen for s in readings.scores["personal/network"].values()} == {7}


def nothing(data: Examples) -> Examples:
    return data.take(torch.arange(0))


def test_who_has_no_test_data_is_left_out_and_who_has_no_training_data_is_not() -> None:
    people = {
        **PEOPLE,
        "c1": replace(PEOPLE["c1"], test=nothing(PEOPLE["c1"].test)),
        "c2": replace(PEOPLE["c2"], train=nothing(PEOPLE["c2"].train)),
    }
    for method in (FedAvg(), FedPer()):
        at = place(method, clients=people)

        readings = evaluate(at, history(at)[-1], Serial())

        assert set(readings.scores["personal/network"]) == set(PEOPLE) - {"c1"}


def test_without_any_validation_data_there_is_no_reading_of_it() -> None:
    at = place(FedAvg())

    readings = evaluate(at, history(at, number=1)[-1], Serial(), split="val")

    assert readings.scores == {}
    assert readings.accuracy("generic") is None


# newcomers ----------------------------------------------------------------------------------------


def test_newcomers_are_read_before_and_after_training_of_their_own() -> None:
    at = place(FedPer(), newcomers=NEWCOMERS)
    now = history(at)[-1]

    readings = welcome(at, now, Serial(), epochs=10)

    initial = at.built("c0").initial
    zero = {**initial, **now.server.shared}
    for k, person in NEWCOMERS.items():
        assert readings.scores["zero-shot/network"][k] == Score(right(at, zero, person), 30)
    assert (readings.accuracy("adapted") or 0) > (readings.accuracy("zero-shot") or 0)


def test_newcomers_never_take_part() -> None:
    with_, without = place(FedAvg(), newcomers=NEWCOMERS), place(FedAvg())

    one, two = history(with_), history(without)

    assert digest(one[-1].server.shared) == digest(two[-1].server.shared)
    assert all(k in PEOPLE for now in one for k in now.cohort)


# several predictors -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TwoOpinions(FedAvg):
    """Predicts with its network, and with its opposite."""

    def personal(self, client: Any) -> Predictors:
        return {"network": client.parts, "opposite": lambda x: -client.parts(x)}


def test_a_method_may_predict_in_several_ways_and_the_first_is_p() -> None:
    at = place(TwoOpinions())
    now = history(at)[-1]

    readings = evaluate(at, now, Serial())

    assert set(readings.scores) == {"personal/network", "personal/opposite", "generic/network"}
    assert (
        readings.accuracy("personal") == readings.accuracy("personal/network") == readings.accuracy("generic")
    )
    assert readings.accuracy("personal") != readings.accuracy("personal/opposite")
    assert readings.client("c0") == {name: each["c0"] for name, each in readings.scores.items()}


def test_readings_are_joined() -> None:
    one = Readings({"personal/a": {"c0": Score(1, 2)}}, {"generic": "because"})
    two = Readings({"adapted/a": {"n0": Score(1, 4)}})

    assert one | two == Readings({**one.scores, **two.scores}, one.missing)
    assert (one | two).accuracy("adapted") == 0.25
    assert (one | two).named("personal") == "personal/a"
