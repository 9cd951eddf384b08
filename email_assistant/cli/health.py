"""`email-assistant status` and `doctor`"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, get_args

import typer
from rich.text import Text

from email_assistant.cli.context import AsJson, opened, out, print_json, run

if TYPE_CHECKING:
    import httpx

    from email_assistant.accounts.accounts import Account
    from email_assistant.app import App
    from email_assistant.settings import Settings


def status(as_json: AsJson = False) -> None:
    """Show what waits, what is being worked on, and what was used in the last 24 hours."""

    async def command() -> None:
        from email_assistant.usage import spent_notice

        async with opened() as app:
            counts = await app.mails.counts(app.user_id)
            used = await app.usage.since(app.user_id, datetime.now(UTC) - timedelta(days=1))
            accounts = await app.accounts.of_user(app.user_id)
            days = [await app.usage.today(account) for account in accounts]
        summary = {
            "accounts": [
                {
                    "address": account.address,
                    "state": account.state,
                    "last_sync": account.listed_at,
                    "last_error": account.last_error,
                    "watch_error": account.watch_error,
                    "spent_until": account.spent_until,
                    "today": {
                        "tokens": day.tokens,
                        "most_tokens": day.most_tokens,
                        "money": float(day.money),
                        "most_money": day.most_money and float(day.most_money),
                    },
                }
                for account, day in zip(accounts, days, strict=True)
            ],
            "mails": sum(counts["by_state"].values()),
            **counts,
            "waiting": counts["by_state"].get("waiting", 0),
            "last_24_hours": used,
        }
        if as_json:
            print_json(summary)
            return
        for account, day in zip(accounts, days, strict=True):
            seen = (
                f"last looked at {account.listed_at.astimezone():%Y-%m-%d %H:%M}"
                if account.listed_at
                else "not looked at yet"
            )
            out.print(f"{account.address}: {account.state}, {seen}", highlight=False)
            for trouble in filter(None, (account.last_error, account.watch_error)):
                out.print(f"  {trouble}", markup=False, highlight=False, soft_wrap=True)
            if account.spent_until:
                out.print(f"  {spent_notice(account, day)}", highlight=False)
        if not accounts:
            out.print("No account yet. `email-assistant demo` needs none.")
        out.print(f"Mail: {_listed(counts['by_state'])}", highlight=False)
        out.print(f"Waiting for you: {summary['waiting']}", highlight=False)
        out.print(
            f"Last 24 hours: {used['calls']} model calls, {used['prompt_tokens']} prompt tokens, {used['sent']} sent",
            highlight=False,
        )

    run(command)


def doctor() -> None:
    """Check database, models and accounts, and say what to do about what is wrong. Ends with 1 if anything is.

    Each model that is set is asked for one word, which uses a few tokens.
    """

    async def command() -> bool:
        async with opened() as app:
            where = "DATABASE_URL" if app.settings.database_url else "the embedded server"
            checks = [("database", None, where), *await _check_models(app)]
            for account in await app.accounts.of_user(app.user_id):
                checks += await _check_account(app, account)
        for name, problem, detail in checks:
            mark = ("✗", "red") if problem else ("✓", "green")
            out.print(Text.assemble(mark, f" {name}: {problem or detail}"), soft_wrap=True)
        return all(problem is None for _, problem, _ in checks)

    if not run(command):
        raise typer.Exit(1)


Check = tuple[str, str | None, str]
"""(what was checked, what is wrong with it, or what is right)"""


async def _check_models(app: "App") -> list[Check]:
    """Every model is asked for a word: only an answer shows that name, key and quota are right."""
    from email_assistant.settings import Role

    settings = app.settings
    if settings.openai_api_key is None and settings.openai_base_url is None:
        return [("model", "none is set: give OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own", "")]
    models = sorted({settings.model_for(role) for role in get_args(Role)})
    return [(f"model {model}", await _model_problem(settings, model), "answers") for model in models]


async def _model_problem(settings: "Settings", model: str) -> str | None:
    import httpx

    base = (settings.openai_base_url or "https://api.openai.com/v1").rstrip("/")
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else "none"
    question = {"model": model, "messages": [{"role": "user", "content": "Answer with the word: ready"}]}
    try:
        async with httpx.AsyncClient(timeout=settings.model_timeout_seconds) as client:
            answer = await client.post(
                f"{base}/chat/completions", json=question, headers={"Authorization": f"Bearer {key}"}
            )
    except httpx.TimeoutException:
        return f"{base} did not answer within {settings.model_timeout_seconds:g} s; is it overloaded?"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return f"{base} can't be reached ({type(error).__name__}); check OPENAI_BASE_URL and the network"
    match answer.status_code:
        case 401 | 403:
            return f"{base} refuses the key; check OPENAI_API_KEY"
        case 404:
            return f"{base} does not know it; check EMAIL_ASSISTANT_MODEL and OPENAI_BASE_URL"
        case 429:
            return f"{base} is over its rate limit or quota; wait, or look at what your plan allows"
        case status if not 200 <= status < 300:
            return f"{base} answers {status}; look at the server's own log"
    return None if _is_completion(answer) else f"{base} speaks no OpenAI; check OPENAI_BASE_URL, it often ends in /v1"


def _is_completion(answer: "httpx.Response") -> bool:
    try:
        return bool(answer.json()["choices"])
    except (ValueError, TypeError, KeyError):
        return False


async def _check_account(app: "App", account: "Account") -> list[Check]:
    from email_assistant.accounts.accounts import UnknownAccount
    from email_assistant.accounts.vault import VaultError
    from email_assistant.cli.explain import explain_google
    from email_assistant.google.errors import GoogleError

    name = account.address
    if account.provider != app.settings.provider:
        return [(name, None, f"belongs to {account.provider}; left alone now")]
    try:
        await (await app.clients.get(account.id)).gmail.profile()
    except GoogleError as error:
        return [(name, explain_google(error), "")]
    except (VaultError, UnknownAccount) as error:
        return [(name, f"{error}", "")]
    zone = None if account.timezone else "the calendar's timezone is not known; times are in UTC until it is"
    return [(name, None, f"{account.state}, Gmail answers"), (f"{name}, timezone", zone, account.timezone or "")]


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items())) or "none"
