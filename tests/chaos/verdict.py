"""What came of it, by Google's side and the inbox alone, set against what the person answered."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.chaos.person import Attempt, Item
from tests.chaos.world import ALIAS, Delivered, latest_to_answer
from tests.doubles.google import Google

_APPROVED = ("accept", "edit")
_WORDS = {"send_email_tool": "response_text", "schedule_meeting_tool": "title"}


@dataclass
class Verdict:
    """Counts for the table, and every breach of a promise in words."""

    figures: dict[str, int] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)


def judge(
    google: Google,
    delivered: Sequence[Delivered],
    items: Sequence[Item],
    mails: Sequence[Item],
    attempts: Mapping[str, Sequence[Attempt]],
) -> Verdict:
    """Hold the end against the promises."""
    verdict = Verdict()
    _judge_answers(verdict, items, attempts)
    _judge_actions(verdict, "send_email_tool", _sent(google), items, delivered)
    _judge_actions(verdict, "schedule_meeting_tool", _met(google), items, delivered)
    _judge_mails(verdict, delivered, items, mails)
    _judge_senders(verdict, google, delivered)
    if strange := {call.path for call in google.calls("unknown")}:
        verdict.breaches.append(f"requests that Google does not know: {strange}")
    verdict.figures["refused, and shown to the person"] = len([i for i in items if i["asked_because"]])
    verdict.figures["unknown shown to the person"] = len([i for i in items if i["kind"] == "in_doubt"])
    return verdict


Action = tuple[str, str, str]
"""Its text, the address it went to, and the conversation; a meeting has no conversation."""


def _sent(google: Google) -> Counter[Action]:
    return Counter((sent.text, ",".join(sent.recipients), sent.thread_id) for sent in google.sent)


def _met(google: Google) -> Counter[Action]:
    events = google.events.values()
    return Counter((e["summary"], ",".join(a["email"] for a in e["attendees"]), "") for e in events)


def _judge_answers(verdict: Verdict, items: Sequence[Item], attempts: Mapping[str, Sequence[Attempt]]) -> None:
    """Of all answers to an item one was taken each time that the person was asked, and the last one stands."""
    open_runs = {item["run"] for item in items if item["status"] == "pending"}
    unfinished = {item["run"] for item in items if item["decision"] is None}
    given = refused = doubled = lost = superseded = 0
    by_id = {item["id"]: item for item in items}
    for missing in attempts.keys() - by_id.keys():
        verdict.breaches.append(f"item {missing}, which was answered, is gone")
    for item in items:
        tried = [replace(a, answer=_meant(a, attempts[item["id"]])) for a in attempts.get(item["id"], ())]
        # What repeats an answer that was taken is taken too, and changes nothing.
        by_asking = Counter(asked for asked, _ in {(a.asked, repr(a.answer)) for a in tried if a.status == 200})
        taken = [a for a in tried if a.status == 200 and a.asked == item["asked"]]
        refused += len([a for a in tried if a.status == 409])
        given += item["decision"] is not None
        if any(n > 1 for n in by_asking.values()):
            doubled += 1
            verdict.breaches.append(f"two answers to one question were taken: {tried} to {item}")
        possible = taken or [a for a in tried if a.status is None and a.asked == item["asked"]]
        if item["decision"] is not None and not any(_is_decision(a, item["decision"]) for a in possible):
            verdict.breaches.append(f"the item holds an answer that nobody's 200 stands for: {tried} to {item}")
        if taken and item["decision"] is None:
            lost += 1
            verdict.breaches.append(f"an answer that was taken is gone: {tried} to {item}")
        if item["decision"] is None:
            continue
        # An answer counts for good once all of its run's items are answered; until then newer mail may come between.
        if item["status"] == "superseded" and item["run"] in unfinished:
            superseded += 1
        elif item["status"] != "applied" and not (item["status"] == "decided" and item["run"] in open_runs):
            lost += 1
            verdict.breaches.append(f"an answer was taken and came to nothing: {item}")
    verdict.figures |= {
        "answers sent": sum(map(len, attempts.values())),
        "answers taken": given,
        "second answers refused (409)": refused,
        "items answered twice": doubled,
        "answers superseded by newer mail, and shown so": superseded,
        "answers lost": lost,
    }


def _meant(attempt: Attempt, tried: Sequence[Attempt]) -> dict[str, Any]:
    """Who accepts what they are asked about again accepts it as they had edited it before."""
    edits = [a.answer for a in tried if a.asked < attempt.asked and a.answer["type"] == "edit" and a.status != 409]
    return edits[-1] if edits and attempt.answer["type"] == "accept" else attempt.answer


def _is_decision(attempt: Attempt, decision: Mapping[str, Any]) -> bool:
    asked = attempt.answer.get("args") or {}
    if attempt.answer["type"] != decision["type"]:
        return False
    if isinstance(asked, str):
        return bool(asked == decision["args"])
    return all((decision["args"] or {}).get(name) == value for name, value in asked.items())


def _judge_actions(
    verdict: Verdict, tool: str, happened: Counter[Action], items: Sequence[Item], delivered: Sequence[Delivered]
) -> None:
    """What was accepted happened once each, as it was accepted, and nothing else did."""
    threads = {mail.id: mail.thread for mail in delivered}
    wanted: Counter[Action] = Counter()
    for item in _last_asked(items):
        approved = item["status"] == "applied" and item["decision"]["type"] in _APPROVED
        if item["action"] == tool and approved:
            args = item["decision"]["args"] or item["args"]
            to = args["email_address"] if tool == "send_email_tool" else ",".join(args["attendees"])
            thread = threads[item["mail_id"]] if tool == "send_email_tool" else ""
            wanted[args[_WORDS[tool]], to, thread] += 1
    duplicates = {action: n for action, n in (happened - wanted).items() if action in wanted}
    unapproved = {action: n for action, n in (happened - wanted).items() if action not in wanted}
    what = "replies" if tool == "send_email_tool" else "meetings"
    verdict.figures |= {
        f"{what} accepted": wanted.total(),
        f"{what} at Google": happened.total(),
        f"{what} twice": sum(duplicates.values()),
        f"{what} lost": (wanted - happened).total(),
        f"{what} that nobody accepted": sum(unapproved.values()),
    }
    verdict.breaches += [f"happened {1 + n} times: {action}" for action, n in duplicates.items()]
    verdict.breaches += [f"never accepted, yet it happened: {action}" for action in unapproved]
    verdict.breaches += [f"accepted, yet it did not happen: {action}" for action in wanted - happened]


def _last_asked(items: Sequence[Item]) -> list[Item]:
    """Of each call what the person was asked about it last: what was refused may have been changed, or dropped. Where
    it was not known whether it had happened, they looked."""
    by_call = {
        (item["run"], item["call_id"]): item
        for item in sorted(items, key=lambda item: int(item["asked"]))
        if item["kind"] != "in_doubt"
    }
    return list(by_call.values())


def _judge_senders(verdict: Verdict, google: Google, delivered: Sequence[Delivered]) -> None:
    """Each reply went from the address that its conversation came to."""
    written_to = {mail.thread: mail.to for mail in delivered}
    replies = [(sent.addresses("From"), written_to[sent.thread_id]) for sent in google.sent]
    verdict.figures["replies from an alias"] = len([to for _, to in replies if to == ALIAS])
    verdict.breaches += [f"a reply to what came to {to} went from {sent}" for sent, to in replies if sent != [to]]


def _judge_mails(
    verdict: Verdict, delivered: Sequence[Delivered], items: Sequence[Item], mails: Sequence[Item]
) -> None:
    """Each mail is there once, and done, waiting for the person, or failed for all to see."""
    rows = Counter(mail["id"] for mail in mails)
    expected = Counter(mail.id for mail in delivered)
    states = Counter(mail["state"] for mail in mails)
    pending = {item["run"]: item for item in items if item["status"] == "pending"}
    verdict.figures |= {"mails": len(delivered)} | {f"mails {state}": n for state, n in sorted(states.items())}
    verdict.figures["mails lost"] = (expected - rows).total()
    verdict.breaches += [f"mail {lost} never arrived" for lost in expected - rows]
    verdict.breaches += [f"mail {double} is there twice" for double in rows - expected]
    waits_in = {item["mail_id"] for item in pending.values()}
    threads_waiting = {mail["thread"] for mail in mails if mail["id"] in waits_in}
    for mail in mails:
        if mail["state"] not in ("done", "waiting"):
            verdict.breaches.append(f"a mail is {mail['state']}: {mail}")
        if mail["state"] == "waiting" and mail["thread"] not in threads_waiting:
            verdict.breaches.append(f"a mail waits, but nothing asks the person about it: {mail}")
    asked_about = defaultdict(list)
    for item in items:
        asked_about[item["mail_id"]].append(item)
    for mail_ in latest_to_answer(delivered).values():
        if not asked_about[mail_.id]:
            verdict.breaches.append(f"the newest mail of its conversation was never put to the person: {mail_}")
    for mail_ in delivered:
        if mail_.kind == "ignore" and asked_about[mail_.id]:
            verdict.breaches.append(f"a mail that was to be ignored was put to the person: {mail_}")
