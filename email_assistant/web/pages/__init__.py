"""The pages, server-rendered: plain forms and links that need no script. One file a page."""

from email_assistant.web.pages import (
    accounts,
    activity,
    body,
    chat,
    day,
    docs,
    item,
    mails,
    memory,
    security,
    start,
    stop,
    tools,
    waiting,
)

routers = [
    page.router
    for page in (
        *(waiting, start, item, body, day, mails, memory, activity, accounts, tools, chat, docs),
        *(stop, security),
    )
]
