"""Letters that the version before had begun are gone on with, and its processes work on beside those of this one.

Its statements stand here as it sends them.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
import pytest_asyncio
from psycopg.rows import dict_row
from psycopg.types.json import Json

from email_assistant.app import App, open_app
from email_assistant.db.lease import claim
from email_assistant.db.migrate import known_migrations, migrate
from email_assistant.db.pool import session_settings
from email_assistant.google.errors import Ambiguous
from email_assistant.google.gmail import Gmail
from email_assistant.inbox.reading import Items
from email_assistant.mail.compose import compose_mail, mail_fingerprint
from email_assistant.mail.parse import parse_bytes
from email_assistant.notify.digest import Digests
from email_assistant.notify.digest_text import Contents, Section, compose
from email_assistant.outgoing.entry import EffectMismatch
from email_assistant.outgoing.letters import Letter, Mailer, Posted
from tests.doubles.google import Google
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import ADA

ASKED = {"to": ["bob@example.org"], "cc": [], "subject": "Plan", "thread_id": None, "text": "Hello."}
HASH = hashlib.sha256(json.dumps(ASKED, sort_keys=True).encode()).hexdigest()
ARGS = {"response_text": "Hello.", "email_address": "bob@example.org"}
BEGIN = """insert into outbox (account_id, key, user_id, args_hash)
           select id, %(key)s, user_id, %(hash)s from accounts where id = %(account)s on conflict do nothing"""
SET = "update outbox set {} where account_id = %(account)s and key = %(key)s and message_id is null"
ROW = "select * from outbox where account_id = %(account)s and key = %(key)s"
PLAN = """insert into effects (run_id, call_id, user_id, account_id, thread_id, tool, args, args_hash, recipient)
          select id, %(call)s, user_id, account_id, thread_id, 'send_email_tool', %(args)s, 'hash', 'bob@example.org'
          from runs where id = %(run)s on conflict do nothing"""
START = """update effects set state = 'started', epoch = %(epoch)s,
                  started_at = coalesce(started_at, clock_timestamp()), last_started_at = clock_timestamp()
           where run_id = %(run)s and call_id = %(call)s and state in ('planned', 'started')"""
OPEN = """insert into digests (account_id, day, user_id, since, until)
          select id, %(day)s, user_id, %(now)s - interval '1 day', %(now)s from accounts where id = %(account)s"""


def raw(subject: str = "Plan") -> bytes:
    sender = parse_bytes(f"From: {ADA}\r\n\r\n".encode()).sender
    assert sender
    return compose_mail(to=["bob@example.org"], sender=sender, subject=subject, text="Hello.", date=datetime.now(UTC))


async def write() -> Letter:
    return Letter(raw(), None)


@dataclass(frozen=True)
class Before:
    """A process of the version before, on a database of its own with the one account."""

    url: str
    home: Home
    gmail: Gmail

    @property
    def account(self) -> UUID:
        return self.home.account_id

    def do(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, options=session_settings(self.url)["options"], row_factory=dict_row) as conn:
            cursor = conn.execute(statement.encode(), {"account": self.account, **values})
            return cursor.fetchall() if cursor.description else []

    def begin(self, key: str) -> None:
        self.do(BEGIN, key=key, hash=HASH)

    def set(self, key: str, change: str, **values: str) -> None:
        self.do(SET.format(change), key=key, **values)

    @asynccontextmanager
    async def upgraded(self) -> AsyncIterator[App]:
        async with open_app(self.home.app.settings, self.url) as app:
            yield app

    async def posted(self, app: App, key: str) -> Posted:
        return await app.outbox.send(self.gmail, await app.accounts.get(self.account), "program", key, ASKED, write)

    async def digests(self, app: App) -> Digests:
        own = {"at": time(0), "inbox_url": "https://mail.example.net/", "claim": timedelta(minutes=1)}
        return Digests(app.pool, app.accounts, app.clients, app.outbox, Items(app.pool), **own)  # type: ignore[arg-type]


@pytest_asyncio.fixture(loop_scope="module")
async def before(home: Home, empty_database_url: str) -> Before:
    await migrate(empty_database_url, names={name for name in known_migrations() if name < "0015"})
    version = Before(empty_database_url, home, (await home.app.clients.get(home.account_id)).gmail)
    [account] = await home.sql("select to_jsonb(a) as row from accounts a")
    [user] = version.do("select id from users")
    row = Json(account["row"] | {"user_id": str(user["id"]), "mode": "send"})
    version.do("insert into accounts select * from json_populate_record(null::accounts, %(row)s)", row=row)
    return version


def old_mark(letter: bytes) -> str:
    mail = parse_bytes(letter)
    return hashlib.sha256(f"{mail_fingerprint(mail)}\0{mail.subject}".encode()).hexdigest()


@in_one_loop
class TestProgramsMail:
    @pytest.mark.parametrize("state", ["begun", "drafted", "kept", "sent", "done"])
    async def test_is_sent_once_whatever_had_been_done(self, before: Before, google: Google, state: str) -> None:
        letter, key = raw(), f"key-{state}"
        before.begin(key)
        sent = None
        if state != "begun":
            before.set(key, "mark = %(mark)s", mark=old_mark(letter))
            draft = await before.gmail.create_draft(letter, None)
            if state != "drafted":
                before.set(key, "draft_id = coalesce(draft_id, %(draft)s)", draft=draft.id)
            if state in ("sent", "done"):
                sent = await before.gmail.send_draft(draft.id)
                if state == "done":
                    change = "message_id = %(message)s, thread_id = %(thread)s"
                    before.set(key, change, message=sent.id, thread=sent.thread_id)
        async with before.upgraded() as app:
            first, again = [await before.posted(app, key) for _ in range(2)]
            assert (again.message_id, again.thread_id, again.before) == (first.message_id, first.thread_id, True)
            assert [mail.id for mail in google.sent] == [first.message_id]
            assert google.drafts == []
            assert first.before == (sent is not None)
            with pytest.raises(EffectMismatch):
                await app.ledger.plan_keyed(before.account, f"program/{key}", "program", ASKED | {"text": "Else."})

    async def test_goes_on_in_a_process_of_the_version_before(self, before: Before, google: Google) -> None:
        async with before.upgraded() as app:
            google.fault("drafts.send", drop="before")
            with pytest.raises(Ambiguous):
                await before.posted(app, "key-handed")
            before.begin("key-handed")
            [row] = before.do(ROW, key="key-handed")
            assert (row["args_hash"], row["message_id"]) == (HASH, None)
            sent = await before.gmail.send_draft(row["draft_id"])
            assert google.drafts == []
            change = "message_id = %(message)s, thread_id = %(thread)s"
            before.set("key-handed", change, message=sent.id, thread=sent.thread_id)
            assert await before.posted(app, "key-handed") == Posted(sent.id, sent.thread_id, before=True)

    async def test_the_first_draft_that_a_process_of_the_version_before_stores_counts(self, before: Before) -> None:
        async with before.upgraded() as app:
            for draft in ("first", "second"):
                before.begin("key-twice")
                before.set("key-twice", "mark = %(mark)s", mark="mark")
                before.set("key-twice", "draft_id = coalesce(draft_id, %(draft)s)", draft=draft)
            [row] = before.do(ROW, key="key-twice")
            assert (row["draft_id"], row["mark"]) == ("first", "mark")
            assert before.do("select draft_id from outbox where account_id = %(account)s") == [{"draft_id": "first"}]
            assert await app.ledger.kept_drafts(before.account) == {"first"}


@in_one_loop
class TestDigest:
    async def drafted(self, before: Before) -> str:
        account = await before.home.account()
        contents = Contents(Section(0, []), Section(0, []), Section(0, []), 0)
        now = datetime.now(UTC)
        mail = compose(account, now.astimezone(account.zone).date(), now, now, contents, "https://mail.example.net/")
        return (await before.gmail.create_draft(mail, None)).id

    async def opened(self, before: Before) -> dict[str, Any]:
        now = datetime.now(UTC)
        day = {"day": now.astimezone((await before.home.account()).zone).date()}
        before.do(OPEN, now=now, **day)
        return day

    @pytest.mark.parametrize("upgraded", ["before", "after"])
    @pytest.mark.parametrize("state", ["drafted", "kept", "sent"])
    async def test_is_sent_once_whatever_had_been_done(
        self, before: Before, google: Google, state: str, upgraded: str
    ) -> None:
        if upgraded == "before":
            await migrate(before.url)
        day = await self.opened(before)
        before.do("update digests set started = true where account_id = %(account)s and day = %(day)s", **day)
        draft = await self.drafted(before)
        if state != "drafted":
            kept = before.do(
                """update digests set draft_id = %(draft)s where account_id = %(account)s and day = %(day)s
                   and (draft_id is null or draft_id = %(draft)s) and state = 'open' returning day""",
                draft=draft,
                **day,
            )
            assert len(kept) == 1
        if state == "sent":
            await before.gmail.send_draft(draft)
        async with before.upgraded() as app:
            await (await before.digests(app)).send_due()
            assert len(google.sent) == 1
            assert google.drafts == []
            assert before.do("select state from digests") == [{"state": "sent"}]

    async def test_goes_on_in_a_process_of_the_version_before(self, before: Before, google: Google) -> None:
        await migrate(before.url)
        await self.opened(before)
        async with before.upgraded() as app:
            entry = await app.ledger.plan_keyed(before.account, f"digest/{await self.today(before)}", "digest", {})
            await app.ledger.start(entry, mark="mark")
            assert before.do("select started, draft_id from digests") == [{"started": True, "draft_id": None}]
            draft = await self.drafted(before)
            assert await app.ledger.keep_draft(entry, draft, None)
            assert before.do("select started, draft_id from digests") == [{"started": True, "draft_id": draft}]

    async def today(self, before: Before) -> str:
        return datetime.now((await before.home.account()).zone).date().isoformat()


@in_one_loop
class TestReply:
    def planned(self, before: Before) -> dict[str, Any]:
        call = {"run": uuid4(), "call": "call-1", "args": Json(ARGS), "epoch": 1}
        before.do("insert into threads (user_id, account_id, chat_id) select user_id, id, 'chat' from accounts")
        before.do(
            """insert into runs (id, user_id, account_id, thread_id, attempt, input, state)
               select %(run)s, user_id, account_id, id, 1, '{}', 'acting' from threads""",
            **call,
        )
        for _ in range(2):
            before.do(PLAN, **call)
        return call

    @pytest.mark.parametrize("upgraded", ["before", "after"])
    @pytest.mark.parametrize("state", ["planned", "drafted", "kept", "sent"])
    async def test_is_sent_once_whatever_had_been_done(
        self, before: Before, google: Google, state: str, upgraded: str
    ) -> None:
        if upgraded == "before":
            await migrate(before.url)
        call = self.planned(before)
        if state != "planned":
            before.do(START, **call)
            draft = await before.gmail.create_draft(raw(), None)
            if state != "drafted":
                before.do(
                    """update effects set draft_id = %(draft)s where run_id = %(run)s and call_id = %(call)s
                       and draft_id is null and state = 'started' and epoch = %(epoch)s
                       and not %(draft)s = any(orphans)""",
                    draft=draft.id,
                    **call,
                )
            if state == "sent":
                await before.gmail.send_draft(draft.id)
        async with before.upgraded() as app:
            effect = await app.ledger.get(call["run"], call["call"])
            assert effect.key == f"{call['run']}/call-1"
            lease = await claim(app.pool, "conversation", effect.thread_id, 60)
            posted = await Mailer(app.ledger, before.gmail, lease).send(effect, write, "Sent.")
            assert [mail.id for mail in google.sent] == [posted.message_id]
            assert google.drafts == []
            assert (await app.ledger.get(call["run"], call["call"])).state == "done"
