"""Checkpoints behind the lease: a worker that was only slow can write nothing over its successor."""

import asyncio
import operator
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID, uuid4

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send, interrupt

from email_assistant.db.checkpoints import FencedSaver, run_config
from email_assistant.db.lease import HELD, Lease, LeaseLost, claim, held
from email_assistant.db.pool import Pool, make_pool
from tests.integration.locks import as_far_as_it_goes

LONG = 600.0


class State(TypedDict, total=False):
    text: str
    answer: str


@dataclass
class Gate:
    """Where a node waits, as in a slow call to a model."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()


@dataclass
class Conversation:
    """One conversation's row, and what stands in the checkpoint tables for one run of it."""

    pool: Pool
    url: str
    id: UUID
    run: UUID = field(default_factory=uuid4)

    async def claim(self) -> Lease:
        lease = await claim(self.pool, "conversation", self.id, LONG)
        assert lease is not None
        return lease

    async def let_the_lease_run_out(self) -> None:
        await self.execute("update threads set lease_until = '-infinity' where id = %s", self.id)

    async def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Everything that LangGraph has stored, table by table."""
        return {
            table: await self.execute(f"select to_jsonb(t)::text as row from {table} t order by 1")
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
        }

    async def execute(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        async with self.pool.connection() as conn:
            cursor = await conn.execute(query.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []


@pytest.fixture
async def conversation(database_url: str) -> AsyncIterator[Conversation]:
    async with make_pool(database_url, size=6, idle_seconds=60) as pool, pool.connection() as conn:
        cursor = await conn.execute(
            """with account as (
                   insert into accounts (user_id, address, provider, token, triage_since)
                   select id, 'ada@example.com', 'custom', '', now() from users returning id, user_id)
               insert into threads (user_id, account_id, gmail_id) select user_id, id, 't1' from account returning id"""
        )
        row = await cursor.fetchone()
        assert row is not None
        yield Conversation(pool, database_url, row["id"])


def slow_graph(saver: FencedSaver, gates: list[Gate]) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Writes who it was, asks a question, repeats the answer. Every execution of the first node passes a gate."""
    left = iter(gates)

    async def write(state: State, config: RunnableConfig) -> State:
        await next(left).wait()
        return {"text": f"written in epoch {config['configurable']['epoch']}"}

    async def ask(state: State) -> State:
        return {"answer": interrupt("which?")}

    graph = StateGraph(State)
    graph.add_node("write", write)
    graph.add_node("ask", ask)
    graph.add_edge(START, "write")
    graph.add_edge("write", "ask")
    graph.add_edge("ask", END)
    return graph.compile(saver)


