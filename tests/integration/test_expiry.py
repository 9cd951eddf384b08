"""What nobody answers for very long is ignored by itself, if the person wants that."""

import httpx

from email_assistant.inbox.items import Item
from email_assistant.web.app import create_api
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import DONE, meeting, reply

SNOOZED = "update inbox_items set created_at = now() - interval '40 days', snoozed_until = now() - interval '1 day'"
LATER = "update inbox_items set created_at = created_at - make_interval(days => %s), snoozed_until = null"


async def wait(home: Home, days: int) -> None:
    await home.sql(LATER, days)
    await home.works.tidy()
    await home.carry_on()


async def page(home: Home, item: Item) -> str:
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        return " ".join((await http.get(f"/items/{item.id}")).text.split())


@in_one_loop
class TestExpiry:
    async def test_an_item_is_ignored_when_its_time_has_come_and_teaches_nothing(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        async with open_home(expire_days=30) as home:
            mail_id = await home.receive()
            await wait(home, 29)
            [item] = await home.pending()
            assert "dismissed by itself on" in await page(home, item)
            await wait(home, 2)

            closed = await home.item(item)
            assert "You have answered: dismissed, by itself, as it waited too long at" in await page(home, item)
            assert (closed.status, closed.decided_by) == ("applied", "expiry")
            assert (await home.mail(mail_id)).state == "done"
            await home.works.learn(home.account_id)
            assert model.calls("memory") == []
            assert google.sent == []

    async def test_the_time_of_a_snooze_does_not_count(self, open_home: OpenHome, model: Model) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        async with open_home(expire_days=30) as home:
            await home.receive()
            await home.sql(SNOOZED)
            await home.works.tidy()
            assert len(await home.pending()) == 1

    async def test_what_was_accepted_with_it_is_asked_again_and_has_its_full_time(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        model.script(lambda _: [reply("Friday is fine; an invitation follows."), meeting(), DONE])
        async with open_home(expire_days=30) as home:
            await home.receive()
            draft, invitation = sorted(await home.pending(), key=lambda item: item.kind)
            await home.decide(draft, "accept")
            await wait(home, 31)
            assert (await home.item(invitation)).decided_by == "expiry"
            again = await home.item(draft)
            assert again.status == "pending"
            assert again.asked_because == (
                "you had approved it, and then the meeting was dismissed by itself, as it waited too long"
            )
            await home.works.tidy()
            await home.carry_on()
            assert (await home.item(draft)).status == "pending"
            assert google.sent == []

    async def test_what_may_have_happened_is_never_taken_away(self, open_home: OpenHome, model: Model) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        async with open_home(expire_days=30) as home:
            await home.receive()
            await home.sql("update inbox_items set kind = 'in_doubt', allowed = '{accept,ignore}'")
            await wait(home, 40)
            assert [item.kind for item in await home.pending()] == ["in_doubt"]

    async def test_unless_it_is_wanted_nothing_is_closed(self, home: Home, model: Model) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        await home.receive()
        await wait(home, 4000)
        [item] = await home.pending()
        assert "dismissed by itself on" not in await page(home, item)
