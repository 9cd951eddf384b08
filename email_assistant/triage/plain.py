"""What a mail needs by a few plain rules, which learn nothing: what every trained stage is measured against."""

from collections.abc import Mapping
from typing import Final

RESPOND: Final = "respond"
NOTIFY: Final = "notify"
IGNORE: Final = "ignore"
OUTCOMES: Final = (IGNORE, NOTIFY, RESPOND)

_SELLS: Final = 0.7  # of the logarithm of 1 + words that sell: one such word


def by_rules(facts: Mapping[str, float]) -> str:
    """`respond`, `notify` or `ignore`, by the facts of a mail."""
    if facts["from a machine"] or facts["only tells"] > facts["requests"]:
        return NOTIFY
    mass = facts["to a list or by mass mail"] or facts["from a no-reply address"] or facts["written in pieces"]
    if mass or (facts["sells"] > _SELLS and facts["sells"] > facts["requests"]):
        return IGNORE
    asks = facts["requests"] or facts["presses"] or facts["questions"] or facts["asks near the end"]
    return RESPOND if asks else NOTIFY
