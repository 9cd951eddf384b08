"""Push: Gmail is asked to tell a topic of new mail, and what Pub/Sub posts makes the daemon look at once."""

import base64
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest

from tests.doubles.daemon import API_TOKEN, Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.scene import ADA, BOB, DONE, reply

TOPIC, TOKEN = "projects/my-project/topics/gmail", "a-token-of-the-test"
PUSH = {"push_topic": TOPIC, "push_token": TOKEN}
HOUR = 3600


def notice(address: str = ADA) -> dict[str, Any]:
    """What Pub/Sub posts for Gmail."""
    change = json.dumps({"emailAddress": address, "historyId": 4711}).encode()
    message = {"data": base64.b64encode(change).decode(), "messageId": "1", "publishTime": "2031-06-02T08:00:00Z"}
    return {"message": message, "subscription": "projects/my-project/subscriptions/gmail"}


def push(daemon: Daemon, token: str | None = TOKEN, body: Any = None, content: bytes | None = None) -> httpx.Response:
    """As Google does it: without the session's token."""
    sent = content if content is not None else json.dumps(notice() if body is None else body).encode()
    parameters = {} if token is None else {"token": token}
    return httpx.post(f"{daemon.http.base_url}/google/push", params=parameters, content=sent, trust_env=False)


def until_watched(daemon: Daemon, google: Google) -> None:
    daemon.wait_for(partial(_is_told, google, TOPIC), "Gmail is asked to push")


def _is_told(google: Google, topic: str) -> bool:
    return google.watch_topic == topic


def execute(daemon: Daemon, query: str) -> None:
    with psycopg.connect(daemon.environment["DATABASE_URL"], autocommit=True) as conn:
        conn.execute("set search_path to email_assistant")
        conn.execute(query.encode())


def jobs(daemon: Daemon) -> list[str]:
    with psycopg.connect(daemon.environment["DATABASE_URL"]) as conn:
        return [row[0] for row in conn.execute("select task_name from email_assistant.procrastinate_jobs")]


def account(daemon: Daemon) -> dict[str, Any]:
    [found] = daemon.http.get("/api/accounts").json()["items"]
    return dict(found)


NO_NOTICES = [
    b"",
    b"{",
    b"[]",
    b'"\xff"',
    b'{"message": null}',
    b'{"message": {}}',
    b'{"message": {"data": "!"}}',
    b'{"message": {"data": "bm90IEpTT04="}}',
    b'{"message": {"data": "\\u00e9"}}',
    json.dumps({"message": {"data": base64.b64encode(b'{"historyId": 1}').decode()}}).encode(),
]


class TestNotice:
    def test_it_has_the_mailbox_looked_at_long_before_the_next_poll(
        self, connect: Start, google: Google, model: Model
    ) -> None:
        daemon = connect(**PUSH, poll_seconds=HOUR)
        daemon.up()
        daemon.wait_for(lambda: account(daemon)["last_sync"], "the first look is over")
        model.script([[reply("Friday is fine."), DONE]])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")

        def pushed() -> bool:  # more than once, as Gmail tells of every change
            assert push(daemon).status_code == 204
            return len(daemon.items(status="pending")) == 1

        looks = len(google.calls("history.list"))
        daemon.wait_for(pushed, "the mail is worked on")
        assert len(google.calls("history.list")) > looks

    def test_it_wakes_the_look_into_the_mailbox_that_it_names_and_nothing_else(self, connect: Start) -> None:
        daemon = connect(**PUSH)
        daemon.api()
        execute(daemon, "delete from procrastinate_jobs")
        for address in ("eve@example.org", "", "\0"):
            assert push(daemon, body=notice(address)).status_code == 204
        assert jobs(daemon) == []
        for _ in range(2):
            assert push(daemon, body=notice(ADA.upper())).status_code == 204
        assert jobs(daemon) == ["sync_account"]
        daemon.cli("account", "pause", ADA)
        execute(daemon, "delete from procrastinate_jobs")
        assert push(daemon).status_code == 204
        assert jobs(daemon) == []

    def test_another_token_is_refused_before_anything_is_read(self, start: Start) -> None:
        daemon = start(**PUSH)
        for token in (None, "", TOKEN[:-1], TOKEN + " ", TOKEN.upper(), API_TOKEN):
            refused = push(daemon, token, content=b"{")
            assert refused.status_code == 403
            assert refused.headers["content-type"] == "application/problem+json"
            assert TOKEN not in refused.text

    def test_its_token_opens_nothing_else(self, start: Start) -> None:
        daemon = start(**PUSH)
        with httpx.Client(base_url=daemon.http.base_url, trust_env=False, params={"token": TOKEN}) as stranger:
            assert stranger.get("/api/inbox").status_code == 401
            assert stranger.get("/").status_code == 401
            assert stranger.get("/google/push").status_code == 405
        assert TOKEN not in daemon.logs()

    def test_what_is_no_notice_is_refused(self, start: Start) -> None:
        daemon = start(**PUSH)
        for body in NO_NOTICES:
            assert push(daemon, content=body).status_code == 400, body
        assert push(daemon, content=b" " * 1_000_001).status_code == 413

    def test_without_the_setting_there_is_none(self, daemon: Daemon, google: Google) -> None:
        for token in (TOKEN, "", "None"):
            assert push(daemon, token).status_code == 404
        daemon.until_polled(2)
        assert google.calls("watch", "stop") == []


