"""domain: one client for each domain of the dataset, such as photos, paintings and sketches.

Feature shift: all clients have all classes, and their images look different.  In DualFed's setting
(Zhu et al., ACM MM 2024) floor(0.2 n) of a domain are its test set, and of the others the first 500
(PACS, DomainNet) or 2,000 (Office-Home) train: `domain:500` with a test portion of 0.2.
"""

from dataclasses import dataclass
from typing import ClassVar

from .natural import by_group
from .partition import Pool, Source, Split, at_least


@dataclass(frozen=True)
class Domain:
    """Each client is a domain of the dataset; a limit bounds what it trains on."""

    limit: int | None = None
    pools: ClassVar[tuple[Pool, ...]] = ("mix", "train")

    def __post_init__(self) -> None:
        if self.limit is not None:
            at_least("domain: limit", self.limit, 1)

    def splits(self, source: Source) -> list[Split]:
        return by_group(source, "domain", self.limit)
