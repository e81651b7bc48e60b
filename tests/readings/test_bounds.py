"""The quantities of pFedPM's Theorem 1, worked out."""

import json
from dataclasses import dataclass, replace

import pytest

from methods.test_fedproto import Plain, having, plain_place
from pluribus.engine import Round
from pluribus.errors import MethodError
from pluribus.ledger import Ledger
from pluribus.method import Server
from pluribus.methods.local import Local
from pluribus.methods.pfedpm import PFedPM
from pluribus.readings.bounds import Bounds, bounds
from pluribus.runs import run
from pluribus.runs.bounds import record_bounds
from pluribus.settings import Settings
from toy import hashes, history, place


@dataclass(frozen=True, kw_only=True)
class Bowl(Local):
    """ℓ = mean of ½ f²."""

    lam: float = 0.5

    def anchors(self, client):
        return {}

    def loss(self, parts, f, y, known):
        return (f**2 / 2).mean()


START = Round(0, 0, None, Server({}), Ledger())


def test_the_constants_of_a_bowl_by_hand():
    """
    f = w x, x = 1, ℓ = ½ w², η = 0.1: w = 2, 1.8.  S = 4 + 3.24, L_1 = L_2 = 1, G = 2, σ² = 0, E = 2:
    η < 2 (7.24 - 0.5 · 4) / 7.24,   as printed 2 (7.24 - 0.5 · 4) / 4,   λ < 4 / 4
    """
    [found] = bounds(plain_place(Bowl(), having([[1.0]], [1])), START, steps=2)

    assert (found.steps, found.lr, found.lam) == (2, 0.1, 0.5)
    measured = (found.descent, found.first, found.smoothness, found.embedding, found.gradient, found.variance)
    assert measured == pytest.approx((7.24, 4, 1, 1, 2, 0), abs=1e-12)
    assert found.lr_bound == pytest.approx(2 * 5.24 / 7.24)
    assert found.lr_bound_printed == pytest.approx(2 * 5.24 / 4)
    assert found.lam_bound == pytest.approx(1)


def test_the_variance_is_that_of_batches_by_hand():
    """
    x = 1 and x = 3, one at a time, w = 2: ∇ℓ = 2 (1 + 9) / 2 = 10, a batch's is 2 or 18: 8² = 64.
    Features are of the example that changed most: 3 for each 1 of w; G is 18 if x = 3 comes first.
    """
    at = plain_place(Bowl(), having([[1.0], [3.0]], [1, 1]), batch=1)

    [one] = bounds(at, START, steps=1)
    [two] = bounds(at, START, steps=2)

    assert one.variance == pytest.approx(64)
    assert one.gradient in (pytest.approx(2), pytest.approx(18))
    assert (one.smoothness, one.embedding) == (0, 0)
    assert two.smoothness == pytest.approx(5)
    assert two.embedding == pytest.approx(3)


def test_variance_stands_below_the_learning_rate_and_steps_before_it():
    """2 (10 - 0.1 · 2 · 5 · 3) / (4 (10 + 5 · 6)) and 10 of drift 30."""
    found = Bounds("a", 5, 10.0, 3.0, 4.0, 2.0, 3.0, 6.0, 0.1, 0.01)

    assert found.lr_bound == pytest.approx(2 * (10 - 3) / (4 * 40))
    assert found.lr_bound_printed == pytest.approx(2 * (10 - 3) / 30)
    assert found.lam_bound == pytest.approx(3 / 30)
    assert Bounds("a", 0, 0, 0, 0, 0, 0, 0, 1, 1).lam_bound == float("inf")


def test_nothing_of_the_run_moves_and_a_strong_pull_leaves_no_rate():
    at = place(PFedPM())
    now = history(at, number=2)[-1]
    before = hashes(now)

    weak = bounds(place(PFedPM(lam=1e-6)), now, steps=3)
    strong = [replace(found, lam=2 * found.descent / found.drift) for found in weak]

    assert hashes(now) == before
    assert [found.client for found in weak] == sorted(at.clients)
    assert all(found.lr_bound > 0 for found in weak)
    assert all(found.lr_bound < 0 for found in strong)


def test_of_a_method_without_prototypes_there_are_none():
    with pytest.raises(MethodError, match="Local pulls no features to prototypes; fedproto and pfedpm do"):
        bounds(plain_place(Local(), having([[1.0]], [1]), model=Plain()), START)


def test_a_run_records_them_in_its_folder(tmp_path):
    run(Settings(method="pfedpm", data="digits", clients=3, model="mlp:8", rounds=2), out=tmp_path / "run")

    found = record_bounds(tmp_path / "run", steps=3)

    lines = [json.loads(line) for line in (tmp_path / "run" / "bounds.jsonl").read_text().splitlines()]
    assert [line["client"] for line in lines] == ["c00", "c01", "c02"]
    assert [line["lr_bound"] for line in lines] == [one.lr_bound for one in found]
    assert {line["round"] for line in lines} == {2}
