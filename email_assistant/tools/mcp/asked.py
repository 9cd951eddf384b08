"""What a server asks the person for before it goes on: to open a link, or to fill in a form (MCP, "Elicitation")."""

import json
from typing import Any, Final
from urllib.parse import urlsplit

from mcp import types
from pydantic import ValidationError

from email_assistant.tools.mcp.content import one_line
from email_assistant.tools.spec import FormNeeded, LinkNeeded, ToolError

_MOST_WORDS: Final = 500
_MOST_FORM: Final = 8_000
"""Characters of a form's schema as JSON."""
_MOST_URL: Final = 4_000


def from_error(server: str, data: Any) -> LinkNeeded | ToolError:
    """What a call needs that was answered with the error "URL elicitation required"."""
    try:
        first = types.ElicitRequestURLParams.model_validate({"mode": "url", **data["elicitations"][0]})
    except (ValidationError, TypeError, KeyError, IndexError):
        return ToolError(f"{server} wants a link to be opened and names none")
    return _link(server, first)


def from_request(server: str, params: types.ElicitRequestParams) -> LinkNeeded | FormNeeded | ToolError:
    """What a call needs during which the server asked for it."""
    if isinstance(params, types.ElicitRequestURLParams):
        return _link(server, params)
    if not params.requestedSchema.get("properties"):
        return ToolError(f"{server} wants a form to be filled in that has no fields")
    if len(json.dumps(params.requestedSchema)) > _MOST_FORM:
        return ToolError(f"{server} wants a form to be filled in that is too long")
    return FormNeeded(one_line(params.message, _MOST_WORDS), params.requestedSchema)


def _link(server: str, params: types.ElicitRequestURLParams) -> LinkNeeded | ToolError:
    if not _is_safe(params.url):
        return ToolError(
            f"{server} wants a link to be opened that is not https, or hides where it leads: it is not shown"
        )
    return LinkNeeded(params.url, one_line(params.message, _MOST_WORDS), one_line(params.elicitationId, 200))


def _is_safe(url: str) -> bool:
    """Whether it is https, and what a person reads as its host is its host."""
    if len(url) > _MOST_URL or any(ord(c) <= 32 or ord(c) >= 127 or c == "\\" for c in url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return False
