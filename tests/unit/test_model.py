"""What a server was found to be unable to do is not believed for ever; a prompt is cut in its data alone; an answer is
read whatever stands around it."""

import json
from contextlib import suppress
from dataclasses import dataclass

import httpx2
import openai
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from email_assistant.mail.prompt import delimited
from email_assistant.model.asking import Abilities
from email_assistant.model.calls import read_calls
from email_assistant.model.context import shortened
from email_assistant.model.errors import ModelDown, ModelFault, ModelRefused, TextRefused, explain
from email_assistant.model.structured import read_object


@dataclass
class Clock:
    now: float = 1000

    def __call__(self) -> float:
        return self.now


class TestAbilities:
    def test_nothing_is_known_before_it_was_found_and_an_hour_after(self) -> None:
        abilities = Abilities(clock := Clock())
        assert abilities.can("tools") is None
        abilities.found("tools", False)
        clock.now += 3599
        assert abilities.can("tools") is False
        clock.now += 1
        assert abilities.can("tools") is None

    def test_one_miss_is_no_lack_and_one_hit_between_two_neither(self) -> None:
        abilities = Abilities()
        abilities.missed("untold_schema")
        abilities.found("untold_schema", True)
        abilities.missed("untold_schema")
        assert abilities.can("untold_schema") is True
        abilities.missed("untold_schema")
        assert abilities.can("untold_schema") is False


class TestShortened:
    def test_the_longest_blocks_give_first_and_what_is_no_data_gives_nothing(self) -> None:
        own = "Instruction from the person: " + "politely " * 200
        messages: list[AnyMessage] = [
            SystemMessage("s" * 3000),
            HumanMessage("\n".join([delimited("mail", "a" * 9000), delimited("mail", "b" * 4000), own])),
            AIMessage("c" * 3000),
            ToolMessage("d" * 700, tool_call_id="1"),
            ToolMessage("done: " + delimited("calendar", "e" * 2500), tool_call_id="2"),
        ]
        cut = shortened(messages, 0.8)
        assert cut is not None
        before, after = (sum(len(m.text) for m in found) for found in (messages, cut))
        assert 0.78 * before < after <= 0.8 * before
        assert [cut[n] for n in (0, 2, 3, 4)] == [messages[n] for n in (0, 2, 3, 4)]
        assert cut[1].text.endswith(own)
        data = cut[1].text.removesuffix(own)
        assert 3900 < data.count("a") < 5000
        assert "b" * 4000 in data

    def test_of_every_block_something_is_left(self) -> None:
        mail, result = HumanMessage(delimited("mail", "a" * 9000)), ToolMessage("b" * 400, tool_call_id="1")
        cut = shortened([mail, result], 0.01)
        assert cut is not None
        assert [message.text.count(letter) > 250 for message, letter in zip(cut, "ab", strict=True)] == [True, True]
        assert shortened(cut, 0.5) is None


ANSWER = '{"class": "respond"}'


def class_of(value: object) -> str:
    match value:
        case {"class": str(found)}:
            return found
        case _:
            raise ValueError("class: is missing")


