"""The person at Google's consent page, in a browser without scripts."""

from urllib.parse import urljoin

import httpx
import lxml.html


def agree(browser: httpx.Client, url: str) -> httpx.Response:
    """Open the page, tick all that is asked for, and press the first button; the answer is what comes of that."""
    page = browser.get(url)
    page.raise_for_status()
    form = lxml.html.fromstring(page.text).forms[0]
    fields: dict[str, list[str]] = {}
    for field in form.xpath(".//input[@name] | (.//button)[1][@name]"):
        fields.setdefault(field.get("name"), []).append(field.get("value", ""))
    return browser.post(urljoin(str(page.url), form.get("action") or str(page.url)), data=fields)
