"""The tools that an agent has been given, and which of them go with a query: models take no more than so many.

Where a query's own APIs aren't told, its words choose: BM25 over what each tool tells, and over its family, since the
APIs of one tool are wanted together far more often than apart.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.tools import BaseTool

from email_assistant.bench.toolbench.apis import api_of
from email_assistant.bench.toolbench.queries import BenchQuery
from email_assistant.bench.toolbench.tools import VirtualServer, make_tools, named

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
