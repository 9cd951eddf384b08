"""Mail that came in and what became of it, as the person sees it. What the account sent is not listed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Literal, get_args
from uuid import UUID

from email_assistant.db.pool import Pool, fetched, fetched_as
from email_assistant.inbox.items import PAGE, NoItem
from email_assistant.inbox.listing import make_cursor, of_words, read_cursor

State = Literal["new", "triaging", "waiting", "acting", "done", "failed"]
STATES: tuple[State, ...] = get_args(State)
Class = Literal["ignore", "notify", "respond"]
CLASSES: tuple[Class, ...] = get_args(Class)

_OF_ONE_SIDE = """(
    select gmail_id, received_at from mails m
    where {} and account_id = %(account)s and readable
    and thread_id is distinct from (select id from threads where account_id = %(account)s and gmail_id = %(thread)s)
    and mail_words(sender, subject, content) @@ to_tsquery('simple', %(words)s)
    order by received_at desc limit %(most)s)"""
_SEARCH = f"""
    select m.gmail_id as id, own, sender, recipients_of(content) as "to", subject, m.received_at,
           left(coalesce(nullif(content->>'text', ''), content->>'note', ''), 20000) as text
    from ({_OF_ONE_SIDE.format("own")} union all {_OF_ONE_SIDE.format("not own")}) as found
    join mails m on m.account_id = %(account)s and m.gmail_id = found.gmail_id and m.content->>'report' is null
    order by m.received_at desc limit %(most)s"""
"""What an account sent has an index of its own, as what it received has."""
STAGES: Mapping[str, str] = {
    "rules": "your rule",
    "habits": "your habits",
    "model": "the model",
    "fixed": "a fixed rule",
    "report": "what it reports",
    "person": "you",
}
"""Who gives mail its class, in words."""

CORRECTED = "you said so"
"""How the reason of a class begins that the person gave."""

_COLUMNS = """m.gmail_id as id, a.address as account, t.gmail_id as thread, m.sender,
    m.content->'sender'->>'name' as sender_name, m.subject, m.received_at, m.state, m.classification, m.stage,
    m.reason"""
_TABLES = "mails m join accounts a on a.id = m.account_id join threads t on t.id = m.thread_id"


@dataclass(frozen=True, slots=True)
class MailRow:
    id: str
    """Gmail's id, unique in its account."""
    account: str
    thread: str
    """Gmail's id of the conversation."""
    sender: str
    sender_name: str | None
    """As the mail itself has it; whoever writes may call themselves anything."""
    subject: str
    received_at: datetime
    state: State
    classification: str | None
    stage: str | None
    """Who gave it its class, as `STAGES` names them; None where that was not kept."""
    reason: str | None


@dataclass(frozen=True, slots=True)
class FoundMail:
    """A mail that has what was looked for, sent or received."""

    id: str
    own: bool
    """The account sent it."""
    sender: str
    to: Sequence[str]
    """Bare addresses, in lower case."""
    subject: str
    received_at: datetime
    text: str
    """Its beginning, quotes included."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The person's word on what a mail is."""

    id: UUID
    account_id: UUID
    mail_id: str
    sender: str
    subject: str
    by: str
    """Where it was given, such as "cli"."""
    classification: Class
    at: datetime
    triaged_as: Class
    """The class that the mail had before the person said anything."""


class Mails:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(
        self,
        user_id: UUID,
        *,
        state: State | None = None,
        account: str | None = None,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> tuple[list[MailRow], str | None]:
        """One page, newest first, and the cursor of the next page if there is one. Raises BadCursor."""
        rows = await self._newest(
            limit + 1,
            {
                "m.user_id = %s and not m.own": [user_id],
                "m.state = %s": [state] if state else None,
                "a.address = %s": [account.lower()] if account else None,
                "(m.received_at, m.gmail_id) < (%s, %s)": read_cursor(cursor) if cursor else None,
            },
        )
        more = len(rows) > limit
        return rows[:limit], make_cursor(rows[limit - 1].received_at, rows[limit - 1].id) if more else None

    async def find(
        self, user_id: UUID, account_id: UUID, words: str, classification: Class | None, most: int
    ) -> list[MailRow]:
        """An account's mails in whose sender, subject or text stand all of the words, or what begins so; newest first.

        Args:
            words: none finds any mail.
            classification: None finds any class, and mail without one.
        """
        query = of_words(words)
        return await self._newest(
            most,
            {
                "m.user_id = %s and m.account_id = %s and not m.own": [user_id, account_id],
                "mail_words(m.sender, m.subject, m.content) @@ to_tsquery('simple', %s)": [query] if query else None,
                "m.classification = %s": [classification] if classification else None,
            },
        )

    async def search(self, account_id: UUID, words: str, but_thread: str, most: int) -> list[FoundMail]:
        """An account's mails of other conversations than this one of Gmail's that have all of the words, or what begins
        so, in sender, subject or text, but for what claims to be a mail system's report; newest first."""
        given = {"account": account_id, "words": of_words(words), "thread": but_thread, "most": most}
        return await fetched_as(FoundMail, self._pool, _SEARCH, given, plan_anew=True)

    async def get(self, user_id: UUID, mail_id: str, account: str | None = None) -> MailRow:
        """One mail.

        Raises:
            NoItem: no such mail, or one in several accounts and none was named.
        """
        found = await self._mails(
            "m.user_id = %s and m.gmail_id = %s and a.address = coalesce(%s, a.address)",
            user_id,
            mail_id,
            account.lower() if account else None,
        )
        if len(found) != 1:
            raise NoItem(
                f"there is no mail {mail_id}" if not found else f"several accounts have a mail {mail_id}: name one"
            )
        return found[0]

    async def counts(self, user_id: UUID) -> dict[str, dict[str, int]]:
        """Numbers of mails `by_state` and `by_classification`, the account's own mail left out."""
        query = """select state, coalesce(classification, 'none') as classification, count(*) as n
                   from mails where user_id = %s and not own group by 1, 2"""
        rows = await fetched(self._pool, query, (user_id,))
        counts: dict[str, dict[str, int]] = {"by_state": {}, "by_classification": {}}
        for row in rows:
            for group, key in (("by_state", row["state"]), ("by_classification", row["classification"])):
                counts[group][key] = counts[group].get(key, 0) + row["n"]
        return counts

    async def failed(self, user_id: UUID) -> int:
        """How many mails of the last seven days could not be worked on."""
        [row] = await fetched(
            self._pool,
            """select count(*) as n from mails where user_id = %s and state = 'failed' and not own
               and received_at > statement_timestamp() - interval '7 days'""",
            (user_id,),
        )
        return int(row["n"])

    async def _newest(self, most: int, wanted: Mapping[str, Sequence[object] | None]) -> list[MailRow]:
        """The newest mails that meet all conditions, but for those without parameters."""
        met = {condition: given for condition, given in wanted.items() if given}
        where = f"{' and '.join(met)} order by m.received_at desc, m.gmail_id desc limit %s"
        return await self._mails(where, *chain(*met.values()), most, plan_anew=True)

    async def _mails(self, where: str, *parameters: object, plan_anew: bool = False) -> list[MailRow]:
        query = f"select {_COLUMNS} from {_TABLES} where {where}"
        return await fetched_as(MailRow, self._pool, query, parameters, plan_anew=plan_anew)
