"""The queries of a test set, in the form of StableToolBench's `solvable_queries`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from email_assistant.bench.toolbench.apis import DEFAULT_CATEGORY, BenchError, sound
from email_assistant.bench.toolbench.tools import Named

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
