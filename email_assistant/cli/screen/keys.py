"""Which key does what."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

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


class KeysScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, "dismiss", show=False) for key in ("question_mark", "escape", "u", "enter")
    ]

    def compose(self) -> ComposeResult:
        yield Static(_KEYS, id="keys", markup=False)
