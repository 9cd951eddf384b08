"""What the error that ends a command means for the person: one line that says what to do next."""

import errno
import traceback

import psycopg
import pydantic_settings

from email_assistant.db.pool import AWAY, POOLED_BY_TRANSACTION, TABLES_HELD
from email_assistant.errors import AssistantError
from email_assistant.google.errors import GoogleError, LoginFailed, Refused, Revoked
from email_assistant.inbox.items import Conflict, Invalid
from email_assistant.memory.rules import BadRule
from email_assistant.programs import StandInFailed

_DISK_FULL = "the disk is full: free some space, then try again; nothing that was stored is lost"
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def explain(error: BaseException) -> str:
    """One line for the person."""
    return " ".join(_meaning(error).split())


def _meaning(error: BaseException) -> str:
    match error:
        case BaseExceptionGroup():
            return _meaning(error.exceptions[0])
        case Conflict():
            return f"{error}; nothing was changed"
        case BadRule():
            return str(error)
        case Invalid():
            return f"{error}; the item still waits, `email-assistant inbox show` shows its fields"
        case StandInFailed():
            return str(error).removeprefix("google_sandbox: ")
        case GoogleError():
            return explain_google(error)
        case AssistantError():
            return str(error)
        case psycopg.errors.DiskFull():
            return f"the database can't write: {_DISK_FULL}"
        case psycopg.errors.LockNotAvailable():
            return TABLES_HELD
        case psycopg.errors.DuplicatePreparedStatement() | psycopg.errors.InvalidSqlStatementName():
            return POOLED_BY_TRANSACTION
        case _ if isinstance(error, AWAY):
            return "the database went away; try again once it is there, nothing that was stored is lost"
        case OSError():
            return _of_the_system(error)
        case pydantic_settings.SettingsError():
            return f"{error}: it takes JSON; correct it in the environment or in the file of settings"
        case _:
            return _unforeseen(error)


def explain_google(error: GoogleError) -> str:
    """What Google, or its absence, asks of the person."""
    match error:
        case LoginFailed():
            return str(error)
        case Revoked():
            return (
                f"{error}, with `email-assistant auth login ADDRESS`, "
                "or `email-assistant account add ADDRESS --token-file FILE` and a new token"
            )
        case Refused():
            return f"{error}; check that the token's project has the Gmail and Calendar APIs and all scopes"
        case _:
            return f"{error}; check the network, then try again"


def _of_the_system(error: OSError) -> str:
    place = f"{error.filename}: " if error.filename else ""
    if error.errno in _NO_SPACE:
        return f"{place}{_DISK_FULL}"
    said = f"{place}{error.strerror or type(error).__name__}"
    if error.errno in _FORBIDDEN:
        return f"{said}; give yourself the right to it, or choose another folder with EMAIL_ASSISTANT_HOME"
    return said


def _unforeseen(error: BaseException) -> str:
    """Where a mistake of this program shows. Not the error's own words, which may quote a mail, a row or a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"unexpected {type(error).__name__}{at}; please report this line. Nothing that was stored is lost"
