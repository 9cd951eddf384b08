"""What happened to one mail, told in order from what every room stored about it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Literal
from uuid import UUID

from email_assistant.db.pool import Parameters, Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.inbox.items import NoItem
from email_assistant.inbox.kept import args_in, decision_in
from email_assistant.inbox.mails import CORRECTED
from email_assistant.inbox.standing import ACTS, TAKEN_FOR, answered_where
from email_assistant.mail.message import NOT_KEPT
from email_assistant.mail.report import note
from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import Rule, origin_words
from email_assistant.outgoing.entry import server_at
from email_assistant.tools.spec import is_blank

What = Literal[
    "received", "classified", "corrected", "started", "retried", "proposed", "decided", "applied", "superseded",
    "expired", "sent", "scheduled", "done", "refused", "unclear", "learned", "failed", "finished", "judged", "went by",
    "called", "left", "held", "planned",
]  # fmt: skip
Row = Mapping[str, Any]

_EFFECTS: Mapping[str, tuple[What, str]] = {
    "send_email_tool": ("sent", "The reply was sent."),
    "schedule_meeting_tool": ("scheduled", "The meeting was put into the calendar."),
}
_BY: Mapping[str, str] = {"model": " by the model", "fixed": " by a fixed rule of the assistant's"}
"""Who gave a class, where the reason does not say so."""
_PROPOSED: Mapping[str, str] = {
    "draft": "A reply was drafted and shown to you.",
    "meeting": "A meeting was proposed to you.",
    "notification": "The mail was shown to you.",
    "question": "You were asked a question.",
    "in_doubt": "You were asked about an action of which it is unclear whether it happened.",
}
_ANSWERS: Mapping[str, str] = {
    "accept": "You approved it as it was",
    "edit": "You changed it and approved it",
    "ignore": "You dismissed it",
    "response": "You answered",
}
_NOT_SUCH: Final = "You said that you want no such mail here"
"""What they are asked to learn from."""

_LEFT: Mapping[str, str] = {
    "wanted": "The reply is to be left in Gmail as a draft.",
    "started": "The reply is being left in Gmail as a draft.",
    "left": "The reply was left in Gmail as a draft.",
    "ending": "The reply was left in Gmail as a draft, which is to be taken away.",
    "gone": "The reply was left in Gmail as a draft, which is no longer there.",
}
_FOUND: Mapping[str, str] = {
    "changed": "You changed it there.",
    "sent": "You sent it there yourself.",
    "gone": "You discarded it there, or sent it in another way.",
}

_SQL = statements("trail", "story.sql")


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened."""

    at: datetime | None  # None where no time was kept
    what: What
    text: str  # one sentence
    by: str | None = None  # where the person was, such as "web"; None if it was not the person
    run: UUID | None = None
    item: UUID | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)  # more, by the kind of event; see the API's description

    def line(self, zone: tzinfo | None = None) -> str:
        """When it was, in a timezone or else that of this machine, and what."""
        at = f"{self.at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}" if self.at else "-"
        return f"{at}  {self.text}{f' ({self.where})' if self.by else ''}"

    @property
    def where(self) -> str:
        return answered_where(self.by)