class TestFence:
    async def test_a_slow_worker_writes_nothing_over_its_successor(self, conversation: Conversation) -> None:
        slow, quick = Gate(), Gate()
        quick.opened.set()
        graph = slow_graph(FencedSaver(conversation.pool), [slow, quick])
        old = run_config(conversation.run, await conversation.claim())
        late = asyncio.create_task(graph.ainvoke({}, old, durability="sync"))
        await slow.reached.wait()
        await conversation.let_the_lease_run_out()
        new = run_config(conversation.run, await conversation.claim())
        result = await graph.ainvoke({}, new, durability="sync")
        head, rows = await graph.aget_state(new), await conversation.rows()
        assert head.values == {"text": "written in epoch 2"}

        slow.opened.set()
        with pytest.raises(LeaseLost):
            await late

        assert await conversation.rows() == rows
        assert await graph.aget_state(new) == head
        [question] = result["__interrupt__"]
        await graph.ainvoke(Command(resume={question.id: "this one"}), new, durability="sync")
        assert (await graph.aget_state(new)).values == {"text": "written in epoch 2", "answer": "this one"}

    @pytest.mark.parametrize("retaken", [True, False], ids=["taken over", "run out"])
    async def test_neither_checkpoint_nor_writes_are_taken_without_the_lease(
        self, conversation: Conversation, retaken: bool
    ) -> None:
        saver = FencedSaver(conversation.pool)
        config = run_config(conversation.run, await conversation.claim())
        config["configurable"]["checkpoint_ns"] = ""
        kept = await saver.aput(config, empty_checkpoint(), {"step": 1}, {})
        config["configurable"] |= kept["configurable"]
        await saver.aput_writes(config, [("text", "in time")], "task-1")
        rows = await conversation.rows()
        assert (len(rows["checkpoints"]), len(rows["checkpoint_writes"])) == (1, 1)
        await conversation.let_the_lease_run_out()
        if retaken:
            await conversation.claim()

        with pytest.raises(LeaseLost):
            await saver.aput(config, empty_checkpoint(), {"step": 2}, {})
        with pytest.raises(LeaseLost):
            await saver.aput_writes(config, [("text", "too late")], "task-2")

        assert await conversation.rows() == rows

    @pytest.mark.parametrize("method", ["aput", "aput_writes"])
    async def test_nobody_takes_over_between_the_check_and_the_write(
        self, conversation: Conversation, method: str
    ) -> None:
        """While a checkpoint is being written, the conversation's row is locked against a successor."""
        saver = FencedSaver(conversation.pool)
        config = run_config(conversation.run, await conversation.claim())
        config["configurable"]["checkpoint_ns"] = ""
        checkpoint = empty_checkpoint()
        config["configurable"]["checkpoint_id"] = checkpoint["id"]
        checkpoint["channel_values"]["messages"] = ["a value that is stored apart"]
        table = "checkpoint_blobs" if method == "aput" else "checkpoint_writes"
        write = (
            partial(saver.aput, config, checkpoint, {"step": 2}, {"messages": "1"})
            if method == "aput"
            else partial(saver.aput_writes, config, [("text", "in time")], "task-1")
        )
        await write()
        rows = await conversation.rows()
        async with conversation.pool.connection() as conn, conn.transaction(force_rollback=True):
            await conn.execute(f"delete from {table}".encode())
            late = await as_far_as_it_goes(conversation.url, write())
            assert not late.done()
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await conversation.execute("select from threads where id = %s for update nowait", conversation.id)
        await late
        assert await conversation.rows() == rows


class Parts(TypedDict, total=False):
    said: Annotated[list[str], operator.add]


class TestNamesOfLangGraph:
    """Those that it documents nowhere, and that tell which of its writes are left out: by another name what a
    conversation needs would not be kept, or all would be."""

    async def kept(self, conversation: Conversation, saver: "BaseCheckpointSaver[Any]") -> None:
        """Run a graph: a node that is triggered, two tasks that it sends, a node that is triggered by these."""

        async def said(_: object, name: str) -> Parts:
            return {"said": [name]}

        def sent(_: Parts) -> Sequence[Send]:
            return [Send("each", {}), Send("each", {})]

        graph = StateGraph(Parts)
        for name in ("first", "each", "last"):
            graph.add_node(name, partial(said, name=name))
        graph.add_edge(START, "first")
        graph.add_conditional_edges("first", sent, ["each"])
        graph.add_edge("each", "last")
        graph.add_edge("last", END)
        config = run_config(conversation.run, await conversation.claim())
        result = await graph.compile(saver).ainvoke({"said": []}, config, durability="sync")
        assert result == {"said": ["first", "each", "each", "last"]}

    async def test_they_are_as_we_know_them(self, conversation: Conversation) -> None:
        """By LangGraph's own checkpointer, which keeps all."""
        await self.kept(conversation, AsyncPostgresSaver(conversation.pool))
        channels = "select checkpoint->'channel_values' as of from checkpoints order by (metadata->>'step')::int"
        triggers = [
            [name for name in row["of"] if name.startswith("branch:to:")]
            for row in await conversation.execute(channels)
        ]
        assert triggers == [[], ["branch:to:first"], [], ["branch:to:last"], []]
        tasks = await conversation.execute("select distinct task_path from checkpoint_writes order by 1")
        kinds = [row["task_path"].partition(",")[0] for row in tasks]
        assert kinds == [*3 * ["~__pregel_pull"], *2 * ["~__pregel_push"]]  # one takes the input

    async def test_by_them_only_what_is_needed_is_kept(self, conversation: Conversation) -> None:
        """Of the triggered tasks no writes, and no end."""
        await self.kept(conversation, FencedSaver(conversation.pool, keeps_ends=False))
        assert await self.steps(conversation) == [1, 2]
        tasks = "select count(distinct task_id) as tasks, min(task_path), max(task_path) from checkpoint_writes"
        [kept] = await conversation.execute(tasks)
        assert kept["tasks"] == 2
        assert kept["min"].startswith("~__pregel_push")
        assert kept["max"].startswith("~__pregel_push")

    async def test_an_end_is_kept_where_it_is_to_be(self, conversation: Conversation) -> None:
        await self.kept(conversation, FencedSaver(conversation.pool))
        assert await self.steps(conversation) == [1, 2, 3]

    async def steps(self, conversation: Conversation) -> list[int]:
        """Those whose checkpoint was kept."""
        rows = await conversation.execute("select (metadata->>'step')::int as step from checkpoints order by 1")
        return [row["step"] for row in rows]


