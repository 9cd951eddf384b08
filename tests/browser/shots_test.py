import pytest
from tests.integration.test_api import BOB, MEETING, NOTIFY_ACTION

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def fill(home):
    account = await home.account()
    other = await home.account("bea@example.com")
    await home.execute("update accounts set background='I run a small studio in Berlin.', listed_at=clock_timestamp()")
    ids = []
    _, _, run = await home.mail(account, subject="Lunch on Friday?", sender="bob@example.org")
    ids.append(
        (
            await home.ask(
                run,
                subject="Lunch on Friday?",
                new=["bob@example.org"],
                args={
                    "email_address": BOB,
                    "response_text": "Friday at one suits me well. Shall we meet at the canal?\n\nAda",
                    "additional_recipients": ["dan@example.net"],
                },
                body="Hi Ada,\n\ndoes Friday suit you for lunch? I thought of one o'clock.\n\nBest,\nBob",
            )
        ).id
    )
    _, _, run = await home.mail(account, subject="Planning the spring campaign", sender="clara@partners.example")
    ids.append(
        (
            await home.ask(
                run,
                "schedule_meeting_tool",
                MEETING | {"title": "Spring campaign"},
                kind="meeting",
                new=["dan@example.net"],
            )
        ).id
    )
    _, _, run = await home.mail(
        account, subject="Which of the two offers do you want?", sender="offers@printer.example"
    )
    ids.append(
        (
            await home.ask(
                run,
                "Question",
                {"content": "They offer 500 cards for 80 € or 1000 for 120 €. Which one shall I order?"},
                kind="question",
                allowed=["ignore", "response"],
            )
        ).id
    )
    _, _, run = await home.mail(other, subject="Your domain expires in 30 days", sender="billing@registrar.example")
    ids.append((await home.ask(run, NOTIFY_ACTION, {}, kind="notification", allowed=["ignore", "response"])).id)
    _, _, run = await home.mail(
        other, subject="Invoice 2031-17", sender="a-very-long-address-of-somebody@accounting.department.example"
    )
    ids.append((await home.ask(run, kind="in_doubt", allowed=["accept", "ignore"])).id)
    await home.mail(account, subject="Weekly digest", state="done", classification="ignore", reason="a newsletter")
    await home.mail(account, subject="Hello", state="failed", reason="the model gave no answer that can be read")
    await home.execute("update inbox_items set created_at = created_at - random() * interval '30 hours'")
    return ids


async def test_shots(home, visit):
    import os

    ids = await fill(home)
    only = os.environ.get("ONLY", "").split()
    pages = {
        "waiting": "/",
        "item": f"/items/{ids[0]}",
        "meeting": f"/items/{ids[1]}",
        "question": f"/items/{ids[2]}",
        "notice": f"/items/{ids[3]}",
        "mails": "/mails",
        "accounts": "/accounts",
        "docs": "/docs",
        "chat": "/chat",
        "memory": "/memory",
        "activity": "/activity",
    }
    for size, theme in (("desktop", "light"), ("phone", "dark")):
        async with visit(size, theme) as v:
            for name, path in pages.items():
                if only and name not in only:
                    continue
                await v.go(path)
                await v.page.wait_for_timeout(300)
                await v.page.screenshot(
                    path=f"/tmp/shots/{name}-{size}.png", full_page=name != "item" and name != "docs"
                )
            print(v.complaints, v.elsewhere)
            if not only or "edit" in only:
                await v.go(f"/items/{ids[0]}")
                await v.page.keyboard.press("e")
                await v.page.keyboard.type(" Or two?")
                await v.page.screenshot(path=f"/tmp/shots/edit-{size}.png")
                await v.page.get_by_role("button", name="Save edit").click()
                await v.page.wait_for_timeout(300)
                await v.page.screenshot(path=f"/tmp/shots/answered-{size}.png")
                await v.page.locator("[data-undo]").first.click()
                await v.page.wait_for_timeout(300)
                print(v.complaints)
                await v.go("/")
                await v.page.keyboard.press("j")
                await v.page.keyboard.press("x")
                await v.page.keyboard.press("j")
                await v.page.keyboard.press("x")
                await v.page.screenshot(path=f"/tmp/shots/ticked-{size}.png")
                await v.page.keyboard.press("?")
                await v.page.screenshot(path=f"/tmp/shots/help-{size}.png")
