"""Requests of a chat of which the right answers are known, and how often a model gives them: the types of tools, as the
policy router, and the first call, as the task executor. Both are asked as a chat asks them, and no tool is run."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from email_assistant.agents.chat.nodes import executed, routed, to_execute, to_route
from email_assistant.db.values import zone_named
from email_assistant.features.rehearsal.habits.proof import interval
from email_assistant.mail.excerpt import tokens
from email_assistant.model import BadAnswer, Models
from email_assistant.model.asking import several
from email_assistant.tools.registry import Offer, Registry
from email_assistant.tools.spec import in_one_spelling
from email_assistant.user_file import UserFile

SHIPPED: Final = Path(__file__).with_name("requests.yaml")
UNREADABLE: Final = "no answer that can be read"
WORDS: Final = "words alone"
Node = Literal["router", "executor"]
Outcome = Literal[
    "right", "too many", "too few", "other types", "wrong argument", "no call", "other call", "unreadable"
]
"""`too many` and `too few`: types; `other types`: both."""
_ANSWER: Final = 60  # tokens of a call
_NOBODY: Final = UUID(int=0)
_AT: Final = time(9)


def _as_list(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _as_sets(given: Any) -> Any:
    return given if isinstance(given, list) and given and isinstance(given[0], list) else [given]


_Patterns = Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1)]


class KnownRequest(BaseModel):
    """What a person asks for, and what is right."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request: str = Field(min_length=1, max_length=10_000)
    types: Annotated[list[list[str]], BeforeValidator(_as_sets), Field(min_length=1)]
    """The sets of types that are right; the executor is given the tools of the first."""
    calls: dict[str, dict[str, _Patterns]] = {}
    """The tools of which each is right as the first call, with patterns of the arguments that matter. An argument that
    a call leaves out is the empty text."""
    words: bool = False
    """Whether words without a call are right."""


class _RequestsFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    today: date
    requests: list[KnownRequest] = Field(min_length=1, max_length=1000)


@dataclass(frozen=True, slots=True)
class _Inventor:
    """Who asks for it all, and has said nothing of themselves."""

    name: str = "Ada Keller"
    address: str = "ada@example.com"
    background: str = ""
    has_mailbox: bool = True
    timezone: str = "Europe/Berlin"


