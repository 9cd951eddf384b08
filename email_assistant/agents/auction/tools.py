"""What a bidder can do. All of it runs here, but for questions to the seller, which a server may answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from pydantic import ConfigDict, Field

from email_assistant.agents.auction.rules import Lot
from email_assistant.agents.auction.seller import answer
from email_assistant.agents.auction.table import Table
from email_assistant.tools.mcp.reader import Reader
from email_assistant.tools.spec import AnyTool, Arguments, FilledIn, Progress, ToolSpec

FINISH: Final = "FINISH"


@dataclass(frozen=True, slots=True)
class BidderCall:
    """One call of a bidder at a table."""

    id: str
    run_id: UUID
    bidder: str
    table: Table
    progress: Progress = field(default=lambda text: None)
    filled_in: Sequence[FilledIn] = ()
    account_id: None = None


class _Nothing(Arguments):
    # Many models say more than is asked for, and refusing that would cost a whole call.
    model_config = ConfigDict(extra="ignore")


class BidArguments(Arguments):
    amount: Decimal = Field(gt=0, max_digits=12, decimal_places=2)


class Question(Arguments):
    question: str = Field(min_length=1, max_length=500)


def _spec(name: str, description: str, arguments: type[Arguments], **properties: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(name, description, {"properties": properties, "required": list(properties)}, arguments, None)


class Bid(AnyTool[BidderCall]):
    spec = _spec(
        "BID",
        "Bid for the lot; answers when the round is over.",
        BidArguments,
        amount={"type": "string", "description": "Such as 120 or 120.50"},
    )

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        amount, auction = BidArguments.model_validate(arguments).amount, call.table.auction
        return await call.table.move(call.bidder, lambda: auction.bid(call.bidder, amount), amount=str(amount))


class Stay(AnyTool[BidderCall]):
    spec = _spec("CALL", "Stay in without a bid; answers when the round is over.", _Nothing)

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        return await call.table.move(call.bidder, lambda: call.table.auction.call(call.bidder))


class Fold(AnyTool[BidderCall]):
    spec = _spec("FOLD", "Leave this lot for good.", _Nothing)

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        return await call.table.move(call.bidder, lambda: call.table.auction.fold(call.bidder))


class Status(AnyTool[BidderCall]):
    spec = _spec("STATUS", "How the auction stands, as JSON.", _Nothing)

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        call.table.note("status", call.bidder)
        return json.dumps(call.table.seen_by(call.bidder), ensure_ascii=False)


class CheckTermination(AnyTool[BidderCall]):
    spec = _spec("CHECK_TERMINATION", "Whether the auction of this lot is over: continue or end.", _Nothing)

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        says = "end" if call.table.has_ended_for(call.bidder) else "continue"
        call.table.note("check_termination", call.bidder, answer=says)
        return says


class Finish(AnyTool[BidderCall]):
    spec = _spec(FINISH, "Take no further part in this lot.", _Nothing)

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        return "Done."


class AskSeller(AnyTool[BidderCall]):
    """`reader`: of the server that answers for the seller; None: it is answered here."""

    spec = _spec(
        "ASK_SELLER", "Ask the lot's seller about it.", Question, question={"type": "string", "maxLength": 500}
    )

    def __init__(self, reader: Reader | None = None) -> None:
        self._reader = reader

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        question, auction = Question.model_validate(arguments).question, call.table.auction
        auction.ask(call.bidder)
        said = await self._answered(call, auction.lot, question)
        call.table.note("ask_seller", call.bidder, question=question, answer=said)
        return said

    async def _answered(self, call: BidderCall, lot: Lot, question: str) -> str:
        if self._reader is None:
            return answer(lot, question)
        return await self._reader.read(call, {"lot": lot.name, "question": question}, {})