class TestGuardedStatement:
    COMPLETE = f"update threads set complete = true where id = %s and not complete and {HELD} returning gmail_id"

    async def test_it_changes_what_it_finds_while_the_lease_is_held(self, conversation: Conversation) -> None:
        lease = await conversation.claim()
        async with conversation.pool.connection() as conn:
            assert await lease.guarded(conn, self.COMPLETE, conversation.id) == [{"gmail_id": "t1"}]
            assert await lease.guarded(conn, self.COMPLETE, conversation.id) == []

    @pytest.mark.parametrize("lost", ["taken over", "run out", "too little left", "paused"])
    async def test_it_changes_nothing_without_the_lease(self, conversation: Conversation, lost: str) -> None:
        lease = await conversation.claim()
        if lost in ("taken over", "run out"):
            await conversation.let_the_lease_run_out()
        if lost == "taken over":
            await conversation.claim()
        if lost == "paused":
            await conversation.execute("update accounts set state = 'paused'")
        margin = LONG + 1 if lost == "too little left" else 0
        async with conversation.pool.connection() as conn:
            with pytest.raises(LeaseLost):
                await lease.guarded(conn, self.COMPLETE, conversation.id, margin=margin, account_active=True)
        assert await conversation.execute("select complete from threads") == [{"complete": False}]

    async def test_nobody_takes_over_before_its_transaction_ends(self, conversation: Conversation) -> None:
        lease = await conversation.claim()
        change = f"update accounts set name = 'Ada' where {HELD} returning id"
        async with conversation.pool.connection() as conn, conn.transaction():
            assert await lease.guarded(conn, change)
            rival = await as_far_as_it_goes(
                conversation.url, conversation.execute("update threads set epoch = epoch + 1")
            )
            assert not rival.done()
        await rival

    async def test_it_waits_for_who_is_just_taking_over(self, conversation: Conversation) -> None:
        lease = await conversation.claim()
        change = f"update accounts set name = 'Ada' where {HELD} returning id"

        async def write() -> None:
            async with conversation.pool.connection() as conn:
                await lease.guarded(conn, change)

        async with conversation.pool.connection() as rival, rival.transaction():
            await rival.execute("update threads set epoch = epoch + 1")
            late = await as_far_as_it_goes(conversation.url, write())
            assert not late.done()
        with pytest.raises(LeaseLost):
            await late
        assert await conversation.execute("select name from accounts") == [{"name": ""}]


@pytest.mark.parametrize(("name", "until"), [("new mail", "syncing_until"), ("older mail", "backfilling_until")])
async def test_a_look_into_a_mailbox_is_held_like_a_conversation(
    conversation: Conversation, name: Literal["new mail", "older mail"], until: str
) -> None:
    [account] = await conversation.execute("select id from accounts")
    async with held(conversation.pool, name, account["id"], 0.6) as first:
        await asyncio.sleep(0.9)  # longer than the term
        assert first
        async with held(conversation.pool, name, account["id"], LONG) as second:
            assert second is None

    async def loses_it() -> None:
        async with held(conversation.pool, name, account["id"], 0.6):
            await conversation.execute(f"update accounts set {until} = '-infinity'")
            await asyncio.sleep(LONG)

    with pytest.raises(LeaseLost):
        await loses_it()
