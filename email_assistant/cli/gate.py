"""`email-assistant gate …`"""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from email_assistant.cli.context import (
    AsJson,
    CommandError,
    awaited,
    load_settings,
    opened,
    print_json,
    print_table,
    print_text,
)
from email_assistant.cli.tools import touches
from email_assistant.mail.charset import listed

if TYPE_CHECKING:
    from email_assistant.gate.grounds import Origin
    from email_assistant.gate.policy import Trifecta
    from email_assistant.gate.trial import Tried

_LONGEST: Final = 256 * 1024  # bytes of a description
_BECOMES: Final = {
    "allow": "it would run, and you would not be asked",
    "ask": "you would be asked",
    "deny": "it would be refused, and you would not be asked",
}

app = typer.Typer(help="What decides whether you are asked about a call of a tool.", no_args_is_help=True)


def _print_example(wanted: bool) -> None:
    if wanted:
        from email_assistant.gate.trial import EXAMPLE

        sys.stdout.write(EXAMPLE)
        raise typer.Exit


@app.command()
@awaited
async def verify(as_json: AsJson = False) -> None:
    """Look whether the log of what the gate decided, and of what ran, is whole and unaltered."""
    from email_assistant.gate.ledger import check

    async with opened() as app:
        found = await check(app.pool)
    if as_json:
        print_json(asdict(found))
    else:
        for fault in found.faults:
            row = f"Row {fault.place}" if fault.place else "No row"
            print_text(f"{row} ({fault.what} {fault.row_id}): {fault.why}.")
        if not found.faults:
            print_text(f"{found.rows} rows, all of them as they were written. The last seal: {found.seal or 'none'}")
            if found.forgotten:
                print_text(f"{found.forgotten} of them say of another that what it told of was forgotten.")
    if found.faults:
        raise typer.Exit(1)


@app.command()
@awaited
async def explain(
    call: Annotated[
        Path,
        typer.Argument(metavar="CALL.json", help="The call and what came before it, as JSON; - for standard input."),
    ],
    as_json: AsJson = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print a whole CALL.json.", callback=_print_example, is_eager=True)
    ] = False,
) -> None:
    """Say what would happen to a call, and why: whether it runs, you are asked, or it is refused.

    Nothing is called, asked, looked up or kept. What each tool touches, and when you want to be asked, is read from
    tools.yaml and tool_permissions.json, so you can try a change of them; `--example` prints what to describe, and how.
    """
    from email_assistant.gate.call import Subject
    from email_assistant.gate.trial import BadTrial, judge, parse
    from email_assistant.tools.config import RuleFiles

    settings = load_settings()
    rules = RuleFiles(settings).now()

    def subject(tool: str) -> Subject:
        return rules.subject(tool) if tool in rules.tools else Subject(None, rules.labels.get(tool), "gate")

    try:
        trial = parse(_read(call), str(call))
    except BadTrial as error:
        raise CommandError(f"{error}; `email-assistant gate explain --example` prints a whole one") from None
    tried = judge(trial, subject, datetime.now(UTC).astimezone().date())
    permissions = settings.folder / (settings.tool_permissions or Path("tool_permissions.json")).expanduser()
    notes = [*_notes(tried, permissions)]
    if trial.tool not in rules.tools:
        notes.append(f"tools.yaml does not name {trial.tool}, so the assistant itself can't call it")
    if as_json:
        print_json({"tool": trial.tool, **_as_json(tried), "notes": notes})
    else:
        _print(trial.tool, tried)
        for note in notes:
            print_text(f"Note: {note}.")


def _read(path: Path) -> bytes:
    """Raises OSError, CommandError."""
    if str(path) == "-":
        content = sys.stdin.buffer.read(_LONGEST + 1)
    else:
        with path.open("rb") as file:
            content = file.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise CommandError(f"{path}: is longer than {_LONGEST // 1024} KiB")
    return content


def _as_json(tried: "Tried") -> dict[str, Any]:
    verdict, subject = tried.verdict, tried.subject
    return {
        "does": verdict.do,
        "reason": verdict.reason,
        "review": subject.review,
        "server": subject.server,
        "labels": subject.labels.model_dump() if subject.labels else None,
        "before": asdict(tried.before),
        "arguments": [asdict(mark) for mark in verdict.marks],
        "recipients": tried.recipients,
        "marks": [{**asdict(mark), "text": mark.text} for mark in tried.marks],
    }


def _print(tool: str, tried: "Tried") -> None:
    verdict = tried.verdict
    print_text(f"{tool}: {_BECOMES[verdict.do]}.")
    print_text(f"Why: {verdict.reason}.")
    print_text(f"It touches: {touches(tried.subject.labels)}. Before it came: {_came(tried.before)}.")
    if verdict.marks:
        print_table(
            ["argument", "value", "is", "from you", "where it stands"],
            [[o.argument, o.value, o.what, "yes" if o.grounded else "no", _stands(o)] for o in verdict.marks],
        )
    for mark in tried.marks:
        print_text(mark.text)


def _came(before: "Trifecta") -> str:
    came = {
        "private data": before.private,
        "texts of strangers": before.untrusted,
        "something sent out that you had not named": before.external,
    }
    return ", ".join(name for name, is_so in came.items() if is_so) or "nothing"


def _stands(origin: "Origin") -> str:
    where = " and ".join(origin.held_by)
    if not origin.grounded:
        return f"only in {where}" if where else "nowhere"
    if where:
        return where
    return "nowhere else either" if origin.what == "title" else "among the writers of the conversation"


def _notes(tried: "Tried", permissions: Path) -> Iterator[str]:
    for tool in tried.unknown:
        yield (
            f'nobody has said what {tool} touches, so it counts as touching everything; say it under "agent" in '
            f"{permissions}: write_operation, read_private_data, read_untrusted_public_data and acl, all four"
        )
    if tried.verdict.do == "ask" and tried.verdict.overrules and tried.subject.review == "never":
        yield "`review: never` in tools.yaml only means that there is no standing question, and changes nothing here"
    if tried.unsure:
        yield (
            f"whether you have written to {listed(tried.unsure)} before is not known here, where the assistant would "
            'look it up; say to whom you have under "written"'
        )
