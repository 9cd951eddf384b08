"""The label in Gmail that shows a mail's class, and the person who moves it.

What is to be shown is derived: a mail that was triaged and whose label is not known to be there. A label is set under
the conversation's lease and may be set again, so a crash or an outage only delays it.
"""

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.rows import COLUMNS, account_in
from email_assistant.db import mails, threads
from email_assistant.db.lease import Lease, LeaseLost
from email_assistant.db.pool import Pool, fetched
from email_assistant.errors import AssistantError, logged
from email_assistant.google.errors import Exists, NotFound, Refused
from email_assistant.google.gmail import Gmail
from email_assistant.inbox.items import Conflict
from email_assistant.inbox.mails import Class
from email_assistant.telemetry import now_about
from email_assistant.work.corrections import Corrections, NothingToAnswer
from email_assistant.work.faults import classify, to_come

log = logging.getLogger(__name__)

MOVED_IN = "gmail"

_LABELS_ARE_SET = "a.state = 'active' and a.mode <> 'shadow'"
"""In which accounts labels are touched at all."""
# A week, so that labels that are turned on late, or can't be set at all, don't make work of the whole mailbox.
UNSHOWN = f"""{_LABELS_ARE_SET} and m.labelled is null and m.classification is not null
  and m.triaged_at > statement_timestamp() - interval '7 days'"""
"""SQL: mails `m` of accounts `a` whose label is to be set."""
MOVED = f"""{_LABELS_ARE_SET} and m.relabelled is not null and m.state in ('waiting', 'done', 'failed')
  and not exists (select from runs r where r.thread_id = m.thread_id and r.state in ('running', 'acting'))
  and not exists (select from inbox_items i where i.run_id = m.run_id and i.status = 'decided')"""
"""SQL: those whose label was moved and is to be looked at, now that no run and no answer comes first."""


class NoLabel(AssistantError):
    """Gmail does not let a label of that name be made."""

    passes = "on another try"


@dataclass(frozen=True, slots=True)
class LabelWork:
    account: Account
    gmail_id: str
    classification: Class
    relabelled: Class | None
    """The class whose label the person seems to have put on it."""
    faults: int
    """How often setting labels in its conversation has failed since it last went well."""


