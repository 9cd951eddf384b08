"""What stands in the `_meta` of calls and their results, beyond the protocol: our servers know it, others leave it."""

from typing import Final

KEY: Final = "email-assistant/idempotency-key"  # of a call: the same for each try at it, and for no other call
INVITATION: Final = "email-assistant/invitation"
"""Of a call: what calendars know the event by to which the conversation invites."""
SENDER: Final = "email-assistant/sender"  # of a call: the person's address that a letter goes from, as they saw it
EXTERNAL_ID: Final = "email-assistant/external-id"  # of a result: Google's id of what was made
LIMITED: Final = "email-assistant/limited"
"""Of a result that is an error, true: nothing was done, as a limit of Google's is reached."""
AGAIN: Final = "email-assistant/again"
"""Of a result that is an error, true: it may pass, and the same call again does it at most once."""
