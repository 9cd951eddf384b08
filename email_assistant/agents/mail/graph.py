"""The mail agent: triage, and the response agent as its subgraph. This page is the whole graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

from email_assistant.accounts.account import Account
from email_assistant.agents.agent import CallState, LoopState, Ran, asking
from email_assistant.agents.assistant import Assistant
from email_assistant.agents.loop import Loop
from email_assistant.agents.mail.own_letters import OwnLetters
from email_assistant.agents.mail.prompts import Triage, response_prompt, triage_prompt
from email_assistant.agents.mail.run import Settle
from email_assistant.db.checkpoints import lease_of
from email_assistant.google.errors import NotFound, Refused
from email_assistant.memory.rules import Rule, numbered
from email_assistant.memory.senders import BY_RULE, deciding
from email_assistant.tools.spec import Answer, Call, FormNeeded
from email_assistant.usage import BudgetSpent

NOTIFY_ACTION = "Email Assistant: notify"
_NOTIFY_ANSWERS: tuple[Answer, ...] = ("accept", "ignore", "response")


class MailState(LoopState, total=False):
    opening: str


@dataclass(frozen=True)
class MailAgent(Assistant):
    name = "mail"

    settle: Settle
    sorts_by_rules: bool
    """Whether mail is sorted by its headers alone when the budget for the model is spent, rather than left waiting."""
    own_letters: OwnLetters | None
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

    async def triage_router(self, state: MailState, config: RunnableConfig) -> Command[str]:
        run = state["run"]
        triage, fired = await self._triage(run, config)
        settled = await self.settle(run, triage.classification, triage.reasoning, lease_of(config), fired=fired)
        # Read by processes of an earlier version that run beside this one during an upgrade.
        covering = {**run, "covers": list(settled.covers)}
        if settled.classification == "notify":
            return Command(goto="triage_interrupt_handler", update={"run": covering, "opening": settled.opening})
        if settled.classification == "respond":
            opening = [HumanMessage(settled.opening)]
            return Command(goto="response_agent", update={"run": covering, "messages": opening})
        return Command(goto=END)

    async def triage_interrupt_handler(self, state: MailState) -> Command[str]:
        answer = interrupt(asking(NOTIFY_ACTION, {}, "notify", "notification", _NOTIFY_ANSWERS, teaches=True))
        if answer["type"] != "response":
            return Command(goto=END)
        opening = f"{state['opening']}\n\nInstruction from the person: {answer['args']}"
        return Command(goto="response_agent", update={"messages": [HumanMessage(opening)]})

    async def propose(self, state: LoopState) -> AIMessage:
        run = state["run"]
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
        block = await self.own_letters.block(run, account) if self.own_letters else ""
        opening, *rest = messages
        return [HumanMessage(f"{block}\n\n{opening.text}"), *rest] if block else messages

    async def ran(self, call: Call, name: str, args: dict[str, Any]) -> Ran:
        try:
            return Ran(await self.tools.run(call, name, args))
        except FormNeeded as form:
            return Ran(f"Error: not done. {form.message}", well=False)

    async def mark_as_read_node(self, state: LoopState) -> dict[str, Any]:
        """Take UNREAD off every mail that the run has answered; repeating it, or a mail that is gone, does no harm."""
        run = state["run"]
        account = await self.account(run)
        client = await self.clients.of(account)
        for mail_id in await self.settle.covered(run) if account.mode != "shadow" else ():
            await self.accounts.check_active(account.id)
            try:
                await client.gmail.modify_labels(mail_id, remove=("UNREAD",))
            except (NotFound, Refused):
                continue  # the mail is answered; a label is not worth failing it
        return {}

    async def _triage(self, run: Mapping[str, Any], config: RunnableConfig) -> tuple[Triage, Sequence[Rule]]:
        """The mail's class, and the person's rules that it came of."""
        if run["given"]:
            return Triage(reasoning="", classification=run["given"]), ()
        if known := self.settle.classified(run, lease_of(config)):
            return known, ()
        rules = await self.memory.rules(UUID(run["account_id"]), "triage_preferences")
        if found := deciding(rules, run.get("sender", "")):
            triage = Triage(classification=found[0].classification, reasoning=f"{BY_RULE}: {found[0].rule.text}")
            return triage, [each.rule for each in found]
        try:
            triage = await self.ask_model(run, rules)
        except BudgetSpent:
            if not self.sorts_by_rules:
                raise
            return _by_headers(run), ()
        return triage, [rules[number - 1] for number in sorted(set(triage.rules)) if 0 < number <= len(rules)]

    async def ask_model(self, run: Mapping[str, Any], rules: Sequence[Rule]) -> Triage:
        """What a model says that the run's mail needs, by these rules of the person's."""
        account = await self.account(run)
        return await self.models.parse(
            "triage",
            [SystemMessage(triage_prompt(account, numbered(rules))), HumanMessage(run["text"])],
            Triage,
            "triage",
            account_id=account.id,
            run_id=UUID(run["id"]),
        )


def _by_headers(run: Mapping[str, Any]) -> Triage:
    """The class of a mail that no model reads, by its headers alone."""
    if run["automatic"]:
        return Triage(
            classification="ignore", reasoning="automatic or bulk mail; today's budget for the model is spent"
        )
    return Triage(classification="notify", reasoning="shown unread: today's budget for the model is spent")
