"""Tools that send one letter, as a run's call."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from email_assistant.accounts.accounts import Accounts
from email_assistant.google.errors import NotFound, RateLimited, said
from email_assistant.mail.address import address_of
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect, Unsent
from email_assistant.outgoing.letters import Letter, Mailer
from email_assistant.tools.senders import AliasGone
from email_assistant.tools.spec import Call, Tool, ToolError, in_one_spelling


class SendingTool(Tool):
    """Which letter it sends, and where to, its heirs say."""

    def __init__(self, ledger: Ledger, accounts: Accounts) -> None:
        self._ledger = ledger
        self._accounts = accounts

    @abstractmethod
    async def letter(self, call: Call, arguments: Mapping[str, Any]) -> Letter:
        """What these arguments stand for; at a repeat the same but for its date. Raises ToolError: it can't be written,
        or no longer."""

    async def meaning(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> object:
        to = [str(arguments["email_address"]), *(arguments.get("additional_recipients") or ())]
        said = [in_one_spelling(str(arguments.get(name) or "")) for name in ("subject", "response_text")]
        return [*said, sorted(map(address_of, to)), str(arguments.get("from_address") or "").lower()]

    async def check(self, call: Call, arguments: Mapping[str, Any]) -> None:
        """Whether what it says still holds, just before it goes out. Raises ToolError."""

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        to = address_of(str(arguments.get("email_address") or ""))
        effect = await self._ledger.plan(call.run_id, call.id, self.spec.name, arguments, to, call.place)
        if effect.is_refused:
            await Mailer(self._ledger, call.google.gmail, call.lease).take_back(effect)  # if the program ended before
            raise ToolError(effect.result or "refused")
        if effect.state == "done":
            return effect.result or ""
        if effect.state == "planned":
            await self.check(call, arguments)
        # At a repeat too: Gmail would send what was drafted from an alias that is gone, but not from there.
        return await self._ledger.uninterrupted(self._send(call, effect, await self._letter(call, effect)))

    async def settle(self, call: Call, effect: Effect) -> None:
        mailer = Mailer(self._ledger, call.google.gmail, call.lease)
        await mailer.settle(effect, lambda: self._letter(call, effect), _told(effect.args))

    async def _letter(self, call: Call, effect: Effect) -> Letter:
        """The letter; where it can no longer be written though it was begun, it isn't clear whether it was sent."""
        try:
            return await self.letter(call, effect.args)
        except ToolError as refusal:
            if isinstance(refusal, AliasGone):
                await self._accounts.drop_alias(call.account.id, refusal.address)
            if effect.state in ("started", "unknown"):
                await self._ledger.not_found(effect)
            raise

    async def _send(self, call: Call, effect: Effect, letter: Letter) -> str:
        async def written() -> Letter:
            return letter

        mailer, told = Mailer(self._ledger, call.google.gmail, call.lease), _told(effect.args)
        try:
            await mailer.send(effect, written, told)
        except Unsent as unsent:
            why = f"Gmail refused to send it: {said(unsent.refusal)}"
            if isinstance(unsent.refusal, NotFound):
                why = "The conversation is no longer in the mailbox."
            elif isinstance(unsent.refusal, RateLimited):
                await self._ledger.bear(effect, unsent.refusal)
            why = await self._ledger.fail(effect, why)
            await mailer.take_back(effect)
            raise ToolError(why) from unsent.refusal
        return told


def _told(arguments: Mapping[str, Any]) -> str:
    return sent_to([str(arguments["email_address"]), *(arguments.get("additional_recipients") or ())])


def sent_to(recipients: Sequence[str]) -> str:
    """What the model is told of a letter that was sent."""
    return f"Sent to {', '.join(recipients)}."
