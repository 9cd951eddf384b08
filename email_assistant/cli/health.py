"""`email-assistant status`, `doctor` and `activity`"""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from email_assistant.cli.context import (
    AsJson,
    OfAccount,
    awaited,
    here,
    opened,
    opened_for,
    out,
    print_json,
    print_text,
    say,
    when,
)
from email_assistant.cli.model_health import Check, check_models, check_tracing

if TYPE_CHECKING:
    from email_assistant.accounts.account import Account
    from email_assistant.app import App
    from email_assistant.google.account import GoogleAccount
    from email_assistant.inbox.reading import Counts
    from email_assistant.settings import Settings


_CLOCK_TOLERANCE = timedelta(minutes=2)


@awaited
async def status(as_json: AsJson = False) -> None:
    """Show what waits, what is being worked on, and what was used in the last 24 hours."""
    from email_assistant.accounts.account import stopped
    from email_assistant.accounts.first_steps import first_steps
    from email_assistant.trail.activity import Activity
    from email_assistant.usage import spent_notice

    async with opened() as app:
        counts = await app.mails.counts(app.user_id)
        items = await app.inbox.counts(app.user_id)
        absence = await app.presence.absence()
        used = await app.usage.since(app.user_id, datetime.now(UTC) - timedelta(days=1))
        since = await app.accounts.stopped_since(app.user_id)
        refusing = await app.model_servers.standing(app.settings.model_server)
        accounts = await app.accounts.of_user(app.user_id)
        away = {account.id: app.accounts.away(account) for account in accounts}
        days = [await app.usage.today(account) for account in accounts]
        weeks = await Activity(app.pool).weeks(app.user_id, accounts, 1, app.settings.currency)
    steps = first_steps(app.settings, [account for account in accounts if not away[account.id]])
    if as_json:
        from email_assistant.web.schemas import AccountOut

        print_json(
            {
                "accounts": [
                    {**AccountOut.of(account, day).model_dump(), "left_alone": away[account.id]}
                    for account, day in zip(accounts, days, strict=True)
                ],
                "mails": sum(counts["by_state"].values()),
                **counts,
                "items": items.by_status,
                "waiting": items.by_status["pending"],
                "snoozed": items.snoozed,
                "running": absence is None,
                "stopped_since": since,
                "last_sign_of_life": absence.since if absence else None,
                "model_refuses": [asdict(each) for each in refusing],
                "last_24_hours": used,
                "this_week": weeks[0].says if weeks else None,
                "first_steps": [asdict(step) for step in steps],
            }
        )
        return
    if absence:
        say(absence.sentence)
    if since:
        say(here(f"{stopped(since)} `email-assistant go-on` ends that."))
    for each in refusing:
        say(each.sentence())
    for account, day in zip(accounts, days, strict=True):
        seen = f"last looked at {when(account.listed_at, account.zone)}" if account.listed_at else "not looked at yet"
        out.print(f"{account.address}: {account.state}, {seen}")
        if account.older_mail:
            out.print(f"  older mail: {account.older_mail}")
        left_alone = away[account.id] and f"it {away[account.id]}"
        for trouble in filter(None, (account.last_error, left_alone, account.watch_error)):
            say(f"  {trouble}")
        if account.spent_until:
            out.print(f"  {spent_notice(account, day)}")
    if not accounts:
        out.print("No account yet. `email-assistant demo` needs none.")
    if steps:
        out.print("First steps:")
    for step in steps:
        print_text(f"  {step.line}")
    if app.settings.stand_ins:
        print_text(app.settings.stand_ins)
    out.print(f"Mail: {_listed(counts['by_state'])}")
    out.print(f"Waiting for you: {_items_waiting(items)}")
    out.print(
        f"Last 24 hours: {used['calls']} model calls, {used['prompt_tokens']} prompt tokens, {used['sent']} sent",
    )
    for week in weeks:
        out.print(f"This week: {week.says}")


