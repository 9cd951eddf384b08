"""Several questions to a model at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

_AT_ONCE: Final = 4


async def several(questions: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Ask all, a few at a time. The first error, or the end of this task, ends those that are under way."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(ask: Callable[[], Awaitable[None]]) -> None:
        async with slots:
            await ask()

    tasks = [asyncio.create_task(one(ask)) for ask in questions]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
