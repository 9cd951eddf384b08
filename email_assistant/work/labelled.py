"""What a model says that labelled mails need: triage's own prompt, for mail that is in no mailbox."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from email_assistant.agents.mail.prompts import Triage, triage_prompt
from email_assistant.mail.address import Address
from email_assistant.mail.excerpt import tokens
from email_assistant.model import BadAnswer, Models
from email_assistant.model.several import several
from email_assistant.triage.labelled import Labelled
from email_assistant.triage.measure import NO_ANSWER
from email_assistant.work.conversations import StoredMail, triage_text

_ANSWER: Final = 40  # tokens of a sentence and a class
_UTC: Final = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class _Recipient:
    """Whom a mail is sorted for, where nothing but the mail tells who they are."""

    name: str
    address: str
    background: str = ""


def questions(mails: Sequence[Labelled]) -> list[list[AnyMessage]]:
    """The prompt for each mail: for its first recipient, of whom nothing was learned."""
    return [_question(each, str(number)) for number, each in enumerate(mails, 1)]


def cost(asked: Sequence[Sequence[AnyMessage]]) -> tuple[int, int]:
    """About how many tokens of prompts and of answers it takes to ask all."""
    return sum(tokens(message.text) for messages in asked for message in messages), _ANSWER * len(asked)


async def said(
    models: Models, asked: Sequence[Sequence[AnyMessage]], progress: Callable[[int], None] = lambda _: None
) -> list[str]:
    """The class that the model gives each mail; `NO_ANSWER` where it gives none that can be read. Raises what
    `Models.parse` raises."""
    found: dict[int, str] = {}

    async def ask(number: int, messages: Sequence[AnyMessage]) -> None:
        try:
            found[number] = (await models.parse("triage", messages, Triage, "triage")).classification
        except BadAnswer:
            found[number] = NO_ANSWER
        progress(len(found))

    await several(partial(ask, number, messages) for number, messages in enumerate(asked))
    return [found[number] for number in range(len(asked))]


def _question(each: Labelled, identity: str) -> list[AnyMessage]:
    first = next(iter(each.mail.to), Address("", "you"))
    mail = StoredMail(each.mail.message_id or identity, own=False, mail=each.mail)
    recipient = _Recipient(first.name, first.email)
    return [SystemMessage(triage_prompt(recipient, "")), HumanMessage(triage_text(mail, _UTC))]