@dataclass(frozen=True)
class Labels:
    pool: Pool
    accounts: Accounts
    clients: Clients
    corrections: Corrections
    names: Mapping[Class, str]
    """The label of each class; empty if there are to be none."""

    async def set_due(self, lease: Lease) -> bool:
        """Set the labels of a conversation's mails, and look at those that the person moved; whether any was changed.

        What fails is tried again later, or given up where Gmail refuses it, and holds up nothing else.
        """
        if not self.names:
            return False
        changed = False
        for number, work in enumerate(await self._due(lease.thread_id)):
            now_about(work.gmail_id)
            try:
                if number and await self._is_answered(lease, work.account):  # the first was read just now
                    return True
                changed |= await (self._look(lease, work) if work.relabelled else self._show(lease, work))
            except LeaseLost:
                raise
            except Exception as error:
                if not (isinstance(error, NotFound) or _is_bad_request(error)):
                    await self._try_later(lease, work, error)
                    break
                log.info("conversation %s: a label is given up (%s)", lease.thread_id, error)
                await self._store(lease, work, "none")
        return changed

    async def _is_answered(self, lease: Lease, account: Account) -> bool:
        """Whether a person's answer waits in the conversation, which comes before further labels.

        Raises:
            LeaseLost: the account may not act.
        """
        rows = await fetched(
            self.pool,
            """select exists (
                 select from inbox_items i join runs r on r.id = i.run_id
                 where r.thread_id = %s and i.status = 'decided' and i.undo_until <= clock_timestamp()) as answered
               from accounts where id = %s and state = 'active' for share""",
            (lease.thread_id, account.id),
        )
        if not rows:
            raise LeaseLost
        return bool(rows[0]["answered"])

    async def _show(self, lease: Lease, work: LabelWork) -> bool:
        account, gmail = work.account, (await self.clients.of(work.account)).gmail
        if not self._knows_all(account):  # they may have been found for another mail since
            account = await self.accounts.get(account.id)
        if not self._knows_all(account):
            account = await self._find(account, gmail)
        try:
            await self._set(gmail, work, account)
        except Refused as refusal:
            if not _is_bad_request(refusal):
                raise
            found = await self._find(account, gmail)
            if found.labels == account.labels:
                raise
            await self._set(gmail, work, found)  # the person had deleted one
        await self._store(lease, work, work.classification)
        return True

    async def _set(self, gmail: Gmail, work: LabelWork, account: Account) -> None:
        ids = self._ids(account)
        others = [label_id for each, label_id in ids.items() if each != work.classification]
        await gmail.modify_labels(work.gmail_id, add=(ids[work.classification],), remove=others)

    async def _look(self, lease: Lease, work: LabelWork) -> bool:
        """Take the label that a mail carries for the person's word on its class, unless it says what is known.

        History alone doesn't tell: it shows our own changes too, maybe late and out of date.
        """
        carried = await (await self.clients.of(work.account)).gmail.labels_of(work.gmail_id)
        shown = {each for each, label_id in self._ids(work.account).items() if label_id in carried}
        if work.relabelled is None or work.relabelled not in shown or work.relabelled == work.classification:
            await self._drop_suspicion(lease, work)
            return False
        try:
            async with self.pool.connection() as conn, conn.transaction():
                await self.corrections.correct_under(
                    conn, lease, work.account.id, work.gmail_id, work.relabelled, MOVED_IN
                )
        except NothingToAnswer:
            return await self._show(lease, work)  # it keeps its class, and says so
        except Conflict:
            return False  # it waits for its turn
        if shown == {work.relabelled}:
            await self._store(lease, work, work.relabelled)
        return True

    async def _find(self, account: Account, gmail: Gmail) -> Account:
        """The account with the ids of its labels as they are now; those that are not there are made."""
        known = await _labels_by_name(gmail)
        found = {
            name: known.get(name.lower()) or await self._make(account, gmail, name) for name in self.names.values()
        }
        await self.accounts.set_labels(account.id, found)
        return await self.accounts.get(account.id)

    async def _make(self, account: Account, gmail: Gmail, name: str) -> str:
        await self.accounts.check_active(account.id)
        try:
            return (await gmail.create_label(name)).id
        except Refused as refusal:
            # Another conversation may have made it just now.
            made = (await _labels_by_name(gmail)).get(name.lower()) if isinstance(refusal, Exists) else None
            if made is None:
                raise NoLabel(f"Gmail does not take {name!r} as a label: {refusal}") from refusal
            return made

    def _knows_all(self, account: Account) -> bool:
        return all(name in account.labels for name in self.names.values())

    def _ids(self, account: Account) -> dict[Class, str]:
        return {each: account.labels[name] for each, name in self.names.items() if name in account.labels}

    async def _try_later(self, lease: Lease, work: LabelWork, error: Exception) -> None:
        fault = classify(error)
        log.warning(
            "conversation %s of %s: no label: %s; %s",
            lease.thread_id,
            work.account.address,
            logged(error),
            to_come(fault),
            exc_info=fault.unexpected,
        )
        if fault.needs_login:
            await self.accounts.set_state(work.account.id, "login", fault.reason)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await threads.label_later(conn, lease.thread_id, fault.until)

    async def _store(self, lease: Lease, work: LabelWork, labelled: str) -> None:
        async with self.pool.connection() as conn, conn.transaction() if work.faults else nullcontext():
            if work.faults:
                await threads.labelled(conn, lease.thread_id)
            await mails.labelled(conn, lease, work.gmail_id, labelled)

    async def _drop_suspicion(self, lease: Lease, work: LabelWork) -> None:
        """What history showed tells nothing new."""
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await mails.not_relabelled(conn, work.account.id, work.gmail_id, work.relabelled)

    async def _due(self, thread_id: UUID) -> list[LabelWork]:
        rows = await fetched(
            self.pool,
            f"""select m.gmail_id, m.classification, m.relabelled, t.label_faults, {COLUMNS}
                from mails m join accounts a on a.id = m.account_id join threads t on t.id = m.thread_id
                where t.id = %s and t.label_after <= clock_timestamp() and ({UNSHOWN} or {MOVED})
                order by m.gmail_id""",
            (thread_id,),
        )
        return [
            LabelWork(account_in(r), r["gmail_id"], r["classification"], r["relabelled"], r["label_faults"])
            for r in rows
        ]


async def _labels_by_name(gmail: Gmail) -> dict[str, str]:
    return {label.name.lower(): label.id for label in await gmail.labels()}


def _is_bad_request(error: Exception) -> bool:
    """Gmail refuses what was asked about this one mail, and not everything."""
    return isinstance(error, Refused) and error.code == HTTPStatus.BAD_REQUEST
