"""A person's own mailbox file: read once for who belongs to whom, once for the mails themselves."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesHeaderParser
from itertools import islice
from pathlib import Path

from . import mime
from .mailbox import SandboxMailbox
from .search import CATEGORIES
from .threads import SandboxThreads

DEFAULT_ADDRESS = "you@mailbox.example"
_AT_ONCE = 500

# The standard library's mailbox.mbox begins a new mail at every line that starts with "From ", and so tears mails whose
# writer didn't quote such a line. A separator has a date: https://datatracker.ietf.org/doc/html/rfc4155#appendix-A
_SEPARATOR = re.compile(rb"From .*?\b((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.*\d\d:\d\d.*)\r?\n?")

# Labels as Google's own export writes them in X-Gmail-Labels. None: known, and no label.
_EXPORTED_LABELS = {
    **{name: name.upper() for name in ("inbox", "sent", "unread", "spam", "trash", "starred", "important", "chat")},
    **{f"category {name}": label for name, label in CATEGORIES.items()},
    "category personal": "CATEGORY_PERSONAL",
    "opened": None,
    "archived": None,
}
_DRAFTS = {"draft", "drafts"}
_WANTED = "give a mailbox exported as .mbox, such as Google Takeout's, unpacked"
_PACKED = {b"\x1f\x8b": "gzip", b"PK": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}  # what packed files begin with
_HEADER = re.compile(rb"[!-9;-~]+:[ \t]")


class NotAnMbox(ValueError):
    """The file is no mailbox; the message says why, for people."""


@dataclass(frozen=True)
class MboxEntry:
    """One mail of the file: the date of its From_ line, and its bytes as they stand there."""

    from_date: str
    raw: bytes


@dataclass
class Survey:
    """What a first reading of a file finds out."""

    mails: int = 0
    conversations: SandboxThreads = field(default_factory=SandboxThreads)
    delivered_to: Counter[str] = field(default_factory=Counter)
    original_to: Counter[str] = field(default_factory=Counter)

    @property
    def address(self) -> str:
        """Whose mailbox it is, as far as the file tells."""
        counter = self.delivered_to or self.original_to
        return counter.most_common(1)[0][0] if counter else DEFAULT_ADDRESS


@dataclass(frozen=True)
class Loaded:
    """How many messages were new, and how many were in the store already (or twice in the file)."""

    new: int
    known: int


def entries(path: Path) -> Iterator[MboxEntry]:
    """The mails of a file, in order. Raises NotAnMbox, OSError."""
    _check(path)
    with path.open("rb") as file:
        date: str | None = None
        lines: list[bytes] = []
        for line in file:
            separator = _SEPARATOR.fullmatch(line)
            if separator is None and date is None:
                if line.strip():
                    raise NotAnMbox(f"{path} is no mbox file: {_kind(line)}; {_WANTED}")
            elif separator is None:
                lines.append(line)
            else:
                if date is not None:
                    yield MboxEntry(date, _body(lines))
                date, lines = separator[1].decode("latin-1"), []
        if date is None:
            raise NotAnMbox(f"{path} is empty; {_WANTED}")
        yield MboxEntry(date, _body(lines))


def _check(path: Path) -> None:
    """Raises NotAnMbox if there is nothing to read, or never an end of it."""
    if not path.exists():
        raise NotAnMbox(f"{path}: there is no such file; {_WANTED}")
    if not path.is_file():
        raise NotAnMbox(f"{path} is {'a folder' if path.is_dir() else 'no file'}; {_WANTED}")
    try:
        path.open("rb").close()
    except OSError as error:
        raise NotAnMbox(f"{path} can't be read ({error.strerror})") from None


def _kind(line: bytes) -> str:
    """What a file seems to be, by its first line that is not empty."""
    if packed := next((name for start, name in _PACKED.items() if line.startswith(start)), None):
        return f"it is packed by {packed}"
    if _HEADER.match(line):
        return "it looks like one single mail"
    return "it does not begin with a 'From ' line"


def survey(path: Path) -> Survey:
    """Read the headers of the whole file. Raises NotAnMbox, OSError."""
    found = Survey()
    for entry in entries(path):
        node = _headers(entry.raw)
        found.mails += 1
        found.conversations.join([mime.identity(entry.raw, node), *(_google_thread(node) or mime.references(node))])
        found.delivered_to.update(mime.addresses(node, "delivered-to"))
        found.original_to.update(mime.addresses(node, "x-original-to"))
    return found


def load(
    path: Path, found: Survey, mailbox: SandboxMailbox, progress: Callable[[int], None] = lambda _: None
) -> Loaded:
    """Store the mails that the mailbox lacks, some hundred in a transaction. `progress`: told how many of the file were
    looked at so far. Raises NotAnMbox, OSError."""
    loader = _Loader(mailbox, found.conversations)
    mails = entries(path)
    while batch := list(islice(mails, _AT_ONCE)):
        with mailbox.store.transaction():
            for entry in batch:
                loader.take(entry)
        progress(loader.new + loader.known)
    return Loaded(loader.new, loader.known)


class _Loader:
    def __init__(self, mailbox: SandboxMailbox, conversations: SandboxThreads) -> None:
        self.new = 0
        self.known = 0
        self._mailbox = mailbox
        self._conversations = conversations
        known = mailbox.store.rows("SELECT identity, thread_id FROM messages")
        self._here: dict[str, str] = {row["identity"]: row["thread_id"] for row in known}
        self._threads = {conversations.find(one): thread for one, thread in self._here.items()}
        self._latest = 0

    def take(self, entry: MboxEntry) -> None:
        node = _headers(entry.raw)
        identity = mime.identity(entry.raw, node)
        labels = self._labels(node)
        if identity in self._here:
            self.known += 1
        elif labels is not None:
            self._here[identity] = self._store(entry, node, identity, labels)
            self.new += 1

    def _store(self, entry: MboxEntry, node: Message, identity: str, labels: set[str]) -> str:
        conversation = self._conversations.find(identity)
        known_thread = self._threads.get(conversation) or next(iter(_google_thread(node)), None)
        message_id = self._mailbox.insert(entry.raw, labels, self._when(entry, node), known_thread)
        return self._threads.setdefault(conversation, known_thread or message_id)

    def _when(self, entry: MboxEntry, node: Message) -> int:
        dated = mime.date_ms(node) or mime.instant_ms(entry.from_date)
        self._latest = self._latest + 1 if dated is None else dated
        return self._latest

    def _labels(self, node: Message) -> set[str] | None:
        """The labels a mail gets; None for a draft, which is left out."""
        exported = _exported(node)
        names = {name.lower() for name in exported}
        if names & _DRAFTS:
            return None
        if names & set(_EXPORTED_LABELS):
            return {label for name in exported if (label := self._label(name)) is not None}
        mine = self._mailbox.address in mime.addresses(node, "from")
        return {"SENT"} if mine else {"INBOX", "UNREAD"}

    def _label(self, name: str) -> str | None:
        if name.lower() in _EXPORTED_LABELS:
            return _EXPORTED_LABELS[name.lower()]
        return self._mailbox.label_named(name) or self._mailbox.create_label(name)


def _body(lines: list[bytes]) -> bytes:
    """The bytes of a mail; the empty line before the next From_ line is the file's, not the mail's."""
    return b"".join(lines[:-1] if lines and not lines[-1].strip() else lines)


def _headers(raw: bytes) -> Message:
    end = re.search(rb"\r?\n\r?\n", raw)
    return BytesHeaderParser().parsebytes(raw[: end.start()] if end else raw)


def _google_thread(node: Message) -> list[str]:
    """The thread id in a mail exported by Google, as the API writes it."""
    number = mime.raw_header(node, "x-gm-thrid").strip()
    return [f"{int(number):016x}"] if number.isdecimal() else []


def _exported(node: Message) -> list[str]:
    value = mime.header(node, "x-gmail-labels")
    return [name.strip() for row in csv.reader([value]) for name in row if name.strip()]
