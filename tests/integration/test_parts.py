"""A proposal of several parts, over HTTP and on the command line: what waits for what, and who is asked again."""

import json
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import httpx
import psycopg
import pytest

from tests.doubles.daemon import Daemon, Item
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.integration import shared
from tests.integration.scene import BOB, DONE, NEXT_WEEK, meeting, reply

daemon, google, model, database_url = shared.daemon, shared.google, shared.model, shared.database_url

can_be_undone = pytest.mark.parametrize("running", [{"undo_seconds": 30}], indirect=True)
PROMISE = "With pleasure; an invitation follows."


@pytest.fixture(autouse=True)
def two_parts(model: Model) -> None:
    model.script(lambda _: [reply(PROMISE), meeting(), DONE])


def proposed(daemon: Daemon, google: Google) -> tuple[str, Item, Item]:
    """A mail, and what is proposed about it: the reply and the meeting."""
    mail_id = google.deliver(BOB, "Planning", "Could we meet next week?")
    items = {item["kind"]: item for item in daemon.pending(2)}
    return mail_id, items["draft"], items["meeting"]


def now(daemon: Daemon, item: Item) -> Item:
    return daemon.item(item["id"])


def decide(daemon: Daemon, *answers: tuple[Item, str, object]) -> httpx.Response:
    """Answer several items in one request."""
    body = [{"id": item["id"], "hash": item["hash"], "type": type_, "args": args} for item, type_, args in answers]
    return daemon.http.post("/api/inbox/decisions", json={"answers": body})


