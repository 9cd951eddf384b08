"""The queries of a test set, in the form of StableToolBench's `solvable_queries`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from email_assistant.bench.toolbench.apis import BenchError
from email_assistant.bench.toolbench.tools import Named

QUERIES_DIR: Final = Path("StableToolBench/solvable_queries/test_instruction")
"""Where a checkout of StableToolBench beside the caller has its test sets."""


@dataclass(frozen=True, slots=True)
class Query:
    id: str
    text: str
    own: Sequence[Mapping[str, Any]] = ()
    """The APIs that it was written for, as its file tells of them."""
    relevant: Sequence[Named] = ()
    """Those that it can't be answered without."""

    @property
    def own_names(self) -> list[Named]:
        return [(str(each["tool_name"]), str(each["api_name"])) for each in self.own]


def read_queries(test_set: str | Path) -> list[Query]:
    """`test_set`: a file, or the name of one in `QUERIES_DIR`. Raises BenchError."""
    path = Path(test_set)
    if not path.is_file():
        path = QUERIES_DIR / f"{test_set}.json"
    try:
        return [_query(number, told) for number, told in enumerate(json.loads(path.read_text("utf-8-sig")))]
    except OSError as error:
        raise BenchError(f"the queries {test_set} can't be read: {error.strerror}; name a file of queries") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BenchError(f"{path} is no file of queries: {type(error).__name__} {error}") from None


def _query(number: int, told: Mapping[str, Any]) -> Query:
    own = [each for each in told.get("api_list") or () if each["tool_name"] and each["api_name"]]
    relevant = [(str(tool), str(api)) for tool, api in told.get("relevant APIs") or ()]
    return Query(str(told.get("query_id", number)), str(told["query"]), own, relevant)
