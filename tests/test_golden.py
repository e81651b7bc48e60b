"""Did a number move? Three rounds of each method on the toy federation, to six digits, in golden/.

`python tests/test_golden.py fedrep` writes a method's file anew, without a name those of all.  Whoever does
that says why in the commit.
"""

import json
import math
import sys
from pathlib import Path

import pytest

from pluribus.executors.serial import Serial
from pluribus.methods import METHODS
from pluribus.readings.evaluate import evaluate, welcome
from pluribus.state import Tensors
from toy import PEOPLE, history, people, place

FOLDER = Path(__file__).with_name("golden")
NEWCOMERS = {f"n{k}": person for k, person in enumerate(people(2, 30).values())}


def measured(name: str) -> dict[str, float]:
    """Losses, sizes of what is shared and kept, and readings. Values: digests depend on the processor."""
    at = place(METHODS[name](), newcomers=NEWCOMERS)
    rounds = history(at, number=3, watch=3)
    now = rounds[-1]
    readings = evaluate(at, now, Serial(), whole=now.trained) | welcome(at, now, Serial(), epochs=2)
    numbers = {f"loss of round {r.number}": r.loss for r in rounds if r.samples}
    numbers |= {"norm of what is shared": norm(now.server.shared)}
    numbers |= {f"norm of what {k} keeps": norm(now.held.of(k).kept) for k in PEOPLE if k in now.held}
    numbers |= {reading: readings.accuracy(reading) or 0.0 for reading in readings.scores}
    return {what: float(f"{value:.6g}") for what, value in numbers.items()}


def norm(tensors: Tensors) -> float:
    return math.sqrt(sum(t.double().square().sum().item() for t in tensors.values()))


def file_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


@pytest.mark.parametrize("name", METHODS)
def test_no_number_has_moved(name: str) -> None:
    stored = json.loads(file_of(name).read_text(encoding="utf-8"))

    assert measured(name) == pytest.approx(stored, rel=1e-5)


def test_no_number_is_left_of_a_method_that_is_gone() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(METHODS)


if __name__ == "__main__":
    for method in sys.argv[1:] or METHODS:
        file_of(method).write_text(json.dumps(measured(method), indent=2) + "\n", encoding="utf-8")
