"""What several ask for at once is done for all of them together, and never from before they asked."""

import asyncio

import pytest

from email_assistant.work.outcomes import Coalesced


async def test_it_is_done_once_for_all_who_ask_while_it_is_done() -> None:
    shared, begun, go_on = Coalesced[int](), list[int](), asyncio.Event()

    async def do() -> int:
        begun.append(len(begun) + 1)
        mine = begun[-1]
        await go_on.wait()
        return mine

    first = asyncio.create_task(shared.get(do))
    await asyncio.sleep(0)
    others = [asyncio.create_task(shared.get(do)) for _ in range(9)]
    await asyncio.sleep(0)
    assert begun == [1]
    go_on.set()
    assert await first == 1
    assert set(await asyncio.gather(*others)) == {2}  # begun after they asked, unlike the first
    assert await shared.get(do) == 3


async def test_a_fault_is_only_theirs_who_met_it() -> None:
    shared = Coalesced[int]()

    async def fail() -> int:
        await asyncio.sleep(0)
        raise RuntimeError

    async def do() -> int:
        return 7

    met, next_ = await asyncio.gather(shared.get(fail), shared.get(do), return_exceptions=True)
    assert isinstance(met, RuntimeError)
    assert next_ == 7
    with pytest.raises(RuntimeError):
        await shared.get(fail)
