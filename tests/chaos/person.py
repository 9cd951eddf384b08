"""The person: answers over HTTP at random, sometimes twice, and remembers what came of it."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from tests.chaos.world import FEEDBACK
from tests.doubles.google import Google

Item = dict[str, Any]

_LEFT_ALONE = 0.05
_TWICE = 0.1
_FEEDBACKS = 2
"""How often at most the person has a draft of one run changed."""
_AT_ONCE = 4


@dataclass
class Attempt:
    """One answer that the person gave to an item."""

    answer: dict[str, Any]
    asked: int
    """The how manieth time they were asked."""
    status: int | None = None
    """What the API said to it; None: nobody knows whether it was taken."""


@dataclass
class Person:
    http: httpx.AsyncClient
    google: Google
    seed: int
    attempts: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    """By item, all answers that were sent off."""
    complaints: list[str] = field(default_factory=list)
    """Answers of the API that are never right."""
    unreached: int = 0
    """Requests that got no answer, or one that asked to come back."""
    left: set[str] = field(default_factory=set)
    """Items that are never answered."""
    _feedbacks: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _plans: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    async def live(self) -> None:
        """Answer what waits, until cancelled."""
        while True:
            try:
                await self._answer_all(await self.items("pending"))
            except httpx.TransportError:
                self.unreached += 1
            await asyncio.sleep(0.2)

    async def items(self, status: str = "") -> list[Item]:
        return await self._listed("/api/inbox", {"status": status, "limit": "500"})

    async def mails(self) -> list[Item]:
        return await self._listed("/api/mails", {"limit": "500"})

    async def _listed(self, path: str, query: dict[str, str]) -> list[Item]:
        found: list[Item] = []
        cursor: str | None = ""
        while cursor is not None:
            answer = await self.http.get(path, params=query | {"cursor": cursor})
            if answer.status_code != 200:
                self._note(answer, f"GET {path}")
                raise httpx.ReadError(f"{path}: {answer.status_code}")
            page = answer.json()
            found += page["items"]
            cursor = page["next"]
        return found

    async def _answer_all(self, waiting: list[Item]) -> None:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def answer(item: Item) -> None:
            async with slots:
                await self._answer(item)

        await asyncio.gather(*map(answer, waiting))

    async def _answer(self, item: Item) -> None:
        if item["id"] not in self._plans:
            self._plans[item["id"]] = self._plan(item)
        answers = self._plans[item["id"]]
        await asyncio.gather(*(self._send(item, answer) for answer in answers))

    async def _send(self, item: Item, answer: dict[str, Any]) -> None:
        attempt = Attempt(answer, item["asked"])
        self.attempts[item["id"]].append(attempt)
        try:
            told = await self.http.post(f"/api/inbox/{item['id']}/decision", json=answer | {"asked": item["asked"]})
        except httpx.TransportError:
            self.unreached += 1
            return
        if told.status_code in (200, 409):
            attempt.status = told.status_code
        else:
            self._note(told, f"the answer {answer} to {item}")

    def _note(self, answer: httpx.Response, what: str) -> None:
        if answer.status_code == 503:
            self.unreached += 1
        else:
            self.complaints.append(f"{answer.status_code} to {what}: {answer.text[:300]}")

    def _plan(self, item: Item) -> list[dict[str, Any]]:
        """The answers to an item, none, one, or two at the same moment; by its content, which no other has."""
        random = Random(f"{self.seed}/{item['kind']}/{item['args']}/{item['subject']}/{item['asked']}")
        if item["kind"] != "in_doubt" and item["asked"] == 1 and random.random() < _LEFT_ALONE:
            self.left.add(item["id"])
            return []
        first = self._choose(item, random)
        return [first, self._choose(item, random)] if random.random() < _TWICE else [first]

    def _choose(self, item: Item, random: Random) -> dict[str, Any]:
        match item["kind"]:
            case "in_doubt":
                return {"type": "ignore" if self._happened(item) else "accept"}
            case "notification":
                kind = random.choices(["ignore", "response"], [60, 40])[0]
            case "question":
                kind = random.choices(["ignore", "response"], [20, 80])[0]
            case _:
                weights = {"accept": 45, "edit": 20, "ignore": 15, "response": 20}
                kind = random.choices(item["allowed"], [weights[each] for each in item["allowed"]])[0]
        if kind == "response" and item["kind"] in ("draft", "meeting"):
            self._feedbacks[item["run"]] += 1
            if self._feedbacks[item["run"]] > _FEEDBACKS:
                return {"type": "accept"}
            return {"type": "response", "args": f"{FEEDBACK} {random.random()}"}
        if kind == "response":
            return {"type": "response", "args": f"Say yes. {random.random()}"}
        return {"type": "edit", "args": _edited(item, random)} if kind == "edit" else {"type": kind}

    def _happened(self, item: Item) -> bool:
        """Look at Google, as a person would who is asked whether something was done."""
        if item["action"] == "send_email_tool":
            return any(sent.text == item["args"]["response_text"] for sent in self.google.sent)
        return any(event["summary"] == item["args"]["title"] for event in self.google.events.values())


def _edited(item: Item, random: Random) -> dict[str, Any]:
    changed = "response_text" if item["kind"] == "draft" else "title"
    return {**item["args"], changed: f"{item['args'][changed]} Edited {random.randrange(10**9)}."}
