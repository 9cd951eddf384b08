"""The Google client against a real HTTP server that fails in every way we know of."""

import asyncio
import base64
import json
import logging
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from email_assistant.google import errors
from email_assistant.google.account import GoogleAccount
from email_assistant.google.auth import Renew, read_token_file
from email_assistant.google.calendar import Event
from email_assistant.google.client import Wire
from email_assistant.google.gmail import Change, Draft, MessageRef, SendAs
from tests.contract.faulty_http import Answer, Fault, FaultyServer, Request, ok, refused

TIMEOUT = 0.3  # seconds, for calls that are to run into it
AMPLE = 10.0
ME = "/gmail/v1/users/me"
EVENTS = "/calendar/v3/calendars/primary/events"
SECRET = "the-access-token"
HTML = b"<html><body>Bad gateway for the-access-token and Dear Ann</body></html>"
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)

PROFILE = {"emailAddress": "ann@example.com", "historyId": "42"}
DRAFT = {"id": "d1", "message": {"id": "m1", "threadId": "t1"}}
SENT = {"id": "m2", "threadId": "t1", "labelIds": ["SENT"]}
EVENT = {
    "id": "abcde",
    "iCalUID": "abcde@google.com",
    "status": "confirmed",
    "summary": "Tea",
    "start": {"dateTime": "2026-03-02T10:00:00+01:00"},
    "end": {"dateTime": "2026-03-02T11:00:00+01:00"},
    "attendees": [{"email": "bob@example.com"}],
    "htmlLink": "https://calendar.example/abcde",
}


def token(expires_in: float = 3600) -> dict[str, Any]:
    expiry = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=expires_in)
    return {
        "type": "authorized_user",
        "token": SECRET,
        "refresh_token": "the-refresh-token",
        "client_id": "client",
        "client_secret": "the-client-secret",
        "scopes": ["https://www.googleapis.com/auth/gmail.modify"],
        "expiry": f"{expiry.isoformat()}Z",
        "account": "kept",
    }


class Stored:
    """The token as all processes find it."""

    def __init__(self, expires_in: float = -60) -> None:
        self.token = token(expires_in)
        self.saved: list[str] = []
        self.is_away = False
        self._lock = asyncio.Lock()

    async def exchange(self, renew: Renew) -> None:
        async with self._lock:
            renewed = await renew(self.token)
            if self.is_away:
                raise OSError("the database is away")
            if renewed is not self.token:
                self.token = renewed
                self.saved.append(renewed["token"])


NEW_TOKEN = ok({"access_token": "renewed", "expires_in": 3600, "token_type": "Bearer"})


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    server = FaultyServer()
    server.answer("POST", "/token", NEW_TOKEN)
    yield server
    server.close()


@asynccontextmanager
async def opened(
    server: FaultyServer, expires_in: float = 3600, stored: Stored | None = None, seconds: float = AMPLE
) -> AsyncIterator[GoogleAccount]:
    exchange = stored.exchange if stored else None
    async with aclosing(Wire(server.url)) as wire:
        yield GoogleAccount(token(expires_in), wire, timeout=seconds, exchange_token=exchange)


@pytest.fixture
async def account(server: FaultyServer) -> AsyncIterator[GoogleAccount]:
    async with opened(server) as account:
        yield account


Action = Callable[[GoogleAccount], Awaitable[object]]


class Case:
    """A method, the request that it makes, and the body that would be its success."""

    def __init__(self, name: str, method: str, path: str, act: Action, success: Any) -> None:
        self.name, self.method, self.path, self.act, self.success = name, method, path, act, success


def insert(account: GoogleAccount) -> Awaitable[Event]:
    return account.calendar.insert(
        "abcde",
        summary="Tea",
        start=NINE,
        end=NINE + timedelta(hours=1),
        timezone="Europe/Berlin",
        attendees=["bob@example.com"],
    )


PROFILE_READ = Case("profile", "GET", f"{ME}/profile", lambda a: a.gmail.profile(), PROFILE)
CREATE = Case("create_draft", "POST", f"{ME}/drafts", lambda a: a.gmail.create_draft(b"Subject: x", "t1"), DRAFT)
SEND = Case("send_draft", "POST", f"{ME}/drafts/send", lambda a: a.gmail.send_draft("d1"), SENT)
INSERT = Case("insert", "POST", EVENTS, insert, EVENT)
MODIFY = Case("modify", "POST", f"{ME}/messages/m1/modify", lambda a: a.gmail.modify_labels("m1", add=["L"]), {})
DELETE = Case("delete_draft", "DELETE", f"{ME}/drafts/d1", lambda a: a.gmail.delete_draft("d1"), {})

READS = [
    PROFILE_READ,
    Case("message", "GET", f"{ME}/messages/m1", lambda a: a.gmail.message("m1"), {}),
    Case("history", "GET", f"{ME}/history", lambda a: a.gmail.history(7), {"historyId": "9"}),
    Case("events", "GET", EVENTS, lambda a: a.calendar.events(NINE, NINE + timedelta(days=1)), {"items": []}),
]
WRITES = [SEND, CREATE, INSERT]
REPEATABLE = [
    MODIFY,
    DELETE,
    Case("watch", "POST", f"{ME}/watch", lambda a: a.gmail.watch("projects/p/topics/mail"), {"expiration": "1"}),
    Case("stop_watch", "POST", f"{ME}/stop", lambda a: a.gmail.stop_watch(), {}),
]


