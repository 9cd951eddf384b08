"""Read what stands in a prompt: the mails, the person, the rules. Mail text is only ever read as data."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from email.utils import getaddresses, parseaddr

from email_assistant_servers.demo_model.protocol import Message
from email_assistant_servers.demo_model.times import named_dates
from email_assistant_servers.demo_model.wording import any_of

_MAIL_OPENING = re.compile(r"^<mail\b([^>]*)>[ \t]*$", re.MULTILINE)
_MAIL_CLOSING = "</mail>"
_HEADER = re.compile(r"^([A-Za-z][A-Za-z-]*):[ \t]*(.*)$")
_INSTRUCTION = re.compile(r"^Instruction from the person:\s*(.+)", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+(.+)$", re.MULTILINE)
_QUOTED_TAIL = re.compile(r"^(?:On|Am|Le) .{0,200}(?:wrote|schrieb|écrit)\b.{0,80}:\s*$.*", re.MULTILINE | re.DOTALL)
_QUOTED_LINE = re.compile(r"^>.*$\n?", re.MULTILINE)
_SALUTATION = re.compile(
    r"^(?:hi|hello|hey|dear|good (?:morning|afternoon|evening)|hallo|lieber?|liebe|guten (?:tag|morgen)|moin"
    r"|sehr geehrte[rs]?|bonjour|bonsoir|salut|cher|chère)\b[^,.!?\n]{0,40}[,!]\s*",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")
_WRAPPED = re.compile(r"(?<=[^\n]{60})\n(?!\n)")  # a short line ends where its writer ended it
_REPLY_PREFIX = re.compile(r"^\s*(?:(?:re|fwd?|aw|wg|tr)\s*:\s*)+", re.IGNORECASE)
_MAILBOX_NOT_PERSON = any_of(
    r"team|support|no[- ]?reply|info|news(?:letter)?|billing|services?|bot|automation|alerts?|office|hello|contact"
)


@dataclass(frozen=True)
class Mail:
    """One mail as it stands in a prompt; `headers` by lower-case name."""

    id: str
    headers: dict[str, str]
    text: str

    @property
    def sender(self) -> str:
        """The sender's address in lower case, or ""."""
        return parseaddr(self.headers.get("from", ""))[1].lower()

    @property
    def reply_address(self) -> str:
        """Where a reply goes: Reply-To if given, else the sender."""
        return parseaddr(self.headers.get("reply-to", ""))[1] or parseaddr(self.headers.get("from", ""))[1]

    @property
    def others(self) -> list[str]:
        """The addresses in To and Cc."""
        fields = [self.headers[name] for name in ("to", "cc") if name in self.headers]
        return [address for _, address in getaddresses(fields) if "@" in address]

    @property
    def sender_name(self) -> str:
        """The sender's full name, guessed from the address if none is given; "" if it is no person's."""
        name, address = parseaddr(self.headers.get("from", ""))
        name = name.strip(" \"'") or " ".join(re.findall(r"[^\W\d_]{2,}", address.partition("@")[0])).title()
        if _MAILBOX_NOT_PERSON.search(name):
            return ""
        last, comma, first = name.partition(",")
        return f"{first.strip()} {last.strip()}" if comma else name

    @property
    def subject(self) -> str:
        """The subject without its reply and forward prefixes."""
        return _REPLY_PREFIX.sub("", self.headers.get("subject", "")).strip()

    @property
    def new_text(self) -> str:
        """The text without quoted history."""
        return _QUOTED_LINE.sub("", _QUOTED_TAIL.sub("", self.text)).strip()

    @property
    def sentences(self) -> list[str]:
        """The sentences of the new text, without the salutation."""
        flowing = _SALUTATION.sub("", _WRAPPED.sub(" ", self.new_text))
        return [sentence.strip() for sentence in _SENTENCE_END.split(flowing) if sentence.strip()]

    @property
    def question(self) -> str:
        """The first question of the new text, shortened, or ""."""
        found = next((sentence for sentence in self.sentences if sentence.endswith("?")), "")
        return _SALUTATION.sub("", shorten(found, 200))

    @property
    def date(self) -> date | None:
        """The day it was written."""
        return next(iter(named_dates(self.headers.get("date", ""), None)), None)


@dataclass(frozen=True)
class Person:
    """For whom is written, and when: what the system message says."""

    name: str
    address: str
    timezone: str
    today: date | None
    rules: tuple[str, ...]


def read_mails(text: str) -> list[Mail]:
    """The mails in a prompt, in order. A block ends at the last closing line before the next one opens."""
    openings = list(_MAIL_OPENING.finditer(text))
    ends = [opening.start() for opening in openings[1:]] + [len(text)]
    return [_read_mail(opening[1], text[opening.end() : end]) for opening, end in zip(openings, ends, strict=False)]


def _read_mail(attributes: str, block: str) -> Mail:
    content = block.rpartition(_MAIL_CLOSING)[0] or block
    headers: dict[str, str] = {}
    lines = content.lstrip("\n").split("\n")
    while lines and (header := _HEADER.match(lines[0])):
        headers[header[1].lower()] = header[2].strip()
        lines.pop(0)
    found = re.search(r'\bid="([^"]*)"', attributes)
    return Mail(found[1] if found else "", headers, "\n".join(lines).strip())


def read_instruction(text: str) -> str:
    """The person's instruction, which stands behind the last mail, or ""."""
    found = _INSTRUCTION.search(text.rpartition(_MAIL_CLOSING)[2])
    return found[1].strip() if found else ""


def read_person(messages: Iterable[Message]) -> Person:
    """The person and their rules, from the system messages alone."""
    text = "\n".join(message.text for message in messages if message.role in ("system", "developer"))
    who = re.search(r"You write for ([^<\n]*?)\s*<([^>\s]+)>", text)
    zone = re.search(r"\bTimezone: ([\w+/-]+)", text)
    today = re.search(r"\bToday is ([^.\n]+)", text)
    return Person(
        name=who[1].strip() if who else "",
        address=who[2].lower() if who else "",
        timezone=zone[1] if zone else "UTC",
        today=next(iter(named_dates(today[1], None)), None) if today else None,
        rules=tuple(bullet.strip() for bullet in _BULLET.findall(text)),
    )


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, cut between words."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"
