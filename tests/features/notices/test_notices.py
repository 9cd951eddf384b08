"""Told in time: notices in the browser and to webhooks, and the daily digest."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from email_assistant.features.notices.channels import Channel
from email_assistant.features.notices.digest import Digests
from email_assistant.features.notices.telling import Telling
from email_assistant.inbox.items import Conflict
from email_assistant.outward import Outward, TargetRefused, Unreachable
from tests.doubles.daemon import Daemon
from tests.doubles.front import Moment
from tests.doubles.google import Google
from tests.doubles.mail import Message
from tests.doubles.model import Model
from tests.doubles.receiver import Browser, Receiver, is_signed, vapid_claims
from tests.doubles.serving import Hold
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop, reached, until
from tests.integration.scene import ADA, BERLIN, BOB, DONE, meeting, reply

HOSTILE_SUBJECT = b"""From: Bob Berg <bob@example.org>\r
To: ada@example.com\r
Subject: =?utf-8?q?Tea=3F=E2=80=AE=0D=0A=0D=0AFailed=3A_=E2=80=8Beverything?=\r
Message-ID: <tea@example.org>\r
\r
Does Friday suit you?\r
"""
"""With line breaks, and characters that nobody sees."""
AT_ONCE = {"notify_private": True, "notify_settle_seconds": 0, "notify_every_seconds": 0}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as double:
        yield double


@pytest_asyncio.fixture(loop_scope="module")
async def home(open_home: OpenHome, model: Model) -> AsyncIterator[Home]:
    """One that tells of each item as soon as it is asked to."""
    model.script(lambda _: [reply("Friday is fine."), DONE])
    async with open_home(**AT_ONCE) as opened:
        yield opened


async def add_browser(home: Home, browser: Browser) -> Channel:
    given = browser.subscription
    return await Telling.of(home.app).notices.add_browser(home.app.user_id, given["endpoint"], **given["keys"])


async def add_webhook(home: Home, url: str) -> str:
    """Returns the secret that its requests are signed with."""
    return (await Telling.of(home.app).notices.add_webhook(home.app.user_id, url))[1]


async def tell(home: Home) -> None:
    await Telling.of(home.app).notices.tell()


async def only_channel(home: Home) -> Channel:
    [channel] = await Telling.of(home.app).channels.of_user(home.app.user_id)
    return channel


async def no_waiting_time(home: Home) -> None:
    """As if every back-off and every pause between two notices were over."""
    await home.sql("update channels set not_before = '-infinity'")


@in_one_loop
class TestBrowser:
    async def test_is_told_in_a_message_that_only_it_can_read(self, home: Home, receiver: Receiver) -> None:
        browser = Browser(receiver)
        await add_browser(home, browser)
        await home.receive("Lunch?")
        await tell(home)

        [delivery] = browser.deliveries
        [item] = await home.pending()
        told = browser.read(delivery)
        assert told["waiting"] == 1
        [notice] = told["notices"]
        assert notice["title"] == "bob@example.org: Lunch?"
        assert notice["url"] == f"/items/{item.id}"
        claims = vapid_claims(delivery, await Telling.of(home.app).notices.public_key(home.app.user_id))
        assert claims["aud"] == receiver.url
        assert claims["sub"] == f"mailto:{ADA}"
        assert timedelta(0) < datetime.fromtimestamp(claims["exp"], UTC) - datetime.now(UTC) <= timedelta(hours=24)
        assert int(delivery.headers["ttl"]) > 0

    async def test_is_known_by_one_key_for_good(self, open_home: OpenHome) -> None:
        keys = set()
        for _ in range(2):
            async with open_home() as home:
                keys.add(await Telling.of(home.app).notices.public_key(home.app.user_id))
        assert len(keys) == 1

    async def test_sees_a_number_only_if_that_was_asked_for(
        self, open_home: OpenHome, model: Model, receiver: Receiver
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        browser = Browser(receiver)
        async with open_home(**AT_ONCE, notify_show_mail=False) as home:
            await add_browser(home, browser)
            await home.receive("Lunch?")
            await tell(home)
            [item] = await home.pending()
        [delivery] = browser.deliveries
        assert browser.read(delivery)["notices"] == [
            {"title": "1 item waits for you", "body": "", "tag": str(item.id), "url": f"/items/{item.id}"}
        ]

    async def test_sees_who_wrote_in_a_burst_too(self, open_home: OpenHome, model: Model, receiver: Receiver) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        browser = Browser(receiver)
        async with open_home(**AT_ONCE) as home:
            await add_browser(home, browser)
            for subject in ("Lunch?", "Dinner?\u202e\u200b", "Tea?", "Breakfast?"):
                await home.receive(subject)
            await tell(home)
        [delivery] = browser.deliveries
        told = browser.read(delivery)
        titles = [
            *(f"bob@example.org: {subject}?" for subject in ("Lunch", "Dinner", "Tea")),
            "1 more item waits for you",
        ]
        assert [notice["title"] for notice in told["notices"]] == titles
        assert told["waiting"] == 4
        assert not any("send" in notice for notice in told["notices"])

    async def test_may_send_only_a_whole_unmarked_letter_that_is_as_it_was_shown(
        self, home: Home, google: Google, model: Model, receiver: Receiver
    ) -> None:
        browser = Browser(receiver)
        await add_browser(home, browser)
        model.script(lambda _: [reply("Friday is fine."), DONE])
        await home.receive("Lunch?")
        await tell(home)
        [item] = await home.pending()
        [notice] = browser.read(browser.deliveries[-1])["notices"]
        assert notice["body"] == f"From {ADA} to bob@example.org:\nFriday is fine."
        assert notice["send"] == {"id": str(item.id), "hash": item.hash}

        async def send(shown: str) -> Exception | None:
            given = [(item.id, shown, {"type": "accept", "args": None})]
            [outcome] = await home.app.inbox.decide_parts(home.app.user_id, given, by="api")
            return outcome.refused

        await home.sql("update inbox_items set asked = asked + 1")  # they are asked about it again
        assert isinstance(await send(notice["send"]["hash"]), Conflict)
        assert (await home.item(item)).status == "pending"
        assert await send((await home.item(item)).hash) is None
        assert (await home.item(item)).status == "decided"

    @pytest.mark.parametrize(
        ("subject", "proposed"),
        [
            ("Lunch?", reply("word " * 40)),
            ("Lunch?", reply(f"Yes.{' ' * 40}No.")),
            (f"{'order ' * 20}and a loan", reply("Yes.")),
            ("Lunch?", reply("Friday is fine.", additional_recipients=["eve@elsewhere.example"])),
            ("Lunch?", meeting()),
            ("Lunch?", [reply("One."), reply("Two.")]),
        ],
        ids=["long", "far apart", "a long subject", "marked", "a meeting", "two parts"],
    )
    async def test_opens_the_card_for_everything_else(
        self, home: Home, model: Model, receiver: Receiver, subject: str, proposed: Any
    ) -> None:
        browser = Browser(receiver)
        await add_browser(home, browser)
        model.script(lambda _: [*(proposed if isinstance(proposed, list) else [proposed]), DONE])
        await home.receive(subject)
        await tell(home)
        notices = browser.read(browser.deliveries[-1])["notices"]
        assert not any("send" in notice for notice in notices)
        items = {str(item.id): item for item in await home.pending()}
        for notice in notices:
            marked = items[notice["tag"]].marks
            assert notice["url"] == f"/items/{notice['tag']}"
            assert notice["title"].startswith("! ") == bool(marked)
            assert notice["body"].startswith("Marked: ") == bool(marked)

    async def test_fits_into_a_message_however_long_the_mail_is(
        self, home: Home, model: Model, receiver: Receiver
    ) -> None:
        browser = Browser(receiver)
        await add_browser(home, browser)
        model.script(lambda _: [reply("\U0001f600" * 190), DONE])
        for _ in range(3):
            await home.receive("\U0001f600" * 300)
        await tell(home)
        assert len(browser.read(browser.deliveries[-1])["notices"]) == 3

    @pytest.mark.parametrize("status", [404, 410])
    async def test_that_is_gone_is_never_written_to_again(self, home: Home, receiver: Receiver, status: int) -> None:
        receiver.next_answers(status)
        browser = Browser(receiver)
        await add_browser(home, browser)
        await home.receive("Lunch?")
        await tell(home)
        assert (await only_channel(home)).state == "gone"
        await no_waiting_time(home)
        await home.receive("Dinner?")
        await tell(home)
        assert len(browser.deliveries) == 1

        await add_browser(home, browser)  # it comes back
        await home.receive("Tea?")
        await tell(home)
        assert browser.read(browser.deliveries[1])["waiting"] == 3

    async def test_leaves_no_address_and_no_key_to_read_in_the_database(self, home: Home, receiver: Receiver) -> None:
        browser = Browser(receiver)
        await add_browser(home, browser)
        await Telling.of(home.app).notices.public_key(home.app.user_id)
        [stored] = await home.sql("select c::text as channel, u::text as person from channels c, users u")
        address = bytes((await home.sql("select address from channels"))[0]["address"])
        key = bytes((await home.sql("select vapid_key from users"))[0]["vapid_key"])
        for secret in ("secret-of-the-browser", browser.subscription["keys"]["auth"], "PRIVATE KEY"):
            assert secret not in str(stored)
            assert secret.encode() not in address + key


@in_one_loop
class TestWebhook:
    async def test_is_told_in_numbers_and_signed(self, home: Home, receiver: Receiver) -> None:
        secret = await add_webhook(home, f"{receiver.url}/hook")
        await home.receive("Lunch?", "Does Friday suit you?")
        await tell(home)

        [item] = await home.pending()
        [delivery] = receiver.deliveries
        assert is_signed(delivery, secret)
        assert delivery.json["type"] == "items.waiting"
        assert delivery.json["data"] == {
            "new": 1,
            "waiting": 1,
            "items": [str(item.id)],
            "marked": [],
            "link": "http://127.0.0.1:8765/",
        }
        said = delivery.body.decode()
        assert not [word for word in ("Lunch", "Friday", "bob", "Berg", "ada") if word in said]

    async def test_is_told_once(self, home: Home, receiver: Receiver) -> None:
        await home.receive("Breakfast?")  # it waits when the webhook is added: the person has seen it
        await add_webhook(home, receiver.url)
        await tell(home)
        assert receiver.deliveries == []
        await home.receive("Lunch?")
        for _ in range(3):
            await tell(home)
        assert [(d.json["data"]["new"], d.json["data"]["waiting"]) for d in receiver.deliveries] == [(1, 2)]

    async def test_is_tried_again_after_a_while_when_its_server_is_down(self, home: Home, receiver: Receiver) -> None:
        receiver.next_answers(503)
        await add_webhook(home, receiver.url)
        await home.receive("Lunch?")
        await tell(home)
        await tell(home)
        assert len(receiver.deliveries) == 1
        assert (await only_channel(home)).last_error == "the server answers 503"

        await no_waiting_time(home)
        await tell(home)
        first, second = receiver.deliveries
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert first.json["data"] == second.json["data"]
        channel = await only_channel(home)
        assert (channel.last_error, channel.tries) == (None, 0)

    async def test_is_left_alone_for_as_long_as_its_server_asks(self, home: Home, receiver: Receiver) -> None:
        receiver.next_answers(429, retry_after="900")
        await add_webhook(home, receiver.url)
        await home.receive("Lunch?")
        await tell(home)
        [row] = await home.sql("select not_before - clock_timestamp() as wait from channels")
        assert timedelta(minutes=14) < row["wait"] <= timedelta(minutes=15)

    async def test_is_tried_a_few_times_and_again_for_what_comes_next(self, home: Home, receiver: Receiver) -> None:
        receiver.next_answers(*[500] * 9)
        await add_webhook(home, receiver.url)
        await home.receive("Lunch?")
        for _ in range(9):
            await no_waiting_time(home)
            await tell(home)
        assert len(receiver.deliveries) == 5
        assert (await only_channel(home)).last_error == "the server answers 500"
        await home.receive("Dinner?")
        await no_waiting_time(home)
        await tell(home)
        assert receiver.deliveries[5].json["data"]["new"] == 1

    async def test_is_told_again_when_the_process_that_told_it_died(self, home: Home, receiver: Receiver) -> None:
        hold = receiver.hold()
        await add_webhook(home, receiver.url)
        await home.receive("Lunch?")
        telling = asyncio.create_task(tell(home))
        await reached(hold)
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        hold.release()
        await tell(home)
        assert len(receiver.deliveries) == 1  # it may still be at it
        await no_waiting_time(home)
        await tell(home)
        await tell(home)
        assert len(receiver.deliveries) == 2

    async def test_a_redirect_is_not_followed(self, home: Home, receiver: Receiver) -> None:
        for status in (301, 302, 307, 308):
            receiver.next_answers(status, location=f"{receiver.url}/elsewhere")
        await add_webhook(home, f"{receiver.url}/hook")
        await home.receive("Lunch?")
        for _ in range(4):
            await no_waiting_time(home)
            await tell(home)
        assert [delivery.path for delivery in receiver.deliveries] == ["/hook"] * 4
        assert (await only_channel(home)).last_error == "the server answers 308"


@in_one_loop
class TestPace:
    async def test_a_burst_makes_one_notice(self, home: Home, receiver: Receiver) -> None:
        await add_webhook(home, receiver.url)
        for subject in ("Breakfast?", "Lunch?", "Dinner?"):
            await home.receive(subject)
        await tell(home)
        [delivery] = receiver.deliveries
        assert delivery.json["data"]["new"] == len(delivery.json["data"]["items"]) == 3

    async def test_what_comes_soon_after_a_notice_waits_for_the_next(
        self, open_home: OpenHome, model: Model, receiver: Receiver
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        async with open_home(**AT_ONCE | {"notify_every_seconds": 3600}) as home:
            await add_webhook(home, receiver.url)
            await home.receive("Breakfast?")
            await tell(home)
            for subject in ("Lunch?", "Dinner?"):
                await home.receive(subject)
                await tell(home)
            assert len(receiver.deliveries) == 1
            await no_waiting_time(home)
            await tell(home)
            assert receiver.deliveries[1].json["data"]["new"] == 2
            assert receiver.deliveries[1].json["data"]["waiting"] == 3

    async def test_what_is_answered_at_once_is_not_told(
        self, open_home: OpenHome, model: Model, receiver: Receiver
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        async with open_home(**AT_ONCE | {"notify_settle_seconds": 3600}) as home:
            await add_webhook(home, receiver.url)
            await home.receive("Breakfast?")
            await home.receive("Lunch?")
            await tell(home)
            assert receiver.deliveries == []
            first, second = await home.pending()
            await home.answer(first, "ignore")
            hours_later = "- interval '2 hours'"
            await home.sql(f"update inbox_items set created_at = created_at {hours_later}")
            await home.sql(f"update channels set told_until = told_until {hours_later}")
            await home.receive("Dinner?")
            await tell(home)
            assert [delivery.json["data"]["items"] for delivery in receiver.deliveries] == [[str(second.id)]]

    async def test_what_is_snoozed_is_told_when_it_comes_back(self, home: Home, receiver: Receiver) -> None:
        await add_webhook(home, receiver.url)
        await home.receive("Lunch?")
        [item] = await home.pending()
        await home.app.inbox.snooze(home.app.user_id, item.id, datetime.now(UTC) + timedelta(hours=1))
        await tell(home)
        assert receiver.deliveries == []
        await home.receive("Dinner?")
        await tell(home)
        await home.sql("update inbox_items set snoozed_until = clock_timestamp() where id = %s", item.id)
        await tell(home)
        await tell(home)
        told = [delivery.json["data"] for delivery in receiver.deliveries]
        assert [(notice["new"], notice["waiting"]) for notice in told] == [(1, 1), (1, 2)]
        assert told[1]["items"] == [str(item.id)]

    async def test_a_server_that_does_not_answer_holds_up_nothing(
        self, home: Home, google: Google, receiver: Receiver
    ) -> None:
        with Receiver() as other:
            hold = receiver.hold()
            await add_webhook(home, receiver.url)
            await add_webhook(home, other.url)
            async with home.at_work():
                google.deliver(BOB, "Lunch?", "Does Friday suit you?")
                await reached(hold)
                await until(lambda: other.deliveries)
                [item] = await home.pending()
                await home.decide(item, "accept")
                await until(lambda: google.sent)
                google.deliver(BOB, "Dinner?", "Does Friday suit you?")
                await until(home.pending)
                assert len(receiver.deliveries) == 1
            hold.release()


@pytest.fixture
def door() -> Iterator[socket.socket]:
    """Something on this machine that nobody but this machine should reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def was_opened(door: socket.socket) -> bool:
    try:
        door.accept()[0].close()
    except BlockingIOError:
        return False
    return True


