"""What a server was found to do, and not to do, with one model."""

import time
from collections.abc import Callable
from typing import Literal

Ability = Literal["json_schema", "json_object", "untold_schema", "tools", "stream", "stream_usage"]
"""`untold_schema`: answers fit a schema that went out with the request and does not stand in the prompt."""

_BELIEVED_SECONDS = 3600
"""For so long something is taken as found out: servers are restarted with other models and other flags."""
_TIMES = 2
"""An answer that doesn't fit is the server's way only when it comes so often in a row."""


class Abilities:
    """Kept in memory: a new process finds out anew, at the price of a refused request or a small question."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[Ability, tuple[bool, float]] = {}
        self._misses: dict[Ability, int] = {}

    def can(self, ability: Ability) -> bool | None:
        """None: it is not known."""
        well, until = self._found.get(ability, (None, 0.0))
        return well if self._clock() < until else None

    def found(self, ability: Ability, well: bool) -> None:
        self._misses[ability] = 0
        self._found[ability] = (well, self._clock() + _BELIEVED_SECONDS)

    def forget(self, ability: Ability) -> None:
        """It may not be as it was found."""
        self._found.pop(ability, None)

    def missed(self, ability: Ability) -> None:
        """An answer did not fit, which can happen to any model once."""
        self._misses[ability] = self._misses.get(ability, 0) + 1
        if self._misses[ability] >= _TIMES:
            self.found(ability, False)