@dataclass(frozen=True, slots=True)
class Posed:
    """A request as both nodes are asked about it."""

    request: KnownRequest
    types: Mapping[str, Sequence[str]]  # all, with the names of their tools
    to_router: Sequence[AnyMessage]
    to_executor: Sequence[AnyMessage]
    offered: Offer  # to the executor


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What a node made of a request. `argument`: the first that is wrong."""

    number: int
    request: str
    node: Node
    outcome: Outcome
    expected: str
    got: str
    argument: str | None = None


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """How often a node was right, and how often it was wrong in which way.

    Attributes:
        interval: of the share that is right, 95 %, Clopper-Pearson.
        wrong_arguments: by tool and name."""

    n: int
    right: int
    interval: tuple[float, float]
    wrong: Mapping[Outcome, int]
    wrong_arguments: Mapping[str, int]


async def read(path: Path, tools: Registry) -> list[Posed]:
    """The requests of a YAML or JSON file, with what is asked about each. Raises BadFile."""
    source = UserFile.read(path)
    file, types = source.parsed(_RequestsFile, source.mapping()), tools.types(mailbox=True)
    speaker = _Inventor()
    now = datetime.combine(file.today, _AT, zone_named(speaker.timezone))
    posed = []
    for number, each in enumerate(file.requests):
        place = ("requests", number)
        if unknown := sorted({name for right in each.types for name in right} - types.keys()):
            raise source.bad((*place, "types"), f"there is no type {unknown[0]}; there are {', '.join(types)}")
        offered = await tools.offered("chat", _NOBODY, each.types[0])
        names = [tool.spec.name for tool in offered.tools]
        if unknown := sorted(each.calls.keys() - names):
            reason = f"there is no tool {unknown[0]} among the first types; there are {', '.join(names)}"
            raise source.bad((*place, "calls", unknown[0]), reason)
        if not each.calls and not each.words:
            raise source.bad(place, "nothing is right here: give calls, or words: true")
        said = [HumanMessage(each.request)]
        executing = to_execute(speaker, ("", ""), now, offered, said)
        posed.append(Posed(each, types, to_route(speaker, types, said), executing, offered))
    return posed


def cost(posed: Sequence[Posed]) -> tuple[int, int]:
    """About how many tokens of prompts and of answers it takes to ask both nodes about all."""
    texts = (message.text for each in posed for message in (*each.to_router, *each.to_executor))
    schemas = (json.dumps(each.offered.schemas()) for each in posed)
    return sum(map(tokens, texts)) + sum(map(tokens, schemas)), 2 * _ANSWER * len(posed)


async def ask(models: Models, posed: Sequence[Posed], progress: Callable[[int], None]) -> list[NodeAnswer]:
    """What both nodes make of each request. Raises what `Models` raises, but for BadAnswer."""
    told: list[NodeAnswer] = []

    async def of(node: Callable[[Models, int, Posed], Any], number: int, each: Posed) -> None:
        told.append(await node(models, number, each))
        progress(len(told))

    numbered = list(enumerate(posed, 1))
    await several(partial(of, node, *each) for each in numbered for node in (_routed, _executed))
    return sorted(told, key=lambda each: (each.number, get_args(Node).index(each.node)))


def figures(told: Iterable[NodeAnswer], node: Node) -> NodeFigures:
    of_node = [each for each in told if each.node == node]
    wrong = [each for each in of_node if each.outcome != "right"]
    n, right = len(of_node), len(of_node) - len(wrong)
    arguments = Counter(each.argument for each in wrong if each.argument)
    return NodeFigures(n, right, interval(right, n), dict(Counter(each.outcome for each in wrong)), dict(arguments))


async def _routed(models: Models, number: int, posed: Posed) -> NodeAnswer:
    request = posed.request
    told = partial(NodeAnswer, number, request.request, "router")
    expected = " or ".join(map(_listed, request.types))
    try:
        got = set(await routed(models, posed.to_router, posed.types))
    except BadAnswer:
        return told("unreadable", expected, UNREADABLE)
    nearest = min(map(set, request.types), key=lambda right: len(right ^ got))
    return told(_OF_TYPES[bool(got - nearest), bool(nearest - got)], expected, _listed(sorted(got)))


_OF_TYPES: Final[Mapping[tuple[bool, bool], Outcome]] = {
    (False, False): "right",
    (True, False): "too many",
    (False, True): "too few",
    (True, True): "other types",
}


async def _executed(models: Models, number: int, posed: Posed) -> NodeAnswer:
    request = posed.request
    told = partial(NodeAnswer, number, request.request, "executor")
    right = [_written(name, {k: " or ".join(v) for k, v in args.items()}) for name, args in request.calls.items()]
    expected = " or ".join([*right, *([WORDS] if request.words else [])])
    try:
        answer = await executed(models, posed.to_executor, posed.offered)
    except BadAnswer:
        answer = AIMessage("")
    if answer.invalid_tool_calls or not (answer.tool_calls or answer.text.strip()):
        return told("unreadable", expected, UNREADABLE)
    if not answer.tool_calls:
        return told("right" if request.words else "no call", expected, f"words: {answer.text.strip()}")
    name, args = answer.tool_calls[0]["name"], answer.tool_calls[0]["args"]
    got = _written(name, {key: _text(value) for key, value in args.items()})
    if name not in request.calls:
        return told("other call", expected, got)
    wrong = [key for key, patterns in request.calls[name].items() if not _fits(args.get(key), patterns)]
    return told("wrong argument", expected, got, f"{name}.{wrong[0]}") if wrong else told("right", expected, got)


def _fits(given: object, patterns: Sequence[str]) -> bool:
    """Whether an argument is as one of the patterns, in which * stands for any characters."""
    text = in_one_spelling(_text(given))
    return any(fnmatchcase(text, in_one_spelling(pattern)) for pattern in patterns)


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case list():
            return ", ".join(map(_text, value))
        case _:
            return json.dumps(value, ensure_ascii=False)


def _written(name: str, args: Mapping[str, str]) -> str:
    return f"{name}({', '.join(f'{key}: {value}' for key, value in args.items())})"


def _listed(types: Sequence[str]) -> str:
    return ", ".join(types) or "none"
