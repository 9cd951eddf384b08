"""Whether what this process does over and over is still done: a loop that hangs raises nothing."""

import math
import time


class Heartbeat:
    def __init__(self) -> None:
        self._within: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def expect(self, what: str, within: float) -> None:
        """From now on it beats, at least once in so many seconds. `what`: in words, that it has not."""
        self._within[what] = within
        self.beat(what)

    def beat(self, what: str) -> None:
        self._last[what] = time.monotonic()

    def pause(self, what: str) -> None:
        """It need not, until it does again."""
        self._last[what] = math.inf

    def missed(self) -> list[str]:
        """What should have come by now and did not, in words."""
        since = {what: time.monotonic() - self._last[what] for what in self._within}
        return [f"{what} for {since[what]:.0f} s" for what, within in self._within.items() if since[what] > within]
