"""`email-assistant tools …`"""

import json
import sys
from difflib import unified_diff
from typing import TYPE_CHECKING, Annotated, Any

import typer

from email_assistant.cli.context import (
    AsJson,
    CommandError,
    awaited,
    complain,
    here,
    opened,
    print_json,
    print_table,
    print_text,
    run,
    say,
)

if TYPE_CHECKING:
    from email_assistant.gate.call import Labels
    from email_assistant.tools.mcp.seen import SeenTool

Name = Annotated[str, typer.Argument(metavar="NAME", help="The tool's name.")]

app = typer.Typer(
    help="What the assistant can do, and tools of MCP servers of yours: tools.yaml says which there are, "
    "tool_permissions.json what each touches."
)


@app.callback(invoke_without_command=True)
@awaited
async def show_all(context: typer.Context, as_json: AsJson = False) -> None:
    """List the tools: where each runs, when you are asked, what it touches, whether it can be used."""
    if context.invoked_subcommand is not None:
        return
    async with opened() as app:
        rows, remarks = await app.overview.rows(), app.overview.remarks()
    if as_json:
        from email_assistant.web.schemas import ToolOut

        print_json([ToolOut.model_validate(row).model_dump() for row in rows])
        return
    print_table(
        ["name", "type", "runs on", "asked", "touches", "state"],
        [[r.name, r.type or "", r.backend, r.review, touches(r.labels), _state(r)] for r in rows],
    )
    for remark in remarks:
        print_text(f"Note: {remark}.")


@app.command()
@awaited
async def show(name: Name, as_json: AsJson = False) -> None:
    """Show one tool; where it has changed, what it was and what it has become."""
    async with opened() as app:
        row, seen = await app.overview.row(name)
    if as_json:
        from email_assistant.web.schemas import ToolOut

        print_json({**ToolOut.model_validate(row).model_dump(), "seen": seen})
        return
    print_text(f"{row.name}: {_state(row)}; runs on {row.backend}; asked: {row.review}; {touches(row.labels)}")
    if seen is not None:
        _print(seen)
        if seen.has_changed:
            say(f"\n`email-assistant tools accept {row.name} --yes {seen.new_hash}` lets it be used as it is now.")


@app.command()
def accept(
    name: Name,
    shown: Annotated[
        str | None,
        typer.Option("--yes", metavar="HASH", help="Don't ask, if it is still what `show` printed this hash of."),
    ] = None,
) -> None:
    """Show how a tool has changed, ask, and let it be used so."""

    async def look() -> "SeenTool":
        async with opened() as app:
            _, seen = await app.overview.row(name)
        if seen is None or not seen.has_changed:
            raise CommandError(f"{name} has not changed")
        return seen

    async def command() -> None:
        async with opened() as app:
            await app.overview.accept(name, shown or seen.new_hash)
        print_text(f"{name} is used from now on as it is shown here.")

    seen = run(look)
    _print(seen)
    if shown is None:
        _ask(name)
    run(command)


def _ask(name: str) -> None:
    """End the command unless the person says yes."""
    if not sys.stdin.isatty():
        complain(f"nobody can be asked here: give the hash that `tools show {name}` prints as --yes")
        raise typer.Exit(1)
    typer.confirm("Let it be used so?", abort=True)


def _print(seen: "SeenTool") -> None:
    for line in _shown(seen):
        print_text(line, style={"+": "green", "-": "red"}.get(line[:1]))


def _shown(seen: "SeenTool") -> list[str]:
    """What the tool says of itself, or how that differs from what was accepted."""
    before = _lines(seen.description, seen.schema)
    if not seen.has_changed:
        return before
    after = _lines(seen.new_description or "", seen.new_schema or {})
    return list(unified_diff(before, after, f"seen {seen.seen_at:%Y-%m-%d}", "now", lineterm="", n=100))


def _lines(description: str, schema: dict[str, Any]) -> list[str]:
    return [*description.splitlines(), *json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True).splitlines()]


def touches(labels: "Labels | None") -> str:
    """What a tool touches, in words."""
    if labels is None:
        return "unknown"
    named = {
        "writes": labels.write_operation,
        "private": labels.read_private_data,
        "untrusted": labels.read_untrusted_public_data,
        "reaches others": labels.external,
    }
    return ", ".join(name for name, is_so in named.items() if is_so) or "nothing"


def _state(row: Any) -> str:
    return here(f"{row.state} ({row.reason})") if row.reason else str(row.state)
