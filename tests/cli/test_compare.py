"""`pluribus compare`."""

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from pluribus.cli import main

from .conftest import SMALL

FEW = ("fedavg", "fedrep:head_epochs=1", *SMALL, "--newcomers", "1")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One comparison that several tests look at."""
    out, folder = StringIO(), tmp_path_factory.mktemp("comparison")
    with redirect_stdout(out):
        code = main(
            ["compare", *FEW, "--join", "0.5", "--seeds", "2", "--out", str(folder), "--json", "--quiet"]
        )
    assert code == 0
    return json.loads(out.getvalue())


def rows(document):
    return {row["name"]: row for row in document["rows"]}


def test_the_table_has_every_method_with_its_gain_over_local(done):
    found = rows(done)

    local, fedrep = found["local"], found["fedrep:head_epochs=1"]
    assert list(found) == ["local", "fedavg", "fedrep:head_epochs=1"]
    assert local["gain"] is None
    assert fedrep["gain"]["mean"] == pytest.approx(fedrep["personal"]["mean"] - local["personal"]["mean"])
    assert found["fedavg"]["generic"] == found["fedavg"]["personal"]
    assert "generic_note" not in found["fedavg"]
    assert "every client has a head of its own" in fedrep["generic_note"]
    assert 0 <= fedrep["zero_shot"]["mean"] <= 1


def test_bytes_are_those_of_one_client_in_one_round(done):
    found = rows(done)

    encoder = 4 * (64 * 16 + 16)
    assert (found["local"]["up"], found["local"]["down"]) == (0, 0)
    assert (found["fedrep:head_epochs=1"]["up"], found["fedrep:head_epochs=1"]["down"]) == (encoder, encoder)


def test_methods_of_a_seed_have_the_same_clients(done):
    hashes = {(run["seed"], run["result"]["partition_hash"]) for run in done["runs"]}

    assert len(done["runs"]) == 6
    assert len(hashes) == 2


def test_the_folder_has_table_and_picture(done):
    folder = Path(done["folder"])

    assert (folder / "comparison.md").read_text().startswith("| method | G | P | over Local |")
    assert json.loads((folder / "comparison.json").read_text()) == done
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert done["pictures"] == [str(folder / "picture.svg"), str(folder / "picture.png")]


def test_several_seeds_give_a_mean_and_a_deviation(pluribus):
    said = pluribus("compare", "fedavg", *SMALL, "--seeds", "0,4", "--no-local", "--json")

    [row] = said.json["rows"]
    low, high = sorted(row["personal"]["values"])
    assert said.json["seeds"] == [0, 4]
    assert row["personal"]["mean"] == pytest.approx((low + high) / 2)
    assert row["personal"]["deviation"] == pytest.approx((high - low) / 2**0.5)
    assert row["gain"] is None


def test_what_is_done_is_used_again(pluribus, tmp_path):
    first = pluribus("compare", "fedavg", *SMALL, "--out", "cmp", "--json").json
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cmp").glob("*/result.json")}

    again = pluribus("compare", "fedper", "fedavg", *SMALL, "--out", "cmp", "--json").json

    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "cmp").glob("*/result.json")}
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 1
    assert rows(again)["fedavg"] == rows(first)["fedavg"]  # to its seconds


def test_a_run_that_was_cut_short_is_resumed(pluribus, tmp_path):
    first = pluribus("compare", "fedavg", *SMALL, "--no-local", "--out", "cmp", "--json").json
    [result] = (tmp_path / "cmp").glob("*/result.json")
    result.unlink()

    again = pluribus("compare", "fedavg", *SMALL, "--no-local", "--out", "cmp", "--json").json

    assert again["runs"][0]["result"]["hash"] == first["runs"][0]["result"]["hash"]


def test_other_settings_are_other_runs(pluribus, tmp_path):
    pluribus("compare", "fedavg", *SMALL, "--no-local", "--out", "cmp")

    pluribus("compare", "fedavg", *SMALL, "--no-local", "--out", "cmp", "--lr", "0.01")

    assert len(list((tmp_path / "cmp").glob("fedavg-seed0-*"))) == 2


def test_a_folder_of_something_else_is_refused(pluribus, tmp_path):
    (tmp_path / "cmp").mkdir()
    (tmp_path / "cmp" / "thesis.tex").write_text("precious")

    said = pluribus("compare", *FEW, "--out", "cmp")

    assert (said.code, said.out) == (1, "")
    assert "is not a comparison's folder" in said.err


def test_the_reading_is_said(pluribus):
    best = pluribus("compare", "fedavg", *SMALL, "--no-local", "--reading", "best_on_test", "--markdown")
    chosen = pluribus("compare", "fedavg", *SMALL, "--no-local", "--reading", "selected", "--val", "0.2")

    assert best.out.startswith("| method | G | P | worst 10 % |")
    assert "best round on test data" in best.out
    assert "picture: runs/compare-digits-" in best.err
    assert "best on validation data" in chosen.out


def test_what_cannot_run_is_found_before_anything_is_written(pluribus, tmp_path):
    said = pluribus("compare", "fedavg", *SMALL, "--model", "convnet", "--out", "cmp")

    assert said.code == 1
    assert "convnet needs images of at least" in said.err
    assert list(tmp_path.iterdir()) == []
