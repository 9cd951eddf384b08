"""The mail agent: triage, and the response agent as its subgraph. This page is the whole graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

from email_assistant.accounts.account import Account
from email_assistant.agents.agent import CallState, Judged, LoopState, Ran, asking
from email_assistant.agents.assistant import Assistant
from email_assistant.agents.loop import Loop
from email_assistant.agents.mail.own_letters import LettersShown, OwnLetters
from email_assistant.agents.mail.prompts import (
    Precedent,
    Triage,
    mail_to_triage,
    response_prompt,
    triage_prompt,
)
from email_assistant.agents.mail.run import AfterTriage, Judge, KnownOutcomes, Sorted, Thought
from email_assistant.db.checkpoints import lease_of
from email_assistant.gate.policy import GateSession
from email_assistant.google.errors import NotFound, Refused, Transient
from email_assistant.memory.rules import Rule, numbered
from email_assistant.memory.senders import BY_RULE, SenderRule, believed, deciding
from email_assistant.spans import in_span
from email_assistant.tools.spec import LETTER, Answer, Call, FormNeeded, is_blank
from email_assistant.usage import BudgetSpent

NOTIFY_ACTION = "Email Assistant: notify"
_NOTIFY_ANSWERS: tuple[Answer, ...] = ("accept", "ignore", "response")


class MailState(LoopState, total=False):
    opening: str


@dataclass(frozen=True)
class MailAgent(Assistant):
    name = "mail"

    after_triage: AfterTriage
    habits: Judge | None
    outcomes: KnownOutcomes | None
    """Both None where nothing is to be gone by but the model, as in a replay."""
    sorts_by_rules: bool
    """Whether mail is sorted by its headers alone when the budget for the model is spent, rather than left waiting."""
    own_letters: OwnLetters | LettersShown | None
    """Examples of how the person writes; None: they have not asked for that."""

    def graph(self, checkpointer: BaseCheckpointSaver[Any] | None) -> "CompiledStateGraph[Any, Any, Any, Any]":
        graph = StateGraph(MailState)
        graph.add_node(
            "triage_router", self.triage_router, destinations=("triage_interrupt_handler", "response_agent", END)
        )
        graph.add_node("triage_interrupt_handler", self.triage_interrupt_handler, destinations=("response_agent", END))
        graph.add_node("response_agent", self._response_agent())
        graph.add_edge(START, "triage_router")
        graph.add_edge("response_agent", END)
        return graph.compile(checkpointer)

    def _response_agent(self) -> "CompiledStateGraph[Any, Any, Any, Any]":
        loop = Loop(self, ask_tool="Question", done_tool="Done", finish="mark_as_read_node")
        graph = StateGraph(LoopState)
        graph.add_node("llm_call", loop.llm_call, destinations=("interrupt_handler", "act", "llm_call"))
        graph.add_node("plan", loop.plan, destinations=("interrupt_handler", "act"))
        graph.add_node("interrupt_handler", loop.interrupt_handler, input_schema=CallState)
        graph.add_node("act", loop.act, destinations=("llm_call", "mark_as_read_node", END))
        graph.add_node("mark_as_read_node", self.mark_as_read_node)
        graph.add_edge(START, "llm_call")
        graph.add_edge("interrupt_handler", "plan")
        graph.add_edge("mark_as_read_node", END)
        return graph.compile()

    @in_span("triage")
    async def triage_router(self, state: MailState, config: RunnableConfig) -> Command[str]:
        run = state["run"]
        came_to = await self.after_triage(run, await self._triage(run, config), lease_of(config))
        if run.get("undelivered"):
            told = run["undelivered"]
            goto = "triage_interrupt_handler" if told["args"] is None else "response_agent"
            return Command(goto=goto, update={"messages": [HumanMessage(told["says"])]})
        covering = {**run, "text": ""}  # what the mail says stands in the opening from here on
        if came_to.classification == "notify":
            return Command(goto="triage_interrupt_handler", update={"run": covering, "opening": came_to.opening})
        if came_to.classification == "respond":
            opening = [HumanMessage(came_to.opening)]
            return Command(goto="response_agent", update={"run": covering, "messages": opening})
        return Command(goto=END)

    async def triage_interrupt_handler(self, state: MailState) -> Command[str]:
        answer = interrupt(asking(NOTIFY_ACTION, {}, "notify", "notification", _NOTIFY_ANSWERS, teaches=True))
        if answer["type"] != "response":
            return Command(goto=END)
        opening = f"{state['opening']}\n\nInstruction from the person: {answer['args']}"
        return Command(goto="response_agent", update={"messages": [HumanMessage(opening)], "word": "told"})

    async def to_write(self, run: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        if await self.ledger.of_mail(UUID(run["id"])):
            return None
        to, others = run["reply"]["to"] or "", run["reply"]["also_to"]
        copies = {"additional_recipients": others} if others else {}
        return LETTER, {"response_text": "", "email_address": to, **copies}

    def question(self, name: str, args: dict[str, Any], call_id: str, teaches: bool) -> dict[str, Any]:
        asked = super().question(name, args, call_id, teaches)
        if is_blank(asked["kind"], args):  # there is nothing to be sent yet
            asked["allowed"] = [each for each in asked["allowed"] if each != "accept"]
        return asked

    async def judge(self, run: Mapping[str, Any], name: str, args: dict[str, Any], session: GateSession) -> Judged:
        """A letter that is to be sent again is a new one: whatever the rules say, the person is asked."""
        judged = await super().judge(run, name, args, session)
        is_again = bool(run.get("undelivered")) and name == LETTER and judged["kind"] == "run"
        return {**judged, "kind": "ask"} if is_again else judged

    async def propose(self, state: LoopState) -> AIMessage:
        run = state["run"]
        if told := run.get("undelivered"):
            return _again(told, state["messages"])
        account = await self.account(run)
        learned = await self.memory.texts(account.id)
        prompt = response_prompt(
            account,
            learned["response_preferences"],
            learned["cal_preferences"],
            datetime.now(account.zone),
        )
        return await self.models.call(
            "response",
            [SystemMessage(prompt), *await self._with_letters(run, account, state["messages"])],
            account_id=account.id,
            run_id=UUID(run["id"]),
            tools=(await self.tools.offered("mail", account.id)).schemas(),
            tool_choice="required",
        )

    async def _with_letters(
        self, run: Mapping[str, Any], account: Account, messages: Sequence[AnyMessage]
    ) -> Sequence[AnyMessage]:
        """The messages with the person's own letters before the conversation. They are in no checkpoint: none is shown
        any more once the person says so."""
        opening, *rest = messages
        answered = opening.text.rpartition("<mail ")[2]  # it stands last
        block = await self.own_letters.block({**run, "text": answered}, account) if self.own_letters else ""
        return [HumanMessage(f"{block}\n\n{opening.text}"), *rest] if block else messages

    async def ran(self, call: Call, name: str, args: dict[str, Any]) -> Ran:
        try:
            return Ran(await self.tools.run(call, name, args))
        except FormNeeded as form:
            return Ran(f"Error: not done. {form.message}", well=False)

    async def mark_as_read_node(self, state: LoopState, config: RunnableConfig) -> dict[str, Any]:
        """Take UNREAD off every mail that the run has answered; repeating it, or a mail that is gone, does no harm.

        While Gmail can't do it, the run waits, but nobody who has written again waits for that.
        """
        run = state["run"]
        account = await self.account(run)
        client = await self.clients.of(account)
        covered = await self.after_triage.covered(run) if account.mode != "shadow" else ()
        for mail_id in covered:
            await self.accounts.check_active(account.id)
            try:
                await client.gmail.modify_labels(mail_id, remove=("UNREAD",))
            except (NotFound, Refused):
                continue  # the mail is answered; a label is not worth failing it
            except Transient:
                if not self.after_triage.is_overtaken(covered, lease_of(config)):
                    raise
                break
        return {}

    async def _triage(self, run: Mapping[str, Any], config: RunnableConfig) -> Sorted:
        """Whoever is cheapest decides first: a rule of the person's on the sender; what they did with mail like it, as
        soon as that is proven; then the model."""
        if told := run.get("undelivered"):
            return Sorted("notify", told["says"], "report")
        if run["given"]:
            return Sorted(run["given"])
        if known := self.after_triage.classified(run, lease_of(config)):
            return known
        lease = lease_of(config)
        in_force = await self.memory.rules(UUID(run["account_id"]), "triage_preferences")
        rules = believed(in_force, forged=run["sender"] == "")
        if found := deciding(rules, run["sender"]):
            return _by_rules(found)
        if self.outcomes:
            await self.outcomes.note_known(UUID(run["account_id"]))
        thought = await self.habits(run, lease) if self.habits else None
        if thought and thought.decides and not thought.checked:
            return _by_habits(thought)
        try:
            alike = await self.outcomes.decided_alike(run, lease) if self.outcomes else ()
            triage = await self.ask_model(run, rules, alike)
        except BudgetSpent:
            if thought and thought.decides:
                return _by_habits(thought)
            if not self.sorts_by_rules:
                raise
            return _by_headers(run, thought)
        return _by_model(triage, rules, thought)

    async def ask_model(
        self, run: Mapping[str, Any], rules: Sequence[Rule], precedents: Sequence[Precedent] = ()
    ) -> Triage:
        """What a model says that the run's mail needs, by these rules and earlier decisions of the person's."""
        account = await self.account(run)
        return await self.models.parse(
            "triage",
            [
                SystemMessage(triage_prompt(account, numbered(rules))),
                HumanMessage(mail_to_triage(run["text"], precedents)),
            ],
            Triage,
            "triage",
            account_id=account.id,
            run_id=UUID(run["id"]),
        )


def _again(told: Mapping[str, Any], before: Sequence[AnyMessage]) -> AIMessage:
    """The letter once more, by no model; where it can't be proposed as it was, it is for the person to write."""
    calls = [("Done", {"done": True})]
    if not any(isinstance(message, AIMessage) for message in before):
        calls.insert(0, (LETTER, told["args"]))
    return AIMessage("", tool_calls=[ToolCall(name=name, args=args, id=None) for name, args in calls])


