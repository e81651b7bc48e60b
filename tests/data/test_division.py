"""Divisions: newcomers, hashes, files, counts and the picture."""

import csv

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pluribus.data import division as divisions
from pluribus.data.dataset import from_tensors
from pluribus.data.division import Division, Recipe, divide, load
from pluribus.data.partitions import Split
from pluribus.data.picture import draw, every
from pluribus.errors import DataDamaged, DataError, DataNotFound, PartitionError, SettingError

RECIPE = Recipe("by hand", 0, "mix", 0.25, 0.0, "toy", "00", samples=10)


def toy(number=300, classes=3):
    labels = torch.arange(number) % classes
    inputs = torch.zeros(number, 1, 1, 1, dtype=torch.uint8)
    return from_tensors("toy", inputs, labels, classes=tuple("abcdefghij"[:classes]), official=number // 2)


def split(train=(), val=(), test=()):
    return Split(*(np.array(rows, dtype=np.int64) for rows in (train, val, test)))


def by_hand(recipe=RECIPE):
    """c00 trains on 0 and 1 and is tested on 2; c01 has only row 5, to be tested on; c02 is a newcomer."""
    return Division(
        {"c00": split([0, 1], [], [2]), "c01": split(test=[5])}, {"c02": split([9], [4], [7])}, recipe
    )


# clients and newcomers


def test_clients_have_names_of_equal_width():
    few, many = (list(divide(toy(), "iid", clients=n).clients) for n in (3, 101))

    assert few == ["c00", "c01", "c02"]
    assert (many[0], many[-1]) == ("c000", "c100")


@given(seed=st.integers(0, 1000), newcomers=st.integers(0, 9))
def test_holding_newcomers_out_changes_nobodys_rows(seed, newcomers):
    without, with_some = (divide(toy(), "iid", clients=10, seed=seed, newcomers=n) for n in (0, newcomers))

    assert len(with_some.newcomers) == newcomers
    assert len(with_some.clients) == 10 - newcomers
    for name, one in with_some.everyone.items():
        assert np.array_equal(one.train, without.clients[name].train)


def test_newcomers_are_drawn_by_the_seed():
    held = {tuple(divide(toy(), "iid", clients=10, seed=seed, newcomers=3).newcomers) for seed in range(20)}

    assert len(held) > 10
    assert len({name for names in held for name in names}) == 10


def test_twenty_clients_where_nobody_says_how_many():
    assert len(divide(toy(), "dirichlet:0.5,least=1").clients) == 20


def test_the_recipe_says_what_a_division_was_made_from():
    recipe = divide(toy(), "dirichlet:0.5,least=2", clients=4, seed=7, pool="train", test=0.2, val=0.1).recipe

    assert recipe == Recipe("dirichlet:alpha=0.5,least=2", 7, "train", 0.2, 0.1, "toy", toy().digest, 300)


def test_a_seed_of_another_integer_type_is_the_same_seed():
    assert divide(toy(), "iid", seed=np.int64(4)).hash == divide(toy(), "iid", seed=4).hash


def test_those_with_nothing_to_train_on_are_named():
    assert by_hand().empty == ["c01"]


@pytest.mark.parametrize(
    ("clients", "newcomers", "text"),
    [
        ({"a": split([1]), "b": split([2], test=[1])}, {}, "row 1 to more than one"),
        ({"a": split([1]), "b": split([2])}, {"c": split(test=[2])}, "row 2 to more than one"),
        ({"a": split([10])}, {}, "rows from 10 to 10, but there are 10 samples"),
        ({"a": split([-1])}, {}, "rows from -1"),
        ({"a": split([1])}, {"a": split([2])}, "'a' is a client and a newcomer"),
        ({}, {"a": split([2])}, "no client"),
    ],
)
def test_a_division_that_makes_no_sense_is_refused(clients, newcomers, text):
    with pytest.raises(PartitionError, match=text):
        Division(clients, newcomers, RECIPE)


def test_the_rows_of_a_division_cannot_be_changed():
    division = divide(toy(), "iid", clients=3)

    with pytest.raises(ValueError, match="read-only"):
        division.clients["c00"].train[0] = 7


# hash


def test_the_hash_covers_rows_roles_and_names_and_nothing_else():
    original = by_hand()
    other_recipe = by_hand(Recipe("other", 1, "train", None, 0.5, "x", "11", samples=10))
    in_another_order = Division(dict(reversed(original.clients.items())), original.newcomers, RECIPE)
    other_role = Division(original.everyone, {}, RECIPE)
    other_part = Division({**original.clients, "c01": split([5])}, original.newcomers, RECIPE)
    other_row = Division({**original.clients, "c01": split(test=[6])}, original.newcomers, RECIPE)
    other_name = Division(
        {"c00": original.clients["c00"], "c03": original.clients["c01"]}, original.newcomers, RECIPE
    )

    assert original.hash == other_recipe.hash == in_another_order.hash
    assert len({d.hash for d in (original, other_role, other_part, other_row, other_name)}) == 5


def test_the_hash_does_not_move():
    assert by_hand().hash[:16] == "2e3215f6d01823ba"


# files


@pytest.fixture
def folder(tmp_path):
    """A folder with nothing in it."""
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


@given(seed=st.integers(0, 1000), clients=st.integers(2, 30), val=st.sampled_from([0.0, 0.3]))
def test_what_was_saved_is_loaded(tmp_path_factory, seed, clients, val):
    path = tmp_path_factory.mktemp("division") / "d"
    division = divide(toy(), "dirichlet:0.5,least=0", clients=clients, seed=seed, val=val, newcomers=1)

    division.save(path)
    loaded = load(path)

    assert (loaded.hash, loaded.recipe) == (division.hash, division.recipe)
    assert list(loaded.clients) == list(division.clients)
    assert list(loaded.newcomers) == list(division.newcomers)


def test_saving_twice_gives_the_same_bytes_and_leaves_nothing_beside(folder):
    for name in ("a", "b"):
        by_hand().save(folder / name)

    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]


