"""Processes that die or freeze at the worst moment: one mail is sent all the same, and every item can be answered."""

import pytest

from tests.doubles.daemon import Daemon, Item, Process
from tests.doubles.front import Moment
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.conftest import Start
from tests.integration.scene import ADA, BOB, DONE, reply

PROPOSAL = [reply("Friday is fine."), DONE]


@pytest.fixture
def daemon(connect: Start, model: Model) -> Daemon:
    """One connected mailbox; nothing runs yet."""
    model.script(lambda _: PROPOSAL)
    return connect()


class TestKilled:
    """`kill -9` of the whole daemon, which is then started again."""

    @pytest.fixture(autouse=True)
    def running(self, daemon: Daemon, google: Google) -> None:
        daemon.up()
        daemon.wait_for(lambda: google.calls("history.list"), "the mailbox is polled")

    def test_after_the_cursor_moved(self, daemon: Daemon, google: Google, model: Model) -> None:
        hold = Hold()
        model.fault("triage", hold=hold)  # so that the mail gets no further than its triage
        mail_id = deliver(google)
        daemon.wait_for(lambda: daemon.mail(mail_id), "the mail is stored")
        restart(daemon, hold)
        daemon.accept(*daemon.pending())
        expect_one_mail(daemon, google, mail_id)

    def test_in_triage(self, daemon: Daemon, google: Google, model: Model) -> None:
        hold = Hold()
        model.fault("triage", hold=hold)
        mail_id = deliver(google)
        hold.reached()
        restart(daemon, hold)
        daemon.accept(*daemon.pending())
        expect_one_mail(daemon, google, mail_id)

    def test_while_an_item_waits(self, daemon: Daemon, google: Google, model: Model) -> None:
        mail_id = deliver(google)
        [item] = daemon.pending()
        restart(daemon)
        assert daemon.pending() == [item]
        daemon.accept(item)
        expect_one_mail(daemon, google, mail_id)
        assert [request.kind for request in model.requests] == ["triage", "response"]

    def test_when_the_draft_was_created_and_its_id_not_yet_known(self, daemon: Daemon, google: Google) -> None:
        mail_id = deliver(google)
        kill_at(daemon, google, "drafts.create", "after")
        expect_one_mail(daemon, google, mail_id)

    def test_when_the_draft_is_about_to_be_sent(self, daemon: Daemon, google: Google) -> None:
        mail_id = deliver(google)
        kill_at(daemon, google, "drafts.send", "before")
        expect_one_mail(daemon, google, mail_id)
        assert len(google.calls("drafts.create")) == 1

    def test_when_the_draft_was_sent_and_the_answer_not_yet_read(self, daemon: Daemon, google: Google) -> None:
        mail_id = deliver(google)
        kill_at(daemon, google, "drafts.send", "after")
        expect_one_mail(daemon, google, mail_id)
        assert len(google.calls("drafts.create")) == 1

    def test_when_gmail_refused_the_draft_and_it_is_about_to_be_deleted(self, daemon: Daemon, google: Google) -> None:
        google.fault("drafts.send", status=400, reason="failedPrecondition")
        deliver(google)
        kill_at(daemon, google, "drafts.delete", "before")
        daemon.wait_for(lambda: not google.drafts, "no draft is left over")
        [again] = daemon.pending()
        assert again["asked"] == 2
        assert google.sent == []


class TestFrozen:
    """Two workers, of which the one at work is stopped for longer than its lease, and then goes on where it was."""

    @pytest.fixture(autouse=True)
    def workers(self, daemon: Daemon, google: Google, model: Model) -> list[Process]:
        daemon.environment["EMAIL_ASSISTANT_LOG_LEVEL"] = "INFO"
        roots = zip(google.roots, model.roots, strict=True)
        workers = [daemon.worker(google_root=google_root, model_root=model_root) for google_root, model_root in roots]
        daemon.scheduler()
        daemon.wait_for(lambda: google.calls("history.list"), "the mailbox is polled")
        return workers

    @pytest.mark.long
    def test_in_the_model_call(self, daemon: Daemon, google: Google, model: Model, workers: list[Process]) -> None:
        hold = Hold()
        model.fault("response", hold=hold)
        deliver(google)
        holder = model.roots.index(hold.reached())
        workers[holder].freeze()
        other = model.roots[1 - holder]
        daemon.wait_for(lambda: [r for r in model.calls("response") if r.root == other], "the other worker takes over")
        item = the_item_by_cli(daemon)

        hold.release()
        workers[holder].thaw()
        wait_until_awake(daemon, workers[holder])

        assert the_item_by_cli(daemon) == item
        daemon.cli("inbox", "accept", item["id"])
        daemon.wait_for(lambda: google.sent, "the mail is sent")
        expect_one_mail_by_cli(daemon, google, item)

    @pytest.mark.parametrize(
        ("call", "moment"),
        [
            pytest.param("drafts.create", "after", id="in drafts.create"),
            pytest.param("drafts.send", "before", id="in drafts.send, which Google carries out late"),
            pytest.param("drafts.send", "after", id="in drafts.send, which Google carries out at once"),
        ],
    )
    def test_in_a_write(
        self, daemon: Daemon, google: Google, workers: list[Process], call: str, moment: Moment
    ) -> None:
        deliver(google)
        item = the_item_by_cli(daemon)
        hold = Hold()
        google.fault(call, hold=hold, at=moment)
        daemon.cli("inbox", "accept", item["id"])
        holder = google.roots.index(hold.reached())
        workers[holder].freeze()
        daemon.wait_for(lambda: is_applied(daemon, item) and all_done(daemon), "the other worker finishes")
        assert len(google.sent) == 1

        hold.release()
        workers[holder].thaw()
        wait_until_awake(daemon, workers[holder])

        expect_one_mail_by_cli(daemon, google, item)


