"""Several processes want the same thing at the same moment: answers to one item, mails of one conversation, a
decision and the newer mail that would take its place."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import ParamSpec, TypeVar

import pytest
import pytest_asyncio

from tests.chaos.person import Item, Person
from tests.chaos.slots import Weather
from tests.chaos.stage import Stage, stage
from tests.doubles.google import Google
from tests.doubles.model import ModelRequest, ToolCall, tool
from tests.doubles.serving import Hold

pytestmark = pytest.mark.long

P = ParamSpec("P")
T = TypeVar("T")

_ANSWERS = 50
_CONVERSATIONS = 15
_ROUNDS = 20
_WAIT_SECONDS = 60.0


@pytest_asyncio.fixture
async def calm(tmp_path: Path) -> AsyncIterator[Stage]:
    """Two processes that serve and two that work; nothing goes wrong by itself."""
    weather = Weather(seed=1, kills=0, faults_on=False)
    async with stage(tmp_path, ["api", "api", "scheduler", "worker", "worker"], weather) as opened:
        opened.model.on_triage("respond")
        opened.model.script(answer)
        yield opened
        assert opened.model.violations == []
        assert weather.tally.ended == weather.tally.own_errors == []


@pytest.fixture
def person(calm: Stage) -> Person:
    return Person(calm.apis[0], calm.google, seed=1)


def answer(request: ModelRequest) -> list[ToolCall]:
    """One reply, which names the mail that it answers."""
    return [
        tool("send_email_tool", response_text=f"To {request.mail.id}.", email_address="bob@example.org"),
        tool("Done"),
    ]


async def test_of_fifty_answers_at_once_by_two_processes_one_is_taken(calm: Stage, person: Person) -> None:
    mail_id = calm.google.deliver("bob@example.org", "Lunch?", "Does Friday suit you?")
    [item] = await until(waiting, person)

    async def edit(number: int) -> int:
        args = {**item["args"], "response_text": f"Answer {number}."}
        api = calm.apis[number % len(calm.apis)]
        told = await api.post(f"/api/inbox/{item['id']}/decision", json={"type": "edit", "args": args})
        return told.status_code

    codes = await asyncio.gather(*map(edit, range(_ANSWERS)))

    assert Counter(codes) == {200: 1, 409: _ANSWERS - 1}
    await until(all_done, person, {mail_id})
    assert [sent.text for sent in calm.google.sent] == [f"Answer {codes.index(200)}."]


async def test_two_mails_of_one_conversation_at_once_are_answered_once_by_the_newer(
    calm: Stage, person: Person
) -> None:
    random, newest = Random(1), {}
    for number in range(_CONVERSATIONS):
        first = calm.google.deliver("bob@example.org", f"Lunch {number}?", "Does Friday suit you?")
        await asyncio.sleep(random.uniform(0, 0.5))
        newest[first] = calm.google.deliver("bob@example.org", f"Re: Lunch {number}?", "Or Monday?", thread=first)

    await until(answers_wait_for, person, set(newest.values()))
    for item in await person.items("pending"):
        assert (await calm.apis[0].post(f"/api/inbox/{item['id']}/decision", json={"type": "accept"})).is_success

    await until(all_done, person, {*newest, *newest.values()})
    sent = {(sent.thread_id, sent.text) for sent in calm.google.sent}
    assert sent == {(thread, f"To {mail_id}.") for thread, mail_id in newest.items()}
    assert len(calm.google.sent) == _CONVERSATIONS


async def test_a_decision_that_races_newer_mail_is_carried_out_or_refused(calm: Stage, person: Person) -> None:
    codes, delay = [], 0.05
    for number in range(_ROUNDS):
        first = calm.google.deliver("bob@example.org", f"Lunch {number}?", "Does Friday suit you?")
        await until(answers_wait_for, person, {first})
        [item] = await person.items("pending")
        hold = Hold()
        calm.model.fault("triage", hold=hold)
        newer = calm.google.deliver("bob@example.org", f"Re: Lunch {number}?", "Or Monday?", thread=first)
        await asyncio.to_thread(hold.reached)

        hold.release()
        await asyncio.sleep(delay)
        told = await calm.apis[1].post(f"/api/inbox/{item['id']}/decision", json={"type": "accept"})
        codes.append(told.status_code)
        delay *= 1.5 if told.is_success else 0.6  # towards the moment at which the newer mail takes the item's place

        await until(answers_wait_for, person, {newer})
        status = (await calm.apis[0].get(f"/api/inbox/{item['id']}")).json()["status"]
        assert (told.status_code, status) in ((200, "applied"), (409, "superseded"))
        assert sent_in(calm.google, first) == ([f"To {first}."] if told.status_code == 200 else [])
        [next_item] = await person.items("pending")
        await calm.apis[0].post(f"/api/inbox/{next_item['id']}/decision", json={"type": "ignore"})
        await until(all_done, person, {first, newer})
    assert set(codes) == {200, 409}, "the race was never close"


# What there is


async def waiting(person: Person) -> Sequence[Item]:
    return await person.items("pending")


async def answers_wait_for(person: Person, mail_ids: set[str]) -> bool:
    """Whether exactly these mails have each one answer that waits."""
    return sorted(item["mail_id"] for item in await person.items("pending")) == sorted(mail_ids)


async def all_done(person: Person, mail_ids: set[str]) -> bool:
    states = {mail["id"]: mail["state"] for mail in await person.mails()}
    return all(states.get(mail_id) == "done" for mail_id in mail_ids)


def sent_in(google: Google, thread: str) -> list[str]:
    return [sent.text for sent in google.sent if sent.thread_id == thread]


async def until(found: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Ask until the answer is true; return it."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not (answer := await found(*args, **kwargs)):
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.05)
    return answer
