"""The full-screen inbox of the terminal: every key by Textual's pilot, and the command in a real terminal."""

import asyncio
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from pydantic import SecretStr
from textual import events
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from email_assistant.app import open_app
from email_assistant.cli.context import chosen
from email_assistant.features.terminal.app import InboxApp, show_inbox
from email_assistant.features.terminal.desk import Desk, Sight
from email_assistant.features.terminal.item import ItemScreen
from email_assistant.features.terminal.waiting import WaitingScreen
from email_assistant.gate.doubt import Doubt
from email_assistant.inbox.items import Item
from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import RuleChange
from email_assistant.settings import Settings
from tests.doubles import warm
from tests.integration.home import until
from tests.integration.test_api import BOB, DRAFT, MEETING, Home

SECRET_KEY = "6OGYLyGsqb31m8jzXYSdX6yFw5wBDjqdjzhTwMBRWNc="
CLEAR, SMALL = (120, 50), (60, 18)
HOSTILE = "[red]red[/red] [@click=app.quit]x[/] \x1b]0;owned\x07 \x1b[31mEVIL\x1b[0m \x9b31m \u202eabc \ud800 end"
HARMLESS = "[red]red[/red] [@click=app.quit]x[/] ]0;owned [31mEVIL[0m 31m abc \ufffd end"


@pytest.fixture
async def home(tmp_path: Path, database_url: str) -> AsyncIterator[Home]:
    settings = Settings(home=tmp_path, secret_key=SecretStr(SECRET_KEY), undo_seconds=60)
    async with open_app(settings, database_url) as app:
        yield Home(app)


@pytest.fixture
async def account(home: Home) -> UUID:
    return await home.account()


