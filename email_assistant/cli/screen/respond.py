"""Answer a question, or say what should be different."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Label, TextArea

from email_assistant.cli.screen.base import TypingScreen
from email_assistant.cli.screen.words import line
from email_assistant.inbox.sentences import sentence


class RespondScreen(TypingScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "send", "Send to the assistant", priority=True),
        Binding("escape", "back", "Back"),
    ]

    def compose(self) -> ComposeResult:
        item = self._seen.item
        yield Label(line(sentence(item, self._seen.zone)), markup=False)
        yield Label("Your answer" if item.kind == "question" else "What should be different?", markup=False)
        yield TextArea(self._before)
        yield from self.compose_foot()

    @property
    def _before(self) -> str:
        """What the person had typed before they took it back."""
        match self._seen.item.taken_back:
            case {"type": "response", "args": str(text)}:
                return text
            case _:
                return ""

    def action_send(self) -> None:
        answer = {"type": "response", "args": self.query_one(TextArea).text}
        self.inbox.answer(self._seen.item, answer, then=self.inbox.to_list)

    def action_back(self) -> None:
        text = self.query_one(TextArea).text
        is_new = bool(text.strip()) and text != self._before
        self.leave("Your text is not sent; Escape once more drops it." if is_new else None)
