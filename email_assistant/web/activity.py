"""`/api/activity`: what came in and what was done with it, by day and by week."""

from datetime import date
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from email_assistant.web.errors import documented
from email_assistant.web.routers import Assistant, BlankAsNone, ToldActivity, for_programs
from email_assistant.web.schemas import Told

_MOST_DAYS = 366


class DayOut(Told):
    """One calendar day, of each account's own timezone, summed over the accounts."""

    day: date
    mails: int
    ignore: int
    notify: int
    respond: int
    untriaged: int
    without_model: int = Field(description="Sorted by your rules or habits, so that no model was asked.")
    corrected: int = Field(description="Those whose class you changed.")
    corrected_of_100: float | None = Field(description="The same, of 100 that were sorted; null without any.")
    decided: int = Field(description="Items answered on that day.")
    proposals: int = Field(description="Those of them that were drafts or meetings.")
    accepted_unchanged: float | None = Field(description="Share of the proposals, 0 to 1; null without any.")
    answered: int = Field(description="Mails to which you accepted a reply on that day.")
    as_proposed: int = Field(description="Those of them whose reply you left as it was.")
    kept: float | None = Field(
        description="Share of a draft's sentences that is left in the letter you approved, 0 to 1; null without any."
    )
    learned: int = Field(description="Rules that were learned, and not taken back.")
    median_seconds: float | None = Field(description="From an item's appearance to its answer; null without answers.")
    model_calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float = Field(description="By EMAIL_ASSISTANT_PRICES, in their currency.")
    unpriced: int = Field(description="Model calls of which it is not known what they cost.")


class WeekOut(Told):
    """A calendar week in which anything was, of each account's own timezone."""

    begins: date = Field(description="Its Monday.")
    says: str = Field(description="What it came to, in one sentence.")


class ActivityOut(BaseModel):
    weeks: list[WeekOut] = Field(description="Those that hold any of the days, newest first.")
    days: list[DayOut] = Field(description="Oldest first; the last is today.")


router = for_programs("activity", "/api")


@router.get("/activity", responses=documented(401, 404, 422))
async def show_activity(
    app: Assistant,
    activity: ToldActivity,
    days: Annotated[int, Query(ge=1, le=_MOST_DAYS, description="How many, today included.")] = 30,
    account: Annotated[str | None, BlankAsNone, Query(description="Only this account's (an address).")] = None,
) -> ActivityOut:
    """The last weeks in a sentence each; by day mail by class, answers, the time they took, and the use of models."""
    everyone = await app.accounts.of_user(app.user_id)
    accounts = [await app.accounts.find(app.user_id, account)] if account else everyone
    found = await activity.days(app.user_id, accounts, days)
    weeks = await activity.weeks(app.user_id, accounts, days, app.settings.currency)
    return ActivityOut(
        weeks=[WeekOut.model_validate(week) for week in weeks], days=[DayOut.model_validate(day) for day in found]
    )
