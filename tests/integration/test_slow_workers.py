"""A worker that was only slow: another has its conversation, and what it still has under way changes nothing.

Both are in this process. The slow one's request to Google is held, its lease runs out, and the other takes over.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest_asyncio

from tests.doubles.front import Moment
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.home import Home, OpenHome, in_one_loop, reached
from tests.integration.scene import DONE, reply

pytestmark = in_one_loop


@pytest_asyncio.fixture(loop_scope="module")
async def home(open_home: OpenHome) -> AsyncIterator[Home]:
    async with open_home(max_tries=9) as opened:  # each worker that takes over counts
        yield opened


@dataclass
class Slow:
    """A worker whose lease ran out in a request that is not answered yet."""

    hold: Hold
    work: "asyncio.Task[None]"

    async def goes_on(self) -> None:
        self.hold.release()
        await self.work


async def slow(home: Home, google: Google, call: str, at: Moment = "before") -> Slow:
    """Have a worker do what is due, as far as this request."""
    hold = Hold()
    google.fault(call, hold=hold, at=at)
    work = asyncio.create_task(home.step())
    await reached(hold)
    await home.sql("update threads set lease_until = '-infinity'")
    return Slow(hold, work)


async def approved(home: Home, model: Model) -> str:
    """A reply that the person has accepted; returns the mail's id."""
    model.script(lambda _: [reply("Friday is fine."), DONE])
    mail_id = await home.receive()
    [item] = await home.pending()
    await home.decide(item, "accept")
    return mail_id


async def expect_one_mail(home: Home, google: Google, mail_id: str, text: str = "Friday is fine.") -> None:
    await home.carry_on()
    assert [sent.text for sent in google.sent] == [text]
    assert google.drafts == []
    assert await home.is_done(mail_id)


async def test_its_draft_never_takes_the_place_of_one_that_may_be_on_its_way(
    home: Home, google: Google, model: Model
) -> None:
    mail_id = await approved(home, model)

    slow_one = await slow(home, google, "drafts.create")
    other = await slow(home, google, "drafts.send")
    await slow_one.goes_on()
    third = await slow(home, google, "drafts.send")
    await other.goes_on()
    await third.goes_on()

    await expect_one_mail(home, google, mail_id)


async def test_its_draft_is_not_adopted_while_it_deletes_it(home: Home, google: Google, model: Model) -> None:
    mail_id = await approved(home, model)

    slow_one = await slow(home, google, "drafts.create", "after")
    other = await slow(home, google, "drafts.get", "after")  # it has found the draft
    await slow_one.goes_on()
    await other.goes_on()

    await expect_one_mail(home, google, mail_id)
    assert len(google.calls("drafts.send")) == 1


async def test_its_text_is_not_sent_once_the_person_has_changed_it(home: Home, google: Google, model: Model) -> None:
    mail_id = await approved(home, model)

    slow_one = await slow(home, google, "drafts.create")
    google.fault("drafts.create", status=400, reason="invalidArgument")
    await home.step()
    [again] = await home.pending()
    await home.decide(again, "edit", again.args | {"response_text": "Monday is better."})
    other = await slow(home, google, "drafts.create")
    await slow_one.goes_on()
    await other.goes_on()

    await expect_one_mail(home, google, mail_id, "Monday is better.")
