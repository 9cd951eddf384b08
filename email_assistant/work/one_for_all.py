"""What several ask for at once, done for all of them together."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OneForAll(Generic[T]):
    """Each gets what was begun after they asked, so nobody misses what was there by then."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._begun = 0
        self._ended: tuple[int, T] | None = None

    async def get(self, do: Callable[[], Awaitable[T]]) -> T:
        before = self._begun
        async with self._turn:
            if self._ended and self._ended[0] > before:
                return self._ended[1]
            self._begun += 1
            self._ended = (self._begun, await do())
            return self._ended[1]
