"""How often a rule had a say in what a mail is. Only rules on triage are counted: its model can name them cheaply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from email_assistant.db.lease import HELD, RowChange
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.memory.rules import Profile, Rule

COUNTED: Profile = "triage_preferences"
_SQL = statements("memory", "fires.sql", held=HELD)


@dataclass(frozen=True, slots=True)
class Fired:
    """How often a rule was used, whatever it said then."""

    times: int = 0  # mails
    last_at: datetime | None = None


def noted(account_id: UUID, mail_id: str, fired: Sequence[Rule]) -> list[RowChange]:
    """Rules counted for a mail, to go along with its class; a repeat changes nothing."""
    keys, versions = [rule.key for rule in fired], [rule.version for rule in fired]
    return [RowChange(_SQL["note"], (COUNTED, mail_id, keys, versions, account_id))] if fired else []


async def counted(pool: Pool, account_id: UUID) -> Mapping[tuple[Profile, str], Fired]:
    """By profile and key, the rules that were ever used."""
    rows = await fetched(pool, _SQL["counted"], (account_id,))
    return {(row["profile"], row["rule"]): Fired(row["times"], row["last_at"]) for row in rows}


async def forget_mails(conn: Connection, account_id: UUID, mail_ids: Sequence[str]) -> None:
    await conn.execute(_SQL["forget_mails"].encode(), (account_id, list(mail_ids)))


async def forget_rule(conn: Connection, account_id: UUID, profile: Profile, key: str) -> None:
    await conn.execute(_SQL["forget_rule"].encode(), (account_id, profile, key))
