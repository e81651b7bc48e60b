"""domain: one client for each domain of the dataset, such as photos, paintings and sketches.

Feature shift: all clients have all classes, and their images look different.  In DualFed's setting
(Zhu et al., ACM MM 2024) floor(0.2 n) of a domain are its test set, and of the others the first 500
(PACS, DomainNet) or 2,000 (Office-Home) train.  A run on one of these takes those numbers unless it is
told others, such as `domain:100`; `domain:all` lets all that is not for testing train, as anywhere else.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from .natural import by_group
from .partition import Pool, Source, Split, at_least


@dataclass(frozen=True)
class Domain:
    """Each client is a domain of the dataset; a limit bounds what it trains on."""

    limit: int | Literal["all"] | None = None
    pools: ClassVar[tuple[Pool, ...]] = ("mix", "train")

    def __post_init__(self) -> None:
        if isinstance(self.limit, int):
            at_least("domain: limit", self.limit, 1)

    def splits(self, source: Source) -> list[Split]:
        return by_group(source, "domain", self.limit if isinstance(self.limit, int) else None)
