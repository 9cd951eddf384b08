"""`Question`, `request_clarification` and `Done`: tools that act on nobody but the conversation of agent and person."""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field

from email_assistant.model.calls import is_written_call
from email_assistant.tools.spec import Arguments, Call, Review, Tool, ToolSpec

CLARIFICATION: Final = "request_clarification"


_NOTHING: Final = re.compile(
    r"(?:`{3}json\b)?\W*+(?:null|none|undefined|true|false|\d++|done|end)?+[^\w?]*+", re.IGNORECASE
)


def is_no_question(text: str) -> bool:
    """Whether a text that a model says to a person is a call, what is left of one, or no words at all."""
    return bool(_NOTHING.fullmatch(text)) or is_written_call(text)


def _for_a_person(text: str) -> str:
    if is_no_question(text):
        raise ValueError("is no question: ask it in words, as a person does; a tool is called, not written out")
    return text


class _QuestionArguments(Arguments):
    content: Annotated[str, AfterValidator(_for_a_person)] = Field(title="Question", min_length=1)


class QuestionTool(Tool):
    spec = ToolSpec(
        name="Question",
        description="Ask the person you work for what only they can know.",
        parameters={"properties": {"content": {"type": "string"}}, "required": ["content"]},
        arguments=_QuestionArguments,
        review=Review("question", ("ignore", "response")),
    )

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        raise AssertionError("a question is answered by the person; it can't be accepted")


class _Clarification(Arguments):
    question: str = Field(min_length=1)
    context: str = ""


class ClarificationTool(Tool):
    """What a chat asks with, as `Question` is what the mail agent does."""

    spec = ToolSpec(
        name=CLARIFICATION,
        description="Ask the person what you must know before you can do it.",
        parameters={
            "properties": {
                "question": {"type": "string"},
                "context": {"type": "string", "description": "What it is about, in a few words"},
            },
            "required": ["question", "context"],
        },
        arguments=_Clarification,
        review=Review("question", ("ignore", "response")),
    )

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        raise AssertionError("a question is answered by the person; it can't be accepted")


class _Done(Arguments):
    # Many models say more than is asked for here, and refusing that would cost a whole call.
    model_config = ConfigDict(extra="ignore")


class DoneTool(Tool):
    spec = ToolSpec(
        name="Done",
        description="All is done. Call it in the same message as the last action.",
        parameters={"properties": {}},
        arguments=_Done,
        review=None,
    )

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        return "Done."
