"""Every fault of Google's on every kind of request, against the running program: nothing lost, nothing twice, and the
person sees why it takes longer.

Mail is on @emulators/google behind our front, calendars on myworld. One program runs through all of it; a row arms its
fault for the next request of each kind.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal

import pytest

from tests import tables
from tests.databases import databases
from tests.doubles.daemon import Daemon, Item
from tests.doubles.emulator import EmulatedGoogle
from tests.doubles.front import Call
from tests.doubles.model import Answer, Model, ModelRequest
from tests.integration.scene import ADA, BOB, DONE, NEXT_WEEK, meeting, reply

Operation = Literal["read", "modify", "send", "event insert"]
OPERATIONS: Final[dict[Operation, str]] = {
    "read": "messages.get",
    "modify": "messages.modify",
    "send": "drafts.send",
    "event insert": "events.insert",
}
TITLE: Final = "Faults of Google's, and what became of the request"


@dataclass(frozen=True)
class Row:
    """One fault."""

    how: Mapping[str, Any]
    shown: str = ""
    """What the person reads while the program waits; nothing if it need not wait."""
    once: frozenset[Operation] = frozenset()
    """Kinds of request that are found to be done, or whose answer says nothing, and so are not made again."""
    wait: float = 0
    """Seconds that Google said to wait."""

    def calls(self, operation: Operation) -> int:
        return 1 if operation in self.once else 2

    def waits(self, operation: Operation) -> bool:
        return bool(self.shown) and operation not in self.once


WRITES: Final = frozenset[Operation]({"send", "event insert"})
ROWS: Final = {
    "401": Row({"status": 401, "reason": "authError"}),
    "403 rate": Row({"status": 403, "reason": "userRateLimitExceeded"}, "answered 403 (userRateLimitExceeded)"),
    "429, deadline in the header": Row({"status": 429, "reason": "rateLimitExceeded", "retry_after": 2}, "429", wait=2),
    "429, deadline in the text": Row({"status": 429, "reason": "rateLimitExceeded", "retry_said": 2}, "429", wait=2),
    "500": Row({"status": 500}, "answered 500"),
    "502 as HTML": Row({"html502": True}, "answered 502"),
    "truncated body": Row({"truncated": True}, "unreadable answer", once=WRITES | {"modify"}),
    "time-out before": Row({"hang": "before"}, "no answer"),
    "time-out after": Row({"hang": "after"}, "no answer", once=WRITES),
    "dropped before": Row({"drop": "before"}, "no answer"),
    "dropped after": Row({"drop": "after"}, "no answer", once=WRITES),
}
REVOKED: Final = "invalid_grant"
NOT_APPLICABLE: Final = "n/a: only history is read so"


@dataclass
class Seen:
    """What the API has said to be in the way of some mails, and of the account, over time."""

    daemon: Daemon
    mails: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    account: set[str] = field(default_factory=set)

    def all_done(self, *mail_ids: str) -> bool:
        self.look()
        return all(self.daemon.mail(mail_id).get("state") == "done" for mail_id in mail_ids)

    def waiting(self, count: int) -> list[Item]:
        self.look()
        items = [item for item in self.daemon.items(status="pending") if item["kind"] != "notification"]
        return items if len(items) == count else []

    def waits_for_login(self) -> bool:
        self.look()
        return bool(account_of(self.daemon)["state"] == "login")

    def look(self) -> None:
        """A notice is answered, so that its mail is done without a letter."""
        for item in self.daemon.items(status="pending", kind="notification"):
            self.daemon.answer(item, "response", "It is done.")
        for mail in self.daemon.mails():
            self.mails[mail["id"]] |= {reason for reason in [mail["reason"] or ""] if reason.startswith("waiting: ")}
        self.account |= {error for error in [account_of(self.daemon)["last_error"]] if error}


@pytest.fixture(scope="module")
def daemon(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_url: str,
    google: EmulatedGoogle,
    model: Model,
) -> Iterator[Daemon]:
    model.on_triage(lambda request: "respond" if operation_of(request) in WRITES else "notify")
    model.script(proposed)
    home = tmp_path_factory.mktemp("home")
    # Without labels the only change of a message is that it is marked as read.
    settings = {"poll_seconds": 1, "google_timeout_seconds": 1, "replies_per_day": 1000, "labels": False}
    with (
        databases(postgres_url).migrated() as url,
        Daemon(home, url, google, model, **settings) as program,
    ):
        program.account_add(ADA)
        program.up()
        program.until_polled(2)
        yield program


def proposed(request: ModelRequest) -> Answer:
    """A mail's subject says what is to be done about it."""
    operation, fault = operation_of(request), request.mail.subject.partition(": ")[2]
    start = NEXT_WEEK + timedelta(hours=2 * [*ROWS, REVOKED].index(fault)) if operation == "event insert" else NEXT_WEEK
    return {
        "send": [reply(request.mail.subject), DONE],
        "event insert": [meeting(start, title=request.mail.subject), DONE],
    }.get(operation, [DONE])


