"""`email-assistant memory …`"""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from email_assistant.cli.asking import Yes, agreed
from email_assistant.cli.context import (
    AsJson,
    CommandError,
    OfAccount,
    an_id,
    awaited,
    one_of,
    opened,
    out,
    print_json,
    print_text,
    run,
    say,
    when,
)

if TYPE_CHECKING:
    from email_assistant.accounts.account import Account
    from email_assistant.app import App
    from email_assistant.memory.profiles import Memory
    from email_assistant.memory.rules import Profile, Rule
    from email_assistant.memory.trial import Fired

_BECOMES = {"read": "read by the model"}
RuleId = Annotated[str, typer.Argument(metavar="RULE", help="The rule's id, or its first characters.", callback=an_id)]
LessonId = Annotated[str, typer.Argument(help="Its id, or its first characters.", callback=an_id)]

app = typer.Typer(help="What the assistant knows about you and has learned from you.", no_args_is_help=True)


@app.command()
@awaited
async def show(account: OfAccount = None, as_json: AsJson = False) -> None:
    """Show the learned rules, where each comes from, and for how much mail those on triage were used."""
    from email_assistant.memory.rules import PROFILES, origin_words
    from email_assistant.memory.senders import alone, contradictions
    from email_assistant.memory.trial import COUNTED, Fired

    async with opened() as app:
        chosen = await _account(app, account)
        memory = app.memory
        profiles = {profile: await memory.rules(chosen.id, profile) for profile in PROFILES}
        fired = await memory.fired(chosen.id)
    uses = {rule.key: fired.get((COUNTED, rule.key), Fired()) for rule in profiles[COUNTED]}
    if as_json:
        print_json(
            {
                profile: [
                    {"id": r.key, "text": r.text, "origin": r.origin, "at": r.at, "history": r.history}
                    | ({"used": uses[r.key].times, "last_used_at": uses[r.key].last_at} if r.key in uses else {})
                    for r in rules
                ]
                for profile, rules in profiles.items()
            }
        )
        return
    deciding = alone(profiles[COUNTED])
    for profile, rules in profiles.items():
        out.print(f"[bold]{profile}[/]")
        for rule in rules:
            print_text(f"  - {rule.text}")
            print_text(f"    {rule.key[:8]}  {origin_words(rule.origin)}", style="dim")
            if rule.key in uses:
                print_text(f"    {_use(uses[rule.key], chosen.zone, decides=rule.key in deciding)}", style="dim")
        if not rules:
            out.print("  (nothing learned yet)", style="dim")
    for pair in contradictions(profiles[COUNTED]):
        print_text("These two rules contradict each other, so neither decides, and the model is asked with both:")
        for rule in pair:
            print_text(f"  {rule.key[:8]}  {rule.text}")


@app.command()
@awaited
async def background(
    text: Annotated[str | None, typer.Argument(help="Who you are: role, tone, languages. Left out: shown.")] = None,
    account: OfAccount = None,
) -> None:
    """Show or set what every prompt says about you."""
    async with opened() as app:
        chosen = await _account(app, account)
        if text is not None:
            await app.accounts.set_background(chosen.id, text)
    if text is None:
        say(chosen.background or "(nothing yet)")
    else:
        out.print("Saved.")


@app.command()
@awaited
async def add(
    profile: Annotated[str, typer.Argument(help="triage_preferences, response_preferences or cal_preferences.")],
    text: Annotated[str, typer.Argument(help="The rule, in one sentence.")],
    account: OfAccount = None,
) -> None:
    """Add a rule by hand."""
    from email_assistant.memory.rules import PROFILES

    chosen = one_of(PROFILES, profile, "the profiles are")
    async with opened() as app:
        owner = await _account(app, account)
        rule = await app.memory.add(owner.id, chosen, text, "cli")
    out.print(f"Added: {rule.key[:8]}.")


@app.command()
def edit(
    rule: RuleId, text: Annotated[str, typer.Argument(help="What it is to say.")], account: OfAccount = None
) -> None:
    """Put other words in place of a rule's."""
    run(lambda: _change(rule, account, lambda m, a, p, r: m.edit(a, p, r.key, text, "cli", version=r.version)))


