"""Find out whether effects that were started have happened."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from email_assistant.accounts.accounts import Account
from email_assistant.accounts.clients import Clients
from email_assistant.db.lease import Lease
from email_assistant.tools.effects import Effect, Ledger
from email_assistant.tools.spec import Call
from email_assistant.work.runs import Runs

Settle = Callable[[Call, Effect], Awaitable[None]]
"""Finds out what became of an effect, by the tools of the agent whose call it was. Raises NotYetClear, InDoubt."""


async def settle_all(
    settle: Settle,
    effects: Iterable[Effect],
    *,
    runs: Runs,
    ledger: Ledger,
    account: Account,
    clients: Clients,
    lease: Lease,
    bears: tuple[type[Exception], ...],
) -> None:
    """Settle one after the other.

    Args:
        bears: errors that leave an effect as it is, for a later look.
    """
    for effect in effects:
        with suppress(*bears):
            ledger.expect_over(effect)
            run = await runs.input_of(effect.run_id)
            await settle(Call(run, effect.call_id, account, await clients.if_any(account), lease), effect)
