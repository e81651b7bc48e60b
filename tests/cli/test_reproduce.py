"""`pluribus reproduce` and `pluribus papers`."""

from dataclasses import replace
from pathlib import Path

import pytest

from pluribus import experiments
from pluribus.experiments import EXPERIMENTS, Claim, Experiment, Number, Row

TINY = Experiment(
    title="A tiny one",
    settings={"data": "digits", "clients": 4, "model": "mlp:4", "rounds": 2, "partition": "iid"},
    rows={"FedAvg": Row("fedavg", reads=("G",)), "FedPer": Row("fedper")},
    columns={"digits": {}},
    numbers={"G": Number(of="generic"), "P": Number(when="best_on_test")},
    seeds=2,
    published={("FedAvg", "digits", "G"): 50.0, ("FedPer", "digits", "P"): 40.0},
    misprints={("FedPer", "digits", "P"): "two digits are swapped"},
    claims=(Claim(("FedPer", "P"), ("FedAvg", "G"), by=200),),
    note="published: nowhere",
)


@pytest.fixture(autouse=True)
def _with_a_tiny_experiment(monkeypatch):
    monkeypatch.setitem(experiments.EXPERIMENTS, "tiny/table1", TINY)


def test_the_table_has_ours_theirs_and_the_difference(pluribus):
    said = pluribus("reproduce", "tiny/table1", "--json", "--workers", "1")

    rows = {(row["row"], row["number"]): row for row in said.json["rows"]}
    row = rows["FedAvg", "G"]
    assert (said.code, list(rows)) == (0, [("FedAvg", "G"), ("FedPer", "G"), ("FedPer", "P")])
    assert len(row["ours"]["values"]) == 2
    assert row["difference"] == pytest.approx(row["ours"]["mean"] - 0.5)
    assert (row["published"], row["seeds"]) == (0.5, "2 of 2")
    assert row["read"] == "generic, every example counting the same, after the last round"
    assert rows["FedPer", "P"]["published_note"] == "two digits are swapped"
    assert rows["FedPer", "G"]["published"] is None
    assert "P: personal, every example counting the same, in its own best round on test data" in " ".join(
        said.json["notes"]
    )
    claim = next(note for note in said.json["notes"] if "is above" in note)
    assert claim.startswith("digits: FedPer (P) is above FedAvg (G) by 200 points: does not hold, ")
    assert len(list(Path("results/cells").iterdir())) == 4


def test_what_is_not_run_is_said(pluribus):
    pluribus("reproduce", "tiny/table1", "--only", "FedAvg", "--seeds", "1", "--workers", "1", "-q")

    plan = pluribus("reproduce", "tiny/table1", "--plan", "--json", "-q")
    papers = {row["name"]: row for row in pluribus("papers", "--json").json["rows"]}

    assert [row["status"] for row in plan.json["rows"]] == ["done", "missing", "missing", "missing"]
    assert plan.json["rows"][1]["left"] > 0
    assert "hours of one core are left" in plan.json["notes"][0]
    assert (papers["tiny/table1"]["status"], papers["tiny/table1"]["cells"]) == ("partly", "1 of 4")
    assert papers["effects/fedcrc"]["status"] == "missing"
    assert list(papers) == [*EXPERIMENTS]


def test_when_time_is_up_the_table_says_what_there_is(pluribus, monkeypatch):
    monkeypatch.setitem(experiments.EXPERIMENTS, "tiny/long", replace(TINY, instead={"rounds": 100_000}))

    said = pluribus("reproduce", "tiny/long", "--minutes", "0.05", "--workers", "1")

    assert said.code == 0
    assert "not run yet" in said.out
    assert "open" in said.out
    assert "stopped after 0.05 minutes; the same command goes on from there" in said.err


def test_a_cell_that_cannot_be_run_is_an_error_after_the_table(pluribus, monkeypatch):
    bad = replace(TINY, seeds=1, rows={**TINY.rows, "FedAvg": Row("fedavg", ("G",), {"model": "convnet"})})
    monkeypatch.setitem(experiments.EXPERIMENTS, "tiny/bad", bad)

    said = pluribus("reproduce", "tiny/bad", "--workers", "1")

    assert said.code == 1
    assert "FedPer" in said.out
    assert "convnet needs images" in said.out
    assert "1 cells could not be run" in said.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tiny/tabel1"], "no experiment 'tiny/tabel1'; did you mean 'tiny/table1'?"),
        (["tiny/table1", "--only", "FedPar"], "no row 'FedPar'; did you mean 'FedPer'?"),
        (["tiny/table1", "--data", "mnist"], "no column on 'mnist'"),
        (["tiny/table1", "--workers", "0"], "workers is 0"),
    ],
)
def test_a_name_that_there_is_not_is_an_error_that_helps(pluribus, arguments, said):
    done = pluribus("reproduce", *arguments)

    assert done.code == 1
    assert said in done.err


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("effects/")])
def test_every_experiment_runs_at_toy_size(pluribus, name):
    said = pluribus("reproduce", name, "--quick", "--json", "-q")

    assert said.code == 0, said.err
    assert [row["seeds"] for row in said.json["rows"]] == ["1 of 1"] * len(said.json["rows"])
    assert all(0 <= row["ours"]["mean"] <= 1 for row in said.json["rows"])
    assert "not the experiment as it is defined: data = mnist-5k" in said.json["notes"][-1]
    assert not Path("results").exists()