@app.command()
def remove(rule: RuleId, account: OfAccount = None) -> None:
    """Take a rule out of force; `revert` brings it back."""
    run(lambda: _change(rule, account, lambda m, a, p, r: m.remove(a, p, r.key, "cli", version=r.version)))


@app.command()
def revert(
    rule: RuleId,
    to: Annotated[int, typer.Argument(help="The version, as `history` counts them.")],
    account: OfAccount = None,
) -> None:
    """Put a rule back to what it said in an earlier version."""
    run(lambda: _change(rule, account, lambda m, a, p, r: m.revert(a, p, r.key, to, "cli")))


@app.command()
@awaited
async def history(rule: RuleId, account: OfAccount = None, as_json: AsJson = False) -> None:
    """Show every version of a rule, and where each comes from."""
    from email_assistant.memory.rules import origin_words

    async with opened() as app:
        owner = await _account(app, account)
        _, found = await app.memory.find(owner.id, rule)
    if as_json:
        print_json({"id": found.key, "versions": found.versions})
        return
    for number, version in enumerate(found.versions, 1):
        gone = " (removed)" if version["removed"] else ""
        say(f"{number}. {version['text']}{gone}")
        out.print(f"   {version['at'][:16]}  {origin_words(version['origin'])}", markup=False, style="dim")


@app.command()
@awaited
async def lessons(account: OfAccount = None, as_json: AsJson = False) -> None:
    """Show what was learned last, and when, and first what waits for your word."""
    from email_assistant.memory.rules import origin_words

    async with opened() as app:
        chosen = (await app.accounts.find(app.user_id, account)).id if account else None
        memory = app.memory
        found = await memory.lessons.page(app.user_id, chosen)
        held = await memory.held.page(app.user_id, chosen)
    if as_json:
        waiting = [{**asdict(each), "said": each.said, "waits": True} for each in held]
        print_json([*waiting, *({**asdict(each), "waits": False} for each in found)])
    elif not found and not held:
        out.print("Nothing was learned yet.")
    for waits in () if as_json else held:
        print_text(f"{str(waits.id)[:8]}  {when(waits.at)}  waits for you: {waits.said}")
        print_text(f"    {origin_words(waits.origin)}", style="dim")
        print_text("    It would not sort as you decided:", style="dim")
        for mail in waits.broken:
            becomes = _BECOMES.get(mail["becomes"], mail["becomes"])
            change = f"still {becomes}" if mail["was"] == mail["becomes"] else f"{mail['was']} → {becomes}"
            print_text(f"    {change}: {mail['sender']}: {mail['subject']}", style="dim")
        print_text(f"    `memory keep {str(waits.id)[:8]}` learns it, `memory drop {str(waits.id)[:8]}` does not.")
    for each in () if as_json else found:
        gone = " (taken back)" if each.taken_back_at else ""
        print_text(f"{str(each.id)[:8]}  {when(each.at)}  {each.said}{gone}")


@app.command("try")
@awaited
async def try_rule(
    text: Annotated[str, typer.Argument(help="The rule on triage, in one sentence.")],
    mails: Annotated[int, typer.Option(help="How many of the newest mails.", min=1, max=200)] = 50,
    yes: Yes = False,
    account: OfAccount = None,
    as_json: AsJson = False,
) -> None:
    """What if this were a rule: which of the newest mails would be sorted otherwise? Nothing is changed.

    What the model has to be asked for, and what that costs, is told first."""

    async with opened() as app:
        chosen = await _account(app, account)
        what_if = app.what_if
        trial = await what_if.look(chosen, text, mails)
        if trial.to_ask:
            cost = f", about {trial.cost:.4f} {app.settings.currency}" if trial.cost is not None else ""
            takes = f"by a call for each: about {trial.tokens:,} tokens{cost}"
            agreed(f"Code can't tell of {len(trial.to_ask)} of {trial.mails} mails; the model can, {takes}.", yes)
        found = await what_if.ask(trial)
    if as_json:
        print_json([{"mail": mail.id, "was": mail.was, "becomes": becomes} for mail, becomes in found])
        return
    for mail, becomes in found:
        print_text(f"{mail.was} → {becomes}  {mail.sender}: {mail.subject}")
    say(
        f"{len(found)} of {trial.mails} mails would be sorted otherwise; the model was asked {len(trial.to_ask)} times."
    )


