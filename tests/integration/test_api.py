"""The API and the pages, over real HTTP and a real database."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
import uvicorn
from psycopg.types.json import Json
from pydantic import SecretStr

from email_assistant.accounts.account import Identity
from email_assistant.agents.mail.graph import NOTIFY_ACTION
from email_assistant.agents.mail.run import ReplyNeeds
from email_assistant.app import App, open_app, open_chat
from email_assistant.gate.doubt import Doubt
from email_assistant.inbox.items import Item
from email_assistant.inbox.marks import Mark
from email_assistant.inbox.questions import Asked
from email_assistant.inbox.recipients import RecipientMarks
from email_assistant.mail.address import Address
from email_assistant.mail.message import Mail
from email_assistant.mail.prompt import mail_as_text
from email_assistant.settings import Settings
from email_assistant.web.app import create_api
from email_assistant.web.auth import Key, OwnName
from tests.doubles.ports import NO_CERTIFICATES

TOKEN = "the-token"
ADA = "ada@example.com"
BOB = "bob@example.org"
ALL = ["accept", "edit", "ignore", "response"]
DRAFT = {"email_address": BOB, "response_text": "Friday is fine.\n\nAda"}
MEETING = {
    "attendees": [BOB, "dan@example.net"],
    "title": "Plan",
    "start_time": "2031-06-02T10:00:00+02:00",
    "end_time": "2031-06-02T10:45:00+02:00",
}
FIELDS = [
    *("id", "run", "call_id", "account", "mail_id", "chat", "kind", "action", "args", "allowed", "status"),
    *("state", "group", "waits_for", "decision", "taken_back", "in_gmail"),
    *(
        "decided_at",
        "undo_until",
        "superseded_by",
        "ended_because",
        "overwritten",
        "shadow",
        "sender",
        "subject",
        "sent_from",
        "left_out",
        "marks",
        "new_recipients",
        "first_answer",
        "hash",
        "conflicts",
        "asked",
        "asked_because",
        "calendars",
        "newer",
        "description",
        "decided_by",
        "created_at",
        "snoozed_until",
        "urgency",
    ),
]


# The app, with rows as the daemon would have made them


@dataclass
class Home:
    app: App
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    async def account(self, address: str = ADA, timezone: str = "Europe/Berlin") -> UUID:
        login = {"refresh_token": "google-secret", "client_id": "id", "client_secret": "secret"}
        added = await self.app.accounts.add(self.app.user_id, address, login, _now())
        await self.app.accounts.describe(added.id, timezone=timezone, senders=[Identity(ADA, "Ada", "")])
        return added.id

    async def mail(
        self,
        account: UUID,
        *,
        id: str | None = None,  # noqa: A002
        subject: str = "Lunch?",
        sender: str = BOB,
        state: str = "waiting",
        classification: str | None = "respond",
        reason: str | None = "asks something",
    ) -> tuple[str, UUID, UUID]:
        """A mail in a conversation and a run of its own; returns its id, the conversation and the run."""
        mail_id, run_id = id or f"m{next(self._numbers)}", uuid4()
        user = self.app.user_id
        async with self.app.pool.connection() as conn:
            thread = await _id(
                conn,
                "insert into threads (user_id, account_id, gmail_id) values (%s, %s, %s) returning id",
                (user, account, f"t-{mail_id}"),
            )
            await conn.execute(
                """insert into mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content,
                                      received_at, state, classification, reason)
                   values (%s, %s, %s, %s, false, %s, %s, '{}', clock_timestamp(), %s, %s, %s)""",
                (account, mail_id, user, thread, sender, subject, state, classification, reason),
            )
        return mail_id, thread, await self.run(account, thread, mail_id, run_id)

    async def run(self, account: UUID, thread: UUID, mail_id: str, run_id: UUID, attempt: int = 1) -> UUID:
        reply = ReplyNeeds(
            to=BOB,
            also_to=[],
            everyone=[BOB],
            more=0,
            addressed=[ADA],
            subject="Lunch?",
            in_reply_to=None,
            references=[],
        )
        run_input = {"account_id": str(account), "address": ADA, "mail": mail_id, "mails": [mail_id], "reply": reply}
        async with self.app.pool.connection() as conn:
            await conn.execute(
                """insert into runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state)
                   values (%s, %s, %s, %s, %s, %s, %s, 'waiting')""",
                (run_id, self.app.user_id, account, thread, mail_id, attempt, Json(run_input)),
            )
        return run_id

    async def ask(
        self,
        run: UUID,
        action: str = "send_email_tool",
        args: Mapping[str, Any] = DRAFT,
        *,
        kind: str = "draft",
        allowed: list[str] = ALL,
        body: str = "Does Friday suit you?",
        subject: str = "Lunch?",
        new: list[str] | None = None,
        marks: Sequence[Mark] = (),
        first_answer: str | None = None,
        doubts: Sequence[Doubt] = (),
        because: str | None = None,
    ) -> Item:
        """One more item of a run."""
        number = next(self._numbers)
        value = {
            "call_id": f"call_{number}",
            "kind": kind,
            "action": action,
            "args": args,
            "allowed": allowed,
            "teaches": True,
            "because": because,
        }
        judged = RecipientMarks([*map(Mark.new, new or []), *marks], first_answer)
        asked = Asked(f"interrupt-{number}", value, judged, conflicts=[], doubts=list(doubts))
        async with self.app.pool.connection() as conn, conn.transaction():
            await self.app.questions.project(conn, run, mail_as_text(_mail(subject, body)), [asked])
            item_id = await _id(conn, "select id from inbox_items where interrupt_id = %s", (f"interrupt-{number}",))
        return await self.item(item_id)

    async def draft(self, account: UUID, **changes: Any) -> Item:
        """A draft that waits, about a mail of its own."""
        _, _, run = await self.mail(account)
        return await self.ask(run, **changes)

    async def item(self, item_id: UUID) -> Item:
        return await self.app.inbox.get(self.app.user_id, item_id)

    async def jobs(self) -> list[str]:
        """Conversations that were woken."""
        return [str(args["thread_id"]) for args in await self.column("select args from procrastinate_jobs order by id")]

    async def column(self, query: str) -> list[Any]:
        async with self.app.pool.connection() as conn:
            cursor = await conn.execute(query.encode())
            return [next(iter(row.values())) for row in await cursor.fetchall()]

    async def execute(self, query: str, *parameters: object) -> None:
        async with self.app.pool.connection() as conn:
            await conn.execute(query.encode(), parameters)


async def _id(conn: psycopg.AsyncConnection[dict[str, Any]], query: str, parameters: tuple[object, ...]) -> UUID:
    row = await (await conn.execute(query.encode(), parameters)).fetchone()
    assert row is not None
    return UUID(str(row["id"]))


def _mail(subject: str, body: str) -> Mail:
    return Mail(
        message_id="<1@example.org>",
        in_reply_to=None,
        references=(),
        sender=Address("Bob Berg", BOB),
        reply_to=(),
        to=(Address("", ADA),),
        cc=(),
        subject=subject,
        date=None,
        text=body,
        body=body,
        attachments=(),
        auto_submitted=False,
        bulk=False,
        note="",
    )


def _now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def served(
    app: App,
    *,
    token: str | None = TOKEN,
    host: str = "127.0.0.1",
    own_name: OwnName | None = None,
    keys: Sequence[Key] = (),
) -> AsyncIterator[str]:
    """The root address of a running server."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # asyncio does so only where the socket names its protocol; else each answer waits 40 ms for a delayed ACK
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            create_api(app, open_chat(app), token=token, host=host, own_name=own_name, keys=keys),
            lifespan="off",
            access_log=False,
            log_level="critical",
            timeout_keep_alive=300,  # or an idle connection is closed in the moment in which it is used again
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        await task


