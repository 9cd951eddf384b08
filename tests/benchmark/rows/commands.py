"""How long a person waits for commands."""

import time

from tests.benchmark.rows.figures import Limit, Reading, RowProgress, Size
from tests.benchmark.rows.outside import outside
from tests.benchmark.rows.stage import Place, scratch

_COMMANDS = {("status",): 0.4, ("inbox", "list"): 0.4, ("--help",): 0.25}
_MOST_READY = 2.0


async def commands(size: Size, progress: RowProgress) -> list[Reading]:
    """Whole commands, from their start to their end, beside a program that runs; and that program's start on a database
    of its own, until it answers."""
    times, figures = size.of(9, 1), []
    with scratch() as folder:
        async with outside(folder) as around:
            place = Place(folder / "home", None, around, {})
            ready = []
            for start in range(1 + size.of(5, 1)):  # the first makes the database
                progress(f"start {start}")
                began = time.perf_counter()
                async with place.up():
                    ready.append(time.perf_counter() - began)
            async with place.up():
                for words, most in _COMMANDS.items():
                    progress(" ".join(words))
                    took = [await place.run(*words) for _ in range(1 + times)][1:]
                    figures.append(Reading(f"`{' '.join(words)}`", "s", took, Limit(most), note="whole command"))
    note = "from its start until it answers, its own Postgres included"
    return [*figures, Reading("`up`, ready", "s", ready[1:], Limit(_MOST_READY), note=note)]
