"""`/api/memory`: what the assistant knows about the person and has learned, and their own word on it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from email_assistant.accounts.account import Account
from email_assistant.memory import markdown
from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import LONGEST_RULE, PROFILES, Profile, Rule
from email_assistant.memory.senders import alone, contradictions
from email_assistant.memory.trial import COUNTED, Fired
from email_assistant.web.errors import documented
from email_assistant.web.routers import Assistant, BlankAsNone, for_programs, served
from email_assistant.web.schemas import Given, RuleOut, Told

if TYPE_CHECKING:
    from email_assistant.work.what_if import RuleTrial, TriedMail

_BY = "api"


async def _account(
    app: Assistant, account: Annotated[str, BlankAsNone, Query(description="Whose memory: an address.")]
) -> Account:
    """Raises UnknownAccount."""
    return await app.accounts.find(app.user_id, account)


Rules = Annotated[Memory, served("memory")]
Of = Annotated[Account, Depends(_account)]


class VersionOut(BaseModel):
    """One version of a rule."""

    version: int
    text: str
    at: datetime
    origin: dict[str, Any]
    removed: bool


class HistoryOut(BaseModel):
    rule: RuleOut
    versions: list[VersionOut] = Field(description="Oldest first; the last is what holds now.")

    @classmethod
    def of(cls, rule: Rule) -> Self:
        versions = [VersionOut(version=number, **version) for number, version in enumerate(rule.versions, 1)]
        return cls(rule=RuleOut.model_validate(rule), versions=versions)


class UsedRuleOut(RuleOut):
    """A rule, and how it was used. Only rules on triage are counted."""

    used: int | None = Field(None, description="How many mails it had a say in; null: not counted.")
    last_used_at: datetime | None = None
    alone: bool = Field(False, description="It decides by itself what mail from its sender is: no model is asked.")

    @classmethod
    def of(
        cls, profile: Profile, rule: Rule, fired: Mapping[tuple[Profile, str], Fired], deciding: Collection[str]
    ) -> Self:
        listed = cls.model_validate(rule)
        if profile != COUNTED:
            return listed
        its = fired.get((profile, rule.key), Fired())
        used = {"used": its.times, "last_used_at": its.last_at, "alone": rule.key in deciding}
        return listed.model_copy(update=used)


class MemoryOut(BaseModel):
    """What is known about the person."""

    account: str
    background: str = Field(description="What every prompt says about them.")
    profiles: dict[Profile, list[UsedRuleOut]] = Field(description="Oldest rule first.")
    contradictions: list[tuple[str, str]] = Field(
        description="Ids of two rules that say different things of mail from the same sender, so that neither decides."
    )


class LessonOut(Told):
    """One change to a rule that was learned from what the person did."""

    id: UUID
    account: str
    profile: Profile
    rule: str = Field(description="The rule's id.")
    version: int = Field(description="The version of the rule that this made.")
    text: str = Field(description="What the rule says since.")
    removed: bool = Field(description="The rule was taken out of force.")
    at: datetime
    taken_back_at: datetime | None


class BrokenOut(Told):
    """A mail that a lesson would not sort as the person decided: another one, or the one that it came of."""

    mail: str
    sender: str
    subject: str
    was: str
    becomes: str = Field(
        description="A class, as `was` if the lesson would not mend that; or `read`: no rule would decide, and the "
        "model would read it."
    )


class HeldLessonOut(Told):
    """What would be learned, and waits for the person's word, since it would undo a decision of theirs."""

    id: UUID
    account: str
    profile: Profile
    said: str = Field(description="What the rule would say.")
    origin: dict[str, Any]
    at: datetime
    broken: list[BrokenOut]


class LessonPage(BaseModel):
    lessons: list[LessonOut] = Field(description="Latest first, at most 50.")
    held: list[HeldLessonOut] = Field(description="What waits for the person's word, oldest first.")


class NewRule(Given):
    profile: Profile
    text: str = Field(description=f"1 to {LONGEST_RULE} characters; white space becomes single blanks.")


class RuleEdit(Given):
    text: str
    version: int | None = Field(None, description="The version that was seen; another by now gives 409.")


