"""Sort a mail into ignore, notify or respond by fixed rules; the person's own preferences come first."""

import re
from collections.abc import Sequence
from typing import Any

from email_assistant_servers.demo_model.protocol import Message
from email_assistant_servers.demo_model.reading import Mail, read_mails, read_person
from email_assistant_servers.demo_model.wording import any_of

_NAMED_SENDER = re.compile(r"[\w.+-]*@?[\w-]+(?:\.[\w-]+)+")
_PREFERENCES = (
    ("ignore", any_of(r"ignor\w*")),
    ("notify", any_of(r"(?:no|not|never|\w+n['’]t)\b[^.]{0,20}\b(?:reply|replies|answer|respon[ds]\w*)")),
    ("notify", any_of(r"notif\w*")),
    ("respond", any_of(r"respon[ds]\w*|reply|replies|answer\w*|draft\w*")),
)
_SPAM = any_of(
    r"v.?[i1]+.?[a@]+.?g+r?r?a|cialis|vicodin|xanax|pharmacy|pills|prescriptions?|refinance|lottery|inheritance|rolex",
    r"you have been selected|account (?:is |was |has been |access )?suspended|verify (?:your|now)|act now|gift cards?",
    r"dear sir|best prices?|totally free|make money|claim your prize",
    r"konto (?:wurde )?gesperrt|sie haben gewonnen|compte (?:a été )?suspendu|vous avez gagné",
)
_SPAM_DOMAIN = re.compile(r"\.(?:biz|ru|top|cc|xyz|click|loan|win)$")
_TORN_TEXT = re.compile(r" [.,;!?:'/] ")  # words set apart from their punctuation, as filters are dodged
_PROMOTION = any_of(
    r"unsubscribe|newsletter|\d+ ?% (?:off|discount|rabatt)|discounts?|limited[- ]time|exclusive (?:offer|rate)",
    r"special (?:offer|deals?)|(?:offer|rate|quote|discount)s? (?:only )?(?:expires?|ends)|last chance|lock in|webinar",
    r"sponsor(?:ship)?|free trial|coupon|promo(?:tion)?s?|membership|view (?:this|it) in (?:your )?browser|sale ends",
    r"new arrivals|complimentary|dear customer|book a demo",
    r"rabatte?|sonderangebote?|gutschein|abmelden|abbestellen|désabonner|désinscrire|soldes|code promo",
)
_AUTOMATIC_SENDER = re.compile(
    r"no-?reply|do-?not-?reply|notifications?@|alerts?@|builds?@|\bci\b|automat|billing@|receipts?@|orders?@|news@"
    r"|mailer|bounces?@|system@",
    re.IGNORECASE,
)
_AUTOMATIC_REPLY = any_of(
    r"auto-?reply|automatic reply|out of (?:the )?office|abwesenheit\w*|nicht im büro",
    r"absence du bureau|réponse automatique",
)
_NOTHING_ASKED = any_of(
    r"no (?:\w+ )?(?:action|intervention|reply|response)|nothing (?:needed|required|urgent)|status update only",
    r"keine (?:aktion|antwort)|aucune (?:action|réponse)",
)
_NEWS = any_of(
    r"fyi|for your information|heads[- ]up|(?:status|quick|process|policy) update|reminder|announce\w*|sharing|summary",
    r"keep(?:ing)? you (?:in the loop|informed|posted)|wanted to (?:flag|share|let you know)|snapshot|statement",
    r"receipt|invoice|shipped|delivered|your order|build (?:failed|passed|succeeded)|deployed|release notes|confirmed",
    r"we['’]ve (?:streamlined|adjusted|updated|rolled out|implemented)",
    r"zur info|zur kenntnis|rechnung|bestellung|versandt|pour (?:votre )?info(?:rmation)?|facture|commande|expédié",
)
_REQUEST = any_of(
    r"(?:can|could|would|will) you|please (?!find|note|contact|reach)|let me know|confirm|clarif\w+|rsvp|feedback|asap",
    r"need(?:ed)? (?:your|by|to|a|the|you)|(?:we|i) need|your (?:input|thoughts|review|decision|approval)",
    r"urgent|critical|immediate(?:ly)?|blocker|by (?:eod|end of day|noon|\d+)|deadline|must be|mandatory|past due",
    r"kannst du|können sie|könnten sie|bitte|pouvez-vous|pourriez-vous|peux-tu|merci de|s'il vous plaît",
)


def triage(messages: Sequence[Message]) -> dict[str, Any]:
    """The `triage` answer: a class for the last mail of the newest message that holds one, and the reason."""
    mails = [mail for message in messages if message.role == "user" for mail in read_mails(message.text)]
    if not mails:
        return _result("notify", "The request holds no mail.")
    mail = mails[-1]
    for rule in reversed(read_person(messages).rules):  # the newest rule stands last
        wanted = _preference(rule, mail.sender)
        if wanted:
            return _result(wanted, f"Your preference: {rule}")
    return _by_content(mail)


def _preference(rule: str, sender: str) -> str | None:
    domain = sender.partition("@")[2]
    named = [name.strip(".").lower() for name in _NAMED_SENDER.findall(rule)]
    about_sender = domain and any(
        name == sender or ("@" not in name[1:] and f".{domain}".endswith("." + name.lstrip("@"))) for name in named
    )
    if not about_sender:
        return None
    return next((wanted for wanted, pattern in _PREFERENCES if pattern.search(_NAMED_SENDER.sub("", rule))), None)


def _by_content(mail: Mail) -> dict[str, Any]:
    text = f"{mail.headers.get('subject', '')}\n{mail.new_text}"
    domain = mail.sender.partition("@")[2]
    torn = len(_TORN_TEXT.findall(text)) * 25 > len(text.split()) > 4
    if _AUTOMATIC_REPLY.search(text):
        return _result("notify", "An automatic reply.")
    if _SPAM.search(text) or _SPAM_DOMAIN.search(domain) or torn:
        return _result("ignore", "It looks like spam or phishing.")
    promotion = _PROMOTION.findall(text)
    asks = "?" in text or _REQUEST.search(text)
    if len(promotion) > 1 or (promotion and not asks):
        return _result("ignore", "It looks like advertising or a newsletter.")
    if _NOTHING_ASKED.search(text):
        return _result("notify", "It informs and says that nothing is asked.")
    if _AUTOMATIC_SENDER.search(mail.headers.get("from", "")):
        return _result("notify", "It comes from an automatic sender.")
    if _NEWS.search(text) and not asks:
        return _result("notify", "It informs and asks for nothing.")
    return _result("respond", "It asks for something." if asks else "It is personal and may wait for an answer.")


def _result(classification: str, reasoning: str) -> dict[str, Any]:
    return {"reasoning": reasoning, "classification": classification}
