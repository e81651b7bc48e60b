"""A table has the same content in a terminal, as Markdown and as JSON."""

import math

import pytest
from rich.console import Console

from pluribus.report.table import (
    Column,
    Noted,
    Spread,
    Table,
    as_data,
    as_markdown,
    as_rich,
    duration,
    mark,
    megabytes,
    percent,
    points,
)

TABLE = Table(
    (Column("name", "method"), Column("g", "G", percent, right=True), Column("p", "P", percent, right=True)),
    (
        {"name": "a|b", "g": 0.5, "p": Spread((0.25, 0.75))},
        {"name": "c", "g": Noted(0.125, "an odd one"), "p": None},
        {"name": "d", "g": Noted(None, "an odd one"), "p": math.nan},
        {"name": "e", "g": Noted(None, "another"), "p": 1.0, "more": "only in JSON"},
    ),
    ("about all of it",),
)


def test_markdown_has_cells_footnotes_and_notes():
    assert as_markdown(TABLE).splitlines() == [
        "| method | G | P |",
        "| --- | ---: | ---: |",
        "| a\\|b | 50.0 | 50.0 ± 35.4 |",
        "| c | 12.5 a | – |",
        "| d | – a | – |",
        "| e | – b | 100.0 |",
        "",
        "a an odd one  ",
        "b another  ",
        "about all of it  ",
    ]


def test_json_has_raw_values_and_null_for_what_is_no_number():
    rows = as_data(TABLE)["rows"]

    assert rows[0]["p"]["values"] == [0.25, 0.75]
    assert rows[0]["p"]["deviation"] == pytest.approx(
        math.sqrt(0.125)
    )  # of 0.25 and 0.75: sqrt(2 · 0.25² / 1)
    assert rows[1] == {"name": "c", "g": 0.125, "g_note": "an odd one", "p": None}
    assert rows[2]["p"] is None
    assert rows[3]["more"] == "only in JSON"


def test_the_terminal_shows_the_same_cells():
    console = Console(width=80)
    with console.capture() as shown:
        console.print(as_rich(TABLE))

    lines = [line.split() for line in shown.get().splitlines()]
    assert ["a|b", "50.0", "50.0", "±", "35.4"] in lines
    assert ["c", "12.5", "a", "–"] in lines


def test_a_single_value_has_no_deviation():
    assert Spread((0.5,)).deviation is None
    assert Spread((0.5,)).mean == 0.5


def test_marks_go_on_after_z():
    assert [mark(n) for n in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "ab", "ba"]


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (percent(0.12345), "12.3"),
        (points(0.012), "+1.2"),
        (points(-0.012), "-1.2"),
        (megabytes(2_307_584), "2.31"),
        (megabytes(1_234_567_890), "1,235"),
        (duration(8.25), "8.2 s"),
        (duration(187), "3:07"),
        (duration(3723), "1:02:03"),
    ],
)
def test_numbers_are_written_for_people(shown, text):
    assert shown == text
