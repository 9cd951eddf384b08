"""Free time on a day: what takes it, when the clocks change, and which hours count."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from email_assistant.google.calendar import Event
from email_assistant.settings import Settings
from email_assistant.settings.values import WorkingHours
from email_assistant.tools.check_calendar import free_slots, told
from email_assistant.tools.offered_times import days_named
from email_assistant.tools.times import time_warnings

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = date(2031, 6, 2)
SPRING, AUTUMN = date(2031, 3, 30), date(2031, 10, 26)
"""Sundays of 23 and of 25 hours in Berlin."""


def event(start: datetime | date, end: datetime | date, **more: Any) -> Event:
    fields: dict[str, Any] = {
        "id": "e1",
        "uid": "e1@example.org",
        "summary": "Tea",
        "start": start,
        "end": end,
        "all_day": not isinstance(start, datetime),
        "attendees": (),
        "busy": True,
        "tentative": False,
        "link": None,
        "meet_link": None,
    }
    return Event(**fields | more)


def at(day: date, hour: int, minute: int = 0, *, zone: ZoneInfo = BERLIN, fold: int = 0) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone, fold=fold)


def free(day: date, *events: Event, hours: str = "09:00-18:00") -> list[str]:
    slots = free_slots(day, events, BERLIN, WorkingHours.parse(hours))
    return [f"{begin:%H:%M}-{end:%H:%M}" for begin, end in slots]


class TestWhatTakesTime:
    def test_events_and_their_overlaps(self) -> None:
        assert free(
            MONDAY,
            event(at(MONDAY, 15), at(MONDAY, 16)),
            event(at(MONDAY, 10), at(MONDAY, 12)),
            event(at(MONDAY, 11), at(MONDAY, 11, 30)),
            event(at(MONDAY, 17), at(MONDAY, 19)),
        ) == ["09:00-10:00", "12:00-15:00", "16:00-17:00"]

    def test_whole_days_only_where_they_block(self) -> None:
        trip = event(MONDAY, MONDAY + timedelta(days=1))
        assert free(MONDAY, trip) == []
        assert free(MONDAY + timedelta(days=1), trip) == ["09:00-18:00"]

    def test_what_is_marked_as_free_or_declined_takes_none(self) -> None:
        assert free(MONDAY, event(at(MONDAY, 10), at(MONDAY, 12), busy=False)) == ["09:00-18:00"]

    def test_a_night_takes_the_hours_it_reaches_into(self) -> None:
        evening = MONDAY - timedelta(days=1)
        night = event(at(evening, 22), at(MONDAY, 10))
        assert free(MONDAY, night) == ["10:00-18:00"]
        assert told(night, BERLIN) == "01-06 22:00-02-06 10:00 Tea"

    def test_an_event_keeps_its_own_timezone(self) -> None:
        tokyo = ZoneInfo("Asia/Tokyo")
        abroad = event(at(MONDAY, 17, zone=tokyo), at(MONDAY, 18, zone=tokyo))
        assert free(MONDAY, abroad) == ["09:00-10:00", "11:00-18:00"]
        assert told(abroad, BERLIN) == "10:00-11:00 Tea"

    def test_what_has_no_title_is_told_as_what_is_known_of_it(self) -> None:
        assert told(event(at(MONDAY, 10), at(MONDAY, 11), summary=""), BERLIN) == "10:00-11:00 busy"
        assert told(event(MONDAY, MONDAY + timedelta(days=1), summary="", busy=False), BERLIN) == "all day no title"


class TestClocksThatChange:
    def test_in_spring_the_hour_that_is_left_out_is_no_free_time(self) -> None:
        early = event(datetime(2031, 3, 30, 0, 30, tzinfo=UTC), datetime(2031, 3, 30, 1, 30, tzinfo=UTC))
        assert told(early, BERLIN) == "01:30-03:30 Tea"
        assert free(SPRING, early, hours="00:00-06:00") == ["00:00-01:30", "03:30-06:00"]

    def test_in_autumn_the_hour_that_comes_twice_is_told_apart(self) -> None:
        """From 02:45 the first time until 02:15 the second time: half an hour, though a clock shows less than none."""
        twice = event(at(AUTUMN, 2, 45), at(AUTUMN, 2, 15, fold=1))
        assert free(AUTUMN, twice, hours="00:00-06:00") == ["00:00-02:45", "02:15-06:00"]
        after = event(at(AUTUMN, 2, 15, fold=1), at(AUTUMN, 4))
        assert free(AUTUMN, after, twice, hours="00:00-06:00") == ["00:00-02:45", "04:00-06:00"]
        assert twice.overlaps(at(AUTUMN, 2, 50), at(AUTUMN, 2, 10, fold=1), BERLIN)
        assert not twice.overlaps(at(AUTUMN, 2, 20, fold=1), at(AUTUMN, 3), BERLIN)

    @pytest.mark.parametrize("day", [SPRING, AUTUMN])
    def test_a_whole_day_is_one(self, day: date) -> None:
        whole = event(day, day + timedelta(days=1))
        assert free(day, whole, hours="00:00-23:59") == []
        assert free(day - timedelta(days=1), whole, hours="00:00-23:59") == ["00:00-23:59"]
        assert free(day + timedelta(days=1), whole, hours="00:00-23:59") == ["00:00-23:59"]


class TestWorkingHours:
    @pytest.mark.parametrize(
        ("text", "days"),
        [
            ("08:30-17:00", "0123456"),
            ("Mon-Fri 08:30-17:00", "01234"),
            ("Mon-Thu,Sat 08:30-17:00", "01235"),
            ("sun-thu 08:30-17:00", "01236"),
            ("WED 08:30-17:00", "2"),
        ],
    )
    def test_days_and_hours(self, text: str, days: str) -> None:
        begins = [free(MONDAY + timedelta(days=n), hours=text) for n in range(7)]
        assert begins == [["08:30-17:00"] if str(n) in days else [] for n in range(7)]

    @pytest.mark.parametrize(
        "text",
        [
            "nine to five",
            "9-17",
            "18:00-09:00",
            "09:00-09:00",
            "Mo-Fr 09:00-18:00",
            "09:00-25:00",
            "Mon Fri 09:00-18:00",
        ],
    )
    def test_what_is_not_understood_is_refused_at_start(self, text: str) -> None:
        with pytest.raises(ValidationError, match="takes hours, such as 09:00-18:00"):
            Settings(working_hours=text)


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("2031-06-02T10:00", "2031-06-02T11:00", []),
        ("2031-06-02T19:00", "2031-06-02T21:30", []),
        ("2031-06-02T23:00", "2031-06-02T23:30", ["it is at night, 23:00 to 23:30"]),
        ("2031-06-02T21:30", "2031-06-02T22:30", ["it is at night, 21:30 to 22:30"]),
        ("2031-06-03T05:30", "2031-06-03T06:15", ["it is at night, 05:30 to 06:15"]),
        ("2031-06-02T23:00-04:00", "2031-06-02T23:30-04:00", ["it is at night, 05:00 to 05:30"]),
        ("2031-06-07T10:00", "2031-06-07T11:00", ["it is on a day off, Saturday"]),
        ("2031-06-07T23:00", "2031-06-08T00:30", ["it is on a day off, Saturday", "it is at night, 23:00 to 00:30"]),
        ("2031-06-02T10:00", "2031-06-03T10:01", ["it lasts more than a day"]),
        ("2031-06-07", "2031-06-14", []),
        ("2024-12-03T14:00", "2024-12-03T14:30", ["it is over already"]),
        ("2024-12-03", "2024-12-04", ["it is over already"]),
        ("2031-05-30T11:30", "2031-05-30T12:30", ["it has begun already"]),
        ("2031-06-07T10:00", "", ["it is on a day off, Saturday"]),
        ("", "", []),
        ("soon", "later", []),
    ],
)
@pytest.mark.parametrize("names", [("start_time", "end_time"), ("start", "end")])
def test_what_is_unusual_of_a_time_is_said(names: tuple[str, str], start: str, end: str, said: list[str]) -> None:
    arguments = {"title": "Plan", **dict(zip(names, (start, end), strict=True))}
    noon = datetime(2031, 5, 30, 12, tzinfo=BERLIN)
    assert list(time_warnings(arguments, BERLIN, WorkingHours.parse("Mon-Fri 09:00-18:00"), noon)) == said


def test_nothing_is_unusual_within_the_hours_that_one_works() -> None:
    early = {"start": "2031-06-03T05:00", "end": "2031-06-03T06:00"}
    noon = datetime(2031, 5, 30, 12, tzinfo=BERLIN)
    assert not [*time_warnings(early, BERLIN, WorkingHours.parse("05:00-13:00"), noon)]


@pytest.mark.parametrize(
    ("letter", "mail", "days"),
    [
        ("Tuesday at 3 pm works.", "When could we meet?", [date(2031, 6, 3)]),
        ("Tuesday does not work, but 5 June at 10:00 does.", "", [date(2031, 6, 3), date(2031, 6, 5)]),
        ("3 pm is fine.", "Could we meet on Wednesday at 3 pm?", [date(2031, 6, 4)]),
        ("I am afraid I can't.", "Could we meet on Wednesday at 3 pm?", [date(2031, 6, 4)]),
        ("I send it on Friday.", "Could you send it?", []),
        ("It was on 30 May at 10:00.", "", []),
        ("2 July, 3 July, 4 July or 5 July at 9:00?", "", [date(2031, 7, day) for day in (2, 3, 4)]),
        ("Thanks!", "", []),
    ],
)
def test_the_days_of_the_times_that_a_letter_is_about(letter: str, mail: str, days: list[date]) -> None:
    assert days_named(letter, mail, MONDAY) == days
