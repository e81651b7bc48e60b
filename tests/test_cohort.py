"""Who takes part in a round."""

from collections import Counter

import pytest

from pluribus.cohort import Join
from pluribus.errors import SettingError
from pluribus.seeds import generator

HUNDRED = tuple(f"c{k:02d}" for k in range(100))


def sizes(join: Join, clients: int = 100, draws: int = 300) -> set[int]:
    return {join.size(clients, generator("sizes", i)) for i in range(draws)}


@pytest.mark.parametrize(
    ("text", "join"),
    [
        ("0.2", Join(0.2, 0.2)),
        ("1", Join()),
        (1, Join()),
        (1.0, Join()),
        ("1.0", Join()),
        ("10", Join(number=10)),
        (10, Join(number=10)),
        ("0.5..1", Join(0.5, 1.0)),
        (0.1, Join(0.1, 0.1)),
    ],
)
def test_a_text_says_a_rate_a_number_or_a_range(text: str | float, join: Join) -> None:
    assert Join.read(text) == join


@pytest.mark.parametrize("join", [Join(0.2, 0.2), Join(), Join(number=10), Join(0.5, 1.0)])
def test_what_is_written_is_read_again(join: Join) -> None:
    assert Join.read(str(join)) == join


@pytest.mark.parametrize(
    "text", ["", "half", "0", "inf", "-inf", "-0.2", "1.5", "nan", "0.5..", "1..0.5", "0..1", "-3", "0.5..2"]
)
def test_a_text_that_says_nothing_usable_is_an_error_that_names_join(text: str) -> None:
    with pytest.raises(SettingError, match="join"):
        Join.read(text)


@pytest.mark.parametrize(
    ("rate", "clients", "size"),
    [
        (0.29, 100, 29),  # 0.29 · 100 is 28.999999999999996
        (0.2, 50, 10),
        (0.1, 25, 2),
        (0.999, 10, 9),
        (1.0, 7, 7),
        (0.01, 10, 1),  # at least one
    ],
)
def test_a_rate_of_the_clients_is_rounded_down(rate: float, clients: int, size: int) -> None:
    assert sizes(Join(rate, rate), clients, draws=3) == {size}


def test_a_range_reaches_both_ends_and_not_beyond() -> None:
    assert sizes(Join(0.02, 0.05)) == {2, 3, 4, 5}


def test_a_number_is_that_number_or_everybody() -> None:
    assert sizes(Join(number=7), draws=3) == {7}
    assert sizes(Join(number=200), draws=3) == {100}


def test_the_same_key_draws_the_same_cohort_in_the_order_of_the_clients() -> None:
    one, two, other = (Join(number=20).draw(HUNDRED, 0, "cohort", t) for t in (1, 1, 2))

    assert one == two != other
    assert list(one) == sorted(set(one))
    assert len(one) == 20


def test_everybody_is_drawn_about_as_often() -> None:
    """Two of five, 1000 times: 400 each, with a deviation of 15.5."""
    drawn = Counter(k for t in range(1000) for k in Join(number=2).draw(HUNDRED[:5], "fair", t))

    assert len(drawn) == 5
    assert all(abs(n - 400) < 70 for n in drawn.values())