class TestAnswers:
    @pytest.mark.parametrize(
        "text",
        [
            ANSWER,
            f"```json\n{ANSWER}\n```",
            f"It is {ANSWER}, I think; see {{}}.",
            f"<think>\nI must say {{class}}.\n</think>\n\n{ANSWER}",
            f'<think>{{"class": "ignore"}}</think>{ANSWER}',
            f'Maybe {{"class": "ignore"}}?\n</think>\n{ANSWER}',
            f'First {{"class": "ignore"}}, or rather {ANSWER}',
            f'{ANSWER} and {{"other": 1}}',
            f'{{"broken": {{"class": {ANSWER}',
            '{"class": "respond", "why": "it says </think> and <think>"}',
            '```\n{"class": "respond", "why": "it says </think>"}\n```',
        ],
    )
    def test_the_last_object_that_fits_is_read(self, text: str) -> None:
        assert read_object(text, class_of) == "respond"

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "no JSON object"),
            ("respond", "no JSON object"),
            (f"<think>{ANSWER}", "no JSON object"),
            (f"<think>{ANSWER}</think>I don't know.", "no JSON object"),
            ('{"other": 1}', "class: is missing"),
        ],
    )
    def test_without_one_it_is_said_what_is_wrong(self, text: str, says: str) -> None:
        with pytest.raises(ValueError, match=says):
            read_object(text, class_of)

    @pytest.mark.parametrize("depth", [300, 600, 900, 50_000])
    def test_what_is_nested_too_deep_is_no_call(self, depth: int) -> None:
        inside = "[" * depth + "]" * depth
        for arguments in (json.dumps(inside), f'{{"a": {inside}}}'):
            with pytest.raises(ValueError):  # noqa: PT011 - at whichever limit it ends
                read_calls(f'{{"names": "look", "arguments": {arguments}}}', [], required=True)
            with suppress(ValueError):
                read_calls(f'{{"name": "look", "arguments": {arguments}}}', [], required=True)

    @pytest.mark.parametrize("piece", ['{"a":', "{", '{"', '{"a":"', "{}", "<think>", "{ ", '{"a":{"b', "```{"])
    def test_a_megabyte_of_beginnings_is_read_in_no_time(self, piece: str) -> None:
        with pytest.raises(ValueError):  # noqa: PT011 - of whatever is wrong
            read_object(piece * (1_000_000 // len(piece)), class_of)
        assert read_object(f"{'x' * 1_000_000}{json.dumps({'class': 'ignore'})}", class_of) == "ignore"


CLIENT = openai.OpenAI(api_key="none")


def refusal(status: int, message: str = "no", code: str | None = None) -> Exception:
    request = httpx2.Request("POST", "http://model.example/v1/chat/completions", json={})
    answer = httpx2.Response(status, json={"error": {"message": message, "code": code}}, request=request)
    return explain(CLIENT._make_status_error_from_response(answer), "http://model.example/v1", "OPENAI_API_KEY")


class TestRefusals:
    """Whom a server's refusal is about, by its status alone where it says no more."""

    @pytest.mark.parametrize("status", [401, 402, 403, 404, 408, 429, 502, 503, 504, 520, 529, 599])
    def test_those_that_meet_everybody_pass_by_themselves(self, status: int) -> None:
        error = refusal(status, "come back\nlater")
        assert isinstance(error, ModelDown)
        assert str(status) in str(error)
        assert "come back later" in str(error)

    @pytest.mark.parametrize(
        ("status", "message", "code"),
        [
            (413, "Request Entity Too Large", None),
            (400, "The response was filtered due to Azure OpenAI's content management policy", "content_filter"),
            (403, "openai/x requires moderation. Your input was flagged for violence.", None),
            (400, "Input data may contain inappropriate content.", "data_inspection_failed"),
            (400, "maximum context length is 4096 tokens", None),
        ],
    )
    def test_those_that_name_the_text_never_pass(self, status: int, message: str, code: str | None) -> None:
        assert isinstance(error := refusal(status, message, code), TextRefused)
        assert error.passes == "never"

    @pytest.mark.parametrize("status", [400, 405, 422, 501])
    def test_of_others_another_question_shows_it(self, status: int) -> None:
        assert type(refusal(status)) is ModelRefused

    def test_who_can_t_even_connect_has_reached_nobody(self) -> None:
        error = openai.APITimeoutError(httpx2.Request("POST", "http://model.example"))
        assert isinstance(explain(error, "OpenAI", "OPENAI_API_KEY"), ModelFault)
        error.__cause__ = httpx2.ConnectTimeout("")
        assert isinstance(explain(error, "OpenAI", "OPENAI_API_KEY"), ModelDown)
