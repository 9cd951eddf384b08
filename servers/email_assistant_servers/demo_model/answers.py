"""The demo's file of answers: what is said of a mail that it knows, word by word. No behaviour but to find it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, TypeAdapter

from .reading import PromptMail

_MEETING, _ANSWER = "{meeting}", "{answer}"


@dataclass(frozen=True)
class _Entry:
    sender: str
    says: re.Pattern[str]
    why: str
    class_: Annotated[Literal["respond", "notify", "ignore"], Field(alias="class")] = "respond"
    reply: str = ""
    question: str = ""
    greeting: str = ""
    sign_off: str = ""
    title: str = ""


@dataclass(frozen=True)
class Canned:
    """What the file has for one mail."""

    entry: _Entry
    facts: Mapping[str, str]
    """What stands in the mail, by the names that its expression gives."""

    @property
    def plans_meeting(self) -> bool:
        return _MEETING in self.entry.reply

    @property
    def question(self) -> str:
        """What only the person knows; "" for nothing."""
        return self.entry.question.format(**self.facts)

    def reply(self, meeting: str, answer: str) -> str:
        """The reply without greeting and sign-off; "" if it lacks something that it needs."""
        given = {"meeting": meeting, "answer": answer}
        needed = {name for name in given if f"{{{name}}}" in self.entry.reply}
        if not all(given[name] for name in needed) or (meeting and not self.plans_meeting):
            return ""
        return self.entry.reply.format(**self.facts, **given).strip()


def canned(mail: PromptMail) -> Canned | None:
    """The file's answer to a mail, if it has one."""
    text = " ".join(mail.new_text.split())
    for entry in _ENTRIES:
        if entry.sender == mail.sender and (found := entry.says.search(text)):
            return Canned(entry, found.groupdict())
    return None


def _read() -> list[_Entry]:
    written = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return TypeAdapter(list[_Entry]).validate_python(
        [{**each, "says": re.compile(each["says"], re.IGNORECASE)} for each in written]
    )


_ENTRIES = _read()
