"""One way to a model's server: while it refuses, one of all who wait asks again when it is time, and nobody else;
and the small questions that show what it can do, of about a hundred tokens each."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from pydantic import BaseModel

from email_assistant.model.errors import BadAnswer, ModelDown, ModelFault, ModelRefused, NotTheProtocol, TextRefused

if TYPE_CHECKING:
    from email_assistant.db.model_servers import ModelServers, Refusing


R = TypeVar("R")
Ability = Literal["json_schema", "json_object", "untold_schema", "tools", "stream", "stream_usage"]
"""`untold_schema`: answers fit a schema that went out with the request and does not stand in the prompt."""
_BELIEVED_SECONDS = 3600
"""For so long something is taken as found out: servers are restarted with other models and other flags."""
_TIMES = 2
"""An answer that doesn't fit is the server's way only when it comes so often in a row."""
WORD = "Answer with the word: ready"
CALL = "Call the tool."
READY_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "ready",
        "description": "Says that you are ready.",
        "parameters": {"type": "object", "properties": {}},
    },
}
_AT_ONCE: Final = 4


class Asking:
    """
    Args:
        answers: whether the server takes a small question of the shape of one that it would not take.
        at_once: a person waits for the answer, who may have put right what was wrong.
    """

    def __init__(
        self,
        servers: "ModelServers",
        server: str,
        model: str,
        answers: Callable[[], Awaitable[bool]],
        *,
        at_once: bool,
    ) -> None:
        self._servers = servers
        self._server = server
        self._model = model
        self._answers = answers
        self._at_once = at_once

    async def ask(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Raises ModelDown: the server refuses, so whatever else waits for it is not asked either."""
        was = await self._servers.enter(self._server, self._model, claims=not self._at_once)
        if was and not was.ours and not self._at_once:
            raise ModelDown(was.reason, was.next_at, waits_for=self._server)
        if was and was.probed and not await self._answers():
            raise await self._down(ModelDown(was.reason), was, probed=True)
        try:
            answer = await ask()
        except NotTheProtocol as down:
            if not await self._answers():
                raise await self._down(down, was, probed=True) from down
            await self._well(was)
            raise ModelFault(f"what {self._server} answers to this is no chat completion") from down
        except ModelDown as down:
            raise await self._down(down, was, probed=False) from down
        except (ModelFault, ModelRefused) as error:
            if _is_about_all(error) and not await self._answers():
                raise await self._down(ModelDown(str(error)), was, probed=True) from error
            await self._well(None if isinstance(error, ModelFault) else was)
            raise
        except BadAnswer:
            await self._well(was)
            raise
        await self._well(was)
        return answer

    async def _down(self, down: ModelDown, was: "Refusing | None", *, probed: bool) -> ModelDown:
        model = self._model if down.of_model else ""
        next_at = await self._servers.refused(self._server, model, str(down), down.until, was, probed=probed)
        return ModelDown(str(down), next_at, waits_for=self._server)

    async def _well(self, was: "Refusing | None") -> None:
        if was:
            await self._servers.answered(self._server, self._model)


def _is_about_all(error: ModelFault | ModelRefused) -> bool:
    """Whether it may be the server's, and not about what it was asked."""
    return error.at_all if isinstance(error, ModelFault) else not isinstance(error, TextRefused)


class Abilities:
    """Kept in memory: a new process finds out anew, at the price of a refused request or a small question."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[Ability, tuple[bool, float]] = {}
        self._misses: dict[Ability, int] = {}

    def can(self, ability: Ability) -> bool | None:
        """None: it is not known."""
        well, until = self._found.get(ability, (None, 0.0))
        return well if self._clock() < until else None

    def found(self, ability: Ability, well: bool) -> None:
        self._misses[ability] = 0
        self._found[ability] = (well, self._clock() + _BELIEVED_SECONDS)

    def forget(self, ability: Ability) -> None:
        """It may not be as it was found."""
        self._found.pop(ability, None)

    def missed(self, ability: Ability) -> None:
        """An answer did not fit, which can happen to any model once."""
        self._misses[ability] = self._misses.get(ability, 0) + 1
        if self._misses[ability] >= _TIMES:
            self.found(ability, False)


class Ready(BaseModel):
    """A form that no model keeps to by itself when it is asked for a word."""

    ready: bool


def as_small(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A small question of the shape of these messages: some servers refuse a role, or the turns that they take."""
    small = [_small(message) for message in messages]
    return small if isinstance(messages[-1], HumanMessage) else [*small, HumanMessage(WORD)]


def _small(message: AnyMessage) -> AnyMessage:
    match message:
        case AIMessage():
            calls = [{**call, "name": "ready", "args": {}} for call in message.tool_calls]
            return AIMessage("" if calls else "ready", tool_calls=calls)
        case HumanMessage():
            return HumanMessage(WORD)
        case _:
            return message.model_copy(update={"content": "ready"})


async def several(questions: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Ask all, a few at a time. The first error, or the end of this task, ends those that are under way."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(ask: Callable[[], Awaitable[None]]) -> None:
        async with slots:
            await ask()

    tasks = [asyncio.create_task(one(ask)) for ask in questions]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
