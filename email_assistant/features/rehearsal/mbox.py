"""A mailbox file, as mail programs and Google's export write it, to the mails of a history."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from email_assistant.mail import mime
from email_assistant.mail.charset import decode_words
from email_assistant.mail.parse import parse_bytes
from email_assistant.sync.past_mails import NoHistory, Recorded, in_order, is_own, kept

_HEADER: Final = re.compile(rb"[!-9;-~]+[ \t]*:|>?From ")
_BODY: Final = re.compile(rb"\r?\n\r?\n")
_FROM_LINE: Final = re.compile(r"From .*?\b((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.*\d\d:\d\d.*)")
_FROM: Final = 500  # characters of a From_ line
_READ: Final = 1_000_000  # bytes of a mail; what comes after them is a file
_AHEAD: Final = timedelta(days=1)  # of this machine's clock
_WANTED: Final = "give a mailbox as an .mbox file, such as Google Takeout's, unpacked"
_PACKED: Final = {b"\x1f\x8b": "gzip", b"PK": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}

Progress = Callable[[int], None]
"""Told how many bytes have been read."""


def read(path: Path, own: Collection[str], progress: Progress = lambda _: None) -> list[Recorded]:
    """The mails of a file as `in_order` gives them. `own`: the person's addresses, in lower case. Raises NoHistory."""
    entries = in_order(_entries(path, own, progress))
    _check(path, entries, own)
    return entries


def _entries(path: Path, own: Collection[str], progress: Progress) -> Iterator[Recorded]:
    last = datetime.fromtimestamp(0, UTC)
    for from_line, raw in _mails(path, progress):
        entry = _entry(from_line, raw, own, last)
        last = entry.at
        yield entry


def _check(path: Path, entries: list[Recorded], own: Collection[str]) -> None:
    """Raises NoHistory where there is nothing of the person's in it, and says whose mailbox it seems to be."""
    if any(entry.own for entry in entries):
        return
    met = Counter(
        each.email.lower() for entry in entries for each in (*entry.mail.to, *entry.mail.cc) if "@" in each.email
    )
    often = ", ".join(address for address, _ in met.most_common(3))
    raise NoHistory(
        f"{path} holds {len(entries):,} mails, none of them from {' or '.join(sorted(own))}: without your own answers "
        f"there is nothing to rehearse; "
        + (
            f"most of it went to {often}: name your address with --address, and export the sent mail too"
            if often
            else "export the sent mail too"
        )
    )


def _mails(path: Path, progress: Progress) -> Iterator[tuple[str, bytes]]:
    """The From_ line and the bytes of each mail. Raises NoHistory.

    The standard library's mailbox.mbox begins a new mail at every line that starts with "From ", and so tears mails
    whose writer did not quote it: here a mail begins after an empty line, and with a header
    (https://datatracker.ietf.org/doc/html/rfc4155#appendix-A)."""
    try:
        with path.open("rb") as file:
            yield from _split(path, iter(file), progress)
    except FileNotFoundError:
        raise NoHistory(f"{path}: there is no such file; {_WANTED}") from None
    except IsADirectoryError:
        raise NoHistory(f"{path} is a folder; {_WANTED}") from None
    except OSError as error:
        raise NoHistory(f"{path} can't be read ({error.strerror})") from None


def _split(path: Path, lines: Iterator[bytes], progress: Progress) -> Iterator[tuple[str, bytes]]:
    from_line: bytes | None = None
    held: list[bytes] = []
    size, done = 0, 0
    before, line = b"\n", next(lines, b"")
    while line and not line.strip():
        line = next(lines, b"")
    if not line:
        raise NoHistory(f"{path} is empty; {_WANTED}")
    if not line.startswith(b"From "):
        raise NoHistory(f"{path} is no mbox file: {_kind(line)}; {_WANTED}")
    while line:
        after = next(lines, b"")
        if line.startswith(b"From ") and not before.strip() and _HEADER.match(after):
            if from_line is not None:
                yield from_line.decode("latin-1"), b"".join(held)
                progress(done)
            from_line, held, size = line, [], 0
        elif size < _READ:
            held.append(line[: _READ - size])
            size += len(line)
        done += len(line)
        before, line = line, after
    if from_line is None:
        raise NoHistory(f"{path} holds no mail with a header; {_WANTED}")
    yield from_line.decode("latin-1"), b"".join(held)
    progress(done)


def _kind(line: bytes) -> str:
    if packed := next((name for start, name in _PACKED.items() if line.startswith(start)), None):
        return f"it is packed by {packed}"
    return "it looks like one single mail" if _HEADER.match(line) else "it does not begin with a 'From ' line"


def _entry(from_line: str, raw: bytes, own: Collection[str], last: datetime) -> Recorded:
    mail = parse_bytes(raw)
    root = mime.from_bytes(_BODY.split(raw, maxsplit=1)[0] + b"\n")
    labels = frozenset(
        each.strip().strip('"').lower() for each in decode_words(root.header("x-gmail-labels")).split(",")
    )
    return Recorded(
        mail.message_id or f"<{sha256(raw).hexdigest()[:32]}@no-message-id>",
        kept(mail),
        _came(mail.date, _brought(from_line)) or last,
        is_own(mail, labels, own),
        labels - {""},
        root.header("x-gm-thrid").strip(),
    )


def _came(*times: datetime | None) -> datetime | None:
    """The first time that may be true: whoever writes can name any day as theirs, one that is to come too."""
    soon = datetime.now(UTC) + _AHEAD
    return next((each for each in times if each and each < soon), None)


def _brought(from_line: str) -> datetime | None:
    """When the mail came, as its From_ line says."""
    found = _FROM_LINE.match(from_line[:_FROM])
    if found is None:
        return None
    words = found[1].split()
    try:  # "Mon Nov 23 10:00:00 +0000 2026", which asctime writes without the zone
        day, clock, year = words[2], words[3], words[-1]
        date = parsedate_to_datetime(f"{day} {words[1]} {year} {clock} +0000")
    except (ValueError, IndexError, TypeError):
        return None
    return date
