"""What others watch the program by: /metrics as Prometheus reads them, /ready, and one id of a mail in the log."""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import psycopg
import pytest
from cryptography.fernet import Fernet
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from email_assistant.app import open_app
from email_assistant.work import worker
from tests.documents import ROOT
from tests.doubles.daemon import API_TOKEN, Daemon, Process
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop, until
from tests.integration.scene import ADA, BOB, DONE, reply
from tests.integration.test_api import TOKEN, client, served
from tests.integration.test_api import _shut as shut_database

SUBJECT, TEXT = "Lunch at Tiergarten?", "Does Friday suit you, dear Ada?"
OURS = "email_assistant_"
_NAMES = re.compile(r"\b(?:email_assistant|process)_[a-z_]+")


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(told: Mapping[str, Metric], sample: str, **labels: str) -> float:
    """The sum of the samples that have these labels among theirs."""
    return sum(
        each.value
        for family in told.values()
        for each in family.samples
        if each.name == OURS + sample and labels.items() <= each.labels.items()
    )


def answered_mail(daemon: Daemon, google: Google, model: Model) -> str:
    model.script([[reply("Gladly."), DONE]])
    mail_id = google.deliver(BOB, SUBJECT, TEXT)
    [item] = daemon.pending()
    daemon.accept(item)
    daemon.until_done(mail_id)
    return mail_id


@contextmanager
def shut(database_url: str) -> Iterator[None]:
    """The database ends every connection, and takes none, within the block."""
    name = str(psycopg.conninfo.conninfo_to_dict(database_url)["dbname"])
    shut_database(database_url, name, allow=False)
    try:
        yield
    finally:
        shut_database(database_url, name, allow=True)