@awaited
async def activity(
    days: Annotated[int, typer.Option(min=1, max=366, help="The weeks that hold any of so many last days.")] = 30,
    account: OfAccount = None,
    as_json: AsJson = False,
) -> None:
    """Tell each of the last weeks in a sentence: what came in, what was done with it, and what it cost."""
    from email_assistant.trail.activity import Activity

    async with opened_for(account) as app:
        accounts = (
            [await app.accounts.find(app.user_id, account)] if account else await app.accounts.of_user(app.user_id)
        )
        weeks = await Activity(app.pool).weeks(app.user_id, accounts, days, app.settings.currency)
    if as_json:
        print_json({"weeks": weeks})
        return
    for week in weeks:
        out.print(f"{week.name}: {week.says}")
    if not weeks:
        out.print("No mail in these days.")


@awaited
async def doctor() -> None:
    """Check database, models and accounts, and say what to do about what is wrong. Ends with 1 if anything is.

    Each model that is set is asked a few small questions, to learn what its server can do; they use some 200 tokens."""
    async with opened() as app:
        checks = [
            _check_settings(app.settings),
            await _check_database(app),
            *await check_models(app.settings, app.model_servers),
            *await _check_tools(app),
            *_check_plugins(),
        ]
        checks.append(await check_tracing(app.settings))
        accounts = await app.accounts.of_user(app.user_id)
        if any(account.provider == app.settings.provider for account in accounts):
            checks += [await _check_presence(app), *await _check_clock(app.settings), _check_quota(app.settings)]
        else:
            checks.append(("mailbox", "none is connected yet: `email-assistant auth login --help` says how", ""))
        for account in accounts:
            checks += await _check_account(app, account)
    for name, problem, detail in checks:
        mark = ("✗", "red") if problem else ("✓", "green")
        out.print(Text.assemble(mark, here(f" {name}: {problem or detail}")), soft_wrap=True)
    if any(problem for _, problem, _ in checks):
        raise typer.Exit(1)


def _check_settings(settings: "Settings") -> Check:
    """Where they come from. Of a `.env` in the current folder nothing is known but that it is there."""
    file = f" and {settings.env_file}" if settings.env_file.exists() else ""
    there = settings.unread_env_file
    unread = f"; {there} is not read: move it to {settings.env_file}, or name it with --env-file" if there else ""
    return "settings", None, f"from the environment{file}{unread}"


async def _check_database(app: "App") -> Check:
    from email_assistant.db.pool import POOLED_BY_TRANSACTION, shares_sessions

    where = "DATABASE_URL" if app.settings.database_url else "the embedded server"
    return "database", POOLED_BY_TRANSACTION if await shares_sessions(app.pool) else None, where


async def _check_presence(app: "App") -> Check:
    absence = await app.presence.absence()
    return "at work", str(absence) if absence else None, "mail is worked on"


async def _check_tools(app: "App") -> list[Check]:
    """Each server that is not ours, by its first tool that can't be used; and what is left unreviewed."""
    rows = await app.overview.rows()
    remarks: list[Check] = [("tools", None, f"note: {remark}") for remark in app.overview.remarks()]
    wrong: list[Check] = [
        (f"tool {row.name}", f"{row.backend}: {row.reason}{_REMEDIES.get(row.state, '')}", "")
        for row in rows
        if row.state not in ("ready", "off")
    ]
    ready = sum(row.state == "ready" for row in rows)
    return [*wrong, *remarks, ("tools", None, f"{ready} of {len(rows)} can be used")]


def _check_plugins() -> list[Check]:
    """What other distributions add, each loaded as where it is used."""
    from email_assistant.plugins import KINDS, BadPlugin, plugins

    checks: list[Check] = []
    for found in (each for kind in KINDS for each in plugins(kind)):
        try:
            found.load()
            problem = None
        except BadPlugin as error:
            problem = str(error)
        checks.append((f"plugin {found.name}", problem, f"{found.distribution}, {found.kind.replace('_', ' ')}"))
    return checks


_REMEDIES = {
    "changed": "; look with `email-assistant tools show`, then `email-assistant tools accept`",
    "down": "; run its command yourself, or look whether its url answers",
    "missing": "; correct its name or its backend in tools.yaml",
}


