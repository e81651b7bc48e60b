"""The documentation's page on models: its numbers are true, its code runs, and it forgets no model."""

import re
from pathlib import Path

import pytest

from pluribus.models import MODELS, describe, model

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
SIZES = [
    [cell.strip(" `") for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| `[^|]*\| \d+ x \d+ x \d+ \|", line)
]


def number(text):
    return int(text.replace(",", ""))


@pytest.mark.parametrize("row", SIZES, ids=str)
def test_the_sizes_on_the_page_are_true(row):
    text, shape, classes, *sizes = row

    d = describe(model(text), tuple(map(int, shape.split(" x "))), number(classes))

    assert [number(size) for size in sizes] == [*(p.parameters for p in d.parts), d.features, d.multiply_adds]


def test_the_page_tells_the_size_of_every_model():
    assert {row[0].partition(":")[0] for row in SIZES} == set(MODELS)


def test_the_page_says_what_every_model_is():
    described = re.findall(r"^\| `([a-z0-9-]+)` \| [^|0-9]*[a-z]", PAGE, flags=re.MULTILINE)

    assert set(described) >= set(MODELS)


@pytest.mark.parametrize(
    ("projector", "parameters"),
    re.findall(r"^\| `([0-9a-z+-]+)` \| .*(?:linear|same|layer).* \| ([\d,]+) \|$", PAGE, re.MULTILINE),
)
def test_the_projectors_on_the_page_have_their_sizes(projector, parameters):
    found = describe(model(f"resnet18:projector={projector}"), (3, 32, 32), 7)

    assert found.parts[1].parameters == number(parameters)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_the_code_on_the_page_runs(code):
    exec(code, {})
