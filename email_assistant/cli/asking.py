"""What every command shares that asks a model many times: which one, what it costs, and the person's word before."""

from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli.context import NO_MODEL, CommandError, tell

if TYPE_CHECKING:
    from email_assistant.settings import Settings

Yes = Annotated[bool, typer.Option("--yes", help="Don't ask before a model is asked.")]


def with_model(settings: "Settings", name: str | None) -> "Settings":
    """The settings with one model for every role; with none named, as they are. Raises CommandError without a model."""
    if not settings.has_model:
        raise CommandError(f"no model {NO_MODEL}")
    roles = dict.fromkeys(("model_triage", "model_response", "model_memory", "model_chat"))
    return settings.model_copy(update={"model": name, **roles}) if name else settings


def agreed(announced: str, yes: bool) -> None:
    """Say what it will cost, and ask, before a model is asked. Raises typer.Abort."""
    tell(announced)
    if not yes:
        typer.confirm("Ask?", abort=True, err=True)


def money(settings: "Settings", model: str, prompt: float, completion: float) -> float | None:
    """What tokens cost; None: it is not known."""
    price = settings.prices.get(model)
    return float(price.of(prompt, completion)) if price else None


def in_money(settings: "Settings", model: str, prompt: float, completion: float) -> str:
    """The same in words, to be said behind something else."""
    cost = money(settings, model, prompt, completion)
    if cost is None:
        return f"; EMAIL_ASSISTANT_PRICES has no price of {model}"
    return f", {cost:,.2f} {settings.currency}".rstrip()