class TestWhatWaits:
    def test_an_accepted_part_says_for_what(self, daemon: Daemon, google: Google) -> None:
        mail_id, draft, invitation = proposed(daemon, google)
        assert draft["group"] == invitation["group"]
        assert (draft["waits_for"], draft["state"]) == ([], "waits for you")
        assert "One proposal with the meeting" in draft["description"]
        daemon.accept(draft)
        waits = now(daemon, draft)
        assert waits["waits_for"] == [invitation["id"]]
        assert waits["state"] == "goes out with your answer on the meeting"
        [listed] = daemon.items(status="decided")
        assert listed["state"] == waits["state"]
        assert "The reply that you approved goes out with your answer on this" in now(daemon, invitation)["description"]
        daemon.accept(invitation)
        daemon.until_done(mail_id)
        assert (len(google.sent), len(google.events)) == (1, 1)
        assert (now(daemon, draft)["waits_for"], now(daemon, draft)["state"]) == ([], "approved")

    def test_the_meeting_for_the_reply(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        daemon.accept(invitation)
        assert now(daemon, invitation)["state"] == "is put into the calendar with your answer on the reply"
        assert google.events == {}
        assert draft["id"] in now(daemon, invitation)["waits_for"]

    def test_one_that_is_put_off_is_told_as_that(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        daemon.accept(draft)
        until = datetime.now(ZoneInfo("Europe/Berlin")) + timedelta(days=3)
        daemon.http.post(f"/api/inbox/{invitation['id']}/snooze", json={"until": until.isoformat()})
        state = now(daemon, draft)["state"]
        assert state.startswith(f"goes out with your answer on the meeting, put off until {until:%A} ")
        assert now(daemon, invitation)["state"].startswith("put off until ")

    @can_be_undone
    def test_when_all_is_decided_it_counts_down(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        decide(daemon, (draft, "accept", None), (invitation, "accept", None))
        assert 20 <= int(now(daemon, draft)["state"].removeprefix("goes out in ").removesuffix(" s")) <= 30

    def test_the_parts_of_a_later_message_are_another_proposal(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        model.script([[reply("One."), reply("Two.")], [reply("Three."), reply("Four."), DONE]])
        google.deliver(BOB, "Planning", "Could we meet next week?")
        first = daemon.pending(2)
        for item in first:
            daemon.answer(item, "response", "Other words.")
        daemon.until_item(first[0], "applied")
        second = daemon.pending(2)
        assert len({item["group"] for item in first}) == len({item["group"] for item in second}) == 1
        assert first[0]["group"] != second[0]["group"]
        daemon.accept(second[0])
        assert now(daemon, second[0])["waits_for"] == [second[1]["id"]]
        assert now(daemon, second[0])["state"] == "goes out with your answer on the other reply"

    def test_items_of_an_older_version_belong_together_too(
        self, daemon: Daemon, google: Google, database_url: str
    ) -> None:
        _, draft, invitation = proposed(daemon, google)
        with psycopg.connect(database_url) as conn:
            conn.execute("update email_assistant.inbox_items set group_id = null")
        assert now(daemon, draft)["group"] == now(daemon, invitation)["group"]
        assert decide(daemon, (draft, "accept", None), (invitation, "accept", None)).json()["items"][0]["status"] == 200


class TestHeldByAnother:
    """Of what was approved together, a part could not be done, and the rest comes after it."""

    @pytest.mark.parametrize("answer", ["accept", "ignore"])
    def test_each_says_what_it_waits_for(self, daemon: Daemon, google: Google, model: Model, answer: str) -> None:
        model.script([[meeting(title="One"), meeting(title="Two"), reply(PROMISE), DONE]])
        google.deliver(BOB, "Planning", "Could we meet next week?")
        decide(daemon, *((item, "accept", None) for item in daemon.pending(3)))
        [again] = daemon.pending()
        assert again["args"]["title"] == "Two"
        for note in (
            "Another meeting was put into the calendar already",
            "The reply that you approved goes out with your answer on this",
            "If you turn this down, you are asked about that again",
        ):
            assert note in again["description"]
        [draft] = [item for item in daemon.items(status="applied") if item["kind"] == "draft"]
        first = draft
        assert "It goes out with your answer on the meeting." in daemon.http.get(f"/items/{draft['id']}").text
        assert "turn that down, and you are asked about this again" in daemon.undo(draft["id"]).text
        assert draft["state"] == "approved; goes out with your answer on the meeting"
        assert draft["waits_for"] == [again["id"]]
        daemon.answer(again, answer)
        if answer == "ignore":
            [draft] = daemon.pending()
            assert now(daemon, first)["state"] == "approved, and asked about again"
            assert draft["asked_because"] == "you had approved it, and then you dismissed the meeting"
            assert google.sent == []
            daemon.accept(draft)
        daemon.wait_for(lambda: now(daemon, draft)["state"] == "approved", "the reply goes out")
        assert (len(google.sent), len(google.events)) == (1, 2 if answer == "accept" else 1)

    def test_one_that_was_changed_waits_for_those_that_are_asked_about_again(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        later = NEXT_WEEK + timedelta(hours=2)
        model.script(
            [[meeting(title="One"), meeting(title="Two"), meeting(later, title="Three"), reply(PROMISE), DONE]]
        )
        google.deliver(BOB, "Planning", "Could we meet next week?")
        decide(daemon, *((item, "accept", None) for item in daemon.pending(4)))
        [two] = daemon.pending()
        moved = {
            name: (later + timedelta(hours=hours)).isoformat() for name, hours in (("start_time", 3), ("end_time", 4))
        }
        daemon.answer(two, "edit", two["args"] | moved)
        open_ = {item["kind"]: item for item in daemon.pending(2)}
        two = now(daemon, two)
        assert two["state"] == (
            "approved as you changed it; is put into the calendar with your answer on the reply and the other meeting"
        )
        assert sorted(two["waits_for"]) == sorted(item["id"] for item in open_.values())
        meant = "The other meeting that you changed and approved is put into the calendar with your answer on this"
        assert meant in open_["meeting"]["description"]
        assert meant.replace("other ", "") in open_["draft"]["description"]
        daemon.answer(open_["meeting"], "ignore")
        daemon.answer(now(daemon, open_["draft"]), "accept")
        daemon.wait_for(lambda: len(google.events) == 2 and len(google.sent) == 1, "the rest is done")
        assert now(daemon, two)["state"] == "approved as you changed it"


class TestAskedAgain:
    @pytest.mark.parametrize(
        ("answer", "args", "because"),
        [
            ("ignore", None, "you had approved it, and then you dismissed the meeting"),
            (
                "response",
                "Rather on Tuesday.",
                "you had approved it, and then you said what should be different about the meeting",
            ),
        ],
    )
    def test_what_was_accepted_with_a_part_that_then_was_not(
        self, daemon: Daemon, google: Google, answer: str, args: str | None, because: str
    ) -> None:
        _, draft, invitation = proposed(daemon, google)
        daemon.accept(draft)
        daemon.answer(invitation, answer, args)
        [again] = daemon.pending()
        assert (again["id"], again["decision"], again["undo_until"]) == (draft["id"], None, None)
        assert again["asked_because"] == because
        assert again["state"] == f"waits for you again: {because}"
        assert f"You are asked again: {because}" in again["description"]
        daemon.until_polled(3)
        assert google.sent == []
        assert now(daemon, invitation)["status"] == "decided"

    def test_an_answer_to_the_earlier_question_is_none_to_this(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        daemon.accept(draft)
        daemon.answer(invitation, "ignore")
        path = f"/api/inbox/{draft['id']}/decision"
        late = daemon.http.post(path, json={"type": "accept", "asked": draft["asked"]})
        assert (late.status_code, "you are asked again" in late.json()["detail"]) == (409, True)
        [posted] = decide(daemon, (draft, "accept", None)).json()["items"]
        assert posted["status"] == 409
        form = daemon.http.post(f"/items/{draft['id']}", data={"answer": "accept", "asked": str(draft["asked"])})
        assert form.status_code == 409
        daemon.until_polled(2)
        assert google.sent == []
        again = now(daemon, draft)
        assert daemon.http.post(path, json={"type": "accept", "asked": again["asked"]}).status_code == 200

    def test_nor_is_its_repeat_word_for_word(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        path, body = f"/api/inbox/{draft['id']}/decision", {"type": "accept", "args": None}
        assert daemon.http.post(path, json=body).status_code == 200
        daemon.answer(invitation, "ignore")
        assert daemon.http.post(path, json=body).status_code == 409
        daemon.until_polled(2)
        assert google.sent == []

    def test_accepted_once_more_it_goes_out(self, daemon: Daemon, google: Google) -> None:
        mail_id, draft, invitation = proposed(daemon, google)
        daemon.accept(draft)
        daemon.answer(invitation, "ignore")
        daemon.accept(draft)
        daemon.until_done(mail_id)
        assert ([mail.text for mail in google.sent], google.events) == ([PROMISE], {})
        assert now(daemon, draft)["asked_because"] is None

    def test_ignored_as_well_nothing_happens(self, daemon: Daemon, google: Google) -> None:
        mail_id, draft, invitation = proposed(daemon, google)
        daemon.accept(draft)
        daemon.answer(invitation, "ignore")
        daemon.answer(draft, "ignore")
        daemon.until_done(mail_id)
        assert (google.sent, google.events) == ([], {})

    def test_as_the_person_had_left_it(self, daemon: Daemon, google: Google, model: Model) -> None:
        """An edit is shown again, and is what is sent and learned from."""
        mail_id, draft, invitation = proposed(daemon, google)
        edited = {**draft["args"], "response_text": "Monday is fine."}
        daemon.answer(draft, "edit", edited)
        daemon.answer(invitation, "ignore")
        [again] = daemon.pending()
        assert again["args"] == edited
        daemon.accept(again)
        daemon.until_done(mail_id)
        assert [mail.text for mail in google.sent] == ["Monday is fine."]
        done = now(daemon, draft)
        assert (done["args"], done["decision"]) == (draft["args"], {"type": "edit", "args": edited})
        daemon.wait_for(lambda: model.calls("memory"), "the edit is learned from")

    def test_not_what_was_accepted_after_it(self, daemon: Daemon, google: Google) -> None:
        mail_id, draft, invitation = proposed(daemon, google)
        daemon.answer(invitation, "ignore")
        assert "You dismissed the meeting" in now(daemon, draft)["description"]
        daemon.accept(draft)
        daemon.until_done(mail_id)
        assert len(google.sent) == 1

    def test_a_letter_whose_meeting_was_changed_since(self, daemon: Daemon, google: Google) -> None:
        mail_id, draft, invitation = proposed(daemon, google)
        daemon.accept(draft)
        daemon.answer(invitation, "edit", {**invitation["args"], "title": "Plans"})
        [again] = daemon.pending()
        assert (again["id"], again["asked_because"]) == (
            draft["id"],
            "you had approved it, and then you changed the meeting",
        )
        assert "The meeting that you changed and approved is put into the calendar with" in again["description"]
        daemon.until_polled(3)
        assert google.sent == []
        daemon.accept(again)
        daemon.until_done(mail_id)
        assert ([event["summary"] for event in google.events.values()], len(google.sent)) == (["Plans"], 1)

    def test_not_a_meeting_whose_letter_was_changed_since(self, daemon: Daemon, google: Google) -> None:
        mail_id, draft, invitation = proposed(daemon, google)
        daemon.accept(invitation)
        daemon.answer(draft, "edit", {**draft["args"], "response_text": "See you."})
        daemon.until_done(mail_id)
        assert (len(google.events), len(google.sent)) == (1, 1)

    def test_not_what_was_accepted_in_the_same_request(self, daemon: Daemon, google: Google) -> None:
        mail_id, draft, invitation = proposed(daemon, google)
        decide(daemon, (draft, "accept", None), (invitation, "ignore", None))
        daemon.until_done(mail_id)
        assert (len(google.sent), google.events) == (1, {})

    def test_not_in_a_question_that_is_answered(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), tool("Question", content="Which room?")], [DONE]])
        mail_id = google.deliver(BOB, "Planning", "Could we meet next week?")
        items = {item["kind"]: item for item in daemon.pending(2)}
        daemon.accept(items["draft"])
        daemon.answer(items["question"], "response", "The blue one.")
        daemon.until_done(mail_id)
        assert len(google.sent) == 1


class TestUndo:
    @can_be_undone
    def test_of_the_part_that_was_ignored_gives_the_other_back(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        daemon.answer(draft, "edit", {**draft["args"], "response_text": "Monday is fine."})
        before = now(daemon, draft)
        daemon.answer(invitation, "ignore")
        assert now(daemon, draft)["status"] == "pending"
        assert daemon.undo(invitation["id"]).status_code == 200
        after = now(daemon, draft)
        assert after["asked"] == before["asked"] + 1  # an answer to the question in between stays a late one
        assert after == before | {"asked": after["asked"], "hash": after["hash"]}
        assert [item["id"] for item in daemon.pending()] == [invitation["id"]]

    @can_be_undone
    def test_leaves_what_was_decided_since(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        daemon.accept(draft)
        daemon.answer(invitation, "ignore")
        daemon.answer(draft, "response", "Shorter.")
        assert daemon.undo(invitation["id"]).status_code == 200
        assert now(daemon, draft)["decision"] == {"type": "response", "args": "Shorter."}

    def test_is_possible_for_as_long_as_it_waits_for_another(self, daemon: Daemon, google: Google) -> None:
        mail_id, draft, invitation = proposed(daemon, google)
        daemon.accept(draft)
        daemon.until_polled(2)  # the time to undo it is long over
        assert daemon.undo(draft["id"]).status_code == 200
        assert now(daemon, draft)["status"] == "pending"
        daemon.accept(invitation)
        daemon.until_polled(2)
        assert google.events == {}
        daemon.accept(draft)
        daemon.until_done(mail_id)
        assert daemon.undo(draft["id"]).status_code == 409


class TestOneRequest:
    def test_takes_all_parts_or_none(self, daemon: Daemon, google: Google) -> None:
        mail_id, draft, invitation = proposed(daemon, google)
        wrong = {**invitation["args"], "end_time": invitation["args"]["start_time"]}
        refused = decide(daemon, (draft, "accept", None), (invitation, "edit", wrong))
        assert refused.status_code == 200
        first, second = refused.json()["items"]
        assert (first["status"], second["status"]) == (409, 422)
        assert first["detail"].startswith("not taken, as another part of the same proposal was not: ")
        assert second["detail"] in first["detail"]
        assert {now(daemon, draft)["status"], now(daemon, invitation)["status"]} == {"pending"}
        taken = decide(
            daemon, (invitation, "accept", None), (draft, "edit", {**draft["args"], "response_text": "Yes."})
        )
        assert [each["status"] for each in taken.json()["items"]] == [200, 200]
        assert [each["id"] for each in taken.json()["items"]] == [invitation["id"], draft["id"]]
        daemon.until_done(mail_id)
        assert ([mail.text for mail in google.sent], len(google.events)) == (["Yes."], 1)

    def test_none_if_one_was_answered_before(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        daemon.accept(draft)
        first, second = decide(daemon, (draft, "ignore", None), (invitation, "accept", None)).json()["items"]
        assert (first["status"], second["status"]) == (409, 409)
        assert "already answered (approved)" in first["detail"]
        assert now(daemon, invitation)["status"] == "pending"

    @can_be_undone
    @pytest.mark.parametrize("first", ["draft", "meeting"])
    def test_of_a_second_window_says_that_the_first_has_answered(
        self, daemon: Daemon, google: Google, first: str
    ) -> None:
        parts = {item["kind"]: item for item in proposed(daemon, google)[1:]}
        named, beside = parts.pop(first), *parts.values()
        form = {"answer": "accept", "hash": named["hash"], f"{beside['id']}:hash": beside["hash"]}
        path = f"/items/{named['id']}"
        assert daemon.http.post(path, data=form).status_code == 303
        assert daemon.http.post(path, data=form).status_code == 303  # the same once more is no fault
        other = daemon.http.post(path, data={**form, f"{beside['id']}:strike": "yes"})
        assert (other.status_code, "already answered" in other.text) == (409, True)
        assert now(daemon, beside)["decision"]["type"] == "accept"

    def test_each_proposal_for_itself(self, daemon: Daemon, google: Google) -> None:
        _, draft, _ = proposed(daemon, google)
        google.deliver(BOB, "Once more", "And the week after?")
        other = next(item for item in daemon.pending(4) if item["group"] != draft["group"])
        gone = {**other, "id": "7d1f5b1e-6f0e-4c43-9d5c-3b1f5f2f9a10"}
        answers = decide(daemon, (draft, "accept", None), (gone, "accept", None), (other, "ignore", None)).json()[
            "items"
        ]
        assert [each["status"] for each in answers] == [200, 404, 200]

    @pytest.mark.parametrize("given", ["both", "neither", "half", "twice", "none"])
    def test_what_says_two_things_is_refused(self, daemon: Daemon, google: Google, given: str) -> None:
        _, draft, _ = proposed(daemon, google)
        answer = {"id": draft["id"], "type": "accept"}
        bodies = {
            "both": {"items": [draft["id"]], "decision": {"type": "accept"}, "answers": [answer]},
            "neither": {},
            "half": {"items": [draft["id"]]},
            "twice": {"answers": [answer, {**answer, "type": "ignore"}]},
            "none": {"answers": []},
        }
        assert daemon.http.post("/api/inbox/decisions", json=bodies[given]).status_code == 422
        assert now(daemon, draft)["status"] == "pending"


class TestPages:
    def test_say_what_waits_for_what(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        for part in (draft, invitation):
            card = page(daemon, f"/items/{part['id']}")
            assert ">The reply</h2>" in card
            assert ">The meeting</h2>" in card
        daemon.accept(draft)
        shown = page(daemon, f"/items/{draft['id']}")
        assert "It goes out with your answer on the meeting." in shown
        assert f'<a href="/items/{invitation["id"]}">Answer the rest</a>' in shown
        assert "Take it back" in shown
        assert "goes out with your answer on the meeting" in page(daemon, "/?status=decided")
        told = "The reply that you approved goes out with your answer on this."
        assert told in page(daemon, f"/items/{invitation['id']}")
        daemon.answer(invitation, "ignore")
        because = "You are asked again: <bdi>you had approved it, and then you dismissed the meeting</bdi>."
        assert because in page(daemon, f"/items/{draft['id']}")
        assert f"asked again: “{PROMISE}”" in page(daemon, "/")


def page(daemon: Daemon, path: str) -> str:
    answer = daemon.http.get(path)
    assert answer.status_code == 200
    return " ".join(answer.text.split())


class TestCommandLine:
    def test_says_what_waits_for_what(self, daemon: Daemon, google: Google) -> None:
        _, draft, invitation = proposed(daemon, google)
        assert "waiting; takes accept" in daemon.cli("inbox", "show", draft["id"])
        taken = daemon.cli("inbox", "accept", draft["id"])
        assert "It goes out with your answer on the meeting." in taken
        assert f"inbox undo {draft['id'][:8]}` takes it back until then" in taken
        answered = daemon.cli("inbox", "show", draft["id"])
        assert "answered: goes out with your answer on the meeting" in answered
        assert "; takes" not in answered
        shown = daemon.cli("inbox", "show", draft["id"], "--json")
        assert (shown["waits_for"], shown["group"]) == ([invitation["id"]], invitation["group"])
        assert "The reply that you approved goes out" in daemon.cli("inbox", "show", invitation["id"])
        assert "The reply that you approved goes out" in daemon.cli("inbox", "snooze", invitation["id"], "3d")
        assert "put off until" in daemon.cli("inbox", "show", draft["id"])
        listed = json.loads(daemon.run("inbox", "list", "--status", "decided", "--json").stdout)["items"]
        assert "put off until" in listed[0]["state"]
        ignored = daemon.cli("inbox", "ignore", invitation["id"])
        assert "Asked again, as you had approved it, and then you dismissed the meeting" in ignored
        assert f"inbox show {draft['id'][:8]}" in ignored
        assert "You are asked again: you had approved it" in daemon.cli("inbox", "show", draft["id"])
