"""An upgrade without a stop: processes of an earlier release work on beside those of this one, on one database."""

import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cryptography.fernet import Fernet

from email_assistant.db.migrate import known_migrations
from tests.doubles.daemon import Daemon, Process
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.scene import ADA, BOB, DONE, reply
from tests.tools import need

pytestmark = pytest.mark.long

RELEASE = "0ed0eea2d3cfdae3093dad91103b649a930b0588"
"""The last commit whose letters, digests and programs' mail each left in a way of its own."""
PAGES = ("/", "/mails", "/activity", "/accounts", "/memory")
SETTINGS = {"secret_key": Fernet.generate_key().decode()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The earlier release's source, from this repository's history."""
    need("git")
    archive, folder = tmp_path / "before.tar", tmp_path / "source"
    git = ["git", "archive", "--output", str(archive), RELEASE, "email_assistant"]
    done = subprocess.run(git, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"commit {RELEASE} is not in this checkout; run `git fetch --unshallow` ({done.stderr.strip()})")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture
def before(tmp_path: Path, empty_database_url: str, google: Google, model: Model, source: Path) -> Iterator[Daemon]:
    """The earlier release, which has made the database. It reaches Google and the model by their first roots."""
    (tmp_path / "before").mkdir()
    with Daemon(tmp_path / "before", empty_database_url, google, model, source, **SETTINGS) as daemon:
        daemon.account_add(ADA)
        yield daemon


@pytest.fixture
def after(tmp_path: Path, google: Google, model: Model, before: Daemon) -> Iterator[Daemon]:
    """This version, by their second roots."""
    (tmp_path / "after").mkdir()
    url, root = before.environment["DATABASE_URL"], google.roots[1]
    with Daemon(tmp_path / "after", url, google, model, google_root=root, digest_at="00:00", **SETTINGS) as daemon:
        yield daemon


def test_every_mail_is_answered_once_though_processes_of_both_die(
    before: Daemon, after: Daemon, google: Google, model: Model
) -> None:
    model.script(lambda request: [reply(f"To {request.mail.id}."), DONE])
    mails = {google.deliver(BOB, f"Lunch {n}?", "Does Friday suit you?") for n in range(6)}
    before.api()
    old_worker = before.worker()
    before.scheduler()
    waiting = before.pending(len(mails))

    # The new schema comes while the earlier release is at work, which then dies in new mail, a letter and the digest.
    triaging, sending, drafting = Hold(), Hold(), Hold()
    model.fault("triage", times=2, hold=triaging)
    mails |= {google.deliver(BOB, f"Dinner {n}?", "Does Friday suit you?") for n in range(2)}
    before.wait_for(lambda: len(model.calls("triage")) == len(mails), "the new mail is in triage")
    assert "0015_outgoing" not in migrations(after)
    after.api()
    assert migrations(after) == known_migrations()
    expect_pages(before, after)
    google.fault("drafts.send", hold=sending, at="after")
    before.accept(waiting.pop())
    sending.reached()
    old_worker.kill()
    google.fault("drafts.create", hold=drafting, at="after")
    before.environment["EMAIL_ASSISTANT_DIGEST_AT"] = "00:00"
    old_scheduler = before.scheduler()
    drafting.reached()
    old_scheduler.kill()
    for hold in (triaging, sending, drafting):
        hold.abandon()

    # This version takes up what that one has left, and begins a letter itself.
    creating = Hold()
    new_worker = worker_of(after, google, model, 1)
    after.scheduler()
    after.wait_for(lambda: len(google.sent) == 2, "the letter is known as sent, and so is the digest")
    waiting = after.pending(len(mails) - 1)
    google.fault("drafts.create", hold=creating, at="after")
    before.accept(waiting.pop())
    creating.reached()
    new_worker.kill()
    creating.abandon()

    # The earlier release takes up what this one has left, and is frozen in the next.
    frozen = before.worker()
    before.wait_for(lambda: len(google.sent) == 3, "the letter is sent")
    late = Hold()
    google.fault("drafts.send", hold=late)
    after.accept(waiting.pop())
    late.reached()
    frozen.freeze()
    worker_of(after, google, model, 1)
    after.wait_for(lambda: len(google.sent) == 4, "this version sends it")
    late.release()
    frozen.thaw()

    # Both work, until the earlier one is stopped in good order.
    for person in (before, after):
        person.accept(waiting.pop())
    expect_pages(before, after)
    after.wait_for(lambda: len(google.sent) == 6, "both letters are sent")
    before.stop()
    mails.add(google.deliver(BOB, "Tea?", "Does Friday suit you?"))
    for item in after.pending(len(waiting) + 1):
        after.accept(item)

    after.until_done(*mails)
    after.wait_for(lambda: not google.drafts, "no draft is left over")
    expect_pages(after)
    assert Counter((item["mail_id"], item["status"]) for item in after.items()) == Counter(
        (m, "applied") for m in mails
    )
    after.stop()
    digests = [sent for sent in google.sent if sent.parsed["X-Email-Assistant-Digest"]]
    letters = [sent for sent in google.sent if sent not in digests]
    assert len(digests) == 1
    assert Counter(sent.text for sent in letters) == Counter(f"To {mail}." for mail in mails)
    assert google.drafts == []
    for process in (*before.processes, *after.processes):
        assert "Traceback" not in process.log, process.log


def worker_of(daemon: Daemon, google: Google, model: Model, root: int) -> Process:
    return daemon.worker(google_root=google.roots[root], model_root=model.roots[root])


def migrations(daemon: Daemon) -> set[str]:
    """The names of those that the database has seen."""
    with psycopg.connect(daemon.environment["DATABASE_URL"]) as conn:
        return {name for (name,) in conn.execute("select migration_id from email_assistant._yoyo_migration")}


def expect_pages(*daemons: Daemon) -> None:
    """What a person opens is there."""
    for daemon in daemons:
        items = [f"/items/{item['id']}" for item in daemon.items()]
        for page in (*PAGES, *items):
            assert daemon.http.get(page).status_code == 200, page