def _by_rules(found: Sequence[SenderRule]) -> Sorted:
    reason = f"{BY_RULE}: {found[0].rule.text}"
    return Sorted(found[0].classification, reason, "rules", fired=[each.rule for each in found])


def _by_habits(thought: Thought) -> Sorted:
    return Sorted(thought.outcome, thought.why, "habits", thought)


def _by_model(found: Triage, rules: Sequence[Rule], thought: Thought | None) -> Sorted:
    """The model's word. Where it was asked to check a decision, and says otherwise, the mail is shown at least, so that
    the person says who is right."""
    fired = [rules[number - 1] for number in sorted(set(found.rules)) if 0 < number <= len(rules)]
    shown, reason = found.classification, found.reasoning
    if thought and thought.decides and found.classification != thought.outcome:
        shown = "notify" if found.classification == "ignore" else found.classification
        reason = f"{found.reasoning} (otherwise {thought.outcome}: {thought.why})"
    return Sorted(shown, reason, "model", thought, fired)


def _by_headers(run: Mapping[str, Any], thought: Thought | None) -> Sorted:
    """The class of a mail that no model reads, by its headers alone."""
    if run["automatic"]:
        return Sorted("ignore", "automatic or bulk mail; today's budget for the model is spent", "fixed", thought)
    return Sorted("notify", "shown unread: today's budget for the model is spent", "fixed", thought)
