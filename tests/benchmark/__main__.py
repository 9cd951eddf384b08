"""Measurements, run by hand. Each says first what it runs on, and its figures with their spread.

uv run --group dev python -m tests.benchmark NAME [OPTION …]
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from email_assistant.errors import AssistantError
from email_assistant.telemetry import log_to_stderr
from tests.benchmark.measured import machine

BENCHMARKS: Mapping[str, str] = {
    "speed": "what the program costs and how it holds out, beside a bare graph or the ceilings that it sets itself",
    "cost": "model calls and prompt tokens of one mail, by the way that it takes, against the ceilings",
    "inbox": "how fast the inbox answers with very much waiting in it, against the ceilings",
    "capacity": "how many workers a day's mail needs, how long it waits, and what it costs, on paper",
    "pace": "how fast ten mixed mails are cleared by key, in Chromium",
    "due": "a look for what is due, with few and with many open conversations",
    "backfill": "how older mail is fetched at Google's real limits",
    "own_letters": "looking for one's own letters, and searching mail, with much mail stored",
    "metrics": "a scrape of /metrics, with few and with many finished mails stored",
    "chat_nodes": "what a chat's policy router and task executor take for a request, beside the model",
    "restore": "a backup and a restore drill of an inbox with very much in it",
    "mcp": "what our sessions add to a call of a tool, over the library's bare session",
    "gate_server": "what a call of somebody else's agent waits for the gate, and what calls cost that wait",
    "gate": "what the gate holds of honest work and lets through of attacks, on AgentDojo",
    "adaptive": "what gets past the gate of attacks by somebody who has read it",
    "provenance": "how often the trace of a draft's facts is right, and how long it takes",
    "learning": "what the cascade of triage saves over simulated weeks, and whether its limits hold",
}
"""Each is a module beside this one, with `options`, which adds its own, and `main`, which measures."""


def main(words: Sequence[str]) -> None:
    listed = "\n".join(f"  {name:12} {what}" for name, what in BENCHMARKS.items())
    form = argparse.RawDescriptionHelpFormatter
    choice = argparse.ArgumentParser(
        "python -m tests.benchmark", description=__doc__, epilog=listed, formatter_class=form
    )
    choice.add_argument("name", choices=BENCHMARKS, metavar="NAME", help="one of those below; -h behind it explains it")
    choice.add_argument("options", nargs=argparse.REMAINDER, metavar="OPTION", help="of its own")
    chosen = choice.parse_args(words)
    benchmark = import_module(f"tests.benchmark.{chosen.name}")
    parser = argparse.ArgumentParser(
        f"{choice.prog} {chosen.name}", description=benchmark.__doc__, formatter_class=form
    )
    benchmark.options(parser)
    given = parser.parse_args(chosen.options)
    log_to_stderr("WARNING")
    print(json.dumps(machine()), flush=True)
    try:
        benchmark.main(given)
    except AssistantError as error:
        raise SystemExit(f"{chosen.name}: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main(sys.argv[1:])
