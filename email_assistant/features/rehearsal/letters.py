"""Letters that the mail agent proposes to mail of the past, beside those that the person really sent; and how much of
those that were proposed is left in those that were sent, by week and by kind.

The agent's own prompt, tools and model are asked; no tool runs, and nothing is stored but what the calls cost.
"""

import json
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from pathlib import Path
from statistics import median
from typing import Any, Final, Self

from langchain_core.messages import HumanMessage, SystemMessage

from email_assistant.accounts.account import Account
from email_assistant.agents.mail.prompts import conversation_message, response_prompt
from email_assistant.app import App
from email_assistant.errors import AssistantError
from email_assistant.features.rehearsal.habits.proof import RISK
from email_assistant.features.rehearsal.walk import Prediction
from email_assistant.mail.diff import Survival, survival
from email_assistant.memory.profiles import Memory
from email_assistant.model import Models
from email_assistant.sync.past_mails import Recorded
from email_assistant.tools.registry import Registry
from email_assistant.tracing import keep_langsmith_off
from email_assistant.trail.activity import ApprovedLetter
from email_assistant.work.conversations import StoredMail, conversation_text

_LETTER: Final = "send_email_tool"
_INSTEAD: Final[Mapping[str, str]] = {
    "Question": "it would have asked you first",
    "Done": "it would have written nothing",
    "check_calendar_tool": "it would have looked into your calendar first",
    "schedule_meeting_tool": "it would have proposed a meeting first",
}
_HALF: Final = math.log(2 / RISK) / 2


@dataclass(frozen=True, slots=True)
class ProposedLetter:
    """What was proposed to one mail, and what was sent."""

    id: str  # the mail's Message-ID
    at: datetime
    sender: str
    subject: str
    proposed: str  # empty where there is no letter
    why_none: str  # and why; empty where there is one
    sent: str  # what is new in the person's letter
    survival: Survival | None  # None where there is no letter, or a canned one

    @property
    def verdict(self) -> str:
        """In words; empty where there is no score."""
        if self.survival is None:
            return ""
        left, of, others = self.survival.survived, self.survival.sentences, self.survival.distance
        return f"{left} of its {of} sentences survive, and {others:.0%} of the words differ."


@dataclass(frozen=True, slots=True)
class LettersBesideSent:
    """Proposed letters and what of them survives in what was sent."""

    model: str
    canned: str  # what answers in a language model's place; no score is told then. Empty: a language model
    letters: Sequence[ProposedLetter]

    @property
    def scored(self) -> list[Survival]:
        return [each.survival for each in self.letters if each.survival]

    @property
    def sentence(self) -> str:
        asked = f"{self.model} was asked for {len(self.letters):,} letters"
        if self.canned:
            return f"{asked}, and they are canned: {self.canned.rstrip('.')}. They say nothing of how good drafts are."
        shares = [each.share for each in self.scored if each.share is not None]
        if not shares:
            return f"{asked}, and proposed none."
        others = median(each.distance for each in self.scored)
        return (
            f"{asked} and proposed {len(self.scored):,}. In half of them at least {median(shares):.0%} of the "
            f"sentences stand in what you sent too, and at most {others:.0%} of the words are others."
        )


def newest_answered(judged: Sequence[Prediction], most: int) -> list[Prediction]:
    """The mails that letters are asked for, the newest first: those that the person answered in words."""
    answered = [each for each in judged if each.answer and each.answer.mail.body.strip()]
    return answered[::-1][:most]


