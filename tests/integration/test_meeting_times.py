"""A meeting that is proposed in another timezone: wherever it is shown, it is the time at which it would be made."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration import shared
from tests.integration.scene import BOB, DONE, meeting, reply

daemon, google, model, database_url = shared.daemon, shared.google, shared.model, shared.database_url

HOUR = timedelta(hours=1)

CASES: dict[str, tuple[dict[str, Any], datetime, tuple[str, str, str], str]] = {
    "New York": (
        {"start_time": "2031-11-26T10:00:00", "end_time": "2031-11-26T11:00:00", "timezone": "America/New_York"},
        datetime(2031, 11, 26, 15, tzinfo=UTC),
        ("Wed 26 Nov 2031, 16:00 CET (10:00 in America/New_York)", "16:00–17:00", "10:00 in America/New_York"),
        "Wed 26 Nov 2031, 17:00 CET (11:00 in America/New_York)",
    ),
    "Algiers, which has CET in summer": (
        {"start_time": "2031-07-28T10:00:00", "end_time": "2031-07-28T11:00:00", "timezone": "Africa/Algiers"},
        datetime(2031, 7, 28, 9, tzinfo=UTC),
        ("Mon 28 Jul 2031, 11:00 CEST (10:00 in Africa/Algiers)", "11:00–12:00", "10:00 in Africa/Algiers"),
        "Mon 28 Jul 2031, 12:00 CEST (11:00 in Africa/Algiers)",
    ),
    "another day": (
        {"start_time": "2031-07-29T00:30:00", "end_time": "2031-07-29T01:30:00", "timezone": "Asia/Tokyo"},
        datetime(2031, 7, 28, 15, 30, tzinfo=UTC),
        (
            "Mon 28 Jul 2031, 17:30 CEST (Tue 29 Jul 2031, 00:30 in Asia/Tokyo)",
            "17:30–18:30",
            "Tue 29 Jul 2031, 00:30 in Asia/Tokyo",
        ),
        "Mon 28 Jul 2031, 18:30 CEST (Tue 29 Jul 2031, 01:30 in Asia/Tokyo)",
    ),
    "no timezone of its own": (
        {"start_time": "2031-07-28T10:00:00", "end_time": "2031-07-28T11:00:00", "timezone": None},
        datetime(2031, 7, 28, 8, tzinfo=UTC),
        ("Mon 28 Jul 2031, 10:00 CEST", "10:00–11:00", ""),
        "Mon 28 Jul 2031, 11:00 CEST",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_shown_at_the_time_that_it_would_be_made(daemon: Daemon, google: Google, model: Model, case: str) -> None:
    args, start, (shown, slot, beside), end = CASES[case]
    google.add_event("Dentist", start, start + HOUR)
    model.script([[meeting(**args)], [DONE]])
    google.deliver(BOB, "Planning", "Could we meet?")
    [item] = daemon.pending()

    day, time = shown.split(" (")[0].rsplit(" ", 1)[0].split(" 2031, ")
    assert f"book {day}, {time}" in daemon.http.get("/").text
    page = daemon.http.get(f"/items/{item['id']}").text
    when = f"{shown} to {end}" if beside else f"{shown.removesuffix(' CEST')} to {end[-10:]}"
    assert f"<dt>When</dt><dd>{when} · 60 min</dd>" in page
    day = daemon.http.get(f"/items/{item['id']}/day").text
    assert f"{start:%d %B}" in day
    assert "The time is free" not in day
    assert "At that time: <bdi>Dentist</bdi>" in day
    proposed = f"Plan (proposed: {beside})" if beside else "Plan (proposed)"
    assert [line.strip() for line in day.splitlines() if slot in line or "(proposed" in line] == [
        f'<li class=""><span>{slot}</span>',
        f'<li class="proposed"><span>{slot}</span>',
        f'<span dir="auto">{proposed}</span></li>',
    ]
    together = daemon.http.post("/answers", data={"item": item["id"], "answer": "accept"}).text
    assert f">{shown}</dd>" in together
    assert f"- When: {when}\n" in item["description"]
    assert f"- When: {when}  \\n" in str(daemon.http.get(f"/threads/{item['run']}").json())
    assert f"Starts: {shown}\nEnds: {end}\n" in daemon.cli("inbox", "show", item["id"])

    daemon.accept(item)
    daemon.wait_for(lambda: len(google.events) == 2, "the meeting is made")
    [made] = [event for event in google.events.values() if event["summary"] == "Plan"]
    assert datetime.fromisoformat(made["start"]["dateTime"]) == start


def test_in_another_timezone_its_times_are_others(daemon: Daemon, google: Google, model: Model) -> None:
    model.script(
        [
            [meeting(start_time="2031-11-26T10:00:00", end_time="2031-11-26T11:00:00", timezone="Europe/Amsterdam")],
            [DONE],
        ]
    )
    google.deliver(BOB, "Planning", "Could we meet?")
    [item] = daemon.pending()
    daemon.cli("inbox", "edit", item["id"], "timezone=America/New_York")
    changed = daemon.cli("inbox", "show", item["id"]).partition("As you changed it:\n")[2]
    assert "Starts: Wed 26 Nov 2031, 16:00 CET (10:00 in America/New_York)\nEnds: Wed 26 Nov 2031, 17:00 CET" in changed
    daemon.wait_for(lambda: google.events, "the meeting is made")
    [made] = google.events.values()
    assert datetime.fromisoformat(made["start"]["dateTime"]).astimezone(UTC).hour == 15


def test_a_letter_that_offers_a_time_has_the_day_beside_it(daemon: Daemon, google: Google, model: Model) -> None:
    start = datetime(2031, 7, 28, 8, tzinfo=UTC)
    google.add_event("Dentist", start, start + HOUR)
    model.script([[reply("28 July 2031 at 10:00 does not work, 29 July 2031 at 10:00 does.")], [DONE]])
    google.deliver(BOB, "Planning", "Could we meet?")
    [item] = daemon.pending()
    assert f'data-load="/items/{item["id"]}/day"' in daemon.http.get(f"/items/{item['id']}").text
    shown = daemon.http.get(f"/items/{item['id']}/day").text
    first, _, second = shown.partition("Your day, Tuesday 29 July")
    assert "Your day, Monday 28 July" in first
    assert ("10:00–11:00" in first, "Dentist" in first, "Nothing stands there" in second) == (True, True, True)


def test_a_letter_about_no_time_has_none(daemon: Daemon, google: Google, model: Model) -> None:
    model.script([[reply("Thank you!")], [DONE]])
    google.deliver(BOB, "Planning", "Here it is.")
    [item] = daemon.pending()
    looks = len(google.calls("events.list"))
    assert "/day" not in daemon.http.get(f"/items/{item['id']}").text
    assert "This is about no time to come." in daemon.http.get(f"/items/{item['id']}/day").text
    assert len(google.calls("events.list")) == looks
