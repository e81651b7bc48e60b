"""Short spellings of values."""

from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluribus.errors import SettingError, UnknownName
from pluribus.spelling import read, words, write


@dataclass(frozen=True)
class Fruit:
    weight: float
    name: str = "apple"
    seeds: int = 5
    ripe: bool = False
    parts: tuple[str, ...] = ()
    colour: Literal["red", "green"] = "red"
    sweetness: float | None = None
    hidden: int = field(default=0, init=False)


@dataclass(frozen=True)
class Nut:
    shells: int = 1


CATALOGUE = {"fruit": Fruit, "nut": Nut}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nut", Nut()),
        (" nut ", Nut()),
        ("nut:", Nut()),
        ("nut:3", Nut(3)),
        ("nut:shells=3", Nut(3)),
        ("fruit:0.5", Fruit(0.5)),
        ("fruit:0.5,pear", Fruit(0.5, "pear")),
        ("fruit:1", Fruit(1.0)),
        ("fruit:name=pear, weight=1e-3", Fruit(1e-3, "pear")),
        ("fruit:2,seeds=7,ripe=true", Fruit(2.0, seeds=7, ripe=True)),
        ("fruit:2,parts=core+skin", Fruit(2.0, parts=("core", "skin"))),
        ("fruit:2,parts=core", Fruit(2.0, parts=("core",))),
        ("fruit:2,parts=", Fruit(2.0)),
        ("fruit:2,colour=green,sweetness=0.1", Fruit(2.0, colour="green", sweetness=0.1)),
    ],
)
def test_a_text_spells_a_value(text: str, value: object) -> None:
    assert read(text, CATALOGUE, "thing") == value


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("froot", UnknownName, "no thing 'froot'; did you mean 'fruit'"),
        ("", UnknownName, "no thing ''"),
        ("nut:shels=1", UnknownName, "no setting of nut 'shels'; did you mean 'shells'"),
        ("nut:1,2", SettingError, "nut takes 1 values"),
        ("nut:two", SettingError, "nut: shells is 'two'"),
        ("nut:1.5", SettingError, "nut: shells is '1.5'"),
        ("fruit:2,ripe=perhaps", SettingError, "fruit: ripe is 'perhaps'"),
        ("fruit:2,colour=blue", SettingError, "fruit: colour is 'blue'"),
        ("fruit:2,hidden=1", UnknownName, "hidden"),
    ],
)
def test_a_text_that_spells_nothing_says_what_is_wrong(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        read(text, CATALOGUE, "thing")


def test_only_what_differs_from_the_usual_is_written() -> None:
    assert write(Nut(), CATALOGUE) == "nut"
    assert write(Nut(3), CATALOGUE) == "nut:shells=3"
    assert (
        write(Fruit(0.5, ripe=True, parts=("core", "skin")), CATALOGUE)
        == "fruit:weight=0.5,ripe=true,parts=core+skin"
    )


def test_a_value_of_no_catalogue_cannot_be_written() -> None:
    with pytest.raises(UnknownName, match="int"):
        write(3, CATALOGUE)


@given(
    st.builds(
        Fruit,
        weight=st.floats(allow_nan=False),
        name=st.sampled_from(["pear", "fig"]),
        seeds=st.integers(),
        ripe=st.booleans(),
        parts=st.lists(st.sampled_from(["core", "skin"])).map(tuple),
        colour=st.sampled_from(["red", "green"]),
        sweetness=st.floats(0, 1),
    )
)
def test_what_is_written_is_read_again(fruit: Fruit) -> None:
    assert read(write(fruit, CATALOGUE), CATALOGUE, "thing") == fruit


def test_the_words_of_a_choice_with_numbers_beside_them_or_not():
    assert words(Literal["a", "b"]) == words(Literal["a", "b"] | float) == ("a", "b")
    assert words(int | None) == words(str) == words(tuple[int, ...]) == ()
