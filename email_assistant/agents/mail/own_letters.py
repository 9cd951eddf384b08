"""Letters that the person sent before, as examples of how they write: which are closest to what is answered now.

Of each only what they wrote themselves is shown. What the model read of them is noted where the gate finds it, with who
has seen it: a fact of a letter to somebody else is marked in a draft.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from typing import Any, Final, Self
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.agents.mail.prompts import letters_block
from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.gate.ledger import OWN_LETTERS, GateLedger
from email_assistant.gate.vocabulary import ORDINARY
from email_assistant.mail.address import Address
from email_assistant.mail.charset import cut, one_line
from email_assistant.mail.excerpt import excerpt, tokens
from email_assistant.mail.history import written

TOKENS: Final = 600  # of all that is shown of them, by `mail.excerpt.tokens`
_EACH: Final = 170  # of one, so that there is room for three
_MOST: Final = 5
_CANDIDATES: Final = 15  # to the same people, and as many by words
_COMMON: Final = 100  # letters that have a word in common by which none is known
_READ: Final = 4_000  # characters of a letter
_WORDS: Final = 12  # by which letters are looked for
_NAME: Final = 60
_WORD: Final = re.compile(r"[^\W\d_]{4,40}")
_SQL: Final = statements("agents/mail", "own_letters.sql")


@dataclass(frozen=True, slots=True)
class OwnLetter:
    """What the person wrote to somebody."""

    id: str
    to: tuple[Address, ...]
    """All who got it."""
    subject: str
    text: str
    """In their own words alone."""
    at: datetime

    @classmethod
    def sent(
        cls, id_: str, to: Iterable[Address], subject: str, body: str, at: datetime, signatures: Iterable[str] = ()
    ) -> Self:
        """One of their mails. `body`: what is new in it; `signatures`: what theirs end with."""
        text = written(body[:_READ])
        for signature in filter(None, map(str.split, signatures)):
            text = re.sub(r"\s+".join(map(re.escape, signature)) + r"\Z", "", text).rstrip()
        return cls(id_, tuple(to), subject, text, at)

    @property
    def readers(self) -> list[str]:
        return [each.email.lower() for each in self.to]

    def label(self, account: Account) -> str:
        """What the person knows it as."""
        to = (cut(one_line(self.to[0].name), _NAME) or self.to[0].email) if self.to else "somebody"
        more = f" and {len(self.to) - 1} more" if len(self.to) > 1 else ""
        return f"your letter to {to}{more} of {self.at.astimezone(account.zone):%-d %B %Y}"


@dataclass(frozen=True, slots=True)
class ShownLetter:
    """What a draft's writer has read of a letter."""

    label: str
    readers: frozenset[str]
    day: date
    text: str


@dataclass(frozen=True)
class OwnLetters:
    pool: Pool
    gate: GateLedger

    async def block(self, run: Mapping[str, Any], account: Account) -> str:
        """The closest letters for the prompt of a run, noted as read; empty: there are none."""
        letters, block = await self.find(run, account)
        if letters:
            await self._note(UUID(run["id"]), account, letters)
        return block

    async def find(self, run: Mapping[str, Any], account: Account) -> tuple[list[OwnLetter], str]:
        """The closest letters, as far as they are shown, and the block of them."""
        to = _readers(run)
        subject, text = run["reply"]["subject"], run["text"].partition("\n\n")[2]
        rows = await fetched(
            self.pool,
            _SQL["candidates"],
            {
                "account": account.id,
                "thread": run["thread"],
                "to": sorted(to),
                "words": words(f"{subject}\n{text}")[:_WORDS],
                "most": _CANDIDATES,
                "common": _COMMON,
                "read": _READ,
            },
        )
        return await asyncio.to_thread(_chosen, rows, account, to, subject, text)

    async def _note(self, run_id: UUID, account: Account, letters: Sequence[OwnLetter]) -> None:
        noted = json.dumps(
            [
                {
                    "label": letter.label(account),
                    "readers": letter.readers,
                    "day": letter.at.astimezone(account.zone).date().isoformat(),
                    "text": letter.text,
                }
                for letter in letters
            ]
        )
        call_id = f"letters_{sha256(noted.encode()).hexdigest()[:24]}"
        await self.gate.append(run_id, call_id, OWN_LETTERS)
        await self.gate.answered(run_id, call_id, noted)


@dataclass(frozen=True, slots=True)
class LettersShown:
    """Those that a run was shown before, to be shown once more and noted nowhere. `noted`: None where there were
    none."""

    noted: str | None

    async def block(self, run: Mapping[str, Any], account: Account) -> str:
        letters = shown_in(self.noted) if self.noted else []
        return _block(letters, _readers(run))


def shown_in(answer: str) -> list[ShownLetter]:
    """The letters that were noted."""
    return [
        ShownLetter(each["label"], frozenset(each["readers"]), date.fromisoformat(each["day"]), each["text"])
        for each in json.loads(answer)
    ]


def words(text: str) -> list[str]:
    """Those that tell a text from others, each once, in the order in which they stand."""
    found = dict.fromkeys(word.lower() for word in _WORD.findall(text))
    return [word for word in found if word not in ORDINARY]


def closest(letters: Iterable[OwnLetter], to: Collection[str], subject: str, text: str) -> list[OwnLetter]:
    """Those to the same people first, then those of the same kind, by words of the subject, then those that share
    words, of which rare ones count most; of equals the newest. Each text once."""
    apart = {letter.text: letter for letter in letters if letter.text}.values()
    said = {letter: frozenset(words(f"{letter.subject}\n{letter.text}")) for letter in apart}
    among = Counter(word for each in said.values() for word in each)
    kind, asked = frozenset(words(subject)), frozenset(words(f"{subject}\n{text}"))

    def rank(letter: OwnLetter) -> tuple[bool, int, float, datetime]:
        shared = sum(1 / among[word] for word in asked & said[letter])
        return not set(to).isdisjoint(letter.readers), len(kind.intersection(words(letter.subject))), shared, letter.at

    ranked = {letter: rank(letter) for letter in said}
    alike = [letter for letter, (same, kin, shared, _) in ranked.items() if same or kin or shared]
    return sorted(alike, key=ranked.__getitem__, reverse=True)


def _chosen(
    rows: Sequence[Mapping[str, Any]], account: Account, to: Collection[str], subject: str, text: str
) -> tuple[list[OwnLetter], str]:
    signatures = [identity.signature for identity in account.identities]
    letters = [
        OwnLetter.sent(
            row["id"], [Address(**each) for each in row["people"]], row["subject"], row["body"], row["at"], signatures
        )
        for row in rows
    ]
    chosen: list[OwnLetter] = []
    block = ""
    for letter in closest(letters, to, subject, text)[:_MOST]:
        short = OwnLetter(letter.id, letter.to, letter.subject, excerpt(letter.text, _EACH, tokens), letter.at)
        longer = _block([*chosen, short], to)
        if tokens(longer) <= TOKENS:
            chosen, block = [*chosen, short], longer
    return chosen, block


def _readers(run: Mapping[str, Any]) -> set[str]:
    """Whom a run's reply goes to."""
    return {each.lower() for each in (run["reply"]["to"], *run["reply"]["also_to"]) if each}


def _block(letters: Sequence[OwnLetter | ShownLetter], to: Collection[str]) -> str:
    theirs = [letter for letter in letters if set(letter.readers) >= set(to)]
    return letters_block([each.text for each in theirs], [each.text for each in letters if each not in theirs])
