"""A real model server: llama.cpp with SmolLM2 135M, whose chat template knows no tools."""

import subprocess
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.doubles.serving import Server
from tests.tools import LLAMA

_FOLDER = Path(__file__).parent.parent / "llama"
MODEL = "smollm2"
_SHORT = {"type": "string", "minLength": 1, "maxLength": 60}


class Llama:
    """The process. Its model makes little sense and answers alike every time; what counts is the server around it."""

    def __init__(self, context: int, answer: int) -> None:
        command = [str(LLAMA), str(_FOLDER / "serve.py"), str(context), str(answer)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._child.stdout
        self.root = f"{self._child.stdout.readline().strip()}/v1"

    def __enter__(self) -> "Llama":
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()


class Steered:
    """The same server, behind a hand that narrows each JSON schema; else what its model decides would be up to chance.

    Mail is to be answered, by one short reply to `to`.
    """

    def __init__(self, llama: Llama, to: str) -> None:
        async def pass_on(request: Request) -> Response:
            body = await request.json()
            _narrow(body.get("response_format", {}).get("json_schema", {}), to)
            async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
                answer = await http.post(f"{llama.root}/chat/completions", json=body)
            return Response(answer.content, answer.status_code, media_type="application/json")

        self._server = Server(Starlette(routes=[Route("/v1/chat/completions", pass_on, methods=["POST"])]))
        self.root = f"{self._server.urls[0]}/v1"

    def __enter__(self) -> "Steered":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()


def _narrow(form: dict[str, Any], to: str) -> None:
    match form.get("name"):
        case "triage":
            form["schema"]["properties"] |= {"reasoning": _SHORT, "classification": {"const": "respond"}}
        case "tool_calls":
            calls = form["schema"]["properties"]["calls"]
            [reply] = [s for s in calls["items"]["anyOf"] if s["properties"]["name"]["const"] == "send_email_tool"]
            reply["properties"]["arguments"]["properties"] = {"response_text": _SHORT, "email_address": {"const": to}}
            calls |= {"items": reply, "maxItems": 1}
