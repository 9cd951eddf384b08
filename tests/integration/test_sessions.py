"""The logins of browsers: how they begin, all the ways in which they end, and the name that their cookies are for."""

import contextlib
import re
import socket
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from pydantic import SecretStr

from email_assistant.app import open_app
from email_assistant.cli.door import Door, opened_door
from email_assistant.cli.serve import bound
from email_assistant.daemon import open_daemon
from email_assistant.db.pool import session_settings
from email_assistant.features.notices.telling import Telling
from email_assistant.settings import Settings
from email_assistant.web.auth import OwnName
from tests.doubles.daemon import API_TOKEN, Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.receiver import Browser, Receiver
from tests.integration import test_api
from tests.integration.test_api import TOKEN, Home, Page, client, page, served

settings, home, root, browser = test_api.settings, test_api.home, test_api.root, test_api.browser
"""The same fixtures as there."""

COOKIE = "email_assistant_session"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/18.0 Mobile/15E148 Safari/604.1"
)
NAME = "0123456789abcdef0123.localhost"
WEEK, MONTH = timedelta(days=7), timedelta(days=30)
EARLIER = """update sessions set began_at = began_at - each.by, seen_at = seen_at - each.by,
                    expires_at = expires_at - each.by
             from (select %s::interval as by) each"""
"""As if that much more time had passed."""


async def log_in(root: str, **headers: str) -> str:
    """The cookie of a browser that came by the link."""
    async with client(root, **headers) as http:
        assert (await http.get("/", params={"token": TOKEN})).status_code == 303
        return cookie_of(http)


def cookie_of(http: httpx.AsyncClient) -> str:
    """Name and value."""
    [(name, value)] = http.cookies.items()
    assert name.startswith(COOKIE)
    return f"{name}={value}"


async def opens(root: str, cookie: str) -> bool:
    """Whether whoever has this cookie can read the inbox."""
    async with client(root, cookie=cookie) as http:
        statuses = {(await http.get(path)).status_code for path in ("/", "/api/inbox", "/api/push")}
    assert statuses in ({200}, {401})
    return statuses == {200}


async def row(home: Home) -> dict[str, Any]:
    async with home.app.pool.connection() as conn:
        [found] = await (await conn.execute("select * from sessions")).fetchall()
    return found


class TestBeginning:
    async def test_each_is_another_secret_of_which_the_database_has_only_a_digest(self, home: Home, root: str) -> None:
        cookies = [await log_in(root) for _ in range(2)]
        assert len({*cookies, TOKEN}) == 3
        assert min(map(len, cookies)) >= 32
        for kept in await home.column("select row(sessions.*)::text from sessions"):
            assert not any(secret in str(kept) for secret in (*cookies, TOKEN, *(c.encode().hex() for c in cookies)))

    @pytest.mark.parametrize(
        ("mode", "dest"),
        [("navigate", "iframe"), ("no-cors", "image"), ("cors", "empty"), ("navigate", "embed"), ("no-cors", "script")],
    )
    async def test_the_link_is_for_a_tab_of_its_own(self, home: Home, root: str, mode: str, dest: str) -> None:
        async with client(root, **{"sec-fetch-mode": mode, "sec-fetch-dest": dest}) as http:
            answer = await http.get("/", params={"token": TOKEN})
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
        assert await home.column("select id from sessions") == []

    async def test_a_tab_of_its_own_says_so(self, root: str) -> None:
        own = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "none"}
        assert await opens(root, await log_in(root, **own))

    async def test_from_another_site_one_more_step_is_taken(self, root: str) -> None:
        """A browser holds the new cookie back on the rest of a step that began there; this one is ours."""
        far = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "cross-site"}
        async with client(root, **far) as http:
            answer = await http.get("/mails", params={"token": TOKEN, "state": "done"})
            assert (answer.status_code, answer.headers["refresh"]) == (200, "0; url=/mails?state=done")
            assert TOKEN not in answer.text
            assert await opens(root, cookie_of(http))

    async def test_the_link_again_begins_no_other(self, home: Home, browser: httpx.AsyncClient) -> None:
        began = await row(home)
        await home.execute("update sessions set began_at = began_at - interval '1 day'")
        answer = await browser.get("/", params={"token": TOKEN})
        assert (answer.status_code, "set-cookie" in answer.headers) == (303, False)
        again = await row(home)
        assert again["id"] == began["id"]
        assert again["began_at"] > began["began_at"]

    async def test_programs_need_none(self, home: Home, root: str) -> None:
        for headers in ({"authorization": f"Bearer {TOKEN}"}, {"x-api-key": TOKEN}):
            async with client(root, **headers) as program:
                answer = await program.get("/api/inbox")
            assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
        assert await home.column("select id from sessions") == []

    async def test_without_a_token_there_are_none(self, home: Home) -> None:
        async with served(home.app, token=None) as root, client(root) as anybody:
            link = await anybody.get("/", params={"token": "any"})
            form = await anybody.post("/login", data={"token": ""})
            assert [(a.status_code, "set-cookie" in a.headers) for a in (link, form)] == [(303, False)] * 2
            assert "No token is asked for" in (await page(anybody, "/sessions")).text
            assert (await anybody.post("/logout")).status_code == 303
        assert await home.column("select id from sessions") == []

    async def test_another_home_on_this_machine_logs_nobody_out(
        self, root: str, settings: Settings, tmp_path: Path, empty_database_url: str
    ) -> None:
        theirs = settings.model_copy(update={"home": tmp_path / "theirs"})
        async with open_app(theirs, empty_database_url) as app, served(app) as other, client(root) as http:
            for address in (root, other):
                await http.get(address, params={"token": TOKEN})
            assert [(await http.get(address)).status_code for address in (root, other)] == [200, 200]


