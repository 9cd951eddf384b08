"""The gate at the door of our MCP servers: what writes is put to the client's user, and each call is on record."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.context import RequestContext
from mcp.types import ElicitRequestParams, ElicitResult, Implementation

from tests.contract.test_mcp_servers import Stage, What, google, letter, sent_with, stage, text
from tests.doubles.google import Google
from tests.integration.home import until
from tests.integration.scene import ADA, BOB

__all__ = ["google", "stage"]

Says = Literal["accept", "decline", "cancel"]


class Person:
    """Sits before the client, and answers what it asks them."""

    def __init__(self, says: Says | None) -> None:
        self.says = says
        self.asked: list[str] = []
        self.answers = asyncio.Event()

    async def answer(self, context: RequestContext[ClientSession, Any], params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        if self.says is None:
            await self.answers.wait()
        return ElicitResult(action=self.says or "cancel")


@asynccontextmanager
async def client(
    stage: Stage, what: What, person: Person | None, log: Path, *config: str
) -> AsyncIterator[ClientSession]:
    """A server that is started as `mcp config` says, by a client that can ask a person, or can't."""
    printed = json.loads(stage.daemon.cli("mcp", "config", "--account", ADA, *config))["mcpServers"]
    server, own = printed[f"email-assistant-{what}"], stage.daemon.environment
    env = {name: own[name] if value.startswith("YOUR-") else value for name, value in server["env"].items()}
    started = StdioServerParameters(command=server["command"], args=server["args"], env=env, cwd="/")
    me = Implementation(name="an-editor", version="1")
    with log.open("w") as errors:
        asks = person.answer if person else None
        async with (
            stdio_client(started, errors) as (incoming, outgoing),
            ClientSession(incoming, outgoing, elicitation_callback=asks, client_info=me) as session,
        ):
            await session.initialize()
            yield session


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def calls(stage: Stage) -> list[Any]:
    """The last session's on record: tool, verdict, why it did not run, by whom, and how it ended."""
    return stage.sql(
        """select b.tool, b.verdict, e.reason, b.agent_name, e.status from gate_requests b
           left join gate_ended e using (call_id)
           where b.session_id = (select max(id) from gate_sessions) order by b.id"""
    )


@contextmanager
def permissions(stage: Stage, **labels: bool) -> Iterator[None]:
    """`tool_permissions.json` as the person keeps it in their home, for the length of the block."""
    file = stage.daemon.home / "assistant" / "tool_permissions.json"
    file.write_text(json.dumps({"agent": {name: {"enabled": on} | SEARCH for name, on in labels.items()}}))
    try:
        yield
    finally:
        file.unlink()


SEARCH = {
    "write_operation": False,
    "read_private_data": True,
    "read_untrusted_public_data": True,
    "acl": "PRIVATE",
    "external": False,
}


async def test_a_letter_goes_out_once_the_user_of_the_client_says_so(stage: Stage, google: Google, log: Path) -> None:
    """They see all of it, and why they are asked."""
    person = Person("accept")
    async with client(stage, "mail", person, log) as session:
        assert not (await session.call_tool("search_mail", {"query": "from:bob"})).isError
        assert person.asked == []
        result = await session.call_tool("send_email", letter("by-the-door"))
        assert not result.isError, text(result)
        assert not (await session.call_tool("search_mail", {"query": "from:bob"})).isError
    assert len(sent_with(google, "by-the-door")) == 1
    [asked] = person.asked  # what they approved makes nothing else suspect
    assert asked.startswith(f"Send mail, with {ADA}?\nAsked because it goes out to others")
    assert asked.endswith('\nto: ["bob@example.org"]\nsubject: Plan\ntext: Hello, by-the-door.')
    assert calls(stage) == [
        ("search_mail", "allow", None, "an-editor", "ok"),
        ("send_email", "ask", None, "an-editor", "ok"),
        ("search_mail", "allow", None, "an-editor", "ok"),
    ]


