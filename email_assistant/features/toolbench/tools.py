"""Tools of LangChain, one for each API, that ask the virtual server, and which of them go with a query: models take no
more than so many.

What a tool stands for is in its metadata, since names that models take can't be read back. Where a query's own APIs
aren't told, its words choose: BM25 over what each tool tells, and over its family, since the APIs of one tool are
wanted together far more often than apart.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import httpx
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from email_assistant.features.toolbench.apis import (
    DEFAULT_CATEGORY,
    Api,
    BenchError,
    api_of,
    plain_name,
    read_apis,
    sound,
)
from email_assistant.model.client import network_to

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


QUERIES_DIR: Final = Path("StableToolBench/solvable_queries/test_instruction")  # in the folder of the caller


@dataclass(frozen=True, slots=True)
class BenchQuery:
    id: str
    text: str
    own: Mapping[Named, Mapping[str, Any]] = field(default_factory=dict)  # the APIs that it was written for, as told
    relevant: frozenset[tuple[str, str]] = frozenset()  # tools, and APIs of theirs, that it can't be answered without


def read_queries(test_set: str | Path) -> list[BenchQuery]:
    """`test_set`: a file, or the name of one in `QUERIES_DIR`. Raises BenchError."""
    path = Path(test_set)
    if not path.is_file():
        path = QUERIES_DIR / f"{test_set}.json"
    try:
        return [_query(number, told) for number, told in enumerate(json.loads(path.read_text("utf-8-sig")))]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BenchError(f"{test_set} is no file of queries: {type(error).__name__} {error}") from None


def _query(number: int, told: Mapping[str, Any]) -> BenchQuery:
    own = {_named(each): each for each in told.get("api_list") or ()}
    relevant = frozenset((sound(tool), sound(api)) for tool, api in told.get("relevant APIs") or ())
    return BenchQuery(str(told.get("query_id", number)), sound(told["query"]), own, relevant)


def _named(told: Mapping[str, Any]) -> Named:
    return sound(told.get("category_name") or DEFAULT_CATEGORY), sound(told["tool_name"]), sound(told["api_name"])


MOST_TOOLS: Final = 128  # functions of one request, at OpenAI
RETRIEVED: Final = 20
_K: Final = 1.2
_B: Final = 0.75  # both as Robertson and Zaragoza recommend them (2009, "The Probabilistic Relevance Framework")
_STEM: Final = 4  # characters by which words are taken for forms of one: forecast, forecasting
_WORDS: Final = re.compile(r"[^\W_]+")
_HUMPS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Toolset:
    def __init__(self, tools: Sequence[BaseTool], server_url: str) -> None:
        self._tools = tools
        self._server = VirtualServer(server_url)
        self._index = Index(tools)
        told = [(api, tool) for tool in reversed(tools) if (api := named(tool))]  # of what is told twice, the first
        # Also without the category, which flat files may leave out.
        self._by_api: dict[tuple[str, ...], BaseTool] = {api[1:]: tool for api, tool in told} | dict(told)

    def offered(self, query: BenchQuery) -> Sequence[BaseTool]:
        """The tools of the query's own APIs, or all; where those are too many, the ones that fit its words."""
        tools = self._own(query) or self._tools
        return tools if len(tools) <= MOST_TOOLS else self._fitting(query, tools)

    def recall(self, query: BenchQuery) -> float | None:
        """Share of the query's own APIs, or of as many as fit, that its words find; None: it tells of none."""
        if not (own := {api[1:] for api in query.own}):
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
        index = self._index if tools is self._tools else Index(tools)
        return [tools[number] for number in index.best(query.text, RETRIEVED)]


class Index:
    def __init__(self, tools: Sequence[BaseTool]) -> None:
        texts = [list(_terms(_told(tool))) for tool in tools]
        self._families = [(named(tool) or ("", tool.name))[1] for tool in tools]
        together: defaultdict[str, list[str]] = defaultdict(list)
        for text, family in zip(texts, self._families, strict=True):
            together[family] += text
        self._own, self._together = _Bm25(dict(enumerate(texts))), _Bm25(together)

    def best(self, query: str, most: int) -> list[int]:
        """The numbers of the tools that fit a query, the best first."""
        terms = set(_terms(query))
        own, together = self._own.scores(terms), self._together.scores(terms)
        total = [own[number] + together[family] for number, family in enumerate(self._families)]
        return sorted(range(len(total)), key=lambda number: -total[number])[:most]


class _Bm25:
    def __init__(self, documents: Mapping[Any, Sequence[str]]) -> None:
        usual = sum(map(len, documents.values())) / max(1, len(documents)) or 1
        self._long = {key: 1 - _B + _B * len(terms) / usual for key, terms in documents.items()}
        self._found: defaultdict[str, list[tuple[Hashable, int]]] = defaultdict(list)
        for key, terms in documents.items():
            for term, times in Counter(terms).items():
                self._found[term].append((key, times))

    def scores(self, terms: Iterable[str]) -> defaultdict[Hashable, float]:
        scores: defaultdict[Hashable, float] = defaultdict(float)
        for found in (self._found.get(term, []) for term in sorted(terms)):
            rare = math.log(1 + (len(self._long) - len(found) + 0.5) / (len(found) + 0.5))
            for key, times in found:
                scores[key] += rare * times * (_K + 1) / (times + _K * self._long[key])
        return scores


def _told(tool: BaseTool) -> str:
    fields = [f"{name} {field.get('description', '')}" for name, field in tool.args.items()]
    return " ".join([*(named(tool) or [tool.name]), tool.description, *fields])


def _terms(text: str) -> Iterator[str]:
    for word in _WORDS.findall(_HUMPS.sub(" ", text)):
        lower = word.casefold()
        yield from {lower, lower[:_STEM]}
