"""`send_email_tool`: of the mail agent, which replies in the run's thread; of a chat, which answers any mail in its
conversation or begins a new one."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.google.errors import NotFound, RateLimited, said
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import one_line
from email_assistant.mail.compose import compose_mail, reply_subject, without_signature
from email_assistant.mail.message import Mail, references_of
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect, Unsent
from email_assistant.outgoing.letters import Letter, Mailer
from email_assistant.tools import senders
from email_assistant.tools.mailbox import AnyMail, Held
from email_assistant.tools.offered_times import OfferedTimes
from email_assistant.tools.senders import AliasGone
from email_assistant.tools.spec import (
    LETTER,
    Arguments,
    Call,
    Kind,
    Review,
    StringList,
    Tool,
    ToolError,
    ToolSpec,
    in_one_spelling,
    is_blank,
)


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
                await self._ledger.rate_limited(effect, unsent.refusal)
            why = await self._ledger.fail(effect, why)
            await mailer.take_back(effect)
            raise ToolError(why) from unsent.refusal
        return told


def _told(arguments: Mapping[str, Any]) -> str:
    return sent_to([str(arguments["email_address"]), *(arguments.get("additional_recipients") or ())])


def sent_to(recipients: Sequence[str]) -> str:
    """What the model is told of a letter that was sent."""
    return f"Sent to {', '.join(recipients)}."


class SendEmail(Arguments):
    email_id: str | None = None
    response_text: str = Field(min_length=1)
    email_address: str | None = None
    additional_recipients: StringList = Field(default_factory=list)
    from_address: str | None = None  # what it goes from, set by us; None: the account's own address


REPLY_SPEC = ToolSpec(
    name=LETTER,
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


class SendEmailTool(SendingTool):
    spec = REPLY_SPEC

    def __init__(self, ledger: Ledger, accounts: Accounts, offered: OfferedTimes) -> None:
        super().__init__(ledger, accounts)
        self._offered = offered

    async def check(self, call: Call, arguments: Mapping[str, Any]) -> None:
        await self._offered.check(call, str(arguments["response_text"]))

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        given = SendEmail.model_validate(self.spec.parse(arguments).model_dump())
        if given.email_id and given.email_id not in run["mails"]:
            raise ToolError(f"email_id: this run answers {run['mail']}, not {given.email_id}")
        account, reply = await self._accounts.get(UUID(run["account_id"])), run["reply"]
        if not (given.email_address or reply["to"]):
            raise ToolError("email_address: the mail names no address to reply to")
        to, copies = senders.recipients(given.email_address or reply["to"], given.additional_recipients)
        if "additional_recipients" not in arguments and address_of(to) == str(reply["to"]).lower():
            to, copies = senders.recipients(to, [*copies, *reply["also_to"]])
        copies = senders.without_oneself(account, copies, reply["addressed"])
        senders.check_not_oneself_alone(account, [to, *copies])
        identity = senders.identity_of(account, reply["addressed"])
        senders.check_unchanged(account, given.from_address, identity)
        text = given.response_text  # without the blanks at its ends, which are not sent
        complete = {**arguments, "response_text": text, "email_address": to, "additional_recipients": copies}
        if not copies and not reply["also_to"]:  # else that nobody is to get a copy must not be forgotten
            del complete["additional_recipients"]
        complete.pop("from_address", None)
        return complete | senders.argument_of(account, identity)

    async def left_out(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
        reply = run["reply"]
        return senders.left_out(reply["everyone"], reply["more"], arguments)

    async def letter(self, call: Call, arguments: Mapping[str, Any]) -> Letter:
        return await _reply(call, SendEmail.model_validate(arguments))


def is_left_as_draft(run: Mapping[str, Any], kind: Kind, arguments: Mapping[str, Any]) -> bool:
    """Whether draft mode leaves what is proposed in Gmail: a letter that says something and was never sent."""
    return kind == "draft" and not is_blank(kind, arguments) and not run.get("undelivered")


async def written(call: Call, arguments: Mapping[str, Any]) -> Letter | None:
    """The message that these arguments stand for; None: it can't go from where it was to. Raises GoogleError."""
    try:
        return await _reply(call, SendEmail.model_validate(arguments))
    except ToolError:
        return None


def subject_of(run: Mapping[str, Any]) -> str:
    """That of a run's letter. What is sent again keeps its own: it may answer nothing."""
    subject = str(run["reply"]["subject"])
    return subject if run.get("undelivered") else reply_subject(subject)


def read_back(
    run: Mapping[str, Any], account: Account, proposed: Mapping[str, Any], draft: Mail
) -> dict[str, Any] | None:
    """The arguments that a draft of a reply stands for by now; None: it holds what they can't say."""
    identity = senders.identity_of(account, run["reply"]["addressed"])
    is_other = one_line(draft.subject) != one_line(subject_of(run)) or (
        draft.sender is not None and draft.sender.email.lower() != identity.address.lower()
    )
    if is_other or draft.note or draft.attachments or draft.bcc or len(draft.to) != 1:
        return None
    return {
        **proposed,
        "response_text": without_signature(draft.text, identity.signature),
        "email_address": draft.to[0].email,
        "additional_recipients": [each.email for each in draft.cc],
    }