def named(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def faulty(case: Case, fault: str) -> Answer:
    """The answer that fails in one of the ways below."""
    match fault:
        case "408" | "500" | "503":
            return refused(int(fault), "backendError", "Dear Ann")
        case "HTML 502":
            return Answer(502, HTML, {"Content-Type": "text/html"})
        case "redirect":
            return Answer(302, b"", {"Location": case.path})
        case "cut JSON":
            return Answer(body=json.dumps(case.success).encode()[:-1])
        case "HTML 200":
            return Answer(body=HTML)
        case "empty":
            return Answer(body=b"")
        case "not text":
            return Answer(body=b"\xff\xfe")
        case "JSON list":
            return ok([case.success])
        case "bad gzip":
            return Answer(body=HTML, headers={"Content-Encoding": "gzip"})
        case "cut chunk":
            chunked = {"Transfer-Encoding": "chunked", "Content-Length": "0", "Connection": "close"}
            return Answer(body=b'ff\r\n{"id"', headers=chunked, fault="truncate")
        case "short body":
            return ok(case.success | {"padding": "x" * 100}, fault="truncate")
        case _:
            kind: Fault = fault  # type: ignore[assignment]
            return ok(case.success | {"padding": "x" * 100}, fault=kind)


ENDLESS = ["hold", "trickle body", "trickle headers"]
BROKEN = [
    "drop before commit",
    "drop after commit",
    "hold",
    "408",
    "500",
    "503",
    "HTML 502",
    "redirect",
    "short body",
    "cut chunk",
    "bad gzip",
]
UNREADABLE = ["cut JSON", "HTML 200", "empty", "not text", "JSON list"]
SOME = ["drop before commit", "drop after commit", "500", "HTML 502", "short body"]


async def failing(server: FaultyServer, case: Case, fault: str) -> errors.GoogleError:
    """Run the case into the fault; whatever happens, it is on the wire once."""
    server.answer(case.method, case.path, faulty(case, fault))
    async with opened(server, seconds=TIMEOUT if fault in ENDLESS else AMPLE) as account:
        with pytest.raises(errors.GoogleError) as caught:
            await case.act(account)
    assert len(server.received(case.method, case.path)) == 1
    return caught.value


def each(cases: list[Case], all_faults: list[str]) -> list[Any]:
    """The first case with all faults, the others with some."""
    pairs = [(case, fault) for case in cases for fault in (all_faults if case is cases[0] else SOME)]
    return [pytest.param(case, fault, id=f"{case.name}-{fault}") for case, fault in pairs]


@pytest.mark.parametrize(("case", "fault"), each(READS, BROKEN + UNREADABLE))
async def test_a_failed_read_is_transient(server: FaultyServer, case: Case, fault: str) -> None:
    assert type(await failing(server, case, fault)) is errors.Transient


@pytest.mark.parametrize(("case", "fault"), each(WRITES, BROKEN + UNREADABLE))
async def test_a_write_without_a_readable_answer_is_ambiguous_and_sent_once(
    server: FaultyServer, case: Case, fault: str
) -> None:
    assert type(await failing(server, case, fault)) is errors.Ambiguous
    assert len(server.commits) == (
        0 if fault in {"drop before commit", "408", "500", "503", "HTML 502", "redirect"} else 1
    )


@pytest.mark.parametrize(("case", "fault"), each(REPEATABLE, BROKEN))
async def test_a_failed_write_that_may_be_repeated_is_transient(server: FaultyServer, case: Case, fault: str) -> None:
    assert type(await failing(server, case, fault)) is errors.Transient


@pytest.mark.parametrize("case", named([PROFILE_READ, *WRITES, *REPEATABLE]))
async def test_a_request_that_never_left_is_transient(case: Case) -> None:
    gone = FaultyServer()
    gone.close()
    async with opened(gone) as account:
        with pytest.raises(errors.Transient):
            await case.act(account)


@pytest.mark.parametrize("fault", ["trickle body", "trickle headers"])
@pytest.mark.parametrize("case", named([PROFILE_READ, SEND]))
async def test_the_deadline_is_for_the_whole_call(server: FaultyServer, case: Case, fault: str) -> None:
    """Its thread included, which closing the account waits for."""
    started = time.monotonic()
    await failing(server, case, fault)
    assert TIMEOUT * 0.9 < time.monotonic() - started < 10  # the whole answer would trickle for over 14 s


ANSWERED = [
    (refused(400, "invalidArgument"), errors.Refused),
    (refused(403, "insufficientPermissions"), errors.Refused),
    (Answer(400, HTML), errors.Refused),
    (refused(409, "duplicate"), errors.Exists),
    (refused(404, "notFound"), errors.NotFound),
    (refused(410, "deleted"), errors.NotFound),
    (refused(429, "rateLimitExceeded"), errors.RateLimited),
    (Answer(429, HTML), errors.RateLimited),
    (refused(403, "rateLimitExceeded"), errors.RateLimited),
    (refused(403, "userRateLimitExceeded"), errors.RateLimited),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERED)
@pytest.mark.parametrize("case", named([PROFILE_READ, INSERT]))
async def test_a_refusal_is_the_same_for_reads_and_writes(
    server: FaultyServer, account: GoogleAccount, case: Case, answer: Answer, expected: type[errors.GoogleError]
) -> None:
    server.answer(case.method, case.path, answer)
    with pytest.raises(errors.GoogleError) as caught:
        await case.act(account)
    assert type(caught.value) is expected
    assert len(server.received(case.method, case.path)) == 1


async def test_a_refusal_carries_status_and_reason(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("GET", f"{ME}/profile", refused(403, "insufficientPermissions"))
    with pytest.raises(errors.Refused) as caught:
        await account.gmail.profile()
    assert (caught.value.code, caught.value.reason) == (403, "insufficientPermissions")
    assert str(caught.value) == "gmail.users.getProfile: Google answered 403 (insufficientPermissions)"


@pytest.mark.parametrize(
    ("answer", "until"),
    [
        (
            refused(429, "rateLimitExceeded", headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
            datetime(2026, 10, 21, 7, 28, tzinfo=UTC),
        ),
        (
            refused(403, "userRateLimitExceeded", "User-rate limit exceeded.  Retry after 2026-05-01T10:00:00.500Z"),
            datetime(2026, 5, 1, 10, 0, 0, 500_000, tzinfo=UTC),
        ),
        (
            refused(429, "rateLimitExceeded", "Retry after 2026-05-01T10:00:00.000Z (Mail sending)"),
            datetime(2026, 5, 1, 10, tzinfo=UTC),
        ),
        (refused(429, "rateLimitExceeded", headers={"Retry-After": "soon"}), None),
        (refused(429, "rateLimitExceeded", "Retry after lunch"), None),
    ],
)
async def test_when_quota_returns(
    server: FaultyServer, account: GoogleAccount, answer: Answer, until: datetime | None
) -> None:
    server.answer("GET", f"{ME}/profile", answer)
    with pytest.raises(errors.RateLimited) as caught:
        await account.gmail.profile()
    assert caught.value.until == until


async def test_retry_after_in_seconds_counts_from_now(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("GET", f"{ME}/profile", refused(429, "rateLimitExceeded", headers={"Retry-After": "120"}))
    before = datetime.now(UTC)
    with pytest.raises(errors.RateLimited) as caught:
        await account.gmail.profile()
    assert caught.value.until is not None
    assert before + timedelta(seconds=120) <= caught.value.until <= datetime.now(UTC) + timedelta(seconds=120)


# The login


@pytest.mark.parametrize("case", named([PROFILE_READ, SEND]))
async def test_a_401_costs_one_renewal_and_one_repeat(server: FaultyServer, case: Case) -> None:
    stored = Stored(3600)
    server.answer(case.method, case.path, refused(401, "authError"), ok(case.success))
    async with opened(server, stored=stored) as account:
        await case.act(account)
        await case.act(account)
    sent = [request.headers["authorization"] for request in server.received(case.method, case.path)]
    assert sent == [f"Bearer {SECRET}", "Bearer renewed", "Bearer renewed"]
    assert len(server.received("POST", "/token")) == 1
    assert stored.saved == ["renewed"]


async def test_a_second_401_is_revoked(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("POST", f"{ME}/drafts/send", refused(401, "authError"))
    with pytest.raises(errors.Revoked):
        await account.gmail.send_draft("d1")
    assert len(server.received("POST", f"{ME}/drafts/send")) == 2


@pytest.mark.parametrize("expires_in", [-60, 60])
async def test_five_calls_renew_an_expiring_token_once(server: FaultyServer, expires_in: float) -> None:
    stored = Stored(expires_in)
    server.answer("GET", f"{ME}/profile", ok(PROFILE))
    async with opened(server, expires_in, stored) as account:
        await asyncio.gather(*(account.gmail.profile() for _ in range(5)))

    (renewal,) = server.received("POST", "/token")
    form = dict(pair.split("=") for pair in renewal.body.decode().split("&"))
    assert form == {
        "grant_type": "refresh_token",
        "client_id": "client",
        "client_secret": "the-client-secret",
        "refresh_token": "the-refresh-token",
    }
    used = {request.headers["authorization"] for request in server.received("GET", f"{ME}/profile")}
    assert used == {"Bearer renewed"}
    assert stored.saved == ["renewed"]
    kept = stored.token
    assert datetime.fromisoformat(kept["expiry"]) > datetime.now(UTC) + timedelta(minutes=50)
    assert kept == token() | {"token": "renewed", "expiry": kept["expiry"]}


async def test_five_401s_at_once_renew_once(server: FaultyServer) -> None:
    def judge(request: Request) -> Answer:
        return ok(PROFILE) if request.headers["authorization"] == "Bearer renewed" else refused(401, "authError")

    server.answer("GET", f"{ME}/profile", judge)
    async with opened(server) as account:
        await asyncio.gather(*(account.gmail.profile() for _ in range(5)))
    assert len(server.received("POST", "/token")) == 1


async def test_a_renewed_token_serves_a_new_account(server: FaultyServer) -> None:
    stored = Stored()
    server.answer("GET", f"{ME}/profile", ok(PROFILE))
    async with opened(server, -60, stored) as account:
        await account.gmail.profile()
    async with aclosing(Wire(server.url)) as wire:
        await GoogleAccount(stored.token, wire, timeout=AMPLE).gmail.profile()
    assert len(server.received("POST", "/token")) == 1


async def test_whoever_comes_second_uses_what_the_first_has_stored(server: FaultyServer) -> None:
    stored = Stored()
    server.answer("POST", "/token", replace(NEW_TOKEN, fault="hold"))
    server.answer("GET", f"{ME}/profile", ok(PROFILE))
    async with opened(server, -60, stored) as first, opened(server, -60, stored) as second:
        calls = [asyncio.create_task(account.gmail.profile()) for account in (first, second)]
        await asyncio.to_thread(server.wait_for, "POST", "/token")
        server.released.set()
        await asyncio.gather(*calls)
    assert len(server.received("POST", "/token")) == 1
    assert stored.saved == ["renewed"]


@pytest.mark.parametrize("case", named([PROFILE_READ, SEND]))
async def test_a_stored_token_that_is_refused_too_is_renewed(server: FaultyServer, case: Case) -> None:
    stored = Stored(3600)
    stored.token["token"] = "renewed elsewhere"
    server.answer(case.method, case.path, *[refused(401, "authError")] * 2, ok(case.success))
    async with opened(server, stored=stored) as account:
        await case.act(account)
    sent = [request.headers["authorization"] for request in server.received(case.method, case.path)]
    assert sent == [f"Bearer {SECRET}", "Bearer renewed elsewhere", "Bearer renewed"]


async def test_a_token_that_cannot_be_stored_hides_no_result_and_is_used(
    server: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    stored = Stored()
    stored.is_away = True
    server.answer("POST", f"{ME}/drafts/send", ok(SENT))
    async with opened(server, -60, stored) as account:
        assert await account.gmail.send_draft("d1") == MessageRef("m2", "t1")
        await account.gmail.send_draft("d1")
    assert len(server.received("POST", "/token")) == 1
    assert "a renewed Google token was not stored (OSError)" in caplog.messages


async def test_a_login_that_was_ended_here_is_revoked(server: FaultyServer) -> None:
    stored = Stored()
    stored.token = {"client_id": "client", "client_secret": "the-client-secret"}
    async with opened(server, -60, stored) as account:
        with pytest.raises(errors.Revoked, match="log in again"):
            await account.gmail.profile()
    assert server.requests == []


@pytest.mark.parametrize("case", named([PROFILE_READ, SEND]))
async def test_no_renewal_without_the_lock_on_it(server: FaultyServer, case: Case) -> None:
    async def away(renew: Renew) -> None:
        raise OSError("the database is away")

    async with aclosing(Wire(server.url)) as wire:
        account = GoogleAccount(token(-60), wire, timeout=AMPLE, exchange_token=away)
        with pytest.raises(errors.Transient):
            await case.act(account)
    assert server.requests == []


@pytest.mark.parametrize("case", named([PROFILE_READ, SEND]))
async def test_invalid_grant_is_revoked_and_never_tried_again(server: FaultyServer, case: Case) -> None:
    server.answer("POST", "/token", Answer(400, b'{"error": "invalid_grant", "error_description": "Bad Request"}'))
    async with opened(server, -60) as account:
        for _ in range(2):
            with pytest.raises(errors.Revoked, match="log in again"):
                await case.act(account)
    assert len(server.received("POST", "/token")) == 1
    assert server.received(case.method, case.path) == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500, b'{"error": "internal_failure"}'),
        Answer(503, HTML),
        Answer(404, HTML),
        Answer(400, b'{"error": "invalid_request"}'),
        Answer(body=HTML),
        Answer(body=b"{}"),
        Answer(body=b"[]"),
        ok({"access_token": "renewed"}, fault="truncate"),
        ok({"access_token": "renewed"}, fault="drop after commit"),
        ok({"access_token": "renewed"}, fault="hold"),
    ],
)
@pytest.mark.parametrize("case", named([PROFILE_READ, SEND]))
async def test_a_passing_fault_of_the_token_endpoint_is_transient(
    server: FaultyServer, case: Case, answer: Answer
) -> None:
    server.answer("POST", "/token", answer, NEW_TOKEN)
    server.answer(case.method, case.path, ok(case.success))
    async with opened(server, -60, seconds=TIMEOUT if answer.fault in ENDLESS else AMPLE) as account:
        with pytest.raises(errors.GoogleError) as caught:
            await case.act(account)
        assert type(caught.value) is errors.Transient
        assert server.received(case.method, case.path) == []
        await case.act(account)
    assert len(server.received("POST", "/token")) == 2


async def test_writes_refused_with_401_are_never_in_doubt(server: FaultyServer) -> None:
    """Neither the one that renews the login nor the one that waits for it."""
    server.answer("POST", f"{ME}/drafts/send", replace(refused(401, "authError"), together=2))
    server.answer("POST", "/token", ok({"access_token": "renewed"}, fault="hold"))
    async with opened(server, seconds=TIMEOUT) as account:
        sends = [account.gmail.send_draft(id_) for id_ in ("d1", "d2")]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [errors.Transient] * 2
    assert len(server.received("POST", f"{ME}/drafts/send")) == 2


async def test_a_busy_token_endpoint_is_rate_limited(server: FaultyServer) -> None:
    server.answer("POST", "/token", Answer(429, b'{"error": "rate_limit_exceeded"}', {"Retry-After": "9"}))
    async with opened(server, -60) as account:
        with pytest.raises(errors.RateLimited):
            await account.gmail.profile()


# Nothing is sent late


async def test_a_call_that_ran_out_of_time_before_sending_never_sends(server: FaultyServer) -> None:
    server.answer("POST", "/token", ok({"access_token": "renewed"}, fault="hold"))
    server.answer("POST", f"{ME}/drafts/send", ok(SENT))
    async with opened(server, -60, seconds=TIMEOUT) as account:
        with pytest.raises(errors.Transient):
            await account.gmail.send_draft("d1")
        server.released.set()
    # The account is closed by now, so its threads have ended.
    assert server.received("POST", f"{ME}/drafts/send") == []


async def test_a_cancelled_call_never_sends(server: FaultyServer) -> None:
    server.answer("POST", "/token", ok({"access_token": "renewed"}, fault="hold"))
    server.answer("POST", f"{ME}/drafts/send", ok(SENT))
    async with opened(server, -60) as account:
        call = asyncio.create_task(account.gmail.send_draft("d1"))
        await asyncio.to_thread(server.wait_for, "POST", "/token")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        server.released.set()
    assert server.received("POST", f"{ME}/drafts/send") == []


FROZEN = """
import asyncio, json, sys
from email_assistant.google.account import GoogleAccount
from email_assistant.google.client import Wire
from email_assistant.google.errors import GoogleError

async def main():
    wire = Wire(sys.argv[2])
    account = GoogleAccount(json.loads(sys.argv[1]), wire, timeout=float(sys.argv[3]))
    try:
        await account.gmail.send_draft("d1")
    except GoogleError as error:
        print(type(error).__name__)
    await wire.aclose()

asyncio.run(main())
"""


def thawed_too_late(server: FaultyServer, expires_in: float, reached: Callable[[], object]) -> str:
    """Freeze a process that is about to send once it has `reached` a point; the error that it ends with."""
    seconds = 0.6
    command = [sys.executable, "-c", FROZEN, json.dumps(token(expires_in)), server.url, str(seconds)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        reached()
        os.kill(process.pid, signal.SIGSTOP)
        server.released.set()  # what the process needs to go on now waits in its socket
        threading.Event().wait(seconds)
        os.kill(process.pid, signal.SIGCONT)
        output, _ = process.communicate(timeout=10)
    return output.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGSTOP")
def test_a_process_frozen_while_it_renews_the_login_does_not_send_late(server: FaultyServer) -> None:
    server.answer("POST", "/token", ok({"access_token": "renewed"}, fault="hold"))
    server.answer("POST", f"{ME}/drafts/send", ok(SENT))
    assert thawed_too_late(server, -60, lambda: server.wait_for("POST", "/token")) == "Transient"
    assert server.received("POST", f"{ME}/drafts/send") == []


async def test_reads_share_a_connection_and_each_write_has_a_fresh_one(
    server: FaultyServer, account: GoogleAccount
) -> None:
    server.answer("GET", f"{ME}/profile", ok(PROFILE))
    server.answer("POST", f"{ME}/drafts/send", ok(SENT))
    for _ in range(3):
        await account.gmail.profile()
    for _ in range(3):
        await account.gmail.send_draft("d1")
    assert len({request.connection for request in server.received("GET", f"{ME}/profile")}) == 1
    assert len({request.connection for request in server.requests}) == 4


# TLS


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's side of TLS, and the file with the certificate to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = tmp_path / "key.pem"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, private)
    return context, file


@pytest.fixture
def tls_server(tls: tuple[ssl.SSLContext, Path]) -> Iterator[FaultyServer]:
    server = FaultyServer(tls[0])
    yield server
    server.close()


@pytest.mark.parametrize("fault", ["trickle headers", "drop after commit", "short body"])
async def test_a_write_over_tls_ends_and_is_sent_once(
    tls_server: FaultyServer, tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls[1]))
    tls_server.answer("GET", f"{ME}/profile", ok(PROFILE))
    async with opened(tls_server) as account:
        assert (await account.gmail.profile()).history_id == 42
    started = time.monotonic()
    assert type(await failing(tls_server, SEND, fault)) is errors.Ambiguous
    assert time.monotonic() - started < 10


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGSTOP")
def test_a_process_frozen_while_it_connects_does_not_send_late(
    tls_server: FaultyServer, tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls[1]))
    tls_server.hold_handshakes = True
    tls_server.answer("POST", f"{ME}/drafts/send", ok(SENT))
    assert thawed_too_late(tls_server, 3600, tls_server.connected.wait) == "Transient"
    assert tls_server.requests == []


async def test_a_call_cancelled_while_it_connects_never_sends(
    tls_server: FaultyServer, tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls[1]))
    tls_server.hold_handshakes = True
    tls_server.answer("POST", f"{ME}/drafts/send", ok(SENT))
    async with opened(tls_server) as account:
        call = asyncio.create_task(account.gmail.send_draft("d1"))
        await asyncio.to_thread(tls_server.connected.wait)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        tls_server.released.set()
    assert tls_server.requests == []


async def test_an_untrusted_server_is_sent_nothing(tls_server: FaultyServer) -> None:
    async with opened(tls_server) as account:
        with pytest.raises(errors.Transient):
            await account.gmail.send_draft("d1")
    assert tls_server.requests == []


# What is said


def spoken(error: BaseException, records: list[logging.LogRecord]) -> str:
    return "\n".join([str(error), *(record.getMessage() for record in records)])


@pytest.mark.parametrize("fault", [*SOME, *UNREADABLE])
async def test_neither_errors_nor_logs_tell_secrets_or_mail(
    server: FaultyServer, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    caplog.set_level(logging.DEBUG)
    case = Case("", "GET", f"{ME}/messages", lambda a: a.gmail.list_messages("from:Dear"), {"messages": []})
    error = await failing(server, case, fault)
    assert "\n" not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    for secret in (SECRET, "the-refresh-token", "the-client-secret", "renewed", "Dear", "<html>"):
        assert secret not in spoken(error, caplog.records)


async def test_a_renewal_is_silent_too(server: FaultyServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer("POST", "/token", Answer(400, b'{"error": "invalid_grant", "error_description": "renewed Dear"}'))
    async with opened(server, -60) as account:
        with pytest.raises(errors.Revoked) as caught:
            await account.gmail.profile()
    for secret in (SECRET, "the-refresh-token", "the-client-secret", "renewed", "Dear"):
        assert secret not in spoken(caught.value, caplog.records)


async def test_requests_carry_our_name(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("GET", f"{ME}/profile", ok(PROFILE))
    await account.gmail.profile()
    (request,) = server.requests
    assert request.headers["user-agent"].startswith("email-assistant")


# Gmail


async def test_profile(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("GET", f"{ME}/profile", ok(PROFILE))
    profile = await account.gmail.profile()
    assert (profile.address, profile.history_id) == ("ann@example.com", 42)


async def test_history_pages_may_be_empty(server: FaultyServer, account: GoogleAccount) -> None:
    record = {
        "id": "8",
        "messages": [{"id": "m1", "threadId": "t1"}],
        "messagesAdded": [{"message": {"id": "m1", "threadId": "t1", "labelIds": ["INBOX", "UNREAD"]}}],
        "messagesDeleted": [{"message": {"id": "m0", "threadId": "t0"}}],
        "labelsAdded": [{"message": {"id": "m1", "threadId": "t1", "labelIds": ["INBOX"]}, "labelIds": ["STARRED"]}],
        "labelsRemoved": [{"message": {"id": "m1", "threadId": "t1"}, "labelIds": ["UNREAD"]}],
    }
    server.answer(
        "GET",
        f"{ME}/history",
        ok({"nextPageToken": "p2", "historyId": "9"}),
        ok({"history": [record], "historyId": "9"}),
    )
    first = await account.gmail.history(7)
    assert (first.changes, first.next_page_token, first.history_id) == ((), "p2", 9)
    second = await account.gmail.history(7, first.next_page_token)
    assert second.next_page_token is None
    assert second.changes == (
        Change("added", "m1", "t1", frozenset({"INBOX", "UNREAD"})),
        Change("deleted", "m0", "t0", frozenset()),
        Change("labels_added", "m1", "t1", frozenset({"STARRED"})),
        Change("labels_removed", "m1", "t1", frozenset({"UNREAD"})),
    )
    queries = [request.query for request in server.received("GET", f"{ME}/history")]
    assert [query["startHistoryId"] for query in queries] == [["7"], ["7"]]
    assert [query.get("pageToken") for query in queries] == [None, ["p2"]]


async def test_an_expired_cursor_is_not_found(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("GET", f"{ME}/history", refused(404, "notFound"))
    with pytest.raises(errors.NotFound):
        await account.gmail.history(1)


async def test_list_messages(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer(
        "GET",
        f"{ME}/messages",
        ok({"messages": [{"id": "m1", "threadId": "t1"}], "nextPageToken": "p2"}),
        ok({"resultSizeEstimate": 0}),
    )
    first = await account.gmail.list_messages("is:unread", ["INBOX", "UNREAD"], max_results=1)
    assert first.refs == (MessageRef("m1", "t1"),)
    second = await account.gmail.list_messages(page_token=first.next_page_token)
    assert (second.refs, second.next_page_token) == ((), None)
    one, two = (request.query for request in server.requests)
    assert (one["q"], one["labelIds"], one["maxResults"]) == (["is:unread"], ["INBOX", "UNREAD"], ["1"])
    assert two["pageToken"] == ["p2"]
    assert "q" not in two
    assert "labelIds" not in two


async def test_a_very_long_search_is_still_one_read(server: FaultyServer, account: GoogleAccount) -> None:
    """Such a request is a POST on the wire (googleapiclient's MAX_URI_LENGTH), and yet no write."""
    server.answer("POST", f"{ME}/messages", Answer(500))
    with pytest.raises(errors.Transient):
        await account.gmail.list_messages("x" * 3000)


async def test_message_and_thread(server: FaultyServer, account: GoogleAccount) -> None:
    body = {
        "id": "m1",
        "threadId": "t1",
        "labelIds": ["INBOX"],
        "internalDate": "1772442000123",
        "historyId": "8",
        "sizeEstimate": 120,
        "payload": {"mimeType": "text/plain", "headers": []},
    }
    server.answer("GET", f"{ME}/messages/m1", ok(body))
    server.answer("GET", f"{ME}/threads/t1", ok({"id": "t1", "messages": [body, body | {"id": "m2"}]}))
    message = await account.gmail.message("m1")
    assert message.internal_date == NINE + timedelta(milliseconds=123)
    assert (message.labels, message.history_id) == (frozenset({"INBOX"}), 8)
    assert message.payload["mimeType"] == "text/plain"
    assert [message.id for message in await account.gmail.thread("t1")] == ["m1", "m2"]
    assert all(request.query["format"] == ["full"] for request in server.requests)


async def test_an_answer_that_lacks_what_it_must_have_is_no_answer(server: FaultyServer) -> None:
    server.answer("GET", f"{ME}/messages/m1", ok({"id": "m1"}))
    server.answer("POST", f"{ME}/drafts", ok({}))
    async with opened(server) as account:
        with pytest.raises(errors.Transient):
            await account.gmail.message("m1")
        with pytest.raises(errors.Ambiguous):
            await account.gmail.create_draft(b"Subject: x", None)


async def test_modify_labels(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("POST", f"{ME}/messages/m1/modify", ok({}))
    await account.gmail.modify_labels("m1", add=["STARRED"], remove=["UNREAD"])
    assert server.requests[0].json() == {"addLabelIds": ["STARRED"], "removeLabelIds": ["UNREAD"]}


async def test_the_life_of_a_draft(server: FaultyServer, account: GoogleAccount) -> None:
    raw = "Subject: Grüße\r\n\r\n??>>".encode()
    payload = {"headers": [{"name": "Subject", "value": "x"}]}
    server.answer("POST", f"{ME}/drafts", ok(DRAFT))
    server.answer("GET", f"{ME}/drafts/d1", ok({"id": "d1", "message": DRAFT["message"] | {"payload": payload}}))  # type: ignore[operator]
    server.answer("POST", f"{ME}/drafts/send", ok(SENT))
    server.answer("DELETE", f"{ME}/drafts/d1", Answer(204, b""), refused(404, "notFound"))

    draft = await account.gmail.create_draft(raw, "t1")
    assert (draft.id, draft.message_id, draft.thread_id, draft.payload) == ("d1", "m1", "t1", None)
    message = server.requests[0].json()["message"]
    assert base64.urlsafe_b64decode(message["raw"]) == raw
    assert message["threadId"] == "t1"
    assert (await account.gmail.draft("d1")).payload == payload
    assert await account.gmail.send_draft("d1") == MessageRef("m2", "t1")
    assert server.received("POST", f"{ME}/drafts/send")[0].json() == {"id": "d1"}
    await account.gmail.delete_draft("d1")
    await account.gmail.delete_draft("d1")


async def test_all_pages_of_drafts(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer(
        "GET",
        f"{ME}/drafts",
        ok({"drafts": [DRAFT], "nextPageToken": "p2"}),
        ok({"nextPageToken": "p3"}),
        ok({"drafts": [{"id": "d2", "message": {"id": "m2", "threadId": "t2"}}]}),
    )
    assert await account.gmail.drafts("in:draft") == (Draft("d1", "m1", "t1"), Draft("d2", "m2", "t2"))
    assert [request.query.get("pageToken") for request in server.requests] == [None, ["p2"], ["p3"]]
    assert {request.query["q"][0] for request in server.requests} == {"in:draft"}


async def test_send_as(server: FaultyServer, account: GoogleAccount) -> None:
    body = {
        "sendAs": [
            {"sendAsEmail": "ann@example.com", "displayName": "Ann", "signature": "<b>A</b>", "isPrimary": True},
            {"sendAsEmail": "info@example.com", "isDefault": True, "verificationStatus": "accepted"},
            {"sendAsEmail": "new@example.com", "verificationStatus": "pending"},
            {"sendAsEmail": "old@example.com"},
        ]
    }
    server.answer("GET", f"{ME}/settings/sendAs", ok(body))
    assert await account.gmail.send_as() == (
        SendAs("ann@example.com", "Ann", "<b>A</b>", default=False, primary=True, verified=True),
        SendAs("info@example.com", "", "", default=True, primary=False, verified=True),
        SendAs("new@example.com", "", "", default=False),
        SendAs("old@example.com", "", "", default=False),
    )


async def test_watch(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("POST", f"{ME}/watch", ok({"historyId": "42", "expiration": "1772442000000"}))
    assert await account.gmail.watch("projects/p/topics/mail") == NINE
    assert server.requests[0].json() == {"topicName": "projects/p/topics/mail"}


async def test_stop_watch(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("POST", f"{ME}/stop", Answer(204, b""))
    await account.gmail.stop_watch()
    assert len(server.received("POST", f"{ME}/stop")) == 1


# Calendar


async def test_insert(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("POST", EVENTS, ok(EVENT))
    event = await insert(account)
    assert (event.id, event.start, event.busy) == ("abcde", NINE, True)
    (request,) = server.requests
    assert request.query["sendUpdates"] == ["all"]
    assert request.json() == {
        "id": "abcde",
        "summary": "Tea",
        "start": {"dateTime": "2026-03-02T09:00:00+00:00", "timeZone": "Europe/Berlin"},
        "end": {"dateTime": "2026-03-02T10:00:00+00:00", "timeZone": "Europe/Berlin"},
        "attendees": [{"email": "bob@example.com"}],
    }


async def test_all_pages_of_events(server: FaultyServer, account: GoogleAccount) -> None:
    day = {"id": "day00", "start": {"date": "2026-03-02"}, "end": {"date": "2026-03-03"}, "transparency": "transparent"}
    me = {"email": "ann@example.com", "self": True, "responseStatus": "declined"}
    server.answer(
        "GET",
        EVENTS,
        ok({"items": [EVENT, {"id": "gone0", "status": "cancelled"}], "nextPageToken": "p2"}),
        ok({"items": [day, EVENT | {"id": "later", "iCalUID": "later@google.com", "attendees": [me]}]}),
    )
    holiday, tea, declined = await account.calendar.events(NINE, NINE + timedelta(days=1))
    assert tea == Event(
        id="abcde",
        uid="abcde@google.com",
        summary="Tea",
        start=NINE,
        end=NINE + timedelta(hours=1),
        all_day=False,
        attendees=("bob@example.com",),
        busy=True,
        tentative=False,
        link="https://calendar.example/abcde",
        meet_link=None,
    )
    assert (holiday.all_day, holiday.start, holiday.end) == (True, date(2026, 3, 2), date(2026, 3, 3))
    assert not holiday.busy
    assert not declined.busy
    first, second = (request.query for request in server.received("GET", EVENTS))
    assert (first["timeMin"], first["timeMax"]) == (["2026-03-02T09:00:00+00:00"], ["2026-03-03T09:00:00+00:00"])
    assert (first["singleEvents"], second["pageToken"]) == (["true"], ["p2"])


async def test_naive_times_are_refused_before_anything_is_sent(server: FaultyServer, account: GoogleAccount) -> None:
    naive = NINE.replace(tzinfo=None)
    with pytest.raises(ValueError, match="timezone"):
        await account.calendar.events(naive, NINE)
    with pytest.raises(ValueError, match="timezone"):
        await account.calendar.insert("abcde", summary="", start=NINE, end=naive, timezone="UTC", attendees=[])
    assert server.requests == []


async def test_a_deleted_event_is_not_found(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("GET", f"{EVENTS}/abcde", ok(EVENT), ok({"id": "abcde", "status": "cancelled"}))
    assert (await account.calendar.event("abcde")).summary == "Tea"
    with pytest.raises(errors.NotFound):
        await account.calendar.event("abcde")


CALENDARS = "/calendar/v3/users/me/calendarList"
TEAM = "/calendar/v3/calendars/team%40group.example/events"
PRIMARY = {"id": "ann@example.com", "summary": "Ann", "primary": True, "accessRole": "owner"}
ENTRY = {"id": "team@group.example", "summary": "Team", "accessRole": "owner", "selected": True}
DAY = (NINE, NINE + timedelta(days=1))


def instance(start: str, end: str, **more: Any) -> dict[str, Any]:
    return EVENT | {"id": f"abcde_{start}", "start": {"dateTime": start}, "end": {"dateTime": end}} | more


async def test_the_events_of_all_calendars_that_are_owned(server: FaultyServer, account: GoogleAccount) -> None:
    unticked = ENTRY | {"selected": False}  # the person's time all the same
    others = [
        ENTRY | {"id": "colleague", "accessRole": "reader"},
        ENTRY | {"id": "shared", "accessRole": "writer"},
        ENTRY | {"id": "hidden", "hidden": True},
        ENTRY | {"id": "deleted", "deleted": True},
    ]
    server.answer("GET", CALENDARS, ok({"items": [*others, PRIMARY], "nextPageToken": "p2"}), ok({"items": [unticked]}))
    untitled = instance("2026-03-02T11:00:00+01:00", "2026-03-02T12:00:00+01:00", iCalUID="u", summary=None)
    untitled.pop("summary")
    server.answer("GET", EVENTS, ok({"items": [EVENT]}))
    server.answer("GET", TEAM, ok({"items": [untitled]}))

    agenda = await account.calendar.agenda(*DAY)
    tea, busy = agenda.events
    assert (tea.summary, busy.summary, busy.busy) == ("Tea", "", True)
    assert agenda.calendars == ("Ann", "Team")
    await account.calendar.agenda(*DAY)
    assert [r.path for r in server.requests].count(CALENDARS) == 2
    assert {r.path for r in server.requests} == {CALENDARS, EVENTS, TEAM}


@pytest.mark.parametrize("named", ["TEAM@group.example", "team"])
async def test_a_calendar_of_somebody_else_counts_if_it_is_named(server: FaultyServer, named: str) -> None:
    entry = ENTRY | {"accessRole": "freeBusyReader", "selected": False}
    other = ENTRY | {"id": "x", "summary": "X", "accessRole": "reader"}
    server.answer("GET", CALENDARS, ok({"items": [PRIMARY, entry, other]}))
    server.answer("GET", EVENTS, ok({"items": []}))
    server.answer("GET", TEAM, ok({"items": [EVENT]}))
    async with aclosing(Wire(server.url)) as wire:
        account = GoogleAccount(token(), wire, timeout=5, busy_calendars=[named, "nobody's"])
        agenda = await account.calendar.agenda(*DAY)
    assert [event.summary for event in agenda.events] == ["Tea"]


async def test_an_event_in_several_calendars_is_told_once_with_the_persons_own_answer(
    server: FaultyServer, account: GoogleAccount
) -> None:
    """All instances of a series share their iCalUID; only one that begins at the same time is the same."""
    server.answer("GET", CALENDARS, ok({"items": [ENTRY, PRIMARY]}))
    me = {"email": "ann@example.com", "self": True, "responseStatus": "declined"}
    own = instance("2026-03-02T10:00:00+01:00", "2026-03-02T11:00:00+01:00", attendees=[me])
    copy = instance("2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z")
    next_one = instance("2026-03-02T14:00:00+01:00", "2026-03-02T15:00:00+01:00")
    server.answer("GET", EVENTS, ok({"items": [own, next_one]}))
    server.answer("GET", TEAM, ok({"items": [copy, next_one]}))
    first, second = (await account.calendar.agenda(*DAY)).events
    assert (first.start, first.busy, second.busy) == (NINE, False, True)


@pytest.mark.parametrize(
    "listing",
    [
        refused(403, "insufficientPermissions"),
        Answer(404),
        ok({}),
        ok({"items": [ENTRY | {"accessRole": "reader"}]}),
    ],
)
async def test_without_a_list_of_calendars_the_primary_one_counts(
    server: FaultyServer, account: GoogleAccount, listing: Answer
) -> None:
    server.answer("GET", CALENDARS, listing)
    server.answer("GET", EVENTS, ok({"items": [EVENT]}))
    agenda = await account.calendar.agenda(*DAY)
    assert ([event.summary for event in agenda.events], agenda.calendars) == (["Tea"], ("your own calendar",))
    await account.calendar.agenda(*DAY)
    assert len(server.received("GET", CALENDARS)) == 1


@pytest.mark.parametrize("path", [CALENDARS, EVENTS, TEAM])
async def test_half_a_calendar_is_no_free_time(server: FaultyServer, account: GoogleAccount, path: str) -> None:
    server.answer("GET", CALENDARS, ok({"items": [PRIMARY, ENTRY]}))
    server.answer("GET", EVENTS, ok({"items": []}))
    server.answer("GET", TEAM, ok({"items": []}))
    server.answer("GET", path, Answer(503), ok({"items": []}))
    with pytest.raises(errors.Transient):
        await account.calendar.agenda(*DAY)
    assert (await account.calendar.agenda(*DAY)).events == ()


async def test_a_calendar_that_was_taken_off_the_list_holds_nothing_up(
    server: FaultyServer, account: GoogleAccount
) -> None:
    server.answer("GET", CALENDARS, ok({"items": [PRIMARY, ENTRY]}), ok({"items": [PRIMARY]}))
    server.answer("GET", EVENTS, ok({"items": [EVENT]}))
    for _ in range(2):
        assert len((await account.calendar.agenda(*DAY)).events) == 1
    assert len(server.received("GET", CALENDARS)) == 2
    assert len(server.received("GET", TEAM)) == 1


async def test_whole_days_are_those_of_the_person(server: FaultyServer, account: GoogleAccount) -> None:
    """Google compares them in the calendar's timezone, and so may give the day before or after as well."""
    sunday, monday = (
        EVENT | {"id": name, "iCalUID": name, "start": {"date": start}, "end": {"date": end}}
        for name, start, end in [("sun", "2026-03-01", "2026-03-02"), ("mon", "2026-03-02", "2026-03-03")]
    )
    server.answer("GET", EVENTS, ok({"items": [sunday, monday]}))
    midnight = datetime(2026, 3, 2, tzinfo=ZoneInfo("Europe/Berlin"))
    assert [event.id for event in await account.calendar.events(midnight, midnight + timedelta(days=1))] == ["mon"]


@pytest.mark.parametrize(
    ("answer", "tentative", "busy"),
    [("needsAction", True, True), ("tentative", True, True), ("accepted", False, True), ("declined", False, False)],
)
async def test_the_persons_answer_to_an_invitation(
    server: FaultyServer, account: GoogleAccount, answer: str, tentative: bool, busy: bool
) -> None:
    others = {"email": "bob@example.com", "responseStatus": "needsAction"}
    me = {"email": "ann@example.com", "self": True, "responseStatus": answer}
    server.answer("GET", EVENTS, ok({"items": [EVENT | {"attendees": [others, me]}]}))
    (event,) = await account.calendar.events(*DAY)
    assert (event.tentative, event.busy) == (tentative, busy)


def insert_with_meet(account: GoogleAccount) -> Awaitable[Event]:
    return account.calendar.insert(
        "abcde", summary="Tea", start=NINE, end=NINE, timezone="UTC", attendees=[], meet=True
    )


@pytest.mark.parametrize(
    ("made", "link"),
    [
        ({"hangoutLink": "https://meet.google.com/abc"}, "https://meet.google.com/abc"),
        (
            {
                "conferenceData": {
                    "entryPoints": [
                        {"entryPointType": "phone", "uri": "tel:+1"},
                        {"entryPointType": "video", "uri": "https://meet.google.com/abc"},
                    ]
                }
            },
            "https://meet.google.com/abc",
        ),
        ({"conferenceData": {"createRequest": {"status": {"statusCode": "pending"}}}}, None),
    ],
)
async def test_a_meet_conference_is_asked_for(
    server: FaultyServer, account: GoogleAccount, made: dict[str, Any], link: str | None
) -> None:
    allowed = {"conferenceProperties": {"allowedConferenceSolutionTypes": ["addOn", "hangoutsMeet"]}}
    server.answer("GET", CALENDARS, ok({"items": [PRIMARY | allowed]}))
    server.answer("POST", EVENTS, ok(EVENT | made))
    assert (await insert_with_meet(account)).meet_link == link
    (request,) = server.received("POST", EVENTS)
    assert request.query["conferenceDataVersion"] == ["1"]
    assert request.json()["conferenceData"] == {
        "createRequest": {"requestId": "abcde", "conferenceSolutionKey": {"type": "hangoutsMeet"}}
    }


@pytest.mark.parametrize(
    ("listing", "tries"),
    [
        (ok({"items": [PRIMARY | {"conferenceProperties": {"allowedConferenceSolutionTypes": ["addOn"]}}]}), 1),
        (ok({"items": [PRIMARY]}), 2),
        (refused(403, "insufficientPermissions"), 2),
    ],
)
async def test_where_there_can_be_no_conference_the_event_is_made_without(
    server: FaultyServer, account: GoogleAccount, listing: Answer, tries: int
) -> None:
    server.answer("GET", CALENDARS, listing)

    def take(request: Request) -> Answer:
        return refused(400, "invalid") if "conferenceData" in request.json() else ok(EVENT)

    server.answer("POST", EVENTS, take)
    assert (await insert_with_meet(account)).meet_link is None
    requests = server.received("POST", EVENTS)
    assert len(requests) == tries
    assert "conferenceDataVersion" not in requests[-1].query


@pytest.mark.parametrize(
    ("answer", "expected"), [(refused(409, "duplicate"), errors.Exists), (Answer(503), errors.Ambiguous)]
)
async def test_an_event_with_a_conference_is_asked_for_once(
    server: FaultyServer, account: GoogleAccount, answer: Answer, expected: type[Exception]
) -> None:
    server.answer("POST", EVENTS, answer)
    with pytest.raises(expected):
        await insert_with_meet(account)
    assert len(server.received("POST", EVENTS)) == 1


SETTING = "/calendar/v3/users/me/settings/timezone"


@pytest.mark.parametrize(
    ("setting", "listing", "expected"),
    [
        (ok({"value": "Europe/Berlin"}), Answer(404), "Europe/Berlin"),
        (refused(403, "insufficientPermissions"), ok({"timeZone": "Asia/Tokyo"}), "Asia/Tokyo"),
        (Answer(404), ok({"items": []}), None),
        (Answer(404), Answer(404), None),
    ],
)
async def test_timezone(
    server: FaultyServer, account: GoogleAccount, setting: Answer, listing: Answer, expected: str | None
) -> None:
    server.answer("GET", SETTING, setting)
    server.answer("GET", EVENTS, listing)
    assert await account.calendar.timezone() == expected


async def test_a_passing_fault_is_no_missing_timezone(server: FaultyServer, account: GoogleAccount) -> None:
    server.answer("GET", SETTING, Answer(503))
    with pytest.raises(errors.Transient):
        await account.calendar.timezone()


# The token file


def test_read_token_file(tmp_path: Path) -> None:
    file = tmp_path / "token.json"
    file.write_text(json.dumps(token()))
    assert read_token_file(file)["refresh_token"] == "the-refresh-token"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "no such file"),
        ("{", "not a JSON file"),
        ("[]", "not a JSON object"),
        ('{"installed": {"client_id": "x"}}', "the OAuth client's file"),
        ('{"client_id": "x", "refresh_token": ""}', "missing refresh_token, client_secret"),
    ],
)
def test_a_bad_token_file_is_one_clear_line(tmp_path: Path, content: str | None, complaint: str) -> None:
    file = tmp_path / "token.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=complaint) as caught:
        read_token_file(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_a_directory_is_no_token_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_token_file(tmp_path)
