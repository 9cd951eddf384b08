"""A mail as Gmail has it, over HTTP: its files, its pictures and its invitation."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from copy import copy
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typer.testing import CliRunner, Result

from email_assistant.app import open_app
from email_assistant.cli import app as command_line
from email_assistant.inbox.items import Item
from email_assistant.mail.contents import MOST_BYTES
from email_assistant.outward import Outward, TargetRefused, Unreachable
from email_assistant.settings import Settings
from tests.browser.test_rich import PNG, letter
from tests.doubles.google import Google
from tests.doubles.serving import Server
from tests.features.notices.test_notices import Names, door, was_opened
from tests.features.terminal.test_terminal import shown
from tests.integration import test_api
from tests.integration.test_api import ADA, BOB, TOKEN, Home, client, page, served

settings = test_api.settings
__all__ = ["door", "settings"]

INVITED_AT_TEN = """BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VEVENT
UID:plan@example.org
SUMMARY:Plan the spring
DTSTART:20310602T080000Z
DURATION:PT45M
LOCATION:Room 2
RRULE:FREQ=WEEKLY
ORGANIZER:mailto:bob@example.org
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture
def google() -> Iterator[Google]:
    with Google(ADA) as double:
        yield double


@pytest.fixture
async def home(settings: Settings, database_url: str, google: Google, tmp_path: Path) -> AsyncIterator[Home]:
    async with open_app(settings.model_copy(update={"google_root": google.root}), database_url) as app:
        home = Home(app)
        await home.account()
        token = json.loads(google.write_token_file(tmp_path / "token.json").read_text())
        await app.accounts.add(app.user_id, ADA, token, datetime.now(UTC))
        yield home


