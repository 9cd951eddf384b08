"""The parts that compose.yaml starts, with what it gives them, and without containers: on the tests' Postgres."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.deploy import commands_under
from tests.deploy.compose import Service, services
from tests.doubles.daemon import Daemon, Process
from tests.doubles.google import Google
from tests.doubles.model import Answer, Model, ModelRequest
from tests.doubles.serving import Hold
from tests.integration.scene import ADA, BOB, DONE, reply
from tests.tools import need

WORKERS = 3
MAILS = 9
PORT = "8765"


@pytest.fixture
def google() -> Iterator[Google]:
    """Ada's account, under a root for each worker, so that they can be told apart."""
    with Google(ADA, timezone="Europe/Berlin", roots=WORKERS) as double:
        yield double
        assert double.calls("unknown") == []


@pytest.fixture
def model() -> Iterator[Model]:
    """Every mail is to be answered, with its own subject."""

    def answer(request: ModelRequest) -> Answer:
        return [reply(f"About {request.mail.subject}."), DONE]

    with Model(roots=WORKERS) as double:
        double.on_triage("respond")
        double.script(answer)
        yield double
        assert double.violations == []


@pytest.fixture
def env_file(tmp_path: Path, google: Google, model: Model) -> Path:
    """deploy/.env as the documented commands make it, and as a person would add to it what differs here."""
    need("openssl")
    (tmp_path / "deploy").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\necho "$@" > started\n')
    docker.chmod(0o755)
    path = f"{docker.parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-euc", commands_under("Docker Compose")], cwd=tmp_path, env={"PATH": path}, check=True)
    assert (tmp_path / "started").read_text() == "compose --file deploy/compose.yaml up --build --detach\n"
    file = tmp_path / "deploy" / ".env"
    assert file.stat().st_mode & 0o777 == 0o600
    ours = {
        "OPENAI_BASE_URL": model.root,
        "EMAIL_ASSISTANT_MODEL": "stub-model",
        "EMAIL_ASSISTANT_GOOGLE_ROOT": google.root,
        "EMAIL_ASSISTANT_GOOGLE_NAME": "double",
        "EMAIL_ASSISTANT_GOOGLE_TIMEOUT_SECONDS": 1.5,
        "EMAIL_ASSISTANT_LEASE_SECONDS": 4,
        "EMAIL_ASSISTANT_POLL_SECONDS": 0.5,
        "EMAIL_ASSISTANT_SWEEP_SECONDS": 0.5,
        "EMAIL_ASSISTANT_UNDO_SECONDS": 0,
        "EMAIL_ASSISTANT_CONCURRENCY": 1,  # at one conversation at a time, so that all processes are needed
    }
    with file.open("a") as lines:
        lines.writelines(f"{name}={value}\n" for name, value in ours.items())
    return file


class Deployment:
    """What Compose would start. Of this machine are PATH, home folder, port and Postgres."""

    def __init__(
        self, home: Path, database_url: str, google: Google, model: Model, parts: Mapping[str, Service]
    ) -> None:
        self._parts = parts
        self._roots = list(zip(google.roots, model.roots, strict=True))
        self.program = Daemon(home, database_url, google, model)
        self._port = str(self.program.http.base_url.port)
        around = {name: self.program.environment[name] for name in ("PATH", "PYTHONPATH", "HOME", "LANG")}
        self._here = {**around, "DATABASE_URL": database_url, "EMAIL_ASSISTANT_HOME": str(home / "home")}
        # Commands are run as by `docker compose exec api`.
        self.program.environment = {**parts["api"].environment, **self._here}
        token = parts["api"].environment["EMAIL_ASSISTANT_API_TOKEN"]
        self.program.http.headers["Authorization"] = f"Bearer {token}"

    def start(self, part: str) -> list[Process]:
        """All processes of one part; each reaches the doubles by a root of its own."""
        service, program = self._parts[part], self.program
        command = [self._at_our_port(word) for word in service.command]
        started = []
        for number, (google, model) in enumerate(self._roots[: service.replicas]):
            own = {"EMAIL_ASSISTANT_GOOGLE_ROOT": google, "OPENAI_BASE_URL": model}
            environment = {**service.environment, **self._here, **own}
            started.append(Process(f"{part}-{number}", command, environment, program.home, program.nursery))
        program.processes += started
        return started

    def is_well(self, part: str) -> bool:
        """What its health check says."""
        program, *arguments = self._parts[part].health
        assert program == "python"
        command = [sys.executable, *map(self._at_our_port, arguments)]
        return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0

    def _at_our_port(self, word: str) -> str:
        return word.replace(PORT, self._port)


