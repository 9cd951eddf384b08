"""The Google sandbox as its clients see it: the real process, over HTTP."""

import base64
import hashlib
import json
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import google_auth_httplib2  # type: ignore[import-untyped]
import googleapiclient
import httplib2
import httpx
import pytest
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build_from_document  # type: ignore[attr-defined]

from email_assistant.programs import stand_in
from tests.doubles import warm

MODULE = ("-m", "email_assistant_servers.google_sandbox")
ALEX = "alex@sandbox.example"
GMAIL = "/gmail/v1/users/me"
EVENTS = "/calendar/v3/calendars/primary/events"
DISCOVERY = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"


class Sandbox:
    """A running sandbox and an HTTP client that is signed in to it."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.process = subprocess.Popen(
            warm.command(*MODULE, "--data", str(data), "--exit-with-parent", *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ready: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.http = httpx.Client(base_url=self.ready["root"], timeout=10)
        self.http.headers["Authorization"] = f"Bearer {self.refresh().json()['access_token']}"

    def refresh(self, **changes: str) -> httpx.Response:
        token = self.ready["token"]
        form = {name: token[name] for name in ("client_id", "client_secret", "refresh_token")}
        return httpx.post(token["token_uri"], data={"grant_type": "refresh_token"} | form | changes)

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        answer = self.http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return _object(answer)

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self.http.post(path, json={} if body is None else body)
        assert answer.status_code == 200, answer.text
        return _object(answer)

    def search(self, q: str, **parameters: Any) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.get(GMAIL + "/messages", q=q, **parameters).get("messages", [])
        return found

    def history_id(self) -> str:
        return str(self.get(GMAIL + "/profile")["historyId"])

    def changes_since(self, start: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(GMAIL + "/history", startHistoryId=start, maxResults=500).get(
            "history", []
        )
        return found

    def arrived(self, subject: str, *, labels: tuple[str, ...] = ("INBOX", "UNREAD"), **headers: str) -> dict[str, Any]:
        """Put a mail from somebody into the mailbox."""
        message = mail(subject, sender="Kim <kim@elsewhere.example>", to=ALEX, **headers)
        return self.post(GMAIL + "/messages", {"raw": encoded(message), "labelIds": labels})

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """End the process; its exit status and what it wrote to stderr."""
        self.http.close()
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=10)
        return self.process.returncode, errors


def _object(answer: httpx.Response) -> dict[str, Any]:
    body = answer.json()
    assert isinstance(body, dict)
    return body


def mail(subject: str, *, sender: str = ALEX, to: str = "", text: str = "Hello.\n", **headers: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = sender
    if to:
        message["To"] = to
    message["Subject"] = subject
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return message


def encoded(message: EmailMessage) -> str:
    return base64.urlsafe_b64encode(message.as_bytes()).decode()


def decoded(data: str) -> bytes:
    return base64.urlsafe_b64decode(data)


def header(message: dict[str, Any], name: str) -> str:
    found = [one["value"] for one in message["payload"]["headers"] if one["name"].lower() == name.lower()]
    return str(found[0]) if found else ""


def reason(answer: httpx.Response) -> tuple[int, str]:
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    assert error["message"]
    assert error["status"]
    assert error["errors"][0]["domain"] == "global"
    return answer.status_code, error["errors"][0]["reason"]


def reply_to(message: dict[str, Any], **headers: str) -> EmailMessage:
    subject = header(message, "Subject")
    message_id = header(message, "Message-ID")
    return mail(f"Re: {subject}", to=header(message, "From"), In_Reply_To=message_id, References=message_id, **headers)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One invented mailbox for the tests that don't mind each other."""
    running = Sandbox(tmp_path_factory.mktemp("sandbox") / "data.sqlite3")
    yield running
    running.stop()


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Any]:
    """Start sandboxes on one data file; all are ended afterwards."""
    running: list[Sandbox] = []

    def start(*options: str) -> Sandbox:
        running.append(Sandbox(tmp_path / "data.sqlite3", *options))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.stop()


# Starting and ending


def test_the_ready_line_says_what_a_client_needs(shared: Sandbox) -> None:
    assert set(shared.ready) == {"root", "says", "address", "token", "loaded", "known"}
    assert (shared.ready["address"], shared.ready["known"]) == (ALEX, 0)
    assert shared.ready["loaded"] >= 12
    assert set(shared.ready["token"]) == {"type", "client_id", "client_secret", "refresh_token", "token_uri"}
    assert shared.ready["token"]["type"] == "authorized_user"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(launch: Any, number: signal.Signals) -> None:
    assert launch().stop(number) == (0, "")


def test_it_ends_with_its_parent(launch: Any) -> None:
    sandbox = launch()
    _, errors = sandbox.process.communicate(timeout=10)  # closes its stdin
    assert (sandbox.process.returncode, errors) == (0, "")


def test_everything_survives_a_kill(launch: Any) -> None:
    before = launch()
    before.arrived("A late mail")
    draft = before.post(GMAIL + "/drafts", {"message": {"raw": encoded(mail("Half a thought"))}})
    event = before.post(EVENTS, {"start": {"date": "2031-02-03"}, "end": {"date": "2031-02-04"}})
    profile = before.get(GMAIL + "/profile")
    before.stop(signal.SIGKILL)

    after = launch()
    assert after.ready["loaded"] == 0
    assert after.get(GMAIL + "/profile") == profile
    assert after.get(f"{GMAIL}/drafts/{draft['id']}")["message"]["id"] == draft["message"]["id"]
    assert after.get(f"{EVENTS}/{event['id']}")["start"] == {"date": "2031-02-03"}
    credentials = ("client_id", "client_secret", "refresh_token")
    assert [after.ready["token"][name] for name in credentials] == [before.ready["token"][name] for name in credentials]


def test_without_a_file_nothing_is_kept(launch: Any, tmp_path: Path) -> None:
    for _ in range(2):
        assert launch("--data", ":memory:").ready["loaded"] >= 12
    assert list(tmp_path.iterdir()) == []


def test_a_data_file_keeps_its_address(launch: Any, tmp_path: Path) -> None:
    launch("--address", "Ada@Sandbox.example").stop()
    assert launch().ready["address"] == "ada@sandbox.example"
    assert "belongs to ada@sandbox.example" in _refusal(tmp_path, "--address", "bob@sandbox.example")


