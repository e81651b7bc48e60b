"""An experiment as a value: what its cells are, and what becomes of it when it is narrowed."""

from dataclasses import replace

import pytest

from pluribus.errors import PluribusError, SettingError, UnknownName
from pluribus.experiments import Claim, Row

from .conftest import SMALL


def of(experiment):
    return {(c.row, c.column, c.settings.seed): c for c in experiment.cells}


def test_a_cell_has_the_settings_of_all_of_its_column_and_of_its_row():
    cell = of(SMALL)["Per", "unlike", 1].settings

    assert (cell.data, cell.partition, cell.method, cell.seed) == ("digits", "dirichlet:0.3", "fedper", 1)
    assert (cell.training.batch, cell.training.momentum) == (10, 0.5)
    assert cell == cell.resolved()
    assert (cell.data_seed, cell.model_seed) == (1, 1)


def test_a_row_wins_over_a_column_and_a_special_setting_over_both():
    both = replace(
        SMALL,
        rows={"Per": Row("fedper:epochs=2", settings={"lr": 0.2})},
        columns={"a": {"lr": 0.3}, "b": {"lr": 0.3}},
        special={("Per", "b"): {"lr": 0.4, "set": ("epochs=3",)}},
        published={},
        misprints={},
        claims=(),
    )

    a, b = (of(both)["Per", column, 0].settings for column in "ab")
    assert (a.training.lr, a.set["epochs"]) == (0.2, 2)
    assert (b.training.lr, b.set["epochs"]) == (0.4, 3)


def test_two_readings_of_a_run_are_one_cell():
    cells = of(SMALL)

    assert len(cells) == 12
    assert len({c.key for c in cells.values()}) == 8
    assert cells["Per", "alike", 0].key == cells["Per, mean", "alike", 0].key


def test_the_first_seed_of_everything_comes_first():
    assert [c.settings.seed for c in SMALL.cells] == [0] * 6 + [1] * 6


@pytest.mark.parametrize(
    "change", [{"lr": 0.2}, {"rounds": 4}, {"data_seed": 5}, {"clients": 6}, {"eval_every": 2}]
)
def test_an_edited_setting_is_another_cell(change):
    edited = replace(SMALL, settings={**SMALL.settings, **change})

    assert not {c.key for c in SMALL.cells} & {c.key for c in edited.cells}


def test_it_is_narrowed_to_rows_data_seeds_and_rounds():
    less = SMALL.narrowed(only=["Per"], data=["digits"], seeds=1, rounds=7)

    assert list(of(less)) == [("Per", "alike", 0), ("Per", "unlike", 0)]
    assert {c.settings.rounds for c in less.cells} == {7}
    assert less.published == {("Per", "unlike", "P"): 80.0}
    assert less.claims == ()
    assert SMALL.narrowed() == SMALL


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"only": ["Fedper"]}, "no row 'Fedper'; did you mean 'FedAvg'"),
        ({"data": ["mnist"]}, "no column on 'mnist'\n    there are: digits"),
        ({"data": ["mnits"]}, "no dataset 'mnits'"),
        ({"seeds": 0}, "seeds is 0; it should be 1 or more"),
        ({"rounds": 0}, "rounds is 0"),
    ],
)
def test_what_there_is_not_is_an_error_that_says_what_there_is(given, said):
    with pytest.raises(PluribusError, match="(?s)" + said.split("'")[0]) as error:
        SMALL.narrowed(**given).cells  # noqa: B018  # they are made when they are asked for

    assert said.splitlines()[0].split(";")[0] in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"published": {("FedSpeed", "alike", "G"): 1.0}},
        {"published": {("FedAvg", "elsewhere", "G"): 1.0}},
        {"published": {("FedAvg", "alike", "P"): 1.0}},  # this row does not show it
        {"misprints": {("FedAvg", "alike", "X"): "?"}},
        {"special": {("FedSpeed", "alike"): {}}},
        {"claims": (Claim(("FedSpeed", "G"), ("Per", "P")),)},
    ],
)
def test_a_name_that_the_experiment_has_not_is_refused(change):
    with pytest.raises(UnknownName):
        replace(SMALL, **change)


def test_a_setting_that_the_library_has_not_is_refused():
    with pytest.raises(SettingError, match="no setting 'learning_rate'"):
        replace(SMALL, settings={"learning_rate": 1}).cells  # noqa: B018


def test_a_toy_needs_no_download_and_says_nothing_of_what_was_published():
    toy = SMALL.narrowed(rounds=1).as_toy

    assert {(c.settings.data, c.settings.rounds, c.settings.seed) for c in toy.cells} == {("mnist-5k", 1, 0)}
    assert not {c.key for c in toy.cells} & {c.key for c in SMALL.cells}
    assert (toy.published, toy.misprints, toy.claims) == ({}, {}, ())


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (0, "A (G) is above B (P)"),
        (8, "A (G) is above B (P) by 8 points"),
        (-1, "A (G) is above B (P), or within 1 points of it"),
    ],
)
def test_a_claim_says_what_it_claims(by, said):
    assert str(Claim(("A", "G"), ("B", "P"), by=by)) == said