@pytest.fixture
def deployment(tmp_path: Path, database_url: str, google: Google, model: Model, env_file: Path) -> Iterator[Deployment]:
    deployed = Deployment(tmp_path, database_url, google, model, services(env_file))
    yield deployed
    deployed.program.close()


def test_every_mail_is_done_once_though_a_worker_is_killed(
    deployment: Deployment, google: Google, model: Model
) -> None:
    program = deployment.program
    program.account_add(ADA)
    assert not deployment.is_well("api")
    [api], [scheduler], workers = (deployment.start(part) for part in ("api", "scheduler", "worker"))
    program.wait_for(lambda: deployment.is_well("api") or not api.is_running, "the inbox is well")
    assert len(workers) == WORKERS
    assert f"Your inbox: {program.http.base_url}/login\n" in api.log  # and no token

    at_work = [Hold() for _ in range(WORKERS)]
    for hold in at_work:
        model.fault("triage", hold=hold)
    mails = {google.deliver(BOB, f"Matter {number}", "Please see to it."): number for number in range(MAILS)}
    program.wait_for(lambda: all(hold.is_reached for hold in at_work), "every worker is at a mail")
    assert {hold.reached() for hold in at_work} == set(model.roots)
    for hold in at_work:
        hold.release()

    items = program.pending(MAILS)
    sending = Hold()
    google.fault("drafts.send", hold=sending, at="after")
    for item in items:
        program.accept(item)
    workers[google.roots.index(sending.reached())].kill()
    sending.abandon()

    program.until_done(*mails)
    program.wait_for(lambda: not google.drafts, "no draft is left over")
    assert {item["status"] for item in program.items()} == {"applied"}
    assert sorted(worker.is_running for worker in workers) == [False, True, True]
    program.stop()
    assert [process.exit_code for process in (api, scheduler, *workers) if process.exit_code != -9] == [0] * 4
    assert sorted((sent.thread_id, sent.text) for sent in google.sent) == sorted(
        (mail_id, f"About Matter {number}.") for mail_id, number in mails.items()
    )


def test_the_database_is_the_one_beside_it(env_file: Path) -> None:
    """What stands in place of the tests' Postgres."""
    parts = services(env_file)
    postgres = parts["postgres"].environment
    urls = {parts[part].environment["DATABASE_URL"] for part in ("api", "scheduler", "worker")}
    [url] = map(urlsplit, urls)
    assert (url.scheme, url.hostname, url.username) == ("postgresql", "postgres", postgres["POSTGRES_USER"])
    assert (url.password, url.path) == (postgres["POSTGRES_PASSWORD"], f"/{postgres['POSTGRES_DB']}")


@pytest.mark.parametrize("name", ["POSTGRES_PASSWORD", "EMAIL_ASSISTANT_API_TOKEN", "EMAIL_ASSISTANT_SECRET_KEY"])
def test_nothing_starts_without_its_secrets(env_file: Path, name: str) -> None:
    kept = [line for line in env_file.read_text().splitlines() if not line.startswith(name)]
    env_file.write_text("\n".join(kept))
    with pytest.raises(KeyError, match=name):
        services(env_file)
