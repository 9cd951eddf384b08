"""Mail that would have the program answer for ever, or die over it for ever."""

import pytest

from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import DONE, reply

pytestmark = in_one_loop

AUTOMATIC = {"Auto-Submitted": "auto-replied"}
BULK = {"List-Unsubscribe": "<https://example.org/leave>", "Precedence": "bulk"}


@pytest.mark.parametrize("headers", [AUTOMATIC, BULK], ids=["automatic", "bulk"])
async def test_what_a_program_sends_is_shown_and_never_answered(
    home: Home, model: Model, headers: dict[str, str]
) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    await home.receive(headers=headers)
    [item] = await home.pending()
    assert item.kind == "notification"
    assert model.calls("response") == []


async def test_a_correspondent_is_answered_so_often_a_day(open_home: OpenHome, google: Google, model: Model) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    async with open_home(replies_per_day=2) as home:
        for _ in range(3):
            await home.receive()
            [item] = await home.pending()
            if item.kind == "draft":
                await home.answer(item, "accept")
        assert item.kind == "notification"
        assert len(google.sent) == 2
        await home.receive(from_="Carol <carol@example.org>")
        assert [item.kind for item in await home.pending()] == ["notification", "draft"]


async def test_a_mail_over_which_the_process_dies_is_set_aside(open_home: OpenHome, model: Model) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    async with open_home(max_tries=3) as home:
        bad = await home.receive()
        await home.sql("update mails set state = 'new', run_id = null, tries = 3")
        await home.sql("delete from runs")
        await home.carry_on()
        assert (await home.mail(bad)).state == "failed"
        assert "given up after 3 tries" in await home.reason(bad)
