"""LangGraph's Postgres checkpointer, behind the lease.

LangGraph lets two workers run one thread without an error, and a slow worker's late checkpoint becomes the head. So
every write is one statement that checks the writer's epoch too. And it builds whatever object a row names; so what
is read goes through a serializer of ours.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

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
from langgraph.checkpoint.serde.types import ERROR
from psycopg.types.json import Jsonb

from email_assistant.db.lease import HELD, Lease
from email_assistant.db.pool import Pool
from email_assistant.db.serializer import ForeignCheckpoint, PlainSerializer

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
_REPLACED = "update set channel = excluded.channel, type = excluded.type, blob = excluded.blob"


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

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, serde=PlainSerializer())
        self._pool = pool

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Raises ForeignCheckpoint: what is kept can't be read."""
        try:
            found = await super().aget_tuple(config)
            if found and not (found.checkpoint.keys() >= _KEPT and "step" in found.metadata):
                raise ForeignCheckpoint
        except (TypeError, AttributeError, KeyError, ValueError):
            # Not the cause's own words: they may quote what was kept.
            raise ForeignCheckpoint from None
        return found

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
        if metadata["step"] < _FIRST_NODE:
            configurable = {**config["configurable"], "checkpoint_id": checkpoint["id"]}
            return {"configurable": configurable}
        # LangGraph keeps each channel as it changes; those that only the input has set change no more.
        changed = checkpoint["channel_versions"] if metadata["step"] == _FIRST_NODE else new_versions
        values = checkpoint["channel_values"]
        inline = {name: value for name, value in values.items() if isinstance(value, _INLINE)}
        blobs = {name: values[name] for name in values.keys() - inline.keys() if name in changed}
        kinds, kept = await asyncio.to_thread(self._dumped, blobs.values())
        thread_id, namespace = _place(config)
        async with self._pool.connection() as conn:
            await lease_of(config).guarded(
                conn,
                _PUT,
                *(thread_id, namespace, list(blobs), [str(changed[name]) for name in blobs], kinds, kept),
                *(thread_id, namespace, checkpoint["id"], get_checkpoint_id(config)),
                Jsonb({**checkpoint, "channel_values": inline}),
                Jsonb(get_serializable_checkpoint_metadata(config, metadata)),
                before=_PUT_BLOBS,
                durable=False,
            )
        place = {"thread_id": thread_id, "checkpoint_ns": namespace}
        return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote while others of its step still run.

        In our graphs only tasks that were sent (`Send`) have others beside them. What any other wrote stands in the
        checkpoint that follows at once; a process that dies in between does the task again, which every node allows.
        That it failed is told by whoever ran it.
        """
        kept = WRITES_IDX_MAP.keys() - {ERROR}
        if task_path.startswith(_PULLED) and not any(channel in kept for channel, _ in writes):
            return
        kinds, blobs = await asyncio.to_thread(self._dumped, [value for _, value in writes])
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        async with self._pool.connection() as conn:
            await lease_of(config).guarded(
                conn,
                _PUT_WRITES.format(conflict=_REPLACED if special else "nothing"),
                *(*_place(config), get_checkpoint_id(config), task_id, task_path),
                [WRITES_IDX_MAP.get(channel, number) for number, (channel, _) in enumerate(writes)],
                *([channel for channel, _ in writes], kinds, blobs),
                durable=False,
            )

    def _dumped(self, values: Iterable[Any]) -> tuple[list[str], list[bytes]]:
        """In which format each is kept, and as what."""
        dumped = [self.serde.dumps_typed(value) for value in values]
        return [kind for kind, _ in dumped], [kept for _, kept in dumped]


def _place(config: RunnableConfig) -> tuple[str, str]:
    """LangGraph's thread, and the part of its graph."""
    return config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"]
