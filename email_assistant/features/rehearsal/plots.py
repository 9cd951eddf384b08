"""A page of figures that stands alone: no script, nothing fetched, every word of others escaped."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from email_assistant.features.rehearsal.habits.proof import interval

if TYPE_CHECKING:
    from email_assistant.features.rehearsal.letters import Drafted, KeptLetters
    from email_assistant.features.rehearsal.measure import Measured
    from email_assistant.features.rehearsal.ways import Bin


_FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Rate:
    """From 0 to 1, with the interval that holds the truth with 95 %."""

    label: str
    value: float
    low: float
    high: float
    expected: float = 0.0  # where a calibration is told: the probability that was given

    @classmethod
    def counted(cls, label: str, hits: int, of: int) -> "Rate":
        return cls(f"{label} ({hits:,} of {of:,})", hits / of, *interval(hits, of))


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    shares: Sequence[Rate]
    calibrates: bool = False
    """What was given as a probability against what was so, rather than one bar under the other."""


@dataclass(frozen=True, slots=True)
class Figured:
    """A table."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class MailCost:
    """What a mail took, beside how often it was told right."""

    label: str
    mails: int
    right: float
    tokens: float
    money: float | None  # None: it is not known


@dataclass(frozen=True, slots=True)
class ReportPage:
    title: str
    says: Sequence[str]
    costs: Sequence[MailCost] = field(default_factory=tuple, kw_only=True)
    plots: Sequence[Plot] = field(default_factory=tuple)
    tables: Sequence[Figured] = field(default_factory=tuple)


def write(path: Path, page: ReportPage) -> None:
    """Raises OSError."""
    path.write_bytes(html(page).encode("utf-8", "replace"))


def html(page: ReportPage) -> str:
    style = Markup((_FOLDER / "plots.css").read_text())  # noqa: S704 - ours
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    return _environment.get_template("plots.html").render(page=page, style=style, allowed=allowed)


def of_triage(found: "Measured", about: Mapping[str, Any], says: Sequence[str]) -> ReportPage:
    """`says`: the figures in sentences, as the terminal tells them."""
    classes = list(found.per_class.items())
    right = {label: found.confusion[label].get(label, 0) for label, _ in classes}
    judged = {label: sum(row.get(label, 0) for row in found.confusion.values()) for label, _ in classes}
    outcomes = list(dict.fromkeys([*found.per_class, *(each for row in found.confusion.values() for each in row)]))
    confidence = [_bin(each) for each in found.calibration] if found.stage in ("classifier", "cascade") else []
    return ReportPage(
        f"How well mail is told apart: {found.stage}",
        says,
        [
            Plot("Right", [Rate.counted("all mails", round(found.accuracy * found.n), found.n)]),
            Plot("Found, of those that are", [Rate.counted(label, right[label], each.n) for label, each in classes]),
            Plot(
                "Right, of those said to be",
                [Rate.counted(label, right[label], judged[label]) for label, _ in classes if judged[label]],
            ),
            Plot("How well its confidence holds", confidence, calibrates=True),
        ],
        [
            Figured(
                "What was right, and what it was taken for",
                ["label", *outcomes],
                [[label, *(f"{found.confusion[label].get(each, 0):,}" for each in outcomes)] for label, _ in classes],
            ),
            measured_on(about),
        ],
        costs=_costs(found, about["cost"]),
    )


def _costs(found: "Measured", cost: Mapping[str, Any] | None) -> list[MailCost]:
    """Of all mails, and where a model was asked about some of them, of these and of the others."""
    if cost is None:
        return []
    asked, used, money = cost["mails"], cost["tokens_of_a_mail"] * found.n, cost["money"]

    def of(label: str, mails: int, right: float, *, share: bool) -> MailCost:
        paid = 0.0 if not share else None if money is None else money / mails
        return MailCost(label, mails, right / mails, used / mails if share else 0.0, paid)

    right, alone = found.accuracy * found.n, found.n - asked
    every = of("all mails", found.n, right, share=True)
    if not alone or not asked:
        return [every]
    right_alone = alone * (1 - (found.error_in_coverage or 0.0))
    return [
        every,
        of("decided by the classifier", alone, right_alone, share=False),
        of("asked about", asked, right - right_alone, share=True),
    ]


def of_drafts(found: "Drafted", about: Mapping[str, Any], says: Sequence[str]) -> ReportPage:
    return ReportPage(
        "How much of the drafts is kept",
        says,
        [
            Plot("Sentences kept, all letters and by kind", list(map(_kept, [found.all, *found.kinds]))),
            Plot("Sentences kept, by week", list(map(_kept, found.weeks))),
            Plot("Words changed, by week", list(map(_changed, found.weeks))),
        ],
        [measured_on(about)],
    )


def _kept(each: "KeptLetters") -> Rate:
    return Rate(f"{each.name} ({each.letters:,})", each.share, *each.interval)


def _changed(each: "KeptLetters") -> Rate:
    return Rate(f"{each.name} ({each.letters:,})", each.distance, *each.distance_interval)


def measured_on(about: Mapping[str, Any]) -> Figured:
    """What makes two reports comparable."""
    rows = [[name.replace("_", " "), _written(value)] for name, value in about.items() if value is not None]
    return Figured("Measured on", ["", ""], rows)


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_written(each)}" for name, each in value.items())
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _bin(each: "Bin") -> Rate:
    low, high = each.interval
    return Rate(f"{each.low:.0%} to {each.high:.0%}, {each.cases:,} mails", each.observed, low, high, each.expected)


_environment: Final = Environment(
    loader=FileSystemLoader(_FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters["share"] = "{:.0%}".format