class TestTargets:
    @pytest.fixture
    async def outward(self) -> AsyncIterator[Outward]:
        opened = Outward(private=False)
        yield opened
        await opened.aclose()

    @pytest.mark.parametrize(
        "host",
        [
            "127.0.0.1",
            "localhost",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
        ],
    )
    async def test_this_machine_is_refused_however_it_is_written(
        self, outward: Outward, door: socket.socket, host: str
    ) -> None:
        with pytest.raises(TargetRefused, match="this machine or its network"):
            await outward.post(f"https://{host}:{door.getsockname()[1]}/", {}, b"")
        assert not was_opened(door)

    @pytest.mark.parametrize(
        "address",
        [
            *("10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "240.0.0.1"),
            *("::1", "::", "fe80::1", "fc00::1", "ff02::1", "ff0e::1", "::7f00:1"),
            *("64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "::ffff:10.0.0.1"),
        ],
    )
    async def test_so_is_a_name_that_leads_there(
        self, outward: Outward, monkeypatch: pytest.MonkeyPatch, address: str
    ) -> None:
        names = Names(monkeypatch, ["8.8.8.8", address])
        with pytest.raises(TargetRefused, match="this machine or its network"):
            await outward.post("https://rebinding.example/", {}, b"")
        assert names.asked == ["rebinding.example"]

    async def test_what_was_looked_up_is_what_is_connected_to(
        self, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
    ) -> None:
        """Asked a second time, the name would lead to another place."""
        names = Names(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        outward = Outward(private=True)
        port = receiver.url.rpartition(":")[2]
        answer = await outward.post(f"http://rebinding.example:{port}/hook", {}, b"")
        await outward.aclose()
        assert answer.status == 201
        assert names.asked == ["rebinding.example"]
        assert receiver.deliveries[0].headers["host"] == f"rebinding.example:{port}"

    async def test_the_certificate_must_be_for_the_name(self, tmp_path: Path) -> None:
        outward = Outward(private=True)
        with tls_server(tmp_path) as (port, names), pytest.raises(Unreachable, match="ConnectError"):
            await outward.post(f"https://localhost:{port}/", {}, b"")
        await outward.aclose()
        assert names == ["localhost"]

    async def test_http_is_refused(self, outward: Outward) -> None:
        for url in ("http://example.org/", "ftp://example.org/", "file:///etc/passwd", "//example.org", "https://"):
            with pytest.raises(TargetRefused):
                await outward.post(url, {}, b"")

    @in_one_loop
    async def test_a_channel_says_why_it_tells_nothing(
        self, open_home: OpenHome, model: Model, door: socket.socket
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        async with open_home(**AT_ONCE | {"notify_private": False}) as home:
            await add_webhook(home, f"https://localhost:{door.getsockname()[1]}/")
            await home.receive("Lunch?")
            await tell(home)
            assert "this machine or its network" in ((await only_channel(home)).last_error or "")
        assert not was_opened(door)


class Names:
    """A name server of the test's own: each look-up gets the next of its answers, the last one for good."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "getaddrinfo", self._look_up)
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up_blocking)

    async def _look_up(self, host: str | bytes, port: int, **more: Any) -> list[Any]:
        return self._look_up_blocking(host, port, **more)

    def _look_up_blocking(self, host: str | bytes, port: int, *args: Any, **more: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if not name.endswith(".example"):
            return self._real(host, port, *args, **more)
        self.asked.append(name)
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [(family(address), socket.SOCK_STREAM, 6, "", (address, port)) for address in found]


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET


@contextmanager
def tls_server(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """A server on loopback with a certificate that nobody trusts; yields its port and the names it was asked for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "other.example")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1))  # noqa: DTZ001
        .not_valid_after(datetime(2100, 1, 1))  # noqa: DTZ001
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    )
    names: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    context.sni_callback = lambda _, name, __: names.append(name or "")

    def serve(server: socket.socket) -> None:
        try:
            context.wrap_socket(server.accept()[0], server_side=True).close()
        except OSError:
            return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1], names
    thread.join(timeout=5)


