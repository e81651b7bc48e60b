"""Who takes part in a round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .errors import SettingError
from .seeds import generator


@dataclass(frozen=True)
class Join:
    """A rate of the clients, a range of rates, or a number of clients; at least one, without replacement."""

    low: float = 1.0
    high: float = 1.0
    number: int | None = None

    def __post_init__(self) -> None:
        if self.number is not None and self.number < 1:
            raise SettingError(f"join is {self.number} clients; it should be at least 1")
        if not 0 < self.low <= self.high <= 1:  # false for NaN too
            raise SettingError(f"join is {self}; a rate should be above 0 and at most 1, e.g. 0.2 or 0.5..1")

    @classmethod
    def read(cls, text: str | float) -> Join:
        """`0.2` a rate, `10` a number of clients, `0.5..1` a range of rates; 1 is everybody."""
        low, dots, high = str(text).partition("..")
        try:
            if dots:
                return cls(float(low), float(high))
            rate = float(low)
        except ValueError:
            raise SettingError(
                f"join is '{text}'; it should be a rate (0.2), a number of clients (10) "
                "or a range of rates (0.5..1)"
            ) from None
        if rate > 1 and rate.is_integer():
            return cls(number=int(rate))
        return cls(rate, rate)

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g}..{self.high:g}"

    def size(self, clients: int, rng: torch.Generator) -> int:
        """How many of so many clients."""
        if self.number is not None:
            return min(self.number, clients)
        least, most = (max(1, math.floor(rate * clients + 1e-9)) for rate in (self.low, self.high))
        return int(torch.randint(least, most + 1, (), generator=rng))

    def most(self, clients: int) -> int:
        """The largest number there may be of so many clients."""
        return min(self.number or max(1, math.floor(self.high * clients + 1e-9)), clients)

    def draw(self, clients: Sequence[str], *key: object) -> tuple[str, ...]:
        """The cohort of this key, in the order of the clients."""
        rng = generator(*key)
        size = self.size(len(clients), rng)
        chosen = torch.randperm(len(clients), generator=rng)[:size]
        return tuple(clients[i] for i in chosen.sort().values.tolist())
