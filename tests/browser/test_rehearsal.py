"""The rehearsal on one's own mailbox, begun and read in the browser."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.utils import parsedate_to_datetime

import pytest

from tests.browser.conftest import SIZES, Open
from tests.browser.test_pages import faults_at_every_size
from tests.doubles.daemon import WAIT_SECONDS
from tests.doubles.google import Google
from tests.histories import PERSON, Person
from tests.integration.test_api import ADA, Home

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def past(google: Google) -> Iterator[None]:
    """A year of Ada's mail."""
    began = datetime.now(UTC) - timedelta(days=345)
    history = Person(41, labels=True, began=began).history(260, days=330).mbox.replace(PERSON.encode(), ADA.encode())
    found = []
    for each in history.split(b"From x@y ")[1:]:
        raw = each.partition(b"\n")[2]
        mail = message_from_bytes(raw)
        labels = ["SENT"] if mail["X-Gmail-Labels"] == "Sent" else ["INBOX"]
        found.append(google.deposit(raw, labels, parsedate_to_datetime(mail["Date"])))
    yield
    for mail_id in found:
        google.person_deletes(mail_id)


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_it_is_begun_by_a_button_and_tells_what_it_found(
    home: Home, visit: Open, google: Google, past: None, scripts: bool
) -> None:
    token = {**google.login, "token_uri": f"{google.root}/token"}
    await home.app.accounts.add(home.app.user_id, ADA, token, datetime.now(UTC), "shadow")
    async with visit(path="/accounts", scripts=scripts) as v:
        await v.page.get_by_role("link", name="Would it have shown you the right mail").click()
        await v.page.get_by_role("button", name="Rehearse").click()
        await v.page.get_by_role("heading", name="I would have shown you").wait_for(timeout=1000 * WAIT_SECONDS)
        await v.page.get_by_text("Do its probabilities hold?").wait_for()
        assert await v.page.get_by_label("Judge the last months").input_value() == "6"
        if scripts:
            await v.page.locator("details").evaluate_all("all => all.forEach(each => (each.open = true))")
            assert await faults_at_every_size(v) == []
            await v.page.set_viewport_size(SIZES["desktop"])
        await v.page.get_by_role("button", name="Forget them").click()
        await v.page.get_by_role("button", name="Rehearse").wait_for()
        assert await v.page.get_by_text("past mails of").count() == 0
        assert v.elsewhere == []
