"""How an answer is given on the command line: shown first where it is accepted, then taken, then what follows told."""

import json
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from email_assistant.cli.context import CommandError, complain, invocation, opened_for, out, print_text, say, tell

if TYPE_CHECKING:
    from email_assistant.app import App
    from email_assistant.inbox.items import Item


@asynccontextmanager
async def opened_inbox(account: str | None = None) -> AsyncIterator["App"]:
    """The app; when the command is through, what was learned since the last one is told, apart from its output."""
    from email_assistant.memory.lessons import HeldLessons, Lessons

    async with opened_for(account) as app:
        yield app
        for lesson in await Lessons(app.pool).news(app.user_id, "cli"):
            tell(f"learned: {lesson.said} (`email-assistant memory undo {str(lesson.id)[:8]}` takes it back)")
        for held in await HeldLessons(app.pool).page(app.user_id):
            tell(f"to be learned? {held.said} (`email-assistant memory lessons` shows what it would sort otherwise)")


def has_terminal() -> bool:
    """Whether somebody sits before the screen."""
    return all(stream and not stream.closed and stream.isatty() for stream in (sys.stdin, sys.stdout))


async def give_edited(prefix: str, values: list[str], args: str | None) -> None:
    async with opened_inbox() as app:
        found = await app.inbox.find(app.user_id, prefix)
    changed = dict(found.args) if args is None else _object(args)
    for value in values:
        field, separator, text = value.partition("=")
        if not separator:
            raise CommandError(f"write FIELD=VALUE, not {value!r}; the fields are {', '.join(found.args)}")
        changed[field.strip()] = text
    await decide(prefix, {"type": "edit", "args": changed})


