"""What happened to a mail, what a decision may rest on, what a correction does, and the days' figures, over the API."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio

from email_assistant.inbox.items import NoItem
from email_assistant.trail.story import Trail
from email_assistant.web.app import create_api
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import ADA, BERLIN, BOB, DONE, reply

LEARNED = {"action": "add", "text": "Sign with Ada.", "reason": "the edit adds it"}


@pytest_asyncio.fixture(loop_scope="module")
async def http(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def told(http: httpx.AsyncClient, mail_id: str) -> list[dict[str, Any]]:
    answer = await http.get(f"/api/mails/{mail_id}/trail")
    assert answer.status_code == 200, answer.text
    story: list[dict[str, Any]] = answer.json()["events"]
    times = [datetime.fromisoformat(event["at"]) for event in story]
    assert times == sorted(times)
    return story


async def learn(home: Home) -> None:
    await home.works.learn(home.account_id)


@in_one_loop
class TestTrail:
    async def test_an_edited_reply_is_told_from_its_coming_to_what_was_learned(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        model.on_memory(LEARNED)
        mail_id = await home.receive()
        [item] = await home.pending()
        await home.answer(item, "edit", {**item.args, "response_text": "Friday is fine. Ada"})
        await learn(home)

        story = await told(http, mail_id)

        assert [event["what"] for event in story] == [
            *("received", "started", "classified", "proposed", "decided", "applied", "sent", "finished", "learned")
        ]
        by_name = {event["what"]: event for event in story}
        assert by_name["classified"]["detail"]["classification"] == "respond"
        assert by_name["classified"]["detail"]["reason"] in by_name["classified"]["text"]
        assert by_name["proposed"]["detail"]["args"]["response_text"] == "Friday is fine."
        assert (by_name["decided"]["by"], by_name["decided"]["item"]) == ("test", str(item.id))
        assert by_name["decided"]["detail"]["changes"] == {
            "response_text": {"before": "Friday is fine.", "after": "Friday is fine. Ada"}
        }
        assert by_name["sent"]["detail"]["external_id"] == google.sent[0].id
        assert by_name["learned"]["detail"]["rule"] == "Sign with Ada."
        assert by_name["learned"]["item"] == str(item.id)
        facts = (await http.get(f"/api/mails/{mail_id}/trail")).json()["facts"]
        assert any(by_name["started"]["run"] in fact for fact in facts)
        assert any("stub-model was asked" in fact for fact in facts)
        assert by_name["started"]["detail"]["calls"] == 3
        assert by_name["started"]["detail"]["tokens"] > 0

    async def test_newer_mail_supersedes_and_a_failure_is_told_and_tried_again(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        first = await home.receive()
        await home.receive("Re: Lunch?", "Or Monday?", thread=first)

        whats = [event["what"] for event in await told(http, first)]

        assert whats.count("superseded") == 2  # the item, and the run that it was of
        assert whats.count("started") == 2
        assert whats.count("proposed") == 2
        model.fault("response", status=400, times=1)
        failing = await home.receive("Broken", from_="Eve <eve@example.net>")
        [failed] = [event for event in await told(http, failing) if event["what"] == "failed"]
        assert failed["detail"]["reason"] in failed["text"]
        assert (await http.post(f"/api/mails/{failing}/retry")).status_code == 200
        await home.carry_on()
        assert [event["what"] for event in await told(http, failing)][-2:] == ["retried", "proposed"]

    @pytest.mark.parametrize("of", ["mail", "its beginning", "message id", "item", "run"])
    async def test_it_is_found_by_every_id_that_is_shown(
        self, home: Home, google: Google, model: Model, of: str
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        mail_id = await home.receive()
        await home.receive("Elsewhere", from_="Eve <eve@example.net>")
        [item] = [item for item in await home.pending() if item.mail_id == mail_id]
        named = {
            "mail": mail_id,
            "its beginning": mail_id,
            "message id": google.message(mail_id).message_id,
            "item": str(item.id)[:8],
            "run": str(item.run_id)[:8],
        }[of]
        trail = Trail(home.app.pool, home.app.memory)
        assert await trail.find(home.app.user_id, named) == (mail_id, ADA)
        with pytest.raises(NoItem):
            await trail.find(home.app.user_id, "")
        with pytest.raises(NoItem):
            await trail.find(home.app.user_id, "nothing")

    async def test_a_rule_that_decided_is_named_with_its_origin_and_what_was_said_of_habits(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.on_triage("notify")
        first = await home.receive()
        await home.app.corrections.correct(home.app.user_id, first, "ignore", "cli")
        await home.carry_on()
        await learn(home)
        second = await home.receive("Again")
        story = await told(http, second)
        [rule] = [event for event in story if event["what"] == "went by"]
        assert "bob@example.org" in rule["text"]
        assert "From bob@example.org" in rule["text"]
        await home.sql(
            """update judgements set thought = 'ignore', confidence = 0.9, decided = true, truth = 'respond',
               known_by = 'corrected' where mail_id = %s""",
            second,
        )
        [judged] = [event for event in await told(http, second) if event["what"] == "judged"]
        assert "took it for ignore (90% sure), and may decide that by themselves" in judged["text"]
        assert "It turned out to be respond (corrected)." in judged["text"]

    async def test_no_such_mail_and_another_users(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        assert (await http.get("/api/mails/nothing/trail")).status_code == 404
        model.on_triage("ignore")
        mail_id = await home.receive()
        [row] = await home.sql("insert into users (name) values ('other') returning id")
        with pytest.raises(NoItem):
            await home.app.mails.get(row["id"], mail_id)
        with pytest.raises(NoItem):
            await home.app.corrections.correct(row["id"], mail_id, "respond", "test")


@in_one_loop
class TestContext:
    async def test_it_shows_the_conversation_the_reason_and_what_was_decided_before(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        model.on_memory(LEARNED)
        for number in range(6):
            await home.receive(f"Earlier {number}")
            [item] = await home.pending()
            await home.answer(
                item, "ignore" if number else "edit", None if number else {**item.args, "response_text": "!"}
            )
        await home.receive("Elsewhere", from_="Eve <eve@example.net>")
        await learn(home)
        await home.receive("Plan", "Where?", html="<p>Where<script>x()</script>?</p>")
        [item] = [item for item in await home.pending() if item.subject == "Plan"]

        found = (await http.get(f"/api/inbox/{item.id}/context")).json()

        [letter] = found["conversation"]
        assert (letter["sender"], letter["name"], letter["own"]) == ("bob@example.org", "Bob Berg", False)
        assert "Where" in letter["text"]
        assert "x()" not in letter["text"]
        assert letter["recipients"] == [ADA]
        assert found["triage"]["classification"] == "respond"
        assert found["triage"]["reason"]
        assert [each["subject"] for each in found["before"]] == [f"Earlier {number}" for number in (5, 4, 3, 2, 1)]
        assert {each["decision"] for each in found["before"]} == {"ignore"}
        rules = [rule["text"] for profile in found["rules"].values() for rule in profile]
        assert "Sign with Ada." in rules

    async def test_another_part_of_the_same_proposal_was_not_decided_before(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Fine."), reply("Also fine.", email_address="eve@example.net"), DONE])
        await home.receive()
        first, second = await home.pending()
        await home.decide(first, "accept")
        assert (await http.get(f"/api/inbox/{second.id}/context")).json()["before"] == []

    async def test_the_accounts_own_mail_is_marked(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        first = await home.receive()
        [item] = await home.pending()
        await home.answer(item, "accept")
        await home.receive("Re: Lunch?", "And where?", thread=first)
        [item] = await home.pending()
        found = (await http.get(f"/api/inbox/{item.id}/context")).json()
        assert [letter["own"] for letter in found["conversation"]] == [False, True, False]


@in_one_loop
class TestCorrection:
    async def rules(self, home: Home, http: httpx.AsyncClient) -> list[str]:
        await learn(home)
        memory = (await http.get("/api/memory", params={"account": ADA})).json()
        return [rule["text"] for rule in memory["profiles"]["triage_preferences"]]

    async def correct(self, http: httpx.AsyncClient, mail_id: str, classification: str) -> httpx.Response:
        return await http.post(f"/api/mails/{mail_id}/correct", json={"classification": classification})

    async def test_an_ignored_mail_is_answered_after_all(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.on_triage("ignore")
        model.script(lambda _: [reply("Fine."), DONE])
        mail_id = await home.receive()
        assert await home.pending() == []

        answer = await self.correct(http, mail_id, "respond")

        assert answer.status_code == 200, answer.text
        assert answer.json()["classification"] == "respond"
        await home.carry_on()
        [item] = await home.pending()
        assert (item.kind, item.mail_id) == ("draft", mail_id)
        assert len(model.calls("triage")) == 1  # the model is not asked again
        assert await self.rules(home, http) == ["Mail from bob@example.org is to be answered (respond)."]
        story = await told(http, mail_id)
        [corrected] = [event for event in story if event["what"] == "corrected"]
        assert (corrected["by"], corrected["detail"]) == ("api", {"was": "ignore", "classification": "respond"})
        [classified] = [event for event in story if event["what"] == "classified"]
        assert classified["detail"]["classification"] == "ignore"
        assert [event["what"] for event in story][-3:] == ["retried", "proposed", "learned"]

    async def test_what_waited_is_superseded(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        mail_id = await home.receive()
        [item] = await home.pending()

        assert (await self.correct(http, mail_id, "ignore")).status_code == 200
        await home.carry_on()

        assert (await home.item(item)).status == "superseded"
        assert (await home.mail(mail_id)).state == "done"
        assert await home.pending() == []
        assert (await self.correct(http, mail_id, "notify")).status_code == 200
        await home.carry_on()
        [item] = await home.pending()
        assert item.kind == "notification"
        assert google.sent == []
        assert await self.rules(home, http) == ["Mail from bob@example.org is to be shown, not answered (notify)."]

    async def test_other_mail_of_the_conversation_is_not_lost(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        first = await home.receive()
        second = await home.receive("Re: Lunch?", "Or Monday?", thread=first)

        assert (await self.correct(http, second, "ignore")).status_code == 200
        await home.carry_on()

        [item] = await home.pending()
        assert item.mail_id == first
        assert (await home.mail(second)).state == "done"

    async def test_a_taken_answer_is_not_overturned(self, open_home: Any, google: Google, model: Model) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        async with open_home(undo_seconds=60) as home:
            mail_id = await home.receive()
            [item] = await home.pending()
            await home.decide(item, "accept")
            transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                refused = await self.correct(http, mail_id, "ignore")
                assert refused.status_code == 409
                assert await self.rules(home, http) == []
            assert (await home.item(item)).status == "decided"

    async def test_what_can_not_be_corrected(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.on_triage("ignore")
        mail_id = await home.receive()
        old = await home.receive("Old", "From long ago", age=timedelta(days=5))
        assert (await self.correct(http, mail_id, "ignore")).status_code == 409
        assert (await self.correct(http, old, "respond")).status_code == 409  # it came before the account did
        assert (await self.correct(http, "nothing", "ignore")).status_code == 404
        assert (await self.correct(http, mail_id, "junk")).status_code == 422
        await home.sql("update threads set lease_until = clock_timestamp() + interval '1 minute'")
        refused = await self.correct(http, mail_id, "respond")
        assert refused.status_code == 409
        assert "being worked on" in refused.json()["detail"]
        assert await self.rules(home, http) == []


@in_one_loop
class TestActivity:
    async def test_the_days_tell_what_came_and_what_was_done(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.on_triage(lambda request: {"News": "ignore", "Notice": "notify"}.get(request.mail.subject, "respond"))
        model.script(lambda _: [reply("Fine."), DONE])
        for subject in ("News", "Notice", "One", "Two"):
            await home.receive(subject)
        by_subject = {item.subject: item for item in await home.pending()}
        await home.sql("update inbox_items set created_at = created_at - interval '100 seconds'")
        await home.answer(by_subject["One"], "accept")
        await home.answer(by_subject["Two"], "edit", {**by_subject["Two"].args, "response_text": "No."})
        await home.answer(by_subject["Notice"], "ignore")

        days = (await http.get("/api/activity", params={"days": 3})).json()["days"]

        today = datetime.now(BERLIN).date()
        assert [day["day"] for day in days] == [str(today - timedelta(days=back)) for back in (2, 1, 0)]
        last = days[-1]
        assert (last["mails"], last["ignore"], last["notify"], last["respond"]) == (4, 1, 1, 2)
        assert (last["decided"], last["proposals"], last["accepted_unchanged"]) == (3, 2, 0.5)
        assert 100 <= last["median_seconds"] < 200
        assert last["model_calls"] == len(model.calls()) - len(model.calls("memory"))
        assert last["prompt_tokens"] > 0
        assert (days[0]["mails"], days[0]["median_seconds"], days[0]["accepted_unchanged"]) == (0, None, None)

    async def test_a_day_begins_at_the_accounts_own_midnight(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.on_triage("ignore")
        await home.receive()
        midnight = datetime.now(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)
        for moved, expected in ((midnight, [0, 1]), (midnight - timedelta(seconds=1), [1, 0])):
            await home.sql("update mails set received_at = %s", moved)
            days = (await http.get("/api/activity", params={"days": 2, "account": ADA})).json()["days"]
            assert [day["mails"] for day in days] == expected

    async def test_what_is_no_number_of_days_is_refused(self, http: httpx.AsyncClient) -> None:
        for days in ("0", "-1", "367", "x"):
            assert (await http.get("/api/activity", params={"days": days})).status_code == 422
        assert (await http.get("/api/activity", params={"account": "nobody@example.com"})).status_code == 404


def test_the_command_line_corrects_and_tells(start: Start, google: Google, model: Model) -> None:
    model.on_triage("ignore")
    model.script(lambda _: [reply("Fine."), DONE])
    daemon = start()
    mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    daemon.until_done(mail_id)

    daemon.cli("mails", "correct", mail_id, "respond")

    daemon.wait_for(lambda: daemon.rules("triage_preferences"), "a rule is learned")
    assert daemon.rules("triage_preferences") == ["Mail from bob@example.org is to be answered (respond)."]
    [item] = daemon.pending()
    assert item["mail_id"] == mail_id
    whats = [event["what"] for event in daemon.cli("why", mail_id, "--json")["events"]]
    assert whats[0] == "received"
    assert {"corrected", "retried", "proposed", "learned"} <= set(whats)
    assert "You corrected it from “needs nothing” to “needs an answer”." in daemon.cli("why", mail_id)
    assert daemon.run("mails", "correct", mail_id, "junk").returncode == 1
    assert daemon.run("mails", "nonsense").returncode == 2
    assert daemon.cli("mails", "--json")["items"][0]["classification"] == "respond"
