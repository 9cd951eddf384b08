"""How a conversation is carried on: what keeps an approved call, and how often is read what its mails say."""

from typing import Any

import pytest

from email_assistant.app import open_chat
from email_assistant.gate.source import BadFile
from email_assistant.work.conversations import Conversations
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import DONE, reply

pytestmark = in_one_loop

LETTER = tool(
    "send_email_tool", email_id=None, email_address="bob@example.com", subject="Late", response_text="I'm late."
)


async def test_what_was_approved_in_a_chat_waits_until_a_broken_file_of_tools_is_mended(
    home: Home, google: Google, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.on_policy("mail")
    model.on_chat({"write": [[LETTER], "It is sent."]})
    chat = open_chat(home.app)

    async def broken(*_: Any) -> str:
        raise BadFile("tools.yaml, line 3: there is no such key")

    try:
        talk = await chat.ask(await home.account(), "errands", "write")
        [item] = talk.waiting
        with monkeypatch.context() as patched:
            patched.setattr(type(chat.driver.tools), "run", broken)
            talk = await chat.answer(talk.chat, home.app.user_id, [(item.id, {"type": "accept", "args": None})])
        assert talk.turn is not None
        assert (talk.turn.state, talk.turn.why) == ("acting", "tools.yaml, line 3: there is no such key")
        assert not google.sent
        await home.carry_on()
        talk = await chat.look(home.app.user_id, "errands")
    finally:
        await chat.aclose()

    assert talk.turn is not None
    assert (talk.turn.state, talk.turn.answer) == ("done", "It is sent.")
    assert len(google.sent) == 1


async def test_a_conversation_is_read_once_for_a_mail_and_once_with_what_the_mails_say(
    home: Home, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    looks: list[str] = []

    def count(name: str) -> None:
        read = getattr(Conversations, name)

        async def counted(*given: Any) -> Any:
            looks.append(name)
            return await read(*given)

        monkeypatch.setattr(Conversations, name, counted)

    count("load")
    count("read")
    await home.receive()

    assert len(await home.pending()) == 1
    assert sorted(looks) == ["load", "read"]