def _object(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise CommandError(f"--args takes a JSON object with all fields of the proposal: {error}") from None
    if not isinstance(parsed, dict):
        raise CommandError("--args takes a JSON object with all fields of the proposal")
    return parsed


async def decide(prefix: str, answer: Mapping[str, Any], shown: str | None = None) -> None:
    """`shown`: the item's hash as the person was shown it; None: it is answered as it is now."""
    from email_assistant.web import wording

    async with opened_inbox() as app:
        found = await app.inbox.find(app.user_id, prefix)
        if shown not in (None, found.hash):
            raise CommandError(f"this is not as it was shown; look at it again{found.both_texts}")
        decided = await take(app, found, answer)
        asked_again = await app.inbox.asked_again_because_of(decided)
        kept = await why_kept(app, [decided])
    taken = f"{wording.became(decided)}."
    if decided.waits_for_more:
        taken += f" It {decided.state}."
    taken += way_back(decided)
    for part in asked_again:
        taken += f" Asked again, as {part.asked_because}: `email-assistant inbox show {str(part.id)[:8]}`."
    if kept:
        taken += f" {kept}"
    say(taken)


async def take(app: "App", item: "Item", answer: Mapping[str, Any]) -> "Item":
    """Answer an item as it was just read."""
    window = app.settings.undo_window_in_terminal
    return await app.inbox.decide(app.user_id, item.id, answer, by="cli", asked=item.asked, undo_window=window)


async def accept_alone(prefix: str) -> None:
    """Accept one item; who sits before the screen is shown it first."""
    from email_assistant.cli.card import whole_of
    from email_assistant.web import wording

    shown = _read_shown(prefix)
    async with opened_inbox() as app:
        found = await app.inbox.find(app.user_id, prefix.partition("@")[0])
        whole = whole_of(app, found)
    if shown is None and found.both_texts and not has_terminal():
        raise CommandError(f"nothing was done: name it as ID@HASH, as `inbox show` prints it{found.both_texts}")
    if shown is None and has_terminal():
        print_text(whole)
        if not typer.confirm(f"\n{wording.does([found])}?"):
            raise CommandError("nothing was done")
        shown = found.id, found.hash
    await decide(str(found.id), {"type": "accept"}, shown[1] if shown else None)


async def accept_from_gmail(prefix: str) -> None:
    """Send a reply as the person has changed its draft in Gmail; who sits before the screen is shown it first."""
    from email_assistant.cli.card import whole_of
    from email_assistant.web import wording

    shown = _read_shown(prefix)
    async with opened_inbox() as app:
        found = await app.inbox.find(app.user_id, prefix.partition("@")[0])
        whole = whole_of(app, found)
    if found.in_gmail is None or found.in_gmail.args is None:
        raise CommandError("there is no other text of it in Gmail that can be sent from here")
    if shown is None:
        if not has_terminal():
            raise CommandError(f"nothing was done: name it as ID@HASH, as `inbox show` prints it{found.both_texts}")
        print_text(whole)
        if not typer.confirm(f"\n{wording.IN_GMAIL_BUTTON}?"):
            raise CommandError("nothing was done")
        shown = found.id, found.hash
    await decide(str(found.id), {"type": "edit", "args": found.in_gmail.args}, shown[1])


async def accept_together(named: Sequence[str]) -> None:
    """Accept several items, none of them unseen. `named`: ids, or their beginnings, each alone or as ID@HASH; none: all
    that waits."""
    from email_assistant.web import wording

    async with opened_inbox() as app:
        seen = [_read_shown(each) for each in named]
        if not named or None in seen:
            items = [await app.inbox.find(app.user_id, each.partition("@")[0]) for each in named]
            chosen = await _chosen(app, items or await _all_waiting(app))
        else:
            chosen = [each for each in seen if each]
        window = app.settings.undo_window_in_terminal
        outcomes = await app.inbox.decide_many(app.user_id, chosen, {"type": "accept"}, by="cli", undo_window=window)
        kept = await why_kept(app, [outcome.item for outcome in outcomes if outcome.item])
    for outcome in outcomes:
        if outcome.item:
            out.print(
                f"{str(outcome.id)[:8]}: {wording.became(outcome.item).lower()}.{way_back(outcome.item)}",
                soft_wrap=True,
            )
        else:
            complain(f"{str(outcome.id)[:8]}: not taken: {outcome.refused}")
    if kept:
        say(kept)
    if refused := [outcome for outcome in outcomes if outcome.refused]:
        raise CommandError(f"{len(refused)} of {len(outcomes)} were not taken")


async def _all_waiting(app: "App") -> list["Item"]:
    from email_assistant.inbox.items import MOST_AT_ONCE

    items, _ = await app.inbox.page(app.user_id, status="pending", limit=MOST_AT_ONCE)
    return items


async def _chosen(app: "App", items: Sequence["Item"]) -> list[tuple[UUID, str | None]]:
    """Those of the items that the person accepts, once they were shown whole."""
    from email_assistant.cli.card import whole_of
    from email_assistant.inbox.items import Conflict, Invalid
    from email_assistant.web import wording

    shown: list[Item] = []
    for item in {item.id: item for item in items}.values():
        try:
            await app.inbox.check(item, {"type": "accept"})
            reason = item.alone
        except (Conflict, Invalid) as refusal:
            reason = str(refusal)
        if reason:
            print_text(f"Left out: {str(item.id)[:8]}: {reason}", style="yellow")
        else:
            shown.append(item)
    if not shown:
        raise CommandError("there is nothing here to approve together")
    for item in shown:
        print_text(f"\n{'—' * 20} {str(item.id)[:8]}\n{whole_of(app, item)}")
    if not has_terminal():
        raise CommandError("nothing was done: without a terminal, name each as ID@HASH, as `inbox show` prints it")
    if not typer.confirm(f"\n{wording.does(shown)} all {len(shown)}?"):
        raise CommandError("nothing was done")
    return [(item.id, item.hash) for item in shown]


def _read_shown(named: str) -> tuple[UUID, str | None] | None:
    """What ID@HASH names; None: it is an id alone."""
    item_id, at, shown = named.partition("@")
    if not at:
        return None
    try:
        return UUID(item_id), shown
    except ValueError:
        raise CommandError(f"{named}: ID@HASH takes the whole id, as `inbox show` prints it") from None


def as_shown(item: "Item") -> str:
    return f"{item.id}@{item.hash}"


async def why_kept(app: "App", answered: Sequence["Item"]) -> str | None:
    """What to tell if nothing carries some of these answers out for now."""
    accounts = dict.fromkeys(item.account_id for item in answered if not item.is_held)
    told = [await app.accounts.why_kept(app.presence, account_id) for account_id in accounts]
    return " ".join(filter(None, dict.fromkeys(told))) or None


def way_back(decided: "Item") -> str:
    """The command that takes an answer back, and how long it does; nothing where there is none."""
    undo = f" `email-assistant inbox undo {str(decided.id)[:8]}` takes it back"
    if decided.waits_for_more:
        return f"{undo} until then."
    seconds = (decided.undo_until - datetime.now(UTC)).total_seconds() if decided.undo_until else 0
    return f"{undo} within {seconds:.0f} s." if seconds > 0 else ""


def typed_in(item: "Item") -> str:
    """What the person had typed in the answer that was taken back; empty if there is none."""
    match item.taken_back:
        case {"type": "response", "args": str(text)}:
            return text
        case {"type": "edit", "args": dict(args)}:
            changed = {name: value for name, value in args.items() if value != item.args.get(name)}
            return "\n".join(f"{name}: {_in_words(value)}" for name, value in changed.items())
        case _:
            return ""


def _in_words(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def again(item: "Item") -> str:
    """The command that gives the answer that was taken back once more; empty if nothing was typed in it."""
    id_ = str(item.id)[:8]
    match item.taken_back:
        case {"type": "response", "args": str(text)}:
            return invocation(f"inbox respond {id_} {shlex.quote(text)}")
        case {"type": "edit", "args": dict(args)}:
            changed = {name: value for name, value in args.items() if value != item.args.get(name)}
            if all(isinstance(value, str) for value in changed.values()):
                values = [f"{name}={value}" for name, value in changed.items()]
            else:
                values = ["--args", json.dumps(args, ensure_ascii=False)]
            return invocation(f"inbox edit {id_} {shlex.join(values)}")
        case _:
            return ""
