"""What a corrected triage teaches. No model is asked: the person said it, so the rule says it, of this sender."""

from uuid import NAMESPACE_URL, uuid5

from email_assistant.inbox.mails import Correction
from email_assistant.inbox.standing import TAKEN_FOR
from email_assistant.mail.address import in_ascii, is_valid_address
from email_assistant.memory.profiles import Memory
from email_assistant.memory.senders import stated


async def teach_triage(memory: Memory, correction: Correction) -> None:
    """Carry a correction into the rule on mail from this sender; a repeat changes nothing.

    The rule holds nothing of the mail but the sender's address, since rules stand in prompts as the person's own words.
    A correction back to the class that triage had found takes back what the mail had taught.

    Raises:
        Invalid: the profile is full.
    """
    sender, classification = in_ascii(correction.sender), correction.classification
    if not is_valid_address(sender):
        return
    took_back = classification == correction.triaged_as
    await memory.correct(
        correction.account_id,
        "triage_preferences",
        str(uuid5(NAMESPACE_URL, f"email-assistant:triage/{sender}")),
        None if took_back else stated(sender, classification),
        {
            "did": f"You sorted this mail {'back to' if took_back else 'as'} “{TAKEN_FOR[classification]}”.",
            "correction": str(correction.id),
            "mail": correction.mail_id,
            "sender": sender,
            "subject": correction.subject,
            "by": correction.by,
        },
    )
