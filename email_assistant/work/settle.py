"""Finds out whether started effects have happened, and carries out what the person says about one that was refused or
stays in doubt."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from email_assistant.accounts.account import Account
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Connection
from email_assistant.google.errors import GoogleError
from email_assistant.inbox.items import Item
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.spec import Call, ServerDown, ToolError
from email_assistant.user_file import BadFile
from email_assistant.work.runs import Runs


@dataclass(frozen=True)
class Settler:
    runs: Runs
    ledger: Ledger
    clients: Clients
    settle: Callable[[Call, Effect], Awaitable[None]]
    """Finds out what became of one, by the tools of the agent whose call it was. Raises NotYetClear, InDoubt."""

    async def settle_all(
        self, effects: Iterable[Effect], account: Account, lease: Lease, tolerated: tuple[type[Exception], ...]
    ) -> None:
        """
        Args:
            tolerated: errors that leave an effect as it is, for a later look.
        """
        for effect in effects:
            with suppress(*tolerated):
                self.ledger.expect_over(effect)
                run = await self.runs.input_of(effect.run_id)
                client = await self.clients.if_any(account)
                await self.settle(Call(run, effect.call_id, account, client, lease), effect)


class Completes(Protocol):
    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Raises ToolError, ServerDown."""
        ...

    def said(self, name: str) -> Collection[str]:
        """Those arguments of a call that only say what it is about: `complete` says them anew."""
        ...


async def with_args_anew(tools: Completes, run: Mapping[str, Any], effect: Effect) -> Effect:
    """A refused effect as it could be carried out now: the address that it was to go from may be gone, or the event
    be another than was said."""
    if effect.state != "refused":
        return effect
    try:
        args = {name: value for name, value in effect.args.items() if name not in tools.said(effect.tool)}
        return replace(effect, args=await tools.complete(run, effect.tool, args))
    except (ToolError, ServerDown, BadFile, GoogleError, VaultError):
        return effect


async def resolve(ledger: Ledger, conn: Connection, applied: Sequence[Item]) -> None:
    """Carry out what a person said about effects that they were asked about again."""
    for item in applied:
        answer = item.decision or {}
        if answer.get("type") == "ignore":
            await ledger.leave(conn, item.run_id, item.call_id)
        else:
            await ledger.again(conn, item.run_id, item.call_id, answer.get("args") or item.args)


def is_accepted(item: Item) -> bool:
    return (item.decision or {}).get("type") == "accept"
