"""The models of a person's settings: time-outs, structured answers, tool calls, and an account of what was used.

Servers differ in what they take. What one refuses or ignores is found out by asking, remembered for a while, and asked
for in another way; a server that can do all is sent the same requests as if there were no others.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import UUID

import openai
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import TAG_NOSTREAM
from pydantic import BaseModel, SecretStr, ValidationError

from email_assistant.mail.charset import readable
from email_assistant.meters import measured
from email_assistant.model.asking import CALL, READY_TOOL, Abilities, Ability, Asking, Ready, as_small
from email_assistant.model.calls import Tools, calls_form, read_calls, told_as_text, with_written_calls, words_in
from email_assistant.model.client import BoundedHttp, Client, network_to
from email_assistant.model.context import shortened
from email_assistant.model.errors import (
    BadAnswer,
    ContextExceeded,
    ModelDown,
    ModelFault,
    ModelRefused,
    NotTheProtocol,
    TextRefused,
    explain,
)
from email_assistant.model.structured import KINDS, Form, Kind, complaint, first_line, form_of, read_object
from email_assistant.model.tally import Spending, tokens_used
from email_assistant.settings import Role, Settings
from email_assistant.spans import call_span

if TYPE_CHECKING:  # packs have no database
    from email_assistant.db.model_servers import ModelServers

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")

_CUTS = 4
"""Times that a prompt is cut shorter; each takes off a fifth at least."""
_PROBES = 2
"""Times that a server must fail to make the plainest tool call before that is believed of it."""
_TRIES = 3
"""Times that one answer is asked for until it can be used."""
_QUOTED, _TOLD = 500, 200
"""Characters of an unreadable answer that are shown to the model again, and to the person."""

Streaming = Literal["with usage", "plain", "whole"]
"""How an answer comes where somebody listens to its pieces, as a graph's `astream` does."""
_STREAMING: tuple[tuple[Streaming, Ability], ...] = (("with usage", "stream_usage"), ("plain", "stream"))
Write = Callable[[Sequence[AnyMessage]], list[AnyMessage]]
"""Makes of messages what goes out."""
Send = Callable[..., Awaitable[AIMessage]]


@dataclass(frozen=True, slots=True)
class _Asker:
    """For whom a model is asked, and who pays."""

    role: Role
    model: str
    account_id: UUID | None
    run_id: UUID | None


