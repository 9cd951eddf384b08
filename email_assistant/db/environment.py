"""What the environment of this process says to Postgres's client."""

import os

hidden: dict[str, str] = {}
"""What it said there, for whom a person still means it: `tools.yaml`."""


def hide_variables() -> None:
    """Have every connection of this process, and every program of Postgres that it starts, go where our URL says and as
    it says, whatever the person's other work with Postgres has set: against some of these variables a URL can't say
    anything (PGSERVICE, PGREQUIREAUTH), and a server takes PGCLIENTENCODING for everybody's."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        hidden[name] = os.environ.pop(name)
