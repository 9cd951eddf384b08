"""Sort a mail into ignore, notify or respond by the file of answers or fixed rules; the person's own preferences come
first."""

import re
from collections.abc import Sequence

from .answers import canned
from .protocol import JsonObject, PromptMessage
from .reading import PromptMail, read_mails, read_person
from .wording import patterns

_RULES = patterns("triage")
_PREFERENCES = patterns("preferences")
_NAMED_SENDER = re.compile(r"[\w.+-]*@?[\w-]+(?:\.[\w-]+)+")


def triage(messages: Sequence[PromptMessage]) -> JsonObject:
    """The `triage` answer: a class for the last mail of the newest message that holds one, and the reason."""
    mails = [mail for message in messages if message.role == "user" for mail in read_mails(message.text)]
    classification, reasoning = "notify", "The request holds no mail."
    if mails:
        found = canned(mails[-1])
        classification, reasoning = (found.entry.class_, found.entry.why) if found else _by_content(mails[-1])
        for rule in read_person(messages).rules:  # the newest stands last
            if wanted := _preference(rule, mails[-1].sender):
                classification, reasoning = wanted, f"Your preference: {rule}"
    return {"reasoning": reasoning, "classification": classification}


def _preference(rule: str, sender: str) -> str | None:
    domain = sender.partition("@")[2]
    named = [name.strip(".").lower() for name in _NAMED_SENDER.findall(rule)]
    about_sender = domain and any(
        name == sender or ("@" not in name[1:] and f".{domain}".endswith("." + name.lstrip("@"))) for name in named
    )
    words = _NAMED_SENDER.sub("", rule)
    wanted = next((name for name, pattern in _PREFERENCES.items() if about_sender and pattern.search(words)), None)
    return "notify" if wanted == "no_reply" else wanted


def _by_content(mail: PromptMail) -> tuple[str, str]:
    text = f"{mail.headers.get('subject', '')}\n{mail.new_text}"
    says = {name for name, pattern in _RULES.items() if pattern.search(text)}
    asks = "?" in text or "request" in says
    torn = len(_RULES["torn_text"].findall(text)) * 25 > len(text.split()) > 4
    if "automatic_reply" in says:
        return "notify", "An automatic reply."
    if "spam" in says or torn or _RULES["spam_domain"].search(mail.sender):
        return "ignore", "It looks like spam or phishing."
    if "promotion" in says and (not asks or len(_RULES["promotion"].findall(text)) > 1):
        return "ignore", "It looks like advertising or a newsletter."
    if "nothing_asked" in says:
        return "notify", "It informs and says that nothing is asked."
    if _RULES["automatic_sender"].search(mail.headers.get("from", "")):
        return "notify", "It comes from an automatic sender."
    if "news" in says and not asks:
        return "notify", "It informs and asks for nothing."
    return "respond", "It asks for something." if asks else "It is personal and may wait for an answer."
