"""`/memory`: what the assistant knows about the person and has learned, and their own word on it."""

from collections.abc import Awaitable
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Form, UploadFile
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from email_assistant.accounts.account import Account
from email_assistant.app import App
from email_assistant.inbox.items import Conflict, Invalid
from email_assistant.memory import markdown
from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import LONGEST_RULE, PROFILES, Profile
from email_assistant.memory.senders import alone, contradictions
from email_assistant.memory.trial import COUNTED, Fired
from email_assistant.web.memory import Rules, WhatIfRule, try_rule
from email_assistant.web.pages.answered import BY
from email_assistant.web.pages.listing import Text, link
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, for_pages
from email_assistant.web.wording import PROFILE_NAMES

_TRIED = 50  # mails

router = for_pages()

Of = Annotated[str, Form(alias="account")]


@router.get("/memory")
async def show(app: Assistant, memory: Rules, account: Text = None) -> Response:
    return await _page(app, memory, account)


@router.post("/memory/background")
async def set_background(app: Assistant, account: Of, background: Annotated[str, Form()] = "") -> Response:
    """What every prompt says about the person, in their own words."""
    chosen = await app.accounts.find(app.user_id, account)
    await app.accounts.set_background(chosen.id, background.replace("\r\n", "\n"))
    return _back(chosen)


@router.get("/memory/rules.md")
async def export(app: Assistant, memory: Rules, account: Text = None) -> Response:
    chosen = await app.accounts.find(app.user_id, account or "")
    text = markdown.written(await memory.in_force(chosen.id))
    return PlainTextResponse(
        text, media_type="text/markdown", headers={"Content-Disposition": 'attachment; filename="rules.md"'}
    )


@router.post("/memory/import")
async def bring_in(
    app: Assistant,
    memory: Rules,
    account: Of,
    file: UploadFile | None = None,
    text: Annotated[str, Form()] = "",
    seen: Annotated[str, Form()] = "",
) -> Response:
    """Show what a file would change; `seen`: the person has looked at just that, and agrees."""
    chosen = await app.accounts.find(app.user_id, account)
    if seen:
        return await _done(app, memory, chosen, memory.bring_in(chosen.id, text, BY, seen))
    try:
        given = (await file.read()).decode() if file else ""
        changes = markdown.changes(await memory.in_force(chosen.id), markdown.read(given))
    except (Invalid, UnicodeDecodeError) as wrong:
        refusal = wrong if isinstance(wrong, Invalid) else Invalid("that file is no UTF-8 text; nothing was changed")
        return await _page(app, memory, chosen.address, refusal)
    shown = markdown.seen(changes)
    return render("memory_import.html", account=chosen, changes=changes, text=given, seen=shown, names=PROFILE_NAMES)


@router.post("/memory/rules")
async def add(
    app: Assistant, memory: Rules, account: Of, profile: Annotated[Profile, Form()], text: Annotated[str, Form()] = ""
) -> Response:
    chosen = await app.accounts.find(app.user_id, account)
    return await _done(app, memory, chosen, memory.add(chosen.id, profile, text, BY))


@router.post("/memory/rules/{profile}/{rule_id}")
async def change(
    app: Assistant,
    memory: Rules,
    profile: Profile,
    rule_id: str,
    account: Of,
    do: Annotated[Literal["edit", "remove", "revert"], Form()],
    version: Annotated[int, Form()],
    text: Annotated[str, Form()] = "",
) -> Response:
    """`version`: the one that the person saw; for revert, the one to go back to."""
    chosen = await app.accounts.find(app.user_id, account)
    match do:
        case "edit":
            step = memory.edit(chosen.id, profile, rule_id, text, BY, version=version)
        case "remove":
            step = memory.remove(chosen.id, profile, rule_id, BY, version=version)
        case "revert":
            step = memory.revert(chosen.id, profile, rule_id, version, BY)
    return await _done(app, memory, chosen, step)


@router.post("/memory/lessons/{lesson_id}/undo")
async def unlearn(app: Assistant, memory: Rules, lesson_id: UUID) -> Response:
    """Take back one thing that was learned."""
    lesson = await memory.lessons.find(app.user_id, str(lesson_id))
    chosen = await app.accounts.find(app.user_id, lesson.account)
    return await _done(app, memory, chosen, memory.unlearn(lesson, BY))


@router.post("/memory/try")
async def try_out(
    app: Assistant,
    memory: Rules,
    account: Of,
    text: Annotated[str, Form()] = "",
    ask: Annotated[bool, Form()] = False,
) -> Response:
    """Which of the newest mails would be sorted otherwise, were this a rule; `ask`: the model too."""
    chosen = await app.accounts.find(app.user_id, account)
    try:
        tried = await try_rule(app, chosen, WhatIfRule(text=text, mails=_TRIED, ask=ask))
    except Invalid as refusal:
        return await _page(app, memory, chosen.address, refusal)
    currency = app.settings.currency
    return render("memory_try.html", account=chosen, text=text, tried=tried, currency=currency)


@router.post("/memory/held/{held_id}")
async def answer_held(
    app: Assistant, memory: Rules, held_id: UUID, do: Annotated[Literal["keep", "drop"], Form()]
) -> Response:
    """The person's word on what would be learned and would undo a decision of theirs."""
    lesson = await memory.held.find(app.user_id, str(held_id))
    chosen = await app.accounts.find(app.user_id, lesson.account)
    return await _done(app, memory, chosen, memory.keep(lesson) if do == "keep" else memory.drop(lesson))


async def _done(app: App, memory: Memory, account: Account, step: Awaitable[Any]) -> Response:
    try:
        await step
    except (Conflict, Invalid) as refusal:
        return await _page(app, memory, account.address, refusal)
    return _back(account)


def _back(account: Account) -> Response:
    return RedirectResponse(link("/memory", account=account.address), 303)


async def _page(app: App, memory: Memory, address: str | None, refusal: Conflict | Invalid | None = None) -> Response:
    accounts = await app.accounts.of_user(app.user_id)
    chosen = await app.accounts.find(app.user_id, address) if address else next(iter(accounts), None)
    profiles = {profile: await memory.history(chosen.id, profile) for profile in PROFILES} if chosen else {}
    fired = await memory.fired(chosen.id) if chosen else {}
    on_triage = [rule for rule in profiles.get(COUNTED, ()) if not rule.removed]
    return render(
        "memory.html",
        refusal=refusal,
        accounts=accounts,
        choices=[(each.address, each.address) for each in accounts],
        account=chosen,
        profiles=profiles,
        fired={rule.key: fired.get((COUNTED, rule.key), Fired()) for rule in on_triage},
        alone=alone(on_triage),
        contradictions=contradictions(on_triage),
        lessons=await memory.lessons.page(app.user_id, chosen.id) if chosen else [],
        held=await memory.held.page(app.user_id, chosen.id) if chosen else [],
        names=PROFILE_NAMES,
        longest=LONGEST_RULE,
    )
