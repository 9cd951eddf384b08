"""What the person is shown of what they ask for in a chat: no mark on what they said, or asked to be answered; one on
what a mail says to others than those to whom they pass it on."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import httpx
import pytest

from email_assistant.web.app import create_api
from tests.doubles.google import Google
from tests.doubles.model import Answer, Model, tool
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import BERLIN, BOB

pytestmark = in_one_loop

CAROL: Final = "carol@example.net"
NOON: Final = (datetime.now(BERLIN) + timedelta(days=1)).replace(hour=12, minute=0, second=0, microsecond=0)
TOLD: Final = "the Leeds office closes on 14 March"
REPORT: Final = f"Hi Carol,\n\n{TOLD}.\n\nAda"


@pytest.fixture
async def mails(home: Home, google: Google, model: Model) -> tuple[str, str]:
    """One from Bob, who and Carol were written to before; returns its ids, of mail and thread."""
    model.on_triage("ignore")
    model.on_policy("calendar", "mail", "inbox")
    for who in (BOB, f"Carol Chen <{CAROL}>"):
        before = google.deliver(who, "Hi", "Hi Ada!", labels=(), age=timedelta(hours=30))
        google.person_sends(google.message(before).thread_id, "Hi!")
    mail = await home.receive("Leeds", f"Hi Ada, {TOLD}, and it costs 4,200 EUR. Can you come on Friday at 3 pm?")
    return mail, google.message(mail).thread_id


async def marks(home: Home, model: Model, request: str, *answers: Answer) -> Sequence[str]:
    """Of the one item that comes of a request."""
    model.on_chat({request: [*answers, "Done."]})
    api = create_api(home.app, home.works.chat, token=None, host="127.0.0.1")
    transport = httpx.ASGITransport(app=api)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client:
        said = (await client.post("/run", json={"thread_id": "a", "user_request": request})).json()
    assert said["status"] == "confirmation_required", said
    [item] = await home.pending()
    return [mark.kind for mark in item.marks]


def letter(to: str, text: str, email_id: str | None = None) -> list[Any]:
    subject = {} if email_id else {"subject": "Leeds"}
    return [tool("send_email_tool", email_id=email_id, email_address=to, response_text=text, **subject)]


async def test_an_answer_to_its_writer_bears_none(home: Home, model: Model, mails: tuple[str, str]) -> None:
    mail, thread = mails
    answer = letter("bob@example.org", "Hi Bob,\n\nFriday at 3 pm is fine, and 4,200 EUR will do.\n\nAda", mail)
    assert await marks(home, model, "Answer Bob's mail", [tool("get_thread", thread_id=thread)], answer) == []


async def test_what_somebody_wrote_is_marked_for_others(home: Home, model: Model, mails: tuple[str, str]) -> None:
    read = [tool("get_thread", thread_id=mails[1])]
    told = await marks(home, model, "Send Carol what Bob wrote about Leeds", read, letter(CAROL, REPORT))
    assert set(told) == {"leak"}


async def test_but_not_what_the_person_said_themselves(home: Home, model: Model, mails: tuple[str, str]) -> None:
    read = [tool("get_thread", thread_id=mails[1])]
    assert await marks(home, model, f"Read Bob's mail, and tell Carol that {TOLD}", read, letter(CAROL, REPORT)) == []


async def test_an_invitation_that_they_ask_for_bears_none(home: Home, model: Model, mails: tuple[str, str]) -> None:
    given = {"start": NOON.isoformat(), "end": (NOON + timedelta(hours=1)).isoformat()}
    invite = [tool("create_event", title="Lunch with Bob", attendees=["bob@example.org"], **given)]
    assert await marks(home, model, "Invite Bob to lunch tomorrow at 12", invite) == []


@pytest.mark.parametrize(
    "request_",
    [
        "Put lunch in my calendar tomorrow at 12",
        "Block tomorrow 12 o'clock for lunch",
        "Trag für morgen um 12 lunch ein",
        "Ajoute lunch demain à 12 h",
    ],
)
async def test_an_event_of_their_own_bears_none_however_they_say_it(
    home: Home, model: Model, mails: tuple[str, str], request_: str
) -> None:
    times = {"start": NOON.isoformat(), "end": (NOON + timedelta(hours=1)).isoformat()}
    assert await marks(home, model, request_, [tool("create_event", title="lunch", **times)]) == []


async def test_an_event_that_is_over_is_marked(home: Home, model: Model, mails: tuple[str, str]) -> None:
    before = NOON - timedelta(days=30)
    times = {"start": before.isoformat(), "end": (before + timedelta(hours=1)).isoformat()}
    invite = [tool("create_event", title="lunch", **times)]
    assert await marks(home, model, f"Put lunch in my calendar for {before:%d %B} at 12", invite) == ["time"]


@pytest.mark.parametrize(
    ("to", "called", "kinds"),
    [
        ("hugo@example.org", "Hugo", []),
        ("hugo.berger_7@example.org", "Mr Berger", []),
        ("hugo@example.org", "Olga", ["unfounded"]),
        ("hugo@olga.example", "Olga", ["unfounded"]),
    ],
)
async def test_whoever_is_written_to_is_called_by_their_address(
    home: Home, model: Model, mails: tuple[str, str], to: str, called: str, kinds: list[str]
) -> None:
    found = await marks(home, model, f"Write {to} that I am late", letter(to, f"Hi {called},\n\nI am late.\n\nAda"))
    assert [kind for kind in found if kind != "new_recipient"] == kinds


GUESTS: Final = [{"email": "bob@example.org"}, {"email": "dan@example.net"}]
MOVED: Final[Sequence[tuple[str, list[str]]]] = [
    ("Move the dentist to 3 pm tomorrow", []),
    ("Move my 12 o'clock of tomorrow to 3 pm", []),
    ("Move the gardener to 3 pm tomorrow", ["gate_reason"]),
    ("Do what Bob's mail says", ["gate_reason"]),
]


@pytest.mark.parametrize("guests", [[], GUESTS], ids=["alone", "with guests"])
@pytest.mark.parametrize(("request_", "kinds"), MOVED)
async def test_an_event_that_they_name_is_moved_without_one(
    home: Home, google: Google, model: Model, mails: tuple[str, str], request_: str, kinds: list[str], guests: Any
) -> None:
    google.add_event("Gardener in the yard", NOON - timedelta(hours=3), NOON - timedelta(hours=2), attendees=guests)
    dentist = google.add_event("Dentist", NOON, NOON + timedelta(hours=1), attendees=guests)
    day = NOON.date()
    listed = [tool("list_events", start=str(day), end=str(day + timedelta(days=1)))]
    start = NOON + timedelta(hours=3)
    move = tool("update_event", event_id=dentist, start=start.isoformat(), end=(start + timedelta(hours=1)).isoformat())
    found = set(await marks(home, model, request_, listed, [move]))
    assert found - {"new_recipient", "unknown_recipient"} == set(kinds)
