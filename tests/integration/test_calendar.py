"""Meetings between what stands in the person's calendars: what the agent is told of them, and what the person is."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.doubles.daemon import Daemon, Item
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.integration import shared
from tests.integration.scene import ADA, BOB, DONE, meeting, reply

daemon, google, model, database_url = shared.daemon, shared.google, shared.model, shared.database_url

TEN = datetime(2031, 6, 2, 8, tzinfo=UTC)
"""Ten o'clock in Berlin, on a Monday."""
HOUR = timedelta(hours=1)
UNKNOWN = "The calendar could not be read: look yourself whether the time is free"


PLAN = meeting(TEN, end_time=(TEN + HOUR).isoformat())


def propose(daemon: Daemon, google: Google, model: Model) -> Item:
    """The item of a proposed meeting."""
    model.script([[PLAN], [reply("See you."), DONE]])
    google.deliver(BOB, "Planning", "Could we meet on Monday at ten?")
    [item] = daemon.pending()
    assert item["kind"] == "meeting"
    return item


class TestConflicts:
    def test_they_are_shown_wherever_the_meeting_is_reviewed(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        team = google.add_calendar("<i>team</i>", role="owner")
        colleague = google.add_calendar("colleague")
        google.add_event("A colleague's own", TEN, TEN + HOUR, calendar=colleague)
        google.add_event("<b>Dentist</b>", TEN - HOUR / 2, TEN + HOUR / 2)
        google.add_event("Later", TEN + HOUR, TEN + 2 * HOUR)
        google.add_event("Lunch club", TEN, TEN + HOUR, transparency="transparent")
        google.add_event("Stand-up", TEN + HOUR / 2, TEN + 2 * HOUR, calendar=team)
        google.add_event("", TEN.date(), TEN.date() + timedelta(days=1), calendar=team)
        expected = ["all day busy", "09:30-10:30 <b>Dentist</b>", "10:30-12:00 Stand-up"]

        item = propose(daemon, google, model)
        assert item["conflicts"] == expected
        assert daemon.cli("inbox", "show", item["id"], "--json")["conflicts"] == expected
        shown = daemon.cli("inbox", "show", item["id"])
        assert all(f"At that time: {conflict}" in shown for conflict in expected)
        assert "\nStarts: Mon 02 Jun 2031, 10:00 CEST\nEnds: Mon 02 Jun 2031, 11:00 CEST\n" in shown
        assert "\nAttendees: bob@example.org\n" in shown
        page = daemon.http.get(f"/items/{item['id']}").text
        assert "At that time: <strong><bdi>09:30-10:30 &lt;b&gt;Dentist&lt;/b&gt;</bdi></strong>" in page
        thread = daemon.http.get(f"/threads/{item['run']}").json()
        assert "At that time: 09:30-10:30 &lt;b&gt;Dentist&lt;/b&gt;" in str(thread)

        assert item["calendars"] == [ADA, "<i>team</i>"]
        assert daemon.cli("inbox", "show", item["id"], "--json")["calendars"] == item["calendars"]
        assert f"Calendars that count: {ADA}, <i>team</i>" in shown
        assert f"Calendars that count: <bdi>{ADA}, &lt;i&gt;team&lt;/i&gt;</bdi>" in page
        assert f"Calendars that count: {ADA}, &lt;i&gt;team" in str(thread)

        looks = len(google.calls("events.list"))
        daemon.http.get(f"/items/{item['id']}")
        assert len(google.calls("events.list")) == looks

    def test_a_free_time_has_none(self, daemon: Daemon, google: Google, model: Model) -> None:
        item = propose(daemon, google, model)
        assert item["conflicts"] == []
        assert "At that time" not in daemon.http.get(f"/items/{item['id']}").text

    def test_a_calendar_that_can_not_be_read_holds_nothing_up_and_is_said(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        google.fault("events.list", status=503, times=1000)
        item = propose(daemon, google, model)
        assert (item["conflicts"], item["calendars"]) == (None, [])
        assert UNKNOWN in daemon.http.get(f"/items/{item['id']}").text
        assert UNKNOWN in daemon.cli("inbox", "show", item["id"])
        daemon.accept(item)
        [draft] = daemon.pending()
        assert draft["conflicts"] == []
        assert [event["summary"] for event in google.events.values()] == ["Plan"]


class TestWhatHasChangedSince:
    def test_time_that_was_taken_meanwhile_is_asked_about_and_booked_once_if_they_want_it(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        google.add_event("Stand-up", TEN, TEN + HOUR / 2)
        item = propose(daemon, google, model)
        google.add_event("Dentist", TEN + HOUR / 2, TEN + HOUR)
        daemon.accept(item)
        [again] = daemon.pending()
        assert (again["kind"], again["asked"]) == ("meeting", 2)
        assert again["asked_because"] == "at that time there is now: 10:30-11:00 Dentist"
        assert "Plan" not in [event["summary"] for event in google.events.values()]
        daemon.accept(again)
        [draft] = daemon.pending()
        assert draft["kind"] == "draft"
        assert [event["summary"] for event in google.events.values()].count("Plan") == 1

    def test_what_they_were_shown_is_not_asked_about_again(self, daemon: Daemon, google: Google, model: Model) -> None:
        google.add_event("Dentist", TEN, TEN + HOUR)
        daemon.accept(propose(daemon, google, model))
        [draft] = daemon.pending()
        assert draft["kind"] == "draft"

    def test_an_edit_is_looked_up_at_its_own_time(self, daemon: Daemon, google: Google, model: Model) -> None:
        google.add_event("Stand-up", TEN, TEN + HOUR)
        google.add_event("Dentist", TEN + 2 * HOUR, TEN + 3 * HOUR)
        item = propose(daemon, google, model)
        assert item["conflicts"] == ["10:00-11:00 Stand-up"]
        times = {"start_time": (TEN + 2 * HOUR).isoformat(), "end_time": (TEN + 3 * HOUR).isoformat()}
        daemon.answer(item, "edit", item["args"] | times)
        [again] = daemon.pending()
        assert again["asked_because"] == "at that time there is now: 12:00-13:00 Dentist"
        assert (again["conflicts"], again["calendars"]) == (["12:00-13:00 Dentist"], [ADA])
        daemon.answer(again, "ignore")
        daemon.wait_for(lambda: not daemon.items(status="pending"), "nothing waits")
        assert "Plan" not in [event["summary"] for event in google.events.values()]


class TestUnusualTimes:
    def test_one_that_is_over_is_told_to_the_model(self, daemon: Daemon, google: Google, model: Model) -> None:
        over = meeting(datetime(2024, 12, 3, 14, tzinfo=UTC))
        model.script([[over], [PLAN]])
        google.deliver(BOB, "Planning", "Could we meet on Monday at ten?")
        [item] = daemon.pending()
        [told] = model.calls("response")[1].tool_results
        assert told.startswith("Error: the time of the meeting is over, it is ")
        assert item["args"]["start_time"] == TEN.isoformat()
        refused = daemon.decide(item["id"], "edit", item["args"] | dict(over.args))
        assert refused.status_code == 422
        assert "the time of the meeting is over" in refused.text

    def test_one_at_night_is_marked_wherever_it_is_reviewed(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[meeting(TEN + 13 * HOUR)], [DONE]])
        google.deliver(BOB, "Planning", "Could we meet on Monday at eleven?")
        [item] = daemon.pending()
        said = "Look at the time: it is at night, 23:00 to 23:45"
        assert [(mark["kind"], mark["text"]) for mark in item["marks"]] == [("time", said)]
        assert said in daemon.http.get(f"/items/{item['id']}").text
        assert said in daemon.cli("inbox", "show", item["id"])
        assert said in str(daemon.http.get(f"/threads/{item['run']}").json())
        earlier = {"start_time": TEN.isoformat(), "end_time": (TEN + HOUR).isoformat()}
        daemon.answer(item, "edit", item["args"] | earlier)
        assert daemon.item(item["id"])["marks"] == []


class TestWhoseTimeItIs:
    @pytest.mark.parametrize(
        ("running", "expected"),
        [
            ({"busy_calendars": ""}, (["09:30-10:30 Dentist"], "09:00-09:30, 10:30-18:00", [ADA])),
            (
                {"busy_calendars": "Family, nobody's"},
                (
                    ["09:30-10:30 Dentist", "10:30-11:30 School"],
                    "09:00-09:30, 11:30-18:00",
                    [ADA, "family"],
                ),
            ),
        ],
        indirect=["running"],
    )
    def test_others_calendars_count_only_if_they_are_named(
        self,
        daemon: Daemon,
        google: Google,
        model: Model,
        expected: tuple[list[str], str, list[str]],
    ) -> None:
        conflicts, free, calendars = expected
        google.add_event("Dentist", TEN - HOUR / 2, TEN + HOUR / 2)
        google.add_event("School", TEN + HOUR / 2, TEN + HOUR * 1.5, calendar=google.add_calendar("family"))
        google.add_event("Trip", TEN, TEN + HOUR * 8, calendar=google.add_calendar("colleague"))
        model.script([[tool("check_calendar_tool", dates=["02-06-2031"])], [PLAN], [DONE]])
        google.deliver(BOB, "Planning", "Could we meet on Monday at ten?")
        [item] = daemon.pending()
        [told] = model.calls("response")[1].tool_results
        assert (item["conflicts"], item["calendars"]) == (conflicts, calendars)
        assert f"Free: {free}" in told.splitlines()
        assert f"Calendars that count: {', '.join(calendars)}" in told.splitlines()
        assert "Trip" not in told


INVITATION = """\
From: Bob <bob@example.org>
To: {to}
Subject: Invitation: Plan
Message-ID: <invitation@example.org>
MIME-Version: 1.0
Content-Type: text/calendar; method=REQUEST; charset=utf-8

BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VEVENT
UID:plan@example.org
DTSTART;TZID=America/New_York:20310602T040000
DTEND;TZID=America/New_York:20310602T050000
SUMMARY:Plan
ORGANIZER;CN=Bob:mailto:bob@example.org
END:VEVENT
END:VCALENDAR
"""


class TestInvitation:
    @pytest.mark.parametrize(
        ("answer", "line", "free", "conflicts"),
        [
            ("needsAction", "10:00-11:00 Plan (this invitation)", "09:00-09:30, 10:30-18:00", ["09:30-10:30 Dentist"]),
            ("accepted", "10:00-11:00 Plan", "09:00-09:30, 11:00-18:00", ["09:30-10:30 Dentist", "10:00-11:00 Plan"]),
        ],
    )
    def test_it_is_understood_and_stands_not_in_its_own_way(
        self,
        daemon: Daemon,
        google: Google,
        model: Model,
        answer: str,
        line: str,
        free: str,
        conflicts: list[str],
    ) -> None:
        me = {"email": ADA, "self": True, "responseStatus": answer}
        google.add_event("Plan", TEN, TEN + HOUR, iCalUID="plan@example.org", attendees=[me])
        google.add_event("Dentist", TEN - HOUR / 2, TEN + HOUR / 2)
        model.script([[tool("check_calendar_tool", dates=["02-06-2031"])], [PLAN], [DONE]])
        google.deliver_raw(INVITATION.format(to=ADA).replace("\n", "\r\n").encode())

        [item] = daemon.pending()
        first, second = model.calls("response")
        assert first.mail.headers["event"] == "Mon 2 Jun 2031 10:00 +0200 to Mon 2 Jun 2031 11:00 +0200"
        assert "organiser bob@example.org" in first.mail.text
        [calendar] = second.tool_results
        assert line in calendar.splitlines()
        assert f"Free: {free}" in calendar.splitlines()
        assert item["conflicts"] == conflicts


class TestWorkingHours:
    @pytest.mark.parametrize("running", [{"working_hours": "Mon,Wed 08:00-12:00"}], indirect=True)
    def test_they_are_a_setting(self, daemon: Daemon, google: Google, model: Model) -> None:
        days = [tool("check_calendar_tool", dates=["02-06-2031", "03-06-2031"])]
        model.script([days, [reply("Monday it is."), DONE]])
        google.deliver(BOB, "Planning", "Could we meet?")
        daemon.pending()
        [calendar] = model.calls("response")[1].tool_results
        assert [line for line in calendar.splitlines() if line.startswith("Free")] == [
            "Free: 08:00-12:00",
            "Free: nothing",
        ]

    def test_what_is_not_understood_is_said_in_one_line(self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(daemon.environment, "EMAIL_ASSISTANT_WORKING_HOURS", "nine to five")
        refused = daemon.run("status")
        assert refused.returncode != 0
        assert "EMAIL_ASSISTANT_WORKING_HOURS: takes hours" in " ".join(refused.stderr.split())


MEET = {"meet_links": True}


class TestMeet:
    @pytest.mark.parametrize(
        ("running", "possible"), [(MEET, True), (MEET, False), ({"meet_links": False}, True)], indirect=["running"]
    )
    def test_a_link_is_made_by_a_setting_and_told_only_if_there_is_one(
        self, running: shared.Program, daemon: Daemon, google: Google, model: Model, possible: bool
    ) -> None:
        wanted = running.settings["EMAIL_ASSISTANT_MEET_LINKS"] == "True"
        if not possible:
            google.fault("events.insert", status=400, reason="invalid")
        daemon.accept(propose(daemon, google, model))
        daemon.pending()
        [event] = google.events.values()
        [result] = model.calls("response")[1].tool_results
        assert ("hangoutLink" in event) == (wanted and possible)
        assert result.endswith(f" Video link: {event['hangoutLink']}" if wanted and possible else "T11:00:00+02:00.")
        assert "meet.sandbox.example" not in result or (wanted and possible)

    @pytest.mark.parametrize("running", [MEET], indirect=True)
    def test_a_lost_answer_makes_no_second_one(self, daemon: Daemon, google: Google, model: Model) -> None:
        google.fault("events.insert", drop="after")
        daemon.accept(propose(daemon, google, model))
        daemon.pending()
        [event] = google.events.values()
        assert model.calls("response")[1].tool_results[0].endswith(event["hangoutLink"])
        assert len(google.calls("events.insert")) == 1
