"""`/activity`: what came in and what was done with it: a sentence a week, then the days, drawn and written out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from fastapi.responses import Response

from email_assistant.web.pages.listing import Text, link
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, ToldActivity, for_pages
from email_assistant.web.wording import span

_WIDTH, _HEIGHT = 720.0, 160.0

Days = Literal["7", "30", "90"]

router = for_pages()


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of one day's column, in the chart's units."""

    series: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    names: tuple[str, ...]  # of the series, from the bottom
    bars: list[Bar]
    tallest: str  # what the full height stands for
    width: float = _WIDTH
    height: float = _HEIGHT


@router.get("/activity")
async def show(app: Assistant, activity: ToldActivity, days: Days = "30", account: Text = None) -> Response:
    accounts = await app.accounts.of_user(app.user_id)
    chosen = [await app.accounts.find(app.user_id, account)] if account else accounts
    found = await activity.days(app.user_id, chosen, int(days))
    charts = [
        _chart(
            "Mail",
            ("to answer", "to see", "ignored", "not sorted"),
            [(d.respond, d.notify, d.ignore, d.untriaged) for d in found],
        ),
        _chart(
            "Your answers to replies and meetings",
            ("accepted unchanged", "otherwise"),
            [(d.unchanged, d.proposals - d.unchanged) for d in found],
        ),
        _chart("Time to your answer", ("median",), [(d.median_seconds or 0,) for d in found], span),
        _chart("Tokens", ("read", "written"), [(d.prompt_tokens, d.completion_tokens) for d in found]),
        _chart("Cost", ("of models",), [(d.cost,) for d in found], "{:,.2f}".format),
    ]
    return render(
        "activity.html",
        weeks=await activity.weeks(app.user_id, chosen, int(days), app.settings.currency),
        days=found,
        chosen=days,
        spans=[(each, f"{each} days") for each in ("7", "30", "90")],
        account=account,
        accounts=accounts,
        here=link("/activity", days=days, account=account),
        charts=[
            chart for chart in charts if len({bar.x for bar in chart.bars}) > 1
        ],  # one day is told as well in words
        costs=any(day.cost for day in found),
    )


def _chart(
    title: str,
    names: tuple[str, ...],
    columns: Sequence[tuple[float, ...]],
    written: Callable[[float], str] = "{:,}".format,
) -> Chart:
    """A column for each day; its parts stand on each other. Without any, there are no bars."""
    most = max((sum(column) for column in columns), default=0) or 1
    step = _WIDTH / max(len(columns), 1)
    bars: list[Bar] = []
    for at, column in enumerate(columns):
        base = _HEIGHT
        for series, value in enumerate(column):
            height = _HEIGHT * value / most
            base -= height
            if value:
                bars.append(Bar(series, round(at * step + step * 0.1, 1), round(base, 1), round(step * 0.8, 1), height))
    return Chart(title, names, bars, written(most))
