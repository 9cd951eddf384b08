"""A login is sent to the server that it was made at, whatever the settings say later."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from email_assistant.google.errors import GoogleError
from email_assistant.settings import Settings
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.integration.conftest import Start
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import ADA

AGAIN = f"log in again with `email-assistant auth login {ADA}`"


def sql(url: str, query: str, *parameters: object) -> list[Any]:
    with psycopg.connect(url, autocommit=True, options="-c search_path=email_assistant") as conn:
        cursor = conn.execute(query.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


def told_by_every_command(program: Daemon, database_url: str, says: str) -> None:
    """status, doctor and up say it; a look into the mailbox, once triggered, comes to nothing."""
    assert f"  it {says}" in program.cli("status")
    assert says in program.cli("status", "--json")["accounts"][0]["left_alone"]
    doctor = program.run("doctor")
    assert (doctor.returncode, f"✗ {ADA}: {says}" in doctor.stdout) == (1, True)
    program.cli("account", "resume", ADA)  # which has the mailbox looked at
    up = program.up()
    assert f"{ADA} {says}" in up.log
    unfinished = "select 1 from procrastinate_jobs where status in ('todo', 'doing') and task_name like '%%poll%%'"
    program.wait_for(lambda: not sql(database_url, unfinished), "the look has been tried")
    up.stop()
    assert "Traceback" not in up.log


class TestAnotherRoot:
    @pytest.fixture
    def away(self, connect: Start, google: Google) -> Daemon:
        """The program, by now at another root than the one at which Ada logged in."""
        program = connect(google_name="")
        program.environment["EMAIL_ASSISTANT_GOOGLE_ROOT"] = google.roots[1]
        return program

    def test_is_not_sent_the_login(self, away: Daemon, google: Google, database_url: str) -> None:
        told_by_every_command(away, database_url, f"belongs to the server at {google.root}, and no other is sent")
        assert [call for call in google.requests if call.root == google.roots[1]] == []

    def test_is_not_sent_the_secret_of_the_client(self, away: Daemon, google: Google) -> None:
        done = away.run("auth", "login", "--no-browser")
        assert (done.returncode, "needs an OAuth client" in done.stderr) == (1, True)

    def test_is_not_told_that_the_login_ends(self, away: Daemon, google: Google) -> None:
        done = away.run("auth", "logout", ADA, "--yes", "--force")
        assert (done.returncode, AGAIN in done.stderr) == (1, True)
        assert [call for call in google.requests if call.root == google.roots[1]] == []

    def test_is_used_once_the_person_has_logged_in_there(self, away: Daemon, google: Google) -> None:
        token = google.write_token_file(away.home / "token.json")
        away.cli("account", "add", ADA, "--token-file", str(token))
        assert away.cli("status", "--json")["accounts"][0]["left_alone"] is None
        assert f"✓ {ADA}: active, Gmail answers" in away.run("doctor").stdout

    def test_is_the_same_with_a_slash(self, away: Daemon, google: Google) -> None:
        away.environment["EMAIL_ASSISTANT_GOOGLE_ROOT"] = f"{google.root.upper().replace('HTTP', 'http')}/"
        assert f"✓ {ADA}: active, Gmail answers" in away.run("doctor").stdout


def test_a_login_that_was_made_at_google_is_sent_nowhere_else(
    connect: Start, google: Google, database_url: str
) -> None:
    program = connect(google_name="")
    sql(database_url, "update accounts set provider = 'google'")
    before = len(google.requests)
    told_by_every_command(
        program, database_url, "belongs to Google, and EMAIL_ASSISTANT_GOOGLE_ROOT names another server"
    )
    assert google.requests[before:] == []
    assert AGAIN in program.run("doctor").stdout


@in_one_loop
async def test_a_login_that_came_meanwhile_is_renewed_at_its_own_server_alone(home: Home, google: Google) -> None:
    client = await home.app.clients.get(home.account_id)
    await client.gmail.profile()
    renewals = len(google.calls("token"))
    await home.sql("update accounts set provider = 'http://127.0.0.1:1'")  # another process has connected it there
    google.fault("getProfile", status=401)
    with pytest.raises(GoogleError, match="was not renewed"):
        await client.gmail.profile()
    assert len(google.calls("token")) == renewals


@pytest.mark.parametrize(
    ("root", "name", "provider"),
    [
        (None, None, "google"),
        (None, "sandbox", "google"),
        ("https://mail.example.net", None, "https://mail.example.net"),
        ("https://Mail.Example.net/", None, "https://mail.example.net"),
        ("https://mail.example.net/google/", "google", "https://mail.example.net/google"),
        ("http://127.0.0.1:8080", None, "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080", "google", "loopback:google"),
        ("http://[::1]:8080", "sandbox", "loopback:sandbox"),
        ("http://127.0.0.1.example.net", "sandbox", "http://127.0.0.1.example.net"),
    ],
)
def test_accounts_are_known_by_where_they_are(
    tmp_path: Path, root: str | None, name: str | None, provider: str
) -> None:
    assert Settings(home=tmp_path, google_root=root, google_name=name).provider == provider
