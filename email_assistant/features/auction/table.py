"""One lot on the table: bidders think at once, and are heard one after the other, in an order that chance has no part
in. Each round begins at the next seat."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from email_assistant.features.auction.rules import Auction

_Asked = Literal["status", "check_termination", "ask_seller", "asked"]
Happening = Literal["lot", "bid", "call", "fold", _Asked, "refused", "left", "sold", "unsold"]


@dataclass(frozen=True, slots=True)
class AuctionEvent:
    """Told to whoever listens, and kept outside the graphs' state, which holds JSON only."""

    kind: Happening
    lot: str
    round: int
    bidder: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)  # plain JSON


Listener = Callable[[AuctionEvent], None]


@dataclass
class SaleTable:
    auction: Auction
    tell: Listener
    commentary: dict[str, str] = field(default_factory=dict)  # what each bidder said with their last action
    _line: list[str] = field(default_factory=list)  # those who are still to move in this round, the next one first
    _opening: dict[str, Any] = field(default_factory=dict)  # how it stood when the round began
    _heard: set[str] = field(default_factory=set)  # those whose turn has come in this round
    _kept: dict[str, list[AuctionEvent]] = field(default_factory=dict)
    """What each did before their turn: told with it, or the order would depend on who is quick."""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def __post_init__(self) -> None:
        lot = self.auction.lot
        told = {"title": lot.title, "opening": str(lot.opening), "increment": str(lot.increment)}
        self.tell(AuctionEvent("lot", lot.name, 1, data=told))
        self._begin_round()

    def seen_by(self, bidder: str) -> Mapping[str, Any]:
        """How it stands, for one bidder: as of the round's beginning until it is their turn."""
        auction = self.auction
        seen = auction.snapshot() if bidder in self._heard or auction.is_over else self._opening
        own = {"bids_left": auction.terms.bids - auction.bids[bidder], "purse": str(auction.purses[bidder])}
        return {**seen, "you": bidder, **own}

    def has_ended_for(self, bidder: str) -> bool:
        return self.auction.is_over or bidder in self.auction.folded

    def note(self, kind: Happening, bidder: str, **data: Any) -> None:
        """Tell of something that a bidder did, at their turn."""
        event = self._event(kind, self.auction.round, bidder, data)
        if bidder in self._heard and not self.has_ended_for(bidder):
            self.tell(event)
        else:
            self._kept.setdefault(bidder, []).append(event)

    async def move(self, bidder: str, act: Callable[[], None], **data: Any) -> str:
        """Wait for the bidder's turn, act, and wait for the round's end; returns what came of it, in words. Raises
        Illegal: it is still their turn."""
        auction = self.auction
        async with self._changed:
            await self._changed.wait_for(lambda: self.has_ended_for(bidder) or self._line[0] == bidder)
            before = auction.round
            self._heard.add(bidder)
            self.tell_kept(bidder)
            bids = auction.bids[bidder]
            act()
            made: Happening = "fold" if bidder in auction.folded else "bid" if auction.bids[bidder] > bids else "call"
            self.tell(self._event(made, before, bidder, data))
            self._line.remove(bidder)
            if auction.is_over:
                ended: Happening = "sold" if auction.winner else "unsold"
                told = {"price": str(auction.price)}
                self.tell(AuctionEvent(ended, auction.lot.name, before, auction.winner, told))
            elif not self._line:
                self._begin_round()
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self.has_ended_for(bidder) or auction.round > before)
        return self._outcome(bidder)

    def tell_kept(self, *bidders: str) -> None:
        """Tell what was kept back: of one whose turn it is, or, in the end, of all."""
        for event in [event for bidder in bidders for event in self._kept.pop(bidder, ())]:
            self.tell(event)

    def _event(self, kind: Happening, round_: int, bidder: str, data: dict[str, Any]) -> AuctionEvent:
        said = self.commentary.pop(bidder, "")
        return AuctionEvent(kind, self.auction.lot.name, round_, bidder, data | ({"says": said} if said else {}))

    def _begin_round(self) -> None:
        bidding = self.auction.bidding
        first = (self.auction.round - 1) % max(1, len(bidding))
        self._line = bidding[first:] + bidding[:first]
        self._opening = self.auction.snapshot()
        self._heard.clear()

    def _outcome(self, bidder: str) -> str:
        auction, now = self.auction, self._opening
        if auction.is_over:
            buyer = "you" if auction.winner == bidder else auction.winner
            sold = f"it is sold to {buyer} for {auction.price}" if buyer else "it is not sold"
            return f"The auction of this lot is over: {sold}."
        if bidder in auction.folded:
            return "You have left this lot."
        # As the round began: others may have moved in it by now.
        leads = "you lead" if now["leader"] == bidder else f"{now['leader'] or 'nobody'} leads"
        return f"Round {now['round']}: the price is {now['price']}, {leads}; the least bid is {now['least']}."