class Trail:
    def __init__(self, pool: Pool, memory: Memory) -> None:
        self._pool = pool
        self._memory = memory

    async def find(self, user_id: UUID, named: str, account: str | None = None) -> tuple[str, str]:
        """The mail that is meant, and its account's address. `named`: the mail's own id, Gmail's, that of an item or a
        run about it, or the beginning of one of the last three. Raises NoItem: no mail, or more than one."""
        given = {"user": user_id, "named": named.strip(), "account": account.lower() if account else None}
        found = await self._rows("find", given)
        exact = [row for row in found if row["is_exact"]]
        if len(meant := exact or found) != 1:
            raise NoItem(
                f"there is no mail, item or run {named}"
                if not meant
                else f"{named} may mean more than one mail: give more of the id, or name the account"
            )
        return meant[0]["id"], meant[0]["account"]

    async def facts(self, user_id: UUID, mail_id: str, account: str) -> list[str]:
        """What has no time of its own: its label, what it cost, and how the logs name it."""
        [mail] = await self._rows("mail", (user_id, mail_id, account.lower()))
        given = {"user": user_id, "thread": mail["thread_id"], "mail": mail_id, "run": mail["run_id"]}
        runs = [run["id"] for run in await self._rows("runs", given)]
        told = [NOT_KEPT] if NOT_KEPT in (mail["note"] or "") else []
        if mail["labelled"] and mail["labelled"] != "none":
            told.append(f"In Gmail it has the label for “{TAKEN_FOR[mail['labelled']]}”.")
        if mail["relabelled"]:
            told.append(f"In Gmail you gave it the label for “{TAKEN_FOR[mail['relabelled']]}”.")
        told += [_used(row) for row in await self._rows("usage", (mail["account_id"], runs))]
        ids = [f"conversation {mail['thread_id']}", *(f"run {each}" for each in runs)]
        return [*told, f"In the logs: {mail_id}; {', '.join(ids)}"]

    async def of_mail(self, user_id: UUID, mail_id: str, account: str | None = None) -> list[Happening]:
        """What happened to a mail, in order. Raises NoItem: no such mail, or one in several accounts and none was
        named."""
        found = await self._rows("mail", (user_id, mail_id, account.lower() if account else None))
        if len(found) != 1:
            raise NoItem(
                f"there is no mail {mail_id}" if not found else f"several accounts have a mail {mail_id}: name one"
            )
        mail = found[0]
        corrections = await self._rows("corrections", (mail["account_id"], mail_id))
        given = {"user": user_id, "thread": mail["thread_id"], "mail": mail_id, "run": mail["run_id"]}
        runs = await self._rows("runs", given)
        ids = [run["id"] for run in runs]
        items, effects = await self._rows("items", (ids,)), await self._rows("effects", (ids,))
        learned = await self._memory.learned_from(mail["account_id"], [item["id"] for item in items], mail_id)
        drafts, calls = await self._rows("drafts", (ids,)), await self._rows("calls", (ids,))
        judged = await self._rows("judged", (mail["account_id"], mail_id))
        fired = await self._rows("fired", (mail["account_id"], mail_id))
        sources = [str(each["id"]) for each in (*items, *corrections)]
        held = await self._rows("held", (mail["account_id"], [mail_id], sources))
        told = [
            *_of_mail(mail, corrections),
            *(_judged(judgement) for judgement in judged),
            *[_went_by(fire, await self._memory.history(mail["account_id"], fire["profile"])) for fire in fired],
            *(_called(call) for call in calls),
            *(_left(draft) for draft in drafts),
            *(_held(lesson) for lesson in held),
            *(event for run in runs for event in _of_run(run, mail_id)),
            *(event for item in items for event in _of_item(item)),
            *(_of_effect(effect) for effect in effects),
            *_learned(learned),
        ]
        return sorted(told, key=lambda event: event.at or datetime.max.replace(tzinfo=UTC))

    async def done_for(self, user_id: UUID, mail_id: str, account: str) -> list[Happening]:
        """What the run that answered a mail has done, in order; all else is left out."""
        return [_of_effect(effect) for effect in await self._rows("effects_for", (user_id, mail_id, account))]

    async def _rows(self, name: str, given: Parameters) -> list[dict[str, Any]]:
        return await fetched(self._pool, _SQL[name], given)


def _used(row: Mapping[str, Any]) -> str:
    """What a model was asked, and what that cost where its price is known."""
    money = f", {row['cost']:.4f} in money" if row["cost"] else ""
    return (
        f"{row['model']} was asked {_times(row['calls'])} ({row['role']}): "
        f"{row['prompt_tokens']:,} tokens in, {row['completion_tokens']:,} out{money}."
    )


def _times(calls: int) -> str:
    return "once" if calls == 1 else f"{calls:,} times"


