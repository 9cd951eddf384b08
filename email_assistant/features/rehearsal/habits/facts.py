"""What one mail shows of itself: whom it is addressed to, how it was sent, and whether its text asks for something."""

import math
import re
from collections.abc import Collection
from datetime import datetime
from typing import Final

from email_assistant.mail.message import Mail
from email_assistant.mail.phrases import ASKS, FORWARD_SUBJECT, REPLY_SUBJECT

NO_REPLY: Final = re.compile(r"no[-_.]?reply|do[-_.]?not[-_.]?reply|notifications?|alerts?|bounce|mailer|daemon|auto")
_MASS: Final = re.compile(r"news|info|offer|deal|promo|market|sales|support|team|updates?|digest|announce|list|admin")
_TAIL: Final = 400  # characters, where requests stand
_HEAD: Final = 80
_READ: Final = 20_000
_MANY: Final = 4
_COMMON_ENDINGS: Final = ("com", "org", "edu", "net", "gov")

_URGENT = re.compile(
    r"\b(?:urgent|asap|immediate(?:ly)?|critical|deadline|within (?:the|\d+) (?:hours?|minutes?|next)"
    r"|by (?:eod|cob|noon|tomorrow|today|end of|\d{1,2}[: ]?\d{0,2} ?[ap]m)|time.sensitive|blocked|escalat\w+)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(?:(?:can|could|would|will) you|need (?:you|your)|please (?:confirm|advise|send|review|let|reply|call|respond"
    r"|provide|approve)|your (?:approval|sign-?off|decision|thoughts|input|feedback|confirmation)|confirm|let me know"
    r"|what do you think|are you (?:available|free|able)|any (?:ideas|thoughts|news)|waiting (?:for|on) (?:you|your)"
    r"|get back to me|rsvp|action (?:required|needed)|clarify|which (?:one|of)|how (?:do|should|can) (?:we|i)|sign-?off"
    r"|do you|when (?:can|will|are))\b",
    re.IGNORECASE,
)
_NEWS = re.compile(
    r"\b(?:fyi|for your (?:awareness|information|reference|records)|no (?:action|response|reply|immediate action)"
    r"|heads.?up|in the loop|keep you (?:posted|informed|updated)|just (?:wanted|a quick|sharing)|quick update"
    r"|wanted to (?:share|flag|let you know|ensure)|nothing urgent|out of (?:the )?office|will be out|summary|recap"
    r"|snapshot|newsletter|sharing|(?:is|are) now (?:live|available|complete|in effect)|on (?:track|schedule)"
    r"|visibility|minutes of|happy to (?:discuss|answer|dig)|no (?:changes|delays|impact)"
    r"|(?:will|won't) (?:send|share|confirm|follow))\b",
    re.IGNORECASE,
)
_SELLS = re.compile(
    r"\b(?:free|offer|discount|% off|limited.time|exclusive|unsubscribe|click here|remove|opt.?out|save|deal|pricing"
    r"|subscri\w+|webinar|guarantee|order now|act now|pills?|cheap|viagra|cialis|rolex|replica|mortgage|investment"
    r"|sponsor\w*|last chance|reserved?|waitlist|seats?|membership|promotion\w*|plans|new arrivals|lock in|renew|sale"
    r"|per.cent|savings?|upgrade now|buy|purchase|trial|demo)\b",
    re.IGNORECASE,
)
_MEETING = re.compile(r"\b(?:invit(?:e|ation)|calendar|meeting|agenda|accepted|declined|rescheduled)\b", re.IGNORECASE)
_LINK = re.compile(r"https?\s?:|www\s?\.", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_APART = re.compile(r"\s[.,!?;:]\s|\b\w \w \w\b")
_THANKS = re.compile(r"\W*(?:thanks?|thank you|thx|ok|okay|great|sounds good|will do|got it)\b", re.IGNORECASE)


def facts(mail: Mail, at: datetime, own: Collection[str], names: Collection[str]) -> dict[str, float]:
    """Figures of about the same size, by name. `own`: the person's addresses, in lower case; `names`: what they are
    called, in lower case."""
    return {**_addressed(mail, own), **_sent(mail, at, own), **_said(mail, names)}


def recipients(mail: Mail) -> list[str]:
    """Whom it is addressed to, each once, in lower case."""
    return list(dict.fromkeys(each.email.lower() for each in (*mail.to, *mail.cc)))


def _addressed(mail: Mail, own: Collection[str]) -> dict[str, float]:
    to = [each.email.lower() for each in mail.to]
    everybody = recipients(mail)
    mine = [each for each in everybody if each in own]
    in_to = any(each in own for each in to)
    others = len(everybody) - len(mine)
    return {
        "addressed to you alone": float(in_to and not others),
        "addressed to you and few": float(in_to and 0 < others < _MANY),
        "addressed to you and many": float(in_to and others >= _MANY),
        "copied to you": float(bool(mine) and not in_to),
        "not addressed to you by name": float(not mine),
        "few recipients": 1 / max(1, len(everybody)),
        "number of recipients": math.log1p(len(everybody)),
        "your share of To": 1 / len(to) if in_to else 0.0,
        "you come first": float(bool(to) and to[0] in own),
        "others are copied": float(bool(mail.cc)),
    }


def _sent(mail: Mail, at: datetime, own: Collection[str]) -> dict[str, float]:
    email = mail.sender.email.lower() if mail.sender else ""
    local, _, domain = email.rpartition("@")
    return {
        "from a machine": float(mail.auto_submitted),
        "to a list or by mass mail": float(mail.bulk),
        "from a no-reply address": float(bool(NO_REPLY.search(local))),
        "from an office's address": float(bool(_MASS.search(email))),
        "sender has a name": float(bool(mail.sender and mail.sender.name)),
        "digits in the sender's address": float(any(map(str.isdigit, local))),
        "sender has a first and a last name": float(bool(re.fullmatch(r"[a-z]+[._][a-z]+", local))),
        "from your own domain": float(any(domain == each.rpartition("@")[2] for each in own)),
        "from an unusual domain": float(domain.rpartition(".")[2] not in _COMMON_ENDINGS),
        "answers go elsewhere": float(bool(mail.reply_to) and mail.reply_to[0].email.lower() != email),
        "is a reply": float(bool(REPLY_SUBJECT.match(mail.subject)) or bool(mail.in_reply_to)),
        "is forwarded": float(bool(FORWARD_SUBJECT.match(mail.subject))),
        "has files": float(bool(mail.attachments)),
        "holds an invitation": float(mail.event is not None),
        "hour (sine)": math.sin(math.tau * at.hour / 24),
        "hour (cosine)": math.cos(math.tau * at.hour / 24),
        "on a weekend": float(at.weekday() >= 5),
    }


def _said(mail: Mail, names: Collection[str]) -> dict[str, float]:
    body = mail.body[:_READ]
    tail, size = body[-_TAIL:], max(1, len(body))
    head = {word.lower() for word in _WORD.findall(body[:_HEAD].partition("\n")[0])}
    lines = [line for line in body.splitlines() if line.strip()]
    last = _WORD.findall(lines[-1])[:1] if lines else []
    name = _WORD.findall(mail.sender.name.lower())[:1] if mail.sender else []
    text = f"{mail.subject}\n{body}"
    return {
        "greets you": float(any(each in head for each in names)),
        "signed by its sender": float(bool(name) and [each.lower() for each in last] == name),
        "questions": math.log1p(body.count("?")),
        "a question near the end": float("?" in tail),
        "a question in the subject": float("?" in mail.subject),
        "asks near the end": float(bool(ASKS.search(tail))),
        "requests": math.log1p(len(_REQUEST.findall(text))),
        "presses": math.log1p(len(_URGENT.findall(text))),
        "only tells": math.log1p(len(_NEWS.findall(text))),
        "sells": math.log1p(len(_SELLS.findall(text))),
        "is about a meeting": math.log1p(len(_MEETING.findall(text))),
        "only thanks": float(bool(_THANKS.match(body)) and size < _TAIL),
        "links": math.log1p(len(_LINK.findall(body))),
        "length": math.log1p(size) / 3,
        "a short mail": float(size < _TAIL / 2),
        "a long mail": float(size > 5 * _TAIL),
        "paragraphs": math.log1p(len(lines)),
        "exclamation marks": math.log1p(text.count("!")),
        "capitals": 5 * sum(map(str.isupper, body)) / size,
        "digits": 5 * sum(map(str.isdigit, body)) / size,
        "written in pieces": math.log1p(len(_APART.findall(body))),
        "no capitals": float(body.islower()),
    }
