"""How a tool is told to a client, checked and called. What goes wrong is one plain line with isError, never more."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Generic, Literal, Protocol, TypeVar, get_type_hints

from mcp import types
from mcp.server.lowlevel import Server
from pydantic import BaseModel, ConfigDict, ValidationError

from email_assistant.db.pool import AWAY
from email_assistant.errors import in_plain_words
from email_assistant.tools.mcp.words import AGAIN, LIMITED
from email_assistant.tools.own.mailbox import Limited, TryAgain
from email_assistant.tools.spec import ToolError, shown_whole
from email_assistant.user_file import BadFile

log = logging.getLogger(__name__)

Effect = Literal["reads", "adds", "changes"]
"""What a tool does to the person's account: nothing; it only adds to it; it does what can't be taken back."""


class OwnArguments(BaseModel):
    """Base of what tools take. Nothing is converted, and an unknown name is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class OwnResult(BaseModel):
    """Base of what tools answer, for programs."""

    model_config = ConfigDict(extra="forbid")

    def as_text(self) -> str:
        """The same for a model to read; what others wrote is delimited in it."""
        raise NotImplementedError


A = TypeVar("A", bound=OwnArguments)
R = TypeVar("R")


Look = Callable[[A], Awaitable[tuple[A, Mapping[str, Any]]]]
"""Looks at what a call is about before anybody is asked about it: the arguments as they are to be approved, and what is
told besides. Raises ToolError, TryAgain: it can't be done."""


async def _nothing_besides() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class OwnCall:
    """A call of a tool, whose arguments have been checked."""

    name: str
    title: str
    effect: Effect
    arguments: Mapping[str, Any]
    look: Callable[[], Awaitable[Mapping[str, Any]]] = _nothing_besides
    """What whoever approves it is told besides the arguments. Raises ToolError, TryAgain: it can't be done."""


class Admits(Protocol):
    async def __call__(self, call: OwnCall, run: Callable[[], Awaitable[R]]) -> R:
        """Run a call, if it may run. Raises ToolError: it may not; BadFile, psycopg.Error: that can't be told now."""
        ...


async def admit_all(call: OwnCall, run: Callable[[], Awaitable[R]]) -> R:
    """Of calls that were judged before they came here."""
    return await run()


@dataclass(frozen=True, slots=True)
class OwnTool(Generic[A]):
    """A tool that can be called again with the same arguments, and then does no more."""

    name: str
    title: str
    description: str
    effect: Effect
    arguments: type[A]
    result: type[OwnResult]
    run: Callable[[A], Awaitable[OwnResult]]  # raises ToolError with one line for the model
    look: Look[A] | None = None

    def told(self) -> types.Tool:
        hints = types.ToolAnnotations(
            title=self.title,
            readOnlyHint=self.effect == "reads",
            destructiveHint=self.effect == "changes",
            idempotentHint=True,
            openWorldHint=True,
        )
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            inputSchema=_untitled(self.arguments.model_json_schema(mode="validation")),
            outputSchema=_untitled(self.result.model_json_schema(mode="serialization")),
            annotations=hints,
        )

    async def call(self, arguments: Mapping[str, Any], admits: Admits) -> types.CallToolResult:
        async def run() -> types.CallToolResult:
            given = self._parsed(arguments)

            async def look() -> Mapping[str, Any]:
                nonlocal given
                given, about = await self.look(given) if self.look else (given, {})
                return about

            called = OwnCall(self.name, self.title, self.effect, arguments, look)
            result = await admits(called, lambda: self.run(given))
            text = types.TextContent(type="text", text=result.as_text())
            return types.CallToolResult(content=[text], structuredContent=result.model_dump(mode="json"))

        return await answered(self.name, run)

    def _parsed(self, arguments: Mapping[str, Any]) -> A:
        try:
            return self.arguments.model_validate_json(json.dumps(shown_whole(arguments)))
        except ValidationError as error:
            raise ToolError("; ".join(f"{_place(e['loc'])}: {in_plain_words(e)}" for e in error.errors())) from None


def offered(
    title: str, effect: Effect, run: Callable[[A], Awaitable[OwnResult]], look: Look[A] | None = None
) -> OwnTool[A]:
    """The tool that a method is, by its name, its docstring and the types of `given` and of what it returns."""
    types_ = get_type_hints(run)
    told = " ".join((run.__doc__ or "").split())
    return OwnTool(run.__name__, title, told, effect, types_["given"], types_["return"], run, look)


def create_server(name: str, instructions: str, tools: Sequence[OwnTool[Any]], admits: Admits) -> Server[Any, Any]:
    """An MCP server of these tools and nothing else."""
    server: Server[Any, Any] = Server(name, version("email-assistant"), instructions)
    by_name = {tool.name: tool for tool in tools}

    async def list_tools() -> list[types.Tool]:
        return [tool.told() for tool in tools]

    async def call_tool(called: str, arguments: dict[str, Any]) -> types.CallToolResult:
        if called not in by_name:
            return refusal(f"there is no such tool; there are: {', '.join(by_name)}")
        return await by_name[called].call(arguments, admits)

    server.list_tools()(list_tools)  # type: ignore[no-untyped-call]
    # The tools check their arguments themselves: the library's refusals quote the whole schema's wording.
    server.call_tool(validate_input=False)(call_tool)
    return server


def in_brackets(words: Sequence[str]) -> str:
    """Remarks behind something, if there are any."""
    return f" ({', '.join(words)})" if words else ""


async def answered(tool: str, run: Callable[[], Awaitable[types.CallToolResult]]) -> types.CallToolResult:
    """What a tool answers, or why it does not, in one line; a meta says whether to try again."""
    try:
        return await run()
    except Limited as error:
        return refusal(str(error), meta={AGAIN: True, LIMITED: True})
    except TryAgain as error:
        return refusal(str(error), meta={AGAIN: True})
    except (ToolError, BadFile) as error:
        return refusal(str(error))
    except AWAY:
        return refusal("the assistant's database is not available now; try again later", meta={AGAIN: True})
    except Exception:
        log.exception("the tool %s failed", tool)
        return refusal("the assistant failed at this; its log says where", meta={AGAIN: True})


def refusal(why: str, meta: dict[str, Any] | None = None) -> types.CallToolResult:
    line = types.TextContent(type="text", text=" ".join(why.split()))
    return types.CallToolResult(content=[line], isError=True, _meta=meta)


def _place(location: Sequence[int | str]) -> str:
    return ".".join(map(str, location)) or "arguments"


def _untitled(schema: Any) -> Any:
    """A JSON schema without the titles that only repeat names."""
    match schema:
        case dict():
            kept = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
            return {key: _untitled(value) for key, value in kept.items()}
        case list():
            return [_untitled(value) for value in schema]
        case _:
            return schema