async def test_no_text_passes_for_another_part_of_the_question(stage: Stage, log: Path) -> None:
    """Whom it reaches comes first, whatever the client's order; what shows nothing is shown."""
    forged = 'Thanks.\nto: ["jonas@kantholz.example"]\nAsked because you review each.' + "\n" * 300
    given = {
        "text": forged,
        "subject": "x\u202e\u200b",
        "to": ["eve@kantholz.example"],
        "idempotency_key": "forged-one",
    }
    person = Person("decline")
    async with client(stage, "mail", person, log) as session:
        await session.call_tool("send_email", given)
    [asked] = person.asked
    _, because, *lines = asked.split("\n")
    assert "eve@" in because
    assert "jonas" not in because
    assert lines[0] == 'to: ["eve@kantholz.example"]'
    assert [line for line in lines if line.startswith("to:")] == ['to: ["eve@kantholz.example"]']
    assert "subject: x⟨U+202E⟩⟨U+200B⟩" in lines
    assert '> to: ["jonas@kantholz.example"]' in lines


async def test_what_is_switched_off_while_it_is_asked_about_does_not_run(
    stage: Stage, google: Google, log: Path
) -> None:
    person = Person(None)
    async with client(stage, "mail", person, log) as session:
        asking = asyncio.create_task(session.call_tool("send_email", letter("too-late")))
        await until(lambda: person.asked != [])
        with permissions(stage, send_email=False):
            person.says = "accept"
            person.answers.set()
            result = await asking
    assert (result.isError, text(result)) == (True, "it is switched off in tool_permissions.json")
    assert sent_with(google, "too-late") == []


@pytest.mark.parametrize(("says", "why"), [("decline", "the person said no"), ("cancel", "nobody answered")])
async def test_without_their_yes_nothing_goes_out(
    stage: Stage, google: Google, log: Path, says: Says, why: str
) -> None:
    async with client(stage, "mail", Person(says), log) as session:
        result = await session.call_tool("send_email", letter(f"not-{says}"))
    assert (result.isError, text(result)) == (True, why)
    assert sent_with(google, f"not-{says}") == []
    assert calls(stage) == [("send_email", "ask", why, "an-editor", "blocked")]


async def test_a_client_that_cannot_ask_writes_nothing(stage: Stage, google: Google, log: Path) -> None:
    async with client(stage, "mail", None, log) as session:
        result = await session.call_tool("send_email", letter("never-unasked"))
    assert result.isError
    assert "--client-asks" in text(result)
    assert sent_with(google, "never-unasked") == []
    [(_, verdict, why, _, status)] = calls(stage)
    assert (verdict, status, why) == ("ask", "blocked", text(result))


async def test_one_that_asks_by_itself_is_asked_nothing_and_the_record_says_so(
    stage: Stage, google: Google, log: Path
) -> None:
    person = Person("decline")
    async with client(stage, "mail", person, log, "--client-asks") as session:
        result = await session.call_tool("send_email", letter("asks-by-itself"))
    assert not result.isError, text(result)
    assert person.asked == []
    assert len(sent_with(google, "asks-by-itself")) == 1
    assert calls(stage) == [("send_email", "allow", None, "an-editor", "ok")]
    [(reason,)] = stage.sql("select reason from gate_requests order by id desc limit 1")
    assert "left to the client" in reason


@pytest.mark.parametrize("config", [(), ("--client-asks",)])
async def test_a_tool_that_is_switched_off_is_off_here_too(stage: Stage, log: Path, config: tuple[str, ...]) -> None:
    with permissions(stage, search_mail=False):
        async with client(stage, "mail", Person("accept"), log, *config) as session:
            result = await session.call_tool("search_mail", {"query": "from:bob"})
    assert (result.isError, text(result)) == (True, "it is switched off in tool_permissions.json")
    assert calls(stage) == [("search_mail", "deny", text(result), "an-editor", "blocked")]


