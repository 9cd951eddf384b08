"""URLs in mail: without tracking, and only where they tell something."""

import re
from urllib.parse import unquote, urlsplit, urlunsplit

_MAX_URL = 200  # characters; meeting and document links are shorter, click trackers are longer
_MAX_URL_READ = 8_000

_TRACKING = re.compile(
    r"(?:utm_|mc_|hsa?_|_hs|trk|pk_|mtm_|vero_|oly_|ml_|__s|_ke|_kx|ck_).*"
    r"|fbclid|gclid|dclid|msclkid|yclid|igshid|mkt_tok|wickedid|s_cid|elqtrack.*|elqaid|elqat|ref_src|tracking_?id",
    re.IGNORECASE,
)
# Only ASCII: Chinese and Japanese text follows a URL without a blank.
_URL = re.compile(r"https?://(?:(?![<>\"'\]])[!-~])+", re.IGNORECASE)
_SENTENCE_MARKS = ".,;:!?)"
_WRAPPED = re.compile(
    r"https?://(?:[a-z0-9-]+\.safelinks\.protection\.outlook\.com/|www\.google\.com/url)\?(?:[^#]*&)?(?:url|q)=([^&#]+)"
    r"|https?://urldefense\.com/v3/__(.+?)__;.*",
    re.IGNORECASE,
)
_LOOKS_LIKE_URL = re.compile(r"(?:https?://)?((?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,63})(?:[/?#:]\S*)?", re.IGNORECASE)
_SAYS_NOTHING = re.compile(
    r"(?:click |tap |see |join |open )?(?:here|this|link|this link|this page|this form|meeting|the meeting)"
    r"|join(?: now| zoom meeting| meeting)?|hier(?: klicken)?|klicken sie hier|ici|cliquez ici|aqu[ií]|qui",
    re.IGNORECASE,
)


def bare_url(url: str) -> str:
    """The URL without tracking parameters; a very long one is cut to its host."""
    if len(url) > _MAX_URL_READ:
        return _host_only(url)
    url = _unwrapped(url)
    try:
        parts = urlsplit(url)
        cleaned = urlunsplit(parts._replace(query=_untracked(parts.query), fragment=_untracked(parts.fragment)))
    except ValueError:  # such as an unclosed "[" in the host
        return _host_only(url)
    return cleaned if len(cleaned) <= _MAX_URL else _host_only(cleaned)


def _untracked(query: str) -> str:
    pairs = query.replace("&amp;", "&").split("&")
    kept = [pair for pair in pairs if not _TRACKING.fullmatch(unquote(pair.partition("=")[0]))]
    return query if len(kept) == len(pairs) else "&".join(kept)


def _unwrapped(url: str) -> str:
    """What the links of mail filters and search pages lead to."""
    match = _WRAPPED.match(url[:_MAX_URL_READ])
    target = unquote(match[1] or match[2]) if match else ""
    return target if _URL.fullmatch(target) else url


def bare_urls(text: str) -> str:
    """Text with each of its URLs as `bare_url`."""
    return _URL.sub(lambda match: _bare_in_text(match[0]), text)


def _bare_in_text(found: str) -> str:
    url = found.rstrip(_SENTENCE_MARKS)
    return bare_url(url) + found[len(url) :]


def link_note(label: str, href: str) -> str:
    """What a link's label leaves unsaid: an address, a vague label's target, or a host that the label belies."""
    href = href.strip()
    if href[:7].lower() == "mailto:":
        address = href[7:].partition("?")[0]
        return f" ({address})" if label and "@" in address and address.lower() not in label.lower() else ""
    if not re.match(r"https?://", href, re.IGNORECASE):
        return ""
    href = _unwrapped(href)
    claimed = _LOOKS_LIKE_URL.fullmatch(label) if len(label) <= _MAX_URL_READ else None
    if claimed:
        return "" if _same_site(claimed[1], host_of(href)) else f" ({host_of(href)})"
    return f" ({bare_url(href)})" if _SAYS_NOTHING.fullmatch(label.strip(" .:»›→>[]")) else ""


def _same_site(claimed: str, actual: str) -> bool:
    claimed, actual = claimed.lower().removeprefix("www."), actual.removeprefix("www.")
    return claimed == actual or actual.endswith("." + claimed)


def host_of(url: str) -> str:
    """The host that a browser would open: what follows the last `@` of the authority."""
    authority = re.split(r"[/?#\\]", url.partition("://")[2], maxsplit=1)[0]
    return authority.rpartition("@")[2].partition(":")[0].lower()[:_MAX_URL]


def _host_only(url: str) -> str:
    return f"{url.partition('://')[0]}://{host_of(url)}/…"
