"""How much it does at once: mails while the model takes its time, and decisions while Google does."""

import asyncio
import heapq
import time
from collections.abc import Sequence

from email_assistant.settings import Settings
from tests.benchmark.capacity import MailWork, simulate
from tests.benchmark.rows.figures import Limit, Reading, RowProgress, Size
from tests.benchmark.rows.processes import cpu_seconds
from tests.benchmark.rows.stage import Stage, postgres, scratch, staged, until

_IN_FLIGHT = {16: 0.95, 64: 0.85}
_MODEL_SECONDS, _JITTER = 2.0, 0.25
_EACH = 6  # mails of each slot
_LEAST_SLOTS = 32
_GOOGLE_SECONDS = 0.2
_MOST_SECONDS = 8.0


async def in_flight(size: Size, progress: RowProgress) -> list[Reading]:
    """How much of what is possible gets done with a model that takes its time: how long so many slots take for the
    model's answers alone, against how long the mails took from the first question to the model on."""
    figures, seconds = [], _MODEL_SECONDS * min(1.0, size.share * 2)
    with scratch() as folder, postgres(folder) as server:
        for usual, least in _IN_FLIGHT.items():
            slots = size.of(usual, 2)
            async with staged(server, folder, f"slots_{usual}", workers=slots) as stage:
                progress(f"{slots} in flight")
                await stage.handle("ignored", min(slots, 8))
                share, expected = await _shares(stage, slots, seconds)
            answered = f"{slots * _EACH} ignored mails, a model of {seconds:g} s ± {_JITTER:.0%}"
            note = f"{answered}; `capacity` would have expected {expected:.2f}"
            figures.append(
                Reading(f"{slots} in flight", "of the ideal", [share], Limit(least, at_least=True), note=note)
            )
    shipped = float(Settings.model_fields["concurrency"].default)
    figures.append(Reading("mails in flight, as it ships", "", [shipped], Limit(_LEAST_SLOTS, at_least=True)))
    return figures


async def _shares(stage: Stage, slots: int, seconds: float) -> tuple[float, float]:
    """How much of what is possible was done, and how much `capacity` would have expected of as many slots, for
    the same answers of the model and as much processor time."""
    model = stage.outside.model
    model.seconds, model.jitter = seconds, _JITTER
    mails = await stage.outside.deliver("ignored", slots * _EACH)
    used = cpu_seconds(stage.program.pid)
    await stage.program.look()
    await until(lambda: bool(model.waits), "the model is asked", every=0.005)
    began = time.monotonic()
    await stage.until_done(mails)
    took = time.monotonic() - began
    own = (cpu_seconds(stage.program.pid) - used) / len(mails) / 2
    _, simulated = simulate([MailWork(0.0, (own, own), (wait,)) for wait in model.waits], 1, slots)
    return ideal(model.waits, slots) / took, ideal(model.waits, slots) / simulated


def ideal(waits: Sequence[float], slots: int) -> float:
    """Seconds until all are over when each begins as soon as one of so many slots is free."""
    ends = [0.0] * slots
    for wait in waits:
        heapq.heapreplace(ends, ends[0] + wait)
    return max(ends)


async def decisions(size: Size, progress: RowProgress) -> list[Reading]:
    """How long it takes from many decisions at once until the last reply has left, with a slow way to Google."""
    replies = size.of(100, 4)
    with scratch() as folder, postgres(folder) as server:
        async with staged(server, folder, "decisions") as stage:
            await stage.handle("accepted", 4)
            progress(f"{replies} replies are proposed")
            mails = await stage.outside.deliver("accepted", replies)
            await stage.program.look()
            items = await stage.waiting(set(mails), replies)
            sent = await stage.outside.sent()
            stage.outside.line.seconds = _GOOGLE_SECONDS
            progress(f"{replies} replies are accepted")
            began = time.monotonic()
            await asyncio.gather(*map(stage.program.accept, items.values()))

            async def all_sent() -> bool:
                return await stage.outside.sent() == sent + replies

            await until(all_sent, f"{replies} replies are sent")
            took = time.monotonic() - began
            stage.outside.line.seconds = 0
            await stage.until_done(mails)
    note = f"each call of Google takes {_GOOGLE_SECONDS * 1000:.0f} ms more"
    return [Reading(f"{replies} decisions at once, until all are sent", "s", [took], Limit(_MOST_SECONDS), note=note)]
