"""Refusals of the library's middleware, which are plain text, in the form of all others."""

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from email_assistant.web.errors import refusal


class Refusals:
    """`details`: what is said instead, by status."""

    def __init__(self, app: ASGIApp, details: Mapping[int, str]) -> None:
        self._app = app
        self._details = details

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_replaced = False

        async def send_ours(message: Message) -> None:
            nonlocal is_replaced
            if self._is_theirs(message):
                is_replaced = True
                ours = refusal(scope["path"], message["status"], self._details[message["status"]])
                await ours(scope, receive, send)
            elif not is_replaced:
                await send(message)

        await self._app(scope, receive, send_ours)

    def _is_theirs(self, message: Message) -> bool:
        if message["type"] != "http.response.start" or message["status"] not in self._details:
            return False
        return Headers(raw=message["headers"]).get("content-type", "").startswith("text/plain")
