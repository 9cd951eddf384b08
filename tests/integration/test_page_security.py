"""What stands before the pages: guesses of the token, whom to tell of a fault, and what no page may hold."""

from datetime import UTC, datetime, timedelta

import httpx

from tests.integration import test_api
from tests.integration.test_api import TOKEN, Home, client, page, problem

settings, home, root, browser = test_api.settings, test_api.home, test_api.root, test_api.browser
"""The same fixtures as there."""

MANY = 30


async def guess(http: httpx.AsyncClient, token: str) -> httpx.Response:
    return await http.post("/login", data={"token": token})


class TestGuesses:
    async def test_any_number_of_wrong_tokens_keeps_no_right_one_waiting(self, root: str) -> None:
        async with client(root) as stranger:
            for number in range(MANY):
                assert (await stranger.get("/", params={"token": f"guess {number}"})).status_code == 401
                assert (await guess(stranger, f"form {number}")).status_code == 401
                problem(await stranger.get("/api/inbox", headers={"x-api-key": f"key {number}"}), 401)
            assert (await stranger.get("/api/inbox", headers={"x-api-key": TOKEN})).status_code == 200
            assert (await guess(stranger, TOKEN)).status_code == 303
        async with client(root) as owner:
            assert (await owner.get("/", params={"token": TOKEN})).status_code == 303


async def test_security_txt_says_whom_to_tell(root: str) -> None:
    async with client(root) as stranger:
        answer = await stranger.get("/.well-known/security.txt")
    assert answer.headers["content-type"].startswith("text/plain")
    fields = dict(line.split(": ", 1) for line in answer.text.splitlines())
    assert fields["Contact"].startswith("mailto:security@")
    expires = datetime.fromisoformat(fields["Expires"])
    assert timedelta() < expires - datetime.now(UTC) < timedelta(days=365)


async def _places(home: Home) -> list[str]:
    item = await home.draft(await home.account())
    return [
        "/",
        f"/items/{item.id}",
        "/mails",
        "/memory",
        "/activity",
        "/rehearsal",
        "/accounts",
        "/agents",
        "/chat",
        "/docs",
        "/nothing",
    ]


async def test_no_page_holds_a_secret(home: Home, browser: httpx.AsyncClient) -> None:
    secrets = [TOKEN, *browser.cookies.values()]
    assert len(secrets) == 2
    for path in await _places(home):
        text = (await browser.get(path)).text
        assert [secret for secret in secrets if secret in text] == [], path


async def test_each_page_forbids_what_is_not_ours(home: Home, browser: httpx.AsyncClient) -> None:
    for path in await _places(home):
        answer = await browser.get(path)
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"


async def test_what_is_long_comes_compressed_and_events_do_not(browser: httpx.AsyncClient) -> None:
    for path in ("/docs", "/static/style.css"):
        assert (await browser.get(path)).headers["content-encoding"] == "gzip"
    async with browser.stream("GET", "/api/events") as answer:
        assert "content-encoding" not in answer.headers


async def test_the_docs_hold_each_description_parameter_and_example(browser: httpx.AsyncClient) -> None:
    document = (await browser.get("/openapi.json")).json()
    shown = (await page(browser, "/docs")).text
    told = 0
    for operations in document["paths"].values():
        for operation in operations.values():
            for text in [operation["description"], *(each["name"] for each in operation.get("parameters", []))]:
                told += 1
                assert " ".join(text.split()) in shown
    assert told > 50
    assert shown.count("Example of an answer") > 15