def _refusal(tmp_path: Path, *options: str) -> str:
    """The one line with which a start is refused."""
    started = warm.command(*MODULE, "--data", str(tmp_path / "data.sqlite3"), *options)
    done = subprocess.run(started, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


# Tokens


def test_an_unknown_refresh_token_is_an_invalid_grant(shared: Sandbox) -> None:
    refused = shared.refresh(refresh_token="1//unknown")
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


def test_an_unknown_client_is_refused(shared: Sandbox) -> None:
    refused = shared.refresh(client_secret="wrong")
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


@pytest.mark.parametrize("path", [GMAIL + "/profile", EVENTS])
def test_every_call_needs_a_live_token(shared: Sandbox, path: str) -> None:
    assert reason(httpx.get(shared.ready["root"] + path)) == (401, "required")
    stranger = {"Authorization": "Bearer nobody"}
    assert reason(httpx.get(shared.ready["root"] + path, headers=stranger)) == (401, "authError")


def test_an_access_token_dies_after_an_hour(shared: Sandbox) -> None:
    answer = shared.refresh().json()
    assert answer["expires_in"] == 3600
    assert answer["token_type"] == "Bearer"
    live = {"Authorization": f"Bearer {answer['access_token']}"}
    assert httpx.get(shared.ready["root"] + GMAIL + "/profile", headers=live).status_code == 200

    with sqlite3.connect(shared.data, timeout=5) as db:  # an hour passes
        db.execute("UPDATE bearers SET expires = expires - 3600 WHERE token = ?", (answer["access_token"],))
    assert reason(httpx.get(shared.ready["root"] + GMAIL + "/profile", headers=live)) == (401, "authError")


VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
HOME = "http://127.0.0.1:1/"
SCOPE = "https://www.googleapis.com/auth/"


class Login:
    """A program that asks for consent, and the person's browser."""

    def __init__(self, sandbox: Sandbox, **changes: str) -> None:
        self.sandbox = sandbox
        self.asked = {
            "client_id": sandbox.ready["token"]["client_id"],
            "redirect_uri": HOME,
            "response_type": "code",
            "scope": f"{SCOPE}gmail.modify {SCOPE}calendar.events",
            "state": "s",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "access_type": "offline",
        } | changes

    def page(self) -> httpx.Response:
        return httpx.get(f"{self.sandbox.ready['root']}/o/oauth2/v2/auth", params=self.asked)

    def answer(self, *scopes: str, decision: str = "continue") -> dict[str, str]:
        form = {"scope": [SCOPE + scope for scope in scopes], "decision": decision}
        back = httpx.post(f"{self.sandbox.ready['root']}/o/oauth2/v2/auth", params=self.asked, data=form)
        target, _, query = back.headers["location"].partition("?")
        assert (back.status_code, target) == (302, HOME)
        return dict(parse_qsl(query, keep_blank_values=True))

    def redeem(self, code: str, **changes: str) -> httpx.Response:
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER, "redirect_uri": HOME}
        return self.sandbox.refresh(**(form | changes))


def test_consent_gives_a_code_for_a_login(shared: Sandbox) -> None:
    login = Login(shared)
    assert 'value="https://www.googleapis.com/auth/calendar.events"' in login.page().text
    back = login.answer("gmail.modify", "calendar.events")
    assert (back["state"], back["scope"]) == ("s", f"{SCOPE}gmail.modify {SCOPE}calendar.events")
    answer = login.redeem(back["code"]).json()
    assert (answer["token_type"], answer["expires_in"], answer["scope"]) == ("Bearer", 3600, back["scope"])
    assert shared.refresh(refresh_token=answer["refresh_token"]).status_code == 200


@pytest.mark.parametrize(
    "changes", [{"code_verifier": "w" * 43}, {"code_verifier": ""}, {"redirect_uri": "http://127.0.0.1:2/"}]
)
def test_a_code_serves_its_own_login_once(shared: Sandbox, changes: dict[str, str]) -> None:
    login = Login(shared)
    code = login.answer("gmail.modify")["code"]
    assert login.redeem(code, **changes).json()["error"] == "invalid_grant"
    code = login.answer("gmail.modify")["code"]
    assert login.redeem(code).status_code == 200
    assert login.redeem(code).json()["error"] == "invalid_grant"


def test_who_says_no_gives_no_code(shared: Sandbox) -> None:
    assert Login(shared).answer(decision="cancel") == {"state": "s", "error": "access_denied"}


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"client_id": "other"}, 401, "invalid_client"),
        ({"redirect_uri": "https://elsewhere.example/"}, 400, "redirect_uri_mismatch"),
        ({"code_challenge": ""}, 400, "invalid_request"),
        ({"scope": "https://www.googleapis.com/auth/nonsense"}, 400, "invalid_scope"),
    ],
)
def test_a_wrong_question_never_returns_to_the_program(
    shared: Sandbox, changes: dict[str, str], status: int, error: str
) -> None:
    page = Login(shared, **changes).page()
    assert (page.status_code, error in page.text, "<form" in page.text) == (status, True, False)


def test_a_token_opens_what_was_allowed(shared: Sandbox) -> None:
    login = Login(shared)
    token = login.redeem(login.answer("gmail.modify")["code"]).json()["access_token"]
    signed = {"Authorization": f"Bearer {token}"}
    assert httpx.get(shared.ready["root"] + GMAIL + "/profile", headers=signed).status_code == 200
    assert reason(httpx.get(shared.ready["root"] + EVENTS, headers=signed)) == (403, "insufficientPermissions")


@pytest.mark.parametrize("which", ["refresh_token", "access_token"])
def test_revoking_one_token_ends_all_that_was_allowed(launch: Any, which: str) -> None:
    sandbox = launch()
    login = Login(sandbox)
    answer = login.redeem(login.answer("gmail.modify")["code"]).json()
    revoke = sandbox.ready["root"] + "/revoke"
    assert httpx.post(revoke, data={"token": answer[which]}).status_code == 200
    again = httpx.post(revoke, data={"token": answer[which]})
    assert (again.status_code, again.json()["error"]) == (400, "invalid_token")
    assert sandbox.refresh(refresh_token=answer["refresh_token"]).json()["error"] == "invalid_grant"
    assert sandbox.refresh().json()["error"] == "invalid_grant"
    assert reason(sandbox.http.get(GMAIL + "/profile")) == (401, "authError")


def test_another_mailbox_is_forbidden(shared: Sandbox) -> None:
    assert shared.get(f"/gmail/v1/users/{ALEX}/profile")["emailAddress"] == ALEX
    assert reason(shared.http.get("/gmail/v1/users/other@sandbox.example/profile"))[0] == 403


# Google's own client library


def _service(sandbox: Sandbox, name: str) -> Any:
    document = json.loads((DISCOVERY / f"{name}.json").read_text())
    document["rootUrl"] = sandbox.ready["root"] + "/"
    token = {name: value for name, value in sandbox.ready["token"].items() if name != "type"}
    # Not from_authorized_user_info: that puts Google's own token address in place of ours.
    credentials = Credentials(None, **token)  # type: ignore[no-untyped-call]
    return build_from_document(document, http=google_auth_httplib2.AuthorizedHttp(credentials, http=httplib2.Http()))


def test_googles_client_reads_and_writes_mail(shared: Sandbox) -> None:
    users = _service(shared, "gmail.v1").users()
    listing = users.messages().list(userId="me", maxResults=1, labelIds=["INBOX"]).execute()
    message = users.messages().get(userId="me", id=listing["messages"][0]["id"], format="metadata").execute()
    assert header(message, "To") == f"Alex Morgan <{ALEX}>"
    users.messages().batchModify(userId="me", body={"ids": [message["id"]], "addLabelIds": ["STARRED"]}).execute()
    assert "STARRED" in users.messages().get(userId="me", id=message["id"]).execute()["labelIds"]
    draft = users.drafts().create(userId="me", body={"message": {"raw": encoded(mail("Draft"))}}).execute()
    users.drafts().delete(userId="me", id=draft["id"]).execute()
    assert users.settings().sendAs().list(userId="me").execute()["sendAs"][0]["sendAsEmail"] == ALEX


def test_googles_client_reads_the_calendar(shared: Sandbox) -> None:
    service = _service(shared, "calendar.v3")
    assert service.calendars().get(calendarId="primary").execute()["timeZone"] == "Europe/Amsterdam"
    assert service.calendarList().list().execute()["items"][0]["primary"] is True
    assert service.settings().get(setting="timezone").execute()["value"] == "Europe/Amsterdam"
    events = service.events().list(calendarId="primary", singleEvents=True, orderBy="startTime").execute()
    starts = [one["start"].get("dateTime") or one["start"]["date"] for one in events["items"]]
    assert events["timeZone"] == "Europe/Amsterdam"
    assert len(starts) >= 8
    [call] = [one["start"]["dateTime"] for one in events["items"] if one["summary"] == "Call with Ines"]
    assert call[11:16] == "15:00"
    assert [start[:10] for start in starts] == sorted(start[:10] for start in starts)


