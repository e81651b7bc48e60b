"""How clients train: what belongs to the experiment and not to a method."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from .augment import spelled
from .device import Precision
from .errors import SettingError, UnknownName


@dataclass(frozen=True, kw_only=True)
class Training:
    """Optimiser, batches, and the learning rate as a function of the round."""

    lr: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    optimiser: Literal["sgd", "adam"] = "sgd"
    batch: int = 20
    last_batch: Literal["keep", "drop"] = "keep"  # a client with less than a batch keeps it in any case
    lr_decay: float = 1.0  # factor a round
    lr_at: tuple[tuple[int, float], ...] = ()  # (50, 0.01): from round 50 on the rate is 0.01
    keep_moments: bool = False  # the optimiser's moments stay with the client over rounds
    clip: float | None = None  # largest norm of a step's whole gradient
    augment: str = "none"  # changes to 8-bit images, drawn anew each time they are trained on
    precision: Precision = "float32"  # of matrix products; weights are float32 in any case
    reuse: bool = True  # features of frozen parts are computed once where that gives the same

    def __post_init__(self) -> None:
        object.__setattr__(self, "augment", spelled(self.augment))
        positive = {"lr_decay": self.lr_decay, "clip": 1.0 if self.clip is None else self.clip}
        positive |= {f"lr_at round {number}": rate for number, rate in self.lr_at}
        for name, value in {"lr": self.lr, "weight_decay": self.weight_decay}.items():
            if not (math.isfinite(value) and value >= 0):
                raise SettingError(f"{name} is {value}; it should be a finite number, 0 or more")
        for name, value in positive.items():
            if not (math.isfinite(value) and value > 0):
                raise SettingError(f"{name} is {value}; it should be a finite number above 0")
        for name, known in {
            "optimiser": ("sgd", "adam"),
            "last_batch": ("keep", "drop"),
            "precision": get_args(Precision),
        }.items():
            if getattr(self, name) not in known:
                raise UnknownName(name, str(getattr(self, name)), known)
        if not 0 <= self.momentum < 1:
            raise SettingError(f"momentum is {self.momentum}; it should be at least 0 and below 1")
        if self.batch < 1:
            raise SettingError(f"batch is {self.batch}; it should be 1 or more")
        check_rounds([number for number, _ in self.lr_at])

    def lr_in(self, round: int) -> float:
        """The learning rate of this round; rounds count from 1."""
        steps = [rate for number, rate in sorted(self.lr_at) if number <= round]
        return (steps[-1] if steps else self.lr) * self.lr_decay ** max(0, round - 1)


def check_rounds(numbers: Sequence[int]) -> None:
    """An error if the rate is to change before the first round, or twice in one."""
    if early := [number for number in numbers if number < 1]:
        raise SettingError(f"lr_at is {early[0]}=...; it should be 1=... or later: rounds count from 1")
    if twice := [number for number, times in Counter(numbers).items() if times > 1]:
        raise SettingError(f"lr_at names round {twice[0]} twice\n    leave one of them out")
