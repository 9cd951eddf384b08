"""How well an agent did, as data and as words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, get_args

from email_assistant.bench.toolbench.answers import Played
from email_assistant.bench.toolbench.queries import BenchQuery
from email_assistant.bench.toolbench.tools import Fault


def scored(played: Sequence[tuple[BenchQuery, Played]], recall: Iterable[float]) -> dict[str, Any]:
    """Rates are from 0 to 1, and None where there was nothing to measure them by."""
    calls = [call for _, each in played for call in each.calls]
    watched = [call for _, each in played for call in each.calls if each.is_watched]
    failed = Counter(call.fault for call in calls)
    return {
        "queries": len(played),
        # by name: share of a query's relevant APIs that were called, the mean of all queries that tell of any
        "api_call_score": mean(_called(query, each) for query, each in played if query.relevant),
        # share of the calls whose request reached just the API that the call names
        "hit_rate": mean(call.api is not None and call.reached == call.api for call in watched),
        # share of the calls whose request reached the server, for whichever API
        "routed_rate": mean(call.reached is not None for call in watched),
        # share of a query's own APIs among the 20 that retrieval finds for it, the mean of all queries that tell of any
        "recall_at_20": mean(recall),
        "calls": len(calls),
        "failed": {fault: failed[fault] for fault in get_args(Fault)},  # calls, by whose fault it was
        "errors": sum(bool(each.error) for _, each in played),  # queries whose run ended before its time
        "crashes": sum(each.crashed for _, each in played),  # those of them that a mistake of the program ended
    }


def shown(scores: Mapping[str, Any]) -> dict[str, str]:
    """Scores in words, by their names."""
    failed = {f"failed, by fault of {whose}": count for whose, count in scores["failed"].items()}
    flat = {name.replace("_", " "): value for name, value in scores.items() if name != "failed"} | failed
    if scores["judge"] is None:
        flat |= {"judge": "none", "solved rate": "needs a judge model"}
    return {name: f"{v:.3f}" if isinstance(v, float) else "-" if v is None else str(v) for name, v in flat.items()}


def markdown(scores: Mapping[str, Any]) -> str:
    """A table of one row."""
    words = shown(scores)
    rows: list[Iterable[str]] = [words, ["---"] * len(words), words.values()]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)


def mean(values: Iterable[float]) -> float | None:
    return fmean(given) if (given := list(values)) else None


def _called(query: BenchQuery, played: Played) -> float:
    called = {(tool, api) for tool, api in played.called_apis}
    return len(called & query.relevant) / len(query.relevant)
