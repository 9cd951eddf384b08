"""The view as a whole: its screens, the answers that are on their way, and what is said about them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Input, TextArea

from email_assistant.cli.context import here
from email_assistant.cli.explain import explain
from email_assistant.db.presence import clock_time
from email_assistant.features.terminal import words
from email_assistant.features.terminal.base import KeysScreen, LiveScreen
from email_assistant.features.terminal.desk import Desk
from email_assistant.features.terminal.waiting import WaitingScreen
from email_assistant.inbox.items import Invalid, Item
from email_assistant.inbox.sentences import moment
from email_assistant.mail.charset import one_line
from email_assistant.memory.lessons import Learned

_BEAT_SECONDS = 15.0
_DEAF_SECONDS = 2.0
"""How often is looked for changes while none are told, since the database is gone or something stands before it."""
_DECIDING = ("a", "e", "h", "i")  # keys that decide, or lead to where the same key decides
_SLIP_SECONDS = 0.6  # in which the same key pressed again is a slip of the finger
_ANSWERS = "answers"
_TOLD = timedelta(seconds=30)  # how long it is said that something was learned, or that an answer is kept


class InboxApp(App[None]):
    TITLE = "Inbox"
    CSS_PATH = "inbox.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "Quit"),
        Binding("f", "forget", "Forget", show=False),
        Binding("S", "stop", "Stop everything", show=False),
        Binding("G", "go_on", "Go on", show=False),
        Binding("ctrl+c", "leave", show=False, priority=True),
        Binding("ctrl+q", "leave", show=False, priority=True),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self._answered: list[Item] = []  # by this view, latest last
        self._on_their_way: set[UUID] = set()
        self._learned: list[tuple[datetime, Learned]] = []  # what was told here, and when, latest last
        self._kept = (datetime.now(UTC), "")
        """When the latest answer was taken, and why nothing carries it out for now; empty if something does."""
        self._stopped_since: datetime | None = None
        self._told = asyncio.Lock()
        self._said = ("", False)
        self._trouble = ""
        self._pressed = ("", 0.0)  # the last key, and when

    async def on_event(self, event: events.Event) -> None:
        """Of a key that decides and is pressed twice by a slip, only the first press counts; in between, another key or
        the mouse makes it a new one."""
        if isinstance(event, events.MouseDown):
            self._pressed = ("", 0.0)
        elif (
            isinstance(event, events.Key) and not event.is_forwarded and not isinstance(self.focused, (Input, TextArea))
        ):
            key, at = self._pressed
            if event.key == key and key in _DECIDING and event.time - at < _SLIP_SECONDS:
                return
            self._pressed = (event.key, event.time)
        await super().on_event(event)

    def on_mount(self) -> None:
        self.push_screen(WaitingScreen())
        self.run_worker(self._look(), exit_on_error=False)
        self.run_worker(self._listen(), exit_on_error=False)
        self.set_interval(_DEAF_SECONDS, self._look_if_deaf)

    @property
    def line(self) -> tuple[str, bool]:
        """What is to be said now, and whether it is an error."""
        if self._trouble:
            return f"{here(self._trouble)}. Trying again.", True
        said, is_error = self._said if self._said[0] else (" ".join(self._way_back), False)
        return " ".join([*self._rest, *filter(None, [here(said)]), *self._news, *map(here, self._why_kept)]), is_error

    @property
    def _rest(self) -> list[str]:
        """First in the line, so that nothing else hides it."""
        if self._stopped_since is None:
            return []
        return [f"Everything is stopped since {clock_time(self._stopped_since)}; G goes on."]

    @property
    def _way_back(self) -> list[str]:
        """What was answered last and can be taken back."""
        item = self._to_undo()
        if item is None:
            return []
        done = words.done(item)
        if item.snoozed_until and item.status == "pending":
            return [f"{done}, back {moment(item.snoozed_until, item.zone)}. z takes it back."]
        if item.waits_for_more or item.undo_until is None:
            return [f"{done}; it {item.state}. z takes it back."]
        seconds = max(1, round((item.undo_until - datetime.now(UTC)).total_seconds()))
        return [f"{done}. z takes it back within {seconds} s."]

    @property
    def _news(self) -> list[str]:
        """What was learned last, just now."""
        since = datetime.now(UTC) - _TOLD
        said = [one_line(lesson.said) for at, lesson in self._learned if at > since]
        before = f"and {len(said) - 1} more; " if len(said) > 1 else ""
        return [f"Learned: {said[-1]} ({before}f forgets {'the last' if before else 'it'})"] if said else []

    @property
    def _why_kept(self) -> list[str]:
        """Last in the line, so that it hides nothing else."""
        at, why = self._kept
        return [why] if why and at > datetime.now(UTC) - _TOLD else []

    def say(self, text: str, *, is_error: bool = False) -> None:
        self._said = (text, is_error)

    def complain(self, error: BaseException) -> None:
        """Say what an error means to the person."""
        self.say(str(error) if isinstance(error, Invalid) else explain(error), is_error=True)

    def trouble(self, error: BaseException | None) -> None:
        """Something can't be read, until it can."""
        self._trouble = explain(error) if error else ""

    def has_answered(self, item_id: UUID) -> bool:
        """Or is about to: the list may show it gone before the answer's own way back has ended."""
        return item_id in self._on_their_way or any(item.id == item_id for item in self._answered)

    def to_list(self, *, search: bool = False) -> None:
        """Leave every other screen."""
        while not isinstance(self.screen, WaitingScreen):
            self.pop_screen()
        if search:
            self.screen.query_one(Input).focus()

    def answer(self, item: Item, answer: Mapping[str, Any], then: Callable[[], object] = lambda: None) -> None:
        """Give an answer; if it is taken, go on with `then`."""
        self._begin_once(item, lambda: self._answer(item, answer, then))

    def put_off(self, item: Item, then: Callable[[], object] = lambda: None) -> None:
        """Leave an item out of the list until tomorrow morning."""
        self._begin_once(item, lambda: self._put_off(item, then))

    def action_undo(self, item: Item | None = None) -> None:
        """Take back the answer to an item, else the latest one that can be."""
        chosen = item or self._to_undo()
        if chosen is None:
            self.say("There is nothing to undo.", is_error=True)
        else:
            self._begin(self._undo(chosen))

    def action_forget(self) -> None:
        """Take back what was learned last, of what was told here."""
        if self._learned:
            self._begin(self._forget(self._learned[-1][1]))
        else:
            self.say("Nothing was learned just now.", is_error=True)

    def action_stop(self) -> None:
        """Stop everything: no mailbox sends or changes anything any more."""
        self._begin(self._stop())

    def action_go_on(self) -> None:
        self._begin(self._go_on())

    def action_keys(self) -> None:
        self.push_screen(KeysScreen())

    async def action_leave(self) -> None:
        """Answers that are on their way arrive first; if one is refused, the person is told."""
        underway = [worker for worker in self.workers if worker.group == _ANSWERS]
        if underway:
            self.say("What you answered is on its way; then this ends.")
        arrived = [await worker.wait() for worker in underway]
        if all(arrived):
            self.exit()

    def _to_undo(self) -> Item | None:
        now = datetime.now(UTC)
        for each in reversed(self._answered):
            until = each.snoozed_until if each.status == "pending" else each.undo_until
            if each.waits_for_more or (until and until > now):
                return each
        return None

    def _begin_once(self, item: Item, step: Callable[[], Awaitable[None]]) -> None:
        """Take a step about an item, unless one is being taken."""
        if item.id not in self._on_their_way:
            self._on_their_way.add(item.id)
            self._begin(self._arrived(item, step()))

    def _begin(self, step: Awaitable[None]) -> None:
        """Take a step of the person's; leaving the screen doesn't stop it."""
        self.run_worker(self._taken(step), group=_ANSWERS, exit_on_error=False)

    async def _taken(self, step: Awaitable[None]) -> bool:
        """Whether it could be taken; the person is told why not."""
        try:
            await step
        except Exception as error:
            self.complain(error)
            return False
        finally:
            self._changed()
        return True

    async def _arrived(self, item: Item, step: Awaitable[None]) -> None:
        try:
            await step
        finally:
            self._on_their_way.discard(item.id)

    async def _answer(self, item: Item, answer: Mapping[str, Any], then: Callable[[], object]) -> None:
        self._answered.append(await self.desk.answer(item, answer))
        again = await self.desk.asked_again(self._answered[-1])
        self._kept = datetime.now(UTC), await self.desk.why_kept(item) or ""
        self.say("; ".join(f"You are asked again: {part.asked_because}" for part in again))
        then()

    async def _put_off(self, item: Item, then: Callable[[], object]) -> None:
        self._answered.append(await self.desk.put_off(item))
        self.say("")
        then()

    async def _undo(self, item: Item) -> None:
        await self.desk.undo(item)
        self._answered = [each for each in self._answered if each.id != item.id]
        self._kept = datetime.now(UTC), ""
        self.say("Taken back; it waits for you again.")

    async def _forget(self, lesson: Learned) -> None:
        await self.desk.unlearn(lesson)
        self._learned = [each for each in self._learned if each[1].id != lesson.id]
        self.say("Forgotten.")

    async def _stop(self) -> None:
        await self.desk.stop()
        self.say("Nothing is sent, booked or changed in Gmail; what you answer is kept.")

    async def _go_on(self) -> None:
        await self.desk.go_on()
        self.say("It goes on.")

    async def _look(self) -> None:
        self._stopped_since = await self.desk.stopped_since()
        await self._tell_learned()

    async def _tell_learned(self) -> None:
        """Look for what was learned; one look at a time."""
        async with self._told:
            self._learned += [(datetime.now(UTC), lesson) for lesson in await self.desk.learned()]

    async def _listen(self) -> None:
        with self.desk.feed.listener(self.desk.user_id) as listener:
            while True:
                if await listener.next(_BEAT_SECONDS):
                    self._changed()

    def _look_if_deaf(self) -> None:
        if not self.desk.feed.is_listening:
            self._changed()

    def _changed(self) -> None:
        self.run_worker(self._look(), exit_on_error=False)
        for screen in self.screen_stack:
            if isinstance(screen, LiveScreen):
                screen.changed()

    def _fatal_error(self) -> None:
        """Textual would print the local variables, which hold mail; whoever runs the view tells of the error."""
        self._close_messages_no_wait()


async def show_inbox(desk: Desk) -> None:
    """Run the view to its end. Raises whatever ended it, other than the person."""
    view = InboxApp(desk)
    await view.run_async()
    if view._exception is not None:
        raise view._exception