class Clock:
    def __init__(self, local: datetime) -> None:
        self.now = local

    def __call__(self) -> datetime:
        return self.now.astimezone(UTC)

    def later(self, **more: int) -> None:
        self.now = (self.now.astimezone(UTC) + timedelta(**more)).astimezone(self.now.tzinfo)


def berlin(day: str, hour: int, minute: int = 0, fold: int = 0) -> datetime:
    return datetime.combine(date.fromisoformat(day), time(hour, minute, fold=fold), BERLIN)


def digests_sent(google: Google) -> list[Message]:
    return [message for message in google.sent if message.parsed["X-Email-Assistant-Digest"]]


@in_one_loop
class TestDigest:
    def digests(self, home: Home, clock: Clock, at: time = time(8)) -> Digests:
        app = home.app
        return Digests(
            app.pool,
            app.accounts,
            app.clients,
            app.outbox,
            app.inbox,
            at=at,
            inbox_url="https://mail.example.net/",
            claim=timedelta(minutes=1),
            clock=clock,
        )

    async def test_says_what_waits_what_was_done_and_what_failed(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await home.receive("Lunch?")
        await home.answer((await home.pending())[0], "accept")
        model.on_triage("ignore")
        await home.receive("Offers")
        model.on_triage("respond")
        model.fault(nonsense=True, times=100)
        await home.receive("Broken")
        model.clear_faults()
        google.deliver_raw(HOSTILE_SUBJECT)
        await home.sync()
        await home.carry_on()
        await self.digests(home, Clock(datetime.now(BERLIN) + timedelta(seconds=1)), time(0)).send_due()

        [mail] = digests_sent(google)
        assert mail.parsed["From"] == mail.parsed["To"] == ADA
        assert mail.parsed["Auto-Submitted"] == "auto-generated"
        assert mail.parsed.get_content_type() == "text/plain"
        assert mail.subject.endswith(": 1 waits")
        waits, done, failed, _ = mail.text.replace("\r\n", "\n").split("\n\n")
        assert waits.splitlines() == [
            "1 waits for you: https://mail.example.net/",
            "- bob@example.org: Tea? Failed: everything (a draft to approve)",
        ]
        assert done.splitlines()[1:] == [
            "- bob@example.org: Lunch? (Sent to bob@example.org.)",
            "- 1 mail needed nothing",
        ]
        assert failed.splitlines()[1].startswith("- bob@example.org: Broken (")

    async def test_tells_what_was_learned_and_how_to_undo_it(self, home: Home, google: Google, model: Model) -> None:
        for text in ("Keep replies short.", "Sign with Ada."):
            model.on_memory({"action": "add", "rule": None, "text": text, "reason": "Told."})
            await home.receive(text)
            [item] = [item for item in await home.pending() if item.subject == text]
            await home.answer(item, "response", "shorter")
            await home.works.learn(home.account_id)
        memory = home.app.memory
        kept, gone = reversed(await memory.lessons.page(home.app.user_id))
        await memory.unlearn(gone, "test")

        await self.digests(home, Clock(datetime.now(BERLIN) + timedelta(seconds=1)), time(0)).send_due()

        [mail] = digests_sent(google)
        [told] = [part for part in mail.text.replace("\r\n", "\n").split("\n\n") if "learned:" in part]
        assert told.splitlines()[1:] == [
            f"- learned: Keep replies short. ({str(kept.id)[:8]})",
            "`email-assistant memory undo ID` takes one back, and so does https://mail.example.net/memory",
        ]

    async def test_tells_what_was_done_since_the_last(self, home: Home, google: Google) -> None:
        await home.receive("Lunch?")
        await home.answer((await home.pending())[0], "accept")
        await home.receive("Tea?")
        clock = Clock(datetime.now(BERLIN) + timedelta(seconds=1))
        digests = self.digests(home, clock, time(0))
        await digests.send_due()
        clock.now = clock.now.replace(hour=0, minute=0) + timedelta(days=1)  # less than a day later
        await digests.send_due()
        first, second = digests_sent(google)
        assert "Lunch?" in first.text
        assert "Lunch?" not in second.text
        assert "Tea?" in second.text

    async def test_is_not_sent_when_there_is_nothing_to_say(self, home: Home, google: Google) -> None:
        await home.sync()
        await self.digests(home, Clock(berlin("2031-06-02", 9))).send_due()
        assert google.calls("drafts.create") == []

    async def test_comes_once_a_day_at_its_time(self, home: Home, google: Google) -> None:
        await home.receive("Lunch?")
        clock = Clock(berlin("2031-06-02", 7, 59))
        digests = self.digests(home, clock)
        await digests.send_due()
        assert digests_sent(google) == []
        for _ in range(48):
            clock.later(hours=1)
            await digests.send_due()
        assert [mail.parsed["X-Email-Assistant-Digest"] for mail in digests_sent(google)] == [
            "2031-06-02",
            "2031-06-03",
        ]

    @pytest.mark.parametrize(
        ("day", "before", "due"),
        [
            # 02:30 does not exist: the clock goes from 01:59 to 03:00.
            ("2031-03-30", berlin("2031-03-30", 1, 59), berlin("2031-03-30", 3, 0)),
            # 02:30 comes twice: the clock goes from 02:59 back to 02:00.
            ("2031-10-26", berlin("2031-10-26", 2, 29), berlin("2031-10-26", 2, 30)),
        ],
    )
    async def test_comes_once_when_the_clocks_change(
        self, home: Home, google: Google, day: str, before: datetime, due: datetime
    ) -> None:
        await home.receive("Lunch?")
        clock = Clock(before)
        digests = self.digests(home, clock, time(2, 30))
        await digests.send_due()
        assert digests_sent(google) == []
        clock.now = due
        for _ in range(20):
            await digests.send_due()
            assert [mail.parsed["X-Email-Assistant-Digest"] for mail in digests_sent(google)] == [day]
            clock.later(minutes=30)

    @pytest.mark.parametrize("call", ["drafts.create", "drafts.send"])
    @pytest.mark.parametrize("moment", ["before", "after"])
    async def test_is_sent_once_when_an_answer_is_lost(
        self, home: Home, google: Google, call: str, moment: Moment
    ) -> None:
        await home.receive("Lunch?")
        google.fault(call, drop=moment)
        clock = Clock(berlin("2031-06-02", 8))
        digests = self.digests(home, clock)
        for _ in range(4):
            await digests.send_due()
            clock.later(hours=1)
        assert len(digests_sent(google)) == 1
        assert google.drafts == []
        assert await digests.last_errors(home.app.user_id) == {}

    @pytest.mark.parametrize("moment", ["before", "after"])
    async def test_is_sent_once_when_two_processes_are_at_it(self, home: Home, google: Google, moment: Moment) -> None:
        """The first one is slow, and taken for dead."""
        await home.receive("Lunch?")
        hold = Hold()
        google.fault("drafts.create", hold=hold, at=moment)
        clock = Clock(berlin("2031-06-02", 8))
        slow, other = self.digests(home, clock), self.digests(home, clock)
        first = asyncio.create_task(slow.send_due())
        await reached(hold)
        clock.later(minutes=2)
        await other.send_due()
        hold.release()
        await first
        clock.later(hours=1)
        await other.send_due()
        assert len(digests_sent(google)) == 1
        assert google.drafts == []

    async def test_is_sent_once_when_each_of_them_has_made_a_draft(self, home: Home, google: Google) -> None:
        await home.receive("Lunch?")
        creating, sending, sending_too = Hold(), Hold(), Hold()
        google.fault("drafts.create", hold=creating)
        google.fault("drafts.send", hold=sending)
        google.fault("drafts.send", hold=sending_too)
        clock = Clock(berlin("2031-06-02", 8))
        first = asyncio.create_task(self.digests(home, clock).send_due())
        await reached(creating)
        clock.later(minutes=2)
        second = asyncio.create_task(self.digests(home, clock).send_due())
        await reached(sending)
        creating.release()
        await reached(sending_too)
        sending.release()
        await second
        sending_too.release()
        await first
        assert len(digests_sent(google)) == 1
        assert google.drafts == []

    async def test_is_left_alone_when_the_person_deletes_its_draft(self, home: Home, google: Google) -> None:
        await home.receive("Lunch?")
        google.fault("drafts.send", status=503)
        clock = Clock(berlin("2031-06-02", 8))
        digests = self.digests(home, clock)
        await digests.send_due()
        [draft] = google.drafts
        google.person_deletes(draft.id)
        looks = len(google.calls("messages.list"))
        for _ in range(8):
            clock.later(hours=1)
            await digests.send_due()
        assert digests_sent(google) == []
        assert len(google.calls("drafts.create")) == 1
        assert len(google.calls("drafts.send")) == 1  # what is gone is looked for, and not sent again
        assert len(google.calls("messages.list")) == looks + 4
        assert "not in Sent" in (await digests.last_errors(home.app.user_id))[ADA]

    async def test_is_not_sent_for_a_paused_account(self, home: Home, google: Google) -> None:
        await home.receive("Lunch?")
        await home.app.accounts.set_state(home.account_id, "paused")
        await self.digests(home, Clock(berlin("2031-06-02", 8))).send_due()
        assert google.calls("drafts.create") == []

    async def test_is_not_sent_in_shadow_mode(self, home: Home, google: Google) -> None:
        await home.receive("Lunch?")
        await home.app.inbox.set_mode(home.app.accounts, await home.account(), "shadow")
        await self.digests(home, Clock(berlin("2031-06-02", 8))).send_due()
        assert google.calls("drafts.create") == []

    async def test_is_neither_triaged_nor_answered(self, home: Home, google: Google, model: Model) -> None:
        await home.receive("Lunch?")
        asked = len(model.requests)
        await self.digests(home, Clock(berlin("2031-06-02", 8))).send_due()
        [digest] = digests_sent(google)
        assert {"INBOX", "SENT"} <= digest.labels
        await home.sync()
        await home.carry_on()
        assert digest.id not in [mail.id for mail in await home.mails()]
        # Where Gmail keeps what came in apart from what was sent:
        copy = google.deliver_raw(digest.raw)
        await home.sync()
        await home.carry_on()
        assert (await home.mail(copy)).reason == "from the account's own address"
        assert len(model.requests) == asked
        assert len(await home.pending()) == 1


class TestProgram:
    """The program as processes."""

    @pytest.mark.parametrize("call", ["drafts.create", "drafts.send"])
    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_a_digest_is_sent_once_when_the_daemon_is_killed(
        self, connect: Start, google: Google, model: Model, call: str, moment: Moment
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        daemon = connect()
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        daemon.up()
        daemon.pending()
        daemon.stop()
        daemon.environment["EMAIL_ASSISTANT_DIGEST_AT"] = "00:00"
        hold = Hold()
        google.fault(call, hold=hold, at=moment)
        daemon.up()
        hold.reached()
        daemon.kill()
        hold.abandon()
        daemon.up()
        daemon.wait_for(lambda: digests_sent(google), "the digest is sent")
        daemon.wait_for(lambda: google.drafts == [], "no draft is left")
        daemon.until_polled(3)
        daemon.stop()
        assert len(digests_sent(google)) == 1

    def test_a_key_that_cannot_be_read_is_told_as_such(self, daemon: Daemon, database_url: str) -> None:
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute("update email_assistant.users set vapid_key = 'damaged'")
        answer = daemon.http.get("/api/push")
        assert answer.status_code == 503
        assert "can't be read with this key: set EMAIL_ASSISTANT_SECRET_KEY" in answer.json()["detail"]

    def test_a_browser_and_a_webhook(self, start: Start, google: Google, model: Model, receiver: Receiver) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        daemon = start(notify_private=True, notify_settle_seconds=0)
        browser = Browser(receiver)
        key = daemon.http.get("/api/push").json()["public_key"]
        assert daemon.http.post("/api/push/subscribe", json=browser.subscription).status_code == 204
        secret = daemon.cli("notify", "add-webhook", f"{receiver.url}/hook").split()[-1]
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        daemon.wait_for(lambda: len(receiver.deliveries) == 3, "both are told, the webhook also that it was added")

        [pushed] = browser.deliveries
        assert browser.read(pushed)["notices"][0]["title"] == "bob@example.org: Lunch?"
        assert vapid_claims(pushed, key)["aud"] == receiver.url
        added, told = [delivery for delivery in receiver.deliveries if delivery.path == "/hook"]
        assert [added.json["type"], told.json["type"]] == ["test", "items.waiting"]
        assert is_signed(added, secret)
        assert is_signed(told, secret)
        listed = daemon.cli("notify", "status", "--json")["channels"]
        assert {(c["kind"], c["name"], c["state"]) for c in listed} == {
            ("push", "127.0.0.1", "active"),
            ("webhook", "127.0.0.1", "active"),
        }

        endpoint = {"endpoint": browser.subscription["endpoint"]}
        assert daemon.http.post("/api/push/unsubscribe", json=endpoint).status_code == 204
        [left] = daemon.cli("notify", "status", "--json")["channels"]
        receiver.next_answers(500)
        assert daemon.run("notify", "test").returncode == 1
        daemon.cli("notify", "test", left["id"][:8])
        daemon.cli("notify", "remove", left["id"][:8])
        assert daemon.cli("notify", "status", "--json")["channels"] == []

    def test_what_is_no_subscription_is_refused(self, daemon: Daemon, receiver: Receiver) -> None:
        good = Browser(receiver).subscription | {"endpoint": "https://push.example.net/"}
        for wrong in (
            {**good, "endpoint": "http://push.example.net/"},
            {**good, "endpoint": "nowhere"},
            {**good, "keys": {**good["keys"], "p256dh": "AAAA"}},
            {**good, "keys": {**good["keys"], "auth": "AAAA"}},
            {**good, "keys": {**good["keys"], "auth": "?"}},
        ):
            assert daemon.http.post("/api/push/subscribe", json=wrong).status_code == 422, wrong
        assert daemon.http.post("/api/push/subscribe", json=good).status_code == 204
        stranger = {"Origin": "https://evil.example"}
        assert daemon.http.post("/api/push/subscribe", json=good, headers=stranger).status_code == 403

    def test_the_worker_is_served_from_the_top(self, daemon: Daemon) -> None:
        answer = daemon.http.get("/service-worker.js")
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "showNotification" in answer.text