class TestWatch:
    def test_it_is_asked_for_once_and_again_after_a_day(self, start: Start, google: Google) -> None:
        daemon = start(**PUSH)
        until_watched(daemon, google)
        daemon.until_polled(4)
        assert len(google.calls("watch")) == 1
        assert google.calls("watch")[0].body == {"topicName": TOPIC}
        assert "Gmail tells of new mail at once" in daemon.http.get("/accounts").text

        execute(daemon, "update accounts set watch_after = watch_after - interval '23 hours'")
        daemon.until_polled(4)
        assert len(google.calls("watch")) == 1
        execute(daemon, "update accounts set watch_after = watch_after - interval '1 hour'")
        daemon.wait_for(lambda: len(google.calls("watch")) == 2, "it is renewed")
        daemon.until_polled(4)
        assert len(google.calls("watch")) == 2

    def test_several_schedulers_ask_once(self, connect: Start, google: Google) -> None:
        daemon = connect(**PUSH)
        google.fault("watch", delay=1.2)
        for _ in range(2):
            daemon.scheduler()
        daemon.worker()
        until_watched(daemon, google)
        daemon.until_polled(4)
        assert len(google.calls("watch")) == 1

    def test_a_refusal_is_told_and_polling_goes_on(self, start: Start, google: Google, model: Model) -> None:
        google.fault("watch", status=403, reason="forbidden", times=1)
        daemon = start(**PUSH)
        daemon.wait_for(lambda: account(daemon)["watch_error"], "the refusal is told")
        told = f"Gmail does not push to {TOPIC}"
        assert told in account(daemon)["watch_error"]
        assert told in daemon.cli("status").replace("\n", " ")
        assert "gmail-api-push@system.gserviceaccount.com" in daemon.http.get("/accounts").text
        mail = google.deliver(BOB, "News", "Nothing to do.")
        model.on_triage("ignore")
        daemon.until_done(mail)
        assert account(daemon)["watch_error"]
        assert len(google.calls("watch")) == 1

        execute(daemon, "update accounts set watch_after = '-infinity'")
        daemon.wait_for(lambda: not account(daemon)["watch_error"], "the next try goes well")

    def test_a_passing_fault_is_tried_again(self, start: Start, google: Google) -> None:
        google.fault("watch", status=503)
        daemon = start(**PUSH)
        daemon.wait_for(lambda: google.calls("watch"), "Gmail is asked to push")
        assert account(daemon)["watch_error"] is None
        execute(daemon, "update accounts set watch_after = watch_after - interval '5 minutes'")
        until_watched(daemon, google)

    def test_another_topic_takes_its_place_and_none_ends_it(self, start: Start, google: Google) -> None:
        daemon = start(**PUSH)
        until_watched(daemon, google)
        for topic, token in ((f"{TOPIC}2", TOKEN), ("", "")):
            daemon.stop()
            daemon.environment |= {"EMAIL_ASSISTANT_PUSH_TOPIC": topic, "EMAIL_ASSISTANT_PUSH_TOKEN": token}
            daemon.up()
            daemon.wait_for(partial(_is_told, google, topic), "Gmail is asked anew")
        daemon.until_polled(3)
        assert [call.name for call in google.calls("watch", "stop")] == ["watch", "watch", "stop"]

    def test_removing_the_account_ends_it(self, start: Start, google: Google) -> None:
        daemon = start(**PUSH)
        until_watched(daemon, google)
        daemon.wait_for(lambda: "Gmail tells of new mail" in daemon.http.get("/accounts").text)
        daemon.cli("account", "remove", ADA, "--yes")
        assert google.watch_topic == ""

    def test_it_is_renewed_well_before_its_end(self, start: Start, google: Google) -> None:
        daemon = start(**PUSH)
        until_watched(daemon, google)
        with psycopg.connect(daemon.environment["DATABASE_URL"]) as conn:
            row = conn.execute("select watch_until, watch_after from email_assistant.accounts").fetchone()
        assert row is not None
        until, again = row
        now = datetime.now(UTC)
        assert now + timedelta(days=6) < until
        assert now + timedelta(hours=23) < again < now + timedelta(days=1)


class TestSettings:
    @pytest.mark.parametrize(
        ("topic", "token", "complaint"),
        [
            ("gmail", TOKEN, "EMAIL_ASSISTANT_PUSH_TOPIC: takes the full name of a Pub/Sub topic"),
            (TOPIC, "short", "EMAIL_ASSISTANT_PUSH_TOKEN: takes at least 16"),
            (TOPIC, "", "need each other: set both"),
            ("", TOKEN, "need each other: set both"),
        ],
    )
    def test_they_are_checked_at_start(self, connect: Start, topic: str, token: str, complaint: str) -> None:
        daemon = connect()
        daemon.environment |= {"EMAIL_ASSISTANT_PUSH_TOPIC": topic, "EMAIL_ASSISTANT_PUSH_TOKEN": token}
        refused = daemon.run("status")
        assert refused.returncode != 0
        assert complaint in " ".join(refused.stderr.split())
        assert not token or token not in refused.stderr
