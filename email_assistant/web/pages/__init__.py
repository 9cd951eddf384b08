"""The pages, server-rendered: plain forms and links that need no script. One file a page."""

import psycopg
from fastapi import APIRouter, Depends

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
    start,
    tools,
    waiting,
)
from email_assistant.web.rendering import say_at_head, say_stand_ins


async def _say_absence(app: Assistant) -> None:
    """Have the page say at its head what is not the real thing, and if nothing works on the mail."""
    say_stand_ins(app.settings.stand_ins)
    try:
        absence = await app.presence.absence()
    except psycopg.Error:  # the page itself says what is wrong
        return
    if absence:
        say_at_head(f"{absence.sentence} What you answer is kept until then.")


router = APIRouter(include_in_schema=False, dependencies=[Depends(_say_absence)])
for page in (waiting, start, item, day, mails, memory, activity, accounts, tools, chat, docs, security):
    router.include_router(page.router)