@dataclass
class View:
    """The person before the screen."""

    app: InboxApp
    pilot: Pilot[None]

    @property
    def text(self) -> str:
        """What can be read on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()  # no public way is as cheap: a screenshot is an SVG
        return "\n".join(strip.text for strip in strips)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    def press_at(self, key: str, seconds: float) -> None:
        """Press a key at a time of the clock that the screen goes by."""
        event = events.Key(key, key)
        event.time = seconds
        self.app.post_message(event)

    async def moves(self, key: str, seconds: float) -> None:
        """Press a key that shows more of a text, which is then on the screen: it is drawn after it has moved."""
        view = self.app.screen.query_one(VerticalScroll)
        above, before = view.scroll_offset.y, self._without_messages
        self.press_at(key, seconds)
        await until(lambda: view.scroll_offset.y > above and self._without_messages != before)
        before, now = "", self.text
        while before != now:
            await self.pilot.pause()
            before, now = now, self.text

    @property
    def _without_messages(self) -> str:
        return "\n".join(line for line in self.text.splitlines() if "This was not all of it" not in line)

    async def sees(self, *texts: str) -> None:
        try:
            await until(lambda: all(text in self.text for text in texts))
        except TimeoutError:
            raise AssertionError(f"{texts} are not on the screen:\n{self.text}") from None

    async def misses(self, text: str) -> None:
        await until(lambda: text not in self.text)

    async def marks(self) -> None:
        """A row is marked, which keys are about."""
        await until(lambda: isinstance(self.app.screen, WaitingScreen) and self.app.screen.marked)

    def seconds_left(self) -> int:
        """To take the last answer back, as the screen says."""
        [seconds] = re.findall(r"within (\d+) s\.", self.text)
        return int(seconds)

    async def opens(self, *keys: str) -> None:
        """Press keys that show an item."""
        await self.press(*keys)
        await self.sees("What the assistant proposes")


@asynccontextmanager
async def shown(home: Home, *, size: tuple[int, int] = CLEAR, wait_for: str = "waiting for you") -> AsyncIterator[View]:
    app = InboxApp(Desk(home.app))
    async with app.run_test(size=size) as pilot:
        view = View(app, pilot)
        await view.sees(wait_for)
        yield view


async def three(home: Home, account: UUID) -> list[Item]:
    """Three drafts on mails of their own, whose texts tell them apart."""
    return [await home.draft(account, args={**DRAFT, "response_text": f"Text {n}."}) for n in ("one", "two", "three")]


async def decided(home: Home, item: Item) -> Item:
    async def is_decided() -> bool:
        return (await home.item(item.id)).status == "decided"

    await until(is_decided)
    return await home.item(item.id)


class TestList:
    async def test_a_row_says_who_what_and_how_long(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        await home.execute("update inbox_items set created_at = created_at - interval '3 hours' where id = %s", item.id)
        async with shown(home) as view:
            [row] = [line for line in view.text.splitlines() if "Lunch?" in line]
            assert row.split() == ["3", "h", BOB, "Lunch?"]
            assert f"Reply to {BOB}: Friday is fine. Ada" in view.text

    async def test_it_says_when_nothing_waits(self, home: Home) -> None:
        async with shown(home, wait_for="Nothing waits for you."):
            pass

    async def test_what_comes_and_goes_elsewhere_is_shown_by_itself(self, home: Home, account: UUID) -> None:
        async with shown(home, wait_for="Nothing waits for you.") as view:
            item = await home.draft(account)
            await view.sees("1 waiting for you", "Friday is fine")
            await home.app.inbox.decide(home.app.user_id, item.id, {"type": "ignore"}, by="web")
            await view.sees("Nothing waits for you.")

    async def test_j_and_k_move_and_o_and_enter_open(self, home: Home, account: UUID) -> None:
        await three(home, account)
        async with shown(home) as view:
            await view.opens("j", "j", "k", "o")
            assert "Text two." in view.text
            await view.press("u")
            await view.sees("3 waiting for you")
            await view.opens("j", "enter")
            assert "Text three." in view.text

    async def test_the_mark_stays_on_its_item_when_others_go(self, home: Home, account: UUID) -> None:
        first, _, _ = await three(home, account)
        async with shown(home) as view:
            await view.press("j", "j")
            await home.app.inbox.decide(home.app.user_id, first.id, {"type": "ignore"}, by="web")
            await view.sees("2 waiting for you")
            await view.opens("o")
            assert "Text three." in view.text

    async def test_a_key_meant_for_an_item_that_went_away_reaches_no_other(self, home: Home, account: UUID) -> None:
        first, *others = await three(home, account)
        async with shown(home) as view:
            await home.app.inbox.decide(home.app.user_id, first.id, {"type": "accept"}, by="web")
            await view.sees("2 waiting for you")
            await view.press("i")
            await view.sees("No item is marked")
            assert [(await home.item(item.id)).status for item in others] == ["pending", "pending"]
            await view.opens("j", "o")
            assert "Text two." in view.text

    async def test_it_goes_on_where_a_page_ends(self, home: Home, account: UUID) -> None:
        _, _, run = await home.mail(account)
        for number in range(102):
            await home.ask(run, args={**DRAFT, "response_text": f"Number {number}."})
        async with shown(home, wait_for="100+ waiting for you") as view:
            await view.press("end")
            await view.sees("102 waiting for you")
            await view.press("end")
            await view.sees("Number 101.")

    async def test_slash_searches_and_u_ends_it(self, home: Home, account: UUID) -> None:
        await three(home, account)
        async with shown(home) as view:
            await view.press("slash", *"two")
            await view.sees("1 found")
            assert "Text two." in view.text
            assert "Text one." not in view.text
            await view.press("enter")
            await view.opens("o")
            await view.press("slash")
            await view.sees("1 found")
            assert isinstance(view.app.focused, Input)
            await view.press("enter", "u")
            await view.sees("3 waiting for you")

    async def test_letters_of_a_search_are_no_keys(self, home: Home, account: UUID) -> None:
        items = await three(home, account)
        async with shown(home) as view:
            await view.press("slash", *"aqiuz")
            await view.sees("0 found")
            assert {(await home.item(item.id)).status for item in items} == {"pending"}


class TestMeeting:
    async def test_what_stands_in_its_way_is_shown_and_so_is_that_nobody_could_look(
        self, home: Home, account: UUID
    ) -> None:
        item = await home.draft(account)
        conflicts = "update inbox_items set conflicts = %s where id = %s"
        await home.execute(conflicts, ["09:30-10:30 [b]Dentist[/b]\x1b[31m"], item.id)
        async with shown(home) as view:
            await view.opens("o")
            await view.sees("At that time: 09:30-10:30 [b]Dentist[/b]")
        await home.execute(conflicts, None, item.id)
        async with shown(home) as view:
            await view.opens("o")
            await view.sees("The calendar could not be read")


class TestAnswers:
    async def test_a_shows_what_would_be_done_before_it_accepts(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            now = time.monotonic()
            view.press_at("a", now)
            await view.sees("This is what would be done", "To: bob@example.org", "Subject: Re: Lunch?")
            view.press_at("a", now + 0.59)  # a slip of the finger, before anybody can have read it
            await view.press("j")
            await view.sees("This is what would be done")
            assert (await home.item(item.id)).status == "pending"
            await view.press("a")
            taken = await decided(home, item)
            assert (taken.decided_by, taken.decision) == ("terminal", {"type": "accept", "args": None})
            await view.sees("Nothing waits for you.", "Sending. z takes it back within")

    async def test_a_shows_all_of_it_before_it_does_anything(self, home: Home, account: UUID) -> None:
        item = await home.draft(account, args={**DRAFT, "response_text": "\n".join(f"line {n}" for n in range(30))})
        async with shown(home, size=SMALL) as view:
            await view.opens("o")
            now = time.monotonic()
            for _ in range(9):
                await view.moves("a", now := now + 1)
                assert (await home.item(item.id)).status == "pending"
                if "line 29" in view.text:
                    break
                await view.sees("This was not all of it: a shows more")
            while "line 29" in view.text:
                await view.press("k")  # what was read stays read
            view.press_at("a", now + 1)
            await decided(home, item)

    async def test_a_does_nothing_before_it_is_laid_out(
        self, home: Home, account: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The screen looks what is in sight just when the text has come, and still has the place of "Reading…"."""
        item = await home.draft(account, args={**DRAFT, "response_text": "\n".join(f"line {n}" for n in range(30))})
        async with shown(home, size=SMALL) as view:
            look = Desk.look

            async def looked_at_once(desk: Desk, item_id: UUID) -> Sight:
                sight = await look(desk, item_id)
                asyncio.get_running_loop().call_soon(view.app.screen._look)  # type: ignore[attr-defined]
                return sight

            monkeypatch.setattr(Desk, "look", looked_at_once)
            await view.opens("o")
            await view.press("a")
            await view.sees("This was not all of it: a shows more")
            assert (await home.item(item.id)).status == "pending"

    async def test_the_countdown_runs_and_z_takes_the_answer_back(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            await view.press("i")
            await view.sees("z takes it back within")
            began = view.seconds_left()
            await until(lambda: view.seconds_left() < began)
            await view.press("z")
            await view.sees("Taken back; it waits for you again.", "1 waiting for you")
            assert (await home.item(item.id)).status == "pending"
            await view.press("z")
            await view.sees("There is nothing to undo.")

    async def test_z_takes_back_one_step_after_the_other(self, home: Home, account: UUID) -> None:
        first, second, third = await three(home, account)
        async with shown(home) as view:
            await view.press("e")
            await view.sees("2 waiting for you", "Dismissed. z takes it back")
            await view.press("h")
            await view.sees("1 waiting for you", "Put off, back ", "z takes it back")
            await view.opens("o")
            assert "Text three." in view.text
            await view.press("h")
            await view.sees("Nothing waits for you.", "Put off, back ")
            for count in range(1, 4):
                await view.press("z")
                await view.sees(f"{count} waiting for you", "Taken back; it waits for you again.")
            assert {(await home.item(item.id)).snoozed_until for item in (first, second, third)} == {None}
            await view.press("z")
            await view.sees("There is nothing to undo.")

    async def test_e_is_done_with_a_notice_and_i_says_that_such_mail_needs_none(
        self, home: Home, account: UUID
    ) -> None:
        notices = []
        for _ in range(2):
            _, _, run = await home.mail(account)
            allowed = ["accept", "ignore", "response"]
            notices.append(await home.ask(run, "notify", {}, kind="notification", allowed=allowed))
        async with shown(home) as view:
            await view.press("e")
            await view.sees("1 waiting for you", "Done. z takes it back")
            await view.press("i")
            await view.sees("Nothing waits for you.", "Not such mail. z takes it back")
        answers = [(await decided(home, item)).decision or {} for item in notices]
        assert [answer["type"] for answer in answers] == ["accept", "ignore"]

    @pytest.mark.long
    async def test_one_key_pressed_twice_by_a_slip_decides_one_item(self, home: Home, account: UUID) -> None:
        first, second, third = await three(home, account)
        async with shown(home) as view:
            now = time.monotonic()
            view.press_at("i", now)
            await view.sees("2 waiting for you")
            view.press_at("i", now + 0.59)
            view.press_at("o", now + 0.59)
            await view.sees("What the assistant proposes", "Text two.")
            assert (await decided(home, first)).decision == {"type": "ignore", "args": None}
            assert (await home.item(second.id)).status == "pending"
            view.press_at("i", now + 0.6)  # another key came between
            await view.sees("1 waiting for you")
            await decided(home, second)
            await view.marks()
            view.press_at("i", now + 1.25)  # later than a slip
            await decided(home, third)

    async def test_the_mouse_between_two_presses_makes_the_second_a_new_one(self, home: Home, account: UUID) -> None:
        _, second, _ = await three(home, account)
        async with shown(home) as view:
            await view.press("i")
            await view.sees("2 waiting for you")
            await view.pilot.click("#count")
            await view.press("i")
            await decided(home, second)

    async def test_keys_of_the_comparison_do_what_the_help_says(self, home: Home, account: UUID) -> None:
        other = await home.draft(account)
        long = "\n".join(f"line {n}" for n in range(40))
        await home.draft(account, args={**DRAFT, "response_text": long})
        async with shown(home, size=SMALL) as view:
            await view.press("i")
            await view.sees("1 waiting for you")
            await view.press("r")
            await view.sees("See the difference", "line 1")
            await view.press(*"New ", "ctrl+s")
            await view.sees("line 1")
            assert "line 12" not in view.text
            await view.press("j", "j", "j", "j")
            await view.sees("line 12")
            await view.press("k", "k", "k", "k")
            await view.misses("line 12")
            await view.press("z")
            await view.sees("Taken back; it waits for you again.")
            assert (await home.item(other.id)).status == "pending"

    async def test_z_undoes_on_the_item_itself_too(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            await view.opens("o")
            await home.app.inbox.decide(home.app.user_id, item.id, {"type": "accept"}, by="web")
            await view.sees("You have answered: sending, on the page")
            await view.press("z")
            await view.misses("You have answered")
            assert (await home.item(item.id)).status == "pending"

    async def test_an_answer_is_final_when_its_countdown_is_over(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            await view.press("i")
            await view.sees("z takes it back")
            await home.execute("update inbox_items set undo_until = clock_timestamp() where id = %s", item.id)
            await view.press("z")
            await view.sees("already answered (dismissed) in the terminal")
            assert (await home.item(item.id)).status == "decided"

    @pytest.mark.parametrize("keys", [["i"], ["o", "i"]])
    async def test_i_ignores(self, home: Home, account: UUID, keys: list[str]) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            if len(keys) > 1:
                await view.opens(keys[0])
            await view.press(keys[-1])
            assert (await decided(home, item)).decision == {"type": "ignore", "args": None}
            await view.sees("Nothing waits for you.", "Dismissed. z takes it back")

    @pytest.mark.parametrize("keys", [["t"], ["o", "t"]])
    async def test_t_tells_the_assistant_what_should_be_different(
        self, home: Home, account: UUID, keys: list[str]
    ) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            if len(keys) > 1:
                await view.opens(keys[0])
            await view.press(keys[-1])
            await view.sees("What should be different?")
            await view.press("ctrl+s")
            await view.sees("a response is a text: say in words what you want")
            await view.press(*"quiz", "ctrl+s")
            assert (await decided(home, item)).decision == {"type": "response", "args": "quiz"}
            await view.sees("Nothing waits for you.", "Passed on to the assistant. z takes it back")

    async def test_a_text_that_was_taken_back_stands_in_its_field_again(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            await view.press("t")
            await view.sees("What should be different?")
            await view.press(*"quiz", "ctrl+s")
            await view.sees("Passed on to the assistant. z takes it back")
            await view.press("z")
            await view.sees("Taken back", "Friday is fine.")
            await view.press("j", "t")
            await view.sees("What should be different?", "quiz")
            await view.press("ctrl+s")
            assert (await decided(home, item)).decision == {"type": "response", "args": "quiz"}

    async def test_an_edit_that_was_taken_back_stands_in_its_fields_again(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        edited = {**item.args, "response_text": "Monday is fine."}
        await home.app.inbox.decide(home.app.user_id, item.id, {"type": "edit", "args": edited}, by="test")
        await home.app.inbox.undo(home.app.user_id, item.id)
        async with shown(home) as view:
            await view.press("r")
            await view.sees("Cc (addresses", "Monday is fine.")
            await view.press("ctrl+s")
            await view.sees("FridayMonday is fine.")
            await view.press("a")
            decision = (await decided(home, item)).decision
            assert decision
            assert decision["args"]["response_text"] == "Monday is fine."

    async def test_what_was_learned_is_told_once_and_forgotten_by_f(self, home: Home, account: UUID) -> None:
        memory = Memory.kept_in(home.app.pool)

        async def learn(text: str) -> None:
            known, item = await memory.rules(account, "response_preferences"), str(uuid4())
            rule = RuleChange(action="add", text=text).made(known, item, {"item": item})
            assert rule
            await memory.change(account, "response_preferences", rule, known, [])

        await learn("Keep replies short.")
        async with shown(home, wait_for="Nothing waits for you.") as view:
            await view.sees("Learned: Keep replies short. (f forgets it)")
            await learn("Sign with Ada.")
            await view.sees("Learned: Sign with Ada. (and 1 more; f forgets the last)")
            await view.press("f")
            await view.sees("Forgotten.", "Learned: Keep replies short. (f forgets it)")
        assert [rule.text for rule in await memory.rules(account, "response_preferences")] == ["Keep replies short."]
        async with shown(home, wait_for="Nothing waits for you.") as view:
            assert "Learned" not in view.text

    async def test_an_answer_that_nothing_works_on_is_said_to_be_kept_beside_its_way_back(
        self, home: Home, account: UUID
    ) -> None:
        await three(home, account)
        kept = "It is kept, and done once something works on it: nothing is running yet"
        async with shown(home) as view:
            await view.press("i")
            await view.sees("2 waiting for you", "Dismissed. z takes it back within", kept)
            await view.press("z")
            await view.sees("Taken back; it waits for you again.")
            assert kept not in view.text

    async def test_commands_that_it_names_are_for_the_same_installation(
        self, home: Home, account: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chosen, "env_file", Path("of work.env"))
        await three(home, account)
        async with shown(home, size=(200, 50)) as view:
            await view.press("i")
            await view.sees("start `email-assistant --env-file 'of work.env' up`")

    async def test_what_a_chat_without_a_mailbox_asks_is_shown(self, home: Home) -> None:
        none = await home.app.accounts.for_chat(home.app.user_id)
        await home.draft(none.id)
        async with shown(home) as view:
            await view.opens("o")

    async def test_what_was_typed_is_dropped_by_a_second_escape_only(self, home: Home, account: UUID) -> None:
        await home.draft(account)
        async with shown(home) as view:
            await view.press("t")
            await view.sees("What should be different?")
            await view.press(*"hey", "escape")
            await view.sees("Your text is not sent", "hey")
            await view.press("escape")
            await view.sees("What the assistant proposes")

    async def test_an_answer_that_was_given_elsewhere_is_told(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            await view.press("t")
            await view.sees("What should be different?")
            await home.app.inbox.decide(home.app.user_id, item.id, {"type": "accept"}, by="web")
            await view.press(*"no", "ctrl+s")
            await view.sees("already answered (approved) on the page at", "nothing was changed", "no")
            assert (await home.item(item.id)).decision == {"type": "accept", "args": None}
            await view.press("escape", "escape")
            await view.sees("You have answered: sending, on the page at")
            await view.press("r")
            await view.sees("; nothing was changed")
            assert "Cc (addresses" not in view.text

    async def test_what_an_item_does_not_take_is_told(self, home: Home, account: UUID) -> None:
        await home.draft(account, action="Question", args={"content": "Which?"}, kind="question", allowed=["ignore"])
        async with shown(home) as view:
            await view.opens("o")
            await view.press("a")
            await view.sees("This does not take that; it takes: Dismiss.")

    async def test_q_waits_for_an_answer_that_is_on_its_way(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            async with home.app.pool.connection() as conn, conn.transaction():
                await conn.execute("select from threads where id = %s for update", (item.thread_id,))
                await view.press("i")
                await until(lambda: self.waiting_for_a_lock(home))
                leaving = asyncio.create_task(view.press("q"))
                await view.sees("What you answered is on its way")
                assert (await home.item(item.id)).status == "pending"
            await leaving
            await until(lambda: not view.app.is_running)
            assert (await home.item(item.id)).status == "decided"

    async def test_q_stays_to_tell_that_an_answer_was_not_taken(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            async with home.app.pool.connection() as conn, conn.transaction():
                await conn.execute("select from threads where id = %s for update", (item.thread_id,))
                await view.press("i")
                await until(lambda: self.waiting_for_a_lock(home))
                leaving = asyncio.create_task(view.press("q"))
                await view.sees("What you answered is on its way")
                await conn.execute("update inbox_items set status = 'expired' where id = %s", (item.id,))
            await leaving
            await view.sees("too late: it can no longer be answered; nothing was changed")
            await view.press("q")
            await until(lambda: not view.app.is_running)

    async def waiting_for_a_lock(self, home: Home) -> bool:
        return bool(
            await home.column(
                "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
        )


class TestEdit:
    async def edit(self, view: View, name: str, text: str) -> None:
        """Put a text in the place of a field's."""
        await until(lambda: view.app.screen.query(f"#arg-{name}") and view.app.focused)  # which the form itself puts
        field = view.app.screen.query_one(f"#arg-{name}")
        field.focus()
        await until(lambda: view.app.focused is field)
        if isinstance(field, TextArea):
            field.select_all()
        else:
            assert isinstance(field, Input)
            field.select_all()
        await view.press("delete", *text)

    async def test_the_difference_is_shown_before_anything_is_sent(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            await view.press("r")
            await self.edit(view, "response_text", "Monday is fine.")
            await view.press("ctrl+s")
            await view.sees("FridayMonday is fine.", BOB)
            assert (await home.item(item.id)).status == "pending"
            await view.press("r")
            await view.sees("Cc (addresses")
            await self.edit(view, "additional_recipients", "eve@example.net")
            await view.press("ctrl+s")
            await view.sees("eve@example.net")
            assert "(new recipient" not in view.text  # the person has just typed it
            await view.press("a")
            args = {"email_address": BOB, "response_text": "Monday is fine."}
            taken = (await decided(home, item)).decision
            assert taken == {"type": "edit", "args": {**args, "additional_recipients": ["eve@example.net"]}}
            await view.sees("Nothing waits for you.", "Sending. z takes it back")

    async def test_m_sends_the_one_that_stands_in_gmail_once_the_difference_was_seen(
        self, home: Home, account: UUID
    ) -> None:
        item = await home.draft(account)
        args = {**item.args, "response_text": "Monday is fine."}
        found = {"did": "changed", "text": "To: bob\n\nMonday is fine.", "args": args, "message": None}
        async with home.app.pool.connection() as conn:
            await conn.execute(
                """insert into left_drafts (run_id, call_id, user_id, account_id, thread_id, args, state, found)
                   select run_id, call_id, user_id, account_id, thread_id, args, 'left', %s from inbox_items""",
                (json.dumps(found),),
            )
        async with shown(home) as view:
            await view.opens("o")
            await view.sees("In Gmail its draft says:", "Monday is fine.", "Here it says:", "Friday is fine.")
            await view.press("m")
            await view.sees("FridayMonday is fine.")
            assert (await home.item(item.id)).status == "pending"
            await view.press("a")
            decision = (await decided(home, item)).decision
        assert decision
        assert (decision["type"], decision["args"]["response_text"]) == ("edit", "Monday is fine.")

    async def test_what_is_typed_before_the_form_is_drawn_stands_in_it(self, home: Home, account: UUID) -> None:
        await home.draft(account)
        async with shown(home) as view:
            await view.opens("o")
            assert isinstance(view.app.screen, ItemScreen)
            view.app.screen.action_change()
            view.press_at("S", time.monotonic())  # which would stop everything elsewhere
            await view.sees("SFriday is fine.")
        assert (await home.app.accounts.get(account)).state == "active"

    async def test_an_address_that_was_proposed_stays_new_in_an_edit(self, home: Home, account: UUID) -> None:
        args = {**DRAFT, "additional_recipients": ["eve@example.net"]}
        await home.draft(account, args=args, new=["eve@example.net"])
        async with shown(home) as view:
            await view.sees("! ", "New recipient, never written to before: eve@example.net")
            await view.press("r")
            await self.edit(view, "response_text", "Monday is fine.")
            await view.press("ctrl+s")
            await view.sees("eve@example.net (new recipient: never written to before)")

    async def test_fields_have_types(self, home: Home, account: UUID) -> None:
        item = await home.draft(account, action="schedule_meeting_tool", args=MEETING, kind="meeting")
        async with shown(home) as view:
            await view.opens("o")
            await view.press("r")
            await view.sees("Starts (such as 2031-06-02T10:00, Europe/Berlin time)", "2031-06-02T10:45")
            await self.edit(view, "start_time", "noon")
            await view.press("ctrl+s")
            await view.sees("Starts: write a time such as")
            await self.edit(view, "start_time", "2031-06-02T09:30")
            await self.edit(view, "attendees", f"{BOB}, ")
            await view.press("ctrl+s")
            await view.sees("a Do it as changed")
            await view.press("a")
            changed = {"start_time": "2031-06-02T09:30:00+02:00", "attendees": [BOB]}
            assert (await decided(home, item)).decision == {"type": "edit", "args": {**MEETING, **changed}}

    async def test_a_refused_edit_is_told_and_kept(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            await view.press("r")
            await self.edit(view, "email_address", "nobody")
            await view.press("ctrl+s")
            await view.sees("a Do it as changed")
            await view.press("a")
            await view.sees("not an e-mail address: nobody")
            assert (await home.item(item.id)).status == "pending"
            await view.press("r")
            await view.sees("nobody", "Text")

    async def test_changes_are_dropped_by_a_second_escape_only(self, home: Home, account: UUID) -> None:
        await home.draft(account)
        async with shown(home) as view:
            await view.press("r")
            await self.edit(view, "response_text", "Mine.")
            await view.press("escape")
            await view.sees("Your changes are not sent", "Mine.")
            await view.press("escape")
            await view.sees("What the assistant proposes", "Friday is fine.")

    async def test_without_a_change_there_is_nothing_to_send(self, home: Home, account: UUID) -> None:
        hostile = {**DRAFT, "response_text": HOSTILE, "email_address": f"\x1b[1m{BOB}"}
        item = await home.draft(account, args=hostile)
        async with shown(home) as view:
            await view.press("r")
            await view.sees(HARMLESS)
            await view.press("ctrl+s")
            await view.sees("Nothing was changed yet.")
            await view.press("escape")
            await view.sees("What the assistant proposes")
            assert (await home.item(item.id)).status == "pending"


class TestItem:
    async def test_it_shows_all_that_a_decision_rests_on(self, home: Home, account: UUID) -> None:
        mail, _, run = await home.mail(account)
        await home.execute(
            """update mails set content = '{"sender": {"name": "Bob Berg", "email": "bob@example.org"},
               "to": [{"name": "", "email": "ada@example.com"}], "cc": [], "text": "Does Friday suit you?"}',
               triage_reason = 'Bob asks for a date.' where gmail_id = %s""",
            mail,
        )
        new = ["eve@example.net"]
        args = {**DRAFT, "additional_recipients": ["dan@example.net", *new]}
        await home.ask(run, args=args, new=new)
        async with shown(home) as view:
            await view.opens("o")
            await view.sees(
                "bob@example.org, to ada@example.com, waits since",
                "To: bob@example.org",
                "Cc: dan@example.net, eve@example.net (new recipient: never written to before)",
                "Subject: Re: Lunch?",
                "Friday is fine.",
                "It needs an answer. Bob asks for a date.",
                "Bob Berg <bob@example.org> to ada@example.com",
                "Does Friday suit you?",
                "A reply was drafted and shown to you.",
            )
            assert "dan@example.net (new" not in view.text

    async def test_j_and_k_scroll_and_u_goes_back(self, home: Home, account: UUID) -> None:
        await home.draft(account, args={**DRAFT, "response_text": "\n".join(f"line {n}" for n in range(40))})
        async with shown(home, size=SMALL) as view:
            await view.opens("o")
            assert "line 12" not in view.text
            await view.press("j", "j", "j")
            await view.sees("line 12")
            await view.press("k", "k", "k")
            await view.misses("line 12")
            await view.press("u")
            await view.sees("1 waiting for you")

    async def test_what_becomes_of_it_elsewhere_is_shown_by_itself(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            await view.opens("o")
            await home.app.inbox.decide(home.app.user_id, item.id, {"type": "response", "args": "Later."}, by="web")
            await view.sees("You have answered: passed on to the assistant, on the page at", ": Later.")


class TestAround:
    async def test_question_mark_shows_the_keys_and_q_quits(self, home: Home, account: UUID) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            await view.press("question_mark")
            await view.sees("undo what you did last")
            await view.press("i", "question_mark")
            await view.misses("undo what you did last")
            assert (await home.item(item.id)).status == "pending"
            await view.press("q")
            await until(lambda: not view.app.is_running)
            assert view.app.return_code == 0

    async def test_hostile_mail_shows_as_text(self, home: Home, account: UUID) -> None:
        args = {**DRAFT, "response_text": HOSTILE, "email_address": f"{BOB}\x1b[2J"}
        _, _, run = await home.mail(account, subject=f"S {HOSTILE.replace(chr(0xD800), '')}", sender="[b]x[/b]@y")
        await home.execute(
            "update mails set content = jsonb_build_object('text', %s::text), triage_reason = '[i]why[/i]'",
            HOSTILE.replace("\ud800", ""),
        )
        await home.ask(run, args=args)
        async with shown(home) as view:
            cut = HARMLESS.replace(" \ufffd", "")
            await view.sees(f"[b]x[/b]@y  S {cut}", f"[2J: {HARMLESS}")
            await view.opens("o")
            await view.sees(f"S {cut}", f"To: {BOB}[2J", HARMLESS, "It needs an answer. [i]why[/i]")
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", view.text)

    async def test_a_database_that_goes_away_is_told_and_comes_back(
        self, home: Home, account: UUID, database_url: str, postgres_url: str
    ) -> None:
        item = await home.draft(account)
        async with shown(home) as view:
            with unreachable(database_url, postgres_url):
                await view.sees("the database went away", "1 waiting for you")
            await view.misses("the database went away")
            await view.press("i")
            await decided(home, item)


@contextmanager
def unreachable(database_url: str, postgres_url: str) -> Iterator[None]:
    """No connection to the database lives or can be made while the block lasts."""
    name = database_url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(f'alter database "{name}" allow_connections false')
        conn.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
        yield
        conn.execute(f'alter database "{name}" allow_connections true')


class Terminal:
    """The real command, in a terminal of its own."""

    def __init__(self, database_url: str, folder: Path, *arguments: str, **settings: str) -> None:
        self._master, slave = pty.openpty()
        environment = {
            **os.environ,
            "DATABASE_URL": database_url,
            "EMAIL_ASSISTANT_HOME": str(folder),
            "EMAIL_ASSISTANT_SECRET_KEY": SECRET_KEY,
            "TERM": "xterm-256color",
            "COLUMNS": "100",
            "LINES": "30",
            **settings,
        }
        started = warm.command("-m", "email_assistant", *(arguments or ("inbox",)))
        self.process = subprocess.Popen(started, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder)
        os.close(slave)
        self.written = b""

    def until(self, text: bytes, after: bytes = b"") -> None:
        """Read what the program writes, until that is in it, behind something else."""
        end = time.monotonic() + 60
        while (at := self.written.find(after)) < 0 or text not in self.written[at + len(after) :]:
            assert time.monotonic() < end, self.written[-3000:]
            self._read()

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def interrupt(self) -> int:
        """Press Ctrl-C, again if nothing comes of it: readline hears none between its prompt and its wait."""
        while self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            patience = time.monotonic() + 10
            while self.process.poll() is None and time.monotonic() < patience:
                self._read()
        return self.end()

    def end(self) -> int:
        while self.process.poll() is None:
            self._read()
        with suppress(OSError):
            while self._read():
                pass
        os.close(self._master)
        return self.process.returncode

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 0.1)
        if not ready:
            return False
        with suppress(OSError):  # Linux's word for: nobody holds the other end any more
            self.written += (new := os.read(self._master, 65536))
            return bool(new)
        return False


async def test_in_a_real_terminal_no_escape_of_a_mail_gets_through(
    home: Home, account: UUID, database_url: str, tmp_path: Path
) -> None:
    _, _, run = await home.mail(account, subject="Hello \x1b]0;owned\x07\x1b[31mEVIL")
    await home.ask(run, args={**DRAFT, "response_text": HOSTILE})
    terminal = Terminal(database_url, tmp_path)
    try:
        await asyncio.to_thread(terminal.until, b"1 waiting for you")
        terminal.press(b"o")
        await asyncio.to_thread(terminal.until, b"What the assistant proposes")
        terminal.press(b"q")
        code = await asyncio.to_thread(terminal.end)
    finally:
        terminal.process.kill()
        terminal.process.wait()
    assert code == 0
    assert b"EVIL" in terminal.written
    assert b"\x1b]0;owned" not in terminal.written
    assert b"\x1b[31mEVIL" not in terminal.written
    assert b"Traceback" not in terminal.written


def plain_command(database_url: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = {
        **os.environ,
        "DATABASE_URL": database_url,
        "EMAIL_ASSISTANT_HOME": str(folder),
        "EMAIL_ASSISTANT_SECRET_KEY": SECRET_KEY,
        "COLUMNS": "400",
    }
    started = warm.command("-m", "email_assistant", *arguments)
    return subprocess.run(started, capture_output=True, env=environment, cwd=folder, timeout=60)


@pytest.mark.parametrize("command", [["inbox", "show"], ["why"], ["inbox", "list"], ["mails"]])
async def test_the_plain_subcommands_let_no_escape_through_either(
    home: Home, account: UUID, database_url: str, tmp_path: Path, command: list[str]
) -> None:
    mail, _, run = await home.mail(account, subject=HOSTILE.replace("\ud800", ""), reason="\x1b[31mEVIL [red]x[/red]")
    await home.execute("update mails set triage_reason = reason")
    item = await home.ask(run, args={**DRAFT, "response_text": HOSTILE})
    which = {"show": [str(item.id)], "why": [mail]}.get(command[-1], [])
    done = await asyncio.to_thread(plain_command, database_url, tmp_path, *command, *which)
    assert done.returncode == 0, done.stderr
    assert b"[31mEVIL" in done.stdout
    assert b"[red]" in done.stdout
    assert b"\x1b" not in done.stdout
    assert b"\x9b".decode("latin-1").encode() not in done.stdout


SOURCE = "Bob Berg's mail of 3 May 2031"
DOUBTS = [
    Doubt("leak", "Friday", SOURCE, ("eve@example.net",)),
    Doubt("unfounded", "Ada", ""),
    Doubt("unfounded", "fine", ""),
]
ASKED = "You are asked because you never named “https://x.example/”, which stands nowhere else"
LEAK = f"From {SOURCE}, which eve@example.net has not seen, as far as is known: “Friday”"
OWN = "Said by nobody before, so it is the assistant's own: “Ada”, “fine”"


async def marked(home: Home, account: UUID) -> Item:
    args = {**DRAFT, "additional_recipients": ["eve@example.net"]}
    because = ASKED.removeprefix("You are asked because ")
    return await home.draft(account, args=args, new=["eve@example.net"], doubts=DOUBTS, because=because)


async def test_each_mark_is_told_once_by_the_plain_subcommands(
    home: Home, account: UUID, database_url: str, tmp_path: Path
) -> None:
    item = await marked(home, account)
    new = "New recipient, never written to before: eve@example.net"
    for command in (["inbox", "list"], ["inbox", "show", str(item.id)]):
        done = await asyncio.to_thread(plain_command, database_url, tmp_path, *command)
        shown = " ".join(done.stdout.decode().split())
        assert [shown.count(line) for line in (new, ASKED, LEAK, OWN)] == [1, 1, 1, 1], shown


async def test_each_mark_is_told_once_on_the_full_screen(home: Home, account: UUID) -> None:
    await marked(home, account)
    async with shown(home, size=(400, 50)) as view:
        await view.sees(LEAK, OWN)
        assert [view.text.count(line) for line in (ASKED, LEAK, OWN)] == [1, 1, 1]
        await view.opens("o")
        assert [view.text.count(f"! {line}") for line in (ASKED, LEAK, OWN)] == [1, 1, 1]
        assert view.text.count("You are asked because") == 1


async def test_json_holds_all_of_a_hostile_mail_and_steers_nothing(
    home: Home, account: UUID, database_url: str, tmp_path: Path
) -> None:
    item = await home.draft(account, args={**DRAFT, "response_text": HOSTILE})
    done = await asyncio.to_thread(plain_command, database_url, tmp_path, "inbox", "show", str(item.id), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["args"]["response_text"] == HOSTILE
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.stdout.decode())


def test_without_a_terminal_it_names_the_subcommand(tmp_path: Path) -> None:
    environment = {**os.environ, "EMAIL_ASSISTANT_HOME": str(tmp_path)}
    started = warm.command("-m", "email_assistant", "inbox")
    done = subprocess.run(started, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: the full-screen inbox needs a terminal; here, use `email-assistant inbox list`\n"
    assert list(tmp_path.iterdir()) == []


async def test_a_mistake_of_the_program_ends_it_with_one_line_and_no_mail(
    home: Home, account: UUID, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await home.draft(account)

    async def crash(view: InboxApp, **_: object) -> None:
        async def mistake(pilot: Pilot[None]) -> None:
            secret = "words of a mail"
            view.call_later(lambda: secret.no_such_thing)  # type: ignore[attr-defined]
            await pilot.pause()

        await ordinary(view, headless=True, auto_pilot=mistake)  # type: ignore[arg-type]

    ordinary = InboxApp.run_async
    monkeypatch.setattr(InboxApp, "run_async", crash)
    with pytest.raises(AttributeError):
        await show_inbox(Desk(home.app))
    shown = capsys.readouterr()
    assert "words of a mail" not in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


async def test_one_key_stops_everything_and_another_goes_on(home: Home, account: UUID) -> None:
    item = await home.draft(account)
    async with shown(home) as view:
        await view.press("S")
        await view.sees("Everything is stopped since", "G goes on")
        assert (await home.app.accounts.get(account)).state == "stopped"
        await view.opens("enter")
        await view.press("a")
        await view.sees("Approved")
        await view.press("G")
        await view.misses("Everything is stopped since")
    assert (await home.app.accounts.get(account)).state == "active"
    assert (await home.app.inbox.get(home.app.user_id, item.id)).status == "decided"