class Revert(Given):
    to: int = Field(description="The version to go back to.", ge=1, le=10**6)


class Background(Given):
    text: str = Field(max_length=4000)


class WhatIfRule(Given):
    text: str = Field(description="A rule on triage.")
    mails: int = Field(50, description="How many of the newest mails.", ge=1, le=200)
    ask: bool = Field(False, description="Ask the model too, of what code can't tell.")


class SortedOtherwise(BaseModel):
    mail: str
    sender: str
    subject: str
    was: str
    becomes: str


class WhatIfOut(BaseModel):
    """What a rule would make of the newest mails. Nothing is changed."""

    mails: int = Field(description="That it was tried on.")
    otherwise: list[SortedOtherwise]
    to_ask: int = Field(description="Mails of which only the model can tell, by a call for each; 0 once it was asked.")
    tokens: int = Field(description="What that would take, about.")
    cost: float | None = Field(description="By the prices in the settings; null without a price.")

    @classmethod
    def of(cls, trial: "RuleTrial", found: "Sequence[tuple[TriedMail, str]]", *, asked: bool) -> Self:
        told = [
            SortedOtherwise(mail=mail.id, sender=mail.sender, subject=mail.subject, was=mail.was, becomes=becomes)
            for mail, becomes in found
        ]
        left = (0, 0, None) if asked else (len(trial.to_ask), trial.tokens, trial.cost)
        to_ask, tokens, cost = left
        price = float(cost) if cost is not None else None
        return cls(mails=trial.mails, otherwise=told, to_ask=to_ask, tokens=tokens, cost=price)


class RulesText(BaseModel):
    text: str = Field(description="Markdown.")


class RulesFile(Given):
    text: str = Field(description="Markdown, as GET gives it; a profile without a heading is left as it is.")
    seen: str | None = Field(None, description="As this call gave it before: now the changes are made.")


class RuleChangeOut(Told):
    """What a file would change, or has changed."""

    does: Literal["add", "change", "remove"]
    profile: Profile
    text: str
    rule: RuleOut | None = Field(description="As it was, if it was there.")


class BroughtIn(BaseModel):
    changes: list[RuleChangeOut]
    seen: str = Field(description="To be given back with the same text, by who agrees.")
    done: bool = Field(description="The changes were made.")


router = for_programs("memory", "/api/memory")


@router.get("", responses=documented(401, 404, 422))
async def show_memory(
    memory: Rules, account: Of, removed: Annotated[bool, Query(description="Rules that were removed too.")] = False
) -> MemoryOut:
    """The rules of each profile with their origin, and what every prompt says about the person."""
    fired = await memory.fired(account.id)
    history = {profile: await memory.history(account.id, profile) for profile in PROFILES}
    in_force = [rule for rule in history[COUNTED] if not rule.removed]
    deciding = alone(in_force)
    return MemoryOut(
        account=account.address,
        background=account.background,
        profiles={
            profile: [UsedRuleOut.of(profile, rule, fired, deciding) for rule in rules if removed or not rule.removed]
            for profile, rules in history.items()
        },
        contradictions=[(one.key, other.key) for one, other in contradictions(in_force)],
    )


@router.put("/background", responses=documented(400, 401, 403, 404, 413, 422))
async def set_background(app: Assistant, account: Of, background: Background) -> Background:
    """Say who the person is: role, tone, languages. It stands in every prompt."""
    await app.accounts.set_background(account.id, background.text)
    return background


@router.post("/rules", status_code=201, responses=documented(400, 401, 403, 404, 413, 422))
async def add_rule(memory: Rules, account: Of, rule: NewRule) -> RuleOut:
    """Add a rule by hand. It stands in the prompts from the next mail on."""
    return RuleOut.model_validate(await memory.add(account.id, rule.profile, rule.text, _BY))


@router.get("/markdown", responses=documented(401, 404, 422))
async def export_rules(memory: Rules, account: Of) -> RulesText:
    """The rules in force as Markdown, each with where it comes from."""
    return RulesText(text=markdown.written(await memory.in_force(account.id)))


