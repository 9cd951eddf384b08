"""Two people's mailboxes in one daemon: each has its own mail, timezone, signature, memory and troubles."""

from datetime import datetime
from zoneinfo import ZoneInfo

import psycopg
import pytest

from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration import shared
from tests.integration.scene import ADA, BOB, DONE, reply

daemon, google, model, database_url = shared.daemon, shared.google, shared.model, shared.database_url

CARL = "carl@example.net"


@pytest.fixture
def carl(google: Google) -> Google:
    google.signature = "<p>Ada Lovelace</p>"
    other = google.another(CARL, "Asia/Tokyo")
    other.signature = "<p>Carl Gauss</p>"
    return other


@pytest.fixture
def both(daemon: Daemon, google: Google, carl: Google, model: Model) -> Daemon:
    """The daemon, watching both mailboxes."""
    shared.look_at_the_settings_again(daemon, google)
    model.script(lambda request: [reply(f"On: {request.mail.text.strip()}"), DONE])
    token = carl.write_token_file(daemon.home / "carl.json")
    daemon.cli("account", "add", CARL, "--token-file", str(token), "--mode", "send")
    daemon.wait_for(lambda: all(each["timezone"] for each in accounts(daemon).values()), "both are looked at")
    return daemon


def accounts(daemon: Daemon) -> dict[str, dict[str, str]]:
    return {each["address"]: each for each in daemon.http.get("/api/accounts").json()["items"]}


def test_each_is_answered_from_its_own_with_its_own(both: Daemon, google: Google, carl: Google, model: Model) -> None:
    for box in (google, carl):
        box.deliver(BOB, "Lunch?", f"To {box.address}")
    items = both.wait_for(lambda: found if len(found := both.items(status="pending")) == 2 else [], "both wait")
    assert {item["account"] for item in items} == {ADA, CARL}
    assert {address: each["timezone"] for address, each in accounts(both).items()} == {
        ADA: "Europe/Berlin",
        CARL: "Asia/Tokyo",
    }
    for item in items:
        both.accept(item)
    both.wait_for(lambda: google.sent and carl.sent, "both are sent")
    for box, name, zone in ((google, "Ada Lovelace", "Europe/Berlin"), (carl, "Carl Gauss", "Asia/Tokyo")):
        [sent] = box.sent
        assert sent.addresses("From") == [box.address]
        assert sent.text == f"On: To {box.address}\n\n-- \n{name}"
        offset = datetime.now(ZoneInfo(zone)).strftime("%z")
        assert str(sent.parsed["Date"]).endswith(offset)
        prompt = next(r for r in model.calls("response") if f"To {box.address}" in r.mail.text)
        assert f"Timezone: {zone}" in prompt.text


def test_what_one_taught_is_not_told_to_the_other(both: Daemon, google: Google, carl: Google, model: Model) -> None:
    model.on_memory({"action": "add", "rule": None, "text": "Ada is brief.", "reason": "edit"})
    google.deliver(BOB, "Lunch?", "First")
    [item] = both.wait_for(lambda: both.items(status="pending"), "it waits")
    both.answer(item, "edit", {**item["args"], "response_text": "Ok."})
    both.wait_for(lambda: "Ada is brief." in both.cli("memory", "show", "--account", ADA), "it is learned")
    for box in (google, carl):
        box.deliver(BOB, "Dinner?", "Second")
    both.wait_for(lambda: len(both.items(status="pending")) == 2, "both wait")
    told = {r.text.count("Ada is brief."): r.text for r in model.calls("response") if "Second" in r.mail.text}
    assert sorted(told) == [0, 1]
    assert ADA in told[1]
    assert CARL in told[0]


@pytest.mark.parametrize("trouble", ["paused", "login"])
def test_the_trouble_of_one_does_not_touch_the_other(both: Daemon, google: Google, carl: Google, trouble: str) -> None:
    if trouble == "paused":
        both.cli("account", "pause", CARL)
    else:
        carl.revoke()
        carl.access_tokens.clear()
    both.wait_for(lambda: accounts(both)[CARL]["state"] == trouble, "it is noticed")
    for box in (carl, google):
        box.deliver(BOB, "Lunch?", f"To {box.address}")
    [item] = both.wait_for(lambda: both.items(status="pending"), "Ada's waits")
    both.accept(item)
    both.wait_for(lambda: google.sent, "Ada's is sent")
    assert accounts(both)[ADA]["state"] == "active"
    assert [mail["account"] for mail in both.mails()] == [ADA]


def test_one_that_is_being_removed_is_not_brought_back(both: Daemon, carl: Google) -> None:
    with psycopg.connect(both.environment["DATABASE_URL"]) as conn:
        conn.execute("update email_assistant.accounts set state = 'removing' where address = %s", (CARL,))
    token = carl.write_token_file(both.home / "carl.json")
    refused = both.run("account", "add", CARL, "--token-file", str(token))
    assert (refused.returncode, "is being removed" in refused.stderr) == (1, True)
    assert accounts(both)[CARL]["state"] == "removing"
