"""Run an agent's graph on from where its checkpoints stand: with its input, with the answers that were applied, or just
on. The only caller of `ainvoke`; whoever calls it holds the conversation's lease."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt, StateSnapshot

from email_assistant.db.checkpoints import ForeignCheckpoint, nothing_stands_of, run_config, stored_questions
from email_assistant.db.lease import Lease
from email_assistant.inbox.questions import Questions
from email_assistant.work.faults import LostInterrupt, QuestionNotStored

_MOST_STEPS = 10_000
"""Of LangGraph, in one go; the agents' own budgets end a run long before."""

Answers = Mapping[str, Mapping[str, Any]]
"""By interrupt id, as `Questions.answers` gives them."""
Watch = Callable[[str, Any], None]
"""Told of each chunk while the graph runs: LangGraph's stream mode, and what it streams."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a run has come to rest."""

    state: Mapping[str, Any]
    questions: Sequence[Interrupt]
    """What it waits for; nothing: it has ended."""


@dataclass(frozen=True)
class Invoker:
    graph: "CompiledStateGraph[Any, Any, Any, Any]"
    questions: Questions

    async def invoke(
        self,
        run_id: UUID,
        graph_input: Mapping[str, Any],
        lease: Lease,
        *,
        begun: bool,
        is_new: bool = False,
        applied: Answers | None = None,
        watch: Watch | None = None,
    ) -> Outcome:
        """Go on until the run waits for a person or ends.

        Args:
            graph_input: what the graph is started with.
            begun: the run has asked a person before, so it must not start from the top.
            is_new: the run was made under this lease, so it has no checkpoints.
            applied: the answers that were applied just now, under this lease.
            watch: told of what happens, as it does.

        Raises:
            LostInterrupt, QuestionNotStored, and what the agent's nodes raise.
        """
        config = run_config(run_id, lease)
        if is_new:
            nothing_stands_of(run_id)
        going: Any = graph_input
        if not is_new:
            going = await self._where_it_stood(run_id, graph_input, config, applied or {}, begun=begun)
        state, questions = await self._run(going, {**config, "recursion_limit": _MOST_STEPS}, watch)
        if questions:
            await self._expect_stored(config, questions)
        return Outcome(state, questions)

    async def _where_it_stood(
        self,
        run_id: UUID,
        graph_input: Mapping[str, Any],
        config: RunnableConfig,
        applied: Answers,
        *,
        begun: bool,
    ) -> Any:
        snapshot = await self.graph.aget_state(config, subgraphs=True)
        if snapshot.created_at is not None:
            # `snapshot.next` is empty too when a step's writes were stored and the process died before the checkpoint
            # that follows them, so it doesn't tell that a run has ended; going on with an ended one does nothing.
            return await self._resume(run_id, snapshot, applied)
        if begun:
            raise LostInterrupt("the run that this answer belongs to is gone")
        return graph_input

    async def pending(self, run_id: UUID, lease: Lease) -> set[str]:
        """Ids of the questions that a run waits for, by its checkpoints."""
        return set(_pending(await self.graph.aget_state(run_config(run_id, lease), subgraphs=True)))

    async def state(self, run_id: UUID, lease: Lease) -> Mapping[str, Any]:
        """The state that a run was left in; empty if it never began."""
        values: Mapping[str, Any] = (await self.graph.aget_state(run_config(run_id, lease))).values
        return values

    async def messages(self, run_id: UUID) -> Sequence[AnyMessage]:
        """What was said in a run so far, for whoever only looks on: without its lease, so it may be at work.

        Nothing, if what is kept of it can't be believed; whoever works on it is told so.
        """
        try:
            snapshot = await self.graph.aget_state({"configurable": {"thread_id": str(run_id)}})
        except ForeignCheckpoint:
            return ()
        found: Sequence[AnyMessage] = snapshot.values.get("messages", ())
        return found

    async def _run(
        self, going: Any, config: RunnableConfig, watch: Watch | None
    ) -> tuple[Mapping[str, Any], list[Interrupt]]:
        if watch is None:
            result = await self.graph.ainvoke(going, config, durability="sync")
            return result, list(result.get("__interrupt__", ()))
        state: Mapping[str, Any] = {}
        questions: dict[str, Interrupt] = {}
        stream: Any = self.graph.astream(
            going, config, stream_mode=["updates", "messages", "values", "custom"], durability="sync"
        )
        async for mode, chunk in stream:
            if mode == "values":
                state = chunk
            elif mode == "updates":
                questions |= {interrupt.id: interrupt for interrupt in chunk.get("__interrupt__", ())}
            watch(mode, chunk)
        return state, list(questions.values())

    async def _expect_stored(self, config: RunnableConfig, questions: Sequence[Interrupt]) -> None:
        """LangGraph says that a nested graph waits even when storing that has failed: its executor raises no second
        exception beside the interrupt (`pregel/_executor.py`, 1.2). Nobody may be asked before it is stored.
        """
        asked = {question.id for question in questions}
        if asked <= stored_questions():
            return
        if not asked <= set(_pending(await self.graph.aget_state(config, subgraphs=True))):
            raise QuestionNotStored

    async def _resume(self, run_id: UUID, snapshot: StateSnapshot, applied: Answers) -> Command[Any] | None:
        """The answers to what the graph waits for, by interrupt id: a plain resume would approve what nobody saw."""
        waiting = set(_pending(snapshot))
        answers = applied if waiting <= applied.keys() else await self.questions.answers(run_id)
        resume = {i: answer for i, answer in answers.items() if i in waiting}
        return Command(resume=resume) if resume else None


def _pending(snapshot: StateSnapshot) -> Iterator[str]:
    """Ids of the questions that a graph and its subgraphs wait for.

    A subgraph's own snapshot is asked, since its parent still lists what was answered when a later step failed.
    """
    for task in snapshot.tasks:
        if isinstance(task.state, StateSnapshot):
            yield from _pending(task.state)
        else:
            yield from (interrupt.id for interrupt in task.interrupts)
