"""What is kept of mail that is done goes after the days that the person set, none of what waits, and it stays away."""

import io
import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psycopg
import pytest
from procrastinate import periodic

from email_assistant.gate.ledger import check
from email_assistant.inbox.mails import Class
from email_assistant.mail.message import NOT_KEPT
from email_assistant.outgoing.entry import WITHOUT_TEXT
from email_assistant.settings import Settings
from email_assistant.settings.environment import SettingsError
from email_assistant.web.app import create_api
from email_assistant.work import retention
from tests.doubles.google import Google
from tests.doubles.mail import reported
from tests.doubles.model import Model, tool
from tests.integration.home import Home, OpenHome, in_one_loop, until
from tests.integration.scene import ADA, BOB, DONE, meeting, reply
from tests.integration.test_forget import dumped, places

pytestmark = in_one_loop

UNIQUE = "xylophoneparade"
LEARNED = {"action": "add", "text": "Sign with Ada.", "reason": "the edit adds it"}
TIMES = {
    "mails": ("received_at", "triaged_at"),
    "runs": ("created_at", "ended_at"),
    "inbox_items": ("created_at", "decided_at", "applied_at"),
    "corrections": ("at", "learned_at"),
    "judgements": ("made_at", "known_at"),
}


async def later(home: Home, days: int) -> None:
    """So many days pass, in which nothing happens, and what is to go then goes."""
    for table, columns in TIMES.items():
        past = ", ".join(f"{each} = {each} - interval '{days} days'" for each in columns)
        await home.sql(f"update {table} set {past}")
    await home.works.tidy()


async def done(home: Home, model: Model) -> str:
    """A mail that was answered by an edit, from which a rule was learned."""
    model.script(lambda _: [reply(f"About the {UNIQUE}."), DONE])
    model.on_memory(LEARNED)
    mail_id = await home.receive(text=f"Bring the {UNIQUE} drums.")
    [item] = await home.pending()
    await home.answer(item, "edit", {**item.args, "response_text": f"The {UNIQUE} it is. Ada"})
    await home.works.learn(home.account_id)
    await home.sync()
    await home.carry_on()
    return mail_id


