"""The list of what waits."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from email_assistant.features.terminal import words
from email_assistant.features.terminal.base import LiveScreen
from email_assistant.features.terminal.desk import Row
from email_assistant.features.terminal.item import ItemScreen
from email_assistant.web.wording import does

_PAGE = 100
_MOST = 1000  # no further than this the list goes; what is beyond is found by searching
_LONGEST_QUERY = 500
_TICK_SECONDS = 30.0


class Rows(OptionList):
    """The rows; Enter opens the one that is marked."""


class WaitingScreen(LiveScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "Down"),
        Binding("k", "move(-1)", "Up"),
        Binding("o", "open", "Open"),
        Binding("a", "accept", "Send, book, done"),
        Binding("r", "open('change')", "Change"),
        Binding("t", "open('respond')", show=False),
        Binding("h", "later", "Later"),
        Binding("e", "turn_down", "Dismiss"),
        Binding("i", "ignore", "Not such mail", show=False),
        Binding("z", "app.undo", "Undo"),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("u", "whole_list", "Whole list", show=False),
        Binding("escape", "whole_list", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Row] = []
        self._wanted = _PAGE
        self._has_more = False
        self._above = ""
        self._at = 0  # where the mark is, or was before its item went away

    def compose(self) -> ComposeResult:
        yield Input(placeholder="Search: words, parts of addresses", max_length=_LONGEST_QUERY)
        yield Static("Reading…", id="count", markup=False)
        yield Rows(markup=False)
        yield from self.compose_foot()

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(Rows).focus()
        self.set_interval(_TICK_SECONDS, self._draw)

    @property
    def marked(self) -> Row | None:
        """The row that keys apply to."""
        at = self.query_one(Rows).highlighted
        return None if at is None else self._rows[at]

    async def load(self) -> None:
        query = self.query_one(Input).value
        rows, has_more, self._above = await self.inbox.desk.waiting(query, self._wanted)
        self._show(rows, has_more)

    def _show(self, rows: list[Row], has_more: bool) -> None:
        marked = self.marked
        before, self._rows, self._has_more = self._rows, rows, has_more
        if [row.item.id for row in before] == [row.item.id for row in rows]:
            self._draw()
        else:
            options = self.query_one(Rows)
            top = options.scroll_offset.y
            options.set_options(Option(words.row(row)) for row in rows)
            options.highlighted = self._mark(marked, is_first=not before)
            options.scroll_to(y=top, animate=False)
            options.call_after_refresh(options.scroll_to_highlight)
        self.query_one("#count", Static).update(self._count())

    def _mark(self, marked: Row | None, *, is_first: bool) -> int | None:
        """Where the mark goes. Away from an item that someone else answered it goes by a key only: what the person
        presses next was meant for that item."""
        if is_first:
            return 0
        places = {row.item.id: place for place, row in enumerate(self._rows)}
        if marked is None:
            return None
        if marked.item.id in places:
            return places[marked.item.id]
        return self._at if self.inbox.has_answered(marked.item.id) else None

    def _draw(self) -> None:
        """The rows anew: how long they wait has changed."""
        options = self.query_one(Rows)
        for place, row in enumerate(self._rows):
            options.replace_option_prompt_at_index(place, words.row(row))

    def _count(self) -> str:
        count = f"{len(self._rows)}{'+' if self._has_more else ''}"
        if self.query_one(Input).value.strip():
            return f"{count} found; u shows all that waits"
        waits = f"{count} waiting for you, longest first" if self._rows else "Nothing waits for you."
        return f"{self._above} {waits}".strip()

    @on(Input.Changed)
    def _query_changed(self) -> None:
        self._wanted = _PAGE
        self.changed()

    @on(Input.Submitted)
    def _query_submitted(self) -> None:
        self.query_one(Rows).focus()

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        self._at = event.option_index
        if self._has_more and self._at >= len(self._rows) - 1 and self._wanted < _MOST:
            self._wanted += _PAGE
            self.changed()

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        self.action_open()

    def action_move(self, step: int) -> None:
        self.inbox.say("")
        options = self.query_one(Rows)
        if self._rows:
            here = options.highlighted
            to = self._at if here is None else here + step
            options.highlighted = min(max(to, 0), len(self._rows) - 1)

    def action_open(self, then: str = "") -> None:
        if row := self._chosen():
            self.inbox.say("")
            self.inbox.push_screen(ItemScreen(row.item.id, then))

    def action_accept(self) -> None:
        """Nothing is accepted from a row: it doesn't show the exact text and recipients."""
        if row := self._chosen():
            self.action_open()
            if row.item.kind == "notification":
                self.inbox.say("a puts the notice away, i says that such mail needs none, u goes back.")
            else:
                self.inbox.say(f"This is what would be done: a is {does([row.item])}, u goes back.")

    def action_turn_down(self) -> None:
        if row := self._chosen():
            self.inbox.answer(row.item, {"type": "done"})

    def action_later(self) -> None:
        if row := self._chosen():
            self.inbox.put_off(row.item)

    def action_ignore(self) -> None:
        if row := self._chosen():
            self.inbox.answer(row.item, {"type": "ignore"})

    def action_search(self) -> None:
        self.query_one(Input).focus()

    def action_whole_list(self) -> None:
        self.query_one(Input).value = ""
        self.query_one(Rows).focus()

    def _chosen(self) -> Row | None:
        if self.marked is None:
            self.inbox.say("No item is marked: j and k move to one.")
        return self.marked
