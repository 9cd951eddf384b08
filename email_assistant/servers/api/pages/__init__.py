"""The pages, server-rendered: plain forms and links that need no script. One file a page."""

from fastapi import APIRouter

from email_assistant.servers.api.pages import (
    accounts,
    activity,
    chat,
    day,
    docs,
    item,
    mails,
    memory,
    security,
    tools,
    waiting,
)

router = APIRouter(include_in_schema=False)
for page in (waiting, item, day, mails, memory, activity, accounts, tools, chat, docs, security):
    router.include_router(page.router)
