"""What was measured, and what it is held against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from email_assistant.errors import AssistantError


class SpeedUnknown(AssistantError):
    """It could not be measured; the message says why."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What the product asks of itself."""

    value: float
    at_least: bool = False

    def keeps(self, found: float) -> bool:
        return found >= self.value if self.at_least else found <= self.value


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing that was measured, several times where there is a spread. With a floor, what counts against the limit
    is how many times the floor it is, round by round."""

    name: str
    unit: str
    ours: Sequence[float]
    limit: Limit | None = None
    floor: Sequence[float] = ()
    note: str = ""

    @property
    def counted(self) -> float:
        if self.floor:
            return median(ours / floor for ours, floor in zip(self.ours, self.floor, strict=True))
        return median(self.ours)

    @property
    def within(self) -> bool:
        return self.limit is None or self.limit.keeps(self.counted)

    def as_json(self) -> dict[str, Any]:
        return {
            "figure": self.name,
            "unit": self.unit,
            "ours": _spread(self.ours),
            "floor": _spread(self.floor) if self.floor else None,
            "counted": round(self.counted, 4),
            "limit": self.limit.value if self.limit else None,
            "at_least": bool(self.limit and self.limit.at_least),
            "within": self.within,
            "note": self.note,
        }

    def as_row(self) -> list[str]:
        unit = f" {self.unit}".rstrip()
        limit = ""
        if self.limit:
            limit = f"{'≥ ' if self.limit.at_least else ''}{self.limit.value:g}{' ×' if self.floor else unit}"
        floor = f"{_in_words(self.floor)}{unit}: {self.counted:.2f} ×" if self.floor else ""
        return [self.name, _in_words(self.ours) + unit, floor, limit, "" if self.within else "beyond", self.note]


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(median(values), 4), "min": round(min(values), 4), "max": round(max(values), 4)}


def _in_words(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.4g}"
    return f"{median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything is measured: 1 is the usual size."""

    share: float

    def of(self, usual: int, least: int = 1) -> int:
        return max(least, round(usual * self.share))


@dataclass(frozen=True, slots=True)
class RowProgress:
    """Tells how far a row has come."""

    row: str
    say: Callable[[str], None]

    def __call__(self, what: str) -> None:
        self.say(f"{self.row}: {what}")
