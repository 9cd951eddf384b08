"""Everything that changes rows locks them in one order (`email_assistant.db.order`), so that nothing ever deadlocks."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from email_assistant.db.lease import claim
from email_assistant.db.pool import make_pool
from email_assistant.inbox.items import Item
from email_assistant.work.faults import classify
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.integration.home import Home, in_one_loop
from tests.integration.locks import as_far_as_it_goes, locks_of, out_of_order, referred_to
from tests.integration.scene import BOB, DONE, meeting, reply

pytestmark = in_one_loop

Work = Callable[[], Awaitable[object]]
Action = Callable[[Home], Awaitable[Work]]
"""Sets the scene, and returns what is to be looked at."""

BOTH = [reply("Friday is fine."), meeting(), DONE]
_IN_VAIN_SECONDS = 8.0


async def open_items(home: Home) -> list[Item]:
    """A mail came in, and two items of its run wait."""
    mail_id = await home.receive()
    items = [item for item in await home.pending() if item.mail_id == mail_id]
    assert len(items) == 2
    return items


async def a_failed_mail(home: Home, model: Model) -> str:
    model.fault("triage", status=400, times=9)
    mail_id = await home.receive()
    model.clear_faults()
    assert (await home.mail(mail_id)).state == "failed"
    return mail_id


# What a person does


async def decides(home: Home) -> Work:
    [item, _] = await open_items(home)
    return lambda: home.decide(item, "accept")


async def decides_several(home: Home) -> Work:
    user, items = home.app.user_id, sorted(await open_items(home), key=lambda item: item.id, reverse=True)
    answers = [(item.id, {"type": "accept", "args": None}) for item in items]
    return lambda: home.app.inbox.decide_together(user, answers, by="test")


async def snoozes(home: Home) -> Work:
    [item, _] = await open_items(home)
    return lambda: home.app.inbox.snooze(home.app.user_id, item.id, datetime.now(UTC) + timedelta(days=1))


async def tries_again(home: Home, model: Model) -> Work:
    mail_id = await a_failed_mail(home, model)
    return lambda: home.app.corrections.retry(home.app.user_id, mail_id)


async def corrects(home: Home) -> Work:
    [item, _] = await open_items(home)
    assert item.mail_id
    mail_id = item.mail_id
    return lambda: home.app.corrections.correct(home.app.user_id, mail_id, "ignore", "test")


async def switches_to_shadow(home: Home) -> Work:
    for item in [*await open_items(home), *await open_items(home)]:
        await home.decide(item, "accept")
    account = await home.account()
    return lambda: home.app.inbox.set_mode(home.app.accounts, account, "shadow")


# What comes from Gmail


async def mail_comes(home: Home) -> Work:
    for _ in range(2):
        [item, _] = await open_items(home)
        home.google.deliver(BOB, "Re: Lunch?", "Or Monday?", thread=item.mail_id)
        home.google.deliver(BOB, "Dinner?", "Does Friday suit you?")
    return home.sync


async def mail_is_put_away(home: Home) -> Work:
    for _ in range(3):
        [item, _] = await open_items(home)
        assert item.mail_id
        home.google.person_moves(item.mail_id, out_of=["INBOX"])
        home.google.person_drafts(item.mail_id, "I begin myself")
    return home.sync


async def a_thread_is_looked_at(home: Home) -> Work:
    [item, _] = await open_items(home)
    assert item.mail_id
    thread = item.mail_id
    home.google.deliver(BOB, "Re: Lunch?", "Or Monday?", thread=thread)
    home.google.person_moves(thread, out_of=["INBOX"])
    account = await home.account()
    return lambda: home.works.mailboxes.sync_thread(account, thread)


async def older_mail_is_listed(home: Home) -> Work:
    await home.sync()
    home.google.deliver(BOB, "Long ago", "Hello.", age=timedelta(days=9))
    await home.sql("update accounts set backfilled_at = null, backfill_total = null")
    return lambda: home.works.backfill.run(home.account_id)


# What follows


async def a_mail_is_worked_on(home: Home) -> Work:
    home.google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    await home.sync()
    return home.step


async def answers_are_carried_out(home: Home) -> Work:
    for item in await open_items(home):
        await home.decide(item, "accept")
    return home.step


async def newer_mail_takes_over(home: Home) -> Work:
    [item, _] = await open_items(home)
    home.google.deliver(BOB, "Re: Lunch?", "Or Monday?", thread=item.mail_id)
    await home.sync()
    return home.step


async def the_person_answered(home: Home) -> Work:
    [item, _] = await open_items(home)
    assert item.mail_id
    home.google.person_sends(item.mail_id, "I do it myself")
    await home.sync()
    return home.step


async def the_person_put_it_away(home: Home) -> Work:
    await (await mail_is_put_away(home))()
    return home.step


async def work_fails(home: Home, model: Model) -> Work:
    for item in await open_items(home):
        await home.decide(item, "response", "Rather Monday.")
    model.fault("response", status=400, times=9)
    return home.step


async def work_backs_off(home: Home, model: Model) -> Work:
    for item in await open_items(home):
        await home.decide(item, "response", "Rather Monday.")
    model.fault("response", status=503, times=9)
    return home.step


async def a_lesson_is_claimed(home: Home) -> Work:
    [_, item] = await open_items(home)
    await home.sql("update inbox_items set status = 'applied', applied_at = clock_timestamp(), teaches = true")
    return lambda: claim(home.app.pool, "lesson", item.id, 60)


async def a_chat_goes_on(home: Home, model: Model) -> Work:
    account, chat = await home.account(), home.works.chat
    model.on_policy("mail")
    given = {"email_address": "bob@example.org", "subject": "Hi", "response_text": "Hello."}
    letter = tool("send_email_tool", email_id=None, **given)
    model.on_chat({"Write to Bob.": [[letter], "Done."], "Never mind.": ["All right."]})
    await chat.ask(account, "a-chat", "Write to Bob.")
    return lambda: chat.ask(account, "a-chat", "Never mind.")


async def several_accounts_at_once(home: Home) -> Work:
    async def both() -> None:
        await home.app.accounts.forget_spent()
        await home.app.accounts.claim_watches("projects/p/topics/t", timedelta(hours=1))

    return both


async def it_is_removed(home: Home) -> Work:
    await open_items(home)
    await open_items(home)
    account = await home.account()
    return lambda: home.app.removal.remove(account)


ALL: dict[str, Any] = {
    action.__name__: action
    for action in (
        *(decides, decides_several, snoozes, tries_again, corrects, switches_to_shadow),
        *(mail_comes, mail_is_put_away, a_thread_is_looked_at, older_mail_is_listed),
        *(a_mail_is_worked_on, answers_are_carried_out, newer_mail_takes_over, the_person_answered),
        *(the_person_put_it_away, work_fails, work_backs_off, a_lesson_is_claimed, a_chat_goes_on),
        several_accounts_at_once,
    )
}
REMOVAL = {"it_is_removed": it_is_removed}
"""What nothing can refer to while it goes on."""


@pytest.fixture(autouse=True)
def two_calls(model: Model) -> None:
    model.script(lambda _: BOTH)


@pytest.fixture(params=ALL)
def action(request: pytest.FixtureRequest, model: Model) -> Action:
    found = (ALL | REMOVAL)[request.param]
    return (lambda home: found(home, model)) if "model" in found.__annotations__ else found


@pytest.mark.parametrize("action", ALL | REMOVAL, indirect=True)
async def test_it_locks_in_the_one_order(
    home: Home, action: Action, database_url: str, google: Google, tmp_path: Path
) -> None:
    for number in range(2):
        address = f"other{number}@example.net"
        token = google.another(address, "Asia/Tokyo").write_token_file(tmp_path / f"{number}.json")
        await home.app.accounts.add(home.app.user_id, address, json.loads(token.read_text()), datetime.now(UTC))
    work = await action(home)

    transactions = await locks_of(home.app.pool, database_url, work)

    assert transactions
    assert [f"{wrong}: {t}" for t in transactions if (wrong := out_of_order(t))] == []


async def test_what_refers_to_a_row_waits_for_nobody(home: Home, action: Action, database_url: str) -> None:
    work = await action(home)
    with referred_to(database_url):
        async with asyncio.timeout(_IN_VAIN_SECONDS):
            await work()


async def test_a_poll_a_lesson_and_a_worker_do_not_wait_for_each_other(home: Home, database_url: str) -> None:
    """Behind any change of the account each held what the next one wanted."""
    app = home.app
    [item, _] = await open_items(home)
    lease = await claim(app.pool, "conversation", item.thread_id, 60)
    assert lease
    home.google.deliver(BOB, "Dinner?", "Does Friday suit you?")
    home.google.deliver(BOB, "Re: Lunch?", "Or Monday?", thread=item.mail_id)

    async with app.pool.connection() as conn, conn.transaction():
        await app.accounts.set_mode(conn, home.account_id, "send")
        lesson = await as_far_as_it_goes(database_url, claim(app.pool, "lesson", item.id, 60))
        backs_off = home.app.runs.back_off(lease, None, "later", None, outage=True)
        worker = await as_far_as_it_goes(database_url, backs_off)
        poll = await as_far_as_it_goes(database_url, home.sync())
        assert not lesson.done()

    await asyncio.gather(lesson, worker, poll)
    assert len(await home.mails()) == 3


async def test_who_stands_still_in_a_transaction_lets_go_of_what_it_holds(home: Home, database_url: str) -> None:
    """As a process that is stopped does (SIGSTOP, a machine put to sleep), and then goes on."""
    app = home.app

    async def stand_still() -> None:
        pool = make_pool(database_url, size=1, idle_seconds=0.1)
        async with pool, pool.connection() as conn, conn.transaction():
            await app.accounts.set_mode(conn, home.account_id, "shadow")
            async with asyncio.timeout(_IN_VAIN_SECONDS), app.pool.connection() as other:
                await app.accounts.set_mode(other, home.account_id, "send")
            await conn.execute("select 1")

    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout) as gone:
        await stand_still()

    assert classify(gone.value).outage
    assert (await app.accounts.get(home.account_id)).mode == "send"
