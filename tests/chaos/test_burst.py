"""A burst of mail on two workers: memory stays flat, each conversation keeps its order, and the first drafts are there,
and sent once accepted, while the rest is still coming.

EMAIL_ASSISTANT_CHAOS_BURST is the number of mails; 10,000 take long.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import httpx
import pytest

from tests.chaos.person import Person
from tests.chaos.slots import Weather
from tests.chaos.stage import Stage, stage
from tests.doubles.google import Google
from tests.doubles.model import ModelRequest, tool

pytestmark = pytest.mark.long

_MAILS = int(os.environ.get("EMAIL_ASSISTANT_CHAOS_BURST", "1000"))
_PER_CONVERSATION = 4
_INTERLEAVED = 5
"""Conversations whose mails come in turns."""
_MARGIN_MB = 24
"""What a process may grow by between the first and the last third: caches and the allocator's waste, not the mail.

A mail that stayed in memory with its run would take about 50 kB, and so 1,000 mails twice this."""
_PROCESSES = ["api", "scheduler", "worker", "worker"]


@dataclass
class Samples:
    """What was seen while the burst was worked on."""

    memory: Mapping[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """MB resident, by process, over time."""
    fetched_at_first_draft: int | None = None
    """Mails that had been fetched when the first draft could be seen."""
    triaged_at_first_reply: int | None = None
    """Mails that the model had been asked about when that draft, accepted at once, was sent."""
    fetches: int = 0
    """`messages.get` calls in all."""
    seconds: float = 0

    @property
    def thirds(self) -> dict[str, tuple[float, float]]:
        """The mean memory of each process, in the first third of the time and in the last."""
        return {name: (mean(s[: len(s) // 3]), mean(s[-len(s) // 3 :])) for name, s in self.memory.items()}

    def __str__(self) -> str:
        memory = [f"{name} {first:.0f} MB → {last:.0f} MB" for name, (first, last) in self.thirds.items()]
        return (
            f"{_MAILS} mails fetched by {self.fetches} calls in {self.seconds:.0f} s; first draft seen when "
            f"{self.fetched_at_first_draft} had been fetched, and sent when {self.triaged_at_first_reply} had been "
            f"triaged; {', '.join(memory)}"
        )


async def test_a_burst_takes_no_memory_keeps_its_order_and_shows_drafts_early(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weather = Weather(seed=1, kills=0, faults_on=False)
    # Enough time for each call on a machine that is busy with the burst.
    settings: dict[str, Any] = {"lease_seconds": 20, "google_timeout_seconds": 10, "model_timeout_seconds": 60}
    async with stage(tmp_path, _PROCESSES, weather, **settings) as opened:
        person = Person(opened.apis[0], opened.google, seed=1)
        opened.model.on_triage(triage)
        reply = tool("send_email_tool", response_text="Yes.", email_address="bob@example.org")
        opened.model.script(lambda _: [reply, tool("Done", done=True)])
        expected = deliver(opened.google)
        samples = await watch(opened, person)
        states = {mail["id"]: mail["state"] for mail in await person.mails()}
        items = await person.items()

    with capsys.disabled():
        print(f"\n{len(items)} drafts; {samples}")  # noqa: T201 - the figures are the point
    assert weather.tally.own_errors == weather.tally.ended == opened.model.violations == []
    assert states.keys() == {mail_id for thread in expected.values() for mail_id in thread}
    assert set(states.values()) <= {"done", "waiting"}
    assert len(items) == len({item["mail_id"] for item in items}) == len(expected)
    assert triaged_in_order(opened) == expected
    assert samples.fetched_at_first_draft is not None
    assert samples.fetched_at_first_draft < _MAILS, "the first draft waited for the last mail"
    assert samples.triaged_at_first_reply is not None
    assert samples.triaged_at_first_reply < _MAILS / 2, "a decision waited for the burst"
    assert samples.fetches < _MAILS * 1.2, "mails were fetched more than once"
    for name, (first, last) in samples.thirds.items():
        assert last <= first + _MARGIN_MB, f"{name} grew"


def triage(request: ModelRequest) -> str:
    """The last mail of a conversation asks for an answer."""
    return "respond" if "answer" in request.mail.subject else "ignore"


def deliver(google: Google) -> dict[str, list[str]]:
    """All at once, some conversations at a time; returns the mails of each in order."""
    conversations: dict[str, list[str]] = {}
    while len(conversations) < _MAILS // _PER_CONVERSATION:
        conversations |= deliver_interleaved(google)
    return conversations


def deliver_interleaved(google: Google) -> dict[str, list[str]]:
    conversations: dict[str, list[str]] = {}
    for turn in range(_PER_CONVERSATION):
        subject = "Please answer" if turn == _PER_CONVERSATION - 1 else "News"
        starts: list[str | None] = [*conversations] or [None] * _INTERLEAVED
        for thread in starts:
            mail_id = google.deliver("bob@example.org", subject, "Hello. " * 200, thread=thread)
            conversations.setdefault(thread or mail_id, []).append(mail_id)
    return conversations


def triaged_in_order(opened: Stage) -> dict[str, list[str]]:
    """The mails of each conversation in the order in which the model was first asked about them."""
    threads = {message.id: message.thread_id for message in opened.google.messages}
    asked: dict[str, list[str]] = defaultdict(list)
    for mail_id in dict.fromkeys(request.mail.id for request in opened.model.calls("triage")):
        asked[threads[mail_id]].append(mail_id)
    return asked


async def watch(opened: Stage, person: Person) -> Samples:
    """Look on until every mail is at rest."""
    samples, began = Samples(), time.monotonic()
    while True:
        await asyncio.sleep(0.5)
        with suppress(httpx.TransportError):
            if samples.fetched_at_first_draft is None:
                if drafts := await person.items("pending"):
                    samples.fetched_at_first_draft = fetched(opened.google)
                    await opened.apis[0].post(f"/api/inbox/{drafts[0]['id']}/decision", json={"type": "accept"})
                continue
            if samples.triaged_at_first_reply is None and opened.google.sent:
                samples.triaged_at_first_reply = len(opened.model.calls("triage"))
            for number, slot in enumerate(opened.slots):
                samples.memory[f"{number}-{slot.role}"].append(resident(slot.life.child.pid))
            if len(opened.model.calls("triage")) >= _MAILS and await is_at_rest(person):
                samples.seconds, samples.fetches = time.monotonic() - began, len(opened.google.calls("messages.get"))
                return samples


def fetched(google: Google) -> int:
    return len({call.path_params["id"] for call in google.calls("messages.get")})


async def is_at_rest(person: Person) -> bool:
    mails = await person.mails()
    return len(mails) == _MAILS and all(mail["state"] in ("done", "waiting", "failed") for mail in mails)


def resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
