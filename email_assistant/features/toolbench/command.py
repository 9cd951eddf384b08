"""`email-assistant bench …`: how well a model works on the loop that works on mail."""

from pathlib import Path
from typing import Annotated

import typer

from email_assistant.cli.context import AsJson, complain, ended_in_words, print_json, print_table

app = typer.Typer(help="Measure a model.", no_args_is_help=True)


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
        from email_assistant.features.toolbench.agent import LangGraphAgent
        from email_assistant.features.toolbench.run import run_benchmark
        from email_assistant.features.toolbench.scores import shown
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
