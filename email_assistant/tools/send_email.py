"""`send_email_tool` of the mail agent: reply in the run's thread."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import Field

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import one_line
from email_assistant.mail.compose import compose_mail, reply_subject, without_signature
from email_assistant.mail.message import Mail
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.letters import Letter
from email_assistant.tools import senders
from email_assistant.tools.offered_times import OfferedTimes
from email_assistant.tools.sending import SendingTool
from email_assistant.tools.spec import Arguments, Call, Kind, Review, StringList, ToolError, ToolSpec

LETTER: Final = "send_email_tool"  # what the tools are called that send a mail, the mail agent's and a chat's


class SendEmail(Arguments):
    email_id: str | None = None
    response_text: str = Field(min_length=1)
    email_address: str | None = None
    additional_recipients: StringList = Field(default_factory=list)
    from_address: str | None = None  # what it goes from, set by us; None: the account's own address


SPEC = ToolSpec(
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
    spec = SPEC

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


def is_blank(kind: Kind, arguments: Mapping[str, Any]) -> bool:
    """Whether what is proposed is a letter that the person is to write, as nothing was proposed for their mail."""
    return kind == "draft" and not arguments.get("response_text", "blank")


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
