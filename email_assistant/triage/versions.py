"""Whether what a classifier has learned of late makes it better: it is tried beside the version before."""

from dataclasses import dataclass
from typing import Final

FIRST: Final = 100
"""Examples from which on a classifier is trained at all; of two outcomes at least `OF_EACH`."""
OF_EACH: Final = 10
GROWS: Final = 1.25
"""Another version is tried when so many times more is known."""
NEWEST: Final = 50
"""Examples, the newest, that no new version learns from: it and the one before are tried on them."""
REPLAYED: Final = 200
"""Examples, the newest that the version before has learned from: earlier decisions, which no new one may unlearn."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions on the same mails: of how many each took how many for something else than they were."""

    newest: int
    before_on_newest: int
    after_on_newest: int
    earlier: int
    before_on_earlier: int
    after_on_earlier: int

    @property
    def is_kept(self) -> bool:
        """The new one takes the old one's place: it is no worse, neither on what both never saw nor on what the person
        had decided before."""
        return self.after_on_newest <= self.before_on_newest and self.after_on_earlier <= self.before_on_earlier

    def __str__(self) -> str:
        return (
            f"wrong on {self.after_on_newest} of the newest {self.newest} (before: {self.before_on_newest}), on "
            f"{self.after_on_earlier} of {self.earlier} earlier ones (before: {self.before_on_earlier})"
        )
