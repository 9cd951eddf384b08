"""`email-assistant auction`: bidders and sellers at one table, on the loop that the mail agent runs on."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli.context import (
    AsJson,
    CommandError,
    awaited,
    check_writable,
    load_settings,
    print_json,
    print_text,
    tell,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, AnyMessage

    from email_assistant.features.auction.bidders import Bidder
    from email_assistant.features.auction.sellers import Answers
    from email_assistant.features.auction.table import AuctionEvent, Listener, SaleTable
    from email_assistant.features.auction.tools import Tools

_STEPS = 60  # of one bidder for one lot
_AMOUNT = re.compile(r"\d{1,9}(?:\.\d{1,2})?")
_VERBS = {"bid": ("BID", "amount"), "ask": ("ASK_SELLER", "question")}  # that take more than themselves


@awaited
async def auction(
    bidders: Annotated[int, typer.Option(min=1, max=12, help="How many bid.")] = 4,
    seed: Annotated[int, typer.Option(help="The same seed, the same auction.")] = 1,
    lots: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="A file of lots.")] = None,
    purse: Annotated[str, typer.Option(help="What each bidder has to spend.")] = "1500",
    rounds: Annotated[int, typer.Option(min=1, max=100, help="The most rounds of a lot.")] = 12,
    seat: Annotated[str | None, typer.Option(metavar="NAME", help="Bid yourself, under this name.")] = None,
    model: Annotated[str | None, typer.Option(help="Have this model bid, at the settings' server.")] = None,
    config: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Where each tool runs.")] = None,
    context: Annotated[
        int | None,
        typer.Option(min=500, help="Characters of a lot's transcript that the model is shown; older ones it sums up."),
    ] = None,
    seller_model: Annotated[str | None, typer.Option(help="Have this model answer for the sellers.")] = None,
    seller_prompt: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A file with words to that model.")
    ] = None,
    steps: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write each call and its answer, a line of JSON each.")
    ] = None,
    html: Annotated[Path | None, typer.Option(dir_okay=False, help="Write a page with the price's curves.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play an auction: rules bid by default, a model with --model, and you with --seat.

    Nothing in it is about your mail, and nothing is kept."""
    from email_assistant.features.auction.bidders import NAMES
    from email_assistant.features.auction.episode import AuctionAgent, lines, page, play, summary
    from email_assistant.features.auction.rules import Terms, read_lots
    from email_assistant.features.auction.tools import opened_tools

    def say(event: "AuctionEvent") -> None:
        for line in lines(event):
            print_text(line)

    for option, needed in ((context, model), (seller_prompt, seller_model)):
        if option is not None and needed is None:
            raise CommandError("--context goes with --model, and --seller-prompt with --seller-model")
    if html and steps and html.absolute() == steps.absolute():
        raise CommandError("--html and --steps name the same file: give each its own")
    for file in filter(None, (html, steps)):
        check_writable(file)
    names = [*([seat] if seat else []), *(name for name in NAMES if name != seat)][:bidders]
    listeners: Sequence[Listener] = () if as_json else (say,)
    async with (
        opened_sellers(seller_model, seller_prompt) as sellers,
        opened_tools(config, lots, sellers) as tools,
        _seated(names, seed, seat, model, context, tools) as seated,
    ):
        agent = AuctionAgent(seated, tools, _STEPS)
        with steps.open("w", encoding="utf-8") if steps else nullcontext() as file_of_steps:
            if file_of_steps:
                agent.on_step = lambda step: print(json.dumps(asdict(step), default=str), file=file_of_steps)
            episode = await play(agent, read_lots(lots), _money(purse), seed, Terms(rounds=rounds), *listeners)
    if html:
        html.write_text(page(episode), encoding="utf-8")
    if as_json:
        print_json(episode)
    else:
        for line in summary(episode):
            print_text(line)


@asynccontextmanager
async def opened_sellers(model: str | None, prompt: Path | None) -> "AsyncIterator[Answers]":
    """Who answers for the sellers. `model`: None: a rule does; `prompt`: a file with words to the model."""
    from email_assistant.features.auction.sellers import by_model, by_rule

    if model is None:
        yield by_rule
        return
    import asyncio

    from email_assistant.app import open_models

    try:
        words = await asyncio.to_thread(prompt.read_text) if prompt else None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--seller-prompt: {error}") from None
    async with open_models(load_settings().model_copy(update={"model": model})) as (models, _):
        yield by_model(models, words)


@asynccontextmanager
async def _seated(
    names: Sequence[str], seed: int, seat: str | None, model: str | None, context: int | None, tools: "Tools"
) -> "AsyncIterator[dict[str, Bidder]]":
    from email_assistant.features.auction.bidders import ModelBidder, RuleBidder

    person: dict[str, Bidder] = {seat: PersonBidder(seat)} if seat else {}
    if model is None:
        yield {name: RuleBidder(name, seed) for name in names} | person
        return
    from email_assistant.app import open_models

    settings = load_settings().model_copy(update={"model": model})
    schemas = [tool.spec.schema() for tool in tools.values()]
    async with open_models(settings) as (models, tally):
        yield {name: ModelBidder(name, models, schemas, context) for name in names} | person
        tell(f"{tally.calls} model calls, {tally.prompt_tokens} + {tally.completion_tokens} tokens")


class PersonBidder:
    """Who sits at the terminal; the end of their input takes them out of the lot."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def propose(self, messages: "Sequence[AnyMessage]", table: "SaleTable") -> "AIMessage":
        import asyncio

        from email_assistant.features.auction.bidders import Action
        from email_assistant.features.auction.tools import FINISH

        print_text(messages[-1].text)
        tell("bid AMOUNT, call, fold, ask QUESTION, status or finish:")
        verb, rest = "", ""
        while not verb or (verb.lower() == "bid" and not _AMOUNT.fullmatch(rest)):
            if verb:
                tell(f"bid takes an amount, such as 120 or 99.50, not {rest!r}:")
            try:
                words = await asyncio.to_thread(input, f"{self.name}, {table.seen_by(self.name)['purse']}> ")
            except EOFError:
                words = FINISH
            verb, _, rest = (part.strip() for part in words.strip().partition(" "))
        tool, takes = _VERBS.get(verb.lower(), (verb.upper(), None))
        return Action(tool=tool, args={takes: rest} if takes else {}, commentary="").as_message()


def _money(text: str) -> Decimal:
    if not _AMOUNT.fullmatch(text):
        raise CommandError(f"--purse takes an amount, such as 1500 or 99.50, not {text!r}")
    return Decimal(text)