@router.post("/markdown", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def import_rules(memory: Rules, account: Of, file: RulesFile) -> BroughtIn:
    """What such a file would change; with `seen`, it is changed. 409: it would change something else by now."""
    if file.seen is None:
        changes = markdown.changes(await memory.in_force(account.id), markdown.read(file.text))
    else:
        changes = await memory.bring_in(account.id, file.text, _BY, file.seen)
    told = [RuleChangeOut.model_validate(change) for change in changes]
    return BroughtIn(changes=told, seen=markdown.seen(changes), done=file.seen is not None)


@router.get("/rules/{profile}/{rule_id}", responses=documented(401, 404, 422))
async def show_history(memory: Rules, account: Of, profile: Profile, rule_id: str) -> HistoryOut:
    """Every version of a rule, and where each comes from."""
    return HistoryOut.of(await memory.get(account.id, profile, rule_id))


@router.put("/rules/{profile}/{rule_id}", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def edit_rule(memory: Rules, account: Of, profile: Profile, rule_id: str, rule: RuleEdit) -> RuleOut:
    """Put other words in place of a rule's; the old ones stay in its history. 409: it was changed since `version`."""
    return RuleOut.model_validate(await memory.edit(account.id, profile, rule_id, rule.text, _BY, version=rule.version))


@router.delete("/rules/{profile}/{rule_id}", responses=documented(401, 403, 404, 409, 422))
async def remove_rule(
    memory: Rules, account: Of, profile: Profile, rule_id: str, version: int | None = None
) -> RuleOut:
    """Take a rule out of force. Its history is kept, and it can be reverted to."""
    return RuleOut.model_validate(await memory.remove(account.id, profile, rule_id, _BY, version=version))


@router.post("/rules/{profile}/{rule_id}/revert", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def revert_rule(memory: Rules, account: Of, profile: Profile, rule_id: str, revert: Revert) -> RuleOut:
    """Put a rule back to what it said, or to being in force, in an earlier version."""
    return RuleOut.model_validate(await memory.revert(account.id, profile, rule_id, revert.to, _BY))


@router.get("/lessons", responses=documented(401, 404, 422))
async def list_lessons(app: Assistant, memory: Rules, account: Of) -> LessonPage:
    """What was learned last from the person's answers and corrections."""
    found = await memory.lessons.page(app.user_id, account.id)
    return LessonPage(
        lessons=[LessonOut.model_validate(each) for each in found],
        held=[HeldLessonOut.model_validate(each) for each in await memory.held.page(app.user_id, account.id)],
    )


@router.post("/try", responses=documented(400, 401, 403, 404, 413, 422, 502, 503))
async def try_rule(app: Assistant, account: Of, rule: WhatIfRule) -> WhatIfOut:
    """Which of the newest mails would be sorted otherwise, were this a rule. Nothing is changed."""
    what_if = app.what_if
    trial = await what_if.look(account, rule.text, rule.mails)
    asked = rule.ask or not trial.to_ask
    return WhatIfOut.of(trial, await what_if.ask(trial) if asked else trial.told, asked=asked)


@router.post("/held/{held_id}/keep", responses=documented(401, 403, 404, 409, 422))
async def keep_lesson(app: Assistant, memory: Rules, held_id: UUID) -> RuleOut:
    """Learn what was held. 409: the person's word on it was given, or the rule was changed since."""
    return RuleOut.model_validate(await memory.keep(await memory.held.find(app.user_id, str(held_id))))


@router.post("/held/{held_id}/drop", status_code=204, responses=documented(401, 403, 404, 409, 422))
async def drop_lesson(app: Assistant, memory: Rules, held_id: UUID) -> None:
    """Learn nothing of what was held; the rules stay as they are. 409: the person's word on it was given before."""
    await memory.drop(await memory.held.find(app.user_id, str(held_id)))


@router.post("/lessons/{lesson_id}/undo", responses=documented(401, 403, 404, 409, 422))
async def undo_lesson(app: Assistant, memory: Rules, lesson_id: UUID) -> RuleOut:
    """Take back exactly this lesson. 409: it was taken back before, or the rule was changed by hand since."""
    return RuleOut.model_validate(await memory.unlearn(await memory.lessons.find(app.user_id, str(lesson_id)), _BY))
