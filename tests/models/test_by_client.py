"""Networks that differ between clients: how they are spelled, who gets which, and what a run makes of it."""

import pytest
import torch

from pluribus.errors import SettingError, UnknownName
from pluribus.executors.processes import Processes
from pluribus.models import MLP, MODELS, ByClient, PFedPMCNN, for_clients, read_models, write_models
from pluribus.readings.evaluate import evaluate
from pluribus.runs import run
from pluribus.settings import Settings
from pluribus.study import prepare

TWO = "mlp:8|mlp:12+8"
SMALL = Settings(method="fedproto", data="digits", clients=5, model=TWO, rounds=2)
LINE = ["--data", "digits", "--clients", "5", "--model", TWO, "--rounds", "2", "--quiet"]


def blocks(text: str, clients: int) -> list[str]:
    """The number of each client's model among those of the text."""
    models = read_models(text, MODELS)
    given = for_clients(models, [f"c{k:02}" for k in range(clients)])
    return [str(models.index(given(f"c{k:02}"))) for k in range(clients)]


def test_clients_are_cut_into_equal_blocks_as_in_pfedpm():
    """Of twenty: 0-6, 7-13 and 14-19; and 0-9, 10-19."""
    channels = "pfedpm-cnn:channels=18|pfedpm-cnn|pfedpm-cnn:channels=22"
    strides = "resnet18:strides=1+4|resnet18"

    assert "".join(blocks(channels, 20)) == 7 * "0" + 7 * "1" + 6 * "2"
    assert "".join(blocks(strides, 20)) == 10 * "0" + 10 * "1"
    assert "".join(blocks("mlp|logistic|mlp", 3)) == "010"


def test_the_order_of_names_decides_and_not_the_order_in_which_they_come():
    models = read_models(TWO, MODELS)

    assert for_clients(models, ["b", "c", "a"]) == for_clients(models, ["a", "b", "c"])
    assert for_clients(models, ["b", "a"]) == ByClient({"a": models[0], "b": models[1]})


def test_newcomers_have_their_place_in_the_row():
    place = prepare(SMALL.with_(newcomers=2, clients=6)).place

    row = sorted([*place.clients, *place.newcomers])
    assert [place.model_of(k) for k in row] == 3 * [MLP((8,))] + 3 * [MLP((12, 8))]


def test_one_model_is_for_all():
    assert for_clients((PFedPMCNN(),), ["a", "b"]) == PFedPMCNN()


def test_there_are_no_more_networks_than_clients():
    with pytest.raises(SettingError, match="model names 2 networks, but there are 1 clients"):
        for_clients(read_models(TWO, MODELS), ["a"])


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("mlp:200 | mlp:100", "mlp|mlp:hidden=100"),
        ("mlp|mlp:200", "mlp"),
        ("mlp|mlp|logistic", "mlp|mlp|logistic"),
    ],
)
def test_one_meaning_has_one_spelling(text, written):
    assert write_models(read_models(text, MODELS), MODELS) == written
    assert Settings(model=text).model == written
    assert Settings.from_toml(Settings(model=text).to_toml()) == Settings(model=written)


@pytest.mark.parametrize(("text", "says"), [("mlp|mpl", "no model 'mpl'"), ("mlp|", "no model ''")])
def test_a_name_that_is_none_is_said(text, says):
    with pytest.raises(UnknownName, match=says):
        Settings(model=text)


@pytest.mark.parametrize("method", ["fedproto", "pfedpm", "local"])
def test_there_is_no_mean_of_whole_models_and_the_reason_is_given(method, tmp_path):
    result = run(SMALL.with_(method=method), out=tmp_path / "run")

    assert result.generic.last is None
    assert "clients' networks differ: there is no mean of whole ones" in result.missing["generic"]
    assert result.personal.last is not None
    assert prepare(SMALL.with_(method=method)).conduct.watch == 0


@pytest.mark.parametrize("method", ["fedavg", "fedper", "fedrep"])
def test_what_cannot_be_averaged_is_an_error_before_work_starts(method):
    with pytest.raises(
        SettingError, match=r"shares encoder.fc1.weight, which is \(8, 64\) of c00 and \(12, 64\) of c03"
    ):
        prepare(SMALL.with_(method=method))


def test_a_part_that_only_some_have_cannot_be_averaged():
    with pytest.raises(SettingError, match=r"which is \(8, 64\) of c00 and missing of c03"):
        prepare(SMALL.with_(method="fedavg", model="mlp:8|logistic"))


def test_all_networks_must_fit_into_memory(monkeypatch):
    monkeypatch.setattr("pluribus.study.memory_of_machine", lambda: 10_000)
    one = (64 * 8 + 8 + 8 * 10 + 10) * 16

    assert one < 0.8 * 12_500 < 2 * one
    monkeypatch.setattr("pluribus.study.memory_of_machine", lambda: 12_500)
    with pytest.raises(SettingError, match="takes .* to train"):
        prepare(SMALL.with_(model="mlp:8|mlp:8,head_layers=2"))


def test_the_same_bits_in_this_process_and_on_workers(tmp_path):
    alone = run(SMALL, out=tmp_path / "alone")
    with Processes(2) as executor:
        workers = run(SMALL, out=tmp_path / "workers", executor=executor)

    assert alone.hash == workers.hash
    assert alone.readings == workers.readings


def test_readings_are_of_each_clients_own_network():
    from pluribus.engine import rounds

    study = prepare(SMALL.with_(method="local"))
    now = list(rounds(study.place, study.conduct))[-1]

    scores = evaluate(study.place, now).scores["personal/network"]

    for client, data in study.federation.items():
        network = study.place.model_of(client).build(study.place.shape, study.place.classes)
        network.load_state_dict(dict(now.held.of(client).kept))
        with torch.no_grad():
            right = int((network(data.test.x).argmax(1) == data.test.y).sum())
        assert scores[client].right == right
