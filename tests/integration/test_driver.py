"""How a conversation is carried on: what keeps an approved call, and how often is read what its mails say."""

import asyncio
from typing import Any

import pytest
from psycopg import AsyncCursor

from email_assistant.app import open_chat
from email_assistant.user_file import BadFile
from email_assistant.work.conversations import Conversations
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.doubles.serving import Hold
from tests.integration.home import Home, in_one_loop, reached
from tests.integration.scene import BOB, DONE, reply

pytestmark = in_one_loop

LETTER = tool(
    "send_email_tool", email_id=None, email_address="bob@example.com", subject="Late", response_text="I'm late."
)


async def test_what_was_approved_in_a_chat_waits_until_a_broken_file_of_tools_is_mended(
    home: Home, google: Google, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.on_policy("mail")
    model.on_chat({"write": [[LETTER], "It is sent."]})
    chat = open_chat(home.app)

    async def broken(*_: Any) -> str:
        raise BadFile("tools.yaml, line 3: there is no such key")

    try:
        talk = await chat.ask(await home.account(), "errands", "write")
        [item] = talk.waiting
        with monkeypatch.context() as patched:
            patched.setattr(type(chat.driver.tools), "run", broken)
            talk = await chat.answer(talk.chat, home.app.user_id, [(item.id, {"type": "accept", "args": None})])
        assert talk.turn is not None
        assert (talk.turn.state, talk.turn.why) == ("acting", "tools.yaml, line 3: there is no such key")
        assert not google.sent
        await home.carry_on()
        talk = await chat.look(home.app.user_id, "errands")
    finally:
        await chat.aclose()

    assert talk.turn is not None
    assert (talk.turn.state, talk.turn.answer) == ("done", "It is sent.")
    assert len(google.sent) == 1


async def test_a_conversation_is_read_once_for_a_mail_with_what_the_mails_say(
    home: Home, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    looks: list[str] = []

    def count(name: str) -> None:
        read = getattr(Conversations, name)

        async def counted(*given: Any) -> Any:
            looks.append(name)
            return await read(*given)

        monkeypatch.setattr(Conversations, name, counted)

    count("load")
    count("read")
    await home.receive()

    assert len(await home.pending()) == 1
    assert looks == ["load"]


REFUSES_QUESTIONS = """
create function refuse_questions() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
create trigger refuse_questions before insert on checkpoint_writes for each row
when (new.channel = '__interrupt__' and new.checkpoint_ns <> '') execute function refuse_questions()"""


async def test_nobody_is_asked_what_could_not_be_stored(home: Home, model: Model) -> None:
    """LangGraph tells of no error then, and the graph around the one that asks has stored that it waits."""
    model.script(lambda _: [reply("Friday is fine."), DONE])
    await home.sql(REFUSES_QUESTIONS)
    home.google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    await home.sync()

    await home.step()

    assert await home.pending() == []
    [mail] = await home.mails()
    assert (mail.state, mail.reason) == ("triaging", "waiting: the database is not available")
    await home.sql("drop trigger refuse_questions on checkpoint_writes")
    await home.carry_on()
    assert len(await home.pending()) == 1


async def test_what_checkpoints_say_is_read_once_where_the_run_is_gone_on_with(
    home: Home, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    reads: list[tuple[str, object]] = []
    fetch = AsyncCursor.execute

    async def counted(cursor: Any, query: Any, *given: Any, **more: Any) -> Any:
        if b"pending_writes" in (query if isinstance(query, bytes) else str(query).encode()):
            reads.append(given[0])
        return await fetch(cursor, query, *given, **more)

    monkeypatch.setattr(AsyncCursor, "execute", counted)
    await home.receive()
    assert reads == []  # there were none before
    [item] = await home.pending()
    await home.answer(item, "accept")
    assert len(reads) == 1  # of the graph, and of the one in it


async def test_a_letter_that_the_ledger_knows_wakes_nobody(home: Home, google: Google, model: Model) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    await home.receive()
    [item] = await home.pending()
    await home.answer(item, "accept")
    await home.sql("delete from procrastinate_jobs")

    await home.sync()

    assert await home.sql("select state from mails where own") == [{"state": "done"}]
    assert await home.woken() == []
    assert item.mail_id
    google.person_sends(item.mail_id, "One more thing")
    await home.sync()
    assert len(await home.woken()) == 1


async def test_of_mails_read_together_the_newest_is_answered_though_one_is_retried_meanwhile(
    home: Home, model: Model
) -> None:
    """The look at the conversation, before the model was asked, could not tell of it."""
    model.script(lambda _: [reply("Friday is fine."), DONE])
    first = home.google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    second = home.google.deliver(BOB, "Lunch!", "Or Monday?", thread=first)
    await home.sync()
    await home.sql("update mails set state = 'failed', classification = 'respond' where gmail_id = %s", second)
    model.fault("triage", hold=(hold := Hold()))
    working = asyncio.create_task(home.step())
    await reached(hold)
    await home.sql("update mails set state = 'triaging' where gmail_id = %s", second)
    hold.release()
    await working
    await home.carry_on()

    [item] = await home.pending()
    assert item.mail_id == second