async def test_the_record_has_no_text_of_the_mailbox(stage: Stage, google: Google, log: Path) -> None:
    google.deliver(BOB, "Fishpond", "The carp are called Ottokar and Wendelin.")
    async with client(stage, "mail", Person("accept"), log) as session:
        found = await session.call_tool("search_mail", {"query": "subject:Fishpond"})
        thread = (found.structuredContent or {})["messages"][0]["thread_id"]
        assert "Ottokar" in text(await session.call_tool("get_thread", {"thread_id": thread}))
        await session.call_tool("send_email", letter("carp-letter", text="Wendelin, by-the-pond."))
    for table in ("gate_requests", "gate_ended", "gate_calls", "gate_log"):
        [(kept,)] = stage.sql(f"select coalesce(string_agg(t::text, ' '), '') from {table} t")
        assert not [word for word in ("Ottokar", "Wendelin") if word in kept], table
    [(told,)] = stage.sql("select arguments from gate_requests order by id desc limit 1")
    assert json.loads(told) == {"to": ["bob@example.org"], "subject": "(4 characters)", "text": "(22 characters)"}


async def test_wrong_arguments_are_told_before_anybody_is_asked(stage: Stage, log: Path) -> None:
    person = Person("accept")
    async with client(stage, "mail", person, log) as session:
        assert "to: " in text(await session.call_tool("send_email", letter("wrong-letter", to=[])))
        with stage.account(mode="shadow"):
            assert "shadow mode" in text(await session.call_tool("send_email", letter("wrong-letter")))
    assert person.asked == []


@pytest.mark.parametrize(
    ("what", "tool", "arguments", "why"),
    [
        ("calendar", "create_event", {"title": "T", "start": "2026-05-04T15:00", "end": "2026-05-04T14:00"}, "after"),
        ("calendar", "create_event", {"title": "T", "start": "2026-02-30", "end": "2026-03-02"}, "is no time"),
        ("calendar", "update_event", {"event_id": "nothere1", "title": "T"}, "there is no such thing"),
        ("mail", "send_email", letter("wrong-one") | {"to": ["not an address"]}, "not an e-mail address"),
        ("mail", "send_email", letter("wrong-one") | {"to": ["eve@kanth\u043elz.example"]}, "not an e-mail address"),
        ("mail", "draft_reply", {"thread_id": "19000000000dddd0", "text": "Yes."}, "there is no thread"),
    ],
)
async def test_nobody_is_asked_about_what_can_not_be_done(
    stage: Stage, log: Path, what: What, tool: str, arguments: dict[str, Any], why: str
) -> None:
    person = Person("accept")
    async with client(stage, what, person, log) as session:
        result = await session.call_tool(tool, arguments)
    assert (result.isError, person.asked) == (True, [])
    assert why in text(result)
    [(called, verdict, reason, _, status)] = calls(stage)
    assert (called, verdict, reason, status) == (tool, "ask", text(result), "blocked")


async def test_the_question_says_whom_a_reply_reaches_and_which_event_is_changed(
    stage: Stage, google: Google, log: Path
) -> None:
    person = Person("decline")
    mail = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    event = google.add_event("Rehearsal of the choir", date(2026, 5, 4), date(2026, 5, 5))
    async with client(stage, "mail", person, log) as session:
        await session.call_tool("draft_reply", {"thread_id": google.message(mail).thread_id, "text": "It does."})
        reply = letter("in-a-thread") | {"thread_id": google.message(mail).thread_id, "subject": None}
        await session.call_tool("send_email", reply)
    async with client(stage, "calendar", person, log) as session:
        await session.call_tool("update_event", {"event_id": event, "title": "Choir"})
    drafted, sent, changed = person.asked
    assert "subject: Re: Lunch?" in sent
    assert ('to: ["bob@example.org"]' in drafted, "subject: Re: Lunch?" in drafted) == (True, True)
    assert "event: Rehearsal of the choir, Mon 04 May 2026" in changed


async def test_a_question_that_nobody_answers_ends_with_its_server(stage: Stage, google: Google, log: Path) -> None:
    person = Person(None)
    async with client(stage, "mail", person, log) as session:
        asking = asyncio.create_task(session.call_tool("send_email", letter("open-question")))
        await until(lambda: person.asked != [])
        asking.cancel()
    assert sent_with(google, "open-question") == []
    gone = ("send_email", "ask", "the program that asked has gone", "an-editor", "blocked")
    await until(lambda: calls(stage) == [gone])
