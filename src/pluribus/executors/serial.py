"""One after the other, in this process. Start here; debug here."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


class Serial:
    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            with one_thread():
                result = work(item)
            yield result


@contextmanager
def one_thread() -> Iterator[None]:
    """As many threads as every worker has: sums over more of them would differ in the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
