"""How a task is written down and played: a generator that yields its calls, is sent what they came to, returns a text.

The server keeps nothing between requests: each one plays the scripts from the start along the calls that the
conversation holds, and so finds out which come next.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from email_assistant_servers.demo_model.chat.conversation import CLARIFY, LOOKS
from email_assistant_servers.demo_model.protocol import Answer, Call
from email_assistant_servers.demo_model.reading import shorten
from email_assistant_servers.demo_model.steps import Step
from email_assistant_servers.demo_model.wording import any_of

Script = Generator[Call, Step, str]
T = TypeVar("T")

_NEVER_MIND = any_of(
    r"never ?mind|(?:forget|skip|leave|drop|cancel) (?:it|that|this)|forget about it",
    r"(?:don['’]t|do not) (?:bother|send|book|create|move|schedule|reply|write|do)",
    r"^\W*(?:no|nothing|cancel|stop|nein|nichts|non|rien)(?:,? (?:thanks?|thank you|danke|merci))?(?=\W*$)",
)


class GiveUp(Exception):
    """The task can't go on; the message is its text."""


def play(scripts: Sequence[Script], rounds: Sequence[Sequence[Step]], tools: frozenset[str]) -> Answer:
    """The next calls of the scripts, or their texts when all have ended. What can be looked up is not asked about."""
    parts = [_Part(script, tools) for script in scripts]
    for steps in rounds:
        waiting = list(steps)
        for part in parts:
            _take_result(part, waiting)
    calls = [part.call for part in parts if part.call]
    looks = [call for call in calls if call.name in LOOKS]
    return Answer(calls=tuple(looks or calls)) if calls else Answer("\n\n".join(part.text for part in parts))


class _Part:
    """One script on its way: the call that it waits for, or its text."""

    def __init__(self, script: Script, tools: frozenset[str]) -> None:
        self._script = script
        self._tools = tools
        self.call: Call | None = None
        self.text = ""
        self._go_on(lambda: next(script))

    def take(self, step: Step) -> None:
        self._go_on(lambda: self._script.send(step))

    def _go_on(self, resume: Callable[[], Call]) -> None:
        self.call = None
        try:
            call = resume()
        except StopIteration as end:
            self.text = end.value
        except GiveUp as reason:
            self.text = str(reason)
        else:
            if call.name in self._tools:
                self.call = call
            else:
                self.text = f"For this I would need {call.name}, which I was not given."


def _take_result(part: _Part, waiting: list[Step]) -> None:
    """Hand the first step of the tool that the part waits for to it."""
    step = next((step for step in waiting if part.call and step.name == part.call.name), None)
    if step:
        waiting.remove(step)
        part.take(step)


def look(name: str, **arguments: object) -> Generator[Call, Step, str]:
    """What a tool that changes nothing answers; an error is tried once more. Raises GiveUp."""
    call = Call(name, arguments)
    step = yield call
    if step.outcome == "error":
        step = yield call
    if step.outcome == "error":
        raise GiveUp(failure(step))
    return step.result


def propose(state: T, called: Callable[[T], Call], corrected: Callable[[T, str], T]) -> Generator[Call, Step, Step]:
    """What became of a call that the person reviews; where their words against it change it, of the changed one."""
    step = yield called(state)
    while step.outcome == "feedback" and not declines(step.result):
        better = corrected(state, step.result)
        if better == state:
            break
        state = better
        step = yield called(state)
    return step


def not_done(step: Step, what: str) -> str:
    """What is said of a proposed call that was not carried out."""
    if step.outcome == "error":
        return failure(step)
    return (
        f"{what}, as you wished." if step.outcome == "ignored" else f"{what}. You said: “{shorten(step.result, 300)}”"
    )


def ask(question: str, context: str) -> Generator[Call, Step, str]:
    """The person's answer. Raises GiveUp if they would rather not."""
    step = yield Call(CLARIFY, {"question": question, "context": context})
    if step.outcome != "feedback" or declines(step.result):
        raise GiveUp("All right, I have left that alone.")
    return step.result


def declines(words: str) -> bool:
    """Whether the person doesn't want a thing done at all."""
    return _NEVER_MIND.search(words) is not None


def failure(step: Step) -> str:
    """What is said of a call that failed."""
    return f"{step.name} failed: {shorten(step.result, 300)}"
