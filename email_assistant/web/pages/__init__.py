"""The pages, server-rendered: plain forms and links that need no script. One file a page."""

import psycopg
from fastapi import APIRouter, Depends

from email_assistant.accounts.account import stopped
from email_assistant.web.dependencies import Assistant
from email_assistant.web.pages import (
    accounts,
    activity,
    chat,
    day,
    docs,
    item,
    mails,
    memory,
    security,
    stop,
    tools,
    waiting,
)
from email_assistant.web.rendering import say_at_head, say_stopped


async def _say_at_head(app: Assistant) -> None:
    """Have the page say at its head if everything is stopped, or nothing works on the mail."""
    try:
        absence = await app.presence.absence()
        since = await app.accounts.stopped_since(app.user_id)
    except psycopg.Error:  # the page itself says what is wrong
        return
    say_stopped(stopped(since) if since else None)
    if absence:
        say_at_head(f"{absence.sentence} What you answer is kept until then.")


router = APIRouter(include_in_schema=False, dependencies=[Depends(_say_at_head)])
for page in (waiting, item, day, mails, memory, activity, accounts, tools, chat, docs, stop, security):
    router.include_router(page.router)
