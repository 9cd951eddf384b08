"""Files that stand in a mail's text itself, as before MIME: uuencode and yEnc."""

import re

from .charset import one_line
from .message import Attachment

_FILES = (
    re.compile(
        r"^begin [0-7]{3,4} (?P<name>\S.{0,200})\n(?:[ -`]{1,64}(?:\n|\Z))++(?:`?\n)?(?:end[ \t]*$)?", re.MULTILINE
    ),
    re.compile(
        r"^begin-base64 [0-7]{3,4} (?P<name>\S.{0,200})\n(?:[A-Za-z0-9+/=]{1,100}\n)*?====[ \t]*$", re.MULTILINE
    ),
    re.compile(r"^=ybegin .{0,200}?\bname=(?P<name>.{1,200})\n(?:(?!=ybegin ).*\n)*?=yend.*$", re.MULTILINE),
)


def without_files(text: str) -> tuple[str, list[Attachment]]:
    """The text with a note in place of each file, and the files. Their sizes are unknown."""
    files: list[Attachment] = []

    def note(match: re.Match[str]) -> str:
        name = one_line(re.split(r"[/\\]", match["name"])[-1])
        files.append(Attachment(name, "application/octet-stream", None))
        return f"[file in the text: {name}]\n"

    for pattern in _FILES:
        text = pattern.sub(note, text)
    return text, files
