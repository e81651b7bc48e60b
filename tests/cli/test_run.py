"""`pluribus run` and `pluribus resume`."""

import json

import pytest

from .conftest import SMALL

KEYS = {
    "method", "data", "clients", "rounds", "seed", "generic", "personal", "newcomers", "payload_bytes",
    "hash", "seconds", "run_dir",
}  # fmt: skip


def test_the_result_is_one_json_document_and_nothing_else(pluribus):
    said = pluribus("run", "fedavg", *SMALL, "--newcomers", "1", "--epochs", "2", "--json")

    result = json.loads(said.out)
    shared = 4 * (64 * 16 + 16 + 16 * 10 + 10)  # float32 weights
    assert said.code == 0
    assert result.keys() >= KEYS
    assert {"best_on_test", "last", "selected"} <= result["generic"].keys()
    assert result["generic"]["last"] == result["personal"]["last"]
    assert result["payload_bytes"] == {"up": 2 * 3 * shared, "down": 2 * 3 * shared}  # rounds, clients
    assert (result["clients"], result["newcomers"]["clients"]) == (4, 1)
    assert result["settings"]["set"] == {"epochs": 2}
    assert "round 2/2  G " in said.err


def test_the_same_command_gives_the_same_hashes_in_a_folder_of_its_own(pluribus, tmp_path):
    first, second = (pluribus("run", "fedper", *SMALL, "--json", "--quiet").json for _ in range(2))

    assert first["hash"] == second["hash"]
    assert first["run_dir"] != second["run_dir"]
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_settings_of_a_finished_run_repeat_it_and_options_override_them(pluribus):
    first = pluribus("run", "fedrep", *SMALL, "--set", "head_epochs=1", "--lr-at", "2=0.01", "--json").json
    config = f"{first['run_dir']}/settings.toml"

    again = pluribus("run", "--config", config, "--json").json
    other = pluribus("run", "--config", config, "--set", "head_epochs=2", "--json").json

    assert again["hash"] == first["hash"]
    assert other["hash"] != first["hash"]
    assert other["settings"]["set"] == {"head_epochs": 2, "body_epochs": 1}
    assert other["settings"]["training"]["lr_at"] == [[2, 0.01]]


def test_every_option_reaches_the_settings(pluribus):
    given = {
        "pool": "train", "normalise": "statistics", "test": 0.3, "val": 0.1, "partition": "iid",
        "join": "0.5", "drop": 0.1, "batch": 7, "lr": 0.02, "momentum": 0.5, "weight_decay": 0.001,
        "optimiser": "sgd", "lr_decay": 0.9, "last_batch": "drop", "statistics": "local",
        "data_seed": 1, "model_seed": 2, "seed": 3,
        "eval_every": 2, "adapt_epochs": 1, "personal_on": "trained",
    }  # fmt: skip
    options = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]

    settings = pluribus("run", "fedavg", *SMALL, *options, "--json").json["settings"]

    assert {name: {**settings, **settings["training"]}[name] for name in given} == given


def test_a_setting_the_method_has_not_is_noted_and_a_dull_one_warned_of(pluribus):
    epochs = pluribus("run", "fedrep:head_epochs=1", *SMALL, "--epochs", "3")
    dull = pluribus("run", "fedprox", *SMALL, "--set", "mu=0", "--quiet")

    assert "fedrep has no setting 'epochs'" in epochs.err
    assert "warning: " in dull.err
    assert "without the pull this is FedAvg" in dull.err
    assert "round" not in dull.err


def test_the_table_says_how_g_was_read(pluribus):
    said = pluribus("run", "fedper", *SMALL, "--out", "mine", "--quiet")

    assert said.out.split()[:7] == ["accuracy", "in", "%", "last", "best", "on", "test"]
    assert "a mean of whole models" in said.out
    assert "all of it in mine" in said.out


def test_a_folder_that_is_not_empty_is_refused(pluribus, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")

    said = pluribus("run", "fedavg", *SMALL, "--out", "mine")

    assert (said.code, said.out) == (1, "")
    assert "mine is not empty" in said.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_a_finished_run_is_resumed_by_showing_its_result(pluribus):
    first = pluribus("run", "local", *SMALL, "--out", "mine", "--json").json

    said = pluribus("resume", "mine", "--json")

    assert said.json == first
    assert "finished" in said.err


def test_a_run_that_has_lost_its_result_is_resumed_to_the_same(pluribus, tmp_path):
    first = pluribus("run", "fedper", *SMALL, "--out", "mine", "--json").json
    (tmp_path / "mine" / "result.json").unlink()

    again = pluribus("resume", "mine", "--json").json

    assert again["hash"] == first["hash"]
    assert again["personal"] == first["personal"]


@pytest.mark.parametrize("name", ["first", "first/second"])
def test_a_name_is_that_of_one_folder(pluribus, name):
    said = pluribus("run", "local", *SMALL, "--name", name, "--json")

    assert said.code == (1 if "/" in name else 0)
    assert ("run_dir" in said.out) == ("/" not in name)
