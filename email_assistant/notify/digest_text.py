"""What the daily mail says. What others wrote in it is data: one line each, without characters that nobody sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from email import policy
from email.message import EmailMessage
from uuid import UUID
from zoneinfo import ZoneInfo

from email_assistant.accounts.account import Account
from email_assistant.mail.charset import cut
from email_assistant.mail.invisible import clean
from email_assistant.memory.lessons import Learned

MOST_LINES = 20  # of each section; the rest is counted
_DAY = "X-Email-Assistant-Digest"  # the header that a digest is known by in the mailbox
_MOST_LENGTH = 160


@dataclass(frozen=True, slots=True)
class Line:
    sender: str | None
    subject: str | None
    what: str  # what waits, what was done, or why it failed
    id: UUID | None = None  # of what waits


@dataclass(frozen=True, slots=True)
class Section:
    total: int
    lines: Sequence[Line]  # the first of them


@dataclass(frozen=True, slots=True)
class Contents:
    waiting: Section
    done: Section
    failed: Section
    left_alone: int  # mails that needed nothing
    learned: Sequence[Learned] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.waiting.total or self.done.total or self.failed.total or self.learned)


def compose(account: Account, day: date, since: datetime, at: datetime, contents: Contents, inbox_url: str) -> bytes:
    """The whole mail, from the person to themselves, as RFC 5322 bytes."""
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = message["To"] = account.address
    message["Subject"] = f"Your mail on {day:%A}, {day.day} {day:%B %Y}: {_waiting(contents.waiting.total)}"
    message["Date"] = at.astimezone(account.zone)
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message[_DAY] = day.isoformat()
    message.set_content(_text(account.zone, since, contents, inbox_url), cte="quoted-printable")
    return message.as_bytes()


def _text(zone: ZoneInfo, since: datetime, contents: Contents, inbox_url: str) -> str:
    done = _lines(contents.done)
    if contents.left_alone:
        done.append(f"- {contents.left_alone} mail{'s' * (contents.left_alone != 1)} needed nothing")
    blocks = [
        [f"{_waiting(contents.waiting.total).capitalize()} for you: {inbox_url}", *_lines(contents.waiting)],
        [f"Done since {since.astimezone(zone):%A %H:%M}:", *(done or ["- nothing"])],
    ]
    if contents.failed.total:
        blocks.append(["Failed; in the inbox it can be tried again:", *_lines(contents.failed)])
    if contents.learned:
        learned = [f"- learned: {_one_line(each.said)} ({str(each.id)[:8]})" for each in contents.learned]
        back = f"`email-assistant memory undo ID` takes one back, and so does {inbox_url.rstrip('/')}/memory"
        blocks.append(["Learned from your answers:", *learned, back])
    blocks.append(["Your e-mail assistant wrote this mail. It reads no answers to it."])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _waiting(count: int) -> str:
    return f"{count or 'nothing'} {'wait' if count > 1 else 'waits'}"


def _lines(section: Section) -> list[str]:
    shown = [_line(line) for line in section.lines]
    more = section.total - len(shown)
    return [*shown, f"- and {more} more"] if more else shown


def _line(line: Line) -> str:
    mail = f"{line.sender or '(no sender)'}: {line.subject or '(no subject)'}"
    return f"- {_one_line(mail)} ({_one_line(line.what)})"


def _one_line(text: str) -> str:
    return cut(" ".join(clean(text).split()), _MOST_LENGTH)
