"""What all screens of the inbox share: their keys, and the line at the foot."""

import asyncio
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Static

if TYPE_CHECKING:
    from email_assistant.features.terminal.app import InboxApp
    from email_assistant.features.terminal.desk import Sight

_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 0.2
_KEYS = """\
j  k      move
o  Enter  open
a         send, book, do what is shown, once you have seen its end; in the list: show it first; a notice: done
r         change it and see the difference; answer a question
m         where you changed its draft in Gmail: see the difference, and send that one
t         tell the assistant what should be different
s  w  d   have an open letter written shorter, friendlier, or to decline
h         later: it comes back tomorrow morning, or by z
e         dismiss; a notice: done
i         dismiss; a notice: not such mail, which is learned
v         the mail's files, to save them, and its invitation
z         undo what you did last, then what was before it, while its countdown runs
f         forget what was learned just now
u         back to the list, from a search to all of it, from a comparison to the edit
/         search
S         stop everything: nothing is sent or changed for any mailbox
G         go on after that
?         these keys
q         quit

Ctrl+S sends what you typed, Escape goes back."""


class StatusLine(Static):
    """The line at the foot: what went wrong, else what was answered and how long it can be taken back."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._shown: tuple[str, bool] | None = None

    def on_mount(self) -> None:
        self.set_interval(_LOOK_SECONDS, self._look)
        self._look()

    def _look(self) -> None:
        said = cast("InboxApp", self.app).line
        if said == self._shown:
            return
        self._shown = text, is_error = said
        self.set_class(is_error, "error")
        self.update(Content(text))


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


class KeysScreen(ModalScreen[None]):
    """Which key does what."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, "dismiss", show=False) for key in ("question_mark", "escape", "u", "enter")
    ]

    def compose(self) -> ComposeResult:
        yield Static(_KEYS, id="keys", markup=False)
