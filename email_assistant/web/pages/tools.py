"""`/tools`: what the assistant can do, where that runs, and the person's word on tools that have changed."""

import json
from typing import Annotated

from fastapi import Form
from fastapi.responses import RedirectResponse, Response

from email_assistant.app import App
from email_assistant.mail.diff import compare
from email_assistant.tools.mcp.seen import SeenTool
from email_assistant.tools.overview import NotAsShown
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, for_pages
from email_assistant.web.wording import TOOL_STATES, when_asked

router = for_pages()


@router.get("/tools")
async def show(app: Assistant) -> Response:
    return render(
        "tools.html",
        tools=await app.overview.rows(),
        remarks=app.overview.remarks(),
        states=TOOL_STATES,
        when_asked=when_asked,
    )


@router.get("/tools/{name}")
async def show_one(app: Assistant, name: str) -> Response:
    return await _page(app, name)


@router.post("/tools/{name}")
async def accept(app: Assistant, name: str, new_hash: Annotated[str, Form(alias="hash")]) -> Response:
    """Let a tool that has changed be used as it was shown."""
    try:
        await app.overview.accept(name, new_hash)
    except NotAsShown as refusal:
        return await _page(app, name, refusal)
    return RedirectResponse("/tools", 303)


async def _page(app: App, name: str, refusal: NotAsShown | None = None) -> Response:
    row, seen = await app.overview.row(name)
    return render(
        "tool.html",
        refusal=refusal,
        tool=row,
        seen=seen,
        pieces=_pieces(seen) if seen else [],
        states=TOOL_STATES,
        when_asked=when_asked,
    )


def _pieces(seen: SeenTool) -> list[tuple[str, object]]:
    """What the tool says of itself, with what has become of it."""
    before = (seen.description, _written(seen.schema))
    after = (seen.new_description or "", _written(seen.new_schema)) if seen.has_changed else before
    return [
        (title, compare(old, new))
        for title, old, new in zip(("What it says of itself", "What it takes"), before, after, strict=True)
    ]


def _written(schema: object) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True)
