"""npm's @emulators/google, a Gmail and login of somebody else's making, with the calendar of myworld beside it."""

import base64
import json
import subprocess
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from starlette.responses import JSONResponse, Response

from tests.doubles.front import Call
from tests.doubles.mail import Message, answer, written
from tests.doubles.myworld import MyWorld
from tests.doubles.proxy import Proxy, Upstream

_FOLDER = Path(__file__).parent / "google_emulator"
_ME = "/gmail/v1/users/me"
_END_OF_TIME = "9" * 30
"""A history id that will never be reached: asking from it answers with the newest one alone."""
CLIENT = {"client_id": "client-id", "client_secret": "client-secret"}
_SCOPES = "https://www.googleapis.com/auth/gmail.modify https://www.googleapis.com/auth/calendar.events"


class Emulator:
    """The process, which holds one mailbox; and what happens in it by other hands than the program's."""

    def __init__(self, address: str) -> None:
        self.address = address
        client = {**CLIENT, "redirect_uris": ["http://127.0.0.1/"]}
        seed = {"users": [{"email": address, "name": "Ada"}], "oauth_clients": [client]}
        command = ["node", str(_FOLDER / "host.mjs"), json.dumps(seed)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout
        self.url = self._child.stdout.readline().strip()
        self._http = httpx.Client(base_url=self.url, trust_env=False, timeout=30)
        self._http.headers["authorization"] = f"Bearer {self.log_in()['access_token']}"

    def stop(self) -> None:
        self._http.close()
        self._child.communicate()

    def log_in(self) -> dict[str, str]:
        """The person lets the client in; return its tokens."""
        redirect = "http://127.0.0.1/"
        consent = {"email": self.address, "client_id": CLIENT["client_id"], "scope": _SCOPES, "redirect_uri": redirect}
        agreed = self._http.post("/o/oauth2/v2/auth/callback", data=consent)
        [code] = parse_qs(urlsplit(agreed.headers["location"]).query)["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, **CLIENT}
        tokens: dict[str, str] = self._http.post("/oauth2/token", data=form).raise_for_status().json()
        return tokens

    def ask(self, method: str, path: str, body: object = None, **query: Any) -> Any:
        """Ask it as the person's own browser would."""
        answer = self._http.request(method, _ME + path, json=body, params=query).raise_for_status()
        return answer.json() if answer.content else None


class EmulatedGoogle(Proxy):
    """One person's account: mail and login there, the calendar in myworld if that is given, or else there too.

    Its history ids have more digits than Google's 64 bits hold, so they are shown smaller by a fixed amount.
    """

    history_floor = 1

    def __init__(self, address: str, calendars: MyWorld | None = None, timezone: str = "Europe/Berlin") -> None:
        self.history_ahead = -int((time.time() - 1) * 1000) * 10**8
        self._emulator = Emulator(address)
        url = self._emulator.url
        upstreams = {
            "/o/oauth2": Upstream(f"{url}/o/oauth2"),
            "/token": Upstream(f"{url}/oauth2/token"),
            "/revoke": Upstream(f"{url}/oauth2/revoke"),
            "/gmail": Upstream(f"{url}/gmail"),
            "/calendar": Upstream(f"{url}/calendar"),
        }
        if calendars:
            self._world = calendars.account(address, timezone)
            upstreams["/calendar"] = Upstream(self._world.service("www") + "/calendar", self._world.token)
        super().__init__(address, upstreams)
        self.login = {**CLIENT, "refresh_token": self._emulator.log_in()["refresh_token"]}

    def __exit__(self, *stop: object) -> None:
        super().__exit__(*stop)
        self._emulator.stop()

    # What a test does

    def deliver(
        self,
        from_: str,
        subject: str,
        text: str,
        *,
        thread: str | None = None,
        labels: Iterable[str] = ("INBOX", "UNREAD"),
        age: timedelta = timedelta(0),
    ) -> str:
        """Mail arrives, `age` ago; return its Gmail id. With `thread` it answers that thread's last message."""
        before = self._thread(thread) if thread else ()
        return self._insert(written(from_, self.address, subject, text, thread=before, age=age), thread, labels)

    def person_sends(self, thread: str, text: str) -> str:
        """The person answers in Gmail themselves; return the sent message's id."""
        return self._insert(answer(self.address, self._thread(thread), text), thread, ["SENT"])

    def thread_of(self, message_id: str) -> str:
        return self.message(message_id).thread_id

    def expire_history(self) -> None:
        """Every historyId handed out so far is too old."""
        passing = self.deliver(self.address, "Passing", "Only so that the history goes on.", labels=["TRASH"])
        self._emulator.ask("DELETE", f"/messages/{passing}")
        newest = self._emulator.ask("GET", "/history", startHistoryId=_END_OF_TIME)["historyId"]
        self.history_floor = int(newest) + self.history_ahead

    @property
    def sent(self) -> list[Message]:
        """What is in the sent mail, in order."""
        return [self.message(ref["id"]) for ref in self._list("SENT")][::-1]

    @property
    def drafts(self) -> list[Message]:
        return [self.message(ref["id"]) for ref in self._list("DRAFT")]

    def message(self, message_id: str) -> Message:
        shown = self._emulator.ask("GET", f"/messages/{message_id}", format="raw")
        raw = base64.urlsafe_b64decode(shown["raw"] + "==")
        return Message(shown["id"], shown["threadId"], raw, set(shown["labelIds"]), int(shown["internalDate"]))

    @property
    def events(self) -> list[dict[str, Any]]:
        """What is in the calendar of myworld."""
        url = self._world.service("www") + "/calendar/v3/calendars/primary/events"
        listed = httpx.get(url, headers={"authorization": f"Bearer {self._world.token}"}, trust_env=False)
        found: list[dict[str, Any]] = listed.raise_for_status().json()["items"]
        return found

    def _list(self, label: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self._emulator.ask("GET", "/messages", labelIds=label, maxResults=500)["messages"]
        return found

    def _thread(self, thread: str) -> list[Message]:
        return [self.message(m["id"]) for m in self._emulator.ask("GET", f"/threads/{thread}")["messages"]]

    def _insert(self, raw: bytes, thread: str | None, labels: Iterable[str]) -> str:
        body = {"raw": base64.urlsafe_b64encode(raw).decode(), "labelIds": list(labels)}
        return str(self._emulator.ask("POST", "/messages", body | ({"threadId": thread} if thread else {}))["id"])

    # As Google does it

    async def carry_out(self, call: Call) -> Response:
        if call.name != "getProfile":
            return await super().carry_out(call)
        path, query = call.path.replace("/profile", "/history"), {"startHistoryId": [_END_OF_TIME]}
        listed = await super().carry_out(replace(call, path=path, query=query))
        if listed.status_code != 200:
            return listed
        return JSONResponse({"emailAddress": self.address, "historyId": json.loads(bytes(listed.body))["historyId"]})
