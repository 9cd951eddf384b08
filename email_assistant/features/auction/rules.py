"""Lots, the rules of one lot's auction (an ascending price, in rounds, without clock or chance), and what a seller
answers: the same to the same question."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from email_assistant.tools.spec import ToolError
from email_assistant.user_file import UserFile

Money = Decimal
INERT: Final = str.maketrans("<>", "‹›")
"""For words within a block of a prompt, so that nothing closes it."""
_MOST: Final = Decimal(1_000_000_000)
_CENT: Final = Decimal("0.01")


class Illegal(ToolError):
    """The rules don't allow it; the message is for the bidder. Nothing has changed."""


class Seller(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=60)
    greeting: str = Field("", max_length=200)  # how their answers begin
    shrug: str = Field(min_length=1, max_length=200)  # what they say to what they don't know


class Lot(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")
    title: str = Field(min_length=1, max_length=100)
    description: str = Field(min_length=1, max_length=4000)
    seller: Seller
    opening: Money = Field(ge=0, lt=_MOST, decimal_places=2)  # the price that bidding starts above
    reserve: Money = Field(gt=0, lt=_MOST, decimal_places=2)  # bidders are told no more than whether it is met
    increment: Money = Field(gt=0, lt=_MOST, decimal_places=2)  # the least by which a bid is above the price

    @model_validator(mode="after")
    def _opens_below_its_reserve(self) -> "Lot":
        if self.opening > self.reserve:
            raise ValueError("opening: lies above the reserve")
        return self


@dataclass(frozen=True, slots=True)
class Terms:
    rounds: int = 12  # of one lot
    bids: int = 8  # of one bidder for one lot
    questions: int = 1  # of one bidder to the seller in one round


@dataclass(slots=True)
class Auction:
    """`purses`: what each bidder has, in the order of their seats."""

    lot: Lot
    purses: Mapping[str, Money]
    terms: Terms = field(default_factory=Terms)
    price: Money = field(init=False)
    leader: str | None = field(default=None, init=False)
    round: int = field(default=1, init=False)
    is_over: bool = field(default=False, init=False)
    folded: set[str] = field(default_factory=set, init=False)
    bids: Counter[str] = field(default_factory=Counter, init=False)
    _questions: Counter[str] = field(default_factory=Counter, init=False)
    _moved: set[str] = field(default_factory=set, init=False)
    _bid_in_round: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.price = self.lot.opening
        self.is_over = not self.purses

    @property
    def bidding(self) -> list[str]:
        """Those who have not folded, in the order of their seats."""
        return [name for name in self.purses if name not in self.folded]

    @property
    def least(self) -> Money:
        """The lowest bid that may be made now."""
        return self.price + self.lot.increment

    @property
    def is_reserve_met(self) -> bool:
        return self.leader is not None and self.price >= self.lot.reserve

    @property
    def winner(self) -> str | None:
        """Who has bought the lot at the price; None: it is not sold, or not yet."""
        return self.leader if self.is_over and self.is_reserve_met else None

    def bid(self, bidder: str, amount: Money) -> None:
        """Raises Illegal."""
        self._check_turn(bidder)
        if not amount.is_finite():
            raise Illegal("a bid is a number")
        if amount < self.least:
            raise Illegal(f"the price is {self.price}: bid {self.least} at least")
        if amount > self.purses[bidder]:
            raise Illegal(f"you have {self.purses[bidder]}, and can't bid more")
        if self.bids[bidder] >= self.terms.bids:
            raise Illegal(f"you have made your {self.terms.bids} bids for this lot")
        if amount != amount.quantize(_CENT):
            raise Illegal("a bid has two decimal places at most")
        self.price, self.leader, self._bid_in_round = amount, bidder, True
        self.bids[bidder] += 1
        self._move(bidder)

    def call(self, bidder: str) -> None:
        """Stay in without a bid. Raises Illegal."""
        self._check_turn(bidder)
        self._move(bidder)

    def fold(self, bidder: str) -> None:
        """Leave the lot. Raises Illegal."""
        self._check_turn(bidder)
        if bidder == self.leader:
            raise Illegal("your bid stands, so you can't leave: call")
        self.folded.add(bidder)
        self._move(bidder)

    def stand_by(self, bidder: str) -> None:
        """The move of one who takes no further part: a bid that leads stays. Raises Illegal."""
        (self.call if bidder == self.leader else self.fold)(bidder)

    def ask(self, bidder: str) -> None:
        """Count a question to the seller. Raises Illegal."""
        self._check_in(bidder)
        if self._questions[bidder] >= self.terms.questions:
            raise Illegal(f"you may ask {self.terms.questions} in a round; ask again in the next one")
        self._questions[bidder] += 1

    def snapshot(self) -> dict[str, Any]:
        """How it stands, plain JSON."""
        return {
            "lot": self.lot.name,
            "round": self.round,
            "rounds": self.terms.rounds,
            "price": str(self.price),
            "least": str(self.least),
            "reserve_met": self.is_reserve_met,
            "leader": self.leader,
            "bidding": self.bidding,
            "over": self.is_over,
        }

    def _check_in(self, bidder: str) -> None:
        if bidder not in self.purses:
            raise Illegal(f"{bidder} has no seat here")
        if self.is_over:
            raise Illegal("the auction of this lot is over")
        if bidder in self.folded:
            raise Illegal("you have folded")

    def _check_turn(self, bidder: str) -> None:
        self._check_in(bidder)
        if bidder in self._moved:
            raise Illegal("you have moved in this round")

    def _move(self, bidder: str) -> None:
        self._moved.add(bidder)
        if not self._moved.issuperset(self.bidding):
            return
        alone = len(self.bidding) == 1 and self.is_reserve_met
        self.is_over = not self._bid_in_round or alone or self.round == self.terms.rounds
        if not self.is_over:
            self.round += 1
            self._moved, self._bid_in_round, self._questions = set(), False, Counter()


class _LotsFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lots: Annotated[list[Lot], Field(min_length=1, max_length=100)]


def read_lots(path: Path | None) -> Sequence[Lot]:
    """None: those that ship. Raises BadFile."""
    shipped = files("email_assistant.features.auction").joinpath("lots.yaml")
    source = UserFile.read(path) if path else UserFile.yaml("lots.yaml", shipped.read_text())
    lots = source.parsed(_LotsFile, source.mapping()).lots
    names = [lot.name for lot in lots]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise source.bad(("lots", number, "name"), f"there is a lot {name} above")
    return lots


_WORD: Final = re.compile(r"[^\W_]{4,}")
_EMPTY: Final = frozenset(["about", "been", "does", "from", "have", "that", "them", "they", "this", "what", "when"])
_STEM: Final = 5  # letters by which words are compared, so that "repaired" finds "repairs"


def answer(lot: Lot, question: str) -> str:
    """The sentence of the description that has most words of the question; the first of those that have as many."""
    asked = _stems(question)
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(lot.description.split()))
    best = max(sentences, key=lambda sentence: len(asked & _stems(sentence)))
    said = best if asked & _stems(best) else lot.seller.shrug
    return f"{lot.seller.greeting} {said}".strip()


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORD.findall(text.lower()) if word not in _EMPTY}
