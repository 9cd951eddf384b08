"""`/api/tools`: which tools there are, and the person's word on those that have changed."""

from email_assistant.web.errors import documented
from email_assistant.web.routers import Assistant, for_programs
from email_assistant.web.schemas import AcceptTool, OneToolOut, SeenToolOut, ToolOut, ToolsOut

router = for_programs("tools", "/api/tools")


@router.get("", responses=documented(503))
async def list_tools(app: Assistant) -> ToolsOut:
    """All tools, and whether each can be used now; servers that are not ours are asked for theirs."""
    rows = await app.overview.rows()
    return ToolsOut(tools=[ToolOut.model_validate(row) for row in rows], remarks=list(app.overview.remarks()))


@router.get("/{name}", responses=documented(404, 422, 503))
async def show_tool(app: Assistant, name: str) -> OneToolOut:
    """One tool; where it has changed, what it was and what it has become."""
    row, seen = await app.overview.row(name)
    return OneToolOut(
        tool=ToolOut.model_validate(row), seen=SeenToolOut.model_validate(seen) if seen is not None else None
    )


@router.post("/{name}/accept", responses=documented(400, 403, 404, 409, 413, 422, 503))
async def accept_tool(app: Assistant, name: str, accept: AcceptTool) -> OneToolOut:
    """Let a tool that has changed be used as it is now. 409: it is not as it was shown."""
    await app.overview.accept(name, accept.hash)
    return await show_tool(app, name)
