"""Long letters on their whole way: what the model is shown of them, and what the person is."""

import re

import pytest

from tests.benchmark.tokens import count_tokens
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import DONE, reply

pytestmark = in_one_loop

REQUEST = "Could you send me the signed lease by Friday?"
FILLER = "The garden was late this year, and we took the old road over the hill. "
ITS = "これは庭の話です。古い道で丘を越えました。"
DISCLAIMER = (
    "\n\nThis e-mail is confidential and intended only for the addressee. If you have received it in error, notify the "
    "sender and delete this message; any copying is prohibited."
)


@pytest.mark.parametrize(
    "text",
    [
        f"Hello Ada. {FILLER * 250}{REQUEST} {FILLER * 20}",
        f"Hello Ada. {(FILLER * 250).replace('. ', ', ')}{REQUEST}{DISCLAIMER}",
        f"Hello Ada. {ITS * 900}{REQUEST} {ITS * 80}",
    ],
    ids=["ordinary", "one sentence, and a disclaimer", "a script of many tokens"],
)
async def test_what_it_asks_at_its_end_is_seen_by_triage_by_the_drafter_and_by_the_person(
    home: Home, model: Model, text: str
) -> None:
    model.script([[reply("On Thursday."), DONE]])
    await home.receive("News", text)
    [triage], [drafting] = model.calls("triage"), model.calls("response")
    for request, most in ((triage, 1400), (drafting, 3000)):
        shown = request.mail.text
        assert REQUEST in shown
        assert shown.startswith("Hello Ada.")
        assert re.search(r"\[… \d+ characters cut …\]", shown)
        assert count_tokens(shown) <= most
    [item] = await home.pending()
    assert REQUEST in item.description
    assert "Hello Ada." in item.description


async def test_all_of_a_long_conversation_fits_into_the_prompt(home: Home, google: Google, model: Model) -> None:
    model.on_triage("notify")
    first = await home.receive("News", FILLER * 200)
    for _ in range(4):
        await home.receive("Re: News", FILLER * 200, thread=first)
    model.on_triage("respond")
    model.script([[reply("On Thursday."), DONE]])
    await home.receive("Re: News", f"{FILLER * 200}{REQUEST}", thread=first)
    [drafting] = model.calls("response")
    assert len(drafting.mails) == 6
    assert REQUEST in drafting.mails[-1].text
    assert sum(count_tokens(mail.text) for mail in drafting.mails) <= 3000
