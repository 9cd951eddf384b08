"""`email-assistant mails read`: how a mail in a file is read, with nothing but that file."""

import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from email_assistant.cli.context import AsJson, CommandError, ended_in_words, print_json, print_text

if TYPE_CHECKING:
    from email_assistant.mail.address import Address
    from email_assistant.mail.invite import Invitation
    from email_assistant.mail.message import Mail
    from email_assistant.mail.stored import StoredTexts

_MOST_BYTES = 25 * 1024 * 1024
_MOST_FILES = 1_000  # of a folder
_WANTED = "give a mail as its source (.eml), an .mbox file, or a calendar part (.ics)"
_NEXT_IN_MBOX = re.compile(rb"\n\r?\n(?=From [^\r\n]*\r?\n[!-9;-~]+:)")
_PROMPT_TOKENS = 3_000
_SUMMARY = re.compile(r"\A(?:\[Calendar [^\n]*\]\n*)+")
"""What the invitation says stands above the text, and is none of the sender's."""

FileToRead = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A mail's source, an mbox (its first mail is read), or an .ics; - for stdin."),
]
With = Annotated[
    Path | None,
    typer.Option(
        "--with", metavar="FOLDER", help="Mails (.eml, .mbox) that count as stored, for what the mail quotes."
    ),
]
Zone = Annotated[str | None, typer.Option("--timezone", help="Tell times in it, such as Europe/Paris; your machine's.")]


def read(file: FileToRead, stored: With = None, timezone: Zone = None, as_json: AsJson = False) -> None:
    """Read a mail from a file as the assistant reads it: whose words are whose, and why; files; times.

    Needs no home and no running program. JSON: `sender`, `recipients`, `subject`, `own` (the sender's own words),
    `history` (each with `by`, `status`: stored, kept or not known, `reason`, and `why` it was told apart), `signature`
    (with `why`), `files`, `times`, `invitation`, `notes`, `text` (all), `prompt` (what a model is given)."""
    with ended_in_words():
        told = _told(_bytes(file), stored, _zone(timezone))
    if as_json:
        print_json(told)
        return
    for line in _in_lines(told):
        print_text(line)


def _told(data: bytes, stored: Path | None, zone: ZoneInfo) -> dict[str, Any]:
    if data.lstrip()[:15].upper() == b"BEGIN:VCALENDAR":
        return _of_calendar(data, zone)
    return _of_mail(_first(data), None if stored is None else _stored(stored), zone)


def _bytes(file: str) -> bytes:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise CommandError(f"{file}: there is no such file; {_WANTED}") from None
    except IsADirectoryError:
        raise CommandError(f"{file} is a folder; {_WANTED}") from None
    except OSError as error:
        raise CommandError(f"{file} can't be read ({error.strerror})") from None
    name = "standard input" if file == "-" else file
    if not data.strip():
        raise CommandError(f"{name} is empty; {_WANTED}")
    if len(data) > _MOST_BYTES and not data.startswith(b"From "):
        raise CommandError(f"{name} is larger than a mail may be ({_MOST_BYTES // 1024**2} MB)")
    return data


def _zone(name: str | None) -> ZoneInfo:
    from tzlocal import get_localzone_name

    try:
        return ZoneInfo(name or get_localzone_name())
    except (ValueError, LookupError, OSError):
        raise CommandError(f"{name} is no timezone; give one such as Europe/Paris") from None


def _mails(data: bytes) -> Iterator[bytes]:
    """The mails of an mbox; of anything else itself."""
    if not data.startswith(b"From "):
        yield data
        return
    for mail in _NEXT_IN_MBOX.split(data):
        yield mail.lstrip(b"\r\n").partition(b"\n")[2]


def _first(data: bytes) -> bytes:
    return next(_mails(data), b"")


def _stored(folder: Path) -> "StoredTexts":
    from email_assistant.mail.parse import parse_bytes
    from email_assistant.mail.stored import StoredTexts

    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        raise CommandError(f"{folder} is no folder; give one with mails as files") from None
    except OSError as error:
        raise CommandError(f"{folder} can't be read ({error.strerror})") from None
    return StoredTexts(parse_bytes(mail) for path in files[:_MOST_FILES] for mail in _mails(_bytes(str(path))))