class TestEnd:
    async def test_logging_out_ends_it_whoever_has_the_cookie(self, root: str) -> None:
        mine, other = await log_in(root), await log_in(root)
        async with client(root, cookie=mine) as http:
            answer = await http.post("/logout")
            assert (answer.status_code, answer.headers["location"]) == (303, "/login")
            assert answer.headers["set-cookie"].startswith(f'{mine.partition("=")[0]}=""')
        assert not await opens(root, mine)
        assert await opens(root, other)

    async def test_everywhere(self, root: str) -> None:
        cookies = [await log_in(root) for _ in range(3)]
        async with client(root, cookie=cookies[0]) as http:
            form = next(f for f in (await page(http, "/sessions")).forms if "true" in f.buttons)
            assert form.buttons["true"] == "Log out everywhere"
            await http.post(form.action, data={"everywhere": "true"})
        assert [await opens(root, cookie) for cookie in cookies] == [False] * 3

    async def test_one_of_them_by_its_button(self, home: Home, root: str) -> None:
        mine = await log_in(root, **{"user-agent": FIREFOX})
        lost = await log_in(root, **{"user-agent": PHONE})
        async with client(root, cookie=mine) as http:
            shown = await page(http, "/sessions")
            assert "Firefox on Linux (this one)" in " ".join(shown.text.split())
            assert "Safari on iPhone" in shown.text
            phone = next(s for s in await home.app.sessions.of_user(home.app.user_id) if "iPhone" in s.browser)
            for _ in range(2):  # the second time, it is out already
                answer = await http.post("/sessions/end", data={"session": str(phone.id)})
                assert (answer.status_code, answer.headers["location"]) == (303, "/sessions")
        assert [await opens(root, mine), await opens(root, lost)] == [True, False]

    async def test_a_stranger_ends_none(self, root: str, home: Home) -> None:
        cookie = await log_in(root)
        [session] = await home.app.sessions.of_user(home.app.user_id)
        async with client(root) as stranger:
            assert (await stranger.post("/logout", data={"everywhere": "true"})).status_code == 401
            assert (await stranger.post("/sessions/end", data={"session": str(session.id)})).status_code == 401
            assert (await stranger.get("/sessions")).status_code == 401
        assert await opens(root, cookie)

    async def test_it_ends_a_week_after_its_last_use(self, home: Home, root: str) -> None:
        cookie = await log_in(root)
        await home.execute(EARLIER, WEEK - timedelta(minutes=1))
        assert await opens(root, cookie)
        used = await row(home)
        assert timedelta() <= datetime.now(UTC) - used["seen_at"] < timedelta(minutes=1)
        assert timedelta() <= datetime.now(UTC) + WEEK - used["expires_at"] < timedelta(minutes=1)
        await home.execute(EARLIER, WEEK + timedelta(seconds=1))
        assert not await opens(root, cookie)

    async def test_it_ends_after_a_month_however_much_it_is_used(self, home: Home, root: str) -> None:
        cookie = await log_in(root)
        for _ in range(4):
            await home.execute(EARLIER, timedelta(days=6))
            assert await opens(root, cookie)
        used = await row(home)
        assert used["expires_at"] - used["began_at"] == MONTH
        await home.execute(EARLIER, timedelta(days=6))
        assert not await opens(root, cookie)

    async def test_what_has_ended_is_deleted(self, home: Home, root: str) -> None:
        await log_in(root)
        await home.execute(EARLIER, WEEK)
        left = await log_in(root)
        async with open_daemon(home.app) as works:
            await works.tidy()
        assert len(await home.column("select id from sessions")) == 1
        assert await opens(root, left)

    async def test_the_open_page_hears_no_more(self, home: Home, browser: httpx.AsyncClient) -> None:
        account = await home.account()
        async with browser.stream("GET", "/api/events") as answer:
            lines = answer.aiter_lines()
            async for line in lines:
                if line.startswith("event"):
                    break
            assert await home.app.sessions.end_all(home.app.user_id) == 1
            await home.app.accounts.note_error(account, "Something is told.")
            assert [line async for line in lines if line.startswith("event")] == []
        assert (await browser.get("/api/events")).status_code == 401

    async def test_the_open_page_hears_no_more_after_its_time(self, home: Home, browser: httpx.AsyncClient) -> None:
        account = await home.account()
        async with browser.stream("GET", "/api/events") as answer:
            told = (line async for line in answer.aiter_lines() if line.startswith("event"))
            assert await anext(told, None) == "event: reload"
            await home.execute(EARLIER, WEEK)
            await home.app.accounts.note_error(account, "Something is told.")
            assert await anext(told, None) is None


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as double:
        yield double


