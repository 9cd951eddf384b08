"""What a server asks the person for before it goes on: to open a link, whose place is shown as a person reads it, or to
fill in a form (MCP, "Elicitation")."""

from typing import Annotated, Any, Final, Literal

from mcp import types
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from email_assistant.tools.mcp.content import one_line, quoted
from email_assistant.tools.spec import FormNeeded, LinkNeeded, ToolError, leads_to

_MOST_WORDS: Final = 500
_MOST_FIELDS: Final = 10
_MOST_CHOICES: Final = 50
_MOST_URL: Final = 4_000
_Words = Annotated[str, AfterValidator(lambda text: one_line(text, 300))]
_Choice = Annotated[str, Field(max_length=100), AfterValidator(lambda text: one_line(text, 100))]


class _FormField(BaseModel):
    """What is asked for, and nothing else that the server says of it."""

    type: Literal["string", "number", "integer", "boolean", "array"] = "string"
    title: _Words | None = None
    description: _Words | None = None
    enum: list[_Choice] | None = Field(None, max_length=_MOST_CHOICES)


class _Form(BaseModel):
    properties: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")], _FormField] = Field(
        min_length=1, max_length=_MOST_FIELDS
    )


def from_error(server: str, data: Any, *, here: bool) -> LinkNeeded | ToolError:
    """What a call needs that was answered with the error "URL elicitation required". `here`: the server is reached over
    this machine's loopback."""
    try:
        first = types.ElicitRequestURLParams.model_validate({"mode": "url", **data["elicitations"][0]})
    except (ValidationError, TypeError, KeyError, IndexError):
        return ToolError(f"{server} wants a link to be opened and names none")
    return _link(server, first, here=here)


def from_request(server: str, params: types.ElicitRequestParams, *, here: bool) -> LinkNeeded | FormNeeded | ToolError:
    """What a call needs during which the server asked for it; `here` as for `from_error`."""
    if isinstance(params, types.ElicitRequestURLParams):
        return _link(server, params, here=here)
    try:
        form = _Form.model_validate(params.requestedSchema)
    except ValidationError:
        return ToolError(f"{server} wants a form to be filled in that is not one of 1 to {_MOST_FIELDS} plain fields")
    message = f"The tool server {server} asks: {quoted(params.message, _MOST_WORDS)}"
    return FormNeeded(message, form.model_dump(exclude_none=True))


def _link(server: str, params: types.ElicitRequestURLParams, *, here: bool) -> LinkNeeded | ToolError:
    if len(params.url) > _MOST_URL or leads_to(params.url, here=here) is None:
        return ToolError(
            f"{server} wants a link to be opened that is not https, or hides where it leads: it is not shown"
        )
    return LinkNeeded(params.url, one_line(params.message, _MOST_WORDS), one_line(params.elicitationId, 200))
