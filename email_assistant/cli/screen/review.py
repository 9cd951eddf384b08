"""What would be sent after an edit, and what the edit changed in it."""

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from email_assistant.cli.screen import words
from email_assistant.cli.screen.base import InboxScreen
from email_assistant.cli.screen.desk import Sight
from email_assistant.mail.address import address_of
from email_assistant.web.forms import Field


class ReviewScreen(InboxScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "send", "Do it as changed"),
        Binding("ctrl+s", "send", show=False),
        Binding("r", "back", "Change on"),
        Binding("escape", "back", show=False),
        Binding("u", "back", show=False),
        Binding("j", "scroll(2)", show=False),
        Binding("k", "scroll(-2)", show=False),
        Binding("z", "app.undo", show=False),
    ]

    def __init__(self, seen: Sight, typed: Mapping[str, str]) -> None:
        super().__init__()
        self._seen = seen
        self._typed = typed
        self._is_shown = False

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static("Comparing…", id="difference", markup=False)
        yield from self.compose_foot()

    def on_mount(self) -> None:
        self.run_worker(self._compare(), exit_on_error=False)

    async def _compare(self) -> None:
        form = self._seen.form
        fields = [pair for pair in zip(form.fields, form.typed(self._typed), strict=True) if _is_shown(*pair)]
        addresses = [address_of(part) for _, field in fields if field.holds_addresses for part in field.parts]
        try:
            strangers = await self.inbox.desk.strangers(self._seen.item, addresses)
        except Exception as error:
            self.inbox.complain(error)
            return
        shown = [words.difference(before, after, strangers) for before, after in fields]
        self.query_one("#difference", Static).update(Content("\n").join(shown))
        self._is_shown = True

    def action_send(self) -> None:
        """Only what was seen is sent."""
        if self._is_shown:
            answer = {"type": "edit", "args": self._seen.form.read(self._typed)}
            self.inbox.answer(self._seen.item, answer, then=self.inbox.to_list)

    def action_back(self) -> None:
        self.inbox.say("")
        self.dismiss()


def _is_shown(before: Field, after: Field) -> bool:
    return before.kind != "hidden" and bool(before.value or after.value)
