"""An episode told: as lines, and as a page with the curve of each lot's price."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

import jinja2

from email_assistant.agents.auction.episode import Episode
from email_assistant.agents.auction.table import AuctionEvent

_WIDTH, _HEIGHT, _EDGE = 640, 240, 40
_SAID: Final = {
    "bid": "{bidder} bids {amount}",
    "call": "{bidder} calls",
    "fold": "{bidder} folds",
    "status": "{bidder} looks how it stands",
    "check_termination": "{bidder} asks whether it is over: {answer}",
    "ask_seller": "{bidder} asks: {question}\n    The seller: {answer}",
    "refused": "{bidder}: {tool} is refused, {why}",
    "left": "{bidder} takes no further part: {why}",
    "sold": "Sold to {bidder} for {price}",
    "unsold": "Not sold",
}


def lines(event: AuctionEvent) -> Iterator[str]:
    """What happened, in words."""
    data = event.data
    if event.kind == "lot":
        yield f"\n{data['title']}: opens at {data['opening']}, increment {data['increment']}"
        return
    said = f" ({data['says']})" if data.get("says") else ""
    yield f"  {event.round:>2}  {_SAID[event.kind].format(bidder=event.bidder, **data)}{said}"


def summary(episode: Episode) -> Iterator[str]:
    yield ""
    for result in episode.results:
        yield f"{result.title}: " + (f"{result.winner}, {result.price}" if result.winner else "not sold")
    yield "Left: " + ", ".join(f"{name} {purse}" for name, purse in episode.purses.items())
    yield f"The sellers took {episode.takings}."


def page(episode: Episode) -> str:
    """HTML that needs nothing else."""
    loader = jinja2.PackageLoader("email_assistant.agents.auction", ".")
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("page.html")
    lots = [(result, _curve([e for e in episode.events if e.lot == result.lot])) for result in episode.results]
    told = [line for event in episode.events for line in lines(event)]
    return template.render(episode=episode, lots=lots, lines=told, width=_WIDTH, height=_HEIGHT, edge=_EDGE)


def _curve(events: Sequence[AuctionEvent]) -> Sequence[tuple[float, float, str]]:
    """The price after each bid, from left to right, in the picture's units, with what it was."""
    opening = Decimal(events[0].data["opening"])
    bids = [(event.bidder, event.round, Decimal(event.data["amount"])) for event in events if event.kind == "bid"]
    highest = max([amount for _, _, amount in bids], default=opening)
    step, span = (_WIDTH - 2 * _EDGE) / max(1, len(bids)), highest - opening or Decimal(1)
    points: list[tuple[float, float, str]] = [(_EDGE, _HEIGHT - _EDGE, f"opens at {opening}")]
    for number, (bidder, round_, amount) in enumerate(bids, 1):
        y = _HEIGHT - _EDGE - float((amount - opening) / span) * (_HEIGHT - 2 * _EDGE)
        points.append((round(_EDGE + number * step, 1), round(y, 1), f"round {round_}: {bidder} {amount}"))
    return points
