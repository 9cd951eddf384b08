"""What stands before the pages: guesses of the token, whom to tell of a fault, and what no page may hold."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from email_assistant.servers.api.throttle import Guesses, TooManyGuesses
from tests.integration import test_api
from tests.integration.test_api import TOKEN, Home, client, page, problem

settings, home, root, browser = test_api.settings, test_api.home, test_api.root, test_api.browser
"""The same fixtures as there."""

MOST_GUESSES = 10


async def guess(http: httpx.AsyncClient, token: str) -> httpx.Response:
    return await http.post("/login", data={"token": token})


class TestGuesses:
    async def test_many_wrong_tokens_are_refused_for_a_while(self, root: str) -> None:
        async with client(root) as stranger:
            tried = [(await guess(stranger, f"guess {number}")).status_code for number in range(MOST_GUESSES)]
            assert tried == [401] * MOST_GUESSES
            late = await guess(stranger, TOKEN)
            assert late.status_code == 429
            assert 1 <= int(late.headers["retry-after"]) <= 60
            assert "set-cookie" not in late.headers
            assert "too many wrong tokens" in late.text
            link = await stranger.get("/", params={"token": "one more"})
            assert (link.status_code, "set-cookie" in link.headers) == (429, False)
            refused = await stranger.get("/api/inbox", headers={"x-api-key": "one more"})
            assert "too many wrong tokens" in problem(refused, 429)

    async def test_one_wrong_token_sent_again_and_again_locks_nobody_out(self, root: str) -> None:
        async with client(root) as program:
            for _ in range(2 * MOST_GUESSES):
                assert (await guess(program, "an old token")).status_code == 401
            assert (await guess(program, TOKEN)).status_code == 303

    async def test_who_is_logged_in_stays_so(self, browser: httpx.AsyncClient, root: str) -> None:
        async with client(root) as stranger:
            for number in range(MOST_GUESSES + 1):
                answer = await guess(stranger, f"guess {number}")
        assert answer.status_code == 429
        assert (await browser.get("/")).status_code == 200

    def test_the_time_is_over_by_the_clock_and_each_address_has_its_own(self) -> None:
        now = 0.0
        guesses = Guesses(clock=lambda: now)
        for number in range(MOST_GUESSES):
            guesses.note("192.0.2.1", str(number))
        guesses.check("192.0.2.2")
        with pytest.raises(TooManyGuesses) as refused:
            guesses.check("192.0.2.1")
        assert refused.value.seconds == 60
        now = 60.0
        guesses.check("192.0.2.1")


async def test_security_txt_says_whom_to_tell(root: str) -> None:
    async with client(root) as stranger:
        answer = await stranger.get("/.well-known/security.txt")
    assert answer.headers["content-type"].startswith("text/plain")
    fields = dict(line.split(": ", 1) for line in answer.text.splitlines())
    assert fields["Contact"].startswith("mailto:security@")
    expires = datetime.fromisoformat(fields["Expires"])
    assert timedelta() < expires - datetime.now(UTC) < timedelta(days=365)


async def test_each_page_forbids_what_is_not_ours(home: Home, browser: httpx.AsyncClient) -> None:
    item = await home.draft(await home.account())
    places = ["/", f"/items/{item.id}", "/mails", "/memory", "/activity", "/accounts", "/chat", "/docs", "/nothing"]
    for path in places:
        answer = await browser.get(path)
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
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
