"""How clients train: settings and schedules."""

import math
from typing import Any

import pytest

from pluribus.errors import SettingError
from pluribus.training import Training


def test_the_learning_rate_steps_down_at_its_rounds() -> None:
    """FedCRC's schedule: 0.05 in rounds 1 to 49, 0.01 in 50 to 74, 0.001 from 75."""
    training = Training(lr=0.05, lr_at=((75, 0.001), (50, 0.01)))

    rates = {t: training.lr_in(t) for t in (1, 49, 50, 74, 75, 1000)}

    assert rates == {1: 0.05, 49: 0.05, 50: 0.01, 74: 0.01, 75: 0.001, 1000: 0.001}


def test_the_learning_rate_decays_by_a_factor_a_round() -> None:
    training = Training(lr=0.1, lr_decay=0.5)

    assert [training.lr_in(t) for t in (0, 1, 2, 4)] == [0.1, 0.1, 0.05, 0.0125]


def test_decay_and_steps_multiply() -> None:
    assert Training(lr=1.0, lr_decay=0.5, lr_at=((2, 0.1),)).lr_in(3) == pytest.approx(0.1 * 0.25)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", math.nan),
        ("lr", math.inf),
        ("lr", -0.1),
        ("weight_decay", -1.0),
        ("weight_decay", math.nan),
        ("momentum", 1.0),
        ("momentum", -0.1),
        ("momentum", math.nan),
        ("batch", 0),
        ("lr_decay", 0.0),
        ("lr_decay", math.nan),
        ("clip", 0.0),
        ("clip", math.inf),
        ("lr_at", ((5, -1.0),)),
        ("lr_at", ((5, math.nan),)),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=name):
        Training(**{name: value})


def test_a_learning_rate_of_zero_is_allowed() -> None:
    assert Training(lr=0.0).lr_in(1) == 0
