"""Every experiment against the real classes: a wrong name fails here, not after a night."""

import re
from pathlib import Path

import pytest

from pluribus import experiments
from pluribus.data import entry
from pluribus.errors import UnknownName
from pluribus.experiments import EXPERIMENTS, experiment
from pluribus.methods import METHODS
from pluribus.models import model

EACH = pytest.mark.parametrize("name", EXPERIMENTS)


@EACH
def test_every_cell_has_settings_that_the_library_takes(name):
    for cell in experiment(name).cells:
        assert cell.settings.method in METHODS
        assert cell.settings.method_value is not None
        assert entry(cell.settings.data).name == cell.settings.data
        assert model(cell.settings.model) is not None
        assert max((number for number, _ in cell.settings.training.lr_at), default=0) <= cell.settings.rounds


@EACH
def test_every_number_is_one_that_its_row_can_have(name):
    one = experiment(name)

    assert all(0 < value <= 100 for value in one.published.values())
    assert set(one.misprints) <= set(one.published)
    for row, column, number in one.shown:
        if one.numbers[number].of in ("zero-shot", "adapted"):
            assert one.settings_of(row, column, 0).newcomers
        if one.numbers[number].when == "selected":
            assert one.settings_of(row, column, 0).val


@EACH
def test_methods_of_a_column_and_seed_have_the_same_clients(name):
    """Whatever decides the division is the same in all rows."""
    one = experiment(name)

    def divided(settings):
        s = settings
        return s.data, s.pool, s.partition, s.clients, s.newcomers, s.test, s.val, s.data_seed

    for column in one.columns:
        for seed in range(one.seeds):
            assert len({divided(one.settings_of(row, column, seed)) for row in one.rows}) == 1


@EACH
def test_every_experiment_says_what_it_shows_and_where_its_numbers_are_from(name):
    one = experiment(name)

    assert one.title
    assert one.note.startswith("published: ") or not one.published


def test_an_experiment_that_there_is_not():
    with pytest.raises(UnknownName, match="no experiment 'effects/fedcrcc'; did you mean 'effects/fedcrc'"):
        experiment("effects/fedcrcc")


def test_the_example_in_the_docs_is_an_experiment():
    page = (Path(__file__).resolve().parents[2] / "docs" / "experiments.md").read_text()
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1]

    names = dict(vars(experiments))
    exec(example, names)

    assert {c.settings.method for c in names["TABLE"].cells} == {"fedavg", "fedcrc"}
    assert len({c.key for c in names["TABLE"].cells}) == 3
