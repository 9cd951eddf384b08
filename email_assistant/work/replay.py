"""What another model, or another text about the person, would make of mail that was worked on before: the agent's own
prompts go out once more, with what its runs were given then. No tool runs, and nothing of it is kept."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage

from email_assistant.accounts.account import Account
from email_assistant.agents.mail.graph import MailAgent
from email_assistant.agents.mail.own_letters import LettersShown
from email_assistant.agents.mail.prompts import conversation_message
from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.gate.ledger import OWN_LETTERS
from email_assistant.mail.diff import Survival, survival
from email_assistant.memory.senders import believed, deciding
from email_assistant.model import BadAnswer, ModelFault, ModelRefused
from email_assistant.model.asking import several
from email_assistant.tools.spec import LETTER, ToolError
from email_assistant.work.conversations import Conversations, StoredMail, UnreadableMail, conversation_text, triage_text
from email_assistant.work.handover import came_after, never_answered
from email_assistant.work.outcomes import precedents

What = Literal["triage", "drafts"]
WHATS: Final[tuple[What, ...]] = ("triage", "drafts")
NO_ANSWER: Final = "no answer"
_SQL = statements("work", "replay.sql")

_DOES: Final[Mapping[str, str]] = {
    LETTER: "reply",
    "schedule_meeting_tool": "meeting",
    "check_calendar_tool": "a look into the calendar",
    "Question": "a question to you",
}
"""What calls of the mail agent are to the person."""
_END: Final = "Done"

Calls = Sequence[tuple[str, Mapping[str, Any]]]
Complete = Callable[[Mapping[str, Any], str, dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""Checks a call and fills in what it leaves out, as for the person to see. Raises ToolError."""


@dataclass(frozen=True, slots=True)
class Replayable:
    """One question to a model, as it was asked then, and what came of it."""

    what: What
    run_id: UUID
    run: Mapping[str, Any]
    account: Account
    mail_id: str
    sender: str
    subject: str
    at: datetime
    before: str
    """The class that the assistant gave the mail, or what it proposed."""
    corrected: str | None
    """The class that the person has given the mail since, if it is another."""
    calls: Calls
    """That were proposed, as the person first saw them."""
    told: Sequence[AnyMessage]
    """What the model knew when it proposed them."""
    tokens: tuple[float, float] | None
    """Of the prompt and of the answer then; None: not known."""
    began: datetime
    """The run: what the person decided on other mail by then was told."""
    letters: str | None
    """Of the person's own that were shown, as they were noted."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of a case this time."""

    case: Replayable
    after: str
    reason: str
    differs: bool
    letter: str = ""
    kept: Survival | None = None
    """Of the letter of then, where there is one both times."""

    @property
    def is_as_corrected(self) -> bool:
        return self.after == self.case.corrected


