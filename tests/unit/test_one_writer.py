"""A table is written by one file: whoever wants a row changed calls it, in their own transaction.

What goes with a row by a foreign key's `on delete cascade` is not counted, and neither is what `schema.sql` does.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import email_assistant
import email_assistant_servers
from tests.documents import ROOT

WRITER: Mapping[str, str] = {
    "accounts": "accounts/accounts.py",
    "agent_inbox_approvals": "features/agent_inbox/threads.sql",
    "agent_inbox_served": "features/agent_inbox/threads.sql",
    "asked_recipients": "inbox/recipients.sql",
    "backfill": "sync/backfill.py",
    "channels": "features/notices/channels.sql",
    "classifiers": "features/rehearsal/habits/judgements.sql",
    "corrections": "work/corrections.sql",
    "digests": "features/notices/digest.sql",
    "effects": "outgoing/effects.py",
    "lessons_to_confirm": "memory/held.sql",
    "sorted_again": "work/what_if.sql",
    "inbox_items": "inbox/rows.sql",
    "judgements": "work/outcomes.sql",
    "left_drafts": "outgoing/left_drafts.py",
    "forgotten": "work/forgetting.sql",
    "gate_requests": "gate/sessions.sql",
    "gate_calls": "gate/ledger.py",
    "gate_ended": "gate/sessions.sql",
    "gate_sessions": "gate/sessions.sql",
    "lessons": "memory/lessons.sql",
    "mails": "db/mails.sql",
    "mcp_tools": "tools/mcp/seen.sql",
    "model_refusals": "db/model_servers.py",
    "model_usage": "usage.py",
    "past_judgements": "features/rehearsal/habits/judgements.sql",
    "past_mails": "sync/past_mails.py",
    "presences": "db/presence.py",
    "quota": "accounts/quota.py",
    "rule_fires": "memory/trial.sql",
    "runs": "db/runs.sql",
    "schema_hash": "db/migrate.py",
    "sessions": "accounts/sessions.py",
    "stops": "accounts/accounts.py",
    "threads": "db/threads.py",
    "undelivered": "bounces/undelivered.sql",
    "users": "features/notices/channels.sql",
}
BY_TRIGGERS: Mapping[str, str] = {
    "gate_log": "seals what becomes of the others, whoever writes them",
    "sent_to": "has from own mail whom it was sent to",
}
"""What nobody writes by themselves, and why."""
ANY: Mapping[str, str] = {
    "db/restore.py": "puts a backup in place of everything, and sets it to rest",
}
"""Who writes any table, and why."""
UNNAMED: Mapping[str, str] = {
    **ANY,
    "accounts/vault.py": "what is encrypted, which it encrypts anew",
    "db/lease.py": "the leases' own columns, of conversations, accounts and items",
    "db/checkpoints.py": "LangGraph's tables, by the names that it has for them",
}
"""Who writes tables whose names stand in no statement, and why."""

_WRITES = re.compile(
    r"\b(?:(?:insert\s+into|update|delete\s+from|merge\s+into)\s+(?:only\s+)?|copy\s+(?=\S+\s+(?:\(\S+\)\s+)?from\b))"
    r"(\w+|\{\})",
    re.I,
)
_CREATES = re.compile(r"^create table (?:if not exists )?(\w+)", re.I | re.M)
_SCHEMA = ROOT / "email_assistant" / "db" / "schema.sql"


@cache
def tables() -> frozenset[str]:
    return frozenset(_CREATES.findall(_SCHEMA.read_text()))


@cache
def writers() -> Mapping[str, set[str]]:
    """By table, the files that write it; under "{}" those that write what no statement names."""
    found: dict[str, set[str]] = defaultdict(set)
    for package in (email_assistant, email_assistant_servers):
        root = Path(next(iter(package.__path__)))
        for path in (*root.rglob("*.py"), *root.rglob("*.sql")):
            if path != _SCHEMA:
                texts = statements(path.read_text()) if path.suffix == ".py" else [path.read_text()]
                for table in {table for text in texts for table in written_by(text)}:
                    found[table].add(path.relative_to(root).as_posix())
    return found


def written_by(text: str) -> set[str]:
    return {table for table in map(str.lower, _WRITES.findall(text)) if table in tables() or table == "{}"}


def statements(source: str) -> Iterator[str]:
    """Every text of a program but its docstrings; `{}` stands for what is put into it when it runs."""
    tree = ast.parse(source)
    told = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in told:
            yield node.value


class TestStatements:
    @pytest.mark.parametrize(
        ("source", "found"),
        [
            ('run("update threads set outages = 0")', {"threads"}),
            ('run(f"with t as (delete from mails where {x}) insert\\n into runs values ({y})")', {"mails", "runs"}),
            ('run("update " "only accounts set mode = %s")', {"accounts"}),
            ('run(f"update {table} set x = 1")', {"{}"}),
            ('run(f"copy {table} ({columns}) from stdin", "copy mails to stdout")', {"{}"}),
            ('run("merge into effects using x on true when matched then delete")', {"effects"}),
            ('run("select from threads where id = %s for no key update of threads")', set()),
            ('run("insert into elsewhere as e values (1) on conflict do update set mails = 1")', set()),
            ('"""This is about: update threads set outages = 0."""', set()),
        ],
    )
    def test_are_found(self, source: str, found: set[str]) -> None:
        assert {table for text in statements(source) for table in written_by(text)} == found


class TestWriters:
    def test_every_table_has_one(self) -> None:
        assert set(WRITER) | set(BY_TRIGGERS) == tables()

    @pytest.mark.parametrize("table", sorted(WRITER))
    def test_nobody_else_writes_it(self, table: str) -> None:
        assert writers()[table] - set(ANY) == {WRITER[table]}

    def test_what_no_statement_names_is_written_by_few(self) -> None:
        assert writers()["{}"] == set(UNNAMED)
        assert set(ANY) <= set().union(*writers().values())
