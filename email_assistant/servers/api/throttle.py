"""Slows down who guesses the token, without locking its owner out."""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

_MOST_GUESSES = 10
"""Different wrong tokens that one address may give within the time."""
_SECONDS = 60.0
_MOST_ADDRESSES = 1000


class TooManyGuesses(Exception):
    """This address gave many wrong tokens just now; `seconds` says when it may try again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many wrong tokens came from your address; try again in {seconds} s")
        self.seconds = seconds


class Guesses:
    """The wrong tokens of the last minute, by address, as digests.

    The same wrong token counts once: a program that repeats an old one for ever does not shut its owner out.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._times: OrderedDict[str, dict[bytes, float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raises TooManyGuesses."""
        times = self._recent(address)
        if len(times) >= _MOST_GUESSES:
            raise TooManyGuesses(math.ceil(min(times.values()) + _SECONDS - self._clock()))

    def note(self, address: str, given: str) -> None:
        times = self._recent(address)
        times.setdefault(hashlib.sha256(given.encode("utf-8", "replace")).digest(), self._clock())
        self._times[address] = times
        self._times.move_to_end(address)
        while len(self._times) > _MOST_ADDRESSES:
            self._times.popitem(last=False)

    def _recent(self, address: str) -> dict[bytes, float]:
        since = self._clock() - _SECONDS
        return {digest: at for digest, at in self._times.get(address, {}).items() if at > since}
