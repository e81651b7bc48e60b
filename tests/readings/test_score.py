"""Accuracy as a value that adds."""

import math

import pytest

from pluribus.readings.score import Score, joint_score, summary, total


def test_scores_add() -> None:
    assert Score(1, 2) + Score(3, 8) == Score(4, 10)
    assert total([Score(1, 2), Score(3, 8), Score()]) == Score(4, 10)
    assert total([]) == Score(0, 0)
    assert Score(4, 10).accuracy == 0.4


def test_the_accuracy_of_nothing_is_not_a_number() -> None:
    assert math.isnan(Score().accuracy)


def test_a_summary_by_hand() -> None:
    """
    1 of 2, 3 of 8 and 4 of 4:  8 of 14 over examples; (0.5 + 0.375 + 1) / 3 = 0.625 over clients.
    Spread: √((0.125² + 0.25² + 0.375²) / 3) = √0.0729...; the worst tenth of three is the worst one.
    """
    found = summary({"a": Score(1, 2), "b": Score(3, 8), "c": Score(4, 4)})

    assert found is not None
    assert found.accuracy == pytest.approx(8 / 14)
    assert found.client_mean == pytest.approx(0.625)
    assert found.spread == pytest.approx(math.sqrt((0.125**2 + 0.25**2 + 0.375**2) / 3))
    assert found.worst_tenth == 0.375
    assert found.clients == 3


@pytest.mark.parametrize(
    ("clients", "worst"), [(1, 0.0), (9, 0.0), (10, 0.0), (19, 0.0), (20, 0.005), (30, 0.01)]
)
def test_the_worst_tenth_is_rounded_down_and_at_least_one(clients: int, worst: float) -> None:
    """Client k is right in k of 100: the worst two of twenty are 0 and 0.01."""
    found = summary({f"c{k}": Score(k, 100) for k in reversed(range(clients))})

    assert found is not None
    assert found.worst_tenth == pytest.approx(worst)


def test_who_has_nothing_to_be_tested_on_is_left_out() -> None:
    found = summary({"a": Score(1, 2), "b": Score(0, 0)})

    assert found is not None
    assert (found.clients, found.accuracy, found.client_mean) == (1, 0.5, 0.5)
    assert summary({"b": Score()}) is None
    assert summary({}) is None


def test_the_joint_score_of_both_readings() -> None:
    """FedReG's Figure 7 (5g.12): ln(10 G) + ln(10 P)."""
    assert joint_score(0.1, 0.1) == pytest.approx(0.0, abs=1e-15)
    assert joint_score(0.2, 0.7) == pytest.approx(joint_score(0.7, 0.2))
    assert joint_score(0.5, 0.8) == pytest.approx(math.log(40))
    assert joint_score(0.0, 0.9) == -math.inf
