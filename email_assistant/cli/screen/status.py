"""The line at the foot: what went wrong, else what was answered and how long it can be taken back."""

from typing import TYPE_CHECKING, cast

from textual.content import Content
from textual.widgets import Static

if TYPE_CHECKING:
    from email_assistant.cli.screen.app import InboxApp

_LOOK_SECONDS = 0.2


class StatusLine(Static):
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