def test_the_person_changes_how_they_send(shared: Sandbox) -> None:
    aliases = f"{GMAIL}/settings/sendAs"
    office = f"office@{ALEX.partition('@')[2]}"
    shared.http.post(aliases, json={"sendAsEmail": office})
    signed = shared.http.patch(f"{aliases}/{ALEX}", json={"signature": "<p>Alex</p>"}).json()
    assert (signed["signature"], signed["isDefault"]) == ("<p>Alex</p>", True)
    chosen = shared.http.patch(f"{aliases}/{office}", json={"displayName": "Office", "isDefault": True}).json()
    assert (chosen["displayName"], chosen["isDefault"]) == ("Office", True)
    assert [entry["sendAsEmail"] for entry in shared.get(aliases)["sendAs"] if entry["isDefault"]] == [office]
    assert reason(shared.http.patch(f"{aliases}/{office}", json={"smtpMsa": {}}))[0] == 400
    assert shared.http.patch(f"{aliases}/{ALEX}", json={"isDefault": True}).json()["isDefault"]
    shared.http.delete(f"{aliases}/{office}")


# Reading messages


def test_full_shows_the_parts_and_keeps_attachments_apart(shared: Sandbox) -> None:
    [found] = shared.search("has:attachment from:daniela")
    message = shared.get(f"{GMAIL}/messages/{found['id']}")
    text, table = message["payload"]["parts"]
    assert message["payload"]["mimeType"] == "multipart/mixed"
    assert message["payload"]["body"] == {"size": 0}
    assert (text["partId"], text["mimeType"], text["filename"]) == ("0", "text/plain", "")
    assert b"quote for the shelves" in decoded(text["body"]["data"])
    assert (table["partId"], table["filename"]) == ("1", "quote-shelves.csv")
    assert "data" not in table["body"]

    path = f"{GMAIL}/messages/{found['id']}/attachments"
    attachment = shared.get(f"{path}/{table['body']['attachmentId']}")
    content = decoded(attachment["data"])
    assert content.startswith(b"item,quantity")
    assert attachment["size"] == table["body"]["size"] == len(content)
    assert reason(shared.http.get(path + "/nothing")) == (404, "notFound")


def test_text_and_headers_stay_as_the_mail_has_them(shared: Sandbox) -> None:
    [found] = shared.search("from:helene.dubois")
    message = shared.get(f"{GMAIL}/messages/{found['id']}")
    assert header(message, "Subject").startswith("=?utf-8?")
    assert "iso-8859-1" in header(message, "Content-Type")
    assert "the proof of the café poster is ready" in decoded(message["payload"]["body"]["data"]).decode("iso-8859-1")
    assert message["snippet"].startswith("Hello Alex, the proof of the café poster")


def test_nested_parts_are_numbered_as_in_gmail(shared: Sandbox) -> None:
    message = mail("Nested", to=ALEX)
    message.add_alternative("<p>Hello.</p>", subtype="html")
    message.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="räume.pdf")
    stored = shared.post(GMAIL + "/messages", {"raw": encoded(message)})
    payload = shared.get(f"{GMAIL}/messages/{stored['id']}")["payload"]
    assert (payload["partId"], [part["partId"] for part in payload["parts"]]) == ("", ["0", "1"])
    assert [part["partId"] for part in payload["parts"][0]["parts"]] == ["0.0", "0.1"]
    assert payload["parts"][1]["filename"] == "räume.pdf"


def test_the_other_formats(shared: Sandbox) -> None:
    stored = shared.arrived("Four ways", Message_ID="<four@elsewhere.example>")
    path = f"{GMAIL}/messages/{stored['id']}"
    raw = shared.get(path, format="raw")
    assert (
        decoded(raw["raw"])
        == mail(
            "Four ways", sender="Kim <kim@elsewhere.example>", to=ALEX, Message_ID="<four@elsewhere.example>"
        ).as_bytes()
    )
    assert raw["sizeEstimate"] == len(decoded(raw["raw"]))
    metadata = shared.get(path, format="metadata", metadataHeaders=["subject", "from"])
    assert [one["name"] for one in metadata["payload"]["headers"]] == ["From", "Subject"]
    assert "body" not in metadata["payload"]
    minimal = shared.get(path, format="minimal")
    assert "payload" not in minimal
    assert "raw" not in minimal
    assert minimal["labelIds"] == ["INBOX", "UNREAD"]
    assert abs(int(minimal["internalDate"]) / 1000 - time.time()) < 60
    assert len(minimal["id"]) == 16
    assert int(minimal["id"], 16) > 0
    assert reason(shared.http.get(path, params={"format": "pretty"})) == (400, "invalidArgument")
    assert reason(shared.http.get(GMAIL + "/messages/00000000000000aa")) == (404, "notFound")


def test_the_invented_mailbox_has_something_of_everything(launch: Any) -> None:
    sandbox = launch()
    found = sandbox.search("in:anywhere", maxResults=100)
    mails = [sandbox.get(f"{GMAIL}/messages/{one['id']}") for one in found]
    assert any(
        header(one, "List-Unsubscribe") and "multipart/alternative" in header(one, "Content-Type") for one in mails
    )
    assert any(header(one, "Auto-Submitted") == "auto-replied" for one in mails)
    assert any(not header(one, "Subject") for one in mails)
    unread_by_thread = [one["threadId"] for one in sandbox.search("is:unread in:inbox")]
    assert len(unread_by_thread) > len(set(unread_by_thread))
    [sent] = sandbox.search("in:sent to:jonas.weber@kantholz.example")
    assert len(sandbox.get(f"{GMAIL}/threads/{sent['threadId']}")["messages"]) == 3


# Searching and listing