def _of_mail(data: bytes, stored: "StoredTexts | None", zone: ZoneInfo) -> dict[str, Any]:
    from email_assistant.mail import mime
    from email_assistant.mail.contents import contents_of
    from email_assistant.mail.excerpt import tokens
    from email_assistant.mail.history import reading
    from email_assistant.mail.parse import parse_bytes
    from email_assistant.mail.prompt import for_prompt
    from email_assistant.mail.stored import history_of, not_stored

    mail, held = parse_bytes(data), contents_of(mime.from_bytes(data))
    parts = reading(mail.text, subject=mail.subject, bulk=mail.bulk)
    history = history_of(mail, stored)
    kept = None if stored is None else not_stored(mail, stored)
    return {
        "sender": _address(mail.sender),
        "recipients": {
            name: [_address(each) for each in addresses]
            for name, addresses in (("to", mail.to), ("cc", mail.cc), ("bcc", mail.bcc), ("reply_to", mail.reply_to))
        },
        "subject": mail.subject,
        "own": _SUMMARY.sub("", parts.own),
        "history": [{**asdict(each.quoted), "status": each.status, "reason": each.reason} for each in history],
        "signature": {"text": parts.signature, "why": parts.signature_why} if parts.signature else None,
        "files": [{"number": f.number, "name": f.name, "type": f.mime_type, "bytes": f.size} for f in held.files],
        "times": _times(mail, held.invitation),
        "invitation": _invitation(held.invitation, zone),
        "notes": mail.note,
        "text": mail.text,
        "prompt": for_prompt(mail, "1", timezone=zone, limit=_PROMPT_TOKENS, measure=tokens, kept=kept),
    }


def _of_calendar(data: bytes, zone: ZoneInfo) -> dict[str, Any]:
    from email_assistant.mail.charset import decode
    from email_assistant.mail.invite import description, invitation, summarise

    calendar = decode(data, None)
    found = invitation(calendar)
    if found is None:
        raise CommandError("there is no event in this calendar part")
    return {
        "sender": None,
        "recipients": {},
        "subject": found.title,
        "own": description(calendar),
        "history": [],
        "signature": None,
        "files": [],
        "times": _times(None, found),
        "invitation": _invitation(found, zone),
        "notes": "",
        "text": summarise(calendar),
        "prompt": summarise(calendar),
    }


def _address(address: "Address | None") -> dict[str, str] | None:
    return {"name": address.name, "address": address.email} if address else None


def _times(mail: "Mail | None", found: "Invitation | None") -> dict[str, Any]:
    return {
        "sent": _iso(mail.date if mail else None),
        "start": _iso(found.start if found else None),
        "end": _iso(found.end if found else None),
        "written": found.written if found else "",
    }


def _iso(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at else None


def _invitation(found: "Invitation | None", zone: ZoneInfo) -> dict[str, Any] | None:
    if found is None:
        return None
    names = ("uid", "kind", "title", "written", "place", "organiser", "answer", "comment", "others")
    return {
        **{name: getattr(found, name) for name in names},
        "start": _iso(found.start),
        "end": _iso(found.end),
        "when": found.when(zone),
        "repeats": found.repeating(zone),
        "in_words": found.in_words(zone),
    }


def _in_lines(told: dict[str, Any]) -> Iterator[str]:
    people = {"From": [told["sender"]] if told["sender"] else [], **told["recipients"]}
    for name, addresses in people.items():
        if addresses:
            listed = ", ".join(
                f"{each['name']} <{each['address']}>" if each["name"] else each["address"] for each in addresses
            )
            yield f"{name.replace('_', '-').capitalize()}: {listed}"
    yield f"Subject: {told['subject'] or '(no subject)'}"
    if told["times"]["sent"]:
        yield f"Date: {told['times']['sent']}"
    if told["invitation"]:
        yield told["invitation"]["in_words"]
    yield from ("", "Own text:", told["own"] or "(none)")
    for each in told["history"]:
        by = f" by {each['by']}" if each["by"] else ""
        yield from ("", f"Quoted{by}: {each['status']}, as {each['reason']}; {each['why']}:", each["text"])
    if told["signature"]:
        yield from ("", f"Signature: {told['signature']['why']}:", told["signature"]["text"])
    for each in told["files"]:
        yield f"File {each['number']}: {each['name'] or '(no name)'} ({each['type']}, {each['bytes'] or 0:,} bytes)"
    if told["notes"]:
        yield f"Note: {told['notes']}"
