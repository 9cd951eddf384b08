"""The floor: a bare LangGraph of the mail agent's shape, with the same calls of Google and of the model, and nothing
that makes it safe: no inbox, no ledger, no lease, no queue. A process of its own, which reads its orders line by line
from standard input and answers each when it is done.

python -m tests.benchmark.rows.floor
"""

import asyncio
import base64
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from email import policy
from email.message import EmailMessage
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypedDict

from email_assistant.google.account import GoogleAccount
from email_assistant.google.client import Wire
from email_assistant.google.gmail import Gmail
from email_assistant.tracing import keep_langsmith_off

_AT_ONCE = 4
_TRIAGE = "Sort the mail: ignore, notify or respond."
_RESPONSE = "Answer the mail with a tool call."


class FloorSettings(BaseModel):
    """The first line of standard input."""

    database: str
    google_root: str
    token: dict[str, Any]
    model_url: str


class BareTriage(BaseModel):
    reasoning: str = Field(description="Why.")
    classification: Literal["ignore", "notify", "respond"]


class SendReply(BaseModel):
    """Reply in this conversation."""

    response_text: str
    email_address: str


class BareState(TypedDict, total=False):
    mail: dict[str, str]
    messages: Annotated[list[AnyMessage], add_messages]


@dataclass(frozen=True)
class BareAgent:
    """Triage → propose → ask → act."""

    gmail: Gmail
    model: ChatOpenAI
    label: str

    def graph(self, saver: AsyncPostgresSaver) -> "CompiledStateGraph[Any, Any, Any, Any]":
        graph = StateGraph(BareState)
        graph.add_node("triage", self.triage, destinations=("llm_call", END))
        graph.add_node("llm_call", self.llm_call)
        graph.add_node("ask", self.ask, destinations=("act", END))
        graph.add_node("act", self.act)
        graph.add_edge(START, "triage")
        graph.add_edge("llm_call", "ask")
        graph.add_edge("act", END)
        return graph.compile(saver)

    async def triage(self, state: BareState) -> Command[str]:
        asked = [SystemMessage(_TRIAGE), HumanMessage(state["mail"]["text"])]
        found = await self.model.with_structured_output(BareTriage).ainvoke(asked)
        await self.gmail.modify_labels(state["mail"]["id"], add=(self.label,))
        if BareTriage.model_validate(found).classification == "ignore":
            return Command(goto=END)
        return Command(goto="llm_call", update={"messages": [HumanMessage(state["mail"]["text"])]})

    async def llm_call(self, state: BareState) -> dict[str, Any]:
        offering = self.model.bind_tools([SendReply], tool_choice="required")
        return {"messages": [await offering.ainvoke([SystemMessage(_RESPONSE), *state["messages"]])]}

    async def ask(self, state: BareState) -> Command[str]:
        proposed = _proposal(state)
        return Command(goto="act" if interrupt(proposed)["type"] == "accept" else END)

    async def act(self, state: BareState) -> dict[str, Any]:
        mail, proposed = state["mail"], _proposal(state)
        letter = EmailMessage(policy.SMTP)
        letter["To"], letter["Subject"] = proposed["email_address"], f"Re: {mail['subject']}"
        letter["In-Reply-To"] = letter["References"] = mail["message_id"]
        letter.set_content(proposed["response_text"])
        draft = await self.gmail.create_draft(letter.as_bytes(), mail["thread"])
        await self.gmail.send_draft(draft.id)
        await self.gmail.modify_labels(mail["id"], remove=("UNREAD",))
        return {}


@dataclass
class Floor:
    """The bare agent on one mailbox."""

    agent: BareAgent
    graph: "CompiledStateGraph[Any, Any, Any, Any]"
    cursor: int

    async def ignore(self, mails: int) -> None:
        """Find so many new mails and go on with each until it ends."""
        await _each(await self._new(mails), self._begin)

    async def accept(self, mails: int) -> None:
        """Likewise until each waits, then accept them; the mailbox is looked at once more before each reply."""
        found = await self._new(mails)
        await _each(found, self._begin)
        await _each(found, self._go_on)

    async def _new(self, mails: int) -> list[str]:
        found: list[str] = []
        while len(found) < mails:
            page = await self.agent.gmail.history(self.cursor)
            self.cursor = page.history_id or self.cursor
            found += [
                change.message_id for change in page.changes if change.kind == "added" and "INBOX" in change.labels
            ]
        return found

    async def _begin(self, mail_id: str) -> None:
        message = await self.agent.gmail.message(mail_id)
        headers = {each["name"].lower(): each["value"] for each in message.payload["headers"]}
        text = base64.urlsafe_b64decode(message.payload["body"]["data"] + "==").decode()
        given = {
            "id": mail_id,
            "thread": message.thread_id,
            "subject": headers["subject"],
            "message_id": headers["message-id"],
            "text": f"From: {headers['from']}\nSubject: {headers['subject']}\n\n{text}",
        }
        await self.graph.ainvoke({"mail": given}, _run(mail_id))

    async def _go_on(self, mail_id: str) -> None:
        await self.agent.gmail.history(self.cursor)
        await self.graph.ainvoke(Command(resume={"type": "accept"}), _run(mail_id))


async def _each(mails: Sequence[str], do: Callable[[str], Awaitable[None]]) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def in_slot(mail_id: str) -> None:
        async with slots:
            await do(mail_id)

    await asyncio.gather(*map(in_slot, mails))


def _run(mail_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": mail_id}}


def _proposal(state: BareState) -> dict[str, Any]:
    message = state["messages"][-1]
    assert isinstance(message, AIMessage)
    return message.tool_calls[0]["args"]


async def serve(settings: FloorSettings) -> None:
    """Do what standard input says until it ends: `ignored 20` or `accepted 20`."""
    keep_langsmith_off()
    wire = Wire(settings.google_root)
    account = GoogleAccount(settings.token, wire, timeout=20)
    model = ChatOpenAI(model="canned", base_url=settings.model_url, api_key=SecretStr("bench"), max_retries=0)
    pool: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
        settings.database, kwargs={"autocommit": True, "row_factory": dict_row}, max_size=20, open=False
    )
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        label = await account.gmail.create_label("Sorted")
        agent = BareAgent(account.gmail, model, label.id)
        floor = Floor(agent, agent.graph(saver), (await account.gmail.profile()).history_id)
        ways = {"ignored": floor.ignore, "accepted": floor.accept}
        _say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            way, mails = line.split()
            await ways[way](int(mails))
            _say("done")
    await wire.aclose()


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(FloorSettings.model_validate_json(sys.stdin.readline())))
