"""The pages, server-rendered: plain forms and links that need no script. One file a page."""

from fastapi import APIRouter, Depends

from email_assistant.web.head import say_how_it_stands
from email_assistant.web.pages import (
    accounts,
    activity,
    body,
    chat,
    day,
    docs,
    forget,
    item,
    mails,
    memory,
    rehearsal,
    security,
    start,
    stop,
    tools,
    waiting,
)

router = APIRouter(include_in_schema=False, dependencies=[Depends(say_how_it_stands)])
for page in (
    *(waiting, start, item, body, day, mails, forget, memory, activity, rehearsal, accounts, tools, chat, docs, stop),
    security,
):
    router.include_router(page.router)
