"""`email-assistant bench capacity`: how many workers a day's mail needs, on paper."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli.context import (
    AsJson,
    CommandError,
    ended_in_words,
    load_settings,
    out,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from email_assistant.bench.capacity import Costs


def capacity(
    mails: Annotated[int, typer.Option(min=1, help="Mails that come in on a day, on all accounts.")] = 1_000_000,
    accounts: Annotated[int, typer.Option(min=1, help="Mailboxes.")] = 10_000,
    answered: Annotated[float, typer.Option(min=0, max=1, help="Share of mails to which a reply is sent.")] = 0.2,
    model_seconds: Annotated[float, typer.Option(min=0.001, help="Median time of a model call.")] = 2.0,
    model_spread: Annotated[float, typer.Option(min=0, max=2, help="Spread of its logarithm.")] = 0.5,
    clusters: Annotated[int, typer.Option(min=1, help="Postgres servers, each with accounts of its own.")] = 4,
    slots: Annotated[int, typer.Option(min=1, help="Mails at once in a worker process.")] = 32,
    workers: Annotated[int | None, typer.Option(min=1, help="Of each cluster; left out: as many as needed.")] = None,
    most_p99: Annotated[float, typer.Option(min=0, help="Seconds that 99 of 100 mails may wait at most.")] = 10.0,
    measured: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What `bench speed --json` wrote; left out: the ceilings' costs."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How many workers a day's mail needs, how long it waits, and what it costs: a simulation that connects to nothing.

    Mail comes in as people's days go, a model call takes a time that varies, and each process has one core. What a mail
    takes of processor and database is as measured, or as it stands in the output. Money is by your own prices."""
    with ended_in_words():
        from email_assistant.bench.capacity import POLLS, Costs, Demand, Fleet, day, load, money, planned

        settings = load_settings()
        costs = _measured(measured) if measured else Costs()
        demand = Demand(mails, accounts, answered, model_seconds, model_spread)
        fleet = Fleet(clusters, workers or 1, slots)
        if workers is None:
            fleet = planned(demand, costs, fleet, most_p99)
        delays = day(demand, costs, fleet)
        loads = {polling: load(demand, costs, clusters, polling) for polling in POLLS}
        prices = [settings.prices.get(settings.model_for(role)) for role in ("triage", "response")]
        triage, response = prices
        spent = money(demand, costs, triage, response) if triage and response else None
    if as_json:
        print_json(
            {
                "demand": asdict(demand),
                "costs": asdict(costs),
                "fleet": asdict(fleet),
                "queue_seconds": asdict(delays),
                "postgres_at_the_busiest": {polling: asdict(each) for polling, each in loads.items()},
                "tokens_a_day": sum(costs.tokens(demand)),
                "money_a_day": spent,
            }
        )
        return
    out.print(
        f"{mails:,} mails a day on {accounts:,} accounts in {clusters} clusters: {fleet.workers} workers of {slots} "
        f"slots in each, their cores busy to {delays.busy:.0%} over the day"
    )
    out.print(f"wait for a slot: p50 {delays.p50:.2f} s, p95 {delays.p95:.2f} s, p99 {delays.p99:.2f} s")
    print_table(
        ["polling", "polls/s", "statements/s", "cores of Postgres"],
        [
            [polling, f"{each.polls:.0f}", f"{each.statements:,.0f}", f"{each.postgres_cores:.2f}"]
            for polling, each in loads.items()
        ],
    )
    prompt, completion = costs.tokens(demand)
    said = f"{spent:,.2f} {settings.currency}".strip() if spent is not None else "no price in EMAIL_ASSISTANT_PRICES"
    out.print(
        f"models: {prompt / 1e6:,.0f} million tokens of prompts, {completion / 1e6:,.0f} of answers a day: {said}"
    )
    out.print("taken for granted: " + ", ".join(f"{name} {value}" for name, value in asdict(costs).items()))


def _measured(path: Path) -> "Costs":
    from email_assistant.bench.capacity import Costs

    try:
        figures = json.loads(path.read_text())["figures"]
        return Costs.measured({each["figure"]: each["ours"]["median"] for each in figures})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} is not what `bench speed --json` writes ({error})") from None