@dataclass(frozen=True, slots=True)
class RehearsedLetters:
    models: Models
    memory: Memory
    tools: Registry
    canned: str

    @classmethod
    def of(cls, app: App) -> Self:
        """With what an open app has."""
        keep_langsmith_off()
        return cls(app.models, app.memory, app.tools, app.settings.model_stand_in)

    async def propose(
        self, account: Account, entries: Sequence[Recorded], wanted: Sequence[Prediction]
    ) -> AsyncIterator[ProposedLetter]:
        """One after the other, as it would have been proposed when the mail came, by what is learned by now. Raises
        what `Models.call` does."""
        learned = await self.memory.texts(account.id)
        tools = (await self.tools.offered("mail", account.id)).schemas()
        for each in wanted:
            at = each.entry.at.astimezone(account.zone)
            prompt = response_prompt(account, learned["response_preferences"], learned["cal_preferences"], at)
            answer = await self.models.call(
                "response",
                [SystemMessage(prompt), HumanMessage(_opening(account, entries, each.entry))],
                account_id=account.id,
                tools=tools,
                tool_choice="required",
            )
            yield self._beside(each, [(call["name"], call["args"]) for call in answer.tool_calls])

    def _beside(self, judged: Prediction, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> ProposedLetter:
        assert judged.answer is not None
        mail, sent = judged.entry.mail, judged.answer.mail.body
        proposed = next((str(args.get("response_text", "")) for name, args in calls if name == _LETTER), "")
        first = calls[0][0] if calls else "Done"
        return ProposedLetter(
            judged.entry.id,
            judged.entry.at,
            mail.sender.email if mail.sender else "",
            mail.subject,
            proposed,
            "" if proposed else _INSTEAD.get(first, f"it would have used {first} first"),
            sent,
            survival(proposed, sent) if proposed and not self.canned else None,
        )


def _opening(account: Account, entries: Sequence[Recorded], answered: Recorded) -> str:
    """The conversation as the agent is told it, up to the mail that is answered."""
    told = [StoredMail(each.id, each.own, each.mail) for each in entries if each.conversation == answered.conversation]
    text = conversation_text(told, answered.id, answered.id, account.zone)
    return conversation_message(text, [], None, [], came_after=())


class NoLetters(AssistantError):
    """There is nothing to measure; the message says what is needed."""


@dataclass(frozen=True, slots=True)
class KeptLetters:
    """Means over letters, from 0 to 1, each with an interval that holds the truth with 95 %."""

    name: str
    letters: int
    unchanged: int  # word for word
    share: float  # of a letter's sentences that are left
    interval: tuple[float, float]
    distance: float  # of a letter's words that are others
    distance_interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drafted:
    all: KeptLetters
    weeks: list[KeptLetters]  # by the day on which they begin, a Monday; without the letters whose day is not known
    kinds: list[KeptLetters]


def measure(letters: Sequence[ApprovedLetter], zone: tzinfo) -> Drafted:
    """`zone`: in which weeks begin. Raises NoLetters."""
    if not letters:
        raise NoLetters("no letter was approved yet, so there is nothing to measure")
    found = [(each, survival(each.proposed, each.sent)) for each in letters]
    weeks: defaultdict[date, list[Survival]] = defaultdict(list)
    kinds: defaultdict[str, list[Survival]] = defaultdict(list)
    for each, kept in found:
        kinds[each.kind].append(kept)
        if each.at:
            weeks[_monday(each.at.astimezone(zone).date())].append(kept)
    return Drafted(
        _kept("all", [kept for _, kept in found]),
        [_kept(f"{week:%Y-%m-%d}", weeks[week]) for week in sorted(weeks)],
        [_kept(kind, kinds[kind]) for kind in sorted(kinds)],
    )


def read(path: Path) -> list[ApprovedLetter]:
    """The letters of a file, one JSON object a line: `proposed` and `sent`, and `at` and `kind` if they are known.
    Raises NoLetters."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NoLetters(f"{path} can't be read ({error}): give a file of JSON lines") from None
    return [_read(f"line {number} of {path}", line) for number, line in enumerate(lines, 1) if line.strip()]


def _read(where: str, line: str) -> ApprovedLetter:
    try:
        given: Any = json.loads(line)
        at = datetime.fromisoformat(given["at"]) if given.get("at") else None
        return ApprovedLetter(str(given.get("kind") or "reply"), at, _text(given["proposed"]), _text(given["sent"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise NoLetters(f'{where} is no JSON object with the texts "proposed" and "sent"') from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _kept(name: str, kept: Sequence[Survival]) -> KeptLetters:
    share = sum(each.share or 0.0 for each in kept) / len(kept)
    distance = sum(each.distance for each in kept) / len(kept)
    unchanged = sum(not each.distance for each in kept)
    of = len(kept)
    return KeptLetters(name, of, unchanged, share, _around(share, of), distance, _around(distance, of))


def _around(mean: float, of: int) -> tuple[float, float]:
    """For figures from 0 to 1 of whatever distribution (Hoeffding, JASA 58, 1963, theorem 2); wider than need be."""
    reach = math.sqrt(_HALF / of)
    return max(0.0, mean - reach), min(1.0, mean + reach)