class Replay:
    """Args:
    shows_letters: whether the person's own letters are shown where they were shown then.
    background: what is told about the person, instead of what is stored.
    """

    def __init__(
        self,
        pool: Pool,
        conversations: Conversations,
        agent: MailAgent,
        complete: Complete,
        background: str | None,
        *,
        shows_letters: bool,
    ) -> None:
        self._pool = pool
        self._conversations = conversations
        self._agent = agent
        self._complete = complete
        self._background = background
        self._shows_letters = shows_letters

    async def cases(
        self, user_id: UUID, accounts: Sequence[Account], whats: Sequence[What], last: int
    ) -> list[Replayable]:
        """Of the newest mails, so many of each kind. What can't be read any more is left out, and what the person's
        rules decide by now."""
        known = {account.id: account for account in accounts}
        given = {"user": user_id, "accounts": list(known), "last": last, "letters": OWN_LETTERS.tool}
        rows = [row for what in whats for row in await fetched(self._pool, _SQL[what], given)]
        found = [await self._case(known[row["account_id"]], row) for row in rows if isinstance(row["input"], dict)]
        rules = {each: await self._agent.memory.rules(each, "triage_preferences") for each in known}
        return [
            case
            for case in found
            if case and not (case.what == "triage" and deciding(rules[case.account.id], case.run.get("sender", "")))
        ]

    async def ask(self, cases: Sequence[Replayable], found: list[Replayed], progress: Callable[[int], None]) -> None:
        """Ask about each, and add what comes of it to `found`, in any order: so it is there however this ends.

        Raises:
            ModelDown, ModelRefused: no answer can be had at all.
        """

        async def one(case: Replayable) -> None:
            found.append(await self._replayed(case, is_first=not found))
            progress(len(found))

        await several(partial(one, case) for case in cases)

    async def _case(self, account: Account, row: Mapping[str, Any]) -> Replayable | None:
        try:
            stored = await self._conversations.read(row["thread_id"])
        except UnreadableMail:
            return None
        run = row["input"]
        if not run.get("text"):
            [of] = [each for each in stored if each.gmail_id == row["mail_id"]]
            run = {**run, "text": triage_text(of, account.zone, stored)}
        calls: Calls = [(name, args) for name, args in row["proposed"] or ()]
        told = await self._told(account, row, stored) if calls else ()
        tokens = (row["prompt"], row["completion"]) if row["prompt"] else None
        return Replayable(
            row["what"],
            row["run_id"],
            run,
            account,
            row["mail_id"],
            row["sender"],
            row["subject"],
            row["at"],
            _in_words(calls) if calls else row["class"],
            row["corrected"],
            calls,
            told,
            tokens,
            row["began"],
            row["letters"],
        )

    async def _told(
        self, account: Account, row: Mapping[str, Any], stored: Sequence[StoredMail]
    ) -> Sequence[AnyMessage]:
        """What a run's model is told before its first proposal, of the mail that was there then."""
        mail_id, covered = row["mail_id"], row["covered"]
        newest = covered[-1] if mail_id in covered else mail_id
        letters = [each for each in stored if each.gmail_id in {*row["input"]["mails"], newest}]
        text = await asyncio.to_thread(conversation_text, letters, mail_id, newest, account.zone)
        said = [row["instruction"]] if row["instruction"] else []
        after = came_after(mail_id, covered) if mail_id in covered else ()
        read = [
            message
            for call_id, name, answer in row["read"] or ()
            for message in (
                AIMessage("", tool_calls=[ToolCall(name=name, args={}, id=call_id, type="tool_call")]),
                ToolMessage(answer, tool_call_id=call_id, name=name),
            )
        ]
        return [HumanMessage(conversation_message(text, (), None, said, came_after=after)), *read]

    async def _replayed(self, case: Replayable, *, is_first: bool) -> Replayed:
        account = case.account
        if self._background is not None:
            account = replace(account, background=self._background)
        try:
            with self._agent.accounts.cached(account):
                return await (self._class(case) if case.what == "triage" else self._draft(case))
        except (BadAnswer, ModelFault, ModelRefused) as error:
            if is_first and isinstance(error, ModelRefused):
                raise
            return Replayed(case, NO_ANSWER, str(error), differs=True)

    async def _class(self, case: Replayable) -> Replayed:
        in_force = await self._agent.memory.rules(case.account.id, "triage_preferences")
        rules = believed(in_force, forged=case.run.get("sender") == "")
        past = await precedents(
            self._pool, case.account.id, case.mail_id, case.sender, case.subject, known_by=case.began
        )
        found = await self._agent.ask_model(case.run, rules, past)
        after, reason = found.classification, found.reasoning
        if after == "respond" and (why := never_answered(case.run)):
            after, reason = "notify", why
        return Replayed(case, after, reason, differs=after != case.before)

    async def _draft(self, case: Replayable) -> Replayed:
        agent = replace(self._agent, own_letters=LettersShown(case.letters)) if self._shows_letters else self._agent
        message = await agent.propose({"run": dict(case.run), "messages": list(case.told)})
        calls = [await self._completed(case.run, call["name"], call["args"]) for call in message.tool_calls]
        after = _in_words(calls)
        before_letter, letter = _letter(case.calls), _letter(calls)
        kept = survival(before_letter, letter) if before_letter and letter else None
        return Replayed(case, after, _change(case.calls, calls), _said(case.calls) != _said(calls), letter, kept)

    async def _completed(
        self, run: Mapping[str, Any], name: str, args: dict[str, Any]
    ) -> tuple[str, Mapping[str, Any]]:
        try:
            return name, await self._complete(run, name, args)
        except ToolError:
            return name, args  # the model would be told, and propose it again


def _in_words(calls: Calls) -> str:
    """What the person would see of a proposal."""
    names = dict.fromkeys(_DOES.get(name, name) for name, _ in calls if name != _END)
    return " and ".join(names) or ("nothing" if calls else _DOES["Question"])


def _said(calls: Calls) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, args) for name, args in calls if name != _END]


def _letter(calls: Calls) -> str:
    return next((str(args.get("response_text", "")) for name, args in calls if name == LETTER), "")


def _change(before: Calls, after: Calls) -> str:
    """Which fields of a proposal are others, where it is of the same kind."""
    if [name for name, _ in _said(before)] != [name for name, _ in _said(after)]:
        return ""
    fields = [
        name
        for (_, old), (_, new) in zip(_said(before), _said(after), strict=True)
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]
    return ", ".join(dict.fromkeys(fields))
