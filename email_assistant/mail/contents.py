"""What a mail holds besides its text: its HTML, its files, and the invitation in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from email_assistant.mail import mime
from email_assistant.mail.charset import one_line, plain
from email_assistant.mail.invite import Invitation, invitation
from email_assistant.mail.mime import MimePart
from email_assistant.mail.parse import is_text, text_of

MOST_BYTES: Final = 25 * 1024 * 1024  # of a file that is fetched: no more goes through Gmail as an attachment
SHOWN_AS_TEXT: Final = ("text/plain", "text/csv", "text/calendar", "text/markdown")

_NAME = 120  # characters
_ENDING = 5
_RESERVED = '/\\<>:"|?*'  # of file systems
_KINDS = {
    "application/pdf": "PDF",
    "application/zip": "ZIP archive",
    "message/rfc822": "mail",
    "text/calendar": "calendar",
    "text/csv": "table",
    "text/html": "web page",
    "text/plain": "text",
}


@dataclass(frozen=True, slots=True)
class File:
    """One file of a mail. Its content is either here, or to be asked for."""

    number: int  # from 1, in the order of the mail
    name: str  # bare, of one line; empty if it has none
    mime_type: str  # as the sender says
    size: int | None  # bytes; None if unknown
    content_id: str  # what the HTML knows it by; empty if it has none
    attachment_id: str
    content: bytes | None

    @property
    def kind(self) -> str:
        """What it is, in a word. Programs go by the end of its name, so that comes before the sender's word."""
        ending = _apart(self.name)[1]
        if ending.isalnum() and len(ending) <= _ENDING:
            return ending.upper()
        group, _, _ = self.mime_type.partition("/")
        groups = {"image": "picture", "audio": "sound", "video": "film"}
        return _KINDS.get(self.mime_type) or groups.get(group) or "file"

    @property
    def opens(self) -> bool:
        """Whether it can be looked at in a browser without doing anything: a picture, or what is shown as bare text."""
        return self.mime_type in SHOWN_AS_TEXT or self.mime_type.startswith("image/")

    @property
    def told_size(self) -> str:
        if self.size is None:
            return "unknown size"
        kilobytes = -(-self.size // 1024)
        return f"{kilobytes:,} kB" if kilobytes < 1024 else f"{self.size / 1024**2:.1f} MB"

    @property
    def safe_name(self) -> str:
        """A name to save it under: of no folder, not hidden, and the same to the eye as to the disk."""
        kept = "".join(character for character in self.name if character.isprintable() and character not in _RESERVED)
        stem, ending = _apart(kept.strip(". ").lstrip("-"))
        dotted = f".{ending[:_NAME]}" if ending else ""
        return f"{stem[:_NAME] or f'file-{self.number}'}{dotted}"


@dataclass(frozen=True, slots=True)
class MailContents:
    html: str  # as it came; empty if the mail has none
    files: tuple[File, ...]
    invitation: Invitation | None

    @property
    def attached(self) -> tuple[File, ...]:
        """The files, but for pictures that stand within the HTML."""
        return tuple(file for file in self.files if not self._is_within(file))

    def _is_within(self, file: File) -> bool:
        is_named = bool(file.content_id) and f"cid:{file.content_id}" in self.html
        return is_named and file.mime_type.startswith("image/")


def _apart(name: str) -> tuple[str, str]:
    """A name and its ending."""
    stem, dot, ending = name.rpartition(".")
    return (stem, ending) if dot else (name, "")


def contents(payload: Mapping[str, Any]) -> MailContents:
    """What the `payload` of Gmail's `messages.get` with `format=full` holds. Any mapping gives an answer."""
    return contents_of(mime.from_gmail(payload))


def contents_of(root: MimePart) -> MailContents:
    """What a message holds, by its parts."""
    leaves = list(_leaves(root))
    html = [text_of(part) for part in leaves if part.mime_type == "text/html" and _is_shown(part, root)]
    calendars = (text_of(part) for part in leaves if part.is_calendar and part.content)
    files = [part for part in leaves if not _is_shown(part, root) and (part.filename or not part.is_calendar)]
    return MailContents(
        "\n".join(html),
        tuple(_file(number, part) for number, part in enumerate(files, 1)),
        next(filter(None, map(invitation, calendars)), None),
    )


def _leaves(part: MimePart) -> Iterator[MimePart]:
    """The parts without parts, and mails that are attached."""
    if part.mime_type == "message/rfc822" or not part.parts:
        yield part
        return
    for inner in part.parts:
        yield from _leaves(inner)


def _is_shown(part: MimePart, root: MimePart) -> bool:
    return part.content is not None and is_text(part, is_root=part is root)


def _file(number: int, part: MimePart) -> File:
    content_id = one_line(part.header("content-id")).strip("<> ")
    name = one_line(plain(part.filename))
    return File(number, name, part.mime_type, part.size, content_id, part.attachment_id, part.content)
