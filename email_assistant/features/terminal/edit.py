"""An answer that is typed: to a question, what should be different, or the proposal changed."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Label, Static, TextArea

from email_assistant.cli.card import line
from email_assistant.features.terminal import words
from email_assistant.features.terminal.base import InboxScreen, TypingScreen
from email_assistant.features.terminal.desk import Sight
from email_assistant.inbox.items import Invalid
from email_assistant.inbox.sentences import sentence
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import plain
from email_assistant.tools.spec import ToolError
from email_assistant.tools.times import read_time
from email_assistant.web.forms import Field

_LONG = ("text", "json")
_HINTS = {
    "list": "addresses, set apart by commas",
    "time": "such as 2031-06-02T10:00",
    "number": "a whole number",
    "json": "JSON",
}


class RespondScreen(TypingScreen):
    """Answer a question, or say what should be different."""

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


class EditScreen(TypingScreen):
    """Change the proposal: a field for each argument, then the difference, then the answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "review", "See the difference, then send", priority=True),
        Binding("escape", "back", "Back"),
    ]

    def __init__(self, seen: Sight) -> None:
        super().__init__(seen)
        self._fields = [field for field in seen.form.fields if field.kind not in ("hidden", "said")]
        self._begun = _begun(seen)  # by argument, what stands in the fields at first

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            for field in self._fields:
                yield Label(self._label(field), markup=False)
                yield _editor(replace(field, value=self._begun.get(field.name, field.value)))
        yield from self.compose_foot()

    def on_mount(self) -> None:
        long = next((field for field in self._fields if field.kind == "text"), self._fields[0])
        self.set_focus(self.query_one(f"#{_id(long)}"))

    @property
    def typed(self) -> dict[str, str]:
        """By argument; what was not touched is the proposal's own, whatever of it can't be shown."""
        return {field.name: self._typed(field) for field in self._fields}

    def action_review(self) -> None:
        form, typed = self._seen.form, self.typed
        changed = form.changed(typed)
        if not changed:
            self.inbox.say("Nothing was changed yet.", is_error=True)
        elif wrong := next((each for each in changed if _is_no_time(each)), None):
            self.inbox.say(f"{wrong.label}: write a time {_HINTS['time']}.", is_error=True)
        else:
            try:
                self.inbox.desk.check(self._seen.item, form.read(typed))
            except (ToolError, Invalid) as error:
                self.inbox.say(str(error), is_error=True)
            else:
                self.inbox.say("")
                self.inbox.push_screen(ReviewScreen(self._seen, typed))

    def action_back(self) -> None:
        dropped = self.typed != {field.name: self._begun.get(field.name, field.value) for field in self._fields}
        is_new = dropped and self._seen.form.changed(self.typed)
        self.leave("Your changes are not sent; Escape once more drops them." if is_new else None)

    def _label(self, field: Field) -> str:
        zone = f", {self._seen.form.zone.key} time" if field.kind == "time" else ""
        hint = _HINTS.get(field.kind)
        return f"{field.label} ({hint}{zone})" if hint else field.label

    def _typed(self, field: Field) -> str:
        widget = self.query_one(f"#{_id(field)}")
        now = widget.text if isinstance(widget, TextArea) else widget.value if isinstance(widget, Input) else ""
        begun = replace(field, value=self._begun.get(field.name, field.value))
        return begun.value if now == _shown(begun) else now


class ReviewScreen(InboxScreen):
    """What would be sent after an edit, and what the edit changed in it."""

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
        fields = [pair for pair in zip(form.fields, form.typed(self._typed), strict=True) if _is_visible(*pair)]
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


def _begun(seen: Sight) -> dict[str, str]:
    """What the person had typed before they took it back."""
    match seen.item.taken_back:
        case {"type": "edit", "args": dict(args)}:
            return seen.form.filled_with(args)
        case _:
            return {}


def _editor(field: Field) -> Widget:
    if field.kind in _LONG:
        return TextArea(_shown(field), id=_id(field))
    return Input(_shown(field), id=_id(field), type="integer" if field.kind == "number" else "text")


def _id(field: Field) -> str:
    """A server's own names may hold what no id can."""
    return "arg-" + re.sub(r"[^\w-]", lambda found: f"-{ord(found[0]):x}-", field.name, flags=re.ASCII)


def _shown(field: Field) -> str:
    text = plain(field.value)
    return text if field.kind in _LONG else " ".join(text.split("\n"))


def _is_no_time(field: Field) -> bool:
    return field.kind == "time" and bool(field.value) and read_time(field.value) is None


def _is_visible(before: Field, after: Field) -> bool:
    return before.kind != "hidden" and bool(before.value or after.value)
