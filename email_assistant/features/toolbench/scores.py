"""What came of a query, in the forms that StableToolBench reads, and how well an agent did, as data and as words."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any, Final, get_args

from email_assistant.features.toolbench.tools import BenchQuery, Fault, Named

FINISH: Final = "Finish"
_DEEPEST: Final = 300  # steps in one another; JSON is read no deeper than about 500
_json = partial(json.dumps, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Called:
    """One call of the model's."""

    name: str  # the tool and the API as the benchmark writes them, or what the model called where there is no such tool
    arguments: Mapping[str, Any]
    response: str  # what the model was answered
    api: Named | None = None  # what it calls, by the tool's metadata; None: nothing that is known
    reached: Named | None = None  # what the server was asked for, by the request itself; None: it answered none
    fault: Fault | None = None  # who made it fail; None: it did not


@dataclass(frozen=True, slots=True)
class Played:
    """What an agent did with a query."""

    final_answer: str
    calls: Sequence[Called] = ()
    offered: Sequence[Mapping[str, Any]] = ()  # the tools that the model could call, as functions of OpenAI's
    error: str = ""  # what ended the run before its time
    crashed: bool = False  # whether that was a mistake of the program's
    passes: bool = False  # whether another try may go well
    is_watched: bool = True  # whether it is known what each call reached

    @property
    def called_apis(self) -> list[list[str]]:
        return [list(call.api[1:]) for call in self.calls if call.api]

    def answer(self) -> dict[str, Any]:
        """As `BaseAgent.answer` gives it: the calls in their order, each for itself, its message as JSON."""
        details = [_node("tool", _json(step)) for step in self._steps()]
        return {
            "answer": {"final_answer": self.final_answer, "answer_details": details},
            "called_apis": self.called_apis,
        }

    def converted(self, query: str, method: str) -> dict[str, Any]:
        """An entry of the files that StableToolBench's scorer reads (`model_predictions_converted`): it follows `next`
        from the system node on; messages are objects in it, and arguments are JSON."""
        steps = [step | {"arguments": _json(step["arguments"])} for step in self._steps()[-_DEEPEST:]]
        nodes = [_node("system", ""), _node("user", query), *(_node("tool", step) for step in steps)]
        for node, following in pairwise(nodes):
            node["next"].append(following)
        answer = {"final_answer": steps[-1]["arguments"], "answer_details": nodes[:1]}
        return {
            "query": query,
            "available_tools": list(self.offered),
            "answer": {"method": method, "total_steps": len(nodes), **answer},
        }

    def _steps(self) -> list[dict[str, Any]]:
        """Its calls; the last one is `Finish`."""
        finish = Called(FINISH, {"return_type": "give_answer", "final_answer": self.final_answer}, "")
        return [
            {"name": call.name, "arguments": call.arguments, "response": call.response}
            for call in (*self.calls, finish)
        ]


def _node(role: str, message: Any) -> dict[str, Any]:
    return {"role": role, "message": message, "next": []}


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
