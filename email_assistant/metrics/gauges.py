"""Where everything stands, told by the database for Prometheus: one statement a scrape, whichever process is asked."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Final, get_args

from email_assistant.accounts.account import State as AccountState
from email_assistant.db.pool import AWAY, Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.google.quota import Limits
from email_assistant.inbox.listing import KINDS
from email_assistant.inbox.mails import Class
from email_assistant.work.tasks import BACKGROUND, DECISIONS, MAILBOXES

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

_SQL: Final = statements("metrics", "standing.sql")
_KEPT_SECONDS: Final = 5.0
"""How old an answer may be: however many ask, the database is asked no more often."""
_PATIENCE_SECONDS: Final = 8.0
"""For the database to answer; Prometheus itself waits for 10."""


@dataclass(frozen=True, slots=True)
class _Gauge:
    name: str
    tells: str
    """In words, for whoever reads the figure."""
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Each with the values that are told even where there is nothing of them; others come as they are."""


_CLASSES: Final = ("none", *get_args(Class))
GAUGES: Final = (
    _Gauge(
        "email_assistant_mails",
        "Mails that are not done, by state and class.",
        {"state": ("new", "triaging", "waiting", "acting", "failed"), "class": _CLASSES},
    ),
    _Gauge(
        "email_assistant_waiting_items", "Items that wait for the person, by kind; those put off too.", {"kind": KINDS}
    ),
    _Gauge(
        "email_assistant_open_effects",
        "What is being done outside, is refused, or of which nobody can tell whether it happened, by state.",
        {"state": ("planned", "started", "refused", "unknown")},
    ),
    _Gauge(
        "email_assistant_effects_last_hour",
        "What was done outside in the last hour, or failed, by outcome.",
        {"outcome": ("done", "failed")},
    ),
    _Gauge(
        "email_assistant_due_work",
        "What could be worked on and nobody is at: answers of the person, mail.",
        {"kind": ("decision", "mail")},
    ),
    _Gauge(
        "email_assistant_due_work_oldest_seconds",
        "How long the oldest of what could be worked on has been waiting for somebody to be at it.",
        {"kind": ("decision", "mail")},
    ),
    _Gauge(
        "email_assistant_jobs",
        "Jobs in the queue, by queue and status; a job is a wake-up only.",
        {"queue": (BACKGROUND, DECISIONS, MAILBOXES), "status": ("todo", "doing")},
    ),
    _Gauge("email_assistant_accounts", "Mailboxes, by state.", {"state": get_args(AccountState)}),
    _Gauge("email_assistant_accounts_failing", "Active mailboxes at which the last look went wrong."),
    _Gauge("email_assistant_accounts_budget_spent", "Active mailboxes whose budget for the model is spent for today."),
    _Gauge("email_assistant_oldest_look_seconds", "Of active mailboxes, how long ago one was last looked at, at most."),
    _Gauge(
        "email_assistant_model_tokens_last_hour",
        "Tokens that models used in the last hour, by what for.",
        {"role": ("triage", "response", "memory", "chat"), "kind": ("prompt", "completion")},
    ),
    _Gauge(
        "email_assistant_model_cost_last_hour",
        "What models cost in the last hour, by the prices in the settings, in their currency.",
        {"role": ("triage", "response", "memory", "chat")},
    ),
    _Gauge("email_assistant_model_servers_refusing", "Servers of models that refuse, for which mail waits."),
    _Gauge(
        "email_assistant_google_quota_level",
        "Units in the fullest bucket of Google's quota: a mailbox's, a calendar's, the whole project's.",
        {"bucket": ("gmail", "calendar", "project")},
    ),
    _Gauge("email_assistant_working_processes", "Processes that work on mail."),
)


class Gauges:
    """
    Args:
        provider: whose accounts this process serves.
        waits_when_spent: new mail of an account whose budget is spent is not due.
    """

    def __init__(self, pool: Pool, provider: str, limits: Limits, *, waits_when_spent: bool) -> None:
        self._pool = pool
        self._given = {
            "provider": provider,
            "waits": waits_when_spent,
            "buckets": list(rates := limits.rates()),
            "rates": list(rates.values()),
        }
        self._rows: list[dict[str, Any]] | None = None
        self._until = 0.0
        self._asking = asyncio.Lock()

    async def families(self) -> "list[GaugeMetricFamily]":
        """As they stand by now, or did some seconds ago. While the database does not answer, that alone is told."""
        async with self._asking:
            if time.monotonic() >= self._until:
                self._rows = await self._asked()
                self._until = time.monotonic() + _KEPT_SECONDS
            return list(_families(self._rows))

    async def _asked(self) -> list[dict[str, Any]] | None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await fetched(self._pool, _SQL["all"], self._given)
        except (*AWAY, TimeoutError):
            return None


def _families(rows: list[dict[str, Any]] | None) -> "Iterator[GaugeMetricFamily]":
    from prometheus_client.core import GaugeMetricFamily

    up = "Whether the database answers; while it does not, what it would tell is left out."
    yield GaugeMetricFamily("email_assistant_database_up", up, value=float(rows is not None))
    if rows is None:
        return
    for gauge in GAUGES:
        family = GaugeMetricFamily(gauge.name, gauge.tells, labels=list(gauge.labels))
        told = {tuple(row["labels"]): row["value"] for row in rows if row["name"] == gauge.name}
        for labels, value in (dict.fromkeys(product(*gauge.labels.values()), 0.0) | told).items():
            family.add_metric(list(labels), value)
        yield family