def test_a_file_with_any_byte_changed_is_refused_or_says_the_same(folder):
    by_hand().save(folder / "whole")
    whole, refused = (folder / "whole").read_bytes(), 0

    for position in range(len(whole)):
        (folder / "d").write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        try:
            loaded = load(folder / "d")
        except DataDamaged:
            refused += 1
        else:
            assert (loaded.hash, loaded.recipe) == (by_hand().hash, RECIPE)

    assert refused > 0.9 * len(whole)


@pytest.mark.parametrize("kept", [0, 1, 8, 100, -8, -1])
def test_a_file_cut_short_is_refused(folder, kept):
    by_hand().save(folder / "d")
    (folder / "d").write_bytes((folder / "d").read_bytes()[:kept])

    with pytest.raises(DataDamaged, match="is not a whole division"):
        load(folder / "d")


def test_another_file_is_refused(folder):
    (folder / "d").write_text("c00: 1 2 3")

    with pytest.raises(DataDamaged):
        load(folder / "d")


def test_rows_that_do_not_exist_are_refused_even_where_the_checksums_are_right(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(divisions, "check", lambda division: None)
        Division({"a": split([3, 99])}, {}, RECIPE).save(folder / "d")

    with pytest.raises(DataDamaged, match="rows from 3 to 99"):
        load(folder / "d")


def test_a_missing_file_is_named(folder):
    with pytest.raises(DataNotFound, match="no division at"):
        load(folder / "d")


def test_a_place_that_cannot_be_written_is_named(folder):
    (folder / "file").write_text("")

    with pytest.raises(DataError, match="cannot write"):
        by_hand().save(folder / "file" / "d")


def test_a_failure_while_writing_leaves_the_old_file(folder, monkeypatch):
    by_hand().save(folder / "d")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(divisions.os, "fsync", full)
    with pytest.raises(DataError, match="No space left on device"):
        divide(toy(), "iid").save(folder / "d")

    assert load(folder / "d").hash == by_hand().hash
    assert [path.name for path in folder.iterdir()] == ["d"]


# counts and picture


def test_counts_by_hand():
    # labels 0 1 2 0 1 2 ...: c00 has rows 0, 1, 2; c01 row 5; c02 rows 9, 4, 7
    counts = by_hand().counts(torch.arange(10) % 3, 3)

    assert counts.tolist() == [[1, 1, 1], [0, 0, 1], [1, 2, 0]]


def test_a_picture_comes_with_its_numbers(folder):
    counts = draw(by_hand(), torch.arange(10) % 3, "abc", folder / "d.svg")

    with (folder / "d.csv").open() as file:
        rows = list(csv.reader(file))

    assert counts.tolist() == [[1, 1, 1], [0, 0, 1], [1, 2, 0]]
    assert rows == [
        ["client", "role", "a", "b", "c"],
        ["c00", "client", "1", "1", "1"],
        ["c01", "client", "0", "0", "1"],
        ["c02", "newcomer", "1", "2", "0"],
    ]


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_the_same_division_gives_the_same_picture(folder, suffix, start):
    for name in ("a", "b"):
        draw(by_hand(), torch.arange(10) % 3, "abc", folder / f"{name}.{suffix}")

    picture = (folder / f"a.{suffix}").read_bytes()

    assert picture.startswith(start)
    assert picture == (folder / f"b.{suffix}").read_bytes()


def test_areas_of_bubbles_are_proportional_to_counts():
    from pluribus.data.picture import bubbles

    counts = np.array([[1, 0, 4], [2, 0, 0], [0, 8, 0]])

    (dots,) = bubbles(by_hand(), counts, "abc").axes[0].collections

    assert dots.get_offsets().tolist() == [[0, 0], [0, 2], [1, 0], [2, 1]]
    assert (dots.get_sizes() / dots.get_sizes()[0]).tolist() == pytest.approx([1, 4, 2, 8])


def test_newcomers_have_a_colour_of_their_own():
    from pluribus.data.picture import bubbles

    (dots,) = bubbles(by_hand(), np.eye(3, dtype=np.int64), "abc").axes[0].collections

    first, second, newcomer = dots.get_facecolors().tolist()
    assert first == second != newcomer


def test_a_picture_of_an_unknown_kind_is_refused_and_nothing_written(folder):
    with pytest.raises(SettingError, match=r"should end in .svg, .pdf, .png"):
        draw(by_hand(), torch.arange(10) % 3, "abc", folder / "d.bmp")

    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("number", "expected"), [(3, [0, 1, 2]), (8, [0, 2, 4, 6]), (21, [0, 10, 20]), (0, [])]
)
def test_labels_are_thinned_to_what_can_be_read(number, expected):
    assert every(number, most=4) == expected
