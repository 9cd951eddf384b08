"""`send_email_tool`: reply in the run's thread. Draft first, so that a repeat can't send twice.

`drafts.create` → store the draft's id → `drafts.send`: Gmail sends a draft once and answers 404 to a repeat. After a
lost acknowledgement Gmail is looked at before anything is done again.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import Field

from email_assistant.google.errors import Ambiguous, GoogleError, NotFound, Refused
from email_assistant.google.gmail import Gmail, Message
from email_assistant.mail.address import Address, is_valid_address
from email_assistant.mail.compose import compose_reply, mail_fingerprint
from email_assistant.mail.parse import parse_bytes, parse_gmail
from email_assistant.tools.effects import Effect, Ledger
from email_assistant.tools.spec import Arguments, Call, Review, StringList, Tool, ToolError, ToolSpec

_CLOCK_SKEW = timedelta(minutes=10)
"""Google's clock may be this far from ours when a sent message is matched by time."""


class SendEmail(Arguments):
    email_id: str | None = None
    response_text: str = Field(min_length=1)
    email_address: str | None = None
    additional_recipients: StringList = Field(default_factory=list)


SPEC = ToolSpec(
    name="send_email_tool",
    description="Reply in this conversation: the text only, without a subject.",
    parameters={
        "properties": {
            "email_id": {"type": "string"},
            "response_text": {"type": "string"},
            "email_address": {"type": "string", "description": "To"},
            "additional_recipients": {"type": "array", "items": {"type": "string"}, "description": "Cc"},
        },
        "required": ["response_text", "email_address"],
    },
    arguments=SendEmail,
    review=Review("draft", ("accept", "edit", "ignore", "response")),
)


@dataclass(frozen=True, slots=True)
class Reply:
    """A composed reply, and the Gmail thread that it belongs in."""

    raw: bytes
    mark: str
    """What it is recognised by in the mailbox."""
    thread: str


