"""`email-assistant replay`: what another model would have made of mail that was worked on before."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from email_assistant.cli.asking import Yes, agreed, in_money, with_model
from email_assistant.cli.context import (
    AsJson,
    CommandError,
    OfAccount,
    awaited,
    bar,
    one_of,
    opened,
    our_version,
    print_json,
    print_table,
    say,
    tell,
    when,
)

if TYPE_CHECKING:
    from email_assistant.model.tally import Tally
    from email_assistant.settings import Settings
    from email_assistant.work.replay import Replayable, Replayed

_ROLES: Final = {"triage": "triage", "drafts": "response"}


@awaited
async def replay(
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model to try, at the server that is set; without it, yours.")
    ] = None,
    background: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What to tell about you, instead of `memory background`.")
    ] = None,
    last: Annotated[int, typer.Option(min=1, max=10_000, help="So many of the newest mails, and proposals.")] = 200,
    only: Annotated[str | None, typer.Option(help="triage or drafts.")] = None,
    account: OfAccount = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Try a model on the mail that you had, before you use it: which classes and drafts would be others?

    It is asked with the agent's own prompts, your rules as they are now, and what was known of each mail then. Nothing
    is sent, changed or kept. Ctrl-C ends it, and what was asked by then is told."""
    import asyncio

    from email_assistant.daemon import open_replay
    from email_assistant.work.replay import WHATS

    whats = (one_of(WHATS, only, "--only takes"),) if only else WHATS
    async with opened() as app:
        settings = with_model(app.settings, model)
        accounts = (
            [await app.accounts.find(app.user_id, account)] if account else await app.accounts.of_user(app.user_id)
        )
        async with open_replay(app, settings, background) as (again, tally):
            cases = await again.cases(app.user_id, accounts, whats, last)
            if not cases:
                raise CommandError("there is no mail yet that a model was asked about: let `up` work on some first")
            agreed(_announced(settings, cases), yes)
            found: list[Replayed] = []
            try:
                with bar("Asking", len(cases), counted=True) as progress:
                    await again.ask(cases, found, progress)
            except asyncio.CancelledError:
                tell(f"Stopped: {len(found):,} of {len(cases):,} were asked.")
                raise
            finally:
                if found:
                    _tell(_Report(settings, background, cases, found, tally), as_json)


def _announced(settings: "Settings", cases: "Sequence[Replayable]") -> str:
    parts = []
    for what, role in _ROLES.items():
        of = [case for case in cases if case.what == what]
        known = [case.tokens for case in of if case.tokens]
        if not of:
            continue
        model = settings.model_for(role)  # type: ignore[arg-type]
        calls = f"{model} is asked {len(of):,} times ({what})"
        if known:  # those of which it is not known are taken for such as the others
            prompt, completion = (sum(each[side] for each in known) * len(of) / len(known) for side in (0, 1))
            calls += f", about {prompt + completion:,.0f} tokens{in_money(settings, model, prompt, completion)}"
        parts.append(calls)
    canned = f" {settings.model_stand_in}" if settings.model_stand_in else ""
    return f"{'; '.join(parts)}. It counts towards no budget.{canned}"


@dataclass(frozen=True)
class _Report:
    settings: "Settings"
    background: str | None
    cases: "Sequence[Replayable]"
    found: "Sequence[Replayed]"
    tally: "Tally"

    def of(self, what: str) -> "list[Replayed]":
        """In the order of the cases, newest first, whichever answer came first."""
        place = {id(case): number for number, case in enumerate(self.cases)}
        return sorted((each for each in self.found if each.case.what == what), key=lambda each: place[id(each.case)])

    def of_kind(self, what: str, role: str) -> dict[str, Any]:
        found = self.of(what)
        return {
            "model": self.settings.model_for(role),  # type: ignore[arg-type]
            "cases": sum(case.what == what for case in self.cases),
            "asked": len(found),
            "differ": sum(each.differs for each in found),
            **(self._as_corrected(found) if what == "triage" else _kept(found)),
            "differing": [_differing(each) for each in found if each.differs],
        }

    def _as_corrected(self, found: "Sequence[Replayed]") -> dict[str, Any]:
        corrected = [each for each in found if each.case.corrected]
        return {"corrected": len(corrected), "as_corrected": sum(each.is_as_corrected for each in corrected)}


def _kept(found: "Sequence[Replayed]") -> dict[str, Any]:
    kept = [each.kept for each in found if each.kept]
    sentences = sum(each.sentences for each in kept)
    return {
        "letters": len(kept),
        "sentences": sentences,
        "survived": sum(each.survived for each in kept),
        "distance": sum(each.distance for each in kept) / len(kept) if kept else None,
    }


def _differing(each: "Replayed") -> dict[str, Any]:
    case = each.case
    told = {
        "account": case.account.address,
        "mail": case.mail_id,
        "sender": case.sender,
        "subject": case.subject,
        "at": case.at,
        "before": case.before,
        "after": each.after,
        "reason": each.reason,
    }
    if case.what == "triage":
        return {**told, "corrected": case.corrected}
    return {
        **told,
        "letter": each.letter,
        "kept": {**asdict(each.kept), "share": each.kept.share} if each.kept else None,
    }


def _tell(report: _Report, as_json: bool) -> None:
    kinds = {what: report.of_kind(what, role) for what, role in _ROLES.items() if report.of(what)}
    if as_json:
        tally = asdict(report.tally)
        canned = bool(report.settings.model_stand_in)
        print_json({"version": our_version(), "canned": canned, "used": tally, **kinds})
        return
    if triage := kinds.get("triage"):
        say(f"{triage['model']} on {triage['asked']:,} mails: {_others(triage['differ'], 'class', 'classes')}.")
        if triage["corrected"]:
            say(f"Of {triage['corrected']:,} that you corrected, {triage['as_corrected']:,} would be as you said.")
        _list(report.of("triage"))
    if drafts := kinds.get("drafts"):
        differ = _others(drafts["differ"], "proposal", "proposals")
        say(f"{drafts['model']} on {drafts['asked']:,} proposals: {differ}.")
        if drafts["sentences"]:
            say(
                f"{drafts['survived'] / drafts['sentences']:.0%} of the sentences of {drafts['letters']:,} letters "
                f"would be the same; of their words {drafts['distance']:.0%} would change."
            )
        _list(report.of("drafts"))
    say(f"Asked {report.tally.calls:,} times, {report.tally.prompt_tokens + report.tally.completion_tokens:,} tokens.")


def _others(number: int, one: str, more: str) -> str:
    if not number:
        return "no difference"
    return f"{number:,} {more} would be others" if number > 1 else f"one {one} would be another"


def _list(found: "Sequence[Replayed]") -> None:
    rows = [
        [
            each.case.sender,
            each.case.subject,
            when(each.case.at, each.case.account.zone),
            f"{each.case.before} → {each.after}{_corrected(each.case)}",
            "" if each.kept is None or each.kept.share is None else f"{each.kept.share:.0%}",
            each.reason,
        ]
        for each in found
        if each.differs
    ]
    if rows:
        print_table(["sender", "subject", "came", "before → after", "kept", "why"], rows)


def _corrected(case: "Replayable") -> str:
    return f" (you said {case.corrected})" if case.corrected else ""