@pytest.fixture
async def browser(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    async with served(home.app) as root, logged_in(root) as http:
        yield http


@asynccontextmanager
async def logged_in(root: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client(root) as http:
        assert (await http.get("/", params={"token": TOKEN})).status_code == 303
        yield http


def with_files(*files: tuple[str, str, bytes], calendar: str = "") -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = BOB, ADA, "Lunch?"
    mail.set_content("The plain words")
    if calendar:
        mail.add_alternative(calendar, subtype="calendar")
    for name, kind, content in files:
        main, _, sub = kind.partition("/")
        mail.add_attachment(content, main, sub, filename=name)
    return mail


async def arrived(home: Home, google: Google, mail: EmailMessage) -> Item:
    mail_id = google.deliver_raw(mail.as_bytes())
    [account] = await home.app.accounts.of_user(home.app.user_id)
    _, _, run = await home.mail(account.id, id=mail_id)
    return await home.ask(run)


class TestPage:
    async def test_the_item_holds_nothing_of_it(self, home: Home, google: Google, browser: httpx.AsyncClient) -> None:
        """What is slow comes when it is asked for: opening the item asks Google for nothing."""
        item = await arrived(home, google, letter("<p>The rich words"))
        before = len(google.requests)
        shown = await browser.get(f"/items/{item.id}")
        assert len(google.requests) == before
        assert "rich words" not in shown.text
        assert "<iframe" not in shown.text
        assert f"/items/{item.id}/body" in shown.text

    async def test_only_the_frame_holds_its_html(self, home: Home, google: Google, browser: httpx.AsyncClient) -> None:
        item = await arrived(home, google, letter("<p>The rich words"))
        around = await browser.get(f"/items/{item.id}/body")
        assert "rich words" not in around.text
        framed = await browser.get(f"/items/{item.id}/body/rich")
        assert "rich words" in framed.text
        policy = framed.headers["content-security-policy"]
        told = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
        assert told["default-src"] == told["base-uri"] == told["form-action"] == "'none'"
        assert set(told["sandbox"].split()) == {"allow-popups", "allow-popups-to-escape-sandbox"}
        assert told["img-src"] == "data:"
        assert told["frame-ancestors"] == "'self'"
        assert "script-src" not in told
        assert framed.headers["referrer-policy"] == "no-referrer"
        assert framed.headers["x-dns-prefetch-control"] == "off"
        assert framed.headers["x-content-type-options"] == "nosniff"
        assert framed.headers["cache-control"] == "no-store"

    async def test_nobody_sees_it_who_is_not_logged_in(self, home: Home, google: Google) -> None:
        item = await arrived(home, google, with_files(("a.txt", "text/plain", b"secret")))
        async with served(home.app) as root, client(root) as stranger:
            for path in ("body", "body/rich", "files/1"):
                assert (await stranger.get(f"/items/{item.id}/{path}")).status_code == 401

    async def test_what_gmail_does_not_give_is_said(
        self, home: Home, google: Google, browser: httpx.AsyncClient
    ) -> None:
        item = await arrived(home, google, letter("<p>x"))
        google.fault("messages.get", times=9, status=503)
        assert "can't be had from Gmail just now" in (await page(browser, f"/items/{item.id}/body")).text

    async def test_so_is_that_it_is_gone(self, home: Home, google: Google, browser: httpx.AsyncClient) -> None:
        item = await arrived(home, google, letter("<p>x"))
        google.person_deletes(item.mail_id or "")
        assert "no longer in Gmail" in (await page(browser, f"/items/{item.id}/body")).text

    async def test_html_that_is_too_much_is_said(self, home: Home, google: Google, browser: httpx.AsyncClient) -> None:
        item = await arrived(home, google, letter("<div>" * 5_000 + "deep"))
        assert "can't be shown here" in (await page(browser, f"/items/{item.id}/body")).text
        assert (await browser.get(f"/items/{item.id}/body/rich")).status_code == 404

    async def test_a_mailbox_at_google_is_opened_there(self, settings: Settings, database_url: str) -> None:
        async with open_app(settings, database_url) as app, served(app) as root, logged_in(root) as http:
            home = Home(app)
            account = await home.account()
            mail_id, _, run = await home.mail(account)
            item = await home.ask(run)
            await home.execute("update accounts set token = 'x'")
            found = await page(http, f"/items/{item.id}/body")
            assert f"https://mail.google.com/mail/?authuser=ada%40example.com#all/{mail_id}" in found.links


class TestFiles:
    async def test_they_are_listed_with_kind_and_size_and_kept(
        self, home: Home, google: Google, browser: httpx.AsyncClient
    ) -> None:
        report = b"%PDF-1.4 report" * 200
        item = await arrived(home, google, with_files(("Report.pdf", "application/pdf", report)))
        assert "Report.pdf PDF, 3 kB" in (await page(browser, f"/items/{item.id}/body")).text
        kept = await browser.get(f"/items/{item.id}/files/1")
        assert kept.content == report
        assert kept.headers["content-type"] == "application/octet-stream"
        assert kept.headers["content-disposition"] == "attachment; filename*=UTF-8''Report.pdf"
        assert kept.headers["x-content-type-options"] == "nosniff"
        assert kept.headers["content-security-policy"].startswith("sandbox; default-src 'none'")

    @pytest.mark.parametrize(
        ("name", "saved"),
        [
            ("../../etc/passwd", "passwd"),
            ("..\\..\\autoexec.bat", "autoexec.bat"),
            (".bashrc", "bashrc"),
            ("a\r\nSet-Cookie: x=1.txt", "a Set-Cookie x=1.txt"),
            ("photo\u202egpj.exe", "photogpj.exe"),
            ('x"; filename="y.exe', "x; filename=y.exe"),
            ("nul\x00l.txt", "null.txt"),
            ("x" * 400 + ".pdf", "x" * 120),
            ("...", "file-1"),
            ("-rf", "rf"),
            ("\u200b\u200b", "file-1"),
            ("<script>alert(1)</script>.html", "script.html"),
        ],
    )
    async def test_hostile_names_name_a_file_and_nothing_else(
        self, home: Home, google: Google, browser: httpx.AsyncClient, name: str, saved: str
    ) -> None:
        mail = with_files()
        mail.add_attachment(b"x", "application", "x-thing", filename="place")
        raw = mail.as_bytes().replace(b'filename="place"', b"filename*=UTF-8''" + _percent(name))
        mail_id = google.deliver_raw(raw)
        [account] = await home.app.accounts.of_user(home.app.user_id)
        _, _, run = await home.mail(account.id, id=mail_id)
        item = await home.ask(run)
        kept = await browser.get(f"/items/{item.id}/files/1")
        assert kept.status_code == 200
        disposition = kept.headers["content-disposition"]
        assert disposition.isascii()
        assert unquote(disposition.removeprefix("attachment; filename*=UTF-8''")) == saved
        assert "set-cookie" not in kept.headers
        assert (await page(browser, f"/items/{item.id}/body")).alive == []

    @pytest.mark.parametrize(
        ("name", "kind", "content"),
        [
            ("page.html", "text/html", b"<script>alert(1)</script>"),
            ("picture.svg", "image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
            ("picture.png", "image/png", b"<html><script>alert(1)</script>"),
            ("page.xhtml", "application/xhtml+xml", b"<html xmlns='http://www.w3.org/1999/xhtml'/>"),
            ("report.pdf", "application/pdf", b"%PDF-1.4"),
        ],
    )
    async def test_what_could_act_is_never_opened(
        self, home: Home, google: Google, browser: httpx.AsyncClient, name: str, kind: str, content: bytes
    ) -> None:
        item = await arrived(home, google, with_files((name, kind, content)))
        opened = await browser.get(f"/items/{item.id}/files/1", params={"open": "true"})
        if opened.status_code == 200:
            assert opened.headers["content-disposition"].startswith("attachment")
            assert opened.headers["content-type"] == "application/octet-stream"
        else:
            assert opened.status_code == 404
            assert content not in opened.content

    async def test_a_picture_and_a_text_open_sandboxed(
        self, home: Home, google: Google, browser: httpx.AsyncClient
    ) -> None:
        item = await arrived(
            home, google, with_files(("a.jpg", "image/jpeg", PNG), ("b.csv", "text/csv", "<b>é".encode()))
        )
        picture, text = [
            await browser.get(f"/items/{item.id}/files/{number}", params={"open": "true"}) for number in (1, 2)
        ]
        assert picture.headers["content-type"] == "image/png"
        assert text.headers["content-type"] == "text/plain; charset=utf-8"
        assert text.text == "<b>é"
        for opened in (picture, text):
            assert opened.headers["content-disposition"].startswith("inline")
            assert opened.headers["content-security-policy"].startswith("sandbox; default-src 'none'")

    async def test_more_than_25_mb_is_not_fetched(self, home: Home, google: Google, browser: httpx.AsyncClient) -> None:
        item = await arrived(home, google, with_files(("film.mov", "video/quicktime", bytes(MOST_BYTES + 1))))
        assert "film.mov MOV, 25.0 MB" in (await page(browser, f"/items/{item.id}/body")).text
        refused = await browser.get(f"/items/{item.id}/files/1")
        assert refused.status_code == 413
        assert "open the mail in Gmail" in refused.text
        assert google.calls("messages.attachments.get") == []

    async def test_there_is_no_other_file(self, home: Home, google: Google, browser: httpx.AsyncClient) -> None:
        item = await arrived(home, google, with_files(("a.txt", "text/plain", b"x")))
        for number in ("0", "2", "-1", "99999999999999999999"):
            assert (await browser.get(f"/items/{item.id}/files/{number}")).status_code == 404


def _percent(name: str) -> bytes:
    return "".join(f"%{byte:02X}" for byte in name.encode()).encode()


class TestInvitation:
    async def test_it_is_told_in_the_persons_timezone_beside_their_day(
        self, home: Home, google: Google, browser: httpx.AsyncClient
    ) -> None:
        start = datetime(2031, 6, 2, 8, tzinfo=UTC)
        mail = with_files(calendar=INVITED_AT_TEN)
        google.add_event("Dentist", start + timedelta(minutes=30), start + timedelta(hours=2))
        google.add_event("Plan the spring", start, start + timedelta(minutes=45), iCalUID="plan@example.org")
        item = await arrived(home, google, mail)
        shown = (await page(browser, f"/items/{item.id}/body")).text
        assert "Calendar invitation: Plan the spring" in shown
        assert "Monday 2 June 2031, 10:00 to 10:45 (Europe/Berlin)" in shown
        assert "Repeats weekly" in shown
        assert "Where Room 2" in shown
        assert "Organised by bob@example.org Your day" in shown
        assert "At that time: Dentist ." in shown
        assert shown.count("10:00–10:45") == 1  # not beside itself

    async def test_whoever_it_names_as_its_maker_is_not_taken_for_the_sender(
        self, home: Home, google: Google, browser: httpx.AsyncClient
    ) -> None:
        calendar = INVITED_AT_TEN.replace("bob@example.org", "carol@example.net")
        item = await arrived(home, google, with_files(calendar=calendar))
        shown = (await page(browser, f"/items/{item.id}/body")).text
        assert f"Organised by carol@example.net, as it says; the mail is from {BOB}" in shown

    @pytest.mark.parametrize("kind", ["text/calendar", "application/ics", "application/octet-stream"])
    async def test_so_is_one_that_is_a_file(
        self, home: Home, google: Google, browser: httpx.AsyncClient, kind: str
    ) -> None:
        item = await arrived(home, google, with_files(("invite.ics", kind, INVITED_AT_TEN.encode())))
        shown = (await page(browser, f"/items/{item.id}/body")).text
        assert "Calendar invitation: Plan the spring" in shown
        assert "invite.ics ICS, 1 kB" in shown

    async def test_a_day_that_can_not_be_read_takes_nothing_else(
        self, home: Home, google: Google, browser: httpx.AsyncClient
    ) -> None:
        mail = with_files(calendar=INVITED_AT_TEN)
        google.fault("events.list", times=9, status=503)
        item = await arrived(home, google, mail)
        shown = (await page(browser, f"/items/{item.id}/body")).text
        assert "Plan the spring" in shown
        assert "can't be read just now" in shown


class TestInTheTerminal:
    async def test_the_full_screen_lists_files_and_saves_them(
        self, home: Home, google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        files = [("../Report.pdf", "application/pdf", b"%PDF"), ("\x1b[31mred.txt", "text/plain", b"red")]
        mail = with_files(*files, calendar=INVITED_AT_TEN)
        await arrived(home, google, mail)
        async with shown(home, wait_for="Lunch?") as view:
            await view.marks()
            await view.opens("enter")
            await view.press("v")
            await view.sees("Calendar invitation: Plan the spring; Monday 2 June 2031, 10:00 to 10:45 (Europe/Berlin)")
            await view.sees("1  Report.pdf  (PDF, 1 kB)", "2  [31mred.txt  (TXT, 1 kB)")
            await view.press("1")
            await view.sees("Saved as")
            assert (tmp_path / "Report.pdf").read_bytes() == b"%PDF"
            await view.press("1")
            await view.sees("is there already")
            await view.press("9")
            await view.sees("no file 9")
            await view.press("u")
            await view.sees("What the assistant proposes")

    async def test_so_does_the_command(
        self, home: Home, database_url: str, google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mail = with_files(("Report.pdf", "application/pdf", b"%PDF"), calendar=INVITED_AT_TEN)
        item = await arrived(home, google, mail)
        settings = home.app.settings
        monkeypatch.setenv("EMAIL_ASSISTANT_HOME", str(settings.home))
        monkeypatch.setenv("EMAIL_ASSISTANT_SECRET_KEY", "6OGYLyGsqb31m8jzXYSdX6yFw5wBDjqdjzhTwMBRWNc=")
        monkeypatch.setenv("EMAIL_ASSISTANT_GOOGLE_ROOT", google.root)
        monkeypatch.setenv("DATABASE_URL", database_url)

        async def command(*arguments: str) -> Result:
            given = ["mails", "files", str(item.mail_id), *arguments]
            return await asyncio.to_thread(CliRunner().invoke, command_line, given)

        listed = await command()
        assert "Calendar invitation: Plan the spring; Monday 2 June 2031, 10:00 to 10:45" in listed.output
        assert "Report.pdf" in listed.output
        told = json.loads((await command("--json")).output)
        assert told["files"] == [{"number": 1, "name": "Report.pdf", "type": "application/pdf", "bytes": 4}]
        assert told["when"] == "Monday 2 June 2031, 10:00 to 10:45 (Europe/Berlin)"
        assert datetime.fromisoformat(told["invitation"]["start"]) == datetime(2031, 6, 2, 8, tzinfo=UTC)
        assert (await command("--save", "1", "--to", str(tmp_path))).exit_code == 0
        assert (tmp_path / "Report.pdf").read_bytes() == b"%PDF"
        again = await command("--save", "1", "--to", str(tmp_path))
        assert again.exit_code == 1
        assert "is there already" in again.output
        assert "no file 7" in (await command("--save", "7")).output


class Pictures:
    """A server of pictures, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.redirect = ""
        self._server = Server(Starlette(routes=[Route("/{name}", self._answer)]))
        self.url = self._server.urls[0]

    def __enter__(self) -> "Pictures":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    async def _answer(self, request: Request) -> Response:
        self.asked.append(request)
        cookie = {"set-cookie": "seen=1; Path=/"}
        match request.path_params["name"]:
            case "good.png":
                return Response(PNG, media_type="image/png", headers=cookie)
            case "liar.png":
                return Response("<script>alert(1)</script>", media_type="image/png")
            case "page.png":
                return Response(PNG, media_type="text/html")
            case "vector.svg":
                return Response("<svg xmlns='http://www.w3.org/2000/svg'/>", media_type="image/svg+xml")
            case "big.png":
                return Response(PNG + bytes(6_000_000), media_type="image/png")
            case "packed.png":
                return Response(b"x", media_type="image/png", headers={"content-encoding": "gzip"})
            case "on":
                return Response(status_code=302, headers={"location": self.redirect})
            case "round":
                return Response(status_code=302, headers={"location": "/round"})
            case _:
                return Response(status_code=404)


@pytest.fixture
def pictures() -> Iterator[Pictures]:
    with Pictures() as server:
        yield server


class TestPictures:
    async def test_good_ones_come_within_the_page_and_the_others_do_not(
        self, home: Home, google: Google, pictures: Pictures
    ) -> None:
        names = ["good.png", "liar.png", "page.png", "vector.svg", "big.png", "packed.png", "round", "none", "on"]
        pictures.redirect = "good.png"
        html = "".join(f'<img alt="{name}" src="{pictures.url}/{name}">' for name in names)
        item = await arrived(home, google, letter(f'{html}<img src="{pictures.url}/pixel" width="1" height="1">'))
        near = copy(home.app)
        near.pictures = Outward(private=True)
        async with served(near) as root, logged_in(root) as http:
            assert pictures.asked == []
            assert "data:" not in (await http.get(f"/items/{item.id}/body/rich")).text
            assert pictures.asked == []
            shown = (await http.get(f"/items/{item.id}/body/rich", params={"pictures": "shown"})).text
        assert shown.count('src="data:image/png;base64,') == 2
        assert shown.count("src=") == 2
        for name in ("liar.png", "page.png", "vector.svg", "big.png", "packed.png", "round", "none"):
            assert f'<span class="picture">{name}</span>' in shown
        assert "pixel" not in {request.path_params["name"] for request in pictures.asked}
        for request in pictures.asked:
            assert not {"cookie", "referer", "authorization", "origin"} & set(request.headers)
        await near.pictures.aclose()

    async def test_what_spies_comes_only_if_all_is_asked_for(
        self, home: Home, google: Google, pictures: Pictures
    ) -> None:
        item = await arrived(home, google, letter(f'<img src="{pictures.url}/good.png" width="1" height="1">'))
        near = copy(home.app)
        near.pictures = Outward(private=True)
        async with served(near) as root, logged_in(root) as http:
            await http.get(f"/items/{item.id}/body/rich", params={"pictures": "shown"})
            assert pictures.asked == []
            shown = await http.get(f"/items/{item.id}/body/rich", params={"pictures": "all"})
        assert "data:image/png" in shown.text
        await near.pictures.aclose()

    async def test_none_is_fetched_from_here_even_where_webhooks_may(
        self,
        settings: Settings,
        database_url: str,
        google: Google,
        pictures: Pictures,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("EMAIL_ASSISTANT_NOTIFY_PRIVATE", "true")
        async with open_app(settings.model_copy(update={"google_root": google.root}), database_url) as app:
            home = Home(app)
            await home.account()
            token = json.loads(google.write_token_file(tmp_path / "token.json").read_text())
            await app.accounts.add(app.user_id, ADA, token, datetime.now(UTC))
            item = await arrived(home, google, letter(f'<img src="{pictures.url}/good.png">'))
            async with served(app) as root, logged_in(root) as http:
                shown = await http.get(f"/items/{item.id}/body/rich", params={"pictures": "all"})
        assert "data:" not in shown.text
        assert pictures.asked == []


class TestFetching:
    @pytest.fixture
    async def outward(self) -> AsyncIterator[Outward]:
        opened = Outward(private=False)
        yield opened
        await opened.aclose()

    @pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "fe80::1", "fc00::1", "::1"])
    async def test_a_name_that_leads_here_is_refused(
        self, outward: Outward, monkeypatch: pytest.MonkeyPatch, address: str
    ) -> None:
        Names(monkeypatch, ["8.8.8.8", address])
        with pytest.raises(TargetRefused):
            await outward.get("https://pictures.example/a.png", 1_000)

    async def test_this_machine_is_refused(self, outward: Outward, door: object) -> None:
        port = door.getsockname()[1]  # type: ignore[attr-defined]
        for host in ("127.0.0.1", "localhost", "[::1]", "2130706433", "[::ffff:127.0.0.1]"):
            with pytest.raises(TargetRefused):
                await outward.get(f"https://{host}:{port}/", 1_000)
        assert not was_opened(door)  # type: ignore[arg-type]

    async def test_each_step_of_a_redirect_is_checked_anew(
        self, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first name leads to a server that may be asked; where that leads to is looked up and judged by itself."""
        judged: list[str] = []

        class Watched(Outward):
            async def _addresses(self, target: httpx.URL) -> list[str]:
                judged.append(target.host)
                if target.host != "127.0.0.1":
                    raise TargetRefused("not there")
                return await super()._addresses(target)

        outward = Watched(private=True)
        for to in ("http://localhost/", "https://metadata.example/", "//inner.example/x"):
            pictures.redirect = to
            with pytest.raises(TargetRefused):
                await outward.get(f"{pictures.url}/on", 1_000)
        pictures.redirect = "file:///etc/passwd"
        with pytest.raises(TargetRefused, match="https"):
            await outward.get(f"{pictures.url}/on", 1_000)
        await outward.aclose()
        assert [host for host in judged if host != "127.0.0.1"] == ["localhost", "metadata.example", "inner.example"]

    async def test_a_name_is_looked_up_once_a_step(self, pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
        """Asked a second time, it would lead to another place."""
        names = Names(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        outward = Outward(private=True)
        port = pictures.url.rpartition(":")[2]
        fetched = await outward.get(f"http://rebinding.example:{port}/good.png", 1_000)
        await outward.aclose()
        assert fetched.content == PNG
        assert names.asked == ["rebinding.example"]

    async def test_no_cookie_is_kept(self, pictures: Pictures) -> None:
        outward = Outward(private=True)
        for _ in range(2):
            await outward.get(f"{pictures.url}/good.png", 1_000)
        await outward.aclose()
        assert all("cookie" not in request.headers for request in pictures.asked)

    async def test_it_ends_at_the_most(self, pictures: Pictures) -> None:
        outward = Outward(private=True)
        with pytest.raises(Unreachable, match="more than 1,000 bytes"):
            await outward.get(f"{pictures.url}/big.png", 1_000)
        with pytest.raises(Unreachable, match="on and on"):
            await outward.get(f"{pictures.url}/round", 1_000)
        await outward.aclose()