class SendEmailTool(Tool):
    spec = SPEC

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        given = SendEmail.model_validate(self.spec.parse(arguments).model_dump())
        if given.email_id and given.email_id not in run["mails"]:
            raise ToolError(f"email_id: this run answers {run['mail']}, not {given.email_id}")
        to = given.email_address or run["reply"]["to"]
        if not to:
            raise ToolError("email_address: the mail names no address to reply to")
        if wrong := [a for a in (to, *given.additional_recipients) if not is_valid_address(a)]:
            raise ToolError(f"not an e-mail address: {', '.join(wrong)}")
        return {**arguments, "email_address": to} | (
            {"additional_recipients": given.additional_recipients} if given.additional_recipients else {}
        )

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        given = SendEmail.model_validate(arguments)
        effect = await self._ledger.plan(
            call.run_id, call.id, self.spec.name, arguments, (given.email_address or "").lower()
        )
        if effect.state == "failed":
            raise ToolError(effect.result or "refused")
        if effect.state == "done":
            return effect.result or ""
        return await self._ledger.uninterrupted(self._send(call, effect, given))

    async def settle(self, call: Call, effect: Effect) -> None:
        given = SendEmail.model_validate(effect.args)
        gmail, reply = call.google.gmail, compose(call, given)
        draft_id = effect.draft_id
        if draft_id is None or await _take_away(gmail, draft_id, reply.mark):
            await self._ledger.fail(effect, "It was not sent.")
        else:
            await self._look_for_sent(gmail, effect, reply, given)

    async def _send(self, call: Call, effect: Effect, given: SendEmail) -> str:
        gmail, reply = call.google.gmail, compose(call, given)
        draft_id = effect.draft_id
        if effect.state == "started":
            if draft_id and await gmail.find_draft(draft_id) is None:
                return await self._look_for_sent(gmail, effect, reply, given)
            draft_id = draft_id or await self._adopt_draft(gmail, call, effect, reply)
        try:
            draft_id = draft_id or await self._create_draft(gmail, call, effect, reply)
            await self._ledger.start(effect, call.lease)
            sent = await gmail.send_draft(draft_id)
        except NotFound:
            if draft_id is None:
                raise ToolError(
                    await self._ledger.fail(effect, "The conversation is no longer in the mailbox.")
                ) from None
            return await self._look_for_sent(gmail, effect, reply, given)
        except Ambiguous:
            if found := await self._find_sent(gmail, effect, reply):
                return await self._ledger.finish(effect, found, sent_to(given))
            raise
        except Refused as refusal:
            # Gmail has also been seen to answer 400 where a draft was sent before.
            if draft_id and await gmail.find_draft(draft_id) is None:
                return await self._look_for_sent(gmail, effect, reply, given)
            why = await self._ledger.fail(effect, f"Gmail refused to send: {refusal}")
            if draft_id:
                with suppress(GoogleError):
                    await gmail.delete_draft(draft_id)
            raise ToolError(why) from refusal
        return await self._ledger.finish(effect, sent.id, sent_to(given))

    async def _create_draft(self, gmail: Gmail, call: Call, effect: Effect, reply: Reply) -> str:
        await self._ledger.start(effect, call.lease)
        draft = await gmail.create_draft(reply.raw, reply.thread)
        if not await self._ledger.keep_draft(effect, draft.id, call.lease):
            if await self._ledger.disown_draft(effect, draft.id):
                await gmail.delete_draft(draft.id)
            await self._ledger.start(effect, call.lease)  # raises LeaseLost: only a fenced worker can't keep its draft
        return draft.id

    async def _adopt_draft(self, gmail: Gmail, call: Call, effect: Effect, reply: Reply) -> str | None:
        """Find the draft that a crash left between its creation and the storing of its id."""
        await self._ledger.start(effect, call.lease)
        for ref in await gmail.drafts():
            if ref.thread_id != reply.thread or ref.id in effect.orphans:
                continue
            draft = await gmail.draft(ref.id)
            is_ours = draft.payload is not None and mail_fingerprint(parse_gmail(draft.payload)) == reply.mark
            if is_ours and await self._ledger.keep_draft(effect, ref.id, call.lease):
                return ref.id
        return None

    async def _look_for_sent(self, gmail: Gmail, effect: Effect, reply: Reply, given: SendEmail) -> str:
        """The draft is gone: it was sent, or the person deleted it."""
        if found := await self._find_sent(gmail, effect, reply):
            return await self._ledger.finish(effect, found, sent_to(given))
        await self._ledger.not_found(effect)
        raise AssertionError("not_found always raises")

    async def _find_sent(self, gmail: Gmail, effect: Effect, reply: Reply) -> str | None:
        started = (await self._ledger.get(effect.run_id, effect.call_id)).started_at or datetime.now(UTC)
        claimed = await self._ledger.own_ids(effect.thread_id)

        def is_ours(message: Message) -> bool:
            return (
                "SENT" in message.labels
                and message.id not in claimed
                and message.internal_date >= started - _CLOCK_SKEW
                and mail_fingerprint(parse_gmail(message.payload)) == reply.mark
            )

        try:
            thread = await gmail.thread(reply.thread)
        except NotFound:
            return None
        return next((m.id for m in thread if is_ours(m)), None)


def compose(call: Call, given: SendEmail) -> Reply:
    """The message that these arguments stand for."""
    run, account = call.run, call.account
    recipients = [str(given.email_address), *given.additional_recipients]
    raw = compose_reply(
        to=recipients[:1],
        cc=recipients[1:],
        sender=Address(account.name, account.address),
        subject=run["reply"]["subject"],
        text=given.response_text,
        in_reply_to=run["reply"]["in_reply_to"],
        references=run["reply"]["references"],
        signature=account.signature or None,
        date=datetime.now(account.zone),
    )
    return Reply(raw, mail_fingerprint(parse_bytes(raw)), run["thread"])


async def _take_away(gmail: Gmail, draft_id: str, mark: str) -> bool:
    """Make sure that a draft is never sent by a worker that is slow; False if it is gone already, and so may have been.

    What the person has made of it meanwhile is theirs.
    """
    draft = await gmail.find_draft(draft_id)
    if draft is None:
        return False
    is_changed = draft.payload is not None and mail_fingerprint(parse_gmail(draft.payload)) != mark
    return is_changed or await gmail.delete_draft(draft_id)


def sent_to(given: SendEmail) -> str:
    """What the model is told of a reply that was sent."""
    return f"Sent to {', '.join([str(given.email_address), *given.additional_recipients])}."
