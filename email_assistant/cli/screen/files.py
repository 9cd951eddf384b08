"""What a mail holds besides its text, as Gmail has it: its invitation, and its files to be saved."""

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from email_assistant.cli.keep import keep
from email_assistant.cli.screen import words
from email_assistant.cli.screen.base import InboxScreen
from email_assistant.cli.screen.desk import Sight
from email_assistant.inbox.originals import Original

_SAVED_BY_KEY = 9


class FilesScreen(InboxScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"save({number})", show=False) for number in range(1, _SAVED_BY_KEY + 1)),
        Binding("u", "back", "Back"),
        Binding("escape", "back", show=False),
        Binding("j", "scroll(2)", show=False),
        Binding("k", "scroll(-2)", show=False),
    ]

    def __init__(self, seen: Sight) -> None:
        super().__init__()
        self._seen = seen
        self._mail: Original | None = None

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static("Asking Gmail…", id="files", markup=False)
        yield from self.compose_foot()

    def on_mount(self) -> None:
        self.run_worker(self._load(), exit_on_error=False)

    async def _load(self) -> None:
        try:
            self._mail = await self.inbox.desk.original(self._seen.item)
        except Exception as error:
            self.inbox.complain(error)
            return
        shown = words.beside_the_text(self._mail.contents, self._seen.zone)
        self.query_one("#files", Static).update(Content(shown))

    def action_save(self, number: int) -> None:
        if self._mail:
            self.run_worker(self._save(self._mail, number), exit_on_error=False)

    async def _save(self, mail: Original, number: int) -> None:
        try:
            path = await keep(mail, number, Path.cwd())
        except Exception as error:
            self.inbox.complain(error)
            return
        self.inbox.say(f"Saved as {words.line(path)}.")

    def action_back(self) -> None:
        self.inbox.say("")
        self.dismiss()
