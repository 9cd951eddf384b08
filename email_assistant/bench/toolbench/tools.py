"""Tools of LangChain, one for each API, that ask the virtual server. What a tool stands for is in its metadata, since
names that models take can't be read back."""

import json
from collections.abc import Collection, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import httpx
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from email_assistant.bench.toolbench.apis import Api, plain_name, read_apis, sound
from email_assistant.model.network import network_to

VIRTUAL_SERVER: Final = "http://localhost:8080/virtual"
_SECONDS: Final = 60  # that the server has for a call; one that asks a model takes its time
_LONGEST: Final = 8000  # characters of a response that a model is shown
_TOO_LATE_OR_MANY: Final = (408, 429)  # of 4xx, those that don't tell of a wrong request

Fault = Literal["model", "ours", "server"]
"""Who made a call fail: the model asked for what there is not; we sent what can't be; the server did not do it."""
Named = tuple[str, str, str]  # a category, a tool of it, and one of the tool's APIs


@dataclass(slots=True)
class Witness:
    """What is seen of one call on its way."""

    reached: Named | None = None  # what the request asked for that the server answered, by the bytes that went out
    fault: Fault | None = None


watching: ContextVar[Witness | None] = ContextVar("who sees what becomes of the call that is made", default=None)


class CallFailed(ToolException):
    """A call came to nothing; its message is for the model."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(f"Error: {message}"[:_LONGEST])
        self.fault = fault


class VirtualServer:
    """StableToolBench's server, which answers in the place of all APIs. Raises SettingsError: the environment names a
    proxy or certificates that can't be used."""

    def __init__(self, url: str = VIRTUAL_SERVER, seconds: float = _SECONDS) -> None:
        self.url = url
        self._http = httpx.Client(timeout=seconds, event_hooks={"response": [_answered]}, **network_to(url))

    def call(self, api: Api, /, **given: Any) -> str:
        """What the API answers, for the model. Raises CallFailed."""
        body: dict[str, Any] = {"category": api.category, "tool_name": api.tool, "api_name": api.name}
        try:
            body |= {"tool_input": api.input(given), "strip": "", "toolbench_key": "EMPTY"}
        except ValueError as wrong:
            raise CallFailed("model", str(wrong)) from None
        try:
            response = self._http.post(self.url, json=body)
        except httpx.TimeoutException:
            raise CallFailed("server", "the server did not answer in time") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError) as error:
            raise CallFailed("ours", f"this can't be sent: {error}") from None
        except httpx.HTTPError as error:
            raise CallFailed("server", f"the server can't be reached: {error}") from None
        if not response.is_success:
            is_ours = response.is_client_error and response.status_code not in _TOO_LATE_OR_MANY
            raise CallFailed("ours" if is_ours else "server", f"the server answered {response.status_code}")
        return _said(response)


def load_tools(tools_dir: str | Path, server_url: str = VIRTUAL_SERVER) -> list[BaseTool]:
    """A tool for each API that a folder of tool files tells of, under names that models take, no two alike. A call that
    fails answers with what went wrong, and raises nothing. Raises BenchError: the folder holds no tool files."""
    return make_tools(read_apis(Path(tools_dir)), VirtualServer(server_url))


def make_tools(apis: Iterable[Api], server: VirtualServer, taken: Collection[str] = ()) -> list[BaseTool]:
    """`taken`: names that other tools have."""
    names, tools = set(taken), []
    for api in apis:
        names.add(name := plain_name(f"{api.tool}_{api.name}", names))
        tools.append(_tool(name, api, server))
    return tools


def named(tool: BaseTool) -> Named | None:
    """The API that a tool of LangChain stands for; None: it is none of ours, and does not say."""
    metadata = tool.metadata or {}
    return (metadata["category"], metadata["tool"], metadata["api"]) if "api" in metadata else None


def title(tool: BaseTool) -> str:
    """Its name as the benchmark writes it."""
    return "_".join(api[1:]) if (api := named(tool)) else tool.name


def _tool(name: str, api: Api, server: VirtualServer) -> BaseTool:
    return StructuredTool(
        name=name,
        description=api.description,
        args_schema=api.schema,
        func=partial(server.call, api),
        handle_tool_error=_failed,
        metadata={"category": api.category, "tool": api.tool, "api": api.name, "arguments": api.arguments},
    )


def _failed(error: ToolException) -> str:
    if (witness := watching.get()) and isinstance(error, CallFailed):
        witness.fault = error.fault
    return str(error)


def _answered(response: httpx.Response) -> None:
    if witness := watching.get():
        sent = json.loads(response.request.content)
        witness.reached = sent["category"], sent["tool_name"], sent["api_name"]


def _said(response: httpx.Response) -> str:
    try:
        told = response.json()
        error, said = told.get("error"), told.get("response", "")
    except (ValueError, AttributeError, RecursionError):
        raise CallFailed("server", "the server answered something else than JSON") from None
    text = sound(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))
    if error:
        raise CallFailed("server", f"{sound(error)} {text}".strip())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters in all)"
