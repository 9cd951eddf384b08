"""Find out whether effects that were started have happened."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from email_assistant.accounts.account import Account
from email_assistant.accounts.clients import Clients
from email_assistant.db.lease import Lease
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.spec import Call
from email_assistant.work.runs import Runs


@dataclass(frozen=True)
class Settler:
    runs: Runs
    ledger: Ledger
    clients: Clients
    settle: Callable[[Call, Effect], Awaitable[None]]
    """Finds out what became of one, by the tools of the agent whose call it was. Raises NotYetClear, InDoubt."""

    async def settle_all(
        self, effects: Iterable[Effect], account: Account, lease: Lease, bears: tuple[type[Exception], ...]
    ) -> None:
        """
        Args:
            bears: errors that leave an effect as it is, for a later look.
        """
        for effect in effects:
            with suppress(*bears):
                self.ledger.expect_over(effect)
                run = await self.runs.input_of(effect.run_id)
                client = await self.clients.if_any(account)
                await self.settle(Call(run, effect.call_id, account, client, lease), effect)