def client(root: str, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=root, headers=headers, trust_env=False, verify=NO_CERTIFICATES, timeout=30)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path, secret_key=SecretStr("6OGYLyGsqb31m8jzXYSdX6yFw5wBDjqdjzhTwMBRWNc="), undo_seconds=60
    )


@pytest.fixture
async def home(settings: Settings, database_url: str) -> AsyncIterator[Home]:
    async with open_app(settings, database_url) as app:
        yield Home(app)


@pytest.fixture
async def root(home: Home) -> AsyncIterator[str]:
    async with served(home.app) as address:
        yield address


@pytest.fixture
async def api(root: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client(root, authorization=f"Bearer {TOKEN}") as http:
        yield http


@pytest.fixture
async def browser(root: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that came by the printed link."""
    async with client(root) as http:
        assert (await http.get("/", params={"token": TOKEN})).status_code == 303
        yield http


# What a page says


@dataclass
class FormOnPage:
    action: str
    method: str
    values: dict[str, str] = field(default_factory=dict)
    buttons: dict[str, str] = field(default_factory=dict)
    """Value to text of each button that can be pressed."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Type of each input, and "textarea"."""


_OF_EVERY_PAGE = tuple(f"/static/{name}" for name in ("style.css", "icon.svg", "icon-192.png", "app.webmanifest"))


class Page(HTMLParser):
    """The text of a page, its links, forms, and everything in it that could act."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.links: list[str] = []
        self.forms: list[FormOnPage] = []
        self.alive: list[str] = []
        self._textarea: str | None = None
        self._button: str | None = None
        self.feed(html)
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        source = given.get("src", "") + (given.get("href", "") if tag == "link" else "")
        if tag == "script" and set(given) == {"type", "src"}:
            source = source.removeprefix("/static/main.js")
        elif tag in ("script", "iframe", "object", "embed", "img", "svg", "style", "base", "video", "audio"):
            self.alive.append(tag)
        self.alive += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        self.alive += [f"{tag} {source}"] if source not in ("", "data:,", *_OF_EVERY_PAGE) else []
        if tag == "a":
            self.links.append(given["href"])
        elif tag == "form":
            self.forms.append(FormOnPage(given.get("action", ""), given["method"]))
        elif tag == "input":
            if given.get("type") != "checkbox" or "checked" in given:  # a box that is not ticked is not sent
                self.forms[-1].values[given["name"]] = given.get("value", "")
            self.forms[-1].kinds[given["name"]] = given.get("type", "text")
        elif tag == "textarea":
            self._textarea = given["name"]
            self.forms[-1].values[given["name"]] = ""
            self.forms[-1].kinds[given["name"]] = "textarea"
        elif tag == "button" and given.get("type") != "button" and not {"disabled", "form"} & given.keys():
            self._button = given.get("value", "")
            self.forms[-1].buttons[self._button] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._textarea:
            values = self.forms[-1].values
            values[self._textarea] = values[self._textarea].removeprefix("\n").replace("\n", "\r\n")
            self._textarea = None
        elif tag == "button":
            self._button = None

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._textarea:
            self.forms[-1].values[self._textarea] += data
        elif self._button is not None:
            self.forms[-1].buttons[self._button] += data.strip()

    @property
    def posts(self) -> list[FormOnPage]:
        """The forms that change something, but for those on every page."""
        return [form for form in self.forms if form.method == "post" and form.action not in ("/logout", "/stop")]

    def form(self, action: str) -> FormOnPage:
        """The form that posts there."""
        [found] = [form for form in self.forms if form.action == action and form.method == "post"]
        return found


async def page(http: httpx.AsyncClient, path: str, expected: int = 200, /, **params: str) -> Page:
    answer = await http.get(path, params=params or None)
    assert answer.status_code == expected, answer.text
    return Page(answer.text)


async def press(http: httpx.AsyncClient, item: Item, answer: str, **typed: str) -> httpx.Response:
    """Open the item's page, type into its form, press a button."""
    form = (await page(http, f"/items/{item.id}")).form(f"/items/{item.id}")
    assert answer in form.buttons
    names = {name.removeprefix("arg."): name for name in form.values}
    changes = {names[name]: text for name, text in typed.items()}
    return await http.post(form.action, data={**form.values, **changes, "answer": answer})


def problem(answer: httpx.Response, status: int) -> str:
    """The detail of a refusal, which must be a whole problem."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert set(found) == {"type", "title", "status", "detail"}
    assert found["status"] == status
    assert found["title"]
    return str(found["detail"])


class TestHealth:
    async def test_is_open(self, root: str) -> None:
        async with client(root) as stranger:
            answer = await stranger.get("/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})

    async def test_says_that_the_database_is_down(self, settings: Settings, database_url: str) -> None:
        async with open_app(settings, database_url) as app, served(app) as root, client(root) as stranger:
            name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
            _shut(database_url, str(name), allow=False)
            try:
                answer = await stranger.get("/health")
            finally:
                _shut(database_url, str(name), allow=True)
        assert (answer.status_code, answer.json()) == (503, {"status": "database down"})


def _shut(url: str, name: str, *, allow: bool) -> None:
    """Turn everybody out of a database and let nobody in, or let them in again."""
    maintenance = psycopg.conninfo.make_conninfo(url, dbname="postgres")
    with psycopg.connect(maintenance, autocommit=True) as conn:
        conn.execute(f'alter database "{name}" with allow_connections {str(allow).lower()}'.encode())
        if not allow:
            conn.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))


class TestItems:
    async def test_an_item_has_exactly_the_agreed_fields(self, home: Home, api: httpx.AsyncClient) -> None:
        account = await home.account()
        mail_id, _, run = await home.mail(account)
        item = await home.ask(run)
        answer = await api.get(f"/api/inbox/{item.id}")
        assert answer.status_code == 200
        found = answer.json()
        assert list(found) == FIELDS
        assert datetime.fromisoformat(found.pop("created_at")) == item.created_at
        assert "Does Friday suit you?" in found.pop("description")
        assert found == {
            "id": str(item.id),
            "run": str(run),
            "call_id": item.call_id,
            "account": ADA,
            "mail_id": mail_id,
            "chat": None,
            "kind": "draft",
            "action": "send_email_tool",
            "args": DRAFT,
            "allowed": ALL,
            "status": "pending",
            "state": "waits for you",
            "group": str(run),
            "waits_for": [],
            "decision": None,
            "taken_back": None,
            "in_gmail": None,
            "overwritten": None,
            "decided_at": None,
            "undo_until": None,
            "superseded_by": None,
            "ended_because": None,
            "shadow": False,
            "sender": BOB,
            "subject": "Lunch?",
            "sent_from": ADA,
            "left_out": [],
            "marks": [],
            "new_recipients": [],
            "first_answer": None,
            "hash": item.hash,
            "conflicts": [],
            "calendars": [],
            "newer": [],
            "asked": 1,
            "asked_because": None,
            "decided_by": None,
            "snoozed_until": None,
            "urgency": 3,
        }

    async def test_arguments_keep_the_order_of_their_fields(self, home: Home, api: httpx.AsyncClient) -> None:
        args = {"response_text": "Yes.", "email_address": BOB, "email_id": "m1", "additional_recipients": []}
        item = await home.draft(await home.account(), args=args)
        assert list((await api.get(f"/api/inbox/{item.id}")).json()["args"]) == list(args)

    async def test_pages_follow_each_other_oldest_first(self, home: Home, api: httpx.AsyncClient) -> None:
        account = await home.account()
        ids = [str((await home.draft(account)).id) for _ in range(5)]
        found: list[str] = []
        query: dict[str, Any] = {"limit": 2}
        while True:
            listed = (await api.get("/api/inbox", params=query)).json()
            assert set(listed) == {"items", "next"}
            found += [item["id"] for item in listed["items"]]
            if listed["next"] is None:
                break
            query["cursor"] = listed["next"]
        assert found == ids

    async def test_filters_by_status_and_account(self, home: Home, api: httpx.AsyncClient) -> None:
        first = await home.draft(await home.account())
        second = await home.draft(await home.account("bea@example.com"))
        await api.post(f"/api/inbox/{first.id}/decision", json={"type": "ignore"})

        async def ids(**query: str) -> list[str]:
            return [item["id"] for item in (await api.get("/api/inbox", params=query)).json()["items"]]

        assert await ids() == [str(first.id), str(second.id)]
        assert await ids(status="", account="", cursor="") == [str(first.id), str(second.id)]
        assert await ids(status="pending") == [str(second.id)]
        assert await ids(status="decided") == [str(first.id)]
        assert await ids(account=ADA) == [str(first.id)]
        assert await ids(account="BEA@example.com", status="pending") == [str(second.id)]
        assert await ids(account="nobody@example.com") == []

    async def test_arguments_that_utf8_cannot_carry_are_still_shown(
        self, home: Home, api: httpx.AsyncClient, browser: httpx.AsyncClient
    ) -> None:
        args = {"email_address": BOB, "response_text": "half a smile: \ud83d"}
        item = await home.draft(await home.account())
        await home.execute("update inbox_items set args = %s::json", json.dumps(args))
        assert (await api.get("/api/inbox")).json()["items"][0]["args"] == args
        for path in ("/", f"/items/{item.id}"):
            assert "half a smile" in str((await page(browser, path)).forms) + (await page(browser, path)).text


class TestRefusals:
    async def test_an_unknown_item_is_not_found(self, api: httpx.AsyncClient) -> None:
        for item_id in ("no-uuid", str(UUID(int=0))):
            assert item_id in problem(await api.get(f"/api/inbox/{item_id}"), 404)
            decision = await api.post(f"/api/inbox/{item_id}/decision", json={"type": "accept"})
            assert item_id in problem(decision, 404)
            assert item_id in problem(await api.post(f"/api/inbox/{item_id}/undo"), 404)

    async def test_an_unknown_address_is_not_found(self, api: httpx.AsyncClient) -> None:
        problem(await api.get("/api/nothing"), 404)
        problem(await api.put("/api/inbox"), 405)

    async def test_a_bad_query_is_named(self, api: httpx.AsyncClient) -> None:
        said = {
            "/api/inbox?status=open": ["status", "pending", "decided", "applied", "superseded", "expired"],
            "/api/mails?state=old": ["state", "new", "triaging", "waiting", "acting", "done", "failed"],
            "/api/inbox?limit=0": ["limit", "1"],
            "/api/inbox?limit=many": ["limit: must be a whole number"],
            "/api/inbox?cursor=abc": ["cursor"],
            "/api/mails?cursor=abc": ["cursor"],
            "/api/inbox?account=%00": ["value"],
        }
        for path, words in said.items():
            detail = problem(await api.get(path), 422)
            assert [word for word in words if word not in detail] == []

    async def test_a_bad_decision_changes_nothing(self, home: Home, api: httpx.AsyncClient) -> None:
        said = {
            "{": "JSON",
            "[]": "body",
            "{}": "type",
            '{"type": "maybe"}': "'accept', 'edit', 'ignore' or 'response'",
            '{"type": "accept", "for": "all"}': "for",
            '{"type": "edit"}': "arguments",
            '{"type": "edit", "args": "Yes."}': "arguments",
            '{"type": "edit", "args": {"response_text": "", "email_address": "bob@example.org"}}': "response_text",
            '{"type": "edit", "args": {"response_text": "Yes.", "email_address": "bob"}}': "e-mail address",
            '{"type": "response", "args": " "}': "text",
            '{"type": "response", "args": {"text": "no"}}': "text",
        }
        item = await home.draft(await home.account())
        for body, words in said.items():
            json_type = {"content-type": "application/json"}
            answer = await api.post(f"/api/inbox/{item.id}/decision", content=body, headers=json_type)
            assert words in problem(answer, 422)
        assert await home.item(item.id) == item
        assert await home.jobs() == []

    async def test_an_answer_that_is_not_allowed_is_refused(self, home: Home, api: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account(), allowed=["ignore", "response"])
        answer = await api.post(f"/api/inbox/{item.id}/decision", json={"type": "accept"})
        assert "ignore, response" in problem(answer, 422)
        assert (await home.item(item.id)).status == "pending"

    async def test_too_large_a_body_is_refused(self, home: Home, api: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        decision = {"type": "response", "args": "x" * 2_000_000}
        assert (await api.post(f"/api/inbox/{item.id}/decision", json=decision)).status_code == 413
        assert (await home.item(item.id)).status == "pending"

    async def test_a_fault_of_ours_is_not_told_in_detail(self, home: Home, api: httpx.AsyncClient) -> None:
        await home.execute("alter table accounts rename to elsewhere")
        detail = problem(await api.get("/api/accounts"), 500)
        assert "accounts" not in detail


class TestDecisions:
    @pytest.mark.parametrize(
        ("decision", "taken"),
        [
            ({"type": "accept"}, {"type": "accept", "args": None}),
            ({"type": "ignore", "args": None}, {"type": "ignore", "args": None}),
            ({"type": "response", "args": "Thursday, please."}, {"type": "response", "args": "Thursday, please."}),
            (
                {"type": "edit", "args": {"email_address": "eve@example.org", "response_text": "No."}},
                {"type": "edit", "args": {"email_address": "eve@example.org", "response_text": "No."}},
            ),
        ],
        ids=["accept", "ignore", "response", "edit"],
    )
    async def test_each_answer_is_taken(
        self, home: Home, api: httpx.AsyncClient, decision: dict[str, Any], taken: dict[str, Any]
    ) -> None:
        item = await home.draft(await home.account())
        answer = await api.post(f"/api/inbox/{item.id}/decision", json=decision)
        assert answer.status_code == 200
        found = answer.json()
        assert (found["status"], found["decision"], found["decided_by"]) == ("decided", taken, "api")
        window = datetime.fromisoformat(found["undo_until"]) - datetime.fromisoformat(found["decided_at"])
        assert abs(window - timedelta(seconds=60)) < timedelta(seconds=1)
        assert "nothing is running" in found.pop("notice")  # the pages are served, and nobody works
        assert (await api.get(f"/api/inbox/{item.id}")).json() == found
        assert await home.jobs() == [str(item.thread_id)]

    async def test_a_second_answer_is_told_of_the_first(self, home: Home, api: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        await api.post(f"/api/inbox/{item.id}/decision", json={"type": "ignore"})
        first = await home.item(item.id)
        detail = problem(await api.post(f"/api/inbox/{item.id}/decision", json={"type": "accept"}), 409)
        assert "already answered (dismissed) by a program at" in detail
        assert await home.item(item.id) == first

    @pytest.mark.parametrize(
        "decision",
        [
            {"type": "accept"},
            {"type": "ignore"},
            {"type": "response", "args": "Later."},
            {"type": "edit", "args": {**DRAFT, "response_text": "Monday.", "additional_recipients": []}},
        ],
        ids=["accept", "ignore", "response", "edit"],
    )
    async def test_the_repeat_of_an_answer_is_told_what_the_first_was(
        self, home: Home, api: httpx.AsyncClient, decision: dict[str, Any]
    ) -> None:
        item = await home.draft(await home.account())
        path = f"/api/inbox/{item.id}/decision"
        answers = await asyncio.gather(*(api.post(path, json=decision) for _ in range(10)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["decided_at"] for answer in answers}) == 1
        assert len(await home.jobs()) == 1
        await home.execute("update inbox_items set status = 'applied'")
        assert (await api.post(path, json=decision)).json()["status"] == "applied"
        other = {"type": "edit", "args": {**DRAFT, "response_text": "Tuesday."}}
        assert "already answered" in problem(await api.post(path, json=other), 409)

    @pytest.mark.parametrize(
        ("changes", "wrong"),
        [
            ({"start_time": "2031-03-30T02:30:00", "end_time": "2031-03-30T03:30:00"}, "start_time: there is no 02:30"),
            ({"start_time": "2031-03-30T01:30:00", "end_time": "2031-03-30T02:00:00"}, "end_time: there is no 02:00"),
            ({"start_time": "2031-03-30T02:59:00", "end_time": "2031-03-30T04:00:00"}, "start_time: there is no 02:59"),
        ],
    )
    @pytest.mark.parametrize("timezone", ["Europe/Berlin", None])
    async def test_a_meeting_at_a_time_that_the_clocks_skip_is_refused(
        self, home: Home, api: httpx.AsyncClient, changes: dict[str, str], wrong: str, timezone: str | None
    ) -> None:
        _, _, run = await home.mail(await home.account())
        item = await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting")
        args = {**MEETING, **changes, "timezone": timezone}
        answer = await api.post(f"/api/inbox/{item.id}/decision", json={"type": "edit", "args": args})
        detail = problem(answer, 422)
        assert f"{wrong} on 2031-03-30 in Europe/Berlin: the clocks go forward then" in detail
        assert await home.item(item.id) == item

    @pytest.mark.parametrize(
        ("start", "end"),
        [
            ("2031-03-30T01:30:00", "2031-03-30T03:30:00"),  # an hour
            ("2031-10-26T02:30:00", "2031-10-26T03:30:00"),  # of a time that there is twice, the first
            ("2031-03-30T02:30:00+01:00", "2031-03-30T04:30:00+02:00"),
        ],
    )
    async def test_a_meeting_on_a_night_of_another_length_is_taken(
        self, home: Home, api: httpx.AsyncClient, start: str, end: str
    ) -> None:
        _, _, run = await home.mail(await home.account())
        item = await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting")
        args = {**MEETING, "start_time": start, "end_time": end}
        answer = await api.post(f"/api/inbox/{item.id}/decision", json={"type": "edit", "args": args})
        assert answer.status_code == 200

    async def test_a_repeat_after_an_undo_is_an_answer(self, home: Home, api: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        path = f"/api/inbox/{item.id}"
        for _ in range(2):
            assert (await api.post(f"{path}/decision", json={"type": "accept"})).json()["status"] == "decided"
            assert (await api.post(f"{path}/undo")).status_code == 200

    async def test_of_fifty_answers_at_once_one_is_taken(self, home: Home, api: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        decisions = [{"type": "response", "args": f"answer {n}"} for n in range(50)]
        answers = await asyncio.gather(*(api.post(f"/api/inbox/{item.id}/decision", json=d) for d in decisions))
        assert sorted(a.status_code for a in answers) == [200] + 49 * [409]
        [taken] = [d for d, a in zip(decisions, answers, strict=True) if a.status_code == 200]
        assert (await home.item(item.id)).decision == taken
        assert len(await home.jobs()) == 1

    async def test_a_decision_can_be_undone_and_taken_again(self, home: Home, api: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        await api.post(f"/api/inbox/{item.id}/decision", json={"type": "accept"})
        undone = await api.post(f"/api/inbox/{item.id}/undo")
        assert undone.status_code == 200
        assert (undone.json()["status"], undone.json()["decision"]) == ("pending", None)
        assert await home.item(item.id) == item
        assert (await api.post(f"/api/inbox/{item.id}/decision", json={"type": "ignore"})).status_code == 200

    async def test_there_may_be_nothing_to_undo(self, home: Home, api: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        assert "nothing to undo" in problem(await api.post(f"/api/inbox/{item.id}/undo"), 409)
        await api.post(f"/api/inbox/{item.id}/decision", json={"type": "accept"})
        await home.execute("update inbox_items set undo_until = clock_timestamp()")
        assert "already answered" in problem(await api.post(f"/api/inbox/{item.id}/undo"), 409)
        assert (await home.item(item.id)).status == "decided"

    @pytest.mark.parametrize(("status", "said"), [("superseded", "set aside: "), ("expired", "too late: ")])
    async def test_a_stale_item_takes_no_answer(
        self, home: Home, api: httpx.AsyncClient, status: str, said: str
    ) -> None:
        item = await home.draft(await home.account())
        await home.execute("update inbox_items set status = %s", status)
        assert said in problem(await api.post(f"/api/inbox/{item.id}/decision", json={"type": "accept"}), 409)
        assert (await home.item(item.id)).decision is None


class TestMailsAndAccounts:
    async def test_mail_is_listed_newest_first_in_pages(self, home: Home, api: httpx.AsyncClient) -> None:
        account = await home.account()
        ids = [(await home.mail(account))[0] for _ in range(3)]
        first = (await api.get("/api/mails", params={"limit": 2})).json()
        second = (await api.get("/api/mails", params={"limit": 2, "cursor": first["next"]})).json()
        assert [mail["id"] for mail in first["items"] + second["items"]] == ids[::-1]
        assert second["next"] is None
        received = first["items"][0].pop("received_at")
        assert datetime.fromisoformat(received).tzinfo is not None
        assert first["items"][0] == {
            "id": ids[2],
            "account": ADA,
            "sender_name": None,
            "thread": f"t-{ids[2]}",
            "sender": BOB,
            "subject": "Lunch?",
            "state": "waiting",
            "classification": "respond",
            "stage": None,
            "reason": "asks something",
        }

    async def test_mail_is_filtered(self, home: Home, api: httpx.AsyncClient) -> None:
        account, other = await home.account(), await home.account("bea@example.com")
        await home.mail(account, id="a", state="done")
        await home.mail(other, id="b", state="failed")

        async def ids(**query: str) -> list[str]:
            return [mail["id"] for mail in (await api.get("/api/mails", params=query)).json()["items"]]

        assert await ids(state="failed") == ["b"]
        assert await ids(account=ADA) == ["a"]
        assert await ids(account=ADA, state="failed") == []

    async def test_failed_mail_can_be_tried_again_once(self, home: Home, api: httpx.AsyncClient) -> None:
        account = await home.account()
        mail_id, thread, _ = await home.mail(account, state="failed")
        answer = await api.post(f"/api/mails/{mail_id}/retry", params={"account": ADA})
        assert answer.status_code == 200
        assert answer.json()["state"] == "triaging"
        assert await home.jobs() == [str(thread)]
        assert "only failed mail" in problem(await api.post(f"/api/mails/{mail_id}/retry"), 409)
        problem(await api.post("/api/mails/unknown/retry"), 404)

    async def test_a_mail_id_of_two_accounts_needs_the_account(self, home: Home, api: httpx.AsyncClient) -> None:
        for address in (ADA, "bea@example.com"):
            await home.mail(await home.account(address), id="same", state="failed")
        assert "several accounts" in problem(await api.post("/api/mails/same/retry"), 404)
        assert (await api.post("/api/mails/same/retry", params={"account": "bea@example.com"})).status_code == 200
        states = {mail["account"]: mail["state"] for mail in (await api.get("/api/mails")).json()["items"]}
        assert states == {ADA: "failed", "bea@example.com": "triaging"}

    async def test_accounts_are_listed_without_their_tokens(self, home: Home, api: httpx.AsyncClient) -> None:
        account = await home.account()
        await home.app.accounts.set_state(account, "login", "the login has expired")
        await home.execute("update accounts set listed_at = '2031-01-02 03:04:05+00'")
        answer = await api.get("/api/accounts")
        assert "secret" not in answer.text
        assert answer.json() == {
            "items": [
                {
                    "address": ADA,
                    "state": "login",
                    "mode": "send",
                    "timezone": "Europe/Berlin",
                    "last_sync": "2031-01-02T03:04:05Z",
                    "last_error": "the login has expired",
                    "watch_error": None,
                    "spent_until": None,
                    "older_mail": None,
                    "today": {"tokens": 0, "most_tokens": None, "money": 0.0, "most_money": None},
                }
            ],
            "next": None,
        }


GUARDED = ["/api/inbox", "/api/mails", "/api/accounts", f"/api/inbox/{UUID(int=0)}", "/openapi.json"]


class TestToken:
    async def test_the_api_is_closed_without_it(self, root: str, browser: httpx.AsyncClient) -> None:
        [cookie] = browser.cookies
        strangers = [
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": f"Basic {TOKEN}"},
            {"authorization": "Bearer"},
            {"x-api-key": "wrong"},
            {"x-api-key": ""},
            {"cookie": f"{cookie}=wrong"},
            {"cookie": f"{cookie}={TOKEN}"},
        ]
        for headers in strangers:
            async with client(root, **headers) as stranger:
                for path in GUARDED:
                    answer = await stranger.get(path)
                    problem(answer, 401)
                    assert answer.headers["www-authenticate"] == "Bearer"

    async def test_either_header_opens_it(self, root: str) -> None:
        for headers in ({"authorization": f"bearer {TOKEN}"}, {"x-api-key": TOKEN}):
            async with client(root, **headers) as program:
                assert [(await program.get(path)).status_code for path in GUARDED] == [200, 200, 200, 404, 200]

    async def test_nothing_is_read_or_changed_without_it(self, home: Home, root: str) -> None:
        item = await home.draft(await home.account())
        async with client(root) as stranger:
            problem(await stranger.post(f"/api/inbox/{item.id}/decision", json={"type": "accept"}), 401)
            problem(await stranger.post(f"/api/inbox/{item.id}/decision", content="{"), 401)
            assert (await stranger.post(f"/items/{item.id}", data={"answer": "accept"})).status_code == 401
            assert (await stranger.post("/mails/m1/retry", data={"account": ADA})).status_code == 401
        assert await home.item(item.id) == item

    async def test_no_token_lets_everybody_in(self, home: Home) -> None:
        async with served(home.app, token=None) as root, client(root) as anybody:
            assert (await anybody.get("/api/inbox")).status_code == 200
            assert (await anybody.get("/")).status_code == 200
            assert (await anybody.get("/login")).headers["location"] == "/"

    async def test_the_document_is_there_and_no_page_that_loads_from_elsewhere(self, api: httpx.AsyncClient) -> None:
        described = (await api.get("/openapi.json")).json()
        assert set(described["paths"]) == {
            "/health",
            "/health-check",
            "/ready",
            "/metrics",
            "/agent/session",
            "/agent/begin",
            "/agent/end",
            "/api/approve_or_deny",
            "/events",
            "/mcp/status",
            "/sessions.db",
            "/run",
            "/resume",
            "/api/chat",
            "/api/chat/{chat_id}",
            "/api/tools",
            "/api/tools/{name}",
            "/api/tools/{name}/accept",
            "/api/inbox",
            "/api/inbox/{item_id}",
            "/api/inbox/{item_id}/decision",
            "/api/inbox/{item_id}/undo",
            "/api/inbox/{item_id}/snooze",
            "/api/inbox/{item_id}/context",
            "/api/inbox/counts",
            "/api/inbox/decisions",
            "/api/mails",
            "/api/mails/{mail_id}/retry",
            "/api/mails/{mail_id}/correct",
            "/api/mails/{mail_id}/trail",
            "/api/mails/{mail_id}/forget",
            "/api/export",
            "/api/accounts",
            "/api/activity",
            "/api/status",
            "/api/stop",
            "/api/go-on",
            "/api/events",
            "/api/push",
            "/api/push/subscribe",
            "/api/push/unsubscribe",
            "/api/memory",
            "/api/memory/background",
            "/api/memory/lessons",
            "/api/memory/markdown",
            "/api/memory/try",
            "/api/memory/held/{held_id}/keep",
            "/api/memory/held/{held_id}/drop",
            "/api/memory/lessons/{lesson_id}/undo",
            "/api/memory/rules",
            "/api/memory/rules/{profile}/{rule_id}",
            "/api/memory/rules/{profile}/{rule_id}/revert",
            "/info",
            "/threads/search",
            "/threads/{thread_id}",
            "/threads/{thread_id}/state",
            "/threads/{thread_id}/runs",
            "/threads/{thread_id}/runs/stream",
        }
        assert described["paths"]["/api/inbox"]["get"]["security"]
        plain = {p for p, o in described["paths"].items() if "HTTPValidationError" in json.dumps(o)}
        assert plain == {"/run", "/resume"}  # what is malformed there gets FastAPI's own answer
        shown = await page(api, "/docs")
        assert shown.alive == []
        assert [path for path in described["paths"] if path not in shown.text] == []
        assert (await api.get("/redoc")).status_code == 404


class TestSession:
    async def test_the_printed_link_logs_in_and_is_not_kept(self, root: str) -> None:
        async with client(root) as http:
            answer = await http.get("/", params={"token": TOKEN})
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            cookie = answer.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "samesite=strict" in cookie.lower()
            assert TOKEN not in cookie
            assert (await http.get("/")).status_code == 200
            assert (await http.get("/api/inbox")).status_code == 200

    async def test_the_link_stays_on_its_path_and_here(self, root: str) -> None:
        goes_to = {
            f"/mails?state=failed&token={TOKEN}&account=a%40b": "/mails?state=failed&account=a%40b",
            f"/login?token={TOKEN}": "/login",
            f"//evil.example/?token={TOKEN}": "/evil.example/",
            f"/%5Cevil.example/?token={TOKEN}": "/evil.example/",
        }
        async with client("") as http:
            for path, location in goes_to.items():
                answer = await http.get(root + path)
                assert (answer.status_code, answer.headers["location"]) == (303, location)

    async def test_who_is_not_logged_in_is_asked_for_the_token(self, root: str) -> None:
        for path in ("/?token=wrong", "/?token=", "/", "/mails", f"/items/{UUID(int=0)}", "/login"):
            async with client(root) as stranger:
                answer = await stranger.get(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "set-cookie" not in answer.headers
            assert Page(answer.text).form("/login").kinds["token"] == "password"

    async def test_the_form_logs_in_and_goes_where_one_wanted(self, root: str) -> None:
        async with client(root) as http:
            form = (await page(http, "/mails?state=done", 401)).form("/login")
            wrong = await http.post(form.action, data={**form.values, "token": "wrong"})
            assert wrong.status_code == 401
            assert "not the token" in wrong.text
            again = Page(wrong.text).form("/login")
            answer = await http.post(again.action, data={**again.values, "token": f" {TOKEN} "})
            assert (answer.status_code, answer.headers["location"]) == (303, "/mails?state=done")
            assert (await http.get("/mails?state=done")).status_code == 200
            assert (await http.get("/login")).headers["location"] == "/"

    async def test_the_form_leads_nowhere_else(self, root: str) -> None:
        for elsewhere in ("//evil.example", "/\\evil.example", "https://evil.example"):
            async with client(root) as http:
                answer = await http.post("/login", data={"token": TOKEN, "following": elsewhere})
            assert re.match(r"/[a-z]", answer.headers["location"])

    async def test_a_session_ends_with_its_token(self, home: Home, browser: httpx.AsyncClient) -> None:
        async with served(home.app, token="another") as root, client(root) as http:
            http.cookies = browser.cookies
            assert (await http.get("/")).status_code == 401

    async def test_over_https_the_cookie_is_for_https_only(self, root: str) -> None:
        async with client(root) as http:
            plain = await http.get("/", params={"token": TOKEN})
            behind_tls = await http.get("/", params={"token": TOKEN}, headers={"x-forwarded-proto": "https"})
        assert "Secure" not in plain.headers["set-cookie"]
        assert "Secure" in behind_tls.headers["set-cookie"]


class TestOtherSites:
    async def test_on_loopback_only_names_of_this_machine_are_answered_to(self, root: str) -> None:
        async with client(root, authorization=f"Bearer {TOKEN}") as http:
            for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", ""):
                assert (await http.get("/health", headers={"host": name})).status_code == 400
                assert (await http.get("/api/inbox", headers={"host": name})).status_code == 400
            for name in ("localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]:8000"):
                assert (await http.get("/api/inbox", headers={"host": name})).status_code == 200

    async def test_it_goes_by_what_the_server_is_bound_to(self, home: Home) -> None:
        statuses = {
            ("localhost", "evil.example"): 400,
            ("127.0.0.2", "127.0.0.2:8000"): 200,
            ("::1", "[::1]"): 200,
            ("::1", "evil.example"): 400,
            ("0.0.0.0", "assistant.example"): 200,
            ("192.168.1.5", "assistant.example"): 200,
        }
        for (bound, name), status in statuses.items():
            async with served(home.app, host=bound) as root, client(root, host=name) as http:
                assert (await http.get("/health")).status_code == status

    async def test_their_pages_change_nothing(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1"):
            headers = {"origin": origin}
            decision = await browser.post(f"/api/inbox/{item.id}/decision", json={"type": "accept"}, headers=headers)
            assert "another site" in problem(decision, 403)
            posted = await browser.post(f"/items/{item.id}", data={"answer": "accept"}, headers=headers)
            assert posted.status_code == 403
            assert (await browser.post("/login", data={"token": TOKEN}, headers=headers)).status_code == 403
            assert (await browser.get("/api/inbox", headers=headers)).status_code == 200
        assert await home.item(item.id) == item

    async def test_our_own_pages_do(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        own = {"origin": str(browser.base_url).rstrip("/")}
        answer = await browser.post(f"/items/{item.id}", data={"answer": "accept"}, headers=own)
        assert answer.status_code == 303

    async def test_every_answer_ties_the_browser_down(self, browser: httpx.AsyncClient) -> None:
        for path in ("/", "/mails", "/login", "/api/inbox", "/health", "/items/x", "/openapi.json", "/static/x"):
            headers = (await browser.get(path)).headers
            assert headers["content-security-policy"] == (
                "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; manifest-src 'self'; "
                "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; frame-src 'self'; img-src 'self' data:"
            )
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")
            # With no-referrer, browsers would send the Origin of our own forms as null.
            assert headers["referrer-policy"] == "same-origin"

    async def test_the_style_is_ours_and_open(self, root: str) -> None:
        async with client(root) as stranger:
            answer = await stranger.get("/static/style.css")
            assert answer.headers["content-type"].startswith("text/css")
            assert (await stranger.get("/static/%2e%2e/auth.py")).status_code == 404
        assert "url(" not in answer.text
        assert "@import" not in answer.text


class TestWaitingPage:
    async def test_a_row_says_who_what_and_how_long(self, home: Home, browser: httpx.AsyncClient) -> None:
        account = await home.account()
        item = await home.draft(account, new=["bob@example.org"])
        await home.ask(item.run_id, "schedule_meeting_tool", MEETING, kind="meeting")
        await home.ask(item.run_id, "Question", {"content": "Which Friday?"}, kind="question", allowed=["response"])
        _, _, run = await home.mail(account)
        await home.ask(run, NOTIFY_ACTION, {}, kind="notification", allowed=["ignore", "response"])
        await home.execute("update inbox_items set created_at = created_at - interval '3 hours'")
        shown = await page(browser, "/")
        assert f"/items/{item.id}" in shown.links
        marked = f"! New recipient, never written to before: {BOB}"
        does = "“Friday is fine.”, book Mon 2 Jun, 10:00, asks you: Which Friday?"
        row = f"reply and meeting and question {BOB} Lunch? 3 h Does Friday suit you? → {does} {marked}"
        assert row in shown.text
        assert f"Good to know 1 · notice {BOB} Lunch?" in shown.text

    async def test_it_starts_with_what_waits_and_can_show_the_rest(
        self, home: Home, browser: httpx.AsyncClient
    ) -> None:
        account, other = await home.account(), await home.account("bea@example.com")
        decided, waits = await home.draft(account), await home.draft(other)
        await press(browser, decided, "ignore")

        async def shown(**query: str) -> list[str]:
            links = (await page(browser, "/", **query)).links
            return [link.removeprefix("/items/").partition("?")[0] for link in links if link.startswith("/items/")]

        assert await shown() == [str(waits.id)]
        assert await shown(status="decided") == [str(decided.id)]
        assert await shown(status="all", account="") == [str(decided.id), str(waits.id)]
        assert await shown(status="all", account=ADA) == [str(decided.id)]

    async def test_long_lists_go_on_on_the_next_page(self, home: Home, browser: httpx.AsyncClient) -> None:
        first = await home.draft(await home.account())
        for _ in range(100):
            await home.ask(first.run_id)
        await home.execute("update inbox_items set group_id = id::text")
        links = (await page(browser, "/", account=ADA)).links
        assert len([link for link in links if link.startswith("/items/")]) == 100
        [following] = [link for link in links if "cursor=" in link and "ticked=" not in link]
        assert "account=ada%40example.com" in following
        links = (await page(browser, following)).links
        assert len([link for link in links if link.startswith("/items/")]) == 1
        assert not [link for link in links if "cursor=" in link and "ticked=" not in link]

    async def test_it_says_when_there_is_nothing(self, home: Home, browser: httpx.AsyncClient) -> None:
        assert "/accounts#connect" in (await page(browser, "/")).links
        assert "email-assistant auth login" in (await page(browser, "/accounts")).text
        account = await home.account()
        assert "Nothing waits for you." in (await page(browser, "/")).text
        await home.app.accounts.set_state(account, "login", "the login has expired")
        assert f"{ADA} needs you to log in again: the login has expired" in (await page(browser, "/")).text

    async def test_a_bad_filter_is_a_page_too(self, browser: httpx.AsyncClient) -> None:
        assert "pending" in (await page(browser, "/", 422, status="open")).text
        assert "first page" in (await page(browser, "/", 422, cursor="abc")).text
        assert "no item" in (await page(browser, "/items/abc", 404)).text
        assert "This is not here" in (await page(browser, "/nothing", 404)).text


class TestItemPage:
    async def test_it_shows_the_mail_and_a_typed_form(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account(), new=[BOB])
        shown = await page(browser, f"/items/{item.id}")
        assert "From: Bob Berg" in shown.text
        assert "Does Friday suit you?" in shown.text
        assert f"New recipient, never written to before: {BOB}" in shown.text
        form = shown.form(f"/items/{item.id}")
        assert form.buttons == {
            "accept": "Send",
            "edit": "Send as changed",
            "preview": "Show what I changed",
            "done": "Dismiss",
            "ignore": "mail of this kind from them",
            "shorter": "Shorter",
            "friendlier": "Friendlier",
            "decline": "Decline",
            "response": "Ask for another",
        }
        fields = ["asked", "arg.email_address", "arg.additional_recipients", "arg.response_text", "response"]
        assert list(form.values) == fields
        assert form.values["arg.response_text"] == "Friday is fine.\r\n\r\nAda"
        assert form.kinds["arg.response_text"] == "textarea"

    async def test_times_are_edited_in_the_persons_timezone(self, home: Home, browser: httpx.AsyncClient) -> None:
        _, _, run = await home.mail(await home.account(timezone="America/New_York"))
        item = await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting")
        form = (await page(browser, f"/items/{item.id}")).form(f"/items/{item.id}")
        assert form.values["arg.attendees"] == f"{BOB}, dan@example.net"
        assert (form.values["arg.start_time"], form.kinds["arg.start_time"]) == ("2031-06-02T04:00", "datetime-local")
        answer = await press(
            browser, item, "edit", end_time="2031-06-02T05:30", attendees=f"{BOB} ,eve@example.org,", title="Plan B"
        )
        assert answer.status_code == 303
        assert (await home.item(item.id)).decision == {
            "type": "edit",
            "args": MEETING
            | {"attendees": [BOB, "eve@example.org"], "title": "Plan B", "end_time": "2031-06-02T05:30:00-04:00"},
        }

    async def test_in_another_timezone_the_shown_times_are_meant_there(
        self, home: Home, browser: httpx.AsyncClient
    ) -> None:
        _, _, run = await home.mail(await home.account())
        item = await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting")
        await press(browser, item, "edit", timezone="America/New_York")
        decision = (await home.item(item.id)).decision
        assert decision is not None
        assert decision["args"]["start_time"] == "2031-06-02T10:00:00-04:00"
        assert decision["args"]["timezone"] == "America/New_York"

    async def test_an_impossible_time_is_shown_as_it_is(self, home: Home, browser: httpx.AsyncClient) -> None:
        _, _, run = await home.mail(await home.account())
        for time in ("9999-12-31T23:30:00-05:00", "0001-01-01T00:00:00+02:00", "soon"):
            item = await home.ask(run, "schedule_meeting_tool", MEETING | {"start_time": time}, kind="meeting")
            assert f"book {time}" in (await page(browser, "/")).text
            form = (await page(browser, f"/items/{item.id}")).form(f"/items/{item.id}")
            assert form.values["arg.start_time"] == time

    async def test_times_without_a_timezone_stay_so(self, home: Home, browser: httpx.AsyncClient) -> None:
        _, _, run = await home.mail(await home.account())
        args = MEETING | {"start_time": "2031-06-02T10:00", "end_time": "2031-06-02T10:45"}
        item = await home.ask(run, "schedule_meeting_tool", args, kind="meeting")
        await press(browser, item, "edit", end_time="2031-06-02T11:00")
        decision = (await home.item(item.id)).decision
        assert decision == {"type": "edit", "args": args | {"end_time": "2031-06-02T11:00"}}

    @pytest.mark.parametrize(
        ("answer", "typed", "taken"),
        [
            ("accept", {}, {"type": "accept", "args": None}),
            ("ignore", {}, {"type": "ignore", "args": None}),
            ("response", {"response": "Thursday."}, {"type": "response", "args": "Thursday."}),
            (
                "edit",
                {"response_text": "No.\r\nAda", "additional_recipients": "eve@example.org"},
                {
                    "type": "edit",
                    "args": {
                        "email_address": BOB,
                        "response_text": "No.\nAda",
                        "additional_recipients": ["eve@example.org"],
                    },
                },
            ),
            ("edit", {}, {"type": "accept", "args": None}),
        ],
        ids=["accept", "ignore", "response", "edit", "edit without a change"],
    )
    async def test_each_button_answers(
        self, home: Home, browser: httpx.AsyncClient, answer: str, typed: dict[str, str], taken: dict[str, Any]
    ) -> None:
        item = await home.draft(await home.account())
        posted = await press(browser, item, answer, **typed)
        onward = f"/items/{item.id}?anew=true&" if answer == "response" else "/?"
        assert (posted.status_code, posted.headers["location"]) == (303, f"{onward}answered={item.id}")
        found = await home.item(item.id)
        assert (found.status, found.decision, found.decided_by) == ("decided", taken, "web")

    async def test_accepting_does_not_send_what_was_typed_over(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        posted = await press(browser, item, "accept", response_text="Never.")
        assert posted.status_code == 422
        assert "you changed the proposal" in Page(posted.text).text
        assert Page(posted.text).form(f"/items/{item.id}").values["arg.response_text"] == "Never."
        assert await home.item(item.id) == item

    async def test_a_cleared_field_is_left_out(self, home: Home, browser: httpx.AsyncClient) -> None:
        args = DRAFT | {"additional_recipients": ["eve@example.org"]}
        item = await home.draft(await home.account(), args=args)
        await press(browser, item, "edit", additional_recipients=" ")
        assert (await home.item(item.id)).decision == {"type": "edit", "args": DRAFT}

    async def test_a_form_that_is_sent_twice_is_taken_once(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        form = (await page(browser, f"/items/{item.id}")).form(f"/items/{item.id}")
        edited = {**form.values, "arg.response_text": "Monday.", "answer": "edit"}
        for _ in range(2):
            assert (await browser.post(form.action, data=edited)).status_code == 303
        assert (await browser.post(form.action, data={**edited, "answer": "ignore"})).status_code == 409

    async def test_a_time_that_the_clocks_skip_is_refused(self, home: Home, browser: httpx.AsyncClient) -> None:
        _, _, run = await home.mail(await home.account())
        item = await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting")
        typed = {"start_time": "2031-03-30T02:30", "end_time": "2031-03-30T03:30"}
        posted = await press(browser, item, "edit", **typed)
        assert posted.status_code == 422
        assert "Not taken: Starts: there is no 02:30 on 2031-03-30 in Europe/Berlin" in Page(posted.text).text

    async def test_an_edit_that_empties_to_is_refused(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        posted = await press(browser, item, "edit", email_address=" ", response_text="No.")
        assert posted.status_code == 422
        shown = Page(posted.text)
        assert "Not taken: To is empty: say to whom it goes" in shown.text
        assert shown.form(f"/items/{item.id}").values["arg.response_text"] == "No."
        assert await home.item(item.id) == item

    async def test_recipients_may_be_typed_with_their_names(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        names = {"email_address": "Bob Berg <bob@example.org>"}
        copies = '"Doe, Jane" <jane@example.net>, carl@example.org'
        posted = await press(browser, item, "edit", **names, additional_recipients=copies)
        assert posted.status_code == 303
        decision = (await home.item(item.id)).decision
        assert decision == {
            "type": "edit",
            "args": DRAFT | names | {"additional_recipients": ['"Doe, Jane" <jane@example.net>', "carl@example.org"]},
        }
        text = (await page(browser, f"/items/{item.id}")).text
        assert '"Doe, Jane" <jane@example.net>' in text
        assert await home.column("select unnest(typed) from inbox_items order by 1") == [
            "carl@example.org",
            "jane@example.net",
        ]

    async def test_a_refused_edit_keeps_what_was_typed(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        posted = await press(browser, item, "edit", email_address="bob", response_text="No.", response="Or so?")
        assert posted.status_code == 422
        shown = Page(posted.text)
        assert "not an e-mail address: bob" in shown.text
        values = shown.form(f"/items/{item.id}").values
        assert values["arg.email_address"] == "bob"
        assert values["arg.response_text"] == "No."
        assert values["response"] == "Or so?"
        assert await home.item(item.id) == item

    async def test_only_allowed_answers_are_offered(self, home: Home, browser: httpx.AsyncClient) -> None:
        account = await home.account()
        _, _, run = await home.mail(account)
        question = await home.ask(
            run, "Question", {"content": "Which Friday?"}, kind="question", allowed=["ignore", "response"]
        )
        shown = await page(browser, f"/items/{question.id}")
        assert "Which Friday?" in shown.text
        form = shown.form(f"/items/{question.id}")
        assert set(form.buttons) == {"done", "ignore", "response"}
        assert list(form.values) == ["asked", "response"]
        _, _, run = await home.mail(account)
        doubt = await home.ask(run, "send_email_tool", DRAFT, kind="in_doubt", allowed=["accept", "ignore"])
        form = (await page(browser, f"/items/{doubt.id}")).form(f"/items/{doubt.id}")
        assert form.buttons == {"accept": "Do it again", "done": "Leave it"}
        assert form.values == {"asked": "1"}
        posted = await browser.post(f"/items/{doubt.id}", data={"answer": "response", "response": "?"})
        assert posted.status_code == 422
        assert (await home.item(doubt.id)).status == "pending"

    async def test_enter_in_a_field_approves_nothing(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        html = (await browser.get(f"/items/{item.id}")).text
        # A browser presses the first button of a form, and none if that is disabled.
        first = re.search(r"<button[^>]*>", html.split(f'<form action="/items/{item.id}"')[1])
        assert first is not None
        assert "disabled" in first[0]

    async def test_an_empty_letter_is_refused_by_the_name_of_its_field(
        self, home: Home, browser: httpx.AsyncClient
    ) -> None:
        item = await home.draft(await home.account())
        form = (await page(browser, f"/items/{item.id}")).form(f"/items/{item.id}")
        refused = await browser.post(
            f"/items/{item.id}", data={**form.values, "answer": "edit", "arg.response_text": ""}
        )
        assert refused.status_code == 422
        assert "Not taken: Text: is empty, or too short." in refused.text

    async def test_an_answered_item_says_so_and_can_be_undone(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        await press(browser, item, "edit", response_text="No.")
        shown = await page(browser, f"/items/{item.id}")
        assert "You have answered: sending, on the page at" in shown.text
        assert "As you changed it" in shown.text
        assert "As it was proposed" in shown.text
        assert [form.action for form in shown.posts] == [f"/items/{item.id}/undo"]
        assert re.search(r"Undo \( ?(60|5\d) s left\)", shown.text)
        undone = await browser.post(shown.posts[0].action)
        assert (undone.status_code, undone.headers["location"]) == (303, f"/items/{item.id}")
        again = await home.item(item.id)
        assert again.taken_back == {"type": "edit", "args": {**item.args, "response_text": "No."}}
        assert replace(again, taken_back=None) == item

    async def test_undoing_too_late_is_refused_on_the_page(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        await press(browser, item, "accept")
        await home.execute("update inbox_items set undo_until = clock_timestamp()")
        posted = await browser.post(f"/items/{item.id}/undo")
        assert posted.status_code == 409
        assert "already answered (approved) on the page" in Page(posted.text).text
        assert Page(posted.text).posts == []

    async def test_who_comes_second_sees_the_first_answer_and_their_own_text(
        self, home: Home, browser: httpx.AsyncClient, api: httpx.AsyncClient
    ) -> None:
        item = await home.draft(await home.account())
        form = (await page(browser, f"/items/{item.id}")).form(f"/items/{item.id}")
        await api.post(f"/api/inbox/{item.id}/decision", json={"type": "ignore"})
        typed = {**form.values, "arg.response_text": "My fine words", "response": "And these", "answer": "edit"}
        posted = await browser.post(form.action, data=typed)
        assert posted.status_code == 409
        text = Page(posted.text).text
        assert "already answered (dismissed) by a program at" in text
        assert "What you had typed" in text
        assert "My fine words" in text
        assert "And these" in text

    async def test_a_superseded_item_leads_to_the_newer_one(self, home: Home, browser: httpx.AsyncClient) -> None:
        account = await home.account()
        old = await home.draft(account)
        run = await home.run(account, old.thread_id, str(old.mail_id), uuid4(), attempt=2)
        async with home.app.pool.connection() as conn:
            await home.app.questions.supersede(conn, [old.run_id], by=run)
        shown = await page(browser, f"/items/{old.id}")
        assert "Set aside" in shown.text
        assert shown.posts == []
        own = f"/items/{old.id}/body"
        assert not [link for link in shown.links if link.startswith("/items/") and link != own]
        await home.draft(account)
        new = await home.ask(run)
        assert f"/items/{new.id}" in (await page(browser, f"/items/{old.id}")).links

    async def test_an_expired_item_says_so(self, home: Home, browser: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account())
        await home.execute("update inbox_items set status = 'expired'")
        shown = await page(browser, f"/items/{item.id}")
        assert "Too late" in shown.text
        assert shown.posts == []


class TestMailsPage:
    async def test_failed_mail_has_a_button(self, home: Home, browser: httpx.AsyncClient) -> None:
        account = await home.account()
        await home.mail(account, id="a/b", state="failed", reason="the model gave no answer")
        await home.mail(account, state="done", classification="ignore", subject="News")
        shown = await page(browser, "/mails")
        assert "failed · to answer · the model gave no answer" in shown.text
        assert "done · needs nothing" in shown.text
        [form] = shown.posts
        assert form.values == {"account": ADA}
        filtered = await page(browser, "/mails", state="done", account="")
        assert "News" in filtered.text
        assert "Lunch?" not in filtered.text

    async def test_the_button_tries_again(self, home: Home, browser: httpx.AsyncClient) -> None:
        account = await home.account()
        mail_id, thread, _ = await home.mail(account, state="failed")
        [form] = (await page(browser, "/mails")).posts
        first = await browser.post(form.action, data=form.values)
        assert (first.status_code, first.headers["location"]) == (303, "/mails")
        assert await home.jobs() == [str(thread)]
        second = await browser.post(form.action, data=form.values)
        assert second.status_code == 409
        assert "only failed mail can be tried again" in Page(second.text).text
        unknown = await browser.post("/mails/unknown/retry", data={"account": ADA})
        assert unknown.status_code == 404
        assert mail_id in form.action


ATTACK = (
    "</textarea></title></select><script>alert(1)</script><img src=x onerror=alert(1)>"
    '"><svg onload=alert(1)><style>*{display:none}</style><form action="https://evil.example"><input name=x>'
    "<iframe src=//evil.example></iframe>{{ 7*7 }}"
)


class TestHostileMail:
    async def test_nothing_of_it_is_alive(self, home: Home, browser: httpx.AsyncClient) -> None:
        account = await home.account()
        _, _, run = await home.mail(account, subject=ATTACK, sender=ATTACK, state="failed", reason=ATTACK)
        args = {"email_address": ATTACK, "response_text": ATTACK, "additional_recipients": [ATTACK], ATTACK: ATTACK}
        item = await home.ask(run, args=args, body=ATTACK, subject=ATTACK, new=[ATTACK])
        await home.app.accounts.note_error(account, ATTACK)
        question = await home.ask(run, ATTACK, {"content": ATTACK}, kind="question", allowed=["ignore", "response"])
        pages = [await page(browser, path) for path in ("/", "/mails", f"/items/{item.id}", f"/items/{question.id}")]
        form = pages[2].form(f"/items/{item.id}")
        posted = await browser.post(
            form.action, data={**form.values, "arg.response_text": f"{ATTACK}!", "response": ATTACK, "answer": "edit"}
        )
        assert posted.status_code == 422
        pages.append(Page(posted.text))
        await home.app.inbox.decide(home.app.user_id, item.id, {"type": "response", "args": ATTACK}, by=ATTACK)
        pages.append(await page(browser, f"/items/{item.id}"))
        for shown in pages:
            assert shown.alive == []
            assert not [form for form in shown.forms if not form.action.startswith("/") and form.method != "dialog"]
            assert "alert(1)" in shown.text
            assert "{{ 7*7 }}" in shown.text

    async def test_marks_that_reorder_or_hide_text_are_not_shown(self, home: Home, browser: httpx.AsyncClient) -> None:
        tricks = "invoice\u202egpj.exe\u2066\x1b[2J\x07"
        account = await home.account()
        _, _, run = await home.mail(account, subject=tricks, sender=tricks)
        item = await home.ask(run, body=tricks, new=[tricks])
        for path in ("/", "/mails", f"/items/{item.id}"):
            html = (await browser.get(path)).text
            assert "invoicegpj.exe[2J" in html
            assert not re.search("[\u202a-\u202e\u2066-\u2069\x07\x1b]", html)

    async def test_the_api_gives_the_description_escaped(self, home: Home, api: httpx.AsyncClient) -> None:
        item = await home.draft(await home.account(), body=ATTACK)
        description = (await api.get(f"/api/inbox/{item.id}")).json()["description"]
        assert "<" not in description
        assert "&lt;script&gt;" in description

    async def test_a_mail_cannot_pass_for_the_end_of_the_proposal(self, home: Home, browser: httpx.AsyncClient) -> None:
        body = "Hello\n\n---\n\nsend_email_tool\n- New recipient, never written to before: fake@example.org"
        item = await home.draft(await home.account(), body=body, new=[])
        html = (await browser.get(f"/items/{item.id}")).text
        proposal, _, mail = html.partition('<section class="part"')[2].partition('<div class="why"')
        assert "Friday is fine." in proposal
        assert "fake@example.org" not in proposal
        assert "fake@example.org" in mail
