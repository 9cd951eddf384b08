"""What all screens of the inbox share."""

import asyncio
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer

from email_assistant.cli.screen.status import StatusLine

if TYPE_CHECKING:
    from email_assistant.cli.screen.app import InboxApp
    from email_assistant.cli.screen.desk import Sight

_AGAIN_SECONDS = 1.0


class InboxScreen(Screen[None]):
    """One screen, with the line at its foot that says what happened."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "app.keys", "Keys", key_display="?")]

    @property
    def inbox(self) -> "InboxApp":
        return cast("InboxApp", self.app)

    def compose_foot(self) -> ComposeResult:
        yield StatusLine()
        yield Footer(show_command_palette=False)

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


class TypingScreen(InboxScreen):
    """A screen in which the person writes about an item."""

    def __init__(self, seen: "Sight") -> None:
        super().__init__()
        self._seen = seen
        self._warned = False

    def leave(self, loss: str | None) -> None:
        """Go back; what would be lost is said first, once."""
        if loss and not self._warned:
            self._warned = True
            self.inbox.say(loss, is_error=True)
            return
        self.inbox.say("")
        self.dismiss()


class LiveScreen(InboxScreen):
    """A screen that shows what is in the database, and looks again whenever that has changed."""

    def __init__(self) -> None:
        super().__init__()
        self._stale = asyncio.Event()
        self._stale.set()

    def on_mount(self) -> None:
        self.run_worker(self._keep_fresh(), exit_on_error=False)

    def changed(self) -> None:
        """Look again. While that goes on, the keys are answered."""
        self._stale.set()

    async def load(self) -> None:
        """Read, then show."""
        raise NotImplementedError

    async def _keep_fresh(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                await self.load()
            except Exception as error:
                self.inbox.trouble(error)
                await asyncio.sleep(_AGAIN_SECONDS)
                self._stale.set()
            else:
                self.inbox.trouble(None)