def operation_of(request: ModelRequest) -> str:
    return request.mail.subject.partition(":")[0]


def account_of(daemon: Daemon) -> Item:
    [account] = daemon.http.get("/api/accounts").json()["items"]
    return dict(account)


def deliver(google: EmulatedGoogle, operation: Operation, fault: str) -> str:
    return google.deliver(BOB, f"{operation}: {fault}", "Does Friday suit you?")


def calls_for(google: EmulatedGoogle, operation: Operation, mail_id: str, since: float) -> list[Call]:
    """Requests of this kind that a mail caused. Nothing else is sent or inserted meanwhile."""
    about = mail_id if operation in ("read", "modify") else ""
    return [call for call in google.calls(OPERATIONS[operation]) if about in call.path and call.time > since]


def check_done(google: EmulatedGoogle, fault: str, mails: Mapping[Operation, str]) -> None:
    """Each mail was carried through, once."""
    assert not any(google.message(mail_id).is_unread for mail_id in mails.values())
    thread = google.thread_of(mails["send"])
    assert [sent.text for sent in google.sent if sent.thread_id == thread] == [f"send: {fault}"]
    assert len([event for event in google.events if event["summary"] == f"event insert: {fault}"]) == 1
    assert google.drafts == []


@pytest.mark.parametrize("fault", ROWS)
def test_row(daemon: Daemon, google: EmulatedGoogle, fault: str, record_property: tables.Record) -> None:
    row, seen, began = ROWS[fault], Seen(daemon), time.monotonic()
    with google.at_once():
        mails = {operation: deliver(google, operation, fault) for operation in OPERATIONS}
        for operation, mail_id in mails.items():
            google.fault(OPERATIONS[operation], about="" if operation in WRITES else mail_id, **row.how)

    items = daemon.wait_for(lambda: seen.waiting(2), "both proposals wait")
    for item in items:
        daemon.accept(item)
    daemon.wait_for(lambda: seen.all_done(*mails.values()), "all is done")

    check_done(google, fault, mails)
    assert [daemon.item(item["id"])["status"] for item in items] == ["applied", "applied"]
    for operation, mail_id in mails.items():
        calls = calls_for(google, operation, mail_id, began)
        told = seen.account if operation == "read" else seen.mails[mail_id]
        assert len(calls) == row.calls(operation), operation
        # Once over its quota, the account is also told to wait by the program itself.
        told_of_it = [reason for reason in told if row.shown in reason]
        assert (bool(told), bool(told_of_it)) == (row.waits(operation),) * 2, (operation, told)
        assert calls[-1].time - calls[0].time >= (row.wait if row.waits(operation) else 0), operation
        times = "at once" if row.calls(operation) == 1 else "at the second try"
        tables.fill(record_property, TITLE, fault, operation, f"once, {times}")


@pytest.mark.parametrize("fault", ["expired history", "page without history"])
def test_history(daemon: Daemon, google: EmulatedGoogle, fault: str, record_property: tables.Record) -> None:
    began = time.monotonic()
    with google.at_once():
        mail_id = deliver(google, "read", fault)
        if fault == "expired history":
            google.expire_history()
        else:
            google.fault("history.list", empty_page=True)
    seen = Seen(daemon)
    daemon.wait_for(lambda: seen.all_done(mail_id), "the mail is done")
    assert len(calls_for(google, "read", mail_id, began)) == 1
    tables.fill(record_property, TITLE, fault, "read", "once, at the second try")
    for operation in OPERATIONS:
        if operation != "read":
            tables.fill(record_property, TITLE, fault, operation, NOT_APPLICABLE)


def test_a_login_that_ends(daemon: Daemon, google: EmulatedGoogle, record_property: tables.Record) -> None:
    """The account waits for its person, who logs in again; then everything goes on where it was."""
    seen, began = Seen(daemon), time.monotonic()
    mails: dict[Operation, str] = {}
    for operation in OPERATIONS:
        asked = len(google.calls("token"))
        with google.at_once():
            mail_id = mails[operation] = deliver(google, operation, REVOKED)
            if operation not in WRITES:
                end_login_at(google, operation, mail_id)
        if operation in WRITES:
            [item] = daemon.pending()
            end_login_at(google, operation, "")
            daemon.accept(item)
        daemon.wait_for(seen.waits_for_login, "the account waits for its person")
        assert "no longer accepts the login" in account_of(daemon)["last_error"]
        assert len(google.calls("token")) == asked + 1
        daemon.account_add(ADA)
        daemon.wait_for(partial(seen.all_done, mail_id), "the mail is done")
        assert len(calls_for(google, operation, mail_id, began)) == 2
        tables.fill(record_property, TITLE, REVOKED, operation, "once, after the next login")
    check_done(google, REVOKED, mails)


def end_login_at(google: EmulatedGoogle, operation: Operation, mail_id: str) -> None:
    google.fault(OPERATIONS[operation], about=mail_id, status=401, reason="authError")
    google.fault("token", status=400, reason="invalid_grant")
