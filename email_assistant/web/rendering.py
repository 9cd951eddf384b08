"""HTML from the templates. Everything is escaped: a template has no way to let mail text live."""

from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from email_assistant.errors import AssistantError
from email_assistant.inbox.answers import Refined
from email_assistant.inbox.describe import (
    COUNTED,
    FIRST_ANSWER,
    HERE,
    NOT_IN_COPY,
    UNKNOWN_CONFLICTS,
    in_gmail,
    words_of_newer,
)
from email_assistant.inbox.sentences import cut, link_host, moment
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import listed, plain
from email_assistant.mail.history import passages, unwrapped
from email_assistant.mail.prompt import parts_of_mail_text
from email_assistant.mail.two_parts import DIFFER
from email_assistant.plugins import foot_links
from email_assistant.web.wording import (
    IN_GMAIL_BUTTON,
    SIGNS,
    about,
    became,
    counted,
    kinds_of,
    name_of,
    span,
    waits,
    who,
)


def render(
    template: str | Path,
    *,
    status_code: int = 200,
    headers: Mapping[str, str] | None = None,
    refusal: AssistantError | None = None,
    **context: object,
) -> HTMLResponse:
    """A page, by one of our templates, or by one that lies elsewhere.

    Args:
        refusal: why what was asked for was not done; the page tells it, and its status is the answer's.
    """
    found = _template(template) if isinstance(template, Path) else _environment.get_template(template)
    html = found.render(context, refusal=refusal)
    # Half a surrogate pair, which a model may leave in its arguments, has no UTF-8.
    return HTMLResponse(html.encode("utf-8", "replace"), refusal.status if refusal else status_code, headers)


def render_part(template: Path, **context: object) -> Markup:
    """Of a page, by a template that lies elsewhere."""
    return Markup(_template(template).render(context))  # noqa: S704 - the environment escapes


@cache
def _template(file: Path) -> Template:
    return _environment.from_string(file.read_text())


def say_at_head(notice: str) -> None:
    """Have what is rendered for this request say something at its head."""
    _at_head.set(notice)


def say_stand_ins(words: str) -> None:
    """Have what is rendered for this request say what is not the real thing; "" for nothing."""
    _stand_ins.set(words)


def say_stopped(notice: str | None) -> None:
    """Have what is rendered for this request say that everything is stopped, and offer to go on."""
    _stopped.set(notice)


def _lines(text: str) -> int:
    """How many a narrow field needs for it, so that all of it is in sight."""
    return sum(1 + len(line) // _NARROW for line in text.split("\n"))


_NARROW = 40  # characters
_stopped: ContextVar[str | None] = ContextVar("stopped", default=None)
_at_head: ContextVar[str | None] = ContextVar("at_head", default=None)
_stand_ins: ContextVar[str] = ContextVar("stand_ins", default="")
_environment = Environment(
    loader=PackageLoader("email_assistant.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals |= {
    "said_at_head": _at_head.get,
    "stand_ins": _stand_ins.get,
    "said_stopped": _stopped.get,
    "foot_links": foot_links,
    "first_answer_text": FIRST_ANSWER,
    "here_text": HERE,
    "in_gmail_button": IN_GMAIL_BUTTON,
    "not_in_copy": NOT_IN_COPY,
    "calendars_text": COUNTED,
    "signs": SIGNS,
    "parts_differ": DIFFER,
    "unknown_conflicts": UNKNOWN_CONFLICTS,
}
_environment.filters |= {
    "plain": plain,
    "parts_of_mail_text": parts_of_mail_text,
    "passages": passages,
    "unwrapped": unwrapped,
    "address_of": address_of,
    "listed": listed,
    "moment": moment,
    "waits": waits,
    "became": became,
    "counted": counted,
    "span": span,
    "who": who,
    "name_of": name_of,
    "kinds_of": kinds_of,
    "about": about,
    "cut": cut,
    "words_of_newer": words_of_newer,
    "in_gmail": in_gmail,
    "link_host": link_host,
    "refined": Refined.of,
    "lines": _lines,
}
