"""What happens at an auction, told to whoever listens: kept outside the graphs' state, which holds JSON only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Happening = Literal[
    "lot", "bid", "call", "fold", "status", "check_termination", "ask_seller", "refused", "left", "sold", "unsold"
]


@dataclass(frozen=True, slots=True)
class AuctionEvent:
    kind: Happening
    lot: str
    round: int
    bidder: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON."""


Listener = Callable[[AuctionEvent], None]
