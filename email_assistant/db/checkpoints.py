"""LangGraph's Postgres checkpointer, behind the lease.

LangGraph lets two workers run one thread without an error, and a slow worker's late checkpoint becomes the head. So
every write checks the writer's epoch in the transaction that writes. And it builds whatever object a row names; so what
is read goes through a serializer of ours.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.types import ERROR

from email_assistant.db.lease import Lease
from email_assistant.db.pool import Pool
from email_assistant.db.serializer import ForeignCheckpoint, PlainSerializer

_PULLED = "~__pregel_pull"
"""How the path of a task begins that a channel has triggered (`langgraph._internal._constants.PULL`)."""

_KEPT = {"v", "id", "channel_versions", "versions_seen"}
"""What LangGraph looks into, of a checkpoint."""
_FIRST_NODE = 1
"""LangGraph's number of the step in which the first node runs; in those before it takes its input."""


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
        async with self._fenced(config) as saver:
            return await saver.aput(config, checkpoint, metadata, changed)

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
        async with self._fenced(config) as saver:
            await saver.aput_writes(config, writes, task_id, task_path)

    @asynccontextmanager
    async def _fenced(self, config: RunnableConfig) -> AsyncIterator[AsyncPostgresSaver]:
        lease = lease_of(config)
        async with self._pool.connection() as conn, conn.pipeline(), conn.transaction():
            # Nothing rests on a checkpoint before a later commit does, of an item or an effect, and this takes along
            # what was committed before it (https://www.postgresql.org/docs/current/wal-async-commit.html).
            asked = await lease.ask(conn, durable=False)
            yield AsyncPostgresSaver(conn, serde=self.serde)
            await lease.confirm(asked)
