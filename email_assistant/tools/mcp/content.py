"""What servers say, made safe for a model and for a person: cut to a length, delimited as data, one line where one is
due."""

import json
from collections.abc import Iterator
from typing import Any, Final

from mcp import types

from email_assistant.mail.prompt import delimited, inert

MOST_TOLD: Final = 100_000
"""Characters of a result that reach the model."""
_MOST_ERROR: Final = 2_000
_MOST_DESCRIPTION: Final = 1_000
_MOST_WORDS: Final = 300
"""Of a description within a schema."""


def one_line(text: str, most: int) -> str:
    """Text that can neither open nor close a block of a prompt, nor steer a terminal."""
    line = " ".join(inert(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def description(tool: types.Tool) -> str:
    return one_line(tool.description or tool.title or "", _MOST_DESCRIPTION)


def parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema as the model sees it: texts in it are one line, and titles, which repeat names, are left out."""
    return {key: _said(value) for key, value in schema.items() if key not in ("$schema", "title", "type")}


def _said(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: one_line(each, _MOST_WORDS)
                if key in ("description", "title") and isinstance(each, str)
                else _said(each)
                for key, each in value.items()
            }
        case list():
            return [_said(each) for each in value]
        case _:
            return value


def result_text(result: types.CallToolResult, *, own: bool) -> str:
    """A result for the model.

    Args:
        own: a server of ours said it, which has delimited what others wrote.
    """
    text = _cut("\n".join(_parts(result)) or "(it answered with nothing)", MOST_TOLD)
    return text if own else delimited("data", text)


def error_text(result: types.CallToolResult) -> str:
    """What a result that is an error says, in one line."""
    return one_line("\n".join(_parts(result)), _MOST_ERROR) or "it says no reason"


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


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[… {len(text) - most} characters cut]"
