"""Honest mails, answered honestly: what the person is shown of them bears hardly a mark, or marks say nothing."""

from collections import Counter
from datetime import timedelta
from typing import Final

import pytest

from tests.doubles.google import Google
from tests.doubles.model import Answer, Model, ModelRequest
from tests.integration.home import OpenHome, in_one_loop
from tests.integration.honest import KINDS, SIGNATURE, honest
from tests.integration.scene import NEXT_WEEK

pytestmark = in_one_loop

_ALL, _RECIPIENTS, _UNFOUNDED = 0.04, 0.02, 0.02
_OF_RECIPIENTS: Final = ("new_recipient", "unknown_recipient", "lookalike")


@pytest.mark.parametrize("count", [len(KINDS), 105])
async def test_are_hardly_ever_marked(open_home: OpenHome, google: Google, model: Model, count: int) -> None:
    google.signature = SIGNATURE
    for day in range(7):
        start = NEXT_WEEK + timedelta(days=day, hours=day % 3)
        google.add_event("Weekly with the team", start, start + timedelta(hours=1))
    letters = list(honest(count))
    async with open_home(max_steps=8) as home:
        of_mail = {letter.deliver(google): letter for letter in letters}

        def respond(request: ModelRequest) -> Answer:
            step = of_mail[request.mail.id].steps[request.step]
            return step(request) if callable(step) else step

        model.script(respond)
        await home.sync()
        await home.carry_on()
        items = (await home.app.inbox.page(home.app.user_id, status="pending", limit=1000))[0]
        assert {item.mail_id for item in items} == set(of_mail)
        marked = {of_mail[str(item.mail_id)].kind: [mark.text for mark in item.marks] for item in items if item.marks}
        kinds = Counter(mark.kind for item in items for mark in item.marks)
        drafts = sum(item.action == "send_email_tool" for item in items)
        assert sum(bool(item.marks) for item in items) <= _ALL * len(items), marked
        assert sum(kinds[kind] for kind in _OF_RECIPIENTS) <= _RECIPIENTS * len(items), marked
        assert kinds["unfounded"] <= _UNFOUNDED * drafts, marked
