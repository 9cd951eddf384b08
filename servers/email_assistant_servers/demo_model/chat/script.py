"""How a task is written down and played: a generator that yields its calls, is sent what they came to, returns a text.

The server keeps nothing between requests: each one plays the scripts from the start along the calls that the
conversation holds, and so finds out which come next.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from ..protocol import ModelAnswer, ModelCall
from ..reading import Step
from ..wording import patterns, shorten

CLARIFY = "request_clarification"
LIST, CREATE, UPDATE = "list_events", "create_event", "update_event"
SEARCH, READ, SEND = "search_mail", "get_thread", "send_email_tool"
WAITING, FIND, EXPLAIN = "list_waiting", "find_mail", "explain_mail"
LOOKS = frozenset({LIST, SEARCH, READ, WAITING, FIND, EXPLAIN})  # tools that change nothing and need nobody

Script = Generator[ModelCall, Step, str]
T = TypeVar("T")

_NEVER_MIND = patterns("chat")["never_mind"]


class GiveUp(Exception):
    """The task can't go on; the message is its text."""


def play(scripts: Sequence[Script], rounds: Sequence[Sequence[Step]], tools: frozenset[str]) -> ModelAnswer:
    """The next calls of the scripts, or their texts when all have ended. What can be looked up is not asked about."""
    states = [_go_on(lambda script=script: next(script), tools) for script in scripts]  # type: ignore[misc]
    for steps in rounds:
        waiting = list(steps)
        for number, script in enumerate(scripts):
            call = states[number]
            step = next((step for step in waiting if isinstance(call, ModelCall) and step.name == call.name), None)
            if step:
                waiting.remove(step)
                states[number] = _go_on(lambda script=script, step=step: script.send(step), tools)  # type: ignore[misc]
    calls = [state for state in states if isinstance(state, ModelCall)]
    looks = [call for call in calls if call.name in LOOKS]
    return ModelAnswer(calls=tuple(looks or calls)) if calls else ModelAnswer("\n\n".join(map(str, states)))


def _go_on(resume: Callable[[], ModelCall], tools: frozenset[str]) -> ModelCall | str:
    """The call that a script waits for next, or its text."""
    try:
        call = resume()
    except StopIteration as end:
        return str(end.value)
    except GiveUp as reason:
        return str(reason)
    return call if call.name in tools else f"For this I would need {call.name}, which I was not given."


def look(name: str, **arguments: object) -> Generator[ModelCall, Step, str]:
    """What a tool that changes nothing answers; an error is tried once more. Raises GiveUp."""
    for _ in range(2):
        step = yield ModelCall(name, arguments)
        if step.outcome != "error":
            return step.result
    raise GiveUp(_failure(step))


def propose(
    state: T, called: Callable[[T], ModelCall], corrected: Callable[[T, str], T]
) -> Generator[ModelCall, Step, Step]:
    """What became of a call that the person reviews; where their words against it change it, of the changed one."""
    step = yield called(state)
    while step.outcome == "feedback" and not _NEVER_MIND.search(step.result):
        better = corrected(state, step.result)
        if better == state:
            break
        state = better
        step = yield called(state)
    return step


def not_done(step: Step, what: str) -> str:
    """What is said of a proposed call that was not carried out."""
    if step.outcome == "error":
        return _failure(step)
    if step.outcome == "ignored":
        return f"{what}, as you wished."
    return f"{what}. You said: “{shorten(step.result, 300)}”"


def ask(question: str, context: str = "") -> Generator[ModelCall, Step, str]:
    """The person's answer. Raises GiveUp if they would rather not."""
    step = yield ModelCall(CLARIFY, {"question": question, "context": context})
    if step.outcome != "feedback" or _NEVER_MIND.search(step.result):
        raise GiveUp("All right, I have left that alone.")
    return step.result


def _failure(step: Step) -> str:
    return f"{step.name} failed: {shorten(step.result, 300)}"
