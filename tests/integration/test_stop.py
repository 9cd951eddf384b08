"""One word stops everything, from wherever it is given; another has it go on, and all is as it was before."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import tuple_row

from email_assistant.db.lease import LeaseLost
from email_assistant.outgoing.letters import Letter
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.doubles.serving import Hold
from tests.doubles.stranger import Stranger
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop, log_in, reached
from tests.integration.scene import BOB, DONE, meeting, reply

LETTERS = 24
STARTS_AFTER = "select count(*) from email_assistant.effects where last_started_at > %s"
"""Effects begun after a time, to that of the database's clock."""


async def stop_in(home: Home, google: Google, call: str) -> None:
    """Have all done that is due, and stop everything while this request is under way."""
    hold = Hold()
    google.fault(call, hold=hold)
    working = asyncio.create_task(home.step())
    await reached(hold)
    await home.app.accounts.stop(home.app.user_id)
    hold.release()
    await working


async def go_on(home: Home) -> None:
    await home.app.accounts.go_on(home.app.user_id)
    await home.carry_on()


@in_one_loop
class TestEffects:
    @pytest.mark.parametrize("call", ["history.list", "drafts.create", "drafts.send"])
    async def test_none_starts_after_it_and_each_is_done_once_when_it_goes_on(
        self, home: Home, google: Google, model: Model, call: str
    ) -> None:
        model.script(lambda _: [reply("One."), reply("Two."), DONE])
        mail_id = await home.receive()
        for item in await home.pending():
            await home.decide(item, "accept")

        await stop_in(home, google, call)
        await home.step()

        on_the_wire = call == "drafts.send"
        assert [sent.text for sent in google.sent] == (["One."] if on_the_wire else [])
        assert len(google.calls("drafts.create")) == (0 if call == "history.list" else 1)
        await go_on(home)
        assert [sent.text for sent in google.sent] == ["One.", "Two."]
        assert google.drafts == []
        assert await home.is_done(mail_id)

    async def test_what_has_not_begun_can_be_taken_back_as_long_as_it_stands_still(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script(lambda _: [reply("One."), DONE])
        await home.receive()
        [item] = await home.pending()
        await home.decide(item, "accept")
        await home.app.accounts.stop(home.app.user_id)
        await home.step()

        assert (await home.item(item)).state == "goes out once you go on"
        await home.app.inbox.undo(home.app.user_id, item.id)
        await go_on(home)
        assert google.sent == []
        assert (await home.item(item)).status == "pending"

    async def test_a_meeting_waits_too(self, home: Home, google: Google, model: Model) -> None:
        model.script(lambda _: [meeting(), DONE])
        await home.receive()
        [item] = await home.pending()
        await home.decide(item, "accept")
        await home.app.accounts.stop(home.app.user_id)
        await home.step()
        assert google.calls("events.insert") == []
        await go_on(home)
        assert len(google.calls("events.insert")) == 1

    async def test_no_mail_is_marked_as_read(self, home: Home, google: Google, model: Model) -> None:
        model.script(lambda _: [reply("One."), DONE])
        mail_id = await home.receive()
        [item] = await home.pending()
        await home.decide(item, "accept")
        await stop_in(home, google, "drafts.send")
        assert "UNREAD" in google.message(mail_id).labels
        await go_on(home)
        assert "UNREAD" not in google.message(mail_id).labels

    async def test_no_label_is_made_or_set(self, home: Home, google: Google, model: Model) -> None:
        model.on_triage("ignore")
        mail_id = google.deliver(BOB, "Offer", "Buy now.")
        await home.sync()
        await stop_in(home, google, "labels.list")
        await home.step()
        assert google.calls("labels.create") == []
        assert google.labels_of(mail_id) == set()
        await go_on(home)
        assert google.labels_of(mail_id) == {"Assistant/Ignored"}

    async def test_nothing_is_begun_at_a_server_of_somebody_else(
        self, open_home: OpenHome, tmp_path: Path, google: Google, model: Model
    ) -> None:
        model.script(lambda _: [reply("One."), meeting(), DONE])
        tools = tmp_path / "tools.yaml"
        with Stranger() as stranger:
            theirs = {"schedule_meeting_tool": {"backend": "stranger"}}
            tools.write_text(json.dumps({"servers": {"stranger": {"url": stranger.url}}, "tools": theirs}))
            async with open_home(tools=tools) as home:
                await home.receive()
                for item in await home.pending():
                    await home.decide(item, "accept")
                await stop_in(home, google, "drafts.send")
                await home.step()
                assert (len(google.sent), stranger.calls) == (1, [])
                await go_on(home)
                assert [name for name, _ in stranger.calls] == ["schedule_meeting_tool"]

    async def test_nothing_is_looked_up_that_the_model_asks_for_then(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script([[tool("check_calendar_tool", dates=["02-06-2031"])], [reply("One."), DONE]])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        await home.sync()
        hold = Hold()
        model.fault("response", hold=hold)
        working = asyncio.create_task(home.step())
        await reached(hold)
        await home.app.accounts.stop(home.app.user_id)
        hold.release()
        await working
        assert google.calls("events.list") == []
        await go_on(home)
        assert google.calls("events.list") != []
        assert [item.kind for item in await home.pending()] == ["draft"]

    async def test_a_letter_that_a_program_or_the_digest_sends_waits_between_its_draft_and_its_sending(
        self, home: Home, google: Google
    ) -> None:
        async def write() -> Letter:
            return Letter(b"To: bob@example.org\r\nFrom: ada@example.com\r\nSubject: Hello\r\n\r\nHello.", None)

        async def send() -> object:
            gmail = (await home.app.clients.get(home.account_id)).gmail
            return await home.app.outbox.send(gmail, await home.account(), "program", "key", {}, write)

        hold = Hold()
        google.fault("drafts.create", hold=hold)
        sending = asyncio.create_task(send())
        await reached(hold)
        await home.app.accounts.stop(home.app.user_id)
        hold.release()
        with pytest.raises(LeaseLost):
            await sending
        with pytest.raises(LeaseLost):
            await send()
        assert google.sent == []
        await home.app.accounts.go_on(home.app.user_id)
        await send()
        assert len(google.sent) == 1
        assert google.drafts == []


@in_one_loop
class TestAccounts:
    async def test_one_that_was_paused_before_is_paused_after(self, home: Home) -> None:
        await home.app.accounts.set_state(home.account_id, "paused")
        await home.app.accounts.stop(home.app.user_id)
        assert (await home.account()).state == "paused"
        await home.app.accounts.go_on(home.app.user_id)
        assert (await home.account()).state == "paused"

    async def test_one_that_is_resumed_or_logged_in_meanwhile_waits_with_the_others(
        self, home: Home, google: Google, tmp_path: Path
    ) -> None:
        accounts = home.app.accounts
        await accounts.set_state(home.account_id, "paused")
        await accounts.stop(home.app.user_id)
        await accounts.set_state(home.account_id, "active")
        assert (await home.account()).state == "stopped"
        await accounts.set_state(home.account_id, "login", "the login has expired")
        await log_in(home.app, google, tmp_path)
        assert (await home.account()).state == "stopped"
        assert await accounts.pollable() == []
        await accounts.go_on(home.app.user_id)
        assert (await home.account()).state == "active"

    async def test_stopping_twice_changes_nothing_more(self, home: Home) -> None:
        accounts, user = home.app.accounts, home.app.user_id
        assert await accounts.stopped_since(user) is None
        await accounts.stop(user)
        since = await accounts.stopped_since(user)
        await accounts.stop(user)
        assert await accounts.stopped_since(user) == since
        assert await accounts.go_on(user) == [home.account_id]
        assert await accounts.go_on(user) == []


class TestProgram:
    """The program as processes."""

    def test_nothing_starts_in_any_process_while_much_goes_out(
        self, start: Start, google: Google, model: Model, database_url: str
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        daemon = start()
        for number in range(LETTERS):
            google.deliver(BOB, f"Question {number}", "Does Friday suit you?")
        items = daemon.pending(LETTERS)
        daemon.worker()
        daemon.worker()
        stopped = daemon.cli("stop")
        assert "Everything is stopped since" in stopped
        for item in items:
            daemon.accept(item)
        assert google.sent == []

        assert daemon.http.post("/api/go-on").json() == {"stopped_since": None}
        daemon.wait_for(lambda: len(google.sent) >= LETTERS // 6, "some are sent")
        assert daemon.http.post("/api/stop").json()["stopped_since"]
        with looking(database_url) as ask:
            [stopped_at] = ask("select clock_timestamp()")
            daemon.wait_for(lambda: ask("select clock_timestamp() > %s + interval '4 s'", stopped_at)[0], "time passes")
            [begun] = ask(STARTS_AFTER, stopped_at)
            assert begun == 0
        assert len(google.sent) < LETTERS, "nothing was left to be stopped"

        daemon.cli("go-on")
        for item in items:
            daemon.until_mail(item["mail_id"], "done")
        assert sorted(sent.subject for sent in google.sent) == sorted(f"Re: Question {n}" for n in range(LETTERS))
        assert google.drafts == []

    def test_it_is_said_wherever_one_looks(self, daemon: Daemon) -> None:
        assert "Everything is stopped" not in daemon.cli("status")
        daemon.cli("stop")
        assert "Everything is stopped since" in daemon.cli("status")
        assert daemon.cli("status", "--json")["stopped_since"]
        assert daemon.http.get("/api/accounts").json()["items"][0]["state"] == "stopped"
        refused = daemon.http.post("/run", json={"thread_id": "t", "user_request": "What is up?"})
        assert refused.status_code == 409, refused.text
        assert "everything is stopped" in refused.text
        assert "goes on" in daemon.cli("go-on")
        assert daemon.cli("status", "--json")["stopped_since"] is None

    @pytest.mark.parametrize(
        "page",
        [
            "/",
            "/mails",
            "/memory",
            "/activity",
            "/rehearsal",
            "/accounts",
            "/agents",
            "/chat",
            "/chat/new",
            "/tools",
            "/sessions",
            "/docs",
        ],
    )
    def test_every_page_stops_and_goes_on_without_script(self, daemon: Daemon, page: str) -> None:
        def press(action: str, said: str) -> str:
            shown = daemon.http.get(page).text
            assert f'action="{action}"' in shown
            answer = daemon.http.post(action, headers={"Referer": f"{daemon.http.base_url.join(page)}"})
            assert answer.headers["location"] == page
            then = daemon.http.get(page).text
            assert (said in then) == (action == "/stop")
            return then

        assert re.search(r"Everything is stopped since \d\d:\d\d", press("/stop", "Everything is stopped since"))
        press("/go-on", "Everything is stopped since")

    def test_a_stranger_decides_nothing_of_where_the_button_leads(self, daemon: Daemon) -> None:
        answer = daemon.http.post("/stop", headers={"Referer": "https://evil.example/x"})
        assert answer.headers["location"] == "/"


@contextmanager
def looking(database_url: str) -> Iterator[Any]:
    """What the database answers in one row."""
    with psycopg.connect(database_url, autocommit=True, row_factory=tuple_row) as conn:

        def ask(query: str, *parameters: object) -> tuple[Any, ...]:
            row = conn.execute(query.encode(), parameters).fetchone()
            assert row is not None
            return row

        yield ask
