"""A mail, a correspondent or an account is forgotten everywhere, does not come back, and all else stays."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from email_assistant.db.backup import back_up, blocks_of
from email_assistant.db.lease import claim
from email_assistant.gate.ledger import check
from email_assistant.inbox.items import Conflict, NoItem
from email_assistant.mail.address import Address
from email_assistant.mail.compose import compose_mail
from email_assistant.outgoing.letters import Letter
from email_assistant.web.app import create_api
from email_assistant.work.forgetting import NobodyNamed
from tests.doubles.google import Google
from tests.doubles.mail import reported
from tests.doubles.model import Model, tool
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import ADA, DONE, reply

pytestmark = in_one_loop

UNIQUE = "xylophoneparade"
WHO = "zelda.quist@orchard.example"
ZELDA = f"Zelda Quist <{WHO}>"
LEARNED = {"action": "add", "text": "Sign with Ada.", "reason": "the edit adds it"}


def dumped(url: str, folder: Path) -> str:
    """All that a backup would hold, as text; what is kept in bytes as the bytes that it is."""
    target = folder / f"dump-{len(list(folder.iterdir()))}.tar.gz"
    back_up(url, {"secret_key": "key"}, target)
    found = []
    with blocks_of(target) as blocks:
        for block in blocks:
            for row in block.rows:
                text = row.decode(errors="replace")
                found.append(f"{block.table} {text}")
                kept = [cell.strip() for cell in text.split("\t") if cell.startswith(r"\\x")]
                found += [f"{block.table} {bytes.fromhex(cell[3:]).decode(errors='replace')}" for cell in kept]
    return "\n".join(found)


def places(text: str, word: str) -> set[str]:
    """The tables that hold a word."""
    return {line.split(" ", 1)[0] for line in text.lower().split("\n") if word.lower() in line}


async def a_past(home: Home, google: Google, model: Model) -> tuple[str, str, list[str]]:
    """A mail of Zelda's that was answered by an edit from which a rule was learned, corrected, looked at in a chat and
    read by a rehearsal; one of Bob's beside it. Returns their ids, and words that only Zelda's brought here."""
    model.script(lambda request: [reply(f"About the {UNIQUE}.", email_address=WHO), DONE])
    model.on_memory(LEARNED)
    zelda = await home.receive(f"The {UNIQUE} of May", f"Bring the {UNIQUE} drums. {WHO}", from_=ZELDA)
    [item] = await home.pending()
    await home.answer(item, "edit", {**item.args, "response_text": f"The {UNIQUE} it is. Ada"})
    await home.works.learn(home.account_id)
    await home.sync()
    await home.app.corrections.correct(home.app.user_id, zelda, "ignore", "test")
    await home.carry_on()
    await home.works.learn(home.account_id)
    model.script(lambda _: [reply("Fine."), DONE])
    bob = await home.receive()
    past = home.app.past_mails
    account = await home.account()
    await past.fetch(account, [zelda, bob])
    await home.app.accounts.set_background(home.account_id, "Ada, who likes drums.")
    await check(home.app.pool)
    return zelda, bob, [UNIQUE, WHO, google.message(zelda).message_id.strip("<>")]


async def mail(home: Home, mail_id: str) -> None:
    forgets = home.app.forgetting
    await forgets.carry_out(await forgets.of_mail(home.app.user_id, mail_id))


async def correspondent(home: Home, mail_id: str) -> None:
    forgets = home.app.forgetting
    await forgets.carry_out(forgets.of_correspondent(home.app.user_id, WHO))


async def domain(home: Home, mail_id: str) -> None:
    forgets = home.app.forgetting
    await forgets.carry_out(forgets.of_correspondent(home.app.user_id, "@orchard.example"))


async def account(home: Home, mail_id: str) -> None:
    found = await home.account()
    await home.app.removal.remove(found)


async def at_bob(home: Home, bob: str) -> dict[str, Any]:
    tables = ("mails", "runs", "inbox_items", "judgements", "past_mails", "threads")
    found = {table: await home.sql(f"select count(*) as n from {table}") for table in tables}
    return {**found, "mail": [m for m in await home.mails() if m.id == bob], "items": await home.items()}


@pytest.mark.parametrize("how", [mail, correspondent, domain, account])
async def test_nothing_of_it_is_left_and_it_does_not_come_back(
    home: Home,
    google: Google,
    model: Model,
    database_url: str,
    tmp_path: Path,
    how: Callable[[Home, str], Awaitable[None]],
) -> None:
    zelda, bob, words = await a_past(home, google, model)
    before = dumped(database_url, tmp_path)
    assert {"mails", "inbox_items", "effects", "past_mails", "store"} <= places(before, UNIQUE)
    for word in words:
        assert places(before, word), word
    assert (await check(home.app.pool)).faults == []

    await how(home, zelda)

    after = dumped(database_url, tmp_path)
    for word in words:
        assert places(after, word) == set(), word
    assert (await check(home.app.pool)).faults == []
    if how is account:
        return
    assert places(after, zelda) == {"forgotten"}
    [kept] = [each for each in await home.items() if each.status == "pending"]
    assert (kept.mail_id, (await home.mail(bob)).state) == (bob, "waiting")
    assert [each["gmail_id"] for each in await home.sql("select gmail_id from past_mails")] == [bob]

    await home.sql("update accounts set history_id = null, backfill_total = null, backfilled_at = null")
    await home.sync()
    await home.carry_on()
    past = home.app.past_mails
    now = await home.account()
    await past.fetch(now, [zelda])
    assert zelda not in (await past.look(now, now.triage_since)).missing
    assert places(dumped(database_url, tmp_path), UNIQUE) == set()
    assert len(google.sent) == 1

    model.on_triage("ignore")
    later = google.deliver(ZELDA, "Again", "Hello?", thread=zelda)
    await home.sync()
    await home.carry_on()
    assert (await home.mail(later)).sender == WHO


@pytest.mark.parametrize("how", [mail, correspondent])
async def test_nor_is_what_a_report_has_of_a_letter_in_it(
    home: Home,
    google: Google,
    model: Model,
    database_url: str,
    tmp_path: Path,
    how: Callable[[Home, str], Awaitable[None]],
) -> None:
    zelda, bob, _ = await a_past(home, google, model)
    google.deliver_raw(reported(google.sent[-1].message_id, (WHO, "failed", "5.1.1")), zelda)
    await home.sync()
    await home.carry_on()
    assert [UNIQUE in str(item.args) for item in await home.pending()] == [False, True]
    await how(home, zelda)
    after = dumped(database_url, tmp_path)
    assert [places(after, word) for word in (UNIQUE, WHO)] == [set(), set()]
    assert [item.mail_id for item in await home.pending()] == [bob]


@pytest.mark.parametrize("how", [mail, correspondent])
async def test_nor_does_a_letter_come_back_that_was_sent_and_not_seen_in_the_mailbox_yet(
    home: Home,
    google: Google,
    model: Model,
    database_url: str,
    tmp_path: Path,
    how: Callable[[Home, str], Awaitable[None]],
) -> None:
    model.script(lambda _: [reply(f"About the {UNIQUE}.", email_address=WHO), DONE])
    zelda = await home.receive(f"The {UNIQUE} of May", "Bring the drums.", from_=ZELDA)
    [item] = await home.pending()
    await home.answer(item, "accept")
    assert [each["gmail_id"] for each in await home.sql("select gmail_id from mails")] == [zelda]
    await how(home, zelda)
    await home.sync()
    await home.carry_on()
    after = dumped(database_url, tmp_path)
    assert (places(after, UNIQUE), places(after, WHO)) == (set(), set())
    assert len(google.sent) == 1


async def test_what_would_go_is_shown_and_stays(home: Home, google: Google, model: Model) -> None:
    zelda, _, _ = await a_past(home, google, model)
    forgets = home.app.forgetting
    plan = await forgets.plan(await forgets.of_mail(home.app.user_id, zelda))
    [conversation] = plan.conversations
    assert (conversation.subject, conversation.sender, conversation.done) == (f"The {UNIQUE} of May", WHO, 1)
    assert len(plan.rules) == 2
    assert (plan.past_mails, plan.refused) == (1, [])
    assert (await home.mail(zelda)).sender == WHO
    [note] = (await forgets.plan(forgets.of_correspondent(home.app.user_id, (await home.account()).address))).notes
    assert "a mailbox of your own" in note
    assert (await forgets.plan(forgets.of_correspondent(home.app.user_id, "quist@orchard.example"))).is_nothing
    assert (await forgets.plan(forgets.of_correspondent(home.app.user_id, "chard.example"))).is_nothing
    with pytest.raises(NobodyNamed):
        forgets.of_correspondent(home.app.user_id, "no address")
    with pytest.raises(NoItem):
        await forgets.of_mail(home.app.user_id, "nothing")


@pytest.mark.parametrize("under_way", ["lease", "sending"])
async def test_it_is_refused_while_something_is_under_way(
    home: Home, google: Google, model: Model, under_way: str
) -> None:
    zelda, bob, _ = await a_past(home, google, model)
    [row] = await home.sql("select thread_id from mails where gmail_id = %s", zelda)
    if under_way == "lease":
        assert await claim(home.app.pool, "conversation", row["thread_id"], 60, home.app.holder)
    else:
        await home.sql("update effects set state = 'started' where thread_id = %s", row["thread_id"])
    with pytest.raises(Conflict):
        await mail(home, zelda)
    assert (await home.mail(zelda)).sender == WHO
    await mail(home, bob)
    assert await home.pending() == []


async def test_the_page_and_the_api_show_it_first(home: Home, google: Google, model: Model) -> None:
    zelda, bob, _ = await a_past(home, google, model)
    transport = httpx.ASGITransport(create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        assert f"/mails/{zelda}/forget" in (await http.get(f"/mails/{zelda}/trail")).text
        page = (await http.get(f"/mails/{zelda}/forget")).text
        assert f"The {UNIQUE} of May" in page
        assert "Sign with Ada." in page
        shown = (await http.get(f"/api/mails/{zelda}/forget")).json()
        assert (shown["forgotten"], len(shown["conversations"])) == (False, 1)
        done = await http.post(f"/mails/{zelda}/forget", data={"account": ADA})
        assert (done.status_code, done.headers["location"]) == (303, "/mails")
        assert (await http.get(f"/api/mails/{zelda}/trail")).status_code == 404
        assert (await http.post(f"/api/mails/{bob}/forget")).json()["forgotten"]
        assert (await http.get("/api/mails")).json()["items"] == []


async def test_a_chat_that_named_it_goes_too_and_others_stay(home: Home, google: Google, model: Model) -> None:
    zelda, _, _ = await a_past(home, google, model)
    model.on_policy("inbox")
    model.on_chat({"what of it": [[tool("find_mail", words=UNIQUE)], "It is about drums."], "hello": ["Hello."]})
    now = await home.account()
    await home.works.chat.ask(now, "about it", "what of it")
    await home.works.chat.ask(now, "another", "hello")
    forgets = home.app.forgetting
    plan = await forgets.plan(await forgets.of_mail(home.app.user_id, zelda))
    assert [each.chat for each in plan.conversations if each.chat] == ["about it"]
    await mail(home, zelda)
    rows = await home.sql("select chat_id from threads where chat_id is not null")
    assert [row["chat_id"] for row in rows] == ["another"]


async def test_a_chat_that_named_a_mail_of_theirs_goes_with_a_correspondent(
    home: Home, google: Google, model: Model
) -> None:
    await a_past(home, google, model)
    model.on_policy("chat")
    asked = f"What of The {UNIQUE} of May?"
    model.on_chat({asked: ["I can't tell."], "hello": ["Hello."]})
    now = await home.account()
    await home.works.chat.ask(now, "about it", asked)
    await home.works.chat.ask(now, "another", "hello")
    forgets = home.app.forgetting
    await forgets.carry_out(forgets.of_correspondent(home.app.user_id, WHO))
    rows = await home.sql("select chat_id from threads where chat_id is not null")
    assert [row["chat_id"] for row in rows] == ["another"]


async def test_of_a_letter_under_a_key_nothing_names_them_and_it_is_not_sent_again(
    home: Home, google: Google, database_url: str, tmp_path: Path
) -> None:
    held, key = await home.account(), f"{UNIQUE} for {WHO}"

    async def write() -> Letter:
        sender, subject, now = Address("Ada", ADA), f"The {UNIQUE}", datetime.now(UTC)
        return Letter(compose_mail(to=[WHO], sender=sender, subject=subject, text=f"{UNIQUE}.", date=now), None)

    gmail = (await home.app.clients.of(held)).gmail
    await home.app.outbox.send(gmail, held, "program", key, {}, write)
    await home.sql("update effects set overwritten = %s", f"To: {WHO}")
    await correspondent(home, "")
    after = dumped(database_url, tmp_path)
    assert (places(after, UNIQUE), places(after, WHO)) == (set(), set())
    assert (await home.app.outbox.send(gmail, held, "program", key, {}, write)).before
    assert len(google.sent) == 1


async def test_another_programs_agents_calls_are_blotted_out_and_the_log_says_so(home: Home) -> None:
    user = home.app.user_id
    asked = [f"write to {WHO}"]
    await home.sql("insert into gate_sessions (user_id, name, requests) values (%s, 's', %s)", user, asked)
    await home.sql(
        """insert into gate_requests (user_id, session_id, call_id, tool, arguments, verdict, reason, external, cleared)
           select user_id, id, c, 'send', a, 'allow', 'it may', true, true
           from gate_sessions, (values ('one', %s::text), ('two', 'nobody')) as v (c, a)""",
        f"to {WHO}",
    )
    await home.sql(
        """insert into gate_ended (user_id, session_id, call_id, status, result)
           select user_id, session_id, call_id, 'ok', arguments from gate_requests"""
    )
    await check(home.app.pool)
    await correspondent(home, "")
    rows = await home.sql(
        "select b.arguments, e.result from gate_requests b join gate_ended e using (call_id) order by 1"
    )
    assert [(row["arguments"], row["result"]) for row in rows] == [("nobody", "nobody"), (None, None)]
    assert await home.sql("select requests from gate_sessions") == [{"requests": []}]
    found = await check(home.app.pool)
    assert (found.faults, found.forgotten) == ([], 2)
    await home.sql("update gate_requests set arguments = 'another' where call_id = 'two'")
    assert [fault.what for fault in (await check(home.app.pool)).faults] == ["begun"]


async def test_killed_half_way_it_goes_on(home: Home, google: Google, model: Model) -> None:
    zelda, _, _ = await a_past(home, google, model)
    await home.sql(
        """create function fails() returns trigger language plpgsql as $$ begin raise exception 'killed'; end $$;
           create trigger fails before delete on threads for each row execute function fails()"""
    )
    with pytest.raises(psycopg.Error):
        await mail(home, zelda)
    assert (await home.mail(zelda)).sender == WHO
    assert await home.sql("select gmail_id from forgotten") == []
    await home.sql("drop trigger fails on threads")
    await mail(home, zelda)
    with pytest.raises(NoItem):
        await home.app.forgetting.of_mail(home.app.user_id, zelda)
