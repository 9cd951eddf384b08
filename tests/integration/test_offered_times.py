"""A letter that offers times is looked at again when it goes out: what was free when it was written may be taken."""

from datetime import datetime, timedelta

import pytest

from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import BERLIN, DONE, meeting, reply

TUESDAY = datetime(2031, 6, 3, 15, tzinfo=BERLIN)
LOOK = tool("check_calendar_tool", dates=["03-06-2031", "04-06-2031"])
TAKEN = "your calendar has changed since this was written, and what it offers is taken: Tuesday 15:00-16:00 Dentist"


def dentist(google: Google, hours: int = 0) -> str:
    at = TUESDAY + timedelta(hours=hours)
    return google.add_event("Dentist", at, at + timedelta(hours=1))


@in_one_loop
class TestALetterThatOffersATime:
    @pytest.mark.parametrize(
        "text",
        [
            "I am free on Tuesday 3 June 2031 at 3 pm.",
            "Passt Ihnen Dienstag, der 3. Juni 2031, 15:30 Uhr?",
            "On 3 June 2031 I have time between 2 pm and 5 pm.",
            "I am free on Tuesday 3 June 2031 at three.",
            "Passt Ihnen Dienstag, der 3. Juni 2031, um halb vier?",
        ],
    )
    async def test_that_is_taken_by_now_is_asked_about_again_and_goes_if_they_say_so(
        self, home: Home, google: Google, model: Model, text: str
    ) -> None:
        model.script([[LOOK], [reply(text)], [DONE]])
        await home.receive("When do you have time?")
        [item] = await home.pending()
        dentist(google)
        await home.answer(item, "accept")

        assert google.sent == []
        [again] = await home.pending()
        assert (again.asked_because, again.asked) == (TAKEN, 2)
        await home.answer(again, "accept")
        assert len(google.sent) == 1

    @pytest.mark.parametrize("hours", [-3, 1, 24])
    async def test_that_is_still_free_goes_out(self, home: Home, google: Google, model: Model, hours: int) -> None:
        model.script([[LOOK], [reply("I am free on Tuesday 3 June 2031 at 3 pm.")], [DONE]])
        await home.receive("When do you have time?")
        [item] = await home.pending()
        dentist(google, hours)
        await home.answer(item, "accept")
        assert len(google.sent) == 1

    async def test_that_was_taken_when_it_was_written_is_no_claim(
        self, home: Home, google: Google, model: Model
    ) -> None:
        dentist(google)
        model.script([[LOOK], [reply("I am at the dentist on Tuesday 3 June 2031 at 3 pm.")], [DONE]])
        await home.receive("When do you have time?")
        [item] = await home.pending()
        await home.answer(item, "accept")
        assert len(google.sent) == 1

    async def test_that_its_own_meeting_takes_goes_out(self, home: Home, google: Google, model: Model) -> None:
        model.script([[LOOK], [meeting(TUESDAY), reply("Tuesday 3 June 2031 at 3 pm is booked.")], [DONE]])
        await home.receive("When do you have time?")
        for item in await home.pending():
            await home.decide(item, "accept")
        await home.carry_on()
        assert len(google.sent) == 1
