"""One way to a model's server: while it refuses, one of all who wait asks again when it is time, and nobody else."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from email_assistant.model.errors import BadAnswer, ModelDown, ModelFault, ModelRefused, NotTheProtocol, TextRefused

if TYPE_CHECKING:  # packs have no database
    from email_assistant.db.model_servers import ModelServers, Refusing

R = TypeVar("R")


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
