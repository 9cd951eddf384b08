"""The worst mail that there is, one after the other, beside a second mailbox: every mail ends in something that the
person sees or in a reason, nobody else waits for it, and memory stays flat.

EMAIL_ASSISTANT_CHAOS_SOAK is the number of mails, EMAIL_ASSISTANT_CHAOS_SEED draws them; 2,000 take long.
"""

import asyncio
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import httpx
import pytest

from tests.chaos.person import Item, Person
from tests.chaos.slots import Weather
from tests.chaos.stage import Stage, stage
from tests.chaos.test_burst import resident
from tests.doubles.model import ModelRequest, ToolCall, tool
from tests.unit.test_growth import TELLING
from tests.unit.test_mail_hostile import bombs, entity, header_bombs, multipart, nested, plain_bombs

pytestmark = pytest.mark.long

_MAILS = int(os.environ.get("EMAIL_ASSISTANT_CHAOS_SOAK", "60"))
_SEED = int(os.environ.get("EMAIL_ASSISTANT_CHAOS_SEED", "1"))
_OTHER = "carl@example.org"
_EVERY = 10
"""Of so many mails one is an ordinary one to the other mailbox."""
_AHEAD = 10
"""Mails that are not at rest, at most."""
_SIZES = (2_000, 50_000, 300_000, 2_000_000)
_OFTEN = (50, 30, 15, 5)
_MARGIN_MB = 150
"""What a process may grow by from the second third to the last: what the largest mail takes for a while, not all."""
_QUESTION = "Could you send me the signed lease by Friday?"
_HEAD = "From: Bob Berg <bob{number}@example.org>\r\nTo: ada@example.com\r\nSubject: Worst {number}\r\n"
_AT_REST = ("done", "waiting", "failed")


def worst(random: Random, number: int) -> bytes:
    """A mail with a question to the person, and everything else that can be wrong with one."""
    raw = _HEAD.format(number=number).encode() + random.choice(_MAKERS)(random, random.choices(_SIZES, _OFTEN)[0])
    return _damaged(random, raw) if random.random() < 0.25 else raw


def _plain(random: Random, size: int) -> bytes:
    _, text = random.choice([*plain_bombs(size)])
    return entity("text/plain; charset=utf-8", _around(random, text))


def _html(random: Random, size: int) -> bytes:
    _, markup = random.choice([*bombs(size)])
    return entity("text/html; charset=utf-8", _around(random, markup, "<p>"))


def _headers(random: Random, size: int) -> bytes:
    _, head = random.choice([*header_bombs(size)])
    return f"{head}\r\n{_QUESTION}".encode()