class TestNotices:
    @pytest.fixture(autouse=True)
    def _tell_this_machine_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EMAIL_ASSISTANT_NOTIFY_PRIVATE", "true")
        monkeypatch.setenv("EMAIL_ASSISTANT_NOTIFY_SETTLE_SECONDS", "0")

    async def test_a_browser_that_is_logged_out_is_told_of_nothing(
        self, home: Home, root: str, receiver: Receiver
    ) -> None:
        kept, lost = Browser(receiver, "/push/kept"), Browser(receiver, "/push/lost")
        cookies = [await log_in(root) for _ in range(2)]
        for cookie, device in zip(cookies, (kept, lost), strict=True):
            async with client(root, cookie=cookie) as http:
                assert (await http.post("/api/push/subscribe", json=device.subscription)).status_code == 204
                assert await is_told(http, device)
        async with client(root, cookie=cookies[1]) as http:
            await http.post("/logout")
        async with client(root, cookie=cookies[0]) as http:
            assert [await is_told(http, device) for device in (kept, lost)] == [True, False]
            assert (await http.get("/accounts")).text.count("<b>Browser</b>") == 1
        await home.draft(await home.account())
        await Telling.of(home.app).notices.tell()
        assert (len(kept.deliveries), len(lost.deliveries)) == (1, 0)
        async with open_daemon(home.app) as works:
            await works.tidy()
        assert len(await home.column("select id from channels")) == 1

    async def test_a_program_s_subscription_lives_on(self, home: Home, root: str, receiver: Receiver) -> None:
        device = Browser(receiver)
        async with client(root, authorization=f"Bearer {TOKEN}") as http:
            await http.post("/api/push/subscribe", json=device.subscription)
            await http.post("/logout", data={"everywhere": "true"})
            assert await is_told(http, device)


async def is_told(http: httpx.AsyncClient, device: Browser) -> bool:
    answer = await http.get("/api/push", params={"endpoint": device.subscription["endpoint"]})
    return bool(answer.json()["is_told"])


@contextlib.asynccontextmanager
async def named(home: Home, *, is_known: bool = True) -> AsyncIterator[tuple[str, str]]:
    """The plain address of a server, and the one under its name."""
    async with served(home.app, own_name=OwnName(NAME, is_known=is_known)) as root:
        yield root, root.replace("127.0.0.1", NAME)