async def _reply(call: Call, given: SendEmail) -> Letter:
    run, account = call.run, call.account
    identity = await senders.permitted(call.google.gmail, account, given.from_address)
    recipients = [str(given.email_address), *given.additional_recipients]
    raw = compose_mail(
        to=recipients[:1],
        cc=recipients[1:],
        sender=identity.mailbox,
        subject=subject_of(run),
        text=given.response_text,
        in_reply_to=run["reply"]["in_reply_to"],
        references=run["reply"]["references"],
        signature=identity.signature or None,
        date=datetime.now(account.zone),
    )
    return Letter(raw, run["thread"] or None)


class WriteEmail(SendEmail):
    email_id: Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,100}$")] | None = None
    subject: str | None = Field(None, max_length=500)


LETTER_SPEC = ToolSpec(
    name=LETTER,
    description="Send a mail. It answers the mail email_id; with null it begins a new conversation.",
    parameters={
        "properties": {
            "email_id": {"type": ["string", "null"]},
            "email_address": {"type": "string", "description": "To"},
            "additional_recipients": {"type": "array", "items": {"type": "string"}, "description": "Cc"},
            "subject": {"type": "string", "description": "Of a new conversation only"},
            "response_text": {"type": "string"},
        },
        "required": ["email_id", "email_address", "response_text"],
    },
    arguments=WriteEmail,
    review=Review("confirmation", ("accept", "edit", "ignore", "response")),
)


class WriteEmailTool(SendingTool):
    spec = LETTER_SPEC

    def __init__(self, ledger: Ledger, mails: AnyMail, accounts: Accounts) -> None:
        super().__init__(ledger, accounts)
        self._mails = mails

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        given = WriteEmail.model_validate(self.spec.parse(arguments).model_dump())
        account = await self._accounts.get(UUID(run["account_id"]))
        answered = await self._mails.get(account.id, given.email_id) if given.email_id else None
        wanted = senders.answered_at(account, answered.mail, own=answered.own) if answered else []
        to = given.email_address or next(iter(wanted), None)
        if not to:
            raise ToolError("email_address: say to whom")
        (to, copies), identity = senders.recipients(to, given.additional_recipients), account.new_mail_identity
        if answered:
            identity = senders.answers_as(account, answered.mail)
            addressed = senders.addressed_to(account, answered.mail)
            if "additional_recipients" not in arguments and address_of(to) == wanted[0].lower():
                to, copies = senders.recipients(to, [*copies, *wanted[1:]])
            copies = senders.without_oneself(account, copies, addressed)
            senders.check_not_oneself_alone(account, [to, *copies])
        senders.check_unchanged(account, given.from_address, identity)
        has_copies = bool(copies) or len(wanted) > 1  # that others were left out on purpose must not be forgotten
        return {
            "email_id": given.email_id,
            "email_address": to,
            **({"additional_recipients": copies} if has_copies else {}),
            "subject": _subject(given, answered),
            "response_text": given.response_text,
            **senders.argument_of(account, identity),
        }

    async def meaning(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> object:
        return [await super().meaning(run, arguments), arguments["email_id"]]

    async def left_out(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
        given = WriteEmail.model_validate(arguments)
        if not given.email_id:
            return []
        account = await self._accounts.get(UUID(run["account_id"]))
        answered = await self._mails.get(account.id, given.email_id)
        everyone = senders.everybody(account, answered.mail, own=answered.own)
        return senders.left_out(everyone[: senders.MOST_NAMED], max(0, len(everyone) - senders.MOST_NAMED), arguments)

    async def letter(self, call: Call, arguments: Mapping[str, Any]) -> Letter:
        given = WriteEmail.model_validate(arguments)
        account = call.account
        identity = await senders.permitted(call.google.gmail, account, given.from_address)
        answered = await self._mails.get(account.id, given.email_id) if given.email_id else None
        recipients = [str(given.email_address), *given.additional_recipients]
        raw = compose_mail(
            to=recipients[:1],
            cc=recipients[1:],
            sender=identity.mailbox,
            subject=_subject(given, answered),
            text=given.response_text,
            in_reply_to=answered.mail.message_id if answered else None,
            references=references_of(answered.mail) if answered else (),
            signature=identity.signature or None,
            date=datetime.now(account.zone),
        )
        return Letter(raw, answered.thread if answered else None)


def _subject(given: WriteEmail, answered: Held | None) -> str:
    """Gmail takes a reply into its conversation only under that one's subject."""
    subject = one_line(given.subject or "")
    if answered is None:
        if not subject:
            raise ToolError("subject: a new conversation needs one; to answer a mail, give its email_id")
        return subject
    due = one_line(reply_subject(answered.mail.subject))
    if subject and reply_subject(subject) != due:
        raise ToolError("subject: an answer has that of its conversation; leave it out")
    return due