def _telling(random: Random, size: int) -> bytes:
    pieces = random.choices(TELLING, k=4)
    text = "".join(random.choices(pieces, k=size // max(map(len, pieces))))
    return entity(f"text/{random.choice(['plain', 'html'])}; charset=utf-8", _around(random, text))


def _two_parts(random: Random, size: int) -> bytes:
    return multipart("multipart/alternative", _plain(random, size), _html(random, size))


def _nested(random: Random, size: int) -> bytes:
    return nested(min(size // 100, 2_000), random.choice(["multipart/mixed", "multipart/digest", "message/rfc822"]))


def _many_files(random: Random, size: int) -> bytes:
    kind = random.choice(["application/pdf", "message/rfc822", "text/calendar", "image/png", "text/plain"])
    files = [entity(kind, random.randbytes(20), f'Content-Disposition: attachment; filename="{n}"') for n in
             range(size // 200)]  # fmt: skip
    return multipart("multipart/mixed", entity("text/plain", _QUESTION), *files)


def _calendar(random: Random, size: int) -> bytes:
    rule = random.choice(["FREQ=SECONDLY", "FREQ=YEARLY;BYDAY=5MO", "FREQ=DAILY;INTERVAL=0", "FREQ=MINUTELY;COUNT=9E9"])
    event = f"BEGIN:VEVENT\nUID:{size}\nDTSTART:20310602T0900\nRRULE:{rule}\nSUMMARY:Plan\nEND:VEVENT\n"
    lines = f"BEGIN:VCALENDAR\nMETHOD:REQUEST\n{event * (size // len(event))}END:VCALENDAR"
    return multipart("multipart/mixed", entity("text/plain", _QUESTION), entity("text/calendar; method=REQUEST", lines))


def _bytes(random: Random, size: int) -> bytes:
    coding = random.choice(["base64", "quoted-printable", "8bit", "x-uuencode"])
    charset = random.choice(["utf-16", "utf-7", "iso-2022-jp", "gb2312", "x-unknown", "cp437"])
    content = _QUESTION.encode() + random.randbytes(size)
    return entity(f"text/plain; charset={charset}", content, f"Content-Transfer-Encoding: {coding}")


_MAKERS: Sequence[Callable[[Random, int], bytes]] = [
    _plain, _html, _headers, _telling, _two_parts, _nested, _many_files, _calendar, _bytes
]  # fmt: skip


def _around(random: Random, text: str, opening: str = "") -> str:
    return random.choice([f"{opening}{_QUESTION}\n{text}", f"{opening}{text}\n{_QUESTION}"])


def _damaged(random: Random, raw: bytes) -> bytes:
    """The mail with pieces of it cut out, doubled, or replaced by noise."""
    for _ in range(random.randint(1, 4)):
        at, length = random.randrange(len(raw)), random.randint(1, 200)
        piece = raw[at : at + length]
        raw = raw[:at] + random.choice([b"", piece * 2, random.randbytes(length)]) + raw[at + length :]
    return raw


@dataclass
class Watched:
    """What was seen meanwhile."""

    memory: Mapping[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """MB resident, by process, over time."""
    answers: list[float] = field(default_factory=list)
    """Seconds in which the page of the inbox came."""
    others: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Ordinary mails by id: when each came, and how many of the worst had come then."""
    waited: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Of each, the seconds until its draft was there, and how many of the worst came meanwhile."""
    largest: int = 0

    def __str__(self) -> str:
        memory = [f"{name} {mean(s[:5]):.0f} MB, at most {max(s):.0f} MB" for name, s in self.memory.items()]
        waits = [seconds for seconds, _ in self.waited.values()]
        return (
            f"the largest mail {self.largest / 1e6:.1f} MB; ordinary mail: {_spread(waits)}; "
            f"the inbox's page: {_spread(self.answers)}; {', '.join(memory)}"
        )


def _spread(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10]
    return f"{len(ordered)} times, median {middle:.1f} s, 9 of 10 within {late:.1f} s, at most {ordered[-1]:.1f} s"


@pytest.mark.timeout(600 + 5 * _MAILS)
async def test_no_mail_ends_in_silence_and_none_stops_the_house(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weather = Weather(seed=_SEED, kills=0, faults_on=False)
    settings: dict[str, Any] = {"lease_seconds": 60, "google_timeout_seconds": 30, "model_timeout_seconds": 60}
    async with stage(tmp_path, ["api", "scheduler", "worker"], weather, [_OTHER], max_tries=3, **settings) as opened:
        opened.model.on_triage("respond")
        opened.model.script(_answer)
        person, watched, began = Person(opened.apis[0], opened.google, _SEED), Watched(), time.monotonic()
        worst_ids = await _let_come(opened, person, watched)
        seconds = time.monotonic() - began
        mails, items = await person.mails(), await person.items()
        violations = [*weather.tally.own_errors, *weather.tally.ended]

    ends = {mail["id"]: _end(mail, items) for mail in mails}
    with capsys.disabled():
        print(f"\n{_MAILS} mails in {seconds:.0f} s: {Counter(ends[i] for i in worst_ids)}; {watched}")  # noqa: T201
    assert violations == []
    assert ends.keys() == {*worst_ids, *watched.others}
    assert [mail for mail in mails if ends[mail["id"]] == "silence"] == []
    assert {ends[mail_id] for mail_id in watched.others} == {"an item"}
    assert watched.waited.keys() == watched.others.keys()
    assert max(meanwhile for _, meanwhile in watched.waited.values()) <= 2 * _AHEAD
    for name, samples in watched.memory.items():
        third = len(samples) // 3
        assert mean(samples[-third:]) <= mean(samples[third : 2 * third]) + _MARGIN_MB, f"{name} grew"


def _answer(request: ModelRequest) -> list[ToolCall]:
    sender = request.mail.headers.get("from", "nobody").split()[-1].strip("<>")
    return [tool("send_email_tool", response_text="On Thursday.", email_address=sender), tool("Done", done=True)]


def _end(mail: Item, items: Sequence[Item]) -> str:
    """What became of a mail, as the person sees it."""
    if any(item["mail_id"] == mail["id"] for item in items):
        return "an item"
    if mail["state"] in _AT_REST and mail["reason"]:
        return f"{mail['state']}: {mail['reason'][:60]}"
    return "silence"


async def _let_come(opened: Stage, person: Person, watched: Watched) -> set[str]:
    """Deliver it all, no faster than it is worked on; the ids of the worst."""
    random, other = Random(_SEED), opened.others[0]
    came: set[str] = set()

    async def at_most(waiting: int) -> None:
        while await _look(opened, person, watched, len(came)) > waiting:  # noqa: ASYNC110 - other processes work
            await asyncio.sleep(0.3)

    for number in range(_MAILS):
        await at_most(_AHEAD)
        raw = worst(random, number)
        watched.largest = max(watched.largest, len(raw))
        came.add(await asyncio.to_thread(opened.google.deliver_raw, raw))
        if number % _EVERY == 0:
            mail_id = other.deliver("Dora <dora@example.org>", f"Ordinary {number}", "Does Friday suit you?")
            watched.others[mail_id] = time.monotonic(), len(came)
    await at_most(0)
    return came


async def _look(opened: Stage, person: Person, watched: Watched, came: int) -> int:
    """Answer what waits; the number of mails that aren't at rest."""
    began = time.monotonic()
    try:
        waiting = await person.items("pending")
    except httpx.TransportError:
        return _AHEAD
    watched.answers.append(time.monotonic() - began)
    for item in waiting:
        if (at := watched.others.get(item["mail_id"])) and item["mail_id"] not in watched.waited:
            watched.waited[item["mail_id"]] = time.monotonic() - at[0], came - at[1]
        with suppress(httpx.TransportError):
            told = await person.http.post(f"/api/inbox/{item['id']}/decision", json={"type": "accept"})
            if told.is_client_error:
                await person.http.post(f"/api/inbox/{item['id']}/decision", json={"type": "done"})
    for number, slot in enumerate(opened.slots):
        watched.memory[f"{number}-{slot.role}"].append(resident(slot.life.child.pid))
    return came + len(watched.others) - sum(mail["state"] in _AT_REST for mail in await person.mails())
