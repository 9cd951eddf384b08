"""LangGraph's Postgres checkpointer, behind the lease; and what it keeps, read back as plain data and our messages, and
nothing else.

LangGraph lets two workers run one thread without an error, and a slow worker's late checkpoint becomes the head. So
every write is one statement that checks the writer's epoch too. And its own serializer imports and calls whatever a row
names (its docstring warns of it), so whoever can write to the database could run code here; what its strict mode
refuses it hands on as if it had been read. So here nothing is looked up by a name that stands in a row, and what is not
ours is an error.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import ormsgpack
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, TASKS
from langgraph.types import Interrupt, Send
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from email_assistant.db.lease import HELD, Lease, RowChange
from email_assistant.db.pool import Connection, Pool
from email_assistant.errors import AssistantError

_MESSAGES = (AIMessage, HumanMessage, SystemMessage, ToolMessage)
_READERS = {
    **{(EXT_PYDANTIC_V2, kind.__module__, kind.__name__): kind.model_validate for kind in _MESSAGES},
    (EXT_CONSTRUCTOR_POS_ARGS, Send.__module__, Send.__name__): lambda given: Send(*given),
    (EXT_CONSTRUCTOR_KW_ARGS, Interrupt.__module__, Interrupt.__name__): lambda given: Interrupt(**given),
}
"""How to read each kind of object that our graphs leave in a checkpoint, by the code and the name it is kept under."""
_NODE = "branch:to:"
"""How the name of a channel begins that has a node run (`langgraph.graph._branch`, `state.attach_edge`)."""
_PULLED = "~__pregel_pull"
"""How the path of a task begins that a channel has triggered (`langgraph._internal._constants.PULL`)."""
_KEPT = {"v", "id", "channel_versions", "versions_seen"}
"""What LangGraph looks into, of a checkpoint."""
_FIRST_NODE = 1
"""LangGraph's number of the step in which the first node runs; in those before it takes its input."""
_INLINE = (type(None), str, int, float, bool)
"""What stands in the checkpoint itself; all else is a blob."""
# As `AsyncPostgresSaver` writes its tables, which reads them, but all rows in one statement under the lease.
# Nothing rests on a checkpoint before a later commit does, of an item or an effect, and this takes along what was
# committed before it (https://www.postgresql.org/docs/current/wal-async-commit.html): so no commit waits for the disk.
_PUT_BLOBS = f"""
insert into checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
select %s, %s, b.* from unnest(%s::text[], %s::text[], %s::text[], %s::bytea[]) as b where {HELD}
on conflict (thread_id, checkpoint_ns, channel, version) do nothing"""
_PUT = f"""
insert into checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
select %s, %s, %s, %s, %s, %s where {HELD}
on conflict (thread_id, checkpoint_ns, checkpoint_id)
do update set checkpoint = excluded.checkpoint, metadata = excluded.metadata returning checkpoint_id"""
_PUT_WRITES = f"""
insert into checkpoint_writes
    (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
select %s, %s, %s, %s, %s, w.* from unnest(%s::int[], %s::text[], %s::text[], %s::bytea[]) as w where {HELD}
on conflict (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) do {{conflict}} returning idx"""
_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
_HEADS = """where thread_id = %s and checkpoint_id = (
    select max(c.checkpoint_id) from checkpoints c
    where c.thread_id = checkpoints.thread_id and c.checkpoint_ns = checkpoints.checkpoint_ns)"""
_REPLACED = "update set channel = excluded.channel, type = excluded.type, blob = excluded.blob"


class ForeignCheckpoint(AssistantError):
    """What is kept of a conversation holds something that this program never writes; none of it was believed."""

    def __init__(self) -> None:
        super().__init__(
            "what is kept of this conversation in the database was damaged, or changed by somebody else: none of it is "
            "used; retry the mail, or begin a new chat"
        )


class PlainSerializer:
    """LangGraph's way to write; of its ways to read, the few that our graphs need."""

    def __init__(self) -> None:
        self._written = JsonPlusSerializer()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The name of the format, and the bytes."""
        return self._written.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The object that was kept. Raises ForeignCheckpoint."""
        kind, kept = data
        if kind == "null":
            return None
        if kind != "msgpack":
            raise ForeignCheckpoint
        try:
            return _unpack(kept)
        except Exception:
            # Not the cause's own words: they may quote what was kept.
            raise ForeignCheckpoint from None


def _unpack(kept: bytes) -> Any:
    return ormsgpack.unpackb(kept, ext_hook=_read, option=ormsgpack.OPT_NON_STR_KEYS)