class Resolving(httpx.AsyncHTTPTransport):
    """As a browser: a name below .localhost is this machine."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        here = request.url.copy_with(host="127.0.0.1")
        sent = httpx.Request(request.method, here, headers=request.headers, stream=request.stream)
        return await super().handle_async_request(sent)


def visitor(root: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=root, transport=Resolving(), timeout=30)


class TestName:
    async def test_the_plain_link_leads_there_and_leaves_no_cookie_behind(self, home: Home) -> None:
        async with named(home) as (plain, under_name), visitor(plain) as http:
            answer = await http.get("/mails", params={"state": "done", "token": TOKEN})
            assert answer.headers["location"] == f"{under_name}/mails?state=done&token={TOKEN}"
            assert "set-cookie" not in answer.headers
            arrived = await http.get(answer.headers["location"])
            assert (arrived.status_code, arrived.headers["location"]) == (303, "/mails?state=done")
            assert "domain" not in arrived.headers["set-cookie"].lower()
            assert (await http.get(f"{under_name}/mails")).status_code == 200
            assert (await http.get(f"{plain}/mails")).status_code == 401

    async def test_the_form_leads_there_unless_it_is_said_to_stay(self, home: Home) -> None:
        async with named(home) as (plain, under_name), visitor(plain) as http:
            form = (await page(http, "/mails?state=done", 401)).form("/login")
            assert form.kinds["stay"] == "checkbox"
            leads = await http.post(form.action, data={**form.values, "token": TOKEN})
            assert (leads.status_code, "set-cookie" in leads.headers) == (200, False)
            assert leads.headers["refresh"] == f"0; url={under_name}/mails?state=done&token={TOKEN}"
            assert TOKEN not in leads.text
            assert f'href="{under_name}/"' in leads.text
            odd = await http.post(form.action, data={"following": "/x;url=//evil.example\r\nA: ü", "token": TOKEN})
            assert (
                odd.headers["refresh"] == f"0; url={under_name}/x%3Burl=//evil.example%0D%0AA:%20%C3%BC?token={TOKEN}"
            )
            stays = await http.post(form.action, data={**form.values, "token": TOKEN, "stay": "true"})
            assert (stays.status_code, stays.headers["location"]) == (303, "/mails?state=done")
            assert (await http.get("/mails")).status_code == 200
            # Who stays is not led away by the next link either.
            assert (await http.get("/", params={"token": TOKEN})).headers["location"] == "/"

    async def test_a_login_counts_at_the_host_only_that_it_was_begun_at(self, home: Home) -> None:
        async with named(home) as (plain, under_name), visitor(plain) as http:
            await http.get(under_name, params={"token": TOKEN})
            stolen = cookie_of(http)
            assert (await http.get(under_name)).status_code == 200
            assert stolen
            assert not await opens(plain, stolen)

    async def test_who_has_not_given_the_token_is_not_told_it(self, home: Home) -> None:
        async with named(home) as (plain, _), visitor(plain) as http:
            asked = [
                *[await http.get(path) for path in ("/", "/login", "/health", "/info", "/api/inbox", "/?token=wrong")],
                await http.post("/login", data={"token": "wrong"}),
                await http.post("/logout"),
                await http.get("/health", headers={"origin": "http://127.0.0.1:1"}),
                await http.get("/?token=" + TOKEN, headers={"sec-fetch-dest": "iframe", "sec-fetch-mode": "navigate"}),
            ]
        for answer in asked:
            assert NAME.split(".")[0] not in answer.text + str(answer.headers)

    async def test_where_the_system_does_not_know_it_both_work(self, home: Home) -> None:
        async with named(home, is_known=False) as (plain, under_name), visitor(plain) as http:
            for address in (plain, under_name):
                answer = await http.get(address, params={"token": TOKEN})
                assert (answer.status_code, answer.headers["location"]) == (303, "/")
                assert (await http.get(address)).status_code == 200
                asked = (await http.get(f"{address}/login", headers={"cookie": ""})).text
                assert "stay" not in Page(asked).text

    async def test_no_other_name_is_answered_to(self, home: Home) -> None:
        async with named(home) as (plain, _), visitor(plain) as http:
            port = httpx.URL(plain).port
            for host in (f"x{NAME}", f"x.{NAME}", f"{NAME}.evil.example", "x.localhost", f"{NAME}."):
                assert (await http.get(f"http://{host}:{port}/health")).status_code == 400, host
            assert (await http.get(f"http://{NAME.upper()}:{port}/health")).status_code == 200

    async def test_its_own_forms_are_taken_and_those_of_the_other_address_are_not(self, home: Home) -> None:
        async with named(home) as (plain, under_name), visitor(under_name) as http:
            await http.get("/", params={"token": TOKEN})
            refused = await http.post("/logout", headers={"origin": plain})
            taken = await http.post("/logout", headers={"origin": under_name})
        assert (refused.status_code, taken.status_code) == (403, 303)

    async def test_behind_a_proxy_one_stays_and_the_cookie_is_of_that_host_only(self, home: Home) -> None:
        async with named(home) as (plain, _), visitor(plain) as http:
            answer = await http.get("/", params={"token": TOKEN}, headers={"x-forwarded-proto": "https"})
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith(f"__Host-{COOKIE}")
            assert "Secure" in cookie
            pair = cookie.partition(";")[0]
            for sent, status in ((pair.removeprefix("__Host-"), 401), (pair, 200)):
                headers = {"x-forwarded-proto": "https", "cookie": sent}
                assert (await http.get("/mails", headers=headers)).status_code == status


class TestDoor:
    """Which link is printed."""

    @pytest.fixture
    def door_settings(self, tmp_path: Path) -> Settings:
        return Settings(home=tmp_path, api_token=SecretStr(API_TOKEN))

    @pytest.fixture
    def resolver(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """What the system's resolver says of any name below .localhost; None: it knows none."""
        says: dict[str, Any] = {"addresses": ["127.0.0.1"], "asked": []}
        real = socket.getaddrinfo

        def answer(host: str, *arguments: Any, **more: Any) -> Any:
            if not host.endswith(".localhost"):
                return real(host, *arguments, **more)
            says["asked"].append(host)
            if says["addresses"] is None:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in says["addresses"]]

        monkeypatch.setattr(socket, "getaddrinfo", answer)
        return says

    @contextlib.contextmanager
    def opened(self, settings: Settings, host: str = "127.0.0.1", **more: Any) -> Iterator[tuple[Door, int]]:
        with bound(host, 0) as listener, opened_door(settings, listener, **more) as door:
            yield door, listener.getsockname()[1]

    @pytest.mark.parametrize("addresses", [["127.0.0.1"], ["::1", "127.0.0.1"]])
    def test_the_name_where_the_system_knows_it(
        self, door_settings: Settings, resolver: dict[str, Any], addresses: list[str]
    ) -> None:
        resolver["addresses"] = addresses
        with self.opened(door_settings) as (door, port):
            name, query = re.fullmatch(rf"http://([0-9a-f]{{20}}\.localhost):{port}/\?token=(.+)", door.link).groups()  # type: ignore[union-attr]
            assert query == API_TOKEN
            assert door.plain == f"http://127.0.0.1:{port}/login"
            assert resolver["asked"] == [name]
        with self.opened(door_settings) as (door, _):
            assert name in door.link  # it is kept
        assert (door_settings.folder / "host_name.txt").stat().st_mode & 0o077 == 0

    @pytest.mark.parametrize(
        "addresses",
        [None, [], ["192.0.2.1"], ["127.0.0.1", "192.0.2.1"], ["127.0.1.1"], ["::1"], ["::1", "2001:db8::1"]],
    )
    def test_else_the_plain_link_and_the_name_is_answered_to_as_well(
        self, door_settings: Settings, resolver: dict[str, Any], addresses: list[str] | None
    ) -> None:
        resolver["addresses"] = addresses
        with self.opened(door_settings) as (door, port):
            assert door.link == f"http://127.0.0.1:{port}/?token={API_TOKEN}"
            assert door.plain is None
            assert door.name
            assert not door.name.is_known

    def test_none_where_another_program_would_be_asked_under_it(
        self, door_settings: Settings, resolver: dict[str, Any]
    ) -> None:
        """Browsers try ::1 first: whoever listens there at our port would get the token."""
        with (
            bound("127.0.0.1", 0) as listener,
            _squatter(listener.getsockname()[1]),
            opened_door(door_settings, listener) as door,
        ):
            assert door.name is None
            assert "127.0.0.1" in door.link

    def test_nobody_can_take_the_other_place_later(self, door_settings: Settings, resolver: dict[str, Any]) -> None:
        with self.opened(door_settings) as (_, port), pytest.raises(OSError, match="in use"):
            _squatter(port)

    @pytest.mark.parametrize("host", ["0.0.0.0", "::1", "127.0.0.2"])
    def test_none_at_another_address(self, door_settings: Settings, resolver: dict[str, Any], host: str) -> None:
        with self.opened(door_settings, host) as (door, _):
            assert door.name is None
        assert resolver["asked"] == []

    def test_none_without_a_token(self, door_settings: Settings, resolver: dict[str, Any]) -> None:
        with self.opened(door_settings, no_token=True) as (door, port):
            assert (door.name, door.token, door.link) == (None, None, f"http://127.0.0.1:{port}/")
        assert not (door_settings.folder / "host_name.txt").exists()


