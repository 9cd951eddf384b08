"""What came of a query, and the forms in which StableToolBench writes it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

from email_assistant.bench.toolbench.tools import Fault, Named

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