@asynccontextmanager
async def browser(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        yield http


async def seen(home: Home, mail_id: str) -> dict[str, Any]:
    """What of the history is no text."""
    async with browser(home) as http:
        story = (await http.get(f"/api/mails/{mail_id}/trail")).json()["events"]
        counts = (await http.get("/api/inbox/counts")).json()
    kept = "state, external_id, recipient, args_hash, addresses_in(args) as people"
    return {
        "story": [(each["what"], each["by"]) for each in story],
        "counts": counts,
        "effects": await home.sql(f"select {kept} from effects"),
        "items": [(each.id, each.sender, each.subject, each.state, each.unreadable) for each in await home.items()],
        "mail": (await home.mail(mail_id)).classification,
        "found": [each.id for each in (await home.app.inbox.page(home.app.user_id, q="bob@example.org"))[0]],
    }


async def kept_are(home: Home, count: int) -> bool:
    """Whether rehearsals have kept so many mails."""
    return await home.app.past_mails.kept(home.account_id) == count


async def left(home: Home) -> dict[str, int]:
    tables = ("threads", "mails", "runs", "inbox_items", "effects", "gate_calls", "checkpoints")
    return {table: (await home.sql(f"select count(*) as n from {table}"))[0]["n"] for table in tables}


async def test_what_a_report_has_of_a_letter_goes_too(
    open_home: OpenHome, google: Google, model: Model, database_url: str, tmp_path: Path
) -> None:
    async with open_home(keep_text_days=30, keep_checkpoints_days=99) as home:
        mail_id = await done(home, model)
        google.deliver_raw(reported(google.sent[-1].message_id, ("bob@example.org", "failed", "5.1.1")), mail_id)
        await home.sync()
        await home.carry_on()
        [item] = await home.pending()
        await home.answer(item, "done")
        await later(home, 31)
        assert places(dumped(database_url, tmp_path), UNIQUE) == set()
        kept = await home.item(item)
        assert (kept.sender, kept.subject, kept.warnings) == (item.sender, item.subject, item.warnings)


async def test_the_text_goes_after_its_time_and_what_was_decided_stays(
    open_home: OpenHome, google: Google, model: Model, database_url: str, tmp_path: Path
) -> None:
    async with open_home(keep_text_days=30, keep_checkpoints_days=99) as home:
        mail_id = await done(home, model)
        await later(home, 29)
        assert {"mails", "inbox_items", "effects"} <= places(dumped(database_url, tmp_path), UNIQUE)
        before = await seen(home, mail_id)

        await later(home, 2)

        assert places(dumped(database_url, tmp_path), UNIQUE) == set()
        after = await seen(home, mail_id)
        assert {**after, "story": sorted(after["story"])} == {**before, "story": sorted(before["story"])}
        assert (await check(home.app.pool)).faults == []
        [item] = await home.items()
        async with browser(home) as http:
            assert (await http.get(f"/mails/{mail_id}/trail")).text.count(
                NOT_KEPT
            ) == 2  # where the text was, as a fact
            page = (await http.get(f"/items/{item.id}")).text
            assert NOT_KEPT in page
            assert WITHOUT_TEXT in page
            assert NOT_KEPT in (await http.get(f"/api/mails/{mail_id}/trail")).json()["facts"]
            told = zipfile.ZipFile(io.BytesIO((await http.get("/api/export")).content)).read("mails.jsonl").splitlines()
        assert {json.loads(each)["content"]["note"] for each in told} == {NOT_KEPT}
        assert [rule.text for rule in (await home.app.memory.in_force(home.account_id))["response_preferences"]] == [
            "Sign with Ada."
        ]
        google.expire_history()
        await home.sync()
        await home.carry_on()
        assert len(google.sent) == 1
        assert places(dumped(database_url, tmp_path), UNIQUE) == set()


async def test_of_a_letter_without_text_it_is_not_told_how_much_was_kept(open_home: OpenHome, model: Model) -> None:
    async with open_home(keep_text_days=1) as home:
        await done(home, model)
        async with browser(home) as http:
            assert (await http.get("/api/activity", params={"days": 3})).json()["days"][-1]["kept"] is not None
            await later(home, 2)
            told = (await http.get("/api/activity", params={"days": 3})).json()
        assert (told["days"][0]["answered"], told["days"][0]["kept"]) == (1, None)
        assert not any("sentences kept" in week["says"] for week in told["weeks"])


async def test_a_reply_in_a_conversation_without_text_is_answered_and_its_own_text_goes_later(
    open_home: OpenHome, google: Google, model: Model, database_url: str, tmp_path: Path
) -> None:
    async with open_home(keep_text_days=30, past_mail=True) as home:
        mail_id = await done(home, model)
        await later(home, 31)
        model.script([[tool("search_mail_tool", words="lunch")], [reply("Once more."), DONE]])
        elsewhere = await home.receive("Dinner?", "Where?", from_="Eve <eve@example.net>")
        [result] = model.calls("response")[-1].tool_results
        assert f"{mail_id} | " in result
        assert NOT_KEPT in result
        model.script(lambda _: [reply("Once more."), DONE])
        second = await home.receive("Re: Lunch?", f"And the {UNIQUE}?", thread=google.message(mail_id).thread_id)
        assert NOT_KEPT in model.calls("response")[-1].text
        [item] = [each for each in await home.pending() if each.mail_id == second]
        await home.answer(item, "accept")
        assert len(google.sent) == 2
        [other] = await home.pending()
        assert other.mail_id == elsewhere
        await home.answer(other, "ignore")
        await home.works.learn(home.account_id)
        await home.sql("update lessons_to_confirm set kept = false")
        assert await home.sql("select answer from gate_calls where answer is not null")

        await later(home, 31)

        assert places(dumped(database_url, tmp_path), UNIQUE) == set()
        assert await home.sql("select answer from gate_calls where answer is not null") == []


async def test_a_mail_without_text_that_is_corrected_is_worked_on_and_goes_again(
    open_home: OpenHome, model: Model
) -> None:
    async with open_home(keep_text_days=30) as home:
        model.on_triage("ignore")
        model.script(lambda _: [reply(f"About the {UNIQUE}."), DONE])
        mail_id = await home.receive(text=f"Bring the {UNIQUE} drums.")
        await later(home, 31)
        await home.app.corrections.correct(home.app.user_id, mail_id, "notify", "test")
        await home.carry_on()
        await home.works.learn(home.account_id)
        [item] = await home.pending()
        assert NOT_KEPT in item.mail_text
        await home.answer(item, "response", "Tell him yes.")
        [item] = await home.pending()
        await home.answer(item, "ignore")
        await home.works.learn(home.account_id)
        await later(home, 31)
        [item] = [each for each in await home.items() if each.kind == "draft"]
        assert item.args["response_text"] == WITHOUT_TEXT


@pytest.mark.parametrize("before", ["ignore", "notify"])
async def test_no_reply_is_proposed_to_a_mail_without_text(
    open_home: OpenHome, google: Google, model: Model, before: Class
) -> None:
    async with open_home(keep_text_days=30) as home:
        model.on_triage("ignore")
        mail_id = await home.receive()
        await later(home, 31)
        if before == "notify":  # which is a correction too, and looks after the mail anew
            await home.app.corrections.correct(home.app.user_id, mail_id, before, "test")
            await home.carry_on()
        stored, asked = await home.sql("select to_jsonb(mails)::text from mails"), len(model.requests)
        async with browser(home) as http:
            refused = await http.post(f"/api/mails/{mail_id}/correct", json={"classification": "respond"})
            assert refused.status_code == 409
            assert "answer it in Gmail" in refused.json()["detail"]
            given = {"classification": "respond", "account": ADA}
            page = await http.post(f"/mails/{mail_id}/correct", data=given, headers={"Origin": "http://127.0.0.1"})
            assert "answer it in Gmail" in page.text
        label = {"ignore": "Assistant/Ignored", "notify": "Assistant/Notify"}[before]
        google.person_relabels(mail_id, add=("Assistant/Respond",), remove=(label,))
        await home.sync()
        await home.carry_on()
        assert await home.sql("select to_jsonb(mails)::text from mails") == stored
        assert (len(model.requests), google.labels_of(mail_id)) == (asked, {label})


REST = {
    "lease": "update threads set lease_until = now() + interval '1 hour'",
    "effect": "update effects set state = 'started'",
    "lesson": "update inbox_items set teaches = true, learned_at = null",
    "failed": "update mails set state = 'failed' where not own",
    "new decision": "update inbox_items set decided_at = now() + interval '31 days'",
    "draft at Gmail": """insert into left_drafts (run_id, call_id, user_id, account_id, thread_id, args, state)
        select id, 'left', user_id, account_id, thread_id, '{}', 'left' from runs limit 1""",
    "held lesson": """insert into lessons_to_confirm (user_id, account_id, profile, source, change, origin, broken)
        select user_id, account_id, 'triage_preferences', id, '{}', '{}', '[]' from inbox_items limit 1""",
    "correction": """insert into corrections (user_id, account_id, mail_id, by, classification, was)
        select user_id, account_id, gmail_id, 'test', 'ignore', 'respond' from mails where not own""",
}


@pytest.mark.parametrize("why", [*REST, "waits", "decided"])
async def test_nothing_goes_of_what_waits_or_is_under_way(
    open_home: OpenHome, model: Model, database_url: str, tmp_path: Path, why: str
) -> None:
    async with open_home(keep_text_days=30, keep_trail_days=31) as home:
        if why in REST:
            await done(home, model)
            await home.sql(REST[why])
        else:
            model.script(lambda _: [reply(f"About the {UNIQUE}."), DONE])
            await home.receive(text=f"Bring the {UNIQUE} drums.")
            if why == "decided":
                await home.decide((await home.pending())[0], "accept")
                await home.sql("update inbox_items set undo_until = now() + interval '1 day'")
        before = await left(home)

        await later(home, 60)

        assert await left(home) == before
        assert {"mails", "inbox_items"} <= places(dumped(database_url, tmp_path), UNIQUE)


async def test_unset_nothing_goes(home: Home, google: Google, model: Model, database_url: str, tmp_path: Path) -> None:
    await done(home, model)
    before = await left(home)
    await later(home, 9_999)
    assert await left(home) == before
    assert {"mails", "inbox_items", "effects"} <= places(dumped(database_url, tmp_path), UNIQUE)


async def test_the_trail_goes_and_an_expired_cursor_does_not_bring_it_back(
    open_home: OpenHome, google: Google, model: Model, database_url: str, tmp_path: Path
) -> None:
    async with open_home(keep_trail_days=40) as home:
        mail_id = await done(home, model)
        await later(home, 39)
        before = await left(home)
        assert before["mails"] == 2

        await later(home, 2)

        assert set((await left(home)).values()) == {0}
        assert places(dumped(database_url, tmp_path), mail_id) == {"forgotten"}
        assert (await check(home.app.pool)).faults == []
        assert [rule.text for rule in (await home.app.memory.in_force(home.account_id))["response_preferences"]] == [
            "Sign with Ada."
        ]
        async with browser(home) as http:
            page = (await http.get("/memory")).text
        assert "Sign with Ada." in page
        assert "bob@example.org" not in page
        assert "Lunch?" not in page
        [kept] = await home.sql("select value::text as rule from store")
        assert "bob@example.org" not in kept["rule"]
        assert "Lunch?" not in kept["rule"]
        [spent] = await home.sql("select count(*) as n from model_usage where run_id is null")
        assert spent["n"] > 0
        asked = len(model.requests)
        google.expire_history()
        await home.sync()
        await home.sql("update accounts set history_id = null, backfill_total = null, backfilled_at = null")
        await home.sync()
        await home.carry_on()
        assert set((await left(home)).values()) == {0}
        assert (len(model.requests), len(google.sent)) == (asked, 1)

        new = await home.receive("Re: Lunch?", "Still there?", thread=google.message(mail_id).thread_id)

        assert [mail.id for mail in await home.mails()] == [new]
        [item] = await home.pending()
        await home.answer(item, "accept")
        assert len(google.sent) == 2


async def test_what_rehearsals_have_read_goes_so_long_after_it_was_read(open_home: OpenHome, google: Google) -> None:
    async with open_home(keep_text_days=30) as home:
        past, account = home.app.past_mails, await home.account()
        mail_id = google.deliver(BOB, "Long ago", f"The {UNIQUE}.")
        await past.fetch(account, [mail_id])
        await home.sql("update past_mails set received_at = now() - interval '300 days'")
        await home.sql("update past_mails set read_at = now() - interval '29 days'")
        await home.works.tidy()
        assert await past.kept(home.account_id) == 1
        await home.sql("update past_mails set read_at = now() - interval '31 days'")
        await home.works.tidy()
        assert await past.kept(home.account_id) == 0
        await past.fetch(account, [mail_id])
        assert await past.kept(home.account_id) == 1


async def test_it_is_looked_for_every_ten_minutes(
    open_home: OpenHome, google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_home(keep_text_days=30) as home:
        past, account = home.app.past_mails, await home.account()
        await past.fetch(account, [google.deliver(BOB, "Long ago", f"The {UNIQUE}.") for _ in range(2)])
        await home.app.accounts.set_state(account.id, "paused")
        for minutes, left_then in ((5, 1), (15, 0)):
            await home.sql(
                """update past_mails set read_at = now() - interval '31 days'
                   where gmail_id = (select min(gmail_id) from past_mails)"""
            )
            monkeypatch.setattr(periodic, "time", SimpleNamespace(time=lambda now=60.0 * (600 + minutes): now))
            async with home.at_work():
                await until(partial(kept_are, home, left_then))


async def test_what_was_typed_and_taken_back_goes_too(
    open_home: OpenHome, google: Google, model: Model, database_url: str, tmp_path: Path
) -> None:
    async with open_home(keep_text_days=30, undo_seconds=600) as home:
        model.script([[reply("Fine."), DONE]])
        mail_id = await home.receive()
        [item] = await home.pending()
        await home.decide(item, "edit", {**item.args, "response_text": f"The {UNIQUE} it is."})
        await home.app.inbox.undo(home.app.user_id, item.id)
        google.person_moves(mail_id, out_of=["INBOX"])
        await home.sync()
        await home.carry_on()
        assert places(dumped(database_url, tmp_path), UNIQUE) == {"inbox_items"}

        await later(home, 31)

        assert places(dumped(database_url, tmp_path), UNIQUE) == set()


async def test_the_title_of_a_meeting_goes_as_other_text_does(
    open_home: OpenHome, google: Google, model: Model, database_url: str, tmp_path: Path
) -> None:
    async with open_home(keep_text_days=30) as home:
        model.script([[meeting()], [DONE]])
        await home.receive()
        [item] = await home.pending()
        await home.answer(item, "edit", {**item.args, "title": f"The {UNIQUE}"})
        assert len(google.events) == 1
        await home.works.learn(home.account_id)
        [before] = await home.sql("select args_hash, external_id, args->>'start_time' as at from effects")
        assert {"inbox_items", "effects"} <= places(dumped(database_url, tmp_path), UNIQUE)
        await later(home, 31)
        assert places(dumped(database_url, tmp_path), UNIQUE) == set()
        assert await home.sql("select args_hash, external_id, args->>'start_time' as at from effects") == [before]


async def test_of_a_draft_that_was_dismissed_it_is_not_told_that_it_was_sent(open_home: OpenHome, model: Model) -> None:
    async with open_home(keep_text_days=30) as home:
        model.script(lambda _: [reply("Fine."), DONE])
        model.on_memory({"action": "none"})
        await home.receive()
        [item] = await home.pending()
        await home.answer(item, "ignore")
        await home.works.learn(home.account_id)
        await later(home, 31)
        async with browser(home) as http:
            page = (await http.get(f"/items/{item.id}")).text
        assert "(Its text is no longer kept here.)" in page


async def test_a_chat_goes_as_a_whole_and_a_newer_one_stays(open_home: OpenHome, model: Model) -> None:
    async with open_home(keep_text_days=30) as home:
        model.on_policy("chat")
        model.on_chat({"hello": ["Hello."]})
        now = await home.account()
        await home.works.chat.ask(now, "old", "hello")
        await later(home, 31)
        assert await home.sql("select chat_id from threads") == []
        await home.works.chat.ask(now, "new", "hello")
        await home.sql("insert into threads (user_id, account_id, chat_id) select user_id, id, 'begun' from accounts")
        await later(home, 0)
        assert {row["chat_id"] for row in await home.sql("select chat_id from threads")} == {"new", "begun"}


async def test_killed_half_way_the_next_goes_on(open_home: OpenHome, model: Model) -> None:
    async with open_home(keep_trail_days=31) as home:
        await done(home, model)
        before = await left(home)
        await home.sql(
            """create function fails() returns trigger language plpgsql as $$ begin raise exception 'killed'; end $$;
               create trigger fails before delete on threads for each row execute function fails()"""
        )
        with pytest.raises(psycopg.Error):
            await later(home, 32)
        assert await left(home) == before
        assert await home.sql("select gmail_id from forgotten") == []
        await home.sql("drop trigger fails on threads; drop function fails()")
        await home.works.tidy()
        assert set((await left(home)).values()) == {0}


async def test_what_waits_holds_up_nothing_behind_it_and_one_go_is_bounded(
    open_home: OpenHome, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in {"_LOOKED_AT": 2, "_AT_ONCE": 1, "_MOST": 2}.items():
        monkeypatch.setattr(retention, name, most)
    async with open_home(keep_trail_days=31) as home:
        model.script(lambda _: [reply("Fine."), DONE])
        waits = [await home.receive(f"Waits {each}") for each in range(3)]
        model.on_triage("ignore")
        for each in range(5):
            await home.receive(f"Done {each}")
        await later(home, 32)
        assert len(await home.mails()) in (5, 6)
        for _ in range(3):
            await home.works.tidy()
        assert {mail.id for mail in await home.mails()} == set(waits)


async def test_a_classifier_is_due_again_by_what_is_left_of_what_it_learned_from(
    open_home: OpenHome, model: Model
) -> None:
    async with open_home(keep_trail_days=31) as home:
        await done(home, model)
        await home.sql("update judgements set truth = 'respond', known_at = now(), known_by = 'said'")
        await home.sql(
            """insert into classifiers (account_id, version, user_id, examples, kept, why)
               select id, now() + make_interval(days => d), user_id, 100, true, ''
               from accounts, (values (1), (-99)) as v (d)"""
        )
        await later(home, 32)
        rows = await home.sql("select examples from classifiers order by version desc")
        assert [row["examples"] for row in rows] == [99, 100]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"KEEP_TEXT_DAYS": "0"}, "EMAIL_ASSISTANT_KEEP_TEXT_DAYS: "),
        ({"KEEP_TRAIL_DAYS": "30"}, "EMAIL_ASSISTANT_KEEP_TRAIL_DAYS: "),
        (
            {"KEEP_TRAIL_DAYS": "40", "KEEP_TEXT_DAYS": "50"},
            "EMAIL_ASSISTANT_KEEP_TRAIL_DAYS must not be less than EMAIL_ASSISTANT_KEEP_TEXT_DAYS",
        ),
    ],
)
async def test_days_that_can_not_be_are_said_so(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], says: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"EMAIL_ASSISTANT_{name}", value)
    with pytest.raises(SettingsError) as refused:
        Settings.load()
    assert says in str(refused.value)
