"""A distribution of somebody else's: what it adds by its entry points, one of each kind (docs/packs.md)."""

from collections.abc import Collection, Mapping
from typing import Any

import typer
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from mcp import types
from mcp.server.lowlevel import Server

from email_assistant.accounts.provider import Connect
from email_assistant.agents.agent import Agent, Judged, LoopState, Ran, ToRun
from email_assistant.gate.policy import GateSession
from email_assistant.google.account import GoogleAccount
from email_assistant.google.auth import Exchange
from email_assistant.google.client import Wire
from email_assistant.model import Models
from email_assistant.plugins import Feature
from email_assistant.tools.spec import Arguments, ToolSpec

KEPT: list[str] = []


def notes() -> "Server[Any, Any]":
    """A server of tools: an MCP server as any other."""
    server: Server[Any, Any] = Server("notes")
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    @server.list_tools()  # type: ignore[no-untyped-call, untyped-decorator]
    async def tools() -> list[types.Tool]:
        return [types.Tool(name="add_note", description="Keep a note.", inputSchema=text)]

    @server.call_tool()  # type: ignore[untyped-decorator]
    async def call(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        KEPT.append(arguments["text"])
        return [types.TextContent(type="text", text=f"Kept note {len(KEPT)}.")]

    return server


class Post(GoogleAccount):
    """An account at a provider of mail: a server with Google's interface, which each login names itself."""

    def __init__(
        self,
        token: Mapping[str, Any],
        *,
        timeout: float,
        exchange_token: Exchange | None = None,
        busy_calendars: Collection[str] = (),
    ) -> None:
        if "root" not in token:
            raise ValueError("it names no root")
        self._wire = Wire(token["root"])
        super().__init__(
            token, self._wire, timeout=timeout, exchange_token=exchange_token, busy_calendars=busy_calendars
        )

    async def aclose(self) -> None:
        await self._wire.aclose()


post: Connect = Post


class Line(Arguments):
    text: str


SAY = ToolSpec(
    "say",
    "Say a line.",
    {"properties": {"text": {"type": "string"}}, "required": ["text"]},
    arguments=Line,
    review=None,
)


class Rhymer(Agent):
    """An agent: it has the model say one line."""

    max_steps = 3

    def __init__(self, models: Models) -> None:
        self.models = models

    async def propose(self, state: LoopState) -> AIMessage:
        return await self.models.call("pack", state["messages"], tools=[SAY.schema()], tool_choice="required")

    async def judge(self, run: Mapping[str, Any], name: str, args: dict[str, Any], session: GateSession) -> Judged:
        return Judged(kind="run", args=args, text="")

    async def run_tool(self, call: ToRun, config: RunnableConfig) -> Ran:
        return Ran(f"Said: {call.args['text']}", ends=True)


def greeter() -> Feature:
    """A feature: it adds one command."""
    return Feature(add_commands=lambda app: app.command("greet")(lambda: typer.echo("Hello!")))


def broken() -> None:
    raise OSError("no disk")
