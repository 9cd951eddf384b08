"""The server's one tool."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

from mcp import types
from mcp.server.lowlevel import Server
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from email_assistant.features.auction.rules import Lot
from email_assistant.features.auction.sellers import Answers, by_rule
from email_assistant.tools.spec import ToolError

_NAME: Final = "ASK_SELLER"


class AskedArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    lot: str = Field(description="Name of the lot")
    question: str = Field(min_length=1, max_length=500)


def create_seller_server(lots: Sequence[Lot], answers: Answers = by_rule) -> Server[Any, Any]:
    """Answers about these lots, and about nothing else. `answers`: who answers for the sellers."""
    known = {lot.name: lot for lot in lots}
    server: Server[Any, Any] = Server("email-assistant-ask-seller", version("email-assistant"))

    async def list_tools() -> list[types.Tool]:
        hints = types.ToolAnnotations(readOnlyHint=True, idempotentHint=True, openWorldHint=False)
        schema = AskedArguments.model_json_schema()
        return [types.Tool(name=_NAME, description="Ask a lot's seller.", inputSchema=schema, annotations=hints)]

    async def call_tool(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        if name != _NAME:
            return _said(f"there is no such tool; there is: {_NAME}", well=False)
        try:
            given = AskedArguments.model_validate(arguments)
            return _said(await answers(known[given.lot], given.question))
        except ValidationError as error:
            return _said("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()), well=False)
        except ToolError as error:
            return _said(str(error), well=False)
        except KeyError:
            return _said(f"there is no such lot; there are: {', '.join(known)}", well=False)

    server.list_tools()(list_tools)  # type: ignore[no-untyped-call]
    # It checks its arguments itself: the library's refusals quote the whole schema's wording.
    server.call_tool(validate_input=False)(call_tool)
    return server


def _said(text: str, *, well: bool = True) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], isError=not well)
