"""Long letters on their whole way: what the model is shown of them, and what the person is."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.benchmark.tokens import count_tokens
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, in_one_loop, until
from tests.integration.scene import BOB, DONE, reply

pytestmark = in_one_loop

REQUEST = "Could you send me the signed lease by Friday?"
MOST_HELD = 0.2
"""Seconds of the processor."""
SECONDS_OF_THE_LONGEST = 600.0
"""Of the clock, on a machine with other work: the double of Google reads its megabytes in this process, too."""
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


async def test_what_the_model_is_shown_of_its_end_is_a_source_of_the_gates(home: Home, model: Model) -> None:
    end = "The rent is 1,234.56 € from 3 May 2031 on, and Jolanthe Brettschneider will bring the keys. Is that fine?"
    text = (
        f"Hello Ada. {FILLER * 2000}{end}\n\nOn Mon, 5 May 2031, Ada wrote:\n" + "> We have not met for ages.\n" * 5000
    )
    model.script([[reply("1,234.56 € from 3 May on is fine; I will pay 99 € to Jolanthe Brettschneider."), DONE]])
    await home.receive("News", text)
    assert end in model.calls("response")[0].mail.text
    [item] = await home.pending()
    assert [doubt["value"] for doubt in item.kept_doubts] == ["99 €"]


@pytest.mark.parametrize(
    "piece", [".", "<", "@", "(", ">", "7", " ", "a", "\n", "word ", "a@b.c ", "<p>x", "> a\n", "https://a.example/b "]
)
async def test_four_megabytes_hold_up_nobody(
    home: Home, google: Google, model: Model, tmp_path: Path, piece: str
) -> None:
    """Both texts of the mail are of that; another mailbox's mail is worked on meanwhile."""
    carl = google.another("carl@example.org", "Europe/Berlin")
    token = json.loads(carl.write_token_file(tmp_path / "carl.json").read_text())
    await home.app.accounts.add(home.app.user_id, carl.address, token, datetime.now(UTC) - timedelta(days=2))
    model.script([[reply("On Thursday."), DONE]] * 2)
    long = piece * (4_000_000 // len(piece))
    ticks = Ticks()
    async with home.at_work(), ticks.counted():
        await asyncio.to_thread(google.deliver, BOB, "Long", f"Hello Ada.\n{long}", html=f"<p>Hello Ada.</p>{long}")
        carl.deliver(BOB, "Short", "Does Friday suit you?")
        await until(lambda: both_wait(home), SECONDS_OF_THE_LONGEST)
        for item in await home.pending():
            await home.decide(item, "accept")
        await until(lambda: google.sent and carl.sent)
    assert ticks.longest <= MOST_HELD


async def both_wait(home: Home) -> bool:
    return len(await home.pending()) == 2


class Ticks:
    """How long the event loop's thread is held by one thing, in seconds of the processor."""

    def __init__(self) -> None:
        self.longest = 0.0

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        counting = asyncio.create_task(self._count())
        try:
            yield
        finally:
            counting.cancel()

    async def _count(self) -> None:
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.thread_time() - begun)