class Models:
    """
    Args:
        servers: which servers refuse; None: each is asked every time.

    Raises:
        SettingsError: the environment names a proxy or certificates that can't be used.
    """

    def __init__(self, settings: Settings, spending: Spending, servers: "ModelServers | None" = None) -> None:
        self._settings = settings
        self._spending = spending
        self._servers = servers
        self._abilities: defaultdict[str, Abilities] = defaultdict(Abilities)
        """By the model's name: all are asked for at one server."""
        self._made: dict[tuple[str, Streaming], Client] = {}
        self._server = settings.model_server
        self._network = network_to(settings.openai_base_url)

    @cached_property
    def _http(self) -> BoundedHttp:
        # Left to itself the library keeps one for the process, whose connections fail in a second event loop.
        return BoundedHttp(timeout=self._settings.model_timeout_seconds, **self._network)

    async def aclose(self) -> None:
        if "_http" in self.__dict__:
            await self._http.aclose()

    async def call(
        self,
        role: Role,
        messages: Sequence[AnyMessage],
        *,
        account_id: UUID | None = None,
        run_id: UUID | None = None,
        tools: Tools = (),
        tool_choice: Literal["auto", "required"] = "auto",
    ) -> AIMessage:
        """One answer, which calls some of `tools`; with "auto" it may say something instead.

        A server that makes no tool calls is asked for them as JSON.

        Args:
            account_id: whose budget pays; None: nobody's mail is worked on.

        Raises:
            ModelDown, ModelFault, ModelRefused, BadAnswer, BudgetSpent, UnknownAccount.
        """
        asker = _Asker(role, self._settings.model_for(role), account_id, run_id)
        return await self._unless_it_refuses(
            asker, messages, lambda: self._called(asker, messages, tools, tool_choice), with_tools=bool(tools)
        )

    async def parse(
        self,
        role: Role,
        messages: Sequence[AnyMessage],
        schema: type[T],
        name: str,
        *,
        account_id: UUID | None = None,
        run_id: UUID | None = None,
    ) -> T:
        """An answer that fits `schema`.

        The strict schema goes out with the request, but servers that ignore or refuse it are served too: the text is
        read as JSON, fenced or not, and a wrong answer is sent back twice with what is wrong.

        Raises:
            BadAnswer, and what `call` raises.
        """
        asker = _Asker(role, self._settings.model_for(role), account_id, run_id)
        form = form_of(schema, name)
        return await self._unless_it_refuses(
            asker,
            messages,
            lambda: self._read(asker, messages, form, lambda text: read_object(text, schema.model_validate)),
            with_tools=False,
        )

    async def _unless_it_refuses(
        self,
        asker: _Asker,
        messages: Sequence[AnyMessage],
        ask: Callable[[], Awaitable[R]],
        *,
        with_tools: bool,
    ) -> R:
        """What a server answers, which is not asked while it is known to refuse."""
        if self._servers is None:
            return await ask()
        answers = partial(self._answers, asker, messages, with_tools=with_tools)
        at_once = asker.role == "chat"
        return await Asking(self._servers, self._server, asker.model, answers, at_once=at_once).ask(ask)

    async def _answers(self, asker: _Asker, messages: Sequence[AnyMessage], *, with_tools: bool) -> bool:
        """Whether a server takes a small question of the same shape as one that it would not take. One that takes it in
        another shape alone can do less than before."""
        abilities = self._abilities[asker.model]
        shape: Literal["tools"] | Kind = "tools" if with_tools and abilities.can("tools") else "text"
        if shape == "text":
            shape = next((kind for kind in KINDS if kind != "text" and abilities.can(kind)), "text")
        try:
            if shape == "tools":
                await self._unheard(asker, as_small(messages), tools=[READY_TOOL], tool_choice="auto")
            else:
                options = form_of(Ready, "ready").response_format(shape)
                await self._unheard(asker, as_small(told_as_text(messages)), **options)
        except (ModelDown, ModelFault, BadAnswer):
            return False
        except ModelRefused:
            if shape != "text":
                abilities.forget(shape)
            return False
        return True

    async def _called(
        self, asker: _Asker, messages: Sequence[AnyMessage], tools: Tools, tool_choice: Literal["auto", "required"]
    ) -> AIMessage:
        if not tools:
            return await self._fitted(asker, messages, list, self._heard)
        abilities = self._abilities[asker.model]
        required = tool_choice == "required"
        if abilities.can("tools") is False:
            return await self._call_by_json(asker, messages, tools, required=required)
        try:
            answer = await self._fitted(asker, messages, list, self._heard, tools=list(tools), tool_choice=tool_choice)
        except BadAnswer:
            return await self._call_by_json(asker, messages, tools, required=required, tries=_TRIES - 1)
        except TextRefused:
            raise
        except ModelRefused as refusal:
            if abilities.can("tools"):
                raise  # it is something else that is refused
            answer = await self._call_after(refusal, asker, messages, tools, required=required)
            await self._makes_calls(asker, tool_choice)
            return answer
        if answer.tool_calls or answer.invalid_tool_calls:
            abilities.found("tools", True)
        elif abilities.can("tools") is None and not await self._makes_calls(asker, tool_choice):
            return await self._call_by_json(asker, messages, tools, required=required, tries=_TRIES - 1)
        return with_written_calls(answer, tools, messages)

    async def _call_by_json(
        self, asker: _Asker, messages: Sequence[AnyMessage], tools: Tools, *, required: bool, tries: int = _TRIES
    ) -> AIMessage:
        form = calls_form(tools, required=required)
        words = ""

        def read(text: str) -> AIMessage:
            nonlocal words
            words = words_in(text, required=required)
            return read_calls(text, messages, required=required)

        try:
            return await self._read(asker, messages, form, read, tries)
        except BadAnswer:
            if not words:
                raise
            return AIMessage(words)

    async def _call_after(
        self, refusal: ModelRefused, asker: _Asker, messages: Sequence[AnyMessage], tools: Tools, *, required: bool
    ) -> AIMessage:
        """Whether it was the tools that were refused shows when the same is asked for without them."""
        try:
            return await self._call_by_json(asker, messages, tools, required=required)
        except ModelRefused:
            raise refusal from None

    async def _makes_calls(self, asker: _Asker, tool_choice: str) -> bool:
        """Whether a server can make tool calls at all, asked for the plainest one: some drop tools without a word."""
        question = [HumanMessage(CALL)]
        for _ in range(_PROBES):
            try:
                answer = await self._unheard(asker, question, tools=[READY_TOOL], tool_choice=tool_choice)
            except ModelRefused:
                answer = AIMessage("")
            if answer.response_metadata.get("finish_reason") == "length":
                return True  # it shows nothing
            if answer.tool_calls:
                self._abilities[asker.model].found("tools", True)
                return True
        self._abilities[asker.model].found("tools", False)
        return False

    async def _read(
        self,
        asker: _Asker,
        messages: Sequence[AnyMessage],
        form: Form,
        read: Callable[[str], R],
        tries: int = _TRIES,
    ) -> R:
        """An answer of a form. One that can't be read is asked for again, with what is wrong; the last time as mere
        text, in case it is the server's own way with forms that spoils it."""
        abilities = self._abilities[asker.model]
        untold = not form.always_told and abilities.can("untold_schema") is not False
        asked = messages
        for number in range(tries):
            kinds = KINDS[-1:] if number == tries - 1 else KINDS
            try:
                answer = await self._formatted(asker, asked, form, kinds, untold=untold)
                value = read(answer.text)
            except BadAnswer as error:
                problem, said = str(error), ""
                continue
            except ValueError as error:
                problem, said = _why_unreadable(answer, error), readable(answer.text[:_QUOTED])
            else:
                if untold and number == 0:
                    abilities.found("untold_schema", True)
                return value
            if untold and number == 0:
                abilities.missed("untold_schema")
            asked = [*messages, AIMessage(said), HumanMessage(complaint(form, problem))]
        told = f": {said[:_TOLD]}" if said else ""
        raise BadAnswer(f"the model's answer can't be used, and it was asked {_TRIES} times ({problem}){told}")

    async def _formatted(
        self, asker: _Asker, messages: Sequence[AnyMessage], form: Form, kinds: Sequence[Kind], *, untold: bool
    ) -> AIMessage:
        """Ask with the strictest response format that the server takes, and remember those that it refuses."""
        abilities = self._abilities[asker.model]
        refusals: dict[Kind, ModelRefused] = {}
        for kind in kinds:
            if kind != "text" and abilities.can(kind) is False:
                continue
            write: Write = list if untold and kind == "json_schema" else form.write
            try:
                answer = await self._fitted(asker, messages, write, self._unheard, **form.response_format(kind))
            except TextRefused:
                raise
            except ModelRefused as refusal:
                if kind != "text" and abilities.can(kind) and not form.always_told:
                    raise  # it is something else that is refused
                refusals[kind] = refusal
                continue
            if kind != "text" and not form.always_told:
                abilities.found(kind, True)
            for refused in refusals:
                if refused != "text" and not form.always_told:  # tools of others may hold what no server takes
                    abilities.found(refused, False)
            return answer
        first, *_ = refusals.values()
        raise first

    async def _fitted(
        self, asker: _Asker, messages: Sequence[AnyMessage], write: Write, send: Send, **options: Any
    ) -> AIMessage:
        """One answer; the mail is cut shorter where the model's context is too small for it."""
        asked, share = list(messages), 1.0
        for _ in range(_CUTS):
            try:
                return await send(asker, write(asked), **options)
            except ContextExceeded as refusal:
                share *= refusal.fits
                shorter = shortened(messages, share)
                if shorter is None or shorter == asked:
                    raise
                asked = shorter
        return await send(asker, write(asked), **options)

    async def _heard(self, asker: _Asker, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        """One answer, piece by piece if somebody listens and the server can."""
        abilities = self._abilities[asker.model]
        refused: list[Ability] = []
        ignored: list[Ability] = []
        for streaming, ability in _STREAMING:
            if abilities.can(ability) is False:
                continue
            try:
                answer = await self._send(asker, messages, streaming, **options)
                break
            except ModelRefused as refusal:
                if isinstance(refusal, TextRefused) or not refusal.streamed:
                    raise
                refused.append(ability)
            except NotTheProtocol:
                ignored.append(ability)
            except RecursionError:  # a call is nested too deep for the library; `Client` mends that in a whole answer
                return await self._send(asker, messages, "whole", **options)
        else:
            answer = await self._send(asker, messages, "whole", **options)
        for lacking in refused:
            abilities.found(lacking, False)
        for missed in ignored:
            abilities.missed(missed)
        return answer

    async def _unheard(self, asker: _Asker, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        """One answer that is for the program alone: whoever listens to a graph's pieces doesn't get it."""
        return await self._send(asker, messages, "whole", {"tags": [TAG_NOSTREAM]}, **options)

    async def _send(
        self,
        asker: _Asker,
        messages: Sequence[AnyMessage],
        streaming: Streaming,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> AIMessage:
        """One request, paid for. `options` go into it as they are."""
        await self._spending.check(asker.account_id)
        with measured("model", asker.role), call_span("model", role=asker.role, model=asker.model):
            answer = await self._answered(asker, messages, streaming, config, **options)
        used = tokens_used(messages, answer)
        await self._spending.record(asker.account_id, asker.run_id, asker.role, asker.model, *used)
        return answer

    async def _answered(
        self,
        asker: _Asker,
        messages: Sequence[AnyMessage],
        streaming: Streaming,
        config: RunnableConfig | None,
        **options: Any,
    ) -> AIMessage:
        settings = self._settings
        try:
            # The client's own time-out restarts with every byte that comes in.
            async with asyncio.timeout(settings.model_timeout_seconds):
                answer = await self._client(asker.model, streaming).ainvoke(list(messages), config, **options)
        except TimeoutError:
            raise ModelFault(f"the model took longer than {settings.model_timeout_seconds:g} s") from None
        except openai.APIError as error:
            if isinstance(error.__cause__, BadAnswer):
                raise error.__cause__ from None
            raise explain(error, self._server, settings.key_variable) from error
        except (json.JSONDecodeError, UnicodeDecodeError, ValidationError, RecursionError) as error:
            raise ModelFault(f"the answer of {self._server} can't be read", at_all=True) from error
        except (AttributeError, TypeError, KeyError, ValueError) as error:  # another protocol: a web page, other JSON
            raise NotTheProtocol(
                f"{self._server} answers no chat completions; check OPENAI_BASE_URL, it often ends in /v1"
            ) from error
        assert isinstance(answer, AIMessage)
        return answer

    def _client(self, model: str, streaming: Streaming) -> Client:
        made = self._made.get((model, streaming))
        if made is None:
            made = self._made[model, streaming] = self._make_client(model, streaming)
        return made

    def _make_client(self, model: str, streaming: Streaming) -> Client:
        settings = self._settings
        # The client would sleep out a Retry-After in a worker's slot; the conversation's own back-off does not.
        return Client(
            model=model,
            base_url=settings.openai_base_url,
            api_key=settings.openai_api_key or SecretStr("none"),
            timeout=settings.model_timeout_seconds,
            http_async_client=self._http,
            http_client=_unused(),
            http_socket_options=(),  # for clients that it makes; it warns of them wherever there is a proxy
            max_retries=0,
            use_responses_api=False,
            disable_streaming=streaming == "whole",
            stream_usage=streaming == "with usage",
            stream_chunk_timeout=None,  # the time-out of the whole call is the shorter one
        )


@cache
def _unused() -> openai.DefaultHttpxClient:
    """The library makes a client that blocks beside ours, by the environment's proxies if it isn't given one."""
    return openai.DefaultHttpxClient(trust_env=False)


def _why_unreadable(answer: AIMessage, error: ValueError) -> str:
    if answer.response_metadata.get("finish_reason") == "length":
        return "it was cut off at the most that the server lets an answer have, or the model's context holds: be brief"
    return first_line(error)
