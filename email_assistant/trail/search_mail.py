"""`search_mail_tool`: what was said in other conversations, for whoever drafts a reply."""

import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field

from email_assistant.inbox.mails import FoundMail, Mails
from email_assistant.mail.prompt import delimited, one_line
from email_assistant.tools.config import SEARCH_MAIL
from email_assistant.tools.spec import Arguments, Call, Tool, ToolError, ToolSpec
from email_assistant.trail.chat_tools import row

_MOST: Final = 6
_LINES: Final = 3  # of each
_LINE: Final = 200  # characters
_WORD: Final = re.compile(r"[^\W_]+")
_ROW: Final = re.compile(r"^(\S+) \| \d{4}-\d\d-\d\d \| ", re.MULTILINE)


class _Search(Arguments):
    words: str = Field(max_length=500)


class SearchMailTool(Tool):
    spec = ToolSpec(
        name=SEARCH_MAIL,
        description="Find other mail with all these words.",
        parameters={"properties": {"words": {"type": "string"}}, "required": ["words"]},
        arguments=_Search,
        review=None,
    )

    def __init__(self, mails: Mails) -> None:
        self._mails = mails

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        words = _WORD.findall(_Search.model_validate(arguments).words.lower())
        if not words:
            raise ToolError("words: give at least one")
        found = await self._mails.search(call.account.id, " ".join(words), call.run["thread"], _MOST)
        if not found:
            return "No other mail has all these words; fewer may be found."
        return delimited("mail", "\n".join(line for mail in found for line in _told(mail, words, call)))


def mails_in(answer: str) -> list[str]:
    """Gmail's ids of the mails that an answer tells of. Nothing that stands in a mail can begin a line of one."""
    return _ROW.findall(answer)


def _told(mail: FoundMail, words: Sequence[str], call: Call) -> list[str]:
    who = f"to {', '.join(mail.to)}" if mail.own else mail.sender
    day = mail.received_at.astimezone(call.account.zone).date()
    lines = [one_line(line, _LINE) for line in _matching(mail.text, words)]
    return [row(mail.id, day, who, mail.subject or "(no subject)"), *(f"  {line}" for line in lines)]


def _matching(text: str, words: Sequence[str]) -> list[str]:
    """The lines that hold most of the words, in their order; of a text that holds none the first."""
    lines = [line for line in text.splitlines() if line.strip()]
    begins = re.compile(rf"\b({'|'.join(map(re.escape, words))})", re.IGNORECASE)
    held = {number: len({word.lower() for word in begins.findall(line)}) for number, line in enumerate(lines)}
    best = sorted((n for n in held if held[n]), key=lambda number: (-held[number], number))[:_LINES]
    return [lines[number] for number in sorted(best)] or lines[:1]
