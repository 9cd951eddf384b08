"""What this process did and how long that took, for Prometheus: each figure of its own, and who notes it.

Labels are names of this program's and class names of its errors: nothing of mail, nobody's address, and few values.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from typing import Final, Literal

Part = Literal["model", "google", "job", "mailbox", "work"]
"""Where something goes wrong: a call of a model or of Google, a job of the queue, a look for mail, a conversation."""

_MODEL_SECONDS: Final = (0.5, 1, 2, 4, 8, 15, 30, 60, 120)
_GOOGLE_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
_JOB_SECONDS: Final = (0.01, 0.05, 0.2, 1, 5, 15, 60, 300)
_DECISION_SECONDS: Final = (1, 5, 6, 8, 10, 15, 30, 60, 300, 1800)


class Meters:
    """The library is loaded by whoever notes or shows something first, which most commands do not."""

    def __init__(self) -> None:
        from prometheus_client import Counter, Histogram, Info, disable_created_metrics

        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each, of which nothing is made
        Info("email_assistant_build", "The version that runs.").info({"version": version("email-assistant")})
        self.seconds: dict[Part, Histogram] = {
            "model": Histogram(
                "email_assistant_model_call_seconds",
                "How long a call of the model took, by what it was asked for.",
                ["role"],
                buckets=_MODEL_SECONDS,
            ),
            "google": Histogram(
                "email_assistant_google_call_seconds",
                "How long a call of Google took, by its method, once the quota had admitted it.",
                ["method"],
                buckets=_GOOGLE_SECONDS,
            ),
            "job": Histogram(
                "email_assistant_job_seconds",
                "How long a job of the queue took, by what it does.",
                ["job"],
                buckets=_JOB_SECONDS,
            ),
        }
        self.errors: Counter = Counter(
            "email_assistant_errors",
            "What went wrong, by where (a model's or Google's call, a job, a look for mail, work) and its type.",
            ["part", "type"],
        )
        self.decision: Histogram = Histogram(
            "email_assistant_decision_seconds",
            "From a person's answer until there was no way back from it; the time to undo is in it.",
            buckets=_DECISION_SECONDS,
        )
        self.sorted: Counter = Counter(
            "email_assistant_sorted_mails",
            "Mails that were given a class, by the class and by who gave it.",
            ["class", "stage"],
        )
        self.effects: Counter = Counter(
            "email_assistant_effects",
            "What was done outside, such as letters and meetings, by the tool and by what came of it.",
            ["tool", "outcome"],
        )
        self.units: Counter = Counter(
            "email_assistant_google_units",
            "Units of Google's quota that were spent; a call of the calendar is one.",
            ["service"],
        )


@cache
def meters() -> Meters:
    """This process's own."""
    return Meters()


@contextmanager
def measured(part: Literal["model", "google", "job"], name: str) -> Iterator[None]:
    """Note how long the block took, and what it raised. What is broken off is neither."""
    began = time.perf_counter()
    try:
        yield
    except Exception as error:
        went_wrong(part, error)
        _took(part, name, began)
        raise
    else:
        _took(part, name, began)


def went_wrong(part: Part, error: Exception) -> None:
    meters().errors.labels(part, type(error).__name__).inc()


def _took(part: Part, name: str, began: float) -> None:
    meters().seconds[part].labels(name).observe(time.perf_counter() - began)
