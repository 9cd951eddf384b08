"""Change the proposal: a field for each argument, then the difference, then the answer."""

import re
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Label, TextArea

from email_assistant.cli.screen.base import TypingScreen
from email_assistant.cli.screen.desk import Sight
from email_assistant.cli.screen.review import ReviewScreen
from email_assistant.inbox.items import Invalid
from email_assistant.mail.charset import plain
from email_assistant.tools.meeting_time import read_time
from email_assistant.tools.spec import ToolError
from email_assistant.web.forms import Field

_LONG = ("text", "json")
_HINTS = {
    "list": "addresses, set apart by commas",
    "time": "such as 2031-06-02T10:00",
    "number": "a whole number",
    "json": "JSON",
}


class EditScreen(TypingScreen):
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
