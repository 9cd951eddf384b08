"""The tools that an agent has been given, and which of them go with a query: models take no more than so many."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from langchain_core.tools import BaseTool

from email_assistant.bench.toolbench.apis import api_of
from email_assistant.bench.toolbench.queries import BenchQuery
from email_assistant.bench.toolbench.retrieval import Index
from email_assistant.bench.toolbench.tools import VirtualServer, make_tools, named

MOST_TOOLS: Final = 128  # functions of one request, at OpenAI
RETRIEVED: Final = 20


class Toolset:
    def __init__(self, tools: Sequence[BaseTool], server: VirtualServer) -> None:
        self._tools = tools
        self._server = server
        told = [(api, tool) for tool in reversed(tools) if (api := named(tool))]  # of what is told twice, the first
        self._by_api: dict[tuple[str, ...], BaseTool] = {api[1:]: tool for api, tool in told} | dict(told)
        """Also without the category, which flat files may leave out."""

    def offered(self, query: BenchQuery) -> Sequence[BaseTool]:
        """The tools of the query's own APIs, or all; where those are too many, the ones that fit its words."""
        tools = self._own(query) or self._tools
        return tools if len(tools) <= MOST_TOOLS else self._fitting(query, tools)

    def recall(self, query: BenchQuery) -> float | None:
        """Share of the query's own APIs, or of as many as fit, that retrieval finds among all; None: it tells of
        none."""
        own = {api[1:] for api in query.own}
        if not own:
            return None
        found = {api[1:] for tool in self._fitting(query, self._tools) if (api := named(tool))}
        return len(own & found) / min(len(own), RETRIEVED)

    def _own(self, query: BenchQuery) -> list[BaseTool]:
        """Those that no file tells of are made by what the query tells."""
        found = {api: self._by_api.get(api) or self._by_api.get(api[1:]) for api in query.own}
        known = list({tool.name: tool for tool in found.values() if tool}.values())
        missing = [api_of(query.own[api], *api) for api, tool in found.items() if tool is None]
        return known + make_tools(missing, self._server, taken={tool.name for tool in known})

    def _fitting(self, query: BenchQuery, tools: Sequence[BaseTool]) -> list[BaseTool]:
        index = self._index if tools is self._tools else _index(tools)
        return [tools[number] for number in index.best(query.text, RETRIEVED)]

    @cached_property
    def _index(self) -> Index:
        return _index(self._tools)


def _index(tools: Sequence[BaseTool]) -> Index:
    return Index([_told(tool) for tool in tools], [(tool.metadata or {}).get("tool", tool.name) for tool in tools])


def _told(tool: BaseTool) -> str:
    fields = tool.args.items()
    about = [f"{name} {field.get('description', '')}" for name, field in fields]
    return " ".join([*(named(tool) or [tool.name]), tool.description, *about])