def _read(code: int, kept: bytes) -> Any:
    module, name, given, *_ = _unpack(kept)
    return _READERS[code, module, name](given)


@dataclass(slots=True)
class _Known:
    """What stands in the tables, told by what was read and written under a lease: nobody else writes meanwhile."""

    rows: dict[tuple[str, str], DictRow | None] = field(default_factory=dict)
    """The head at each place, as it was read and still is; None: there is nothing."""
    new: set[str] = field(default_factory=set)
    """LangGraph's threads of which nothing stood there when the lease was taken."""
    written: set[tuple[str, str]] = field(default_factory=set)
    questions: set[str] = field(default_factory=set)
    """Ids of those that were stored, a nested graph's also where only the graph around it was."""
    unsure: int = 0
    """Writes that were tried and are not known to be stored."""

    def head(self, place: tuple[str, str]) -> tuple[bool, DictRow | None]:
        """Whether the head at a place is known, and its row."""
        if place in self.rows:
            return True, self.rows[place]
        return place[0] in self.new and place not in self.written, None

    def found(self, place: tuple[str, str], heads: Iterable[DictRow]) -> DictRow | None:
        """Take what was read for one place: the heads at all of LangGraph's thread; returns that at the place. What was
        written meanwhile at another is told by another look."""
        self.rows[place] = None
        for row in heads:
            at = row["thread_id"], row["checkpoint_ns"]
            if at == place or at not in self.written:
                self.rows[at] = row
        return self.rows[place]

    @contextmanager
    def writing(self, place: tuple[str, str]) -> Iterator[None]:
        """Whatever becomes of the write that is tried within the block, only the tables tell."""
        self.written.add(place)
        self.rows.pop(place, None)
        self.unsure += 1
        yield
        self.unsure -= 1


