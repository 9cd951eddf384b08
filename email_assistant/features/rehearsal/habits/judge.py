"""The stage of triage that has learned what the person does with mail: a classifier of each account, trained in the
background, which decides by itself only what it is proven to get right (proof.py)."""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.agents.mail.prompts import Classification
from email_assistant.agents.mail.run import Thought
from email_assistant.app import App
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Pool, fetched
from email_assistant.errors import logged
from email_assistant.features.rehearsal.habits.judgements import Basis, Judgements, Version
from email_assistant.features.rehearsal.habits.learned import FIRST, GROWS
from email_assistant.features.rehearsal.habits.pairing import WITHIN
from email_assistant.features.rehearsal.habits.proof import is_checked, may_decide
from email_assistant.features.rehearsal.settings import RehearsalSettings
from email_assistant.sync.past_mails import PastMails, Recorded, kept, nameless
from email_assistant.work.conversations import Conversations, UnreadableMail, read_mails

if TYPE_CHECKING:
    from email_assistant.features.rehearsal.habits.classifier import Classifier
    from email_assistant.features.rehearsal.habits.study import Study

log = logging.getLogger(__name__)
T = TypeVar("T")

_BATCH: Final = 100  # mails, of which each may be some megabytes
_BEGINNING: Final = (datetime.min.replace(tzinfo=UTC), "")
_DONE: Final[Mapping[Classification, str]] = {
    "ignore": "ignored", "notify": "only to be seen", "respond": "to be answered",
}  # fmt: skip

Place = tuple[datetime, str]
"""Of a mail in its account: when it came, and Gmail's id."""


@dataclass(slots=True)
class _Student:
    """What has been learned of an account."""

    version: datetime
    classifier: "Classifier"
    study: "Study"
    upto: Place  # the last mail that the study has taken
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)


