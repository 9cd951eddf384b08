"""What servers say, made safe for a model and for a person: cut to a length, delimited as data, one line where one is
due; and how much they may say, since each is somebody else's program, which may be broken, or mean harm."""

import json
import time
from collections.abc import Iterator
from typing import Any, Final

from mcp import types

from email_assistant.errors import AssistantError
from email_assistant.mail.charset import cut
from email_assistant.mail.prompt import delimited, inert

MOST_BYTES: Final = 4_000_000  # of one message
MOST_MESSAGES: Final = 2_000
"""That nobody asked for, such as progress, within `PERIOD`; it takes about a tenth of that time to read them."""
PERIOD: Final = 10.0  # seconds


class TooMuch(AssistantError):
    """A server says more than it may."""


class Unreached(AssistantError):
    """A request that was not sent."""


class Status(AssistantError):
    """A request that was answered with a status of HTTP by which it was not carried out."""


class Redirect(AssistantError):
    """A request that was answered with another address, which is never followed."""


Undone = dict[int | str, Exception]  # by a request's id: why it got no answer of the server's own


class Meter:
    """Counts the messages of one server that nobody asked for."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._count = 0

    def count(self, messages: int = 1) -> None:
        """Raises TooMuch."""
        now = time.monotonic()
        if now - self._begun > PERIOD:
            self._begun, self._count = now, 0
        self._count += messages
        if self._count > MOST_MESSAGES:
            raise TooMuch(f"sent more than {MOST_MESSAGES} messages within {PERIOD:g} s")


MOST_TOLD: Final = 100_000  # characters of a result that reach the model
_MOST_ERROR: Final = 2_000
_MOST_DESCRIPTION: Final = 1_000
_MOST_WORDS: Final = 300  # of a description within a schema
_MOST_VALUE: Final = 1_000  # of any other text within one
_QUOTES: Final = str.maketrans(dict.fromkeys('"“”„‟«»', "'"))


def one_line(text: str, most: int) -> str:
    """Text that can neither open nor close a block of a prompt, nor steer a terminal."""
    return cut(" ".join(inert(text[: 4 * most]).split()), most)


def quoted(words: str, most: int = _MOST_ERROR) -> str:
    """Words of a server within a sentence of ours, which they can't end."""
    return f"“{one_line(words, most).translate(_QUOTES)}”"


def description(tool: types.Tool) -> str:
    return one_line(tool.description or "", _MOST_DESCRIPTION)


def parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema as the model sees it: texts in it are one line, and titles, which repeat names, are left out."""
    return {_key(key): _said(value) for key, value in schema.items() if key not in ("$schema", "title", "type")}


def _said(value: Any, most: int = _MOST_VALUE) -> Any:
    match value:
        case dict():
            return {
                _key(key): _said(each, _MOST_WORDS if key in ("description", "title") else _MOST_VALUE)
                for key, each in value.items()
            }
        case list():
            return [_said(each) for each in value]
        case str():
            return one_line(value, most)
        case _:
            return value


def _key(key: str) -> str:
    return one_line(key, _MOST_VALUE)


def result_text(result: types.CallToolResult, *, own: bool) -> str:
    """A result for the model. `own`: a server of ours said it, which has delimited what others wrote."""
    text = "\n".join(_parts(result)) or "(it answered with nothing)"
    return _cut(text, text) if own else delimited("data", _cut(text, inert(text[:MOST_TOLD])))


def error_text(server: str, result: types.CallToolResult, *, own: bool) -> str:
    """What a result that is an error says, in one line. `own`: as for `result_text`."""
    words = "\n".join(_parts(result)).strip() or "it says no reason"
    return one_line(words, _MOST_ERROR) if own else f"the tool server {server} says: {quoted(words)}"


def _parts(result: types.CallToolResult) -> Iterator[str]:
    """Text as it is; all else is named. Structured content repeats the text, so it counts where there is none."""
    spoken = False
    for block in result.content:
        match block:
            case types.TextContent():
                spoken = True
                yield block.text
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                spoken = True
                yield resource.text
            case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
                yield _named("file", blob.mimeType, blob.blob)
            case types.ImageContent() | types.AudioContent():
                yield _named(block.type, block.mimeType, block.data)
            case types.ResourceLink():
                yield f"[link to {block.name}: {block.uri}]"
    if not spoken and result.structuredContent is not None:
        yield json.dumps(result.structuredContent, ensure_ascii=False)


def _named(kind: str, mime_type: str | None, base64: str) -> str:
    return f"[{kind}, {mime_type or 'of an unknown kind'}, {len(base64) * 3 // 4 // 1000 + 1} kB, not shown]"


def _cut(whole: str, shown: str) -> str:
    """What is shown of a text, which may be longer than the text by what it was normalised to."""
    excess = max(len(whole), len(shown)) - MOST_TOLD
    return shown if excess <= 0 else f"{shown[:MOST_TOLD]}\n[… {excess} characters cut]"