_known: ContextVar[_Known | None] = ContextVar("what is known of checkpoints", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Read each checkpoint once within the block, by tasks started in it too, all of which work under one lease."""
    token = _known.set(_Known())
    try:
        yield
    finally:
        _known.reset(token)


def nothing_stands_of(run_id: UUID) -> None:
    """A run was made just now, under the lease, so that there is nothing to read."""
    if known := _known.get():
        known.new.add(str(run_id))


def stored_questions() -> frozenset[str]:
    """Ids of the questions that are known to be stored, as all that was to be within the block was."""
    known = _known.get()
    return frozenset(known.questions) if known and not known.unsure else frozenset()


def dropped(run_id: UUID) -> list[RowChange]:
    """All that is kept of a run goes. Along with what says that it has ended, for without it a run begins anew."""
    return [RowChange(f"delete from {table} where thread_id = %s and {HELD}", (str(run_id),)) for table in _TABLES]


def run_config(run_id: UUID, lease: Lease) -> RunnableConfig:
    """The configuration to run a graph under: its LangGraph thread is the run, its writes carry the lease."""
    return {
        "configurable": {
            "thread_id": str(run_id),
            "conversation": str(lease.thread_id),
            "epoch": lease.epoch,
        }
    }


def lease_of(config: RunnableConfig) -> Lease:
    """The lease that the running graph was started under."""
    configurable = config["configurable"]
    return Lease(UUID(configurable["conversation"]), int(configurable["epoch"]))


class FencedSaver(AsyncPostgresSaver):
    """Refuses the checkpoints and writes of a worker whose lease has passed to another (`LeaseLost`)."""

    def __init__(self, pool: Pool, *, keeps_ends: bool = True) -> None:
        """
        Args:
            keeps_ends: where a run has ended is kept too. Without it the last node is done again by whoever takes the
                run up before its row says that it has ended.
        """
        super().__init__(pool, serde=PlainSerializer())
        self._pool = pool
        self._keeps_ends = keeps_ends

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Raises ForeignCheckpoint: what is kept can't be read."""
        try:
            found = await self._head(config)
            if found and not (found.checkpoint.keys() >= _KEPT and "step" in found.metadata):
                raise ForeignCheckpoint
        except (TypeError, AttributeError, KeyError, ValueError):
            # Not the cause's own words: they may quote what was kept.
            raise ForeignCheckpoint from None
        return found

    async def _head(self, config: RunnableConfig) -> CheckpointTuple | None:
        known, place = _known.get(), _place(config)
        if known is None or get_checkpoint_id(config):
            return await super().aget_tuple(config)
        is_known, row = known.head(place)
        if not is_known:
            async with self._cursor() as cursor:
                await cursor.execute((self.SELECT_SQL + _HEADS).encode(), place[:1], binary=True)
                row = known.found(place, await cursor.fetchall())
        # LangGraph goes on from the very objects that it is given, and changes them.
        return await self._load_checkpoint_tuple(deepcopy(row)) if row else None

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep where the graph stands once a node has run: without a checkpoint a run begins with its input.

        So the first node of a graph can't ask a person, whose question would hang on the checkpoint before it.
        """
        if metadata["step"] < _FIRST_NODE or not (self._keeps_ends or _goes_on(checkpoint)):
            configurable = {**config["configurable"], "checkpoint_id": checkpoint["id"]}
            return {"configurable": configurable}
        # LangGraph keeps each channel as it changes; those that only the input has set change no more.
        changed = checkpoint["channel_versions"] if metadata["step"] == _FIRST_NODE else new_versions
        values = checkpoint["channel_values"]
        inline = {name: value for name, value in values.items() if isinstance(value, _INLINE)}
        blobs = {name: values[name] for name in values.keys() - inline.keys() if name in changed}
        kinds, kept = await asyncio.to_thread(self._dumped, blobs.values())
        versions = [str(changed[name]) for name in blobs]
        thread_id, namespace = place = _place(config)
        known = _known.get() or _Known()
        with known.writing(place):
            async with self._pool.connection() as conn:
                await lease_of(config).guarded(
                    conn,
                    _PUT,
                    *(thread_id, namespace, checkpoint["id"], get_checkpoint_id(config)),
                    Jsonb({**checkpoint, "channel_values": inline}),
                    Jsonb(get_serializable_checkpoint_metadata(config, metadata)),
                    along=[RowChange(_PUT_BLOBS, (thread_id, namespace, list(blobs), versions, kinds, kept))],
                    durable=False,
                )
        kept_at = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}
        return {"configurable": kept_at}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote while others of its step still run.

        In our graphs only tasks that were sent (`Send`) have others beside them. What any other wrote stands in the
        checkpoint that follows at once; a process that dies in between does the task again, which every node allows.
        That it failed is told by whoever ran it. What a nested graph asks, it has kept itself.
        """
        kept = WRITES_IDX_MAP.keys() - {ERROR}
        known = _known.get() or _Known()
        asked = {question.id for channel, value in writes if channel == INTERRUPT for question in value}
        is_nested = asked <= known.questions and all(channel == INTERRUPT for channel, _ in writes)
        if is_nested or (task_path.startswith(_PULLED) and not any(channel in kept for channel, _ in writes)):
            return
        kinds, blobs = await asyncio.to_thread(self._dumped, [value for _, value in writes])
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        with known.writing(_place(config)):
            async with self._pool.connection() as conn:
                await lease_of(config).guarded(
                    conn,
                    _PUT_WRITES.format(conflict=_REPLACED if special else "nothing"),
                    *(*_place(config), get_checkpoint_id(config), task_id, task_path),
                    [WRITES_IDX_MAP.get(channel, number) for number, (channel, _) in enumerate(writes)],
                    *([channel for channel, _ in writes], kinds, blobs),
                    durable=False,
                )
        known.questions |= asked

    async def drop(self, run_ids: Sequence[UUID]) -> None:
        """Delete all that is kept of runs that nobody goes on with."""
        async with self._pool.connection() as conn, conn.transaction():
            await forget(conn, run_ids)

    def _dumped(self, values: Iterable[Any]) -> tuple[list[str], list[bytes]]:
        """In which format each is kept, and as what."""
        dumped = [self.serde.dumps_typed(value) for value in values]
        return [kind for kind, _ in dumped], [kept for _, kept in dumped]


def _goes_on(checkpoint: Checkpoint) -> bool:
    """Whether a node comes next: LangGraph says so in the channels of nodes, or of tasks that were sent."""
    values = checkpoint["channel_values"]
    return bool(values.get(TASKS)) or any(name.startswith(_NODE) for name in values)


def _place(config: RunnableConfig) -> tuple[str, str]:
    """LangGraph's thread, and the part of its graph."""
    return config["configurable"]["thread_id"], config["configurable"].get("checkpoint_ns", "")


async def forget(conn: Connection, run_ids: Sequence[UUID]) -> None:
    """Delete all checkpoints of runs, in the caller's transaction."""
    ids = [str(each) for each in run_ids]
    for table in _TABLES:
        await conn.execute(f"delete from {table} where thread_id = any(%s)".encode(), (ids,))
