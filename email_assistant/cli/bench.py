"""`email-assistant bench`: measurements of the program, each with what it was measured on."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from email_assistant.cli.capacity import capacity
from email_assistant.cli.context import AsJson, awaited, complain, ended_in_words, err, out, print_json, print_table
from email_assistant.cli.machine import machine
from email_assistant.cli.speed import speed

app = typer.Typer(help="Measure the program on this machine.", no_args_is_help=True)
app.command()(speed)
app.command()(capacity)


@app.command()
@awaited
async def cost(as_json: AsJson = False) -> None:
    """Model calls and prompt tokens of one mail, by the way that it takes, against the ceilings.

    The whole program runs, on the demo's mailbox; the model's answers are canned and decide the way, so the figures
    are the same on every machine. Tokens are counted by o200k, tool schemas included. Ends with 1 above a ceiling."""
    from email_assistant.bench.cost import CASES, measure
    from email_assistant.bench.tokens import count_tokens, tokenizer
    from email_assistant.telemetry import log_to_stderr

    log_to_stderr("WARNING")
    count_tokens("")
    rows = []
    for number, case in enumerate(CASES, 1):
        err.print(f"[{number}/{len(CASES)}] {case.name}", markup=False)
        figures = await measure(case)
        rows.append(
            {
                "case": case.name,
                **asdict(figures),
                **{f"most_{name}": most for name, most in asdict(case.most).items()},
                "within": figures.within(case.most),
            }
        )
    measured_on = machine() | {"tokenizer": tokenizer()}
    if as_json:
        print_json({**measured_on, "cases": rows})
    else:
        print_table(
            ["case", "calls", "prompt tokens", "at most", ""],
            [
                [
                    r["case"],
                    str(r["calls"]),
                    str(r["prompt_tokens"]),
                    f"{r['most_calls']} / {r['most_prompt_tokens']}",
                    "" if r["within"] else "above",
                ]
                for r in rows
            ],
        )
        out.print(", ".join(f"{name} {value}" for name, value in measured_on.items()))
    if not all(row["within"] for row in rows):
        raise typer.Exit(1)


@app.command()
@awaited
async def inbox(
    items: Annotated[int, typer.Option(min=1000, help="How many items wait.")] = 100_000, as_json: AsJson = False
) -> None:
    """How fast the inbox answers with very much waiting in it, against the ceilings.

    The real API runs as a process of its own, on a throwaway database filled with generated mail, and is asked over
    HTTP, 100 times for each case. Times are the client's, in milliseconds. Ends with 1 above a ceiling."""
    from email_assistant.bench.inbox import measure

    err.print(f"Filling a database with {items:,} items…")
    report = await measure(items)
    measured_on = machine() | {"cores": str(os.cpu_count()), "postgres": report.postgres}
    cases = [asdict(timing) | {"within": timing.within} for timing in report.timings]
    if as_json:
        print_json(
            {**measured_on, "items": report.items, "fill_seconds": round(report.fill_seconds, 1), "cases": cases}
        )
    else:
        print_table(
            ["case", "p50", "p95", "max", "p95 at most", ""],
            [
                [
                    c["case"],
                    f"{c['p50']} ms",
                    f"{c['p95']} ms",
                    f"{c['max']} ms",
                    f"{c['most_p95']:.0f} ms" if c["most_p95"] else "",
                    "" if c["within"] else "above",
                ]
                for c in cases
            ],
        )
        out.print(", ".join(f"{name} {value}" for name, value in measured_on.items()))
        out.print(f"{report.items:,} items, filled in {report.fill_seconds:.0f} s")
    if not all(timing.within for timing in report.timings):
        raise typer.Exit(1)


@app.command()
def toolbench(
    tools: Annotated[Path, typer.Option(help="Folder of tool files: CATEGORY/TOOL.json, or TOOL.json.")],
    queries: Annotated[Path, typer.Option(help="File of queries, as StableToolBench writes them.")],
    server: Annotated[str, typer.Option(metavar="URL", help="Answers in the place of all APIs.")] = (
        "http://localhost:8080/virtual"
    ),
    model: Annotated[str | None, typer.Option(help="Left out: that of the settings.")] = None,
    name: Annotated[str | None, typer.Option(help="Of the run, under which it goes on; left out: the model's.")] = None,
    max_queries: Annotated[int | None, typer.Option(min=1, help="Only so many, from the first on.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="So many queries at once.")] = 4,
    results: Annotated[Path, typer.Option(help="Folder for what comes of it.")] = Path("toolbench-results"),
    judge: Annotated[str | None, typer.Option(metavar="MODEL", help="Have this model judge the answers.")] = None,
    as_json: AsJson = False,
) -> None:
    """How well a model uses tools: StableToolBench's queries, answered by the loop that works on mail.

    Each answer is kept as it comes: after a stop, the same command goes on where it was. The results are JSON, a table
    in Markdown, and the answers in the form that StableToolBench's own scorer reads."""
    with ended_in_words():
        from email_assistant.bench.toolbench import LangGraphAgent, run_benchmark
        from email_assistant.bench.toolbench.scores import shown
        from email_assistant.telemetry import log_to_stderr

        log_to_stderr("WARNING")
        agent = LangGraphAgent(model, server)
        agent.bind_tools(tools, server)
        scores = run_benchmark(
            agent,
            queries,
            max_queries,
            name or agent.model,
            results_dir=results,
            parallel=parallel,
            judge=LangGraphAgent(judge) if judge else None,
        )
    if as_json:
        print_json(scores)
    else:
        print_table(["score", ""], [list(each) for each in shown(scores).items()])
    if scores["queries"] and scores["errors"] == scores["queries"]:
        complain("no query came to its end: `doctor` says whether the model answers; the same command goes on then")
        raise typer.Exit(1)
    if scores["calls"] and scores["failed"]["server"] == scores["calls"]:
        complain(f"{server} answered no call: start it, or name another with --server; the same command goes on then")
        raise typer.Exit(1)
