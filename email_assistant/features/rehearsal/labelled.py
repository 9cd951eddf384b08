"""Mails of which it is known what they need, from a file of JSON lines, and what a model says that they need: by the
prompt of triage, as they are in no mailbox."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from email_assistant.agents.mail.prompts import Triage, triage_prompt
from email_assistant.errors import AssistantError
from email_assistant.features.rehearsal.habits.words import OUTCOMES
from email_assistant.mail.address import Address, parse_addresses
from email_assistant.mail.excerpt import tokens
from email_assistant.mail.history import new_text
from email_assistant.mail.message import Mail
from email_assistant.model import BadAnswer, Models
from email_assistant.model.asking import several
from email_assistant.work.conversations import StoredMail, triage_text

NO_ANSWER: Final = "no answer"
"""What a model judged whose answer can't be read: never right."""
_ANSWER: Final = 40  # tokens of a sentence and a class
_UTC: Final = ZoneInfo("UTC")


class NoLabelledMail(AssistantError):
    """The file can't be measured on; the message says which line is wrong, and what it needs."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """One mail and what it needs."""

    mail: Mail
    label: str
    is_phishing: bool
    is_synthetic: bool
    """Its `source` says so: made up, by a person or by a model."""


def read(path: Path) -> list[Labelled]:
    """The mails of a file, one JSON object a line: `from`, `to`, `cc`, `subject`, `body`, `label`, and
    `is_phishing` and `source` if they are known. Raises NoLabelledMail."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise NoLabelledMail(f"{path} can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise NoLabelledMail(f"{path} is no text in UTF-8: give a file of JSON lines") from None
    found = [_labelled(f"line {number} of {path}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise NoLabelledMail(f"{path} is empty: give a file of JSON lines, a mail with its label on each")
    return found


def apart(train: list[Labelled], measured: Sequence[Labelled]) -> list[Labelled]:
    """The mails to train on without those that are measured on, which would be known by heart. Raises
    NoLabelledMail where none is left."""
    known = {each.mail for each in measured}
    left = [each for each in train if each.mail not in known]
    if not left:
        raise NoLabelledMail("every mail to train on is also measured on: keep the two apart, or leave --train out")
    return left


def _labelled(where: str, line: str) -> Labelled:
    try:
        given = json.loads(line)
    except ValueError:
        raise NoLabelledMail(f"{where} is no JSON: give one object a line") from None
    if not isinstance(given, dict) or given.get("label") not in OUTCOMES:
        raise NoLabelledMail(f'{where} has no "label" that is one of {", ".join(OUTCOMES)}')
    subject, body = _text(given.get("subject")), _text(given.get("body"))
    mail = Mail(
        message_id=_text(given.get("id")) or None,
        in_reply_to=None,
        references=(),
        sender=next(iter(_addresses(given.get("from"))), None),
        reply_to=(),
        to=_addresses(given.get("to")),
        cc=_addresses(given.get("cc")),
        subject=subject,
        date=None,
        text=body,
        body=new_text(body, subject=subject),
        attachments=(),
        auto_submitted=False,
        bulk=False,
        note="",
    )
    synthetic = "synth" in _text(given.get("source")).lower()
    return Labelled(mail, given["label"], given.get("is_phishing") is True, synthetic)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _addresses(value: Any) -> tuple[Address, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(address for each in listed for address in parse_addresses(_text(each)))


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
