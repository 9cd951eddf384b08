"""What a failure means for the work it stopped."""

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime

import psycopg

from email_assistant.db.pool import AWAY
from email_assistant.errors import AssistantError, Passes

log = logging.getLogger(__name__)

_DATABASE_AWAY = "the database is not available"
_LOG_IN = "Google no longer accepts the login: log in again with `email-assistant auth login`"


class MailboxUnreadable(AssistantError):
    """Google does not let the mailbox be read now."""

    passes = "by itself"
    is_plain = True


class QuestionNotStored(AssistantError):
    """The database did not take what the run asks, so no answer could be passed on."""

    passes = "by itself"

    def __init__(self) -> None:
        super().__init__(_DATABASE_AWAY)


class LostInterrupt(AssistantError):
    """An answer was given to a question that the run doesn't ask."""


@dataclass(frozen=True, slots=True)
class Fault:
    reason: str
    """One line for the person."""
    passes: Passes
    until: datetime | None = None
    """Nothing can go well before this time."""
    needs_login: bool = False
    """The person must log in to the account again."""
    unexpected: bool = False
    """Nothing here foresaw it, so it is likely a mistake of this program."""
    waits_for: str | None = None
    """The server whose answer has the work go on before that."""

    @property
    def passing(self) -> bool:
        """Another try may go well."""
        return self.passes != "never"

    @property
    def outage(self) -> bool:
        """It is not this work's fault, which waits and goes on by itself, however long that takes."""
        return self.passes == "by itself"


def to_come(fault: Fault) -> str:
    """What happens next, as a log says it."""
    if fault.needs_login:
        return "it waits for a login"
    if not fault.passing:
        return "it is set aside until it is tried again by hand"
    return f"it is tried again by itself{f', not before {fault.until:%H:%M:%S} UTC' if fault.until else ''}"


def classify(error: BaseException) -> Fault:
    if isinstance(error, AssistantError):
        reason = _LOG_IN if error.needs_login else str(error)
        return Fault(reason, error.passes, error.until, error.needs_login, waits_for=error.waits_for)
    if isinstance(error, AWAY):
        return Fault(_DATABASE_AWAY, "by itself")
    reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    return Fault(reason, "on another try", unexpected=True)


async def tried(otherwise: str, work: Awaitable[None]) -> None:
    """Whatever goes wrong in it is tried again in time, and stops nothing else."""
    try:
        await work
    except psycopg.Error as error:
        log.warning("%s: the database is not available (%s)", otherwise, type(error).__name__)
    except Exception:
        log.exception("%s", otherwise)