@pytest.fixture(scope="module")
def searchable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A mailbox of five known mails."""
    path = tmp_path_factory.mktemp("search") / "five.mbox"
    path.write_text(
        "".join(
            f"From x Mon Jan  1 00:00:00 2024\nFrom: {sender}\nTo: {to}\nSubject: {subject}\nDate: {date}\n"
            f"Message-ID: <{name}@s.example>\nX-Gmail-Labels: {labels}\n\n{text}\n\n"
            for name, sender, to, subject, date, labels, text in (
                (
                    "a",
                    "Ann <ann@s.example>",
                    "me@s.example",
                    "Green tea",
                    "1 Jan 2024 12:00 +0000",
                    "Inbox,Unread",
                    "hot water",
                ),
                (
                    "b",
                    "Bob <bob@s.example>",
                    "me@s.example",
                    "Black tea",
                    "2 Jan 2024 12:00 +0000",
                    "Inbox,Opened",
                    "cold milk",
                ),
                ("c", "me@s.example", "ann@s.example", "Re: coffee", "3 Jan 2024 12:00 +0000", "Sent", "hot milk"),
                (
                    "d",
                    "Spy <spy@s.example>",
                    "me@s.example",
                    "Prize",
                    "4 Jan 2024 12:00 +0000",
                    "Spam,Unread",
                    "hot prize",
                ),
                (
                    "e",
                    "Bob <bob@s.example>",
                    "me@s.example",
                    "Bin",
                    "5 Jan 2024 12:00 +0000",
                    "Trash,Work Trip",
                    "tea bin",
                ),
            )
        )
    )
    running = Sandbox(path.with_suffix(".sqlite3"), "--mbox", str(path), "--address", "me@s.example")
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("", "cba"),
        ("is:unread in:inbox", "a"),
        ("is:read", "cb"),
        ("in:sent", "c"),
        ("in:anywhere", "edcba"),
        ("in:spam", "d"),
        ("in:trash", "e"),
        ("label:work-trip in:anywhere", "e"),
        ("from:bob", "b"),
        ("from:bob@s.example", "b"),
        ("from:me to:ann", "c"),
        ("subject:tea", "ba"),
        ("subject:(black tea)", "b"),
        ("TEA", "ba"),
        ("te", ""),
        ('"hot water"', "a"),
        ('"water hot"', ""),
        ("water hot", "a"),
        ("-tea", "c"),
        ("tea -from:bob", "a"),
        ("water OR coffee", "ca"),
        ("hot water OR coffee", "ca"),
        ("{from:ann from:bob}", "ba"),
        ("milk -(from:bob OR from:ann)", "c"),
        ("after:2024/01/02", "cb"),
        ("before:2024/01/02", "a"),
        ("after:1704196800 before:1704283200", "b"),
        ("newer_than:1d", ""),
        ("older_than:1y", "cba"),
        ("rfc822msgid:<b@s.example>", "b"),
        ("rfc822msgid:b@s.example", "b"),
        ("has:attachment", ""),
        ("label:nothing", ""),
    ],
)
def test_search(searchable: Sandbox, q: str, expected: str) -> None:
    names = []
    for one in searchable.search(q):
        message = searchable.get(f"{GMAIL}/messages/{one['id']}", format="metadata", metadataHeaders="Message-ID")
        names.append(header(message, "Message-ID")[1])
    assert "".join(names) == expected


@pytest.mark.parametrize(
    "q", ["larger:5M", "has:drive", "is:chat", "category:purchases", "after:soon", "newer_than:3h"]
)
def test_a_search_it_does_not_know_is_refused(searchable: Sandbox, q: str) -> None:
    assert reason(searchable.http.get(GMAIL + "/messages", params={"q": q}))[0] == 400


def test_listings_hide_spam_and_trash_unless_asked(searchable: Sandbox) -> None:
    assert len(searchable.search("", includeSpamTrash=True)) == 5
    assert len(searchable.search("", labelIds=["SPAM"])) == 1
    assert len(searchable.search("", labelIds=["SPAM", "INBOX"])) == 0
    assert searchable.get(GMAIL + "/messages", q="nothing") == {"resultSizeEstimate": 0}


def test_pages_cover_every_message_once(searchable: Sandbox) -> None:
    whole = [one["id"] for one in searchable.search("in:anywhere")]
    paged: list[str] = []
    token: dict[str, str] = {}
    while True:
        page = searchable.get(GMAIL + "/messages", q="in:anywhere", maxResults=2, **token)
        paged += [one["id"] for one in page["messages"]]
        if "nextPageToken" not in page:
            break
        token = {"pageToken": page["nextPageToken"]}
    assert paged == whole
    assert reason(searchable.http.get(GMAIL + "/messages", params={"pageToken": "nonsense"}))[0] == 400


# Threads, sending and drafts


def test_threads_list_and_modify(shared: Sandbox) -> None:
    first = shared.arrived("A long talk", Message_ID="<talk1@elsewhere.example>")
    second = shared.arrived("Re: A long talk", References="<talk1@elsewhere.example>")
    assert second["threadId"] == first["threadId"]
    listed = shared.get(GMAIL + "/threads", maxResults=1)["threads"][0]
    thread = shared.get(f"{GMAIL}/threads/{first['threadId']}", format="minimal")
    assert [one["id"] for one in thread["messages"]] == [first["id"], second["id"]]
    assert (listed["id"], listed["historyId"]) == (first["threadId"], thread["historyId"])
    changed = shared.post(f"{GMAIL}/threads/{first['threadId']}/modify", {"removeLabelIds": ["UNREAD"]})
    assert [one["labelIds"] for one in changed["messages"]] == [["INBOX"], ["INBOX"]]


@pytest.mark.parametrize("way", ["messages/send", "drafts"])
@pytest.mark.parametrize(
    ("subject", "references", "joins"),
    [
        ("Re: The roof", "<roof@elsewhere.example>", True),
        ("AW: the  ROOF", "<roof@elsewhere.example>", True),
        ("Re: The roof, again", "<roof@elsewhere.example>", False),
        ("Re: The roof", "<cellar@elsewhere.example>", False),
    ],
)
def test_a_reply_joins_a_thread_only_by_subject_and_references(
    shared: Sandbox, way: str, subject: str, references: str, joins: bool
) -> None:
    thread_id = shared.arrived("The roof", Message_ID="<roof@elsewhere.example>")["threadId"]
    message = {"raw": encoded(mail(subject, to="kim@elsewhere.example", References=references)), "threadId": thread_id}
    answer = shared.post(f"{GMAIL}/{way}", {"message": message} if way == "drafts" else message)
    written = answer["message"] if way == "drafts" else answer
    assert (written["threadId"] == thread_id) is joins


@pytest.mark.parametrize("way", ["messages/send", "drafts"])
def test_a_thread_that_does_not_exist_is_not_found(shared: Sandbox, way: str) -> None:
    message = {"raw": encoded(mail("Hello", to="kim@elsewhere.example")), "threadId": "00000000000000ff"}
    body = {"message": message} if way == "drafts" else message
    assert reason(shared.http.post(f"{GMAIL}/{way}", json=body)) == (404, "notFound")


def test_sending_rewrites_the_message_id_and_completes_the_headers(shared: Sandbox) -> None:
    written = mail(
        "Own id", sender="Alias <other@elsewhere.example>", to="kim@elsewhere.example", Message_ID="<mine@x>"
    )
    sent = shared.post(GMAIL + "/messages/send", {"raw": encoded(written)})
    message = shared.get(f"{GMAIL}/messages/{sent['id']}")
    assert sent["labelIds"] == ["SENT"]
    assert header(message, "Message-ID") not in {"", "<mine@x>"}
    assert header(message, "From") == f"Alias <{ALEX}>"
    assert header(message, "Date")
    assert header(message, "Subject") == "Own id"
    assert decoded(message["payload"]["body"]["data"]) == b"Hello.\n"


def test_a_draft_is_sent_once(shared: Sandbox) -> None:
    start = shared.history_id()
    draft = shared.post(GMAIL + "/drafts", {"message": {"raw": encoded(mail("Once", to="kim@elsewhere.example"))}})
    assert draft["message"]["labelIds"] == ["DRAFT"]
    assert draft["id"] in {one["id"] for one in shared.get(GMAIL + "/drafts", q="subject:once")["drafts"]}

    sent = shared.post(GMAIL + "/drafts/send", {"id": draft["id"]})
    assert sent["id"] != draft["message"]["id"]
    assert (sent["threadId"], sent["labelIds"]) == (draft["message"]["threadId"], ["SENT"])
    assert reason(shared.http.post(GMAIL + "/drafts/send", json={"id": draft["id"]})) == (404, "notFound")
    assert reason(shared.http.get(f"{GMAIL}/drafts/{draft['id']}")) == (404, "notFound")
    assert [one["id"] for one in shared.search("in:sent subject:once")] == [sent["id"]]

    _, deleted, added = shared.changes_since(start)
    assert deleted["messagesDeleted"][0]["message"]["id"] == draft["message"]["id"]
    assert added["messagesAdded"][0]["message"]["id"] == sent["id"]


def test_of_many_sends_of_one_draft_one_succeeds(shared: Sandbox) -> None:
    draft = shared.post(GMAIL + "/drafts", {"message": {"raw": encoded(mail("Rush", to="kim@elsewhere.example"))}})
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda _: shared.http.post(GMAIL + "/drafts/send", json={"id": draft["id"]}), range(8))
        assert sorted(answer.status_code for answer in answers) == [200] + [404] * 7
    assert len(shared.search("in:sent subject:rush")) == 1


def test_sending_a_draft_with_a_message_sends_that(shared: Sandbox) -> None:
    draft = shared.post(GMAIL + "/drafts", {"message": {"raw": encoded(mail("Old words"))}})
    better = {"raw": encoded(mail("New words", to="kim@elsewhere.example"))}
    sent = shared.post(GMAIL + "/drafts/send", {"id": draft["id"], "message": better})
    assert header(shared.get(f"{GMAIL}/messages/{sent['id']}"), "Subject") == "New words"
    assert shared.search("subject:old words") == []


def test_mail_to_nobody_is_refused_and_its_draft_stays(shared: Sandbox) -> None:
    nobody = {"raw": encoded(mail("To nobody"))}
    refused = shared.http.post(GMAIL + "/messages/send", json=nobody)
    assert reason(refused) == (400, "invalidArgument")
    assert refused.json()["error"]["message"] == "Recipient address required"
    draft = shared.post(GMAIL + "/drafts", {"message": nobody})
    assert shared.http.post(GMAIL + "/drafts/send", json={"id": draft["id"]}).status_code == 400
    assert shared.get(f"{GMAIL}/drafts/{draft['id']}")["message"]["id"] == draft["message"]["id"]


def test_updating_a_draft_replaces_its_message(shared: Sandbox) -> None:
    draft = shared.post(GMAIL + "/drafts", {"message": {"raw": encoded(mail("First words"))}})
    body = {"message": {"raw": encoded(mail("Second words", to="kim@elsewhere.example"))}}
    updated = shared.http.put(f"{GMAIL}/drafts/{draft['id']}", json=body).json()
    assert updated["id"] == draft["id"]
    assert updated["message"]["id"] != draft["message"]["id"]
    assert header(shared.get(f"{GMAIL}/drafts/{draft['id']}")["message"], "Subject") == "Second words"
    assert shared.http.get(f"{GMAIL}/messages/{draft['message']['id']}").status_code == 404
    assert shared.http.delete(f"{GMAIL}/drafts/{draft['id']}").status_code == 204
    assert shared.http.put(f"{GMAIL}/drafts/{draft['id']}", json=body).status_code == 404


@pytest.mark.parametrize("raw", [None, "", "no base64!"])
def test_a_message_that_is_none_is_refused(shared: Sandbox, raw: str | None) -> None:
    assert reason(shared.http.post(GMAIL + "/messages/send", json={"raw": raw})) == (400, "invalidArgument")


# History


def test_history_tells_every_change_in_order(shared: Sandbox) -> None:
    start = shared.history_id()
    message = shared.arrived("Much happens")
    path = f"{GMAIL}/messages/{message['id']}"
    shared.post(path + "/modify", {"addLabelIds": ["STARRED"], "removeLabelIds": ["UNREAD"]})
    shared.post(path + "/modify", {"addLabelIds": ["STARRED"]})  # changes nothing
    records = shared.changes_since(start)
    added, starred, read = records
    assert [int(one["id"]) for one in records] == sorted(int(one["id"]) for one in records)
    assert added["messagesAdded"][0]["message"] == {
        "id": message["id"],
        "threadId": message["threadId"],
        "labelIds": ["INBOX", "UNREAD"],
    }
    assert starred["labelsAdded"][0]["labelIds"] == ["STARRED"]
    assert read["labelsRemoved"][0]["labelIds"] == ["UNREAD"]
    assert read["labelsRemoved"][0]["message"]["labelIds"] == ["INBOX", "STARRED"]
    assert shared.get(path, format="minimal")["historyId"] == records[-1]["id"] == shared.history_id()
    assert shared.get(GMAIL + "/history", startHistoryId=shared.history_id()) == {"historyId": shared.history_id()}


def test_history_pages_may_be_empty_and_always_name_the_newest_id(shared: Sandbox) -> None:
    start = shared.history_id()
    messages = [shared.arrived(f"Page {n}")["id"] for n in range(3)]
    shared.post(f"{GMAIL}/messages/{messages[0]}/modify", {"removeLabelIds": ["UNREAD"]})
    wanted = {"startHistoryId": start, "maxResults": 1, "historyTypes": ["labelRemoved"], "labelId": "INBOX"}
    pages = [shared.get(GMAIL + "/history", **wanted)]
    while token := pages[-1].get("nextPageToken"):
        pages.append(shared.get(GMAIL + "/history", **wanted, pageToken=token))
    assert [len(page.get("history", [])) for page in pages] == [0, 0, 0, 1]
    assert {page["historyId"] for page in pages} == {shared.history_id()}
    assert reason(shared.http.get(GMAIL + "/history", params={"startHistoryId": start, "historyTypes": "x"}))[0] == 400


def test_history_begins_somewhere_and_expires(launch: Any) -> None:
    sandbox = launch()
    old = sandbox.history_id()
    before_mailbox = sandbox.http.get(GMAIL + "/history", params={"startHistoryId": "1"})
    assert reason(before_mailbox) == (404, "notFound")
    sandbox.arrived("Last week")
    assert len(sandbox.changes_since(old)) == 1
    with sqlite3.connect(sandbox.data, timeout=5) as db:  # eight days pass
        db.execute("UPDATE history SET happened = happened - 8 * 86400")
    assert reason(sandbox.http.get(GMAIL + "/history", params={"startHistoryId": old})) == (404, "notFound")
    assert sandbox.changes_since(sandbox.history_id()) == []


# Labels


def test_labels(shared: Sandbox) -> None:
    made = shared.post(GMAIL + "/labels", {"name": "Assistant/Ignored"})
    assert reason(shared.http.post(GMAIL + "/labels", json={"name": "assistant/ignored"})) == (409, "aborted")
    assert made in shared.get(GMAIL + "/labels")["labels"]
    first, second = shared.arrived("One")["id"], shared.arrived("Two")["id"]
    answer = shared.http.post(
        GMAIL + "/messages/batchModify",
        json={"ids": [first, second], "addLabelIds": [made["id"]], "removeLabelIds": ["INBOX"]},
    )
    assert (answer.status_code, answer.content) == (204, b"")
    shared.post(f"{GMAIL}/messages/{first}/modify", {"removeLabelIds": ["UNREAD"]})
    counts = shared.get(f"{GMAIL}/labels/{made['id']}")
    assert (counts["messagesTotal"], counts["messagesUnread"], counts["threadsUnread"]) == (2, 1, 1)
    assert {one["id"] for one in shared.search("label:assistant-ignored")} == {first, second}

    assert shared.http.delete(f"{GMAIL}/labels/{made['id']}").status_code == 204
    assert made["id"] not in shared.get(f"{GMAIL}/messages/{first}")["labelIds"]
    refused = shared.http.post(f"{GMAIL}/messages/{first}/modify", json={"addLabelIds": [made["id"]]})
    assert reason(refused) == (400, "invalidArgument")
    assert reason(shared.http.delete(f"{GMAIL}/labels/INBOX")) == (400, "invalidArgument")
    assert shared.post(GMAIL + "/labels", {"name": "Assistant/Ignored"})["id"] not in ("INBOX", made["id"])


@pytest.mark.parametrize("label", ["Label_999", "SENT", "DRAFT"])
def test_labels_that_cannot_be_set_change_nothing(shared: Sandbox, label: str) -> None:
    message = shared.arrived("Untouched")
    start = shared.history_id()
    body = {"addLabelIds": ["STARRED", label]}
    assert reason(shared.http.post(f"{GMAIL}/messages/{message['id']}/modify", json=body)) == (400, "invalidArgument")
    assert shared.changes_since(start) == []


def test_a_batch_with_an_unknown_message_changes_nothing(shared: Sandbox) -> None:
    message = shared.arrived("In a batch")
    start = shared.history_id()
    body = {"ids": [message["id"], "00000000000000aa"], "addLabelIds": ["STARRED"]}
    assert shared.http.post(GMAIL + "/messages/batchModify", json=body).status_code == 404
    assert shared.changes_since(start) == []


def test_trash(shared: Sandbox) -> None:
    message = shared.arrived("Thrown away")
    assert "TRASH" in shared.post(f"{GMAIL}/messages/{message['id']}/trash")["labelIds"]
    assert shared.search('subject:"thrown away"') == []
    assert "TRASH" not in shared.post(f"{GMAIL}/messages/{message['id']}/untrash")["labelIds"]
    assert len(shared.search('subject:"thrown away"')) == 1


# Calendar


def _event(**changes: Any) -> dict[str, Any]:
    return {
        "summary": "Tea",
        "start": {"dateTime": "2031-05-05T10:00:00+02:00"},
        "end": {"dateTime": "2031-05-05T11:00:00+02:00"},
    } | changes


def test_an_event_id_is_taken_once(shared: Sandbox) -> None:
    made = shared.post(EVENTS + "?sendUpdates=all", _event(id="tea0taken"))
    assert (made["id"], made["status"], made["organizer"]["email"]) == ("tea0taken", "confirmed", ALEX)
    assert reason(shared.http.post(EVENTS, json=_event(id="tea0taken"))) == (409, "duplicate")
    shared.http.delete(f"{EVENTS}/tea0taken")
    assert reason(shared.http.post(EVENTS, json=_event(id="tea0taken"))) == (409, "duplicate")


@pytest.mark.parametrize("event_id", ["tea", "UPPER0", "with-hyphen", "wxyz00"])
def test_an_event_id_has_few_characters(shared: Sandbox, event_id: str) -> None:
    assert reason(shared.http.post(EVENTS, json=_event(id=event_id))) == (400, "invalid")


def test_an_event_changes_and_goes(shared: Sandbox) -> None:
    made = shared.post(EVENTS, _event(attendees=[{"email": "kim@elsewhere.example"}], location="Garden"))
    path = f"{EVENTS}/{made['id']}"
    patched = shared.http.patch(path, json={"summary": "Coffee", "location": None}).json()
    assert (patched["summary"], patched["start"], patched["sequence"]) == ("Coffee", made["start"], 1)
    assert "location" not in patched
    assert patched["attendees"] == [{"email": "kim@elsewhere.example", "responseStatus": "needsAction"}]
    updated = shared.http.put(path, json=_event(summary="Water")).json()
    assert "attendees" not in updated
    assert (updated["id"], updated["created"]) == (made["id"], made["created"])
    assert reason(shared.http.delete(path, headers={"If-Match": made["etag"]})) == (412, "conditionNotMet")
    assert shared.http.delete(path, headers={"If-Match": updated["etag"]}).status_code == 204
    assert shared.get(path)["status"] == "cancelled"
    assert reason(shared.http.delete(path)) == (410, "deleted")
    assert reason(shared.http.get(EVENTS + "/nothere00")) == (404, "notFound")


def test_events_are_listed_by_the_time_they_overlap(shared: Sandbox) -> None:
    for hour in (8, 9, 10):
        shared.post(
            EVENTS,
            _event(
                summary=f"At {hour}",
                start={"dateTime": f"2032-06-01T{hour:02}:00:00", "timeZone": "Europe/London"},
                end={"dateTime": f"2032-06-01T{hour + 1:02}:00:00", "timeZone": "Europe/London"},
            ),
        )
    window = {"timeMin": "2032-06-01T08:00:00Z", "timeMax": "2032-06-01T09:00:00Z"}  # 9 to 10 in London
    listing = shared.get(EVENTS, singleEvents="true", orderBy="startTime", **window)
    assert [one["summary"] for one in listing["items"]] == ["At 9"]
    assert listing["items"][0]["start"]["dateTime"] == "2032-06-01T10:00:00+02:00"
    day = {"timeMin": "2032-06-01T00:00:00Z", "timeMax": "2032-06-02T00:00:00Z", "maxResults": "2"}
    first = shared.get(EVENTS, **day)
    second = shared.get(EVENTS, **day, pageToken=first["nextPageToken"])
    assert [one["summary"] for one in first["items"] + second["items"]] == ["At 8", "At 9", "At 10"]
    assert "nextPageToken" not in second


def test_busy_times_are_merged_and_whole_days_count(shared: Sandbox) -> None:
    shared.post(EVENTS, _event(start={"date": "2033-03-01"}, end={"date": "2033-03-02"}))
    shared.post(
        EVENTS,
        _event(start={"dateTime": "2033-03-01T22:30:00Z"}, end={"dateTime": "2033-03-02T08:00:00Z"}),
    )
    shared.post(
        EVENTS,
        _event(
            start={"dateTime": "2033-03-02T12:00:00Z"},
            end={"dateTime": "2033-03-02T13:00:00Z"},
            transparency="transparent",
        ),
    )
    asked = {
        "timeMin": "2033-03-01T00:00:00Z",
        "timeMax": "2033-03-03T00:00:00Z",
        "items": [{"id": "primary"}, {"id": "other@elsewhere.example"}],
    }
    calendars = shared.post("/calendar/v3/freeBusy", asked)["calendars"]
    assert calendars["primary"]["busy"] == [{"start": "2033-02-28T23:00:00Z", "end": "2033-03-02T08:00:00Z"}]
    assert calendars["other@elsewhere.example"]["errors"][0]["reason"] == "notFound"


@pytest.mark.parametrize(
    "changes",
    [
        {"start": None},
        {"end": {"dateTime": "2031-05-05T09:00:00+02:00"}},
        {"end": {"date": "2031-05-06"}},
        {"start": {"dateTime": "tomorrow"}},
        {"start": {"dateTime": "2031-05-05T10:00:00", "timeZone": "Europe/Atlantis"}},
        {"recurrence": ["RRULE:FREQ=DAILY"]},
        {"attendees": [{"email": "nobody"}]},
    ],
)
def test_an_impossible_event_is_refused(shared: Sandbox, changes: dict[str, Any]) -> None:
    assert reason(shared.http.post(EVENTS, json=_event(**changes)))[0] == 400


@pytest.mark.parametrize(
    "query",
    [
        "orderBy=startTime",
        "timeMin=2031-01-01T00:00:00",
        "timeMin=2031-01-02T00:00:00Z&timeMax=2031-01-01T00:00:00Z",
        "q=tea",
        "timeZone=Europe/Atlantis",
    ],
)
def test_an_impossible_listing_is_refused(shared: Sandbox, query: str) -> None:
    assert reason(shared.http.get(f"{EVENTS}?{query}"))[0] == 400


def test_calendars_are_listed_and_ticked(shared: Sandbox) -> None:
    listing = "/calendar/v3/users/me/calendarList"
    primary, private = shared.get(listing)["items"][:2]
    assert (primary["id"], primary["primary"], primary["selected"]) == (ALEX, True, True)
    assert (private["summary"], private["selected"]) == ("Private", True)
    assert "primary" not in private

    made = shared.post("/calendar/v3/calendars", {"summary": "Team", "timeZone": "Asia/Tokyo"})
    assert shared.get(f"/calendar/v3/calendars/{made['id']}") == made
    assert "selected" not in shared.get(listing)["items"][-1]
    entry = f"{listing}/{made['id']}"
    assert shared.http.patch(entry, json={"selected": True}).json()["selected"] is True
    first = shared.get(listing, maxResults=2)
    assert [e["id"] for e in shared.get(listing, pageToken=first["nextPageToken"])["items"]] == [made["id"]]
    assert shared.http.patch(entry, json={"hidden": True}).json()["hidden"] is True
    assert made["id"] not in {e["id"] for e in shared.get(listing)["items"]}
    assert made["id"] in {e["id"] for e in shared.get(listing, showHidden="true")["items"]}
    assert reason(shared.http.patch(entry, json={"summaryOverride": "x"}))[0] == 400
    assert reason(shared.http.patch(f"{listing}/other", json={"selected": True}))[0] == 404
    assert reason(shared.http.post("/calendar/v3/calendars", json={}))[0] == 400


def test_each_calendar_holds_its_own_events(shared: Sandbox) -> None:
    made = shared.post("/calendar/v3/calendars", {"summary": "Others", "timeZone": "Asia/Tokyo"})
    path = f"/calendar/v3/calendars/{made['id']}/events"
    day = {"timeMin": "2034-05-05T00:00:00Z", "timeMax": "2034-05-06T00:00:00Z"}
    there = {"start": {"dateTime": "2034-05-05T08:00:00Z"}, "end": {"dateTime": "2034-05-05T09:00:00Z"}}
    for where in (path, EVENTS):
        assert shared.post(where, _event(id="both00", **there))["id"] == "both00"
    shared.post(path, _event(id="there0", summary="There", **there))
    assert [e["id"] for e in shared.get(EVENTS, **day)["items"]] == ["both00"]
    assert [e["id"] for e in shared.get(path, **day)["items"]] == ["both00", "there0"]
    assert shared.get(f"{path}/there0")["start"]["dateTime"] == "2034-05-05T17:00:00+09:00"
    assert reason(shared.http.get(f"{EVENTS}/there0"))[0] == 404
    shared.http.delete(f"{path}/both00")
    assert shared.get(f"{EVENTS}/both00")["status"] == "confirmed"
    busy = shared.post("/calendar/v3/freeBusy", {**day, "items": [{"id": made["id"]}]})["calendars"]
    assert len(busy[made["id"]]["busy"]) == 1


def test_a_conference_is_made_only_for_a_client_that_knows_of_them(shared: Sandbox) -> None:
    def ask(kind: str) -> dict[str, Any]:
        return _event(conferenceData={"createRequest": {"requestId": "one", "conferenceSolutionKey": {"type": kind}}})

    assert "conferenceData" not in shared.post(EVENTS, ask("hangoutsMeet"))
    assert "conferenceData" not in shared.post(f"{EVENTS}?conferenceDataVersion=0", ask("hangoutsMeet"))
    made = shared.post(f"{EVENTS}?conferenceDataVersion=1", ask("hangoutsMeet"))
    [entry] = made["conferenceData"]["entryPoints"]
    assert made["hangoutLink"] == entry["uri"]
    assert made["conferenceData"]["createRequest"]["status"] == {"statusCode": "success"}
    patched = shared.http.patch(f"{EVENTS}/{made['id']}", json={"summary": "Coffee"}).json()
    assert patched["hangoutLink"] == made["hangoutLink"]
    for query in ("conferenceDataVersion=1", "conferenceDataVersion=2"):
        assert reason(shared.http.post(f"{EVENTS}?{query}", json=ask("eventHangout")))[0] == 400


def test_a_watch_is_promised_for_a_week(shared: Sandbox) -> None:
    answer = shared.post(f"{GMAIL}/watch", {"topicName": "projects/p/topics/mail"})
    assert answer["historyId"] == shared.history_id()
    assert 6.9 < (int(answer["expiration"]) / 1000 - time.time()) / 86400 <= 7
    assert reason(shared.http.post(f"{GMAIL}/watch", json={"topicName": "mail"}))[0] == 400
    assert shared.http.post(f"{GMAIL}/stop").status_code == 204


def test_only_known_values_of_send_updates_and_calendars(shared: Sandbox) -> None:
    assert reason(shared.http.post(EVENTS + "?sendUpdates=some", json=_event()))[0] == 400
    assert reason(shared.http.get("/calendar/v3/calendars/other@elsewhere.example"))[0] == 404
    assert reason(shared.http.get("/calendar/v3/users/me/settings/locale"))[0] == 404


# Correspondents


def _answer(sandbox: Sandbox, q: str) -> list[dict[str, Any]]:
    """Reply to the newest mail that the search finds; what arrived inside the sending."""
    message = sandbox.get(f"{GMAIL}/messages/{sandbox.search(q)[0]['id']}")
    start = sandbox.history_id()
    sent = sandbox.post(GMAIL + "/messages/send", {"raw": encoded(reply_to(message)), "threadId": message["threadId"]})
    added = [one["messagesAdded"][0]["message"] for one in sandbox.changes_since(start)]
    assert added.pop(0)["id"] == sent["id"]
    return [sandbox.get(f"{GMAIL}/messages/{one['id']}") for one in added]


def test_a_correspondent_answers_once(launch: Any) -> None:
    sandbox = launch()
    [answer] = _answer(sandbox, "from:nina.okafor")
    assert answer["labelIds"] == ["INBOX", "UNREAD"]
    assert header(answer, "From").startswith("Nina Okafor")
    assert header(answer, "In-Reply-To") == header(
        sandbox.get(f"{GMAIL}/messages/{sandbox.search('in:sent to:nina.okafor')[0]['id']}"), "Message-ID"
    )
    assert len(sandbox.get(f"{GMAIL}/threads/{answer['threadId']}")["messages"]) == 3
    assert _answer(sandbox, "from:nina.okafor") == []
    assert len(_answer(sandbox, "from:priya.raman")) == 1


@pytest.mark.parametrize("q", ["from:harbour-letter", "from:builds", "from:kanthoiz"])
def test_machines_and_strangers_do_not_answer(shared: Sandbox, q: str) -> None:
    assert _answer(shared, q) == []


def test_a_new_mail_to_a_correspondent_is_not_answered(shared: Sandbox) -> None:
    start = shared.history_id()
    shared.post(GMAIL + "/messages/send", {"raw": encoded(mail("By the way", to="sam.morgan@homepost.example"))})
    assert len(shared.changes_since(start)) == 1


def _wait_for_total(sandbox: Sandbox, total: int) -> None:
    deadline = time.monotonic() + 20
    while sandbox.get(GMAIL + "/profile")["messagesTotal"] < total:
        assert time.monotonic() < deadline, "the mails did not arrive"


def test_later_mails_arrive_once_ever_and_answers_after_the_pace(launch: Any) -> None:
    quiet = launch()
    begin = quiet.ready["loaded"]
    quiet.stop()
    paced = launch("--pace", "0.05")
    _wait_for_total(paced, begin + 6)
    newest = paced.get(f"{GMAIL}/messages/{paced.search('in:inbox')[0]['id']}")  # it takes a meeting away
    assert header(newest, "Subject") == "Re: Contract renewal: half an hour this week?"
    message = paced.get(f"{GMAIL}/messages/{paced.search('from:lea.brandt')[0]['id']}")
    paced.post(GMAIL + "/messages/send", {"raw": encoded(reply_to(message)), "threadId": message["threadId"]})
    _wait_for_total(paced, begin + 8)
    assert len(paced.search("from:lea.brandt")) == 2
    paced.stop()
    again = launch("--pace", "0.001")
    assert len(_answer(again, "from:marek.nowak")) <= 1
    _wait_for_total(again, begin + 10)
    assert len(again.search("in:anywhere", maxResults=500)) == begin + 10


# A mailbox file


RAW_LATIN = (
    b"From: J\xf6rg <joerg@m.example>\nSubject: =?utf-8?b?broken\nContent-Type: text/plain; charset=nonsense\n"
    b"Date: not a date\n\nGr\xfc\xdfe\n>From the sea\nFrom what I hear, all is well.\n"
)


def _mbox(*mails: bytes, from_line: bytes = b"From x@m.example Thu Sep 12 10:00:00 2002") -> bytes:
    return b"".join(from_line + b"\n" + one + b"\n" for one in mails)


def _write(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "mail.mbox"
    path.write_bytes(content)
    return str(path)


def _mail(name: str, *lines: str) -> bytes:
    head = [f"Message-ID: <{name}@m.example>", f"Subject: {name}", *lines]
    return ("\n".join(head) + f"\n\nText of {name}.\n").encode()


def _by_subject(sandbox: Sandbox) -> dict[str, dict[str, Any]]:
    found = sandbox.search("in:anywhere", maxResults=500)
    return {
        header(message, "Subject"): message
        for message in (sandbox.get(f"{GMAIL}/messages/{one['id']}") for one in found)
    }


async def test_a_large_file_says_how_far_it_is_loaded(tmp_path: Path) -> None:
    path = _write(tmp_path, _mbox(*(_mail(f"mail{n}") for n in range(1200))))
    told: list[tuple[int, int]] = []
    options = ("--data", ":memory:", "--mbox", path, "--progress")
    async with stand_in("google_sandbox", *options, progress=lambda *each: told.append(each)) as ready:
        assert ready["loaded"] == 1200
    assert {of for _, of in told} == {1200}
    assert [read for read, _ in told] == sorted({read for read, _ in told})
    assert len(told) > 2


def test_a_mailbox_file_is_loaded_once(launch: Any, tmp_path: Path) -> None:
    first = [_mail("a"), _mail("b"), _mail("a"), RAW_LATIN, RAW_LATIN]
    path = _write(tmp_path, _mbox(*first))
    sandbox = launch("--mbox", path)
    assert (sandbox.ready["loaded"], sandbox.ready["known"]) == (3, 2)
    assert sandbox.ready["address"] == "you@mailbox.example"
    assert sandbox.get(EVENTS)["items"] == []
    sandbox.stop()

    _write(tmp_path, _mbox(*first, _mail("c")))
    again = launch("--mbox", path)
    assert (again.ready["loaded"], again.ready["known"]) == (1, 5)
    assert set(_by_subject(again)) == {"a", "b", "c", "=?utf-8?b?broken"}
    again.stop()
    assert launch().get(GMAIL + "/profile")["messagesTotal"] == 4


def test_bytes_are_kept_and_dates_fall_back_to_the_separator(launch: Any, tmp_path: Path) -> None:
    sandbox = launch("--mbox", _write(tmp_path, _mbox(RAW_LATIN, _mail("a", "Date: Fri, 13 Sep 2002 10:00:00 +0200"))))
    [newer, older] = sandbox.search("")
    broken = sandbox.get(f"{GMAIL}/messages/{older['id']}", format="raw")
    assert decoded(broken["raw"]) == RAW_LATIN
    assert broken["internalDate"] == "1031824800000"
    assert sandbox.get(f"{GMAIL}/messages/{newer['id']}")["internalDate"] == "1031904000000"
    full = sandbox.get(f"{GMAIL}/messages/{older['id']}")
    assert header(full, "From") == "Jörg <joerg@m.example>"
    assert decoded(full["payload"]["body"]["data"]).startswith(b"Gr\xfc\xdfe")


def test_labels_come_from_the_export_or_from_the_sender(launch: Any, tmp_path: Path) -> None:
    mails = [
        _mail("received", "From: ann@m.example", "Delivered-To: Bob@m.example"),
        _mail("written", "From: Bob <bob@m.example>", "To: ann@m.example"),
        _mail("read", "From: ann@m.example", "Delivered-To: bob@m.example", "X-Gmail-Labels: Inbox,Opened,Holidays"),
        _mail("junk", "Delivered-To: else@m.example", "X-Gmail-Labels: Spam,Unread"),
        _mail("draft", "From: bob@m.example", "X-Gmail-Labels: Drafts,Opened"),
    ]
    sandbox = launch("--mbox", _write(tmp_path, _mbox(*mails)))
    assert sandbox.ready["address"] == "bob@m.example"
    labels = {name: set(message["labelIds"]) for name, message in _by_subject(sandbox).items()}
    [holidays] = [one["id"] for one in sandbox.get(GMAIL + "/labels")["labels"] if one["name"] == "Holidays"]
    assert labels == {
        "received": {"INBOX", "UNREAD"},
        "written": {"SENT"},
        "read": {"INBOX", holidays},
        "junk": {"SPAM", "UNREAD"},
    }


def test_conversations_are_rebuilt_in_any_order(launch: Any, tmp_path: Path) -> None:
    first = [
        _mail("third", "In-Reply-To: <second@m.example>"),
        _mail("first"),
        _mail("second", "In-Reply-To: <first@m.example>"),
        _mail("alone", "References: <lost@m.example>"),
        _mail("google1", "X-GM-THRID: 1700000000000000001"),
        _mail("google2", "X-GM-THRID: 1700000000000000001"),
    ]
    path = _write(tmp_path, _mbox(*first))
    sandbox = launch("--mbox", path)
    threads = {name: message["threadId"] for name, message in _by_subject(sandbox).items()}
    assert threads["first"] == threads["second"] == threads["third"]
    assert threads["google1"] == threads["google2"] == f"{1700000000000000001:016x}"
    assert len(set(threads.values())) == 3
    sandbox.stop()

    _write(tmp_path, _mbox(*first, _mail("fourth", "References: <first@m.example> <third@m.example>")))
    again = {name: message["threadId"] for name, message in _by_subject(launch("--mbox", path)).items()}
    assert again == threads | {"fourth": threads["first"]}


def test_nobody_writes_into_a_persons_own_mailbox(launch: Any, tmp_path: Path) -> None:
    sandbox = launch("--mbox", _write(tmp_path, _mbox(_mail("a", "From: nina.okafor@brightwater.example"))))
    assert _answer(sandbox, "from:nina.okafor") == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "there is no such file"),
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"Dear diary,\n\nFrom x Thu Sep 12 10:00:00 2002\n", "is no mbox file"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is no mbox file"),
    ],
)
def test_a_file_that_is_no_mailbox_is_refused(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    path = tmp_path / "mail.mbox"
    if content is not None:
        path.write_bytes(content)
    assert complaint in _refusal(tmp_path, "--mbox", str(path))


@pytest.mark.long
def test_other_bad_input_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in _refusal(tmp_path, "--mbox", str(tmp_path))
    assert "timezone" in _refusal(tmp_path, "--timezone", "Europe/Atlantis")
    assert "mail address" in _refusal(tmp_path, "--address", "nobody")
    (tmp_path / "data.sqlite3").write_bytes(b"no database at all, but long enough to be read as one" * 20)
    assert "not a database" in _refusal(tmp_path)
