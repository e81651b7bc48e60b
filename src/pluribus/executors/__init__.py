"""Where turns happen. An executor yields what comes of them, in the order it comes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol


class Executor(Protocol):
    """`run(place, turns)`: what comes of each, once, late, twice or never; the engine sorts that out."""

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]: ...
