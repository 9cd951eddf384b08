"""The program on a real model server, llama.cpp, with a very small model whose template knows no tools.

What is asked of it is the protocol; of the model's judgement nothing is.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, TypedDict

import pytest
import pytest_asyncio
from langchain_core.messages import AIMessageChunk, AnyMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph

from email_assistant.agents.chat.nodes import executed, routed, to_execute, to_route
from email_assistant.agents.mail.prompts import Triage
from email_assistant.mail.prompt import delimited
from email_assistant.model import BadAnswer, ContextExceeded, Models
from tests.doubles.daemon import Daemon
from tests.doubles.llama import MODEL, Llama, Steered
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import BOB
from tests.tools import need

pytestmark = pytest.mark.long

CONTEXT = 768
LOOK: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at a place.",
        "parameters": {
            "type": "object",
            "properties": {"at": {"enum": ["the sea", "the sky"]}},
            "required": ["at"],
            "additionalProperties": False,
        },
    },
}


class Talk(TypedDict):
    messages: list[AnyMessage]


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    need("llama.cpp")
    with Llama(CONTEXT, answer=100) as server:
        yield server


@pytest.fixture(scope="module")
def roomy() -> Iterator[Llama]:
    """With room for a chat's tools."""
    need("llama.cpp")
    with Llama(4096, answer=100) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def home(open_home: OpenHome, llama: Llama) -> AsyncIterator[Home]:
    async with open_home(openai_base_url=llama.root, model_triage=MODEL, model_chat=MODEL) as opened:
        yield opened


@pytest.fixture
def models(home: Home) -> Models:
    return home.app.models


async def used(home: Home) -> list[tuple[int, int]]:
    rows = await home.sql("select prompt_tokens, completion_tokens from model_usage order by at")
    return [(row["prompt_tokens"], row["completion_tokens"]) for row in rows]


class TestServer:
    @in_one_loop
    async def test_a_strict_schema_is_kept_to(self, home: Home, models: Models) -> None:
        messages: list[AnyMessage] = [
            SystemMessage("Sort an e-mail."),
            HumanMessage(delimited("mail", "Subject: Lunch?\n\nFriday?")),
        ]
        triage = await models.parse("triage", messages, Triage, "triage", account_id=home.account_id, run_id=None)
        assert triage.classification in ("ignore", "notify", "respond")
        assert len(await used(home)) == 1

    @pytest.mark.parametrize("tool_choice", ["required", "auto"])
    @in_one_loop
    async def test_tools_that_it_drops_without_a_word_are_called_all_the_same(
        self, home: Home, models: Models, tool_choice: Any
    ) -> None:
        messages: list[AnyMessage] = [SystemMessage("Use the tool."), HumanMessage("Look at the sea.")]
        for _ in range(2):
            answer = await models.call(
                "chat", messages, account_id=home.account_id, run_id=None, tools=[LOOK], tool_choice=tool_choice
            )
            assert answer.text or answer.tool_calls
            for call in answer.tool_calls:
                assert (call["name"], set(call["args"])) == ("look", {"at"})
            assert bool(answer.tool_calls) or tool_choice == "auto"
        assert len(await used(home)) == 5  # with tools, the small question twice, and by schema; then by schema at once

    @in_one_loop
    async def test_pieces_come_one_by_one_and_are_counted_by_the_server(self, home: Home, models: Models) -> None:
        async def answer(state: Talk) -> Talk:
            said = await models.call("chat", state["messages"], account_id=home.account_id, run_id=None)
            return {"messages": [said]}

        graph = StateGraph(Talk)
        graph.add_node("answer", answer)
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        question: Talk = {"messages": [HumanMessage("Answer with the word: ready")]}
        pieces = [
            message.text
            async for message, _ in graph.compile().astream(question, stream_mode="messages")
            if isinstance(message, AIMessageChunk) and message.text
        ]
        assert len(pieces) > 2
        [(prompt, completion)] = await used(home)
        assert 30 < prompt < 50  # as its own tokenizer counts; guessed it would be 9
        assert completion in (len(pieces), len(pieces) + 1)

    @in_one_loop
    async def test_what_is_longer_than_its_context_is_cut(self, home: Home, models: Models) -> None:
        mail = delimited("mail", "Subject: Lunch?\n\n" + "Does Friday suit you? " * 600)
        messages: list[AnyMessage] = [SystemMessage("Sort an e-mail."), HumanMessage(mail)]
        await models.parse("triage", messages, Triage, "triage", account_id=home.account_id, run_id=None)
        [(prompt, _)] = await used(home)
        assert CONTEXT / 2 < prompt < CONTEXT * 0.85
        with pytest.raises(ContextExceeded, match="--ctx-size"):
            await models.call("chat", [HumanMessage("word " * 2000)], account_id=home.account_id, run_id=None)

    def test_doctor_says_what_it_can_do(self, llama: Llama, connect: Any) -> None:
        program: Daemon = connect(model=MODEL)
        program.environment["OPENAI_BASE_URL"] = llama.root
        said = program.run("doctor")
        lines = [line for line in said.stdout.splitlines() if line.startswith(f"✓ model {MODEL}")]
        assert [line.partition(": ")[2].partition(";")[0] for line in lines] == [
            "answers",
            "kept to",
            "none are made",
            "in pieces, with what they cost",
            "768 tokens",
        ]


@in_one_loop
async def test_a_mail_is_triaged_and_a_reply_drafted(open_home: OpenHome) -> None:
    need("llama.cpp")
    with Llama(2048, answer=100) as llama, Steered(llama, "bob@example.org") as server:
        async with open_home(openai_base_url=server.root) as home:
            mail_id = await home.receive("Lunch on Friday?", "Shall we have lunch on Friday?", from_=BOB)
            [item] = await home.pending()
            assert (item.kind, item.action) == ("draft", "send_email_tool")
            assert item.args["email_address"] == "bob@example.org"
            assert item.args["response_text"]
            assert (await home.mail(mail_id)).classification == "respond"
            assert all(prompt > 30 for prompt, _ in await used(home))


@in_one_loop
async def test_a_chats_router_names_types_that_there_are(open_home: OpenHome, roomy: Llama) -> None:
    async with open_home(openai_base_url=roomy.root, model_chat=MODEL) as home:
        account, app = await home.account(), home.app
        types = app.tools.types(mailbox=True)
        for request in ("What waits for me?", "Write to Bob that I am late.", "Thank you."):
            asked = to_route(account, types, [HumanMessage(request)])
            assert set(await routed(app.models, asked, types, account.id)) <= types.keys()


@in_one_loop
async def test_a_chats_executor_is_answered_or_told_that_an_answer_cannot_be_read(
    open_home: OpenHome, roomy: Llama
) -> None:
    async with open_home(openai_base_url=roomy.root, model_chat=MODEL) as home:
        account, app = await home.account(), home.app
        offered = await app.tools.offered("chat", account.id, ["calendar"])
        said = [HumanMessage("What is on tomorrow?")]
        asked = to_execute(account, ("", ""), datetime.now(account.zone), offered, said)
        with suppress(BadAnswer):
            answer = await executed(app.models, asked, offered, account.id)
            assert answer.text or answer.tool_calls
            assert {call["name"] for call in answer.tool_calls} <= {tool.spec.name for tool in offered.tools}
        assert await used(home) != []
