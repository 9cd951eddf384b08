"""An account that is paused while a worker is at its mail: nothing more leaves it until it is resumed, then once."""

import asyncio

import pytest

from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.doubles.serving import Hold
from tests.integration.home import Home, in_one_loop, reached
from tests.integration.scene import BOB, DONE, reply

pytestmark = in_one_loop


async def pause_in(home: Home, google: Google, call: str) -> None:
    """Have all done that is due, and pause the account while this request is under way."""
    hold = Hold()
    google.fault(call, hold=hold)
    working = asyncio.create_task(home.step())
    await reached(hold)
    await home.app.accounts.set_state(home.account_id, "paused")
    hold.release()
    await working


async def resume(home: Home) -> None:
    await home.app.accounts.set_state(home.account_id, "active")
    await home.carry_on()


async def test_in_the_look_before_an_answer_is_applied_it_stays_to_be_taken_back(
    home: Home, google: Google, model: Model
) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    mail_id = await home.receive()
    [item] = await home.pending()
    await home.decide(item, "accept")

    await pause_in(home, google, "history.list")

    assert (await home.item(item)).status == "decided"
    assert google.calls("drafts.create") == []
    await resume(home)
    assert (await home.item(item)).status == "applied"
    assert [sent.text for sent in google.sent] == ["Friday is fine."]
    assert await home.is_done(mail_id)


async def test_while_the_model_thinks_nothing_is_looked_up_that_it_asks_for(
    home: Home, google: Google, model: Model
) -> None:
    model.script([[tool("check_calendar_tool", dates=["02-06-2031"])], [reply("Friday is fine."), DONE]])
    google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    await home.sync()
    hold = Hold()
    model.fault("response", hold=hold)
    working = asyncio.create_task(home.step())
    await reached(hold)
    await home.app.accounts.set_state(home.account_id, "paused")
    hold.release()
    await working

    assert google.calls("events.list") == []
    await resume(home)
    assert google.calls("events.list") != []
    assert [item.kind for item in await home.pending()] == ["draft"]


async def test_what_is_approved_says_what_holds_it_up_and_can_be_taken_back(
    home: Home, google: Google, model: Model
) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    await home.receive()
    [item] = await home.pending()
    await home.app.accounts.set_state(home.account_id, "paused")
    await home.decide(item, "accept")
    assert (await home.item(item)).state == "goes out once its mailbox is watched again"
    assert (await home.app.inbox.undo(home.app.user_id, item.id)).status == "pending"
    await home.decide(item, "accept")
    await resume(home)
    assert [sent.text for sent in google.sent] == ["Friday is fine."]


async def test_when_the_draft_is_made_it_is_not_sent(home: Home, google: Google, model: Model) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    mail_id = await home.receive()
    [item] = await home.pending()
    await home.decide(item, "accept")

    await pause_in(home, google, "drafts.create")

    assert google.calls("drafts.send") == []
    await resume(home)
    assert [sent.text for sent in google.sent] == ["Friday is fine."]
    assert len(google.calls("drafts.create")) == 1
    assert google.drafts == []
    assert await home.is_done(mail_id)


@pytest.mark.parametrize("call", ["drafts.create", "drafts.send"])
async def test_of_two_approved_letters_none_is_begun_any_more(
    home: Home, google: Google, model: Model, call: str
) -> None:
    """What is on the wire goes on."""
    model.script(lambda _: [reply("One."), reply("Two."), DONE])
    mail_id = await home.receive()
    for item in await home.pending():
        await home.decide(item, "accept")

    await pause_in(home, google, call)

    assert len(google.calls("drafts.create")) == 1
    assert [sent.text for sent in google.sent] == (["One."] if call == "drafts.send" else [])
    await resume(home)
    assert [sent.text for sent in google.sent] == ["One.", "Two."]
    assert google.drafts == []
    assert await home.is_done(mail_id)
