"""What a corrected triage teaches. No model is asked: the person said it, so the rule says it, of this sender."""

from collections.abc import Mapping
from uuid import NAMESPACE_URL, UUID, uuid5

from email_assistant.inbox.mails import Class, MailRow
from email_assistant.mail.address import is_valid_address
from email_assistant.memory.profiles import Memory, Rule

_MEANS: Mapping[Class, str] = {
    "ignore": "needs neither an answer nor a notice (ignore)",
    "notify": "is to be shown, not answered (notify)",
    "respond": "is to be answered (respond)",
}


async def teach_triage(memory: Memory, account_id: UUID, mail: MailRow, classification: Class, by: str) -> Rule | None:
    """Keep a rule on mail from this sender; another correction of mail from them revises it.

    The rule holds nothing of the mail but the sender's address, since rules stand in prompts as the person's own words.
    None if that is no usable address.
    """
    sender = mail.sender
    if not is_valid_address(sender):
        return None
    return await memory.add(
        account_id,
        "triage_preferences",
        f"Mail from {sender} {_MEANS[classification]}.",
        by,
        key=str(uuid5(NAMESPACE_URL, f"email-assistant:triage/{sender}")),
        did=f"You corrected the triage of this mail to {classification}.",
        mail=mail.id,
        sender=sender,
        subject=mail.subject,
    )
