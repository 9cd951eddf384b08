"""What came of a query, and the forms in which StableToolBench writes it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from email_assistant.bench.toolbench.tools import Fault, Named

FINISH: Final = "Finish"


@dataclass(frozen=True, slots=True)
class Called:
    """One call of the model's."""

    name: str
    """The tool and the API as the benchmark writes them, or what the model called where there is no such tool."""
    arguments: Mapping[str, Any]
    response: str
    """What the model was answered."""
    api: Named | None = None
    """What it calls, by the tool's metadata; None: there is no such tool."""
    reached: Named | None = None
    """What the server was asked for, by the request itself; None: it answered none."""
    fault: Fault | None = None
    """Who made it fail; None: it did not."""


@dataclass(frozen=True, slots=True)
class Played:
    """What an agent did with a query."""

    final_answer: str
    calls: Sequence[Called] = ()
    offered: Sequence[Mapping[str, Any]] = ()
    """The tools that the model could call, as functions of OpenAI's."""
    error: str = ""
    """What ended the run before its time."""
    crashed: bool = False
    """Whether that was a mistake of the program's."""
    passes: bool = False
    """Whether another try may go well."""
    is_watched: bool = True
    """Whether it is known what each call reached."""

    @property
    def called_apis(self) -> list[list[str]]:
        return [list(call.api[1:]) for call in self.calls if call.api]

    def answer(self) -> dict[str, Any]:
        """As `BaseAgent.answer` gives it."""
        return {
            "answer": {"final_answer": self.final_answer, "answer_details": execution_graph(self)},
            "called_apis": self.called_apis,
        }


def execution_graph(played: Played) -> list[dict[str, Any]]:
    """The calls in their order, each for itself, its message as JSON; the last one is `Finish`."""
    calls = [{"name": each.name, "arguments": each.arguments, "response": each.response} for each in played.calls]
    return [_node("tool", json.dumps(each, ensure_ascii=False)) for each in [*calls, _finish(played)]]


def converted(query: str, played: Played, method: str) -> dict[str, Any]:
    """One entry of the file that StableToolBench's scorer reads (`model_predictions_converted`): it follows `next` from
    the system node on; messages are objects in it, and arguments are JSON."""
    calls = [(each.name, each.arguments, each.response) for each in played.calls]
    finish = _finish(played)
    steps = [*calls, (FINISH, finish["arguments"], "")]
    nodes = [_node("system", ""), _node("user", query)]
    nodes += [
        _node("tool", {"name": name, "arguments": json.dumps(given, ensure_ascii=False), "response": response})
        for name, given, response in steps
    ]
    return {
        "query": query,
        "available_tools": list(played.offered),
        "answer": {
            "method": method,
            "total_steps": len(nodes),
            "final_answer": json.dumps(finish["arguments"], ensure_ascii=False),
            "answer_details": [_chained(nodes)],
        },
    }


def _finish(played: Played) -> dict[str, Any]:
    arguments = {"return_type": "give_answer", "final_answer": played.final_answer}
    return {"name": FINISH, "arguments": arguments, "response": ""}


def _node(role: str, message: Any) -> dict[str, Any]:
    return {"role": role, "message": message, "next": []}


def _chained(nodes: Iterable[dict[str, Any]]) -> dict[str, Any]:
    first, *rest = nodes
    last = first
    for node in rest:
        last["next"].append(node)
        last = node
    return first