def _of_mail(mail: Row, corrections: Iterable[Row]) -> Iterator[Happening]:
    came = f"It came in from {mail['sender'] or 'an unknown sender'}."
    if mail["stage"] == "report":  # whoever it claims to be from
        came = "A report on a letter of yours came in."
    yield Happening(mail["received_at"], "received", came)
    for correction in corrections:
        if not (correction["because"] or "").startswith(CORRECTED):
            yield _classified(correction["triaged_at"], correction["was"], correction["because"])
        was, now = TAKEN_FOR[correction["was"]], TAKEN_FOR[correction["classification"]]
        text = f"You corrected it from “{was}” to “{now}”."
        detail = {name: correction[name] for name in ("was", "classification")}
        yield Happening(correction["at"], "corrected", text, correction["by"], detail=detail)
    if mail["classification"] and not (mail["triage_reason"] or "").startswith(CORRECTED):
        yield _classified(mail["triaged_at"], mail["classification"], mail["triage_reason"], mail["stage"])


def _classified(at: datetime | None, classification: str, reason: str | None, stage: str | None = None) -> Happening:
    by = _BY.get(stage or "", "")
    text = f"It was sorted as “{TAKEN_FOR[classification]}”{by}" + (f": {reason}" if reason else ".")
    detail = {"classification": classification, "stage": stage, "reason": reason}
    return Happening(at, "classified", text, detail=detail)


def _of_run(run: Row, mail_id: str) -> Iterator[Happening]:
    again, detail = run["attempt"] > 1, {name: run[name] for name in ("attempt", "given", "calls", "tokens", "cost")}
    text = "The assistant took it up again." if again else "The assistant took it up."
    if run["mail_id"] != mail_id:
        text = "The assistant took up another mail of the conversation, and this one with it."
    yield Happening(run["created_at"], "retried" if again else "started", text, run=run["id"], detail=detail)
    reason = run["reason"]
    match run["state"]:
        case "failed":
            yield Happening(run["ended_at"], "failed", f"It failed: {reason}", run=run["id"], detail={"reason": reason})
        case "superseded":
            taken = {"reason": reason, "superseded_by": run["superseded_by"]}
            yield Happening(run["ended_at"], "superseded", f"This was given up: {reason}.", run=run["id"], detail=taken)
        case "done":
            yield Happening(run["ended_at"], "finished", "The assistant was done with it.", run=run["id"])


def _of_item(item: Row) -> Iterator[Happening]:
    def event(at: datetime | None, what: What, text: str, by: str | None = None, **detail: Any) -> Happening:
        return Happening(at, what, text, by, item["run_id"], item["id"], {"kind": item["kind"], **detail})

    proposed = args_in(item["args"])
    why = item["asked_because"] or item["because"]
    begins = "You were given a reply to write." if is_blank(item["kind"], proposed) else _PROPOSED[item["kind"]]
    if item["is_again"] and item["kind"] == "draft":
        begins = "You were given your letter, to send it again."
    text = begins + (f" You were asked because {why}." if why else "")
    yield event(item["created_at"], "proposed", text, action=item["action"], args=proposed)
    if decision := decision_in(item["decision"]):
        answer, args = decision["type"], decision["args"]
        changes = differences(proposed, args) if answer == "edit" else {}
        said = _NOT_SUCH if answer == "ignore" and item["teaches"] else _ANSWERS[answer]
        text = f"{said}: {args}" if answer == "response" else f"{said}."
        text += f" Changed: {', '.join(changes).replace('_', ' ')}." if changes else ""
        yield event(item["decided_at"], "decided", text, item["decided_by"], decision=decision, changes=changes)
    match item["status"]:
        case "applied":
            yield event(item["applied_at"], "applied", "The time to take it back was over.")
        case "superseded":
            why = "the conversation went on" if item["superseded_by"] else "it was settled otherwise"
            text = f"It was not needed any more: {why}."
            if decision and decision["type"] in ACTS:
                text = f"What you had decided was not done: {why} before."
            yield event(item["ended_at"], "superseded", text, superseded_by=item["superseded_by"])
        case "expired":
            yield event(item["ended_at"], "expired", "It could not be answered any more.")


