import pytest
import torch

from pluribus import memory
from pluribus.data import load
from pluribus.data.division import divide
from pluribus.engine import rounds
from pluribus.errors import PartitionError, SettingError
from pluribus.settings import Settings
from pluribus.study import prepare
from pluribus.training import Training

SMALL = Settings(data="digits", clients=5, model="mlp:8", rounds=2)


def test_a_study_has_all_that_rounds_need():
    study = prepare(SMALL)

    history = list(rounds(study.place, study.conduct))

    assert [now.number for now in history] == [1, 2]
    assert study.settings == SMALL.resolved()
    assert study.warnings == ()


def test_three_seeds_decide_three_things():
    one, other = (prepare(SMALL.with_(seed=seed, data_seed=3, model_seed=4)) for seed in (0, 1))

    assert one.division.hash == other.division.hash
    weights = [s.place.built("c00").initial["encoder.fc1.weight"] for s in (one, other)]
    assert torch.equal(*weights)
    assert one.place.seed != other.place.seed
    assert prepare(SMALL.with_(data_seed=4)).division.hash != one.division.hash
    moved = prepare(SMALL.with_(model_seed=5)).place.built("c00").initial["encoder.fc1.weight"]
    assert not torch.equal(moved, weights[0])


@pytest.mark.parametrize(("method", "watch"), [("fedavg", 0), ("fedper", 3)])
def test_whole_models_are_watched_only_where_there_is_no_other_generic_reading(method, watch):
    assert prepare(SMALL.with_(method=method, eval_every=3)).conduct.watch == watch


def test_a_division_can_be_given():
    dataset = load("digits")
    division = divide(dataset, "iid", clients=3)

    study = prepare(SMALL, division=lambda _: division)

    assert study.division is division
    assert list(study.federation) == ["c00", "c01", "c02"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"method": "fedprox:mu=0"}, "fedprox: mu = 0.0: without the pull this is FedAvg"),
        ({"method": "fedbn"}, "fedbn: mlp:hidden=8 has no batch normalisation, so that this is FedAvg"),
        ({"method": "dualfed"}, "dualfed: mlp:hidden=8 has no projector"),
        ({"training": Training(lr=0)}, "lr = 0: nothing is learned"),
        ({"training": Training(lr=0.1, momentum=0.9, optimiser="adam")}, "momentum = 0.9: adam"),
        ({"training": Training(lr=0.1, batch=5000)}, "batch = 5000: no client has as many examples"),
        ({"training": Training(lr=0.1, lr_at=((9, 0.1),))}, "lr_at = 9=...: the run ends after round 2"),
        ({"statistics": "local"}, "statistics = local: mlp:hidden=8 has no running statistics"),
        ({"join": "9"}, "join = 9: there are 5 clients that train"),
        ({"newcomers": 1, "adapt_epochs": 0}, "adapt_epochs = 0"),
        ({"test": 0.0}, "clients c00, c01, c02, c03, c04 have nothing to be tested on: not read"),
        ({"partition": "iid", "clients": 1797, "test": 0.0, "val": 0.9}, "nothing to be tested on"),
    ],
)
def test_settings_that_are_legal_and_rarely_meant_are_named(changes, says):
    warnings = prepare(SMALL.with_(**changes)).warnings

    assert any(says in warning for warning in warnings), warnings


def test_a_client_without_data_is_named():
    warnings = prepare(SMALL.with_(partition="iid", clients=1000, test=0.5)).warnings

    assert any("have nothing to train on: never asked, but read" in warning for warning in warnings)


def test_what_cannot_fit_is_refused_before_work_starts(monkeypatch):
    monkeypatch.setattr(memory, "memory_of_machine", lambda: 13_000)

    with pytest.raises(SettingError, match="a run may take 10 kB of memory here"):
        prepare(SMALL)


def test_data_that_cannot_be_divided_so_are_refused_before_work_starts():
    with pytest.raises(PartitionError, match="try"):
        prepare(SMALL.with_(clients=100_000))