async def _check_clock(settings: "Settings") -> list[Check]:
    """Nothing where Google can't be asked: the accounts' own checks say so."""
    from email_assistant.google.errors import GoogleError
    from email_assistant.google.login import clock_error

    if settings.mail_provider:
        return []
    try:
        ahead = await clock_error(settings.google_root, settings.google_timeout_seconds)
    except GoogleError:
        return []
    if abs(ahead) <= _CLOCK_TOLERANCE:
        return [("clock", None, "as Google's")]
    amount = (
        f"{abs(ahead).total_seconds() / 60:.0f} minutes {'ahead of' if ahead > timedelta(0) else 'behind'} Google's"
    )
    remedy = "have it set over the network (Linux: `sudo timedatectl set-ntp true`)"
    return [("clock", f"this machine's is {amount}, so logins and meetings go wrong: {remedy}", "")]


def _check_quota(settings: "Settings") -> Check:
    """Google does not tell what a project may spend; new ones may spend less than those from before May 2026."""
    each, together = settings.gmail_user_limit, settings.gmail_project_limit
    if each is None:
        return "quota", None, "none is kept to at this server; EMAIL_ASSISTANT_GMAIL_UNITS_PER_MINUTE sets one"
    kept = f"{each:,} Gmail units a minute for each mailbox"
    if together is not None:
        kept += f", {together:,} for all together"
    where = "compare with Quotas under the Gmail API in your project's console"
    return "quota", None, f"{kept}; {where}, and set EMAIL_ASSISTANT_GMAIL_UNITS_PER_MINUTE if it says other"


async def _check_account(app: "App", account: "Account") -> list[Check]:
    from email_assistant.accounts.account import UnknownAccount
    from email_assistant.accounts.vault import VaultError
    from email_assistant.cli.explain import explain_google
    from email_assistant.google.errors import GoogleError

    name = account.address
    if why := app.accounts.away(account):
        is_wanted = account.is_the_demos or account.state == "active"
        return [(name, why, "")] if is_wanted else [(name, None, why)]
    known = [*_check_login(account), (f"{name}, last look", account.last_error, "went well")]
    try:
        client = await app.clients.get(account.id)
        await client.gmail.profile()
        return [
            (name, None, f"{account.state}, Gmail answers"),
            *known,
            await _check_timezone(name, client),
            await _check_sender(name, client),
        ]
    except GoogleError as error:
        return [(name, explain_google(error), ""), *known]
    except (VaultError, UnknownAccount) as error:
        return [(name, f"{error}", ""), *known]


def _check_login(account: "Account") -> list[Check]:
    """What is known of the login without asking Google."""
    from email_assistant.cli.auth import end_problem, scopes_problem

    allowed = "all that is needed" if account.scopes is not None else "not known, the token came from a file"
    return [
        (f"{account.address}, allowed", scopes_problem(account), allowed),
        (f"{account.address}, end of the login", end_problem(account), "none that Google told of"),
    ]


async def _check_timezone(name: str, client: "GoogleAccount") -> Check:
    zone = await client.calendar.timezone()
    problem = "Google does not tell it, so times are in UTC: allow the calendar, and set it in Google Calendar"
    return f"{name}, timezone", None if zone else problem, zone or ""


async def _check_sender(name: str, client: "GoogleAccount") -> Check:
    """An answer goes out from the address that the mail came to; from one that Gmail has not verified nothing does."""
    senders = await client.gmail.send_as()
    own = [sender for sender in senders if sender.verified or sender.address.lower() == name]
    unverified = [sender.address for sender in senders if sender not in own]
    told = ", ".join(f"{sender.name} <{sender.address}>" if sender.name else sender.address for sender in own) or name
    if not unverified:
        return f"{name}, sender", None, told
    problem = (
        f"Gmail has not verified {', '.join(unverified)}, so nothing is sent from there: do that in Gmail's settings "
        "under Accounts"
    )
    return f"{name}, sender", problem, ""


def _items_waiting(counts: "Counts") -> str:
    waiting = counts.by_status["pending"]
    told = f"{waiting:,}" + (" or more" if waiting >= counts.most else "")
    return f"{told} ({counts.snoozed:,} put off)" if counts.snoozed else told


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items())) or "none"
