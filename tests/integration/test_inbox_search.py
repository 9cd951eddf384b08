"""Finding, ordering, counting, snoozing and answering many items, over the API."""

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from email_assistant.inbox.items import NoItem
from email_assistant.inbox.listing import matches
from email_assistant.tools.spec import NO_CONFLICTS
from email_assistant.web.app import create_api
from tests.doubles.model import Model, tool
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import DONE, meeting, reply

Found = dict[str, Any]


@pytest_asyncio.fixture(loop_scope="module")
async def http(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def listed(http: httpx.AsyncClient, **query: object) -> list[str]:
    """Subjects of all items that a listing holds, page by page."""
    subjects: list[str] = []
    cursor: str | None = None
    while True:
        given = {name: str(value) for name, value in query.items()} | ({"cursor": cursor} if cursor else {})
        answer = await http.get("/api/inbox", params=given)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        subjects += [item["subject"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            return subjects


async def item_on(home: Home, subject: str) -> UUID:
    [found] = [item.id for item in await home.items() if item.subject == subject]
    return found


async def age(home: Home, subject: str, days: int) -> None:
    await home.sql(
        "update inbox_items set created_at = created_at - make_interval(days => %s) where id = %s",
        days,
        await item_on(home, subject),
    )


def cursor(holds: str) -> str:
    return base64.urlsafe_b64encode(holds.encode()).decode()


@in_one_loop
class TestSearch:
    async def three(self, home: Home, model: Model) -> None:
        model.script(lambda request: [reply(f"Thanks for {request.mail.subject}, Zoë."), DONE])
        await home.receive("Lunch?", "Does Friday suit you? Bring the umbrella.")
        await home.receive("Invoice 2041", "The amount is 300 euros.", from_="Fjord Billing <pay@fjord-power.example>")
        await home.receive("Café at o'clock", "It's 50% off \\ really; see {x}.", from_="O'Neil <o.neil@pub.example>")

    @pytest.mark.parametrize(
        ("typed", "expected"),
        [
            ("umbrella", ["Lunch?"]),  # the mail's text
            ("UMBRELLA friday", ["Lunch?"]),
            ("umbrella euros", []),  # all terms must be there
            ("invoice", ["Invoice 2041"]),  # the subject
            ("billing", ["Invoice 2041"]),  # the sender's name
            ("zoë", ["Lunch?", "Invoice 2041", "Café at o'clock"]),  # the proposal
            ("café", ["Café at o'clock"]),
            ("pay@fjord-power.example", ["Invoice 2041"]),
            ("ORD-POW", ["Invoice 2041"]),  # any part of an address
            ("neil@pu", ["Café at o'clock"]),
            ('"amount is 300"', ["Invoice 2041"]),
            ('"is amount 300"', []),
            ("umbrell", []),  # words as a whole
            ("nosuchword", []),
            ("umbrella -> -- {}", ["Lunch?"]),  # signs alone are no words
            ("   ", ["Lunch?", "Invoice 2041", "Café at o'clock"]),
        ],
    )
    async def test_it_finds_what_the_item_shows(
        self, home: Home, model: Model, http: httpx.AsyncClient, typed: str, expected: list[str]
    ) -> None:
        await self.three(home, model)
        assert await listed(http, q=typed) == expected

    async def test_nothing_that_can_be_typed_fails(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await self.three(home, model)
        odd = [
            "'",
            '"',
            "\\",
            "a' & b",
            "!",
            "| & ! ( ) :* <->",
            "%",
            "_",
            "\x00",
            "x:*",
            "''",
            "\u202e",
            "🙂",
            "@",
            "a@",
        ]
        for typed in [*odd, "x " * 200, "y" * 500, '"""', "*", "-umbrella", "("]:
            answer = await http.get("/api/inbox", params={"q": typed})
            assert answer.status_code == 200, (typed, answer.text)

    async def test_an_action_in_doubt_is_found_too(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await self.three(home, model)
        [item] = [item for item in await home.items() if item.subject == "Lunch?"]
        await home.sql(
            """insert into effects (key, run_id, call_id, user_id, account_id, thread_id, tool, args, args_hash, state)
               select run_id || '/' || call_id, run_id, call_id, user_id, account_id, thread_id, action, args, '',
                      'unknown' from inbox_items where id = %s""",
            item.id,
        )
        async with home.app.pool.connection() as conn:
            [effect] = await home.app.ledger.hanging_in(item.run_id)
            await home.app.questions.ask_again(conn, effect, item.mail_text, NO_CONFLICTS)

        assert await listed(http, q="umbrella", kind="in_doubt") == ["Lunch?"]


@given(st.text(max_size=300))
def test_a_query_is_always_made_of_bound_values(typed: str) -> None:
    found = matches(typed)
    if found is not None:
        sql, values = found
        assert sql.count("%s") == len(values)
        assert set(sql) <= set("abcdefghijklmnopqrstuvwxyz_(),'%:&| ")
        assert all("\0" not in value for value in values)


@in_one_loop
class TestOrderAndFilters:
    async def four(self, home: Home, model: Model) -> None:
        """A draft, a notification, a meeting and a question, in this order of arrival."""
        calls = {
            "Draft": [reply("Fine."), DONE],
            "Meeting": [meeting(), DONE],
            "Question": [tool("Question", content="Which?")],
        }
        model.on_triage(lambda request: "notify" if request.mail.subject == "Notice" else "respond")
        model.script(lambda request: calls[request.mail.subject])
        for subject in ("Draft", "Notice", "Meeting", "Question"):
            await home.receive(subject)

    async def test_orders_go_from_page_to_page(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await self.four(home, model)
        came = ["Draft", "Notice", "Meeting", "Question"]
        for limit in (1, 3):
            assert await listed(http, limit=limit) == came
            assert await listed(http, limit=limit, sort="newest") == came[::-1]
            urgent = await listed(http, limit=limit, sort="urgency")
            assert urgent == ["Meeting", "Question", "Draft", "Notice"]

    async def test_the_longest_waiting_of_a_kind_is_the_most_urgent(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        await self.four(home, model)
        await home.receive("Draft")
        await home.sql("update inbox_items set created_at = created_at - interval '1 day' where kind = 'notification'")
        assert (await listed(http, sort="urgency", limit=1))[2:] == ["Draft", "Draft", "Notice"]

    async def test_filters_narrow_and_go_together(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await self.four(home, model)
        await age(home, "Draft", 10)
        await age(home, "Meeting", 3)
        assert await listed(http, kind="meeting") == ["Meeting"]
        assert await listed(http, older_than="2d") == ["Draft", "Meeting"]
        assert await listed(http, newer_than="1w", limit=1) == ["Meeting", "Notice", "Question"]
        assert await listed(http, older_than="2d", newer_than="1w", kind="meeting", account="ADA@example.com") == [
            "Meeting"
        ]
        assert await listed(http, older_than="2d", kind="question") == []
        assert await listed(http, account="nobody@example.com") == []

    @pytest.mark.parametrize(
        "query",
        [
            {"older_than": "3 days"}, {"newer_than": "-1d"}, {"kind": "letter"}, {"sort": "random"}, {"q": "x" * 501},
            {"sort": "urgency", "status": "applied"}, {"sort": "urgency", "cursor": "bm90aGluZw=="}, {"snoozed": "x"},
            {"cursor": cursor("[" * 980)},
            {"sort": "urgency", "cursor": cursor('["2026-11-30T20:28:00+00:00", "%s:x"]' % ("9" * 4301))},
        ],
    )  # fmt: skip
    async def test_what_makes_no_sense_is_refused(self, http: httpx.AsyncClient, query: dict[str, str]) -> None:
        answer = await http.get("/api/inbox", params=query)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"

    async def test_a_cursor_of_another_order_is_refused(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        await self.four(home, model)
        cursor = (await http.get("/api/inbox", params={"limit": 1})).json()["next"]
        answer = await http.get("/api/inbox", params={"sort": "urgency", "cursor": cursor})
        assert answer.status_code == 422


@in_one_loop
class TestSnooze:
    async def test_it_hides_the_item_and_ends_by_itself(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        await home.receive("Later")
        await home.receive("Now")
        item = await item_on(home, "Later")
        until = datetime.now(UTC) + timedelta(hours=3)

        answer = await http.post(f"/api/inbox/{item}/snooze", json={"until": until.isoformat()})

        assert answer.status_code == 200
        assert datetime.fromisoformat(answer.json()["snoozed_until"]) == until
        assert await listed(http, status="pending") == ["Now"]
        assert await listed(http, status="pending", sort="urgency") == ["Now"]
        assert await listed(http, status="pending", snoozed="true") == ["Later", "Now"]
        assert await listed(http, snoozed="only") == ["Later"]
        assert await listed(http) == ["Later", "Now"]  # of every status, nothing is left out
        counts = (await http.get("/api/inbox/counts")).json()
        assert (counts["by_status"]["pending"], counts["snoozed"]) == (1, 1)
        await home.sql("update inbox_items set snoozed_until = clock_timestamp() where id = %s", item)
        assert await listed(http, status="pending") == ["Later", "Now"]

    async def test_it_is_taken_back_and_never_outlives_an_answer(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        await home.receive("Later")
        path = f"/api/inbox/{await item_on(home, 'Later')}"
        later = {"until": (datetime.now(UTC) + timedelta(hours=3)).isoformat()}
        assert (await http.post(f"{path}/snooze", json=later)).status_code == 200
        assert (await http.post(f"{path}/snooze", json={"until": None})).json()["snoozed_until"] is None
        assert (await http.post(f"{path}/snooze", json=later)).status_code == 200
        assert (await http.post(f"{path}/decision", json={"type": "accept"})).status_code == 200
        refused = await http.post(f"{path}/snooze", json=later)
        assert refused.status_code == 409
        assert "already answered" in refused.json()["detail"]

    @pytest.mark.parametrize("body", [{"until": "2020-01-01T00:00:00Z"}, {"until": "2099-01-01T00:00:00"}, {}])
    async def test_only_a_time_to_come_with_its_timezone_is_taken(
        self, home: Home, model: Model, http: httpx.AsyncClient, body: dict[str, str]
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        await home.receive("Later")
        answer = await http.post(f"/api/inbox/{await item_on(home, 'Later')}/snooze", json=body)
        assert answer.status_code == 422
        assert await listed(http, status="pending") == ["Later"]

    async def test_there_is_no_such_item(self, http: httpx.AsyncClient) -> None:
        assert (await http.post(f"/api/inbox/{uuid4()}/snooze", json={"until": None})).status_code == 404


@in_one_loop
class TestManyAtOnce:
    async def test_each_item_has_its_own_result(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        model.on_triage(lambda request: "notify" if request.mail.subject == "Notice" else "respond")
        model.script(lambda _: [reply("Fine."), DONE])
        for subject in ("One", "Two", "Notice"):
            await home.receive(subject)
        one, two, notice = [await item_on(home, subject) for subject in ("One", "Two", "Notice")]
        unknown = uuid4()
        ids = [str(each) for each in (one, notice, unknown, one, two)]
        hashes = {str(item.id): item.hash for item in await home.pending()}
        served = [{"id": each, "hash": hashes.get(each, "")} for each in ids]

        answer = await http.post("/api/inbox/decisions", json={"items": served, "decision": {"type": "accept"}})

        assert answer.status_code == 200
        results = answer.json()["items"]
        assert [result["id"] for result in results] == ids
        assert [result["status"] for result in results] == [200, 200, 404, 200, 200]
        assert [result["item"] and result["item"]["status"] for result in results] == [
            *("decided", "decided", None, "decided", "decided")
        ]
        await home.carry_on()
        assert len(home.google.sent) == 2
        assert await listed(http, status="pending") == []

    @pytest.mark.parametrize("ids", [[], [str(UUID(int=0))] * 201, ["x"]])
    async def test_none_too_many_or_no_ids_at_all_are_refused(self, http: httpx.AsyncClient, ids: list[str]) -> None:
        answer = await http.post("/api/inbox/decisions", json={"items": ids, "decision": {"type": "ignore"}})
        assert answer.status_code == 422


@in_one_loop
class TestCounts:
    async def test_they_tell_what_there_is(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        model.on_triage(lambda request: "notify" if request.mail.subject == "Notice" else "respond")
        model.script(lambda _: [reply("Fine."), DONE])
        for subject in ("One", "Two", "Notice"):
            await home.receive(subject)
        [one] = [item for item in await home.items() if item.subject == "One"]
        await home.answer(one, "accept")

        counts = (await http.get("/api/inbox/counts")).json()

        assert counts["by_status"] == {"pending": 2, "decided": 0, "applied": 1, "superseded": 0, "expired": 0}
        nothing = dict.fromkeys(("meeting", "confirmation", "question", "link", "in_doubt"), 0)
        kinds = {"draft": 1, "notification": 1} | nothing
        assert counts["waiting_by_kind"] == kinds
        assert counts["waiting_by_account"] == {"ada@example.com": 2}

    async def test_they_stop_at_their_limit(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        await home.receive("One")
        columns = """user_id, account_id, thread_id, run_id, mail_id, call_id, action, args, allowed, mail_text,
                     marks, teaches"""
        await home.sql(
            f"""insert into inbox_items ({columns}, interrupt_id, kind)
                select {columns}, n::text, case when n %% 2 = 0 then 'draft' else 'meeting' end
                from inbox_items, generate_series(1, 1200) as n where mail_id = %s""",
            (await home.items())[0].mail_id,
        )
        counts = (await http.get("/api/inbox/counts")).json()
        assert counts["most"] == 1000
        assert counts["by_status"]["pending"] == 1000
        assert (counts["waiting_by_kind"]["draft"], counts["waiting_by_kind"]["meeting"]) == (601, 600)


@in_one_loop
async def test_another_user_sees_and_changes_nothing(home: Home, model: Model) -> None:
    model.script(lambda _: [reply("Fine."), DONE])
    await home.receive("Mine")
    item = await item_on(home, "Mine")
    [row] = await home.sql("insert into users (name) values ('other') returning id")
    other, inbox = row["id"], home.app.inbox
    assert await inbox.page(other, q="fine") == ([], None)
    assert (await inbox.counts(other)).by_status["pending"] == 0
    with pytest.raises(NoItem):
        await inbox.snooze(other, item, datetime.now(UTC) + timedelta(hours=1))
    [outcome] = await inbox.decide_many(other, [(item, None)], {"type": "accept"}, "test")
    assert isinstance(outcome.refused, NoItem)
    [mine] = await home.pending()
    assert (mine.id, mine.snoozed_until) == (item, None)
    accepted = {"type": "accept", "args": None}
    await inbox.decide(home.app.user_id, item, accepted, "test", undo_window=timedelta(hours=1))
    with pytest.raises(NoItem):
        await inbox.undo(other, item)
    assert (await home.item(mine)).decision == accepted
