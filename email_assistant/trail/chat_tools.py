"""Tools that look into what the assistant knows: for a chat what waits, what mail came and what became of it; for who
drafts a reply what was said in other conversations.

Others wrote parts of what they tell: it is data, and stays within its line.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field

from email_assistant.inbox.items import Item, NoItem
from email_assistant.inbox.mails import Class, FoundMail, MailRow, Mails
from email_assistant.inbox.person import Inbox
from email_assistant.inbox.sentences import sentence
from email_assistant.mail.prompt import delimited, one_line
from email_assistant.tools.config import SEARCH_MAIL
from email_assistant.tools.spec import Arguments, Call, Tool, ToolError, ToolSpec
from email_assistant.trail.story import Trail

_MOST_WAITING: Final = 30
_MOST_MAILS: Final = 20
_ID: Final = 8  # characters of an item's id, which the person's other tools take as well
_CELL: Final = 200


class _Nothing(Arguments):
    pass


class _Find(Arguments):
    words: str = Field(max_length=500)
    classification: Class | None = None


class _Explain(Arguments):
    mail_id: str = Field(min_length=1, max_length=100)


class ListWaitingTool(Tool):
    spec = ToolSpec(
        name="list_waiting",
        description="What waits for the person in their inbox, oldest first: id, kind, mail, what would be done.",
        parameters={"properties": {}},
        arguments=_Nothing,
        review=None,
    )

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        account = call.account
        items, total = await self._inbox.waiting(account.user_id, account.id, but_run=call.run_id, most=_MOST_WAITING)
        more = [f"and {total - len(items)} more"] if total > len(items) else []
        return told([*(_waiting(item, call) for item in items), *more], "Nothing waits.")


class FindMailTool(Tool):
    spec = ToolSpec(
        name="find_mail",
        description="Received mail with all these words in sender, subject or text, newest first: "
        "id, date, sender, subject, class, state, reason.",
        parameters={
            "properties": {
                "words": {"type": "string", "description": "Empty: any"},
                "classification": {"type": "string", "enum": ["ignore", "notify", "respond"]},
            },
            "required": ["words"],
        },
        arguments=_Find,
        review=None,
    )

    def __init__(self, mails: Mails) -> None:
        self._mails = mails

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        given, account = _Find.model_validate(arguments), call.account
        found = await self._mails.find(account.user_id, account.id, given.words, given.classification, _MOST_MAILS)
        return told([_found(mail, call) for mail in found], "No such mail.")


class ExplainMailTool(Tool):
    spec = ToolSpec(
        name="explain_mail",
        description="What happened to a mail, step by step, and why it was sorted as it was.",
        parameters={"properties": {"mail_id": {"type": "string"}}, "required": ["mail_id"]},
        arguments=_Explain,
        review=None,
    )

    def __init__(self, trail: Trail) -> None:
        self._trail = trail

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        given, account = _Explain.model_validate(arguments), call.account
        try:
            events = await self._trail.of_mail(account.user_id, given.mail_id, account.address)
        except NoItem:
            raise ToolError("mail_id: the assistant knows no such mail; find_mail gives ids") from None
        return told([one_line(event.line(account.zone)) for event in events], "Nothing happened to it.")


def row(*cells: object) -> str:
    """The cells in one line. None of them can look like several."""
    return " | ".join(one_line(str(cell), _CELL).replace("|", "/") for cell in cells)


def told(rows: Sequence[str], nothing: str) -> str:
    """The lines as data for a prompt, or what to say if there are none."""
    return delimited("mail", "\n".join(rows)) if rows else nothing


def _waiting(item: Item, call: Call) -> str:
    mail = f"{item.sender or 'a chat'}: {item.subject or '(no subject)'}"
    return row(str(item.id)[:_ID], item.kind, mail, sentence(item, call.account.zone))


def _found(mail: MailRow, call: Call) -> str:
    return row(
        mail.id,
        f"{mail.received_at.astimezone(call.account.zone):%Y-%m-%d %H:%M}",
        mail.sender,
        mail.subject or "(no subject)",
        mail.classification or "not sorted",
        mail.state,
        mail.reason or "",
    )


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