class Habits:
    """Implements `agents.mail.run.Judge`. What has been learned stands in this process alone; another one that lacks it
    learns it from the same rows, and the model is asked meanwhile."""

    def __init__(self, pool: Pool, conversations: Conversations, past: PastMails) -> None:
        """`past`: what rehearsals have read."""
        self._pool = pool
        self._conversations = conversations
        self._past = past
        self._judgements = Judgements(pool)
        self._students: dict[UUID, _Student] = {}
        self._learning: dict[UUID, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()  # learning takes a core and memory

    async def __call__(self, run: Mapping[str, Any], lease: Lease) -> Thought | None:
        conversation = self._conversations.under(lease)
        account = conversation.account
        basis = await self._judgements.basis(account.id)
        student = self._student(account, basis)
        if student is None or basis.proof is None:
            return None
        mail = kept(await self._conversations.letter(conversation, run["mail"]))
        at = conversation.mail(run["mail"]).received_at
        async with student.busy:
            await self._catch_up(student, account.id, (at, run["mail"]))
            found, confidence = await asyncio.to_thread(student.study.judge, student.classifier, mail, at)
        outcome = cast("Classification", found)
        decides = may_decide(basis.proof, outcome, confidence)
        why = _why(outcome, student.study.alike(mail, outcome))
        return Thought(outcome, confidence, student.version, decides, decides and is_checked(run["mail"]), why)

    async def learned(self) -> None:
        """Wait for what is being learned."""
        await asyncio.gather(*self._learning.values())

    async def aclose(self) -> None:
        for task in self._learning.values():
            task.cancel()
        await asyncio.gather(*self._learning.values(), return_exceptions=True)

    def _student(self, account: Account, basis: Basis) -> _Student | None:
        """Who has learned what is to be gone by; None as long as nobody has. What is to be learned is begun."""
        versions = basis.versions
        last = next((each for each in reversed(versions) if each.kept), None)
        student = self._students.get(account.id)
        has_learned = last is not None and student is not None and student.version == last.version
        is_due = basis.examples >= max(FIRST, GROWS * versions[-1].examples if versions else 0)
        if (is_due or (last and not has_learned)) and account.id not in self._learning:
            task = asyncio.create_task(self._learn(account, last, is_due=is_due))
            self._learning[account.id] = task
            task.add_done_callback(lambda _: self._learning.pop(account.id))
        return student if has_learned else None

    async def _learn(self, account: Account, last: Version | None, *, is_due: bool) -> None:
        try:
            async with self._one_at_a_time:
                await self._study(account, last, is_due=is_due)
        except Exception as error:  # mail is triaged all the same, and it is tried again with the next
            log.warning(
                "%s: nothing learned from its mail: %s; it is tried again with the next", account.address, logged(error)
            )

    async def _study(self, account: Account, last: Version | None, *, is_due: bool) -> None:
        from email_assistant.features.rehearsal.habits.classifier import TooFewOutcomes
        from email_assistant.features.rehearsal.habits.learned import Predecessor, backtest, learn, next_version
        from email_assistant.features.rehearsal.habits.study import Study

        taught = await self._judgements.taught(account.id)
        study = Study(account.own_addresses, {each.mail_id: each.truth for each in taught})
        past = await self._before(account)
        upto = await self._take(study, account.id, _BEGINNING, None, past)
        if last is None:  # later it would be evidence after the fact: what is decided by would be proven anew
            await self._judgements.keep_backtest(account.id, await _beside(lambda: backtest(study, past)))
        version = next_version(taught, is_first=last is None) if is_due else None
        try:
            before = Predecessor(last.version, self._classifier(account.id, last)) if last else None
            learned, tried = await _beside(lambda: learn(study, taught, before, version))
        except TooFewOutcomes:
            learned, tried = None, None
        if version and len(taught) >= FIRST:
            is_kept = learned is not None and learned[0] == version
            await self._judgements.tried(account.id, Version(version, len(taught), is_kept), str(tried or ""))
        if learned:
            study.finish()
            self._students[account.id] = _Student(*learned, study, upto)

    def _classifier(self, account_id: UUID, version: Version) -> "Classifier | None":
        student = self._students.get(account_id)
        return student.classifier if student and student.version == version.version else None

    async def _before(self, account: Account) -> Sequence[Recorded]:
        """Mail that is known from a rehearsal alone. Labels tell what became of it only where there was time."""
        entries = await self._past.history(account, account.own_addresses)
        if not entries:
            return ()
        query = "select gmail_id, content->>'message_id' as id from mails where account_id = %s"
        stored = {row["id"] or nameless(row["gmail_id"]) for row in await fetched(self._pool, query, (account.id,))}
        until = entries[-1].at - WITHIN
        return [
            each if each.at < until else replace(each, labels=frozenset()) for each in entries if each.id not in stored
        ]

    async def _catch_up(self, student: _Student, account_id: UUID, before: Place) -> None:
        student.upto = await self._take(student.study, account_id, student.upto, before)

    async def _take(
        self, study: "Study", account_id: UUID, after: Place, before: Place | None, beside: Sequence[Recorded] = ()
    ) -> Place:
        """Give a study the account's stored mail between two places, and what else is known in between; returns the
        last place."""
        while rows := await self._stored(account_id, after, before):
            after = rows[-1]["received_at"], rows[-1]["gmail_id"]
            count = bisect_right(beside, after[0], key=lambda each: each.at)
            await asyncio.to_thread(_give, study, rows, beside[:count])
            beside = beside[count:]
        for start in range(0, len(beside), _BATCH):
            await asyncio.to_thread(study.take, beside[start : start + _BATCH])
        return after

    async def _stored(self, account_id: UUID, after: Place, before: Place | None) -> list[dict[str, Any]]:
        upto = before or ("infinity", "")
        return await fetched(
            self._pool,
            """select gmail_id, own, content, received_at, thread_id from mails
               where account_id = %s and readable and (received_at, gmail_id) > (%s::timestamptz, %s)
               and (received_at, gmail_id) < (%s::timestamptz, %s) order by received_at, gmail_id limit %s""",
            (account_id, *("-infinity" if after is _BEGINNING else after[0], after[1]), *upto, _BATCH),
        )


def open_judge(app: App, conversations: Conversations) -> Habits | None:
    """None: the person wants nothing learned so."""
    return Habits(app.pool, conversations, app.past_mails) if app.settings.of(RehearsalSettings).habits else None


async def _beside(work: Callable[[], T]) -> T:
    """Do what takes long in a thread of its own, which a process that is asked to stop does not wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(cast("T", result))
        else:
            done.set_exception(error)

    def do() -> None:
        result, failed = None, None
        try:
            result = work()
        except Exception as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, result, failed)

    Thread(target=do, name="habits", daemon=True).start()
    return await done


def _give(study: "Study", rows: Sequence[Mapping[str, Any]], beside: Sequence[Recorded]) -> None:
    stored = [entry for row in rows for entry in _recorded(row)]
    study.take(sorted([*beside, *stored], key=lambda each: each.at))


def _recorded(row: Mapping[str, Any]) -> Iterator[Recorded]:
    try:
        [stored] = read_mails([row])
    except UnreadableMail:
        return  # it holds up its own conversation alone
    yield Recorded(
        stored.gmail_id, kept(stored.mail), row["received_at"], stored.own, frozenset(), str(row["thread_id"]),
        (stored.mail.message_id,) if stored.mail.message_id else (),
    )  # fmt: skip


def _why(outcome: Classification, alike: tuple[str, int, int] | None) -> str:
    if alike is None:
        return "by what you did with mail like it"
    whose, so, of = alike
    return f"by what you did with mail like it: {so:,} of {of:,} from {whose} {_DONE[outcome]}"