def _of_effect(effect: Row) -> Happening:
    what, text = _EFFECTS.get(effect["tool"], ("done", f"{effect['tool']} was done."))
    if server := server_at(effect["place"]):
        text = f"{text.removesuffix('.')} through {server}, which is no part of this program."
    match effect["state"]:
        case "planned":
            what, text = "planned", f"{effect['tool']} is to be done, and was not begun."
        case "failed" | "refused":
            what, text = "refused", f"This was not done: {effect['result']}"
        case "unknown" | "started":
            what, text = "unclear", "It is not known yet whether this happened."
    if reported := note(effect["told"] or ()):
        text = f"{text.removesuffix('.')}, and {reported}."
    at = effect["finished_at"] or effect["started_at"]
    if effect["overwritten"]:
        text += f" What you had written into its draft in Gmail was not: {effect['overwritten']}"
    if effect["looks"]:
        text += f" Gmail was looked into {effect['looks']} times for it."
    detail = {"tool": effect["tool"], "state": effect["state"], "external_id": effect["external_id"]}
    return Happening(at, what, text, run=effect["run_id"], detail={**detail, "result": effect["result"]})


def _judged(row: Row) -> Happening:
    """What the person's habits said, before anybody else was asked."""
    sure = f"Your habits took it for {row['thought']} ({row['confidence']:.0%} sure)"
    if row["decided"]:
        text = f"{sure}, and may decide that by themselves: few enough of such were proven wrong."
    elif row["checked"]:
        text = f"{sure}; the lot fell on it, so the model was asked all the same."
    else:
        text = f"{sure}, which was not proven well enough to decide."
    if row["truth"]:
        text += f" It turned out to be {row['truth']} ({row['known_by']})."
    detail = {name: row[name] for name in ("thought", "confidence", "decided", "checked", "truth", "known_by")}
    return Happening(row["made_at"], "judged", text, detail=detail)


def _went_by(fire: Row, rules: Iterable[Rule]) -> Happening:
    """A rule that had a say, as it was then."""
    detail = {"profile": fire["profile"], "key": fire["rule"], "version": fire["version"]}
    versions = next((rule.versions for rule in rules if rule.key == fire["rule"]), [])
    if len(versions) < fire["version"]:
        return Happening(fire["at"], "went by", "It went by a rule of yours that is gone.", detail=detail)
    version = versions[fire["version"] - 1]
    text = f"It went by your rule “{version['text']}”. {origin_words(version['origin'])}".strip()
    return Happening(fire["at"], "went by", text, detail={**detail, "rule": version["text"]})


def _called(call: Row) -> Happening:
    """A call that the gate let run and that is no effect."""
    where = f" at {call['server']}" if call["server"] else ""
    return Happening(call["at"], "called", f"{call['tool']} was called{where}, as the gate let it.", run=call["run_id"])


def _left(draft: Row) -> Happening:
    detail = {"state": draft["state"], "external_id": draft["draft_id"]}
    text = _LEFT[draft["state"]] + (f" {_FOUND[draft['did']]}" if draft["did"] else "")
    return Happening(draft["last_started_at"], "left", text, run=draft["run_id"], detail=detail)


def _held(lesson: Row) -> Happening:
    becomes = {None: "waits for your word", True: "was learned, as you said", False: "was dropped"}[lesson["kept"]]
    return Happening(lesson["at"], "held", f"A rule that would sort other mail otherwise {becomes}: {lesson['text']}")


def _learned(versions: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Happening]:
    for profile, version in versions:
        text = f"This rule was {'dropped' if version['removed'] else 'learned'}: {version['text']}"
        detail = {"profile": profile, "rule": version["text"], "removed": version["removed"]}
        origin = version["origin"].get("item")
        at = datetime.fromisoformat(version["at"])
        yield Happening(at, "learned", text, item=UUID(origin) if origin else None, detail=detail)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The arguments that an edit changed: {name: {before, after}}."""
    names = [*before, *(name for name in after if name not in before)]
    return {
        name: {"before": before.get(name), "after": after.get(name)}
        for name in names
        if before.get(name) != after.get(name)
    }
