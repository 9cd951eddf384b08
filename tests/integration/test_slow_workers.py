"""A worker that was only slow: another has its conversation, and what it still has under way changes nothing.

Both are in this process. The slow one's request to Google is held, its lease runs out, and the other takes over.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

import pytest
import pytest_asyncio

from tests.doubles.front import Moment
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.home import Home, OpenHome, in_one_loop, reached, until
from tests.integration.scene import BOB, DONE, reply

pytestmark = in_one_loop


@pytest_asyncio.fixture(loop_scope="module")
async def home(open_home: OpenHome) -> AsyncIterator[Home]:
    async with open_home(max_tries=9) as opened:  # each worker that takes over counts
        yield opened


@dataclass
class Slow:
    """A worker of which a request is not answered yet."""

    hold: Hold
    work: "asyncio.Task[None]"

    async def goes_on(self) -> None:
        self.hold.release()
        await self.work


async def at_work(home: Home, fault: Callable[..., object]) -> Slow:
    """Have a worker do what is due, as far as the request that this fault of a double takes."""
    hold = Hold()
    fault(hold=hold)
    work = asyncio.create_task(home.step())
    await reached(hold)
    return Slow(hold, work)


async def slow(home: Home, google: Google, call: str, at: Moment = "before") -> Slow:
    """Likewise, until its lease has run out."""
    worker = await at_work(home, partial(google.fault, call, at=at))
    await home.sql("update threads set lease_until = '-infinity'")
    return worker


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


async def test_its_draft_stays_where_another_has_adopted_it(home: Home, google: Google, model: Model) -> None:
    mail_id = await approved(home, model)

    slow_one = await slow(home, google, "drafts.create", "after")
    other = await slow(home, google, "drafts.send")
    await slow_one.goes_on()
    await other.goes_on()

    await expect_one_mail(home, google, mail_id)
    assert len(google.calls("drafts.create")) == len(google.calls("drafts.send")) == 1


async def test_its_draft_that_comes_after_the_mail_was_sent_is_deleted(
    home: Home, google: Google, model: Model
) -> None:
    mail_id = await approved(home, model)

    slow_one = await slow(home, google, "drafts.create")
    await home.step()
    assert len(google.sent) == 1
    await slow_one.goes_on()

    await expect_one_mail(home, google, mail_id)


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
    assert (await home.item(again)).overwritten is None  # they wrote nothing into any draft


async def test_it_gives_back_nothing_that_another_holds(home: Home, google: Google, model: Model) -> None:
    mail_id = await approved(home, model)

    slow_one = await slow(home, google, "drafts.create", "after")
    other = await at_work(home, partial(google.fault, "drafts.send"))
    await slow_one.goes_on()
    assert await home.works.due.due() == []
    await other.goes_on()

    await expect_one_mail(home, google, mail_id)


async def test_it_begins_no_write_that_may_outlast_its_lease(open_home: OpenHome, google: Google, model: Model) -> None:
    async with open_home(google_timeout_seconds=30) as home:
        mail_id = await approved(home, model)

        worker = await at_work(home, partial(google.fault, "history.list"))
        await home.sql("update threads set lease_until = clock_timestamp() + interval '25 seconds'")
        await worker.goes_on()

        assert google.calls("drafts.create") == []
        await expect_one_mail(home, google, mail_id)


@pytest.mark.parametrize("lost", ["epoch = epoch + 1", "lease_until = '-infinity'"])
async def test_it_stops_in_the_middle_once_it_has_lost_the_conversation(
    open_home: OpenHome, google: Google, model: Model, lost: str
) -> None:
    async with open_home(lease_seconds=1.5, google_timeout_seconds=0.5) as home:
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        await home.sync()

        worker = await at_work(home, partial(model.fault, "triage"))
        await home.sql(f"update threads set {lost}")

        await until(worker.work.done)
        await worker.goes_on()
