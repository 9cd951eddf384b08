"""`email-assistant agent`: agents of other distributions, each on the loop that works on your mail."""

from typing import Annotated

import typer

from email_assistant.cli.context import AsJson, awaited, load_settings, print_json, print_table, print_text, tell


@awaited
async def agent(
    name: Annotated[str | None, typer.Argument(help="Which one; left out: list them.")] = None,
    task: Annotated[str, typer.Argument(help="What it is to do.")] = "",
    as_json: AsJson = False,
) -> None:
    """Run an agent that an installed distribution adds (docs/packs.md), or list them.

    It asks the model of your settings, and is given nothing of your mail."""
    from email_assistant.plugins import plugins

    if name is not None:
        await _run(name, task, as_json=as_json)
        return
    found = [{"name": each.name, "distribution": each.distribution} for each in plugins("agents")]
    if as_json:
        print_json({"items": found})
    elif found:
        print_table(["agent", "of"], [[each["name"], each["distribution"]] for each in found])
    else:
        tell("No installed distribution adds an agent; docs/packs.md says how one is written.")


async def _run(name: str, task: str, *, as_json: bool) -> None:
    from email_assistant.app import open_models
    from email_assistant.work import added_agents

    async with open_models(load_settings()) as (models, tally):
        answer = await added_agents.run(name, models, task)
    if as_json:
        print_json({"answer": answer, "model_calls": tally.calls})
    else:
        print_text(answer)
        tell(f"{tally.calls} model calls, {tally.prompt_tokens} + {tally.completion_tokens} tokens")