@app.command()
@awaited
async def keep(lesson: LessonId) -> None:
    """Learn what waits for your word, though it sorts other mail otherwise than you decided."""

    async with opened() as app:
        memory = app.memory
        rule = await memory.keep(await memory.held.find(app.user_id, lesson))
    print_text(f"Removed: {rule.text}" if rule.removed else f"Learned: {rule.text}")


@app.command()
@awaited
async def drop(lesson: LessonId) -> None:
    """Learn nothing of what waits for your word."""

    async with opened() as app:
        memory = app.memory
        await memory.drop(await memory.held.find(app.user_id, lesson))
    out.print("Dropped.")


@app.command()
@awaited
async def undo(lesson: LessonId) -> None:
    """Take back exactly one thing that was learned."""

    async with opened() as app:
        memory = app.memory
        found = await memory.lessons.find(app.user_id, lesson)
        rule = await memory.unlearn(found, "cli")
    print_text("Taken back." if rule.removed else f"Taken back; the rule says: {rule.text}")


@app.command()
@awaited
async def export(
    file: Annotated[Path | None, typer.Argument(help="A new file. Left out: it is printed.")] = None,
    account: OfAccount = None,
) -> None:
    """Write the rules in force as Markdown, each with where it comes from."""
    from email_assistant.memory.markdown import written

    async with opened() as app:
        chosen = await _account(app, account)
        text = written(await app.memory.in_force(chosen.id))
    if file is None:
        sys.stdout.write(text)
    else:
        try:
            with file.open("x", encoding="utf-8") as new:
                new.write(text)
        except OSError as error:
            raise CommandError(f"{file} can't be written: {error.strerror}") from None
        say(f"Wrote {file}.")


@app.command("import")
@awaited
async def import_(
    file: Annotated[Path, typer.Argument(help="As `memory export` writes it.")],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    account: OfAccount = None,
) -> None:
    """Make the rules those of a Markdown file, after showing what that changes. Profiles that it leaves out stay."""
    from email_assistant.memory.markdown import changes, read, seen

    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} can't be read: {getattr(error, 'strerror', 'it is no UTF-8 text')}") from None
    async with opened() as app:
        chosen = await _account(app, account)
        memory = app.memory
        found = changes(await memory.in_force(chosen.id), read(text))
        for change in found:
            print_text(change.said)
        if not found:
            out.print("The rules are these already.")
            return
        if not yes:
            typer.confirm(f"Change {len(found)} rules so?", abort=True)
        await memory.bring_in(chosen.id, text, "cli", seen(found))
    out.print(f"Changed {len(found)} rules; `memory history` shows what each said before.")


Change = Callable[["Memory", UUID, "Profile", "Rule"], Awaitable["Rule"]]


async def _change(prefix: str, address: str | None, change: Change) -> None:

    async with opened() as app:
        owner = await _account(app, address)
        memory = app.memory
        profile, found = await memory.find(owner.id, prefix)
        changed = await change(memory, owner.id, profile, found)
    state = "Removed" if changed.removed else "It now says"
    say(f"{state}: {changed.text}")


async def _account(app: "App", address: str | None) -> "Account":
    if address is not None:
        return await app.accounts.find(app.user_id, address)
    accounts = await app.accounts.of_user(app.user_id)
    if len(accounts) != 1:
        known = ", ".join(a.address for a in accounts)
        raise CommandError(f"say which with --account: {known}" if known else "there is no account yet")
    return accounts[0]


def _use(fired: "Fired", zone: tzinfo, *, decides: bool) -> str:
    mails = f"{fired.times} mail{'s' * (fired.times != 1)}"
    used = f"Used for {mails}, last {when(fired.last_at, zone)}." if fired.last_at else "Not used yet."
    return f"{used} It decides by itself, and no model is asked." if decides else used
