"""What a failure means for the work it stopped."""

from dataclasses import dataclass
from datetime import datetime

from email_assistant.accounts.account import UnknownAccount
from email_assistant.accounts.vault import VaultError
from email_assistant.agents.loop import StepBudgetSpent
from email_assistant.db.pool import AWAY
from email_assistant.db.serializer import ForeignCheckpoint
from email_assistant.gate.source import BadFile
from email_assistant.google.errors import Ambiguous, GoogleError, NotFound, RateLimited, Refused, Revoked, Transient
from email_assistant.inbox.kept import UnreadableAnswer
from email_assistant.model import BadAnswer, ModelDown, ModelFault, ModelRefused
from email_assistant.outgoing.entry import EffectMismatch, NotYetClear
from email_assistant.tools.spec import ServerDown
from email_assistant.usage import BudgetSpent


class MailboxUnreadable(Exception):
    """Google does not let the mailbox be read now."""


class QuestionNotStored(Exception):
    """The database did not take what the run asks, so no answer could be passed on."""


class LostInterrupt(RuntimeError):
    """An answer was given to a question that the run doesn't ask."""


@dataclass(frozen=True, slots=True)
class Fault:
    reason: str
    """One line for the person."""
    passing: bool
    """Another try may go well."""
    outage: bool = False
    """It is not this mail's fault: the work waits and goes on by itself, however long that takes."""
    until: datetime | None = None
    """Nothing can go well before this time."""
    login: bool = False
    """The person must log in to the account again."""
    unexpected: bool = False
    """Nothing here foresaw it, so it is likely a mistake of this program."""


def classify(error: BaseException) -> Fault:
    match error:
        case ModelDown():
            return Fault(str(error), passing=True, outage=True, until=error.until)
        case BudgetSpent():
            return Fault(str(error), passing=True, outage=True)
        case RateLimited() | NotYetClear():
            return Fault(str(error), passing=True, outage=True, until=error.until)
        case Transient() | Ambiguous() | MailboxUnreadable():
            return Fault(str(error), passing=True, outage=True)
        case _ if isinstance(error, (*AWAY, QuestionNotStored)):
            return Fault("the database is not available", passing=True, outage=True)
        case Revoked():
            return Fault(
                "Google no longer accepts the login: log in again with `email-assistant auth login`",
                passing=True,
                outage=True,
                login=True,
            )
        case VaultError():
            return Fault(str(error), passing=True, outage=True)
        case ServerDown() | BadFile():
            return Fault(str(error), passing=True, outage=True)
        case ModelRefused() | StepBudgetSpent() | EffectMismatch() | LostInterrupt() | Refused() | NotFound():
            return Fault(str(error), passing=False)
        case ForeignCheckpoint() | UnreadableAnswer():  # nothing in the database mends itself
            return Fault(str(error), passing=False)
        case GoogleError() | ModelFault() | BadAnswer() | UnknownAccount():
            return Fault(str(error), passing=True)
        case _:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
            return Fault(reason, passing=True, unexpected=True)
