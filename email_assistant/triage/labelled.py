"""Mails of which it is known what they need, from a file of JSON lines."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from email_assistant.errors import AssistantError
from email_assistant.mail.address import Address, parse_addresses
from email_assistant.mail.history import new_text
from email_assistant.mail.message import Mail
from email_assistant.triage.words import OUTCOMES


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
