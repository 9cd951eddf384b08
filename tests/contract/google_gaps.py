"""What the Google doubles lack, each with why: behaviour, double, reason.

A gap of every double is a behaviour that no test stands behind; CONTRIBUTING.md lists those.
"""

from typing import Final

from tests.contract.google_stage import Double

_NO_CONSENT: Final = "it only renews logins"
_CLIENT_IDS: Final = "it takes no id of the client's, and makes another event"
_NO_EVENT: Final = "it has no events.get and no events.patch"
_RECURRENCE: Final = "it has no recurring events"
_ONE_SENDER: Final = "it has the account's own address only"
_NO_CALENDAR_CHECKS: Final = "it checks no parameter of the calendar"

GAPS: Final[dict[str, dict[Double, str]]] = {
    "search -x, newer_than:, a phrase": {"emulators/google": "it takes these words for text, and finds nothing"},
    "search OR, {}": {
        "emulators/google": "it takes braces for text, and all terms must match",
    },
    "search to:, an address in quotes": {"emulators/google": "it looks for the quotes too, and finds nothing"},
    "spam and trash are not listed unless asked for": {
        "emulators/google": "in:spam finds nothing without includeSpamTrash",
    },
    "messages.get: the Message-ID of mail that came in": {"myworld": "it gives every message one of its own"},
    "messages.get: any other header": {
        "emulators/google": "it shows them in format raw only",
        "myworld": "it keeps In-Reply-To and References only",
    },
    "messages.get: an invitation's text/calendar part": {
        "emulators/google": "it keeps plain text, HTML and attachments only",
        "myworld": "it keeps plain text, HTML and attachments only",
    },
    "history: labels added and removed, by name": {"myworld": "it keeps one record a message, with all its labels"},
    "history: what was deleted": {"myworld": "it forgets what is deleted"},
    "drafts.send: with a content, as that, whatever the draft holds by then": {
        "emulators/google": "it sends the draft as it is"
    },
    "drafts.send: the Message-ID is Gmail's own": {"emulators/google": "it keeps the client's"},
    "sending: 404 for a thread that is not there": {"emulators/google": "it begins a thread of that name"},
    "sending: 400 without a recipient": {"emulators/google": "it sends to nobody"},
    "sending: another subject begins a new thread": {"emulators/google": "the thread's id decides alone"},
    "sending: what goes to oneself comes in": {"emulators/google": "it keeps it with what was sent"},
    "sendAs: others, verified or not": {"emulators/google": _ONE_SENDER, "myworld": _ONE_SENDER},
    "sending: From is a verified address, or Gmail puts the account's own in its place": {
        "emulators/google": _ONE_SENDER,
        "myworld": _ONE_SENDER,
    },
    "labels: 409 for a name that is taken": {"emulators/google": "it answers 400"},
    "events.insert: under an id of ours, found by it": {"emulators/google": _CLIENT_IDS},
    "events.insert: 409 for an id that is taken": {"emulators/google": _CLIENT_IDS},
    "events.insert: 400 for a bad id, a bad sendUpdates, an end before the start": {
        "emulators/google": _NO_CALENDAR_CHECKS,
    },
    "events.patch: changes only what it names": {"emulators/google": _NO_EVENT},
    "events.patch: who stays invited keeps their answer": {
        "emulators/google": _NO_EVENT,
        "myworld": "it takes no guest's answer from the organiser",
    },
    "events.patch: 412 for an event that has changed since it was read": {
        "emulators/google": _NO_EVENT,
        "myworld": "it does not look at If-Match",
    },
    "events.patch: from hours to whole days": {"emulators/google": _NO_EVENT},
    "events.get: a deleted event is not there": {
        "emulators/google": _NO_EVENT,
    },
    "events.list: each instance of a recurring event, over the change of the clocks": {
        "sandbox": "it refuses recurring events with 400",
        "emulators/google": _RECURRENCE,
    },
    "events.list: 400 for an order that needs single events": {
        "emulators/google": _NO_CALENDAR_CHECKS,
    },
    "the calendar's timezone": {"emulators/google": "it has no settings, and no timezone in its lists"},
    "a client secret that is wrong: invalid_client": {
        "myworld": "it does not look at the client",
    },
    "logging in by browser: an authorization code, with PKCE": {"myworld": _NO_CONSENT},
    "a revoked login: invalid_grant": {"myworld": _NO_CONSENT},
    "a scope that the person did not grant: 403": {
        "emulators/google": "it lets every token do everything",
        "myworld": _NO_CONSENT,
    },
    "more than 6,000 units in a minute: 429": {
        "sandbox": "it counts nothing",
        "emulators/google": "our front counts what requests cost, and refuses only what a test says",
        "myworld": "it refuses only what a test says",
    },
    "users.watch: begins, and says when it ends": {"myworld": "it has no push"},
}