class TestKilledInDraftMode:
    """Likewise, while the draft that was left in Gmail is seen to."""

    @pytest.fixture(autouse=True)
    def running(self, daemon: Daemon, google: Google) -> None:
        daemon.up()
        daemon.cli("account", "mode", ADA, "draft")

    def left(self, daemon: Daemon, google: Google) -> str:
        mail_id = deliver(google)
        daemon.wait_for(lambda: google.drafts, "it is left in Gmail")
        return mail_id

    @pytest.mark.parametrize(
        ("call", "moment"), [("drafts.delete", "after"), ("drafts.delete", "before"), ("drafts.get", "after")]
    )
    def test_as_it_is_read_and_taken_away(self, daemon: Daemon, google: Google, call: str, moment: Moment) -> None:
        mail_id = self.left(daemon, google)
        kill_at(daemon, google, call, moment)
        expect_one_mail(daemon, google, mail_id)

    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_as_it_is_read_after_the_person_has_changed_it(
        self, daemon: Daemon, google: Google, moment: Moment
    ) -> None:
        mail_id, hold = self.left(daemon, google), Hold()
        [item] = daemon.pending()
        google.fault("drafts.get", hold=hold, at=moment)
        [draft] = google.draft_ids
        daemon.answer(item, "edit", {**item["args"], "response_text": "Sunday is best."})
        google.person_drafts(mail_id, "Saturday is better.", draft)
        hold.reached()
        restart(daemon, hold)
        daemon.wait_for(lambda: daemon.items()[0]["asked"] > 1, "they are asked again")
        [again] = daemon.pending()
        assert again["args"]["response_text"] == "Sunday is best."
        assert "Saturday is better." in again["in_gmail"]["text"]
        assert (google.sent, [each.text for each in google.drafts]) == ([], ["Saturday is better."])

        google.fault("drafts.send", hold=(sending := Hold()), at="after")
        daemon.http.post(f"/api/inbox/{item['id']}/decision", json={"type": "accept", "asked": again["asked"]})
        sending.reached()
        restart(daemon, sending)
        daemon.until_mail(mail_id, "done", timeout=60)
        assert [each.text for each in google.sent] == ["Sunday is best."]
        assert [each.text for each in google.drafts] == ["Saturday is better."]


def deliver(google: Google) -> str:
    return google.deliver(BOB, "Lunch?", "Does Friday suit you?")


def restart(daemon: Daemon, hold: Hold | None = None) -> None:
    """Kill the daemon and start it again; a request that it had under way goes no further."""
    daemon.kill()
    if hold:
        hold.abandon()
    daemon.up()


def kill_at(daemon: Daemon, google: Google, call: str, moment: Moment) -> None:
    """Accept the reply, kill the daemon in that request to Google, and start it again."""
    [item] = daemon.pending()
    hold = Hold()
    google.fault(call, hold=hold, at=moment)
    daemon.accept(item)
    hold.reached()
    restart(daemon, hold)


def expect_one_mail(daemon: Daemon, google: Google, mail_id: str) -> None:
    """The mail is answered: one reply, no draft left, no item open, and nothing more once the daemon has stopped."""
    daemon.until_mail(mail_id, "done", timeout=60)
    daemon.wait_for(lambda: not google.drafts, "no draft is left over")
    assert [item["status"] for item in daemon.items()] == ["applied"]
    daemon.stop()
    assert [(sent.text, sent.thread_id) for sent in google.sent] == [("Friday is fine.", mail_id)]
    assert google.drafts == []


def the_item_by_cli(daemon: Daemon) -> Item:
    [item] = daemon.wait_for(lambda: daemon.cli("inbox", "list", "--json")["items"], "an item waits")
    return dict(item)


def is_applied(daemon: Daemon, item: Item) -> bool:
    return bool(daemon.cli("inbox", "show", item["id"], "--json")["status"] == "applied")


def all_done(daemon: Daemon) -> bool:
    return {mail["state"] for mail in daemon.cli("mails", "--json")["items"]} == {"done"}


def wait_until_awake(daemon: Daemon, worker: Process) -> None:
    """Wait until a thawed worker has seen that its conversation is another's."""
    daemon.wait_for(lambda: "taken over by another worker" in worker.log, "the worker goes on")


def expect_one_mail_by_cli(daemon: Daemon, google: Google, item: Item) -> None:
    """As `expect_one_mail`, without a daemon to ask."""
    daemon.wait_for(lambda: is_applied(daemon, item) and all_done(daemon), "the item is applied and the mail done")
    daemon.wait_for(lambda: not google.drafts, "no draft is left over")
    daemon.stop()
    assert [(sent.text, sent.thread_id) for sent in google.sent] == [("Friday is fine.", item["mail_id"])]
    assert google.drafts == []
