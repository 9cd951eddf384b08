"""`email-assistant bench`: measurements of the program, each with what it was measured on."""

import platform
from importlib.metadata import version
from typing import Any

import typer

from email_assistant.cli.context import AsJson, CommandError, err, out, print_json, print_table, run

app = typer.Typer(help="Measure the program on this machine.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Keep `cost` a command of its own while it is the only one."""


@app.command()
def cost(as_json: AsJson = False) -> None:
    """Model calls and prompt tokens of one mail, by the way that it takes, against the ceilings.

    The whole program runs, on the demo's mailbox; the model's answers are canned and decide the way, so the figures
    are the same on every machine. Tokens are counted by o200k, tool schemas included. Ends with 1 above a ceiling.
    """
    from email_assistant.bench.cost import CASES, CostUnknown, measure
    from email_assistant.bench.tokens import NoTokenizer, count_tokens, tokenizer

    async def command() -> list[dict[str, Any]]:
        try:
            return await measured()
        except (CostUnknown, NoTokenizer) as error:
            raise CommandError(str(error)) from None

    async def measured() -> list[dict[str, Any]]:
        count_tokens("")
        rows = []
        for number, case in enumerate(CASES, 1):
            err.print(f"[{number}/{len(CASES)}] {case.name}", markup=False, highlight=False)
            figures = await measure(case)
            rows.append(
                {
                    "case": case.name,
                    "calls": figures.calls,
                    "prompt_tokens": figures.prompt_tokens,
                    "most_calls": case.most.calls,
                    "most_prompt_tokens": case.most.prompt_tokens,
                    "within": figures.within(case.most),
                }
            )
        return rows

    rows = run(command)
    measured_on = _machine() | {"tokenizer": tokenizer()}
    if as_json:
        print_json({**measured_on, "cases": rows})
    else:
        print_table(
            ["case", "calls", "prompt tokens", "at most", ""],
            [
                [r["case"], str(r["calls"]), str(r["prompt_tokens"]), f"{r['most_calls']} / {r['most_prompt_tokens']}",
                 "" if r["within"] else "above"]
                for r in rows
            ],
        )  # fmt: skip
        out.print(", ".join(f"{name} {value}" for name, value in measured_on.items()), highlight=False)
    if not all(row["within"] for row in rows):
        raise typer.Exit(1)


def _machine() -> dict[str, str]:
    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "email-assistant": version("email-assistant"),
        "langgraph": version("langgraph"),
    }