@asynccontextmanager
async def scraped(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    async with served(home.app) as root, client(root, authorization=f"Bearer {TOKEN}") as http:
        yield http


class TestMetrics:
    @pytest.fixture
    def text(self, start: Start, google: Google, model: Model) -> str:
        """After one mail's way."""
        daemon = start()
        answered_mail(daemon, google, model)

        def told() -> str:
            found = daemon.http.get("/metrics")
            assert found.status_code == 200
            assert found.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            ended = value(families(found.text), "job_seconds_count", job="advance_thread")
            return found.text if ended >= 2 else ""

        return daemon.wait_for(told, "the jobs of both steps have ended")

    def test_they_tell_of_a_mails_way_and_nothing_that_it_says(self, text: str) -> None:
        told = families(text)
        assert value(told, "database_up") == 1
        assert value(told, "accounts", state="active") == value(told, "accounts") == 1
        assert value(told, "working_processes") == 1
        assert value(told, "mails") == value(told, "waiting_items") == value(told, "due_work") == 0
        assert value(told, "sorted_mails_total", **{"class": "respond", "stage": "model"}) == 1
        assert value(told, "effects_total", tool="send_email_tool", outcome="done") == 1
        assert value(told, "effects_last_hour", outcome="done") == 1
        assert value(told, "decision_seconds_count") == 1
        assert value(told, "model_call_seconds_count", role="triage") == 1
        assert value(told, "google_call_seconds_count", method="gmail.users.drafts.send") == 1
        assert value(told, "google_units_total", service="gmail") > 100
        assert value(told, "model_tokens_last_hour", role="response", kind="prompt") > 0
        for word in (ADA, "bob", "example", "Lunch", "Tiergarten", "Friday", "Gladly", API_TOKEN):
            assert word.lower() not in text.lower()

        own = [family for name, family in told.items() if name.startswith(OURS)]
        assert len(own) > 20
        for family in own:
            assert family.documentation.endswith("."), family.name
            assert family.type != "histogram" or family.name.endswith("_seconds"), family.name
            labels = {label for sample in family.samples for label in sample.labels}
            assert not labels & {"account", "address", "mail", "user", "subject"}, family.name

    def test_all_that_dashboard_alerts_and_documents_name_is_there(self, text: str) -> None:
        there = {sample.name for family in families(text).values() for sample in family.samples}
        there |= {f"{name}_total" for name, family in families(text).items() if family.type == "counter"}
        panels = json.loads((ROOT / "deploy/grafana/dashboard.json").read_text())["panels"]
        shown = " ".join(target["expr"] for panel in panels for target in panel["targets"])
        alerts = (ROOT / "deploy/prometheus/rules.yaml").read_text()
        assert len(_NAMES.findall(shown)) > 20
        assert len(_NAMES.findall(alerts)) > 8
        told = (ROOT / "docs/operations.md").read_text()
        named = {each for each in _NAMES.findall(f"{shown} {alerts} {told}") if not each.endswith("_")}
        assert named - there == set()

    def test_only_with_the_token(self, daemon: Daemon) -> None:
        refused = httpx.get(f"{daemon.http.base_url}/metrics", trust_env=False)
        assert (refused.status_code, refused.headers["content-type"]) == (401, "application/problem+json")

    @in_one_loop
    async def test_what_is_open_is_counted_and_its_age_told(self, home: Home, google: Google) -> None:
        for _ in range(2):
            google.deliver(BOB, SUBJECT, TEXT)
        await home.sync()
        await home.sql("update mails set received_at = clock_timestamp() - interval '1 hour'")
        await home.sql("update accounts set last_error = 'no'")
        async with scraped(home) as http:
            told = families((await http.get("/metrics")).text)
        assert value(told, "mails", **{"state": "new", "class": "none"}) == 2
        assert value(told, "due_work", kind="mail") == 2
        assert 3600 <= value(told, "due_work_oldest_seconds", kind="mail") < 3700
        assert value(told, "jobs", queue="background", status="todo") == 2
        assert value(told, "accounts_failing") == 1

    @pytest.mark.parametrize(
        "held",
        [
            "update threads set not_before = 'infinity'",
            "update threads set lease_until = 'infinity'",
            "update accounts set state = 'paused'",
            "update accounts set spent_until = 'infinity'",
        ],
    )
    @in_one_loop
    async def test_what_backs_off_or_is_being_worked_on_is_not_due(self, home: Home, google: Google, held: str) -> None:
        google.deliver(BOB, SUBJECT, TEXT)
        await home.sync()
        await home.sql(held)
        async with scraped(home) as http:
            told = families((await http.get("/metrics")).text)
        assert value(told, "mails", state="new") == 1
        assert value(told, "due_work") == value(told, "due_work_oldest_seconds") == 0

    @in_one_loop
    async def test_an_answer_that_nobody_carries_out_is_due(self, home: Home, model: Model) -> None:
        model.script([[reply("Gladly."), DONE]])
        await home.receive(SUBJECT, TEXT)
        [item] = await home.pending()
        async with scraped(home) as http:
            told = families((await http.get("/metrics")).text)
        assert value(told, "waiting_items", kind="draft") == 1
        assert value(told, "due_work") == 0
        await home.decide(item, "accept")
        async with scraped(home) as http:
            told = families((await http.get("/metrics")).text)
        assert value(told, "due_work", kind="decision") == 1
        assert value(told, "mails", **{"state": "waiting", "class": "respond"}) == 1

    @in_one_loop
    async def test_however_many_ask_the_database_is_asked_once(self, home: Home, google: Google) -> None:
        async with scraped(home) as http:
            first = (await http.get("/metrics")).text
            google.deliver(BOB, SUBJECT, TEXT)
            await home.sync()
            second = (await http.get("/metrics")).text
        assert value(families(first), "mails") == value(families(second), "mails") == 0

    @in_one_loop
    async def test_a_database_that_is_away_is_told_of(self, home: Home, database_url: str) -> None:
        async with scraped(home) as http:
            with shut(database_url):
                told = families((await http.get("/metrics")).text)
        assert value(told, "database_up") == 0
        assert OURS + "mails" not in told
        assert OURS + "errors" in told

    @in_one_loop
    async def test_errors_are_counted_by_their_type(self, home: Home, model: Model) -> None:
        async with scraped(home) as http:
            before = families((await http.get("/metrics")).text)
        model.fault("triage", status=500)
        home.google.deliver(BOB, SUBJECT, TEXT)
        await home.sync()
        await home.step()
        async with scraped(home) as http:
            after = families((await http.get("/metrics")).text)
        for part in ("model", "work"):
            counted = [value(told, "errors_total", part=part, type="ModelFault") for told in (before, after)]
            assert counted[1] - counted[0] == 1, part


class TestPartsWithoutAnInbox:
    def test_they_are_scraped_and_probed_where_the_setting_says(self, connect: Start, google: Google) -> None:
        daemon = connect(metrics_port=0)
        worker, scheduler = daemon.worker(), daemon.scheduler()
        for process in (worker, scheduler):
            root = monitored(daemon, process)
            assert root.startswith("http://127.0.0.1:")
            daemon.wait_for(lambda root=root: got(f"{root}/ready").status_code == 200, "it is ready")  # type: ignore[misc]
            assert got(f"{root}/health").json() == {"status": "ok"}
            assert got(f"{root}/metrics").status_code == 401
            assert got(f"{root}/metrics", "wrong").status_code == 401
            told = families(got(f"{root}/metrics", API_TOKEN).text)
            assert value(told, "accounts", state="active") == 1
            assert got(f"{root}/api/inbox", API_TOKEN).status_code == 404
        assert value(families(got(f"{monitored(daemon, worker)}/metrics", API_TOKEN).text), "job_seconds_count") > 0
        daemon.stop()
        assert (worker.exit_code, scheduler.exit_code) == (0, 0)

    def test_without_it_they_listen_nowhere(self, connect: Start) -> None:
        daemon = connect()
        worker = daemon.worker()
        daemon.wait_for(lambda: "Working." in worker.log, "it works")
        assert "Metrics" not in worker.log

    def test_a_port_that_is_taken_is_said_with_the_settings(self, connect: Start) -> None:
        daemon = connect()
        daemon.up()
        daemon.environment["EMAIL_ASSISTANT_METRICS_PORT"] = str(daemon.http.base_url.port)
        done = daemon.run("worker")
        assert done.returncode != 0
        assert "EMAIL_ASSISTANT_METRICS_PORT" in done.stderr


class TestReady:
    @in_one_loop
    async def test_it_is_when_all_is_well_and_says_so_to_anybody(self, home: Home) -> None:
        assert await readiness(home) == (200, [])

    @in_one_loop
    async def test_not_while_the_database_is_away(self, home: Home, database_url: str) -> None:
        async with served(home.app) as root:
            with shut(database_url):
                assert await asked(root) == (503, ["the database does not answer"])
            assert await asked(root) == (200, [])

    @in_one_loop
    async def test_not_on_tables_of_an_unreleased_version(self, home: Home) -> None:
        await home.sql("update schema_hash set hash = 'another'")
        status, [reason] = await readiness(home)
        assert status == 503
        assert reason.startswith("the database was made by an unreleased version")

    @in_one_loop
    async def test_not_with_a_key_that_reads_no_login(self, home: Home, database_url: str) -> None:
        other = home.app.settings.model_copy(update={"secret_key": SecretStr(Fernet.generate_key().decode())})
        async with open_app(other, database_url) as app, served(app) as root:
            status, [reason] = await asked(root)
        assert status == 503
        assert "EMAIL_ASSISTANT_SECRET_KEY" in reason
        assert str(other.secret_key and other.secret_key.get_secret_value()) not in reason

    def test_a_worker_with_another_key_says_so(self, connect: Start) -> None:
        daemon = connect()
        daemon.environment["EMAIL_ASSISTANT_SECRET_KEY"] = Fernet.generate_key().decode()
        worker = daemon.worker()
        daemon.wait_for(lambda: "Working." in worker.log, "it works")
        assert "EMAIL_ASSISTANT_SECRET_KEY" in worker.log

    @in_one_loop
    async def test_not_while_the_queue_stands_still(
        self, open_home: OpenHome, monkeypatch: pytest.MonkeyPatch, database_url: str
    ) -> None:
        monkeypatch.setattr(worker, "_UNPOLLED_SECONDS", 1.0)
        monkeypatch.setattr(worker, "_POLL_SECONDS", 0.1)
        async with open_home() as home, served(home.app) as root, home.at_work():
            await until(lambda: is_ready(root))
            with psycopg.connect(database_url) as other:
                other.execute("lock table email_assistant.procrastinate_jobs in access exclusive mode")
                await until(lambda: says(root, "the queue decisions has not been asked for work"))
            await until(lambda: is_ready(root))


class TestLog:
    MESSAGES = (
        "stored: new",
        "worked on",
        "sorted: respond, by model",
        "waits for the person: draft",
        "the person answers a draft by api: accept",
        "the answer to a draft is applied",
        "worked on",
        "send_email_tool: done",
        "done",
    )

    def test_one_id_goes_through_all_lines_of_a_mail(self, connect: Start, google: Google, model: Model) -> None:
        daemon = connect(log_level="DEBUG", log_format="json", lease_seconds=60)
        daemon.up()
        mail_id = answered_mail(daemon, google, model)
        model.on_triage("ignore")
        other = google.deliver(BOB, "A word", "Never mind.")
        daemon.until_done(other)
        daemon.stop()
        lines = list(logged(daemon.processes[-1]))
        assert tuple(line["message"] for line in lines if line.get("about") == mail_id) == self.MESSAGES
        ignored = [line["message"] for line in lines if line.get("about") == other]
        assert ignored == ["stored: new", "worked on", "sorted: ignore, by model", "done"]
        sent = google.sent[0].id
        assert {line.get("about") for line in lines if line["message"] in self.MESSAGES} == {mail_id, other, sent}
        assert mail_id in {mail["id"] for mail in daemon.cli("mails", "--json")["items"]}
        assert {"at", "level", "logger", "message"} <= set(lines[0])
        text = daemon.processes[-1].log
        for word in (SUBJECT, TEXT, "Gladly", "bob@example.org", "Never mind"):
            assert word not in text

    def test_so_do_lines_of_what_goes_wrong(self, connect: Start, google: Google, model: Model) -> None:
        daemon = connect(log_level="INFO", lease_seconds=60)
        daemon.up()
        model.fault("triage", status=500)
        mail_id = answered_mail(daemon, google, model)
        daemon.stop()
        text = daemon.processes[-1].log
        [line] = [line for line in text.splitlines() if "ModelFault" in line]
        assert f"WARNING email_assistant.work.driver: [{mail_id}] conversation " in line
        assert f"INFO email_assistant.work.handover: [{mail_id}] sorted: respond, by model" in text


def logged(process: Process) -> Iterator[dict[str, Any]]:
    for line in process.log.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def monitored(daemon: Daemon, process: Process) -> str:
    """Where a process without an inbox says that it is watched."""
    daemon.wait_for(lambda: "Metrics: " in process.log or not process.is_running, "it listens")
    [root] = re.findall(r"Metrics: (\S+)/metrics", process.log)
    return str(root)


def got(url: str, token: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.get(url, headers=headers, trust_env=False, timeout=30)


async def readiness(home: Home) -> tuple[int, list[str]]:
    async with served(home.app) as root:
        return await asked(root)


async def asked(root: str) -> tuple[int, list[str]]:
    async with client(root) as anybody:
        answer = await anybody.get("/ready")
    found = answer.json()
    assert found["ready"] is (not found["reasons"])
    return answer.status_code, found["reasons"]


async def is_ready(root: str) -> bool:
    return await asked(root) == (200, [])


async def says(root: str, *reasons: str) -> bool:
    status, told = await asked(root)
    return status == 503 and all(any(each.startswith(reason) for each in told) for reason in reasons)
