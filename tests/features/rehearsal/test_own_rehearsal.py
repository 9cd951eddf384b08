"""`rehearse` on a mailbox: read over HTTP, kept, gone on with, and nothing changed in it."""

import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.utils import parsedate_to_datetime
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from email_assistant.app import open_app
from email_assistant.features.rehearsal.mbox import read
from email_assistant.features.rehearsal.report import Period, Rehearsed, rehearsed, report
from email_assistant.features.rehearsal.walk import walk
from email_assistant.home import database
from email_assistant.programs import stand_in
from email_assistant.settings import Settings
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.doubles.serving import Hold
from tests.histories import ALIAS, PERSON, Person
from tests.integration.scene import reply

MAILS = 260
READS = {"token", "messages.list", "messages.get", "sendAs.list"}
BEFORE_MIDNIGHT = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@pytest.fixture(scope="module")
def mbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A year of mail up to yesterday."""
    began = BEFORE_MIDNIGHT - timedelta(days=345)
    path = tmp_path_factory.mktemp("past") / "mail.mbox"
    path.write_bytes(Person(41, threads=False, labels=True, deletes=0.2, began=began).history(MAILS, days=330).mbox)
    return path


def letters(mbox: Path) -> list[bytes]:
    return [raw.partition(b"\n")[2].rstrip() + b"\n" for raw in mbox.read_bytes().split(b"From x@y ")[1:]]


@pytest.fixture
def google(mbox: Path) -> Iterator[Google]:
    with Google(PERSON) as double:
        double.add_alias(ALIAS, "Vera")
        for raw in letters(mbox):
            mail = message_from_bytes(raw)
            labels = ["SENT"] if mail["X-Gmail-Labels"] == "Sent" else ["INBOX"]
            double.deposit(raw, labels, parsedate_to_datetime(mail["Date"]))
        yield double
        assert {call.name for call in double.calls()} <= READS | {"getProfile", "history.list", "settings.get"}


@pytest.fixture
def program(tmp_path: Path, database_url: str, google: Google, model: Model) -> Iterator[Daemon]:
    with Daemon(tmp_path, database_url, google, model) as made:
        made.account_add(PERSON, "shadow")
        google.requests.clear()
        yield made


@pytest.fixture
def kept(database_url: str) -> Callable[[], int]:
    def count() -> int:
        with psycopg.connect(database_url) as conn:
            row = conn.execute("select count(*) from email_assistant.past_mails").fetchone()
        return int(row[0]) if row else 0

    return count


def outcome(found: Any) -> Any:
    """What becomes of each mail; probabilities may differ in their last digits."""
    names = ("mails", "answered", "shown", "shown_answered", "only_learned_from", "answers_to_deleted")
    counts = {name: found[name] for name in names}
    ways = {name: (each["shown"], each["caught"]) for name, each in found["ways"].items()}
    return counts, ways, [each["id"] for each in found["missed"]], [dict(each) for each in found["senders"]]


@pytest.fixture(scope="module")
def expected(mbox: Path) -> Callable[..., Rehearsed]:
    """What is found in the exported file."""

    @cache
    def found(**period: Any) -> Rehearsed:
        own = frozenset({PERSON, ALIAS})
        entries = read(mbox, own)
        return report(walk(entries, own, Period(**period).begins(entries)), own)

    return found


def test_it_finds_what_is_found_in_the_exported_file(
    program: Daemon, google: Google, expected: Callable[..., Rehearsed]
) -> None:
    found = program.cli("rehearse", "--json", "--scores", "own.csv")
    assert outcome(found) == outcome(asdict(expected(months=6)))
    assert {call.name for call in google.calls()} <= READS
    assert len((program.home / "own.csv").read_text().splitlines()) == found["mails"] + 1
    day = BEFORE_MIDNIGHT - timedelta(days=165)
    assert outcome(program.cli("rehearse", "--json", "--until", day.date().isoformat())) == outcome(
        asdict(expected(until=day))
    )


@pytest.mark.long
def test_it_reads_each_mail_once_and_says_the_same_again(program: Daemon, google: Google) -> None:
    first = program.cli("rehearse")
    assert "I would have shown you" in first
    read = len(google.calls("messages.get"))
    assert read == len({call.path for call in google.calls("messages.get")}) == len(google.messages)
    assert program.cli("rehearse", "--account", PERSON) == first
    assert len(google.calls("messages.get")) == read


def started(program: Daemon) -> Any:
    out, err = program.home / "rehearse.out", program.home / "rehearse.err"
    return program.nursery.start(["rehearse", "--json"], program.environment, program.home, out, err)


@pytest.mark.parametrize("sign", [pytest.param(signal.SIGKILL, marks=pytest.mark.long), signal.SIGINT])
def test_it_goes_on_from_where_it_was_stopped(
    program: Daemon, google: Google, kept: Callable[[], int], expected: Callable[..., Rehearsed], sign: signal.Signals
) -> None:
    newest_first = sorted(google.messages, key=lambda each: each.date_ms, reverse=True)
    hold = Hold()
    google.fault("messages.get", about=newest_first[100].id, hold=hold)
    child = started(program)
    hold.reached()
    program.wait_for(lambda: kept() == 96, "three batches are kept")
    child.send_signal(sign)
    assert child.wait(30) == (130 if sign == signal.SIGINT else -sign)
    hold.abandon()
    if sign == signal.SIGINT:
        said = (program.home / "rehearse.err").read_text()
        assert said.startswith("Stopped. 96 mails are kept here, and the same command goes on from there;")
    google.requests.clear()
    found = program.cli("rehearse", "--json", "--months", "6")
    assert len(google.calls("messages.get")) == len(newest_first) - 96
    assert outcome(found) == outcome(asdict(expected(months=6)))


def test_what_is_kept_goes_when_it_is_forgotten_or_the_account_is_removed(
    program: Daemon, kept: Callable[[], int], database_url: str
) -> None:
    program.cli("rehearse")
    count = kept()
    assert count > MAILS
    with psycopg.connect(database_url) as conn:
        conn.execute("create table again as table email_assistant.past_mails")
        assert program.cli("rehearse", "--forget").startswith(f"Forgotten: {count} past mails of {PERSON}.")
        assert kept() == 0
        conn.execute("insert into email_assistant.past_mails table again")
    assert kept() == count
    program.cli("account", "remove", PERSON, "--yes")
    assert kept() == 0


PRICES = '{"stub-model": {"prompt": 1, "completion": 8}}'


class TestLetters:
    def test_they_stand_beside_what_was_sent_with_what_survives(
        self, program: Daemon, google: Google, model: Model
    ) -> None:
        program.environment |= {"EMAIL_ASSISTANT_PRICES": PRICES, "EMAIL_ASSISTANT_CURRENCY": "EUR"}
        mails = {each.subject: each for each in google.messages if "INBOX" in each.labels}
        for each in google.messages:
            if mail := mails.get(each.subject.removeprefix("RE: ")):
                each.thread_id = mail.thread_id
        look = tool("check_calendar_tool", dates=["04-06-2031"])
        model.script(lambda _: [look] if len(model.calls()) == 2 else [reply("Quite so.")])
        found = program.cli("rehearse", "--json", "--model", "--budget", "3", "--yes")
        letters = found["drafts"]["letters"]
        assert len(letters) == len(model.calls("response")) == 3
        assert [each["at"] for each in letters] == sorted((each["at"] for each in letters), reverse=True)
        assert letters[1]["why_none"] == "it would have looked into your calendar first"
        assert letters[0]["survival"] == {"sentences": 1, "survived": 0, "distance": 1.0}
        sent = [each.text for each in google.messages if "SENT" in each.labels]
        asked = [request.text for request in model.calls("response")]
        for letter, prompt in zip(letters, asked, strict=True):
            assert any(text.startswith(letter["sent"]) for text in sent)
            assert letter["sent"] not in prompt
        assert {call.name for call in google.calls()} <= READS
        assert found["cost"]["currency"] == "EUR"
        assert 0 < float(found["cost"]["money"]) < 1

    @pytest.mark.long
    def test_what_they_cost_is_asked_first(self, program: Daemon, model: Model) -> None:
        program.environment |= {"EMAIL_ASSISTANT_PRICES": PRICES, "EMAIL_ASSISTANT_CURRENCY": "EUR"}
        done = program.run("rehearse", "--model")
        assert done.returncode == 1
        assert re.search(r"stub-model is asked for (1\d|20) letters, about 0\.0\d ", done.stderr)
        assert "EUR.\nAsk? [y/N]" in done.stderr
        assert "an estimate, from the length of the mails and your prices" not in done.stderr
        assert model.calls() == []

    @pytest.mark.long
    def test_canned_ones_get_no_score(self, program: Daemon, model: Model) -> None:
        program.environment["EMAIL_ASSISTANT_MODEL_STAND_IN"] = "A double answers"
        model.script(lambda _: [reply("Quite so.")])
        told = program.cli("rehearse", "--model", "--budget", "2", "--yes")
        assert "they are canned: A double answers. They say nothing of how good drafts are." in told
        assert "survive" not in told


@pytest.mark.long
async def test_the_sandbox_gives_what_its_file_gives(
    tmp_path: Path, mbox: Path, expected: Callable[..., Rehearsed]
) -> None:
    arguments = ["--data", str(tmp_path / "mailbox.sqlite3"), "--mbox", str(mbox), "--address", PERSON]
    async with stand_in("google_sandbox", *arguments) as google:
        settings = Settings(home=tmp_path / "home", google_root=google["root"], model="none")
        with database(settings, keep=False) as url:
            async with open_app(settings, url) as app:
                account = await app.accounts.add(app.user_id, PERSON, google["token"], datetime.now(UTC))
                past, period = app.past_mails, Period(months=6)
                found = await past.look(account, period.since(datetime.now(UTC)))
                await past.fetch(account, found.missing)
                entries = await past.history(account, found.own | {ALIAS})
    assert outcome(asdict(rehearsed(entries, found.own | {ALIAS}, period)[1])) == outcome(asdict(expected(months=6)))


@pytest.mark.long
def test_spam_and_trash_are_read_too_and_told_of(program: Daemon, google: Google) -> None:
    received = [each.id for each in google.messages if "INBOX" in each.labels]
    for number, label in enumerate(("TRASH", "SPAM", "STARRED", "UNREAD")):
        for each in received[-60 + number :: 4]:
            google.person_relabels(each, add=[label])
    found = program.cli("rehearse", "--json", "--months", "3")
    assert set(found["by_label"]) == {"starred", "unread", "trash", "spam"}


@pytest.mark.long
def test_beside_the_daemon_it_bears_faults_of_google_that_pass(
    program: Daemon, google: Google, expected: Callable[..., Rehearsed]
) -> None:
    program.up()
    program.wait_for(lambda: google.calls("history.list"), "the mailbox is polled")
    google.fault("messages.list", status=503)
    google.fault("messages.get", status=429, times=3)
    google.fault("messages.get", drop="before", times=2)
    assert outcome(program.cli("rehearse", "--json", "--months", "6")) == outcome(asdict(expected(months=6)))


def refused(program: Daemon, *arguments: str) -> str:
    done = program.run("rehearse", *arguments)
    assert done.returncode == 1, done.stdout
    assert done.stderr.startswith("Error: ")
    return done.stderr


def test_what_can_not_be_done_is_said_with_what_to_do(program: Daemon, google: Google, kept: Callable[[], int]) -> None:
    assert "--account says which of your mailboxes is meant" in refused(program, "--address", PERSON)
    assert "are about a mailbox, and --mbox is about a file" in refused(
        program, "--mbox", "x", "--address", PERSON, "--account", PERSON
    )
    assert "--mbox needs your --address" in refused(program, "--mbox", "x")
    assert "no account bob@y.example" in refused(program, "--account", "bob@y.example")
    program.cli("stop")
    assert "`email-assistant go-on` ends that" in refused(program)
    program.cli("go-on")
    google.fault("token", status=400, reason="invalid_grant", times=9)
    google.expire_access_tokens()
    assert "auth login" in refused(program)
    assert kept() == 0


def test_without_a_letter_of_ones_own_it_says_what_is_missing(program: Daemon, google: Google) -> None:
    for each in google.messages:
        if "SENT" in each.labels:
            google.person_deletes(each.id)
    assert "none was sent by you" in refused(program)


def test_without_an_account_it_says_how_to_connect_one(program: Daemon) -> None:
    program.cli("account", "remove", PERSON, "--yes")
    assert "no mailbox is connected yet: `email-assistant auth login`" in refused(program)


class TestPage:
    def until(self, program: Daemon, words: str) -> str:
        def shown() -> str:
            return unescape(program.http.get("/rehearsal").text)

        return program.wait_for(lambda: found if words in (found := shown()) else "", words)

    def test_it_is_begun_watched_and_told(
        self, program: Daemon, google: Google, model: Model, kept: Callable[[], int], expected: Callable[..., Rehearsed]
    ) -> None:
        program.up()
        assert 'href="/rehearsal"' in program.http.get("/").text
        assert f'href="/rehearsal?account={quote(PERSON)}"' in program.http.get("/accounts").text
        newest_first = sorted(google.messages, key=lambda each: each.date_ms, reverse=True)
        hold = Hold()
        google.fault("messages.get", about=newest_first[100].id, hold=hold)
        began = program.http.post("/rehearsal", data={"account": PERSON, "months": "6", "until": ""})
        assert began.status_code == 303
        page = program.http.get("/rehearsal")
        assert page.headers["refresh"]
        assert f"96 of {len(newest_first)}" in self.until(program, "96 of")
        refused = program.http.post("/rehearsal", data={"account": PERSON, "months": "6"})
        assert "a rehearsal is under way already" in refused.text
        hold.release()
        told = self.until(program, "I would have shown you")
        assert "refresh" not in program.http.get("/rehearsal").headers
        found = expected(months=6)
        assert found.sentence in told
        assert found.go_by in told
        for each in found.ways.values():
            assert f">{each.name}</th>" in told
            assert f">{each.in_words(found.answered)}</td>" in told
        rows = program.http.get("/rehearsal/scores.csv", params={"account": PERSON}).text.splitlines()
        assert rows[0] == "message_id,probability,action"
        assert {each.id for each in found.missed} < {row.partition(",")[0] for row in rows}
        model.script(lambda _: [reply("Quite so.")])
        asked = program.http.post("/rehearsal/letters", data={"account": PERSON, "budget": "2"}).text
        assert "This would ask stub-model for 2 letters; what that costs is not known" in asked
        assert model.calls("response") == []
        program.http.post("/rehearsal/letters", data={"account": PERSON, "budget": "2", "agreed": "true"})
        assert self.until(program, "asked for 2 letters and proposed 2").count("Quite so.") == 2
        assert program.items() == []
        program.http.post("/rehearsal/forget", data={"account": PERSON})
        assert kept() == 0
        assert "I would have shown you" not in program.http.get("/rehearsal").text

    @pytest.mark.long
    def test_it_is_stopped_and_goes_on_in_another_process(
        self, program: Daemon, google: Google, kept: Callable[[], int]
    ) -> None:
        up = program.up()
        newest_first = sorted(google.messages, key=lambda each: each.date_ms, reverse=True)
        hold = Hold()
        google.fault("messages.get", about=newest_first[100].id, hold=hold)
        program.http.post("/rehearsal", data={"account": PERSON})
        self.until(program, "96 of")
        program.http.post("/rehearsal/stop", data={"account": PERSON})
        assert "96 past mails" in self.until(program, "Go on")
        up.kill()
        google.requests.clear()
        program.up()
        assert "Go on" in self.until(program, "96 past mails")
        program.http.post("/rehearsal", data={"account": PERSON})
        self.until(program, "I would have shown you")
        fetched = {call.path.rpartition("/")[2] for call in google.calls("messages.get")}
        assert not fetched & {each.id for each in newest_first[:96]}

    @pytest.mark.long
    def test_it_says_why_it_ended(self, program: Daemon, google: Google) -> None:
        program.up()
        google.fault("messages.get", status=403, reason="insufficientPermissions", times=999)
        program.http.post("/rehearsal", data={"account": PERSON})
        assert "insufficientPermissions" in self.until(program, "It ended early")
