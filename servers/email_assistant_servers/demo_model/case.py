"""What an agent's conversation says so far: the mail, the person's words, and what each earlier tool call came to."""

from collections.abc import Sequence
from dataclasses import dataclass

from email_assistant_servers.demo_model.protocol import Message
from email_assistant_servers.demo_model.reading import Mail, Person, read_instruction, read_mails, read_person
from email_assistant_servers.demo_model.steps import Step, read_rounds

SEND, SCHEDULE, CALENDAR = "send_email_tool", "schedule_meeting_tool", "check_calendar_tool"
QUESTION, DONE = "Question", "Done"


@dataclass(frozen=True)
class Case:
    """Everything that the next step depends on."""

    mail: Mail
    person: Person
    instruction: str
    steps: tuple[Step, ...]

    def last(self, name: str) -> Step | None:
        """The newest call of a tool."""
        return next((step for step in reversed(self.steps) if step.name == name), None)

    def settled(self, name: str) -> bool:
        """Whether a tool's newest call needs nothing more."""
        step = self.last(name)
        return step is not None and step.outcome in ("done", "ignored")

    def failed(self, name: str) -> bool:
        """Whether a tool's newest call failed."""
        step = self.last(name)
        return step is not None and step.outcome == "error"

    @property
    def since_last_answer(self) -> Sequence[Step]:
        """The steps behind the person's newest answer to a question."""
        answered = [number for number, step in enumerate(self.steps) if step.name == QUESTION]
        return self.steps[answered[-1] + 1 :] if answered else self.steps

    @property
    def words(self) -> list[str]:
        """What the person said in this run, oldest first."""
        said = [step.result for step in self.steps if step.outcome == "feedback"]
        return [self.instruction, *said] if self.instruction else said

    @property
    def answer(self) -> str:
        """The person's answer to our question about the mail; an answer about an error is no such answer."""
        answers = [
            step.result
            for before, step in zip((None, *self.steps), self.steps, strict=False)
            if step.name == QUESTION and step.outcome == "feedback" and not (before and before.outcome == "error")
        ]
        return answers[-1] if answers else ""


def read_case(messages: Sequence[Message]) -> Case | None:
    """The case that a conversation is about, or `None` if it holds no mail."""
    with_mail = [
        number for number, message in enumerate(messages) if message.role == "user" and read_mails(message.text)
    ]
    if not with_mail:
        return None
    start = with_mail[-1]
    prompt = messages[start].text
    return Case(
        mail=read_mails(prompt)[-1],
        person=read_person(messages),
        instruction=read_instruction(prompt),
        steps=tuple(
            step
            for steps in read_rounds(messages[start + 1 :], questions={QUESTION}, looks={CALENDAR})
            for step in steps
            if step.name in (SEND, SCHEDULE, CALENDAR, QUESTION)
        ),
    )