def _squatter(port: int) -> socket.socket:
    """Another program's server at the same port of ::1."""
    return socket.create_server(("::1", port), family=socket.AF_INET6)


# The whole program


@pytest.fixture
def program(tmp_path: Path, database_url: str, google: Google, model: Model) -> Iterator[Daemon]:
    with Daemon(tmp_path, database_url, google, model, poll_seconds=60) as daemon:
        yield daemon


def come_by_link(link: str) -> httpx.Client:
    """A browser that opened the printed link."""
    http = httpx.Client(base_url=link.partition("?")[0], trust_env=False, timeout=30)
    assert http.get(link).status_code == 303
    assert http.get("/").status_code == 200
    return http


class TestProgram:
    def test_where_another_program_answers_to_the_name_those_who_came_by_it_are_logged_out(
        self, program: Daemon
    ) -> None:
        process = program.up()
        assert "no name of its own" not in process.log
        port = program.http.base_url.port
        assert port
        name = (program.home / "assistant" / "host_name.txt").read_text().strip()
        by_name = {"host": f"{name}.localhost:{port}"}
        with httpx.Client(base_url=program.http.base_url, headers=by_name, trust_env=False) as browser:
            assert browser.get("/", params={"token": API_TOKEN}).status_code == 303
        assert len(program.cli("session", "list", "--json")["items"]) == 1
        program.stop()
        with _squatter(port):
            process = program.up()
            assert "no name of its own (::1: " in process.log
            assert program.cli("session", "list", "--json")["items"] == []

    def test_the_command_line_shows_them_and_ends_them(self, program: Daemon) -> None:
        process = program.up()
        [link] = re.findall(r"Your inbox: (\S+)", process.log)
        browsers = [come_by_link(link) for _ in range(3)]
        listed = program.cli("session", "list", "--json")["items"]
        assert len(listed) == 3
        assert set(listed[0]) == {"id", "browser", "began_at", "seen_at", "expires_at"}
        shown = program.run("session", "list").stdout
        assert all(each["id"][:8] in shown for each in listed)
        assert "Logged out" in program.cli("session", "end", listed[0]["id"][:8])
        assert sorted(http.get("/").status_code for http in browsers) == [200, 200, 401]
        gone = program.run("session", "end", listed[0]["id"])
        assert (gone.returncode, "there is no browser logged in" in gone.stderr) == (1, True)
        assert program.run("session", "end").returncode == 2
        assert "2 browsers" in program.cli("session", "end", "--all")
        assert [http.get("/").status_code for http in browsers] == [401] * 3
        assert program.http.get("/api/inbox").status_code == 200
        assert "No browser" in program.run("session", "list").stdout

    def test_a_new_token_ends_them_and_a_restart_does_not(self, program: Daemon) -> None:
        process = program.up()
        [link] = re.findall(r"Your inbox: (\S+)", process.log)
        with contextlib.closing(come_by_link(link)) as http:
            program.stop()
            program.up()
            assert http.get("/").status_code == 200
            program.stop()
            program.environment["EMAIL_ASSISTANT_API_TOKEN"] = "another-token-of-the-test"
            program.up()
            assert http.get("/").status_code == 401
        assert program.cli("session", "list", "--json")["items"] == []

    def test_a_backup_brings_none_back(self, program: Daemon, tmp_path: Path, database_url: str) -> None:
        process = program.up()
        [link] = re.findall(r"Your inbox: (\S+)", process.log)
        with contextlib.closing(come_by_link(link)) as http:
            program.cli("backup", str(tmp_path / "backup.tar.gz"))
            assert http.post("/logout").status_code == 303
            program.stop()
            program.cli("restore", str(tmp_path / "backup.tar.gz"), "--replace")
        with psycopg.connect(database_url, **session_settings(database_url)) as conn:
            assert conn.execute("select * from sessions").fetchall() == []

    def test_here_the_system_does_not_know_it_and_both_work(self, program: Daemon) -> None:
        if _system_knows("any.localhost"):
            pytest.skip("this system's resolver knows names below .localhost")
        process = program.up()
        [link] = re.findall(r"Your inbox: (\S+)", process.log)
        name = (program.home / "assistant" / "host_name.txt").read_text()
        assert link == f"{program.http.base_url}/?token={API_TOKEN}"
        assert name not in process.log
        with contextlib.closing(come_by_link(link)) as http:
            there = {"host": f"{name}.localhost"}
            assert http.get("/", headers=there, params={"token": API_TOKEN}).status_code == 303
            assert http.get("/", headers=there).status_code == 200


def _system_knows(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False
