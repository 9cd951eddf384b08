"""What a run of the benchmark shows: scores of all its queries, as data and as a table."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from email_assistant.bench.toolbench.answers import Played
from email_assistant.bench.toolbench.queries import BenchQuery
from email_assistant.bench.toolbench.tools import Fault


@dataclass(frozen=True, slots=True)
class Scores:
    """Rates are from 0 to 1, and None where nothing was there to measure them by."""

    agent: str
    test_set: str
    queries: int
    api_call_score: float | None
    """Share of a query's relevant APIs that were called, by name; the mean of all queries that tell of any."""
    hit_rate: float | None
    """Share of the calls whose request reached just the API that the call names."""
    routed_rate: float | None
    """Share of the calls whose request reached the server, for whichever API."""
    recall_at_20: float | None
    """Share of a query's own APIs that stand among the 20 that retrieval finds for it; the mean of all queries."""
    calls: int
    failed: dict[Fault, int]
    """Calls that failed, by whose fault it was."""
    errors: int
    """Queries whose run ended before its time: its final answer says why."""
    crashes: int
    """Those of them that a mistake of the program ended."""
    judge: str | None
    """The model that judged the answers; None: none did."""
    solved_rate: float | None
    """Share of the queries that are solved, as the judge sees it; an answer of which it is unsure counts half."""

    def json(self) -> dict[str, Any]:
        return asdict(self)


def report(
    agent: str,
    test_set: str,
    played: Sequence[tuple[BenchQuery, Played]],
    recall: float | None,
    judge: str | None = None,
    verdicts: Iterable[float] = (),
) -> Scores:
    calls = [call for _, each in played for call in each.calls]
    watched = [call for _, each in played for call in each.calls if each.is_watched]
    failed = Counter(call.fault for call in calls)
    return Scores(
        agent=agent,
        test_set=test_set,
        queries=len(played),
        api_call_score=mean(_called(query, each) for query, each in played if query.relevant),
        hit_rate=mean(call.api is not None and call.reached == call.api for call in watched),
        routed_rate=mean(call.reached is not None for call in watched),
        recall_at_20=recall,
        calls=len(calls),
        failed={fault: failed[fault] for fault in get_args(Fault)},
        errors=sum(bool(each.error) for _, each in played),
        crashes=sum(each.crashed for _, each in played),
        judge=judge,
        solved_rate=mean(verdicts),
    )


def markdown(reports: Iterable[Scores]) -> str:
    """One row for each run."""
    columns = ["agent", "test set", "queries", "API-call score", "hit rate", "routed rate", "recall@20"]
    columns += ["calls", "failed: model / ours / server", "errors", "crashes", "solved (judge)"]
    rows = [columns, ["---"] * len(columns), *map(_row, reports)]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)


def _row(of: Scores) -> list[str]:
    return [
        *(of.agent, of.test_set, str(of.queries)),
        *map(_rate, (of.api_call_score, of.hit_rate, of.routed_rate, of.recall_at_20)),
        *(str(of.calls), " / ".join(map(str, of.failed.values())), str(of.errors), str(of.crashes)),
        "needs a judge model" if of.judge is None else f"{_rate(of.solved_rate)} ({of.judge})",
    ]


def mean(values: Iterable[float]) -> float | None:
    """None: there are none."""
    given = list(values)
    return sum(given) / len(given) if given else None


def _called(query: BenchQuery, played: Played) -> float:
    called = {(tool, api) for tool, api in played.called_apis}
    return len(called & set(query.relevant)) / len(set(query.relevant))


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
