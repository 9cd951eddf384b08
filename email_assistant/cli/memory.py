"""`email-assistant memory …`"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from email_assistant.cli.context import AsJson, CommandError, OfAccount, opened, out, print_json, run

if TYPE_CHECKING:
    from email_assistant.accounts.accounts import Account
    from email_assistant.app import App

app = typer.Typer(help="What the assistant knows about you and has learned from you.", no_args_is_help=True)


@app.command()
def show(account: OfAccount = None, as_json: AsJson = False) -> None:
    """Show the learned rules, and where each comes from."""

    async def command() -> None:
        from email_assistant.app import open_memory
        from email_assistant.memory.profiles import PROFILES

        async with opened() as app:
            chosen = await _account(app, account)
            memory = open_memory(app)
            profiles = {profile: await memory.rules(chosen.id, profile) for profile in PROFILES}
        if as_json:
            print_json(
                {
                    profile: [
                        {"id": r.key, "text": r.text, "origin": r.origin, "at": r.at, "history": r.history}
                        for r in rules
                    ]
                    for profile, rules in profiles.items()
                }
            )
            return
        for profile, rules in profiles.items():
            out.print(f"[bold]{profile}[/]")
            for rule in rules:
                out.print(f"  - {rule.text}", markup=False, highlight=False)
                out.print(f"    {_origin(rule.origin)}", markup=False, highlight=False, style="dim")
            if not rules:
                out.print("  (nothing learned yet)", style="dim")

    run(command)


@app.command()
def background(
    text: Annotated[str | None, typer.Argument(help="Who you are: role, tone, languages. Left out: shown.")] = None,
    account: OfAccount = None,
) -> None:
    """Show or set what every prompt says about you."""

    async def command() -> None:
        async with opened() as app:
            chosen = await _account(app, account)
            if text is not None:
                await app.accounts.set_background(chosen.id, text)
        if text is None:
            out.print(chosen.background or "(nothing yet)", markup=False, highlight=False)
        else:
            out.print("Saved.")

    run(command)


async def _account(app: "App", address: str | None) -> "Account":
    if address is not None:
        return await app.accounts.find(app.user_id, address)
    accounts = await app.accounts.of_user(app.user_id)
    if len(accounts) != 1:
        known = ", ".join(a.address for a in accounts)
        raise CommandError(f"say which with --account: {known}" if known else "there is no account yet")
    return accounts[0]


def _origin(origin: dict[str, Any]) -> str:
    return f"{origin.get('did', '')} From {origin.get('sender', '?')}: {origin.get('subject', '')}"
