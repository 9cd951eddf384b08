"""A mail as a delimited block of a model's prompt, and as the plain text that a person is shown. Mail text is data: it
can't close its block."""

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime, tzinfo

from email_assistant.mail.address import Address
from email_assistant.mail.characters import clean
from email_assistant.mail.excerpt import LEAST, Measure, beginning, excerpt, tokens
from email_assistant.mail.history import Quoted, reading
from email_assistant.mail.message import Attachment, CalendarEvent, Mail

FEW_LISTED = 5  # recipients and attachments named before "and N more"
MOST_LISTED = 50
"""Recipients named where all may be answered; mail to more people is hardly ever meant to be answered to all."""
_MAX_HEADER = 500
_MAX_ENTRY = _MAX_HEADER // FEW_LISTED  # characters of one that is named
_HISTORY_TOKENS = 600  # of what is quoted: its head and its tail
_FRAME_TOKENS = 40  # of the line above it
_CHARACTERS = 4  # of a token, about
LEFT_OUT = "[What it quotes is left out here: it is stored.]"
_SHOWN = 3000  # characters of a mail that a person is shown as text
_KEPT = re.compile(r"^\[(Quoted by [^\n]{1,500}, not found in this mailbox):\]\n(>[^\n]*(?:\n>[^\n]*)*+)", re.MULTILINE)
_NOTE = re.compile(r"\n\(([^\n]*)\)\Z")
_ROOM_TO_SAY_SO = 40  # characters, where only the beginning of a text is left

_TAGS = ("mail", "calendar", "draft", "difference", "letter", "data")
"""Every block of data that a prompt may hold. What stands inside one can open or close none of them."""
_TAG = re.compile(rf"<(?=[\s/\\]*(?:{'|'.join(_TAGS)}))", re.IGNORECASE)
_ANY_TAG = re.compile(r"<(?![^<>@\s]+@[^<>@\s]+>)")
"""What may begin a tag of whatever name; an address in angle brackets is none."""
_BLOCK = re.compile(rf"(?P<start><(?P<tag>{'|'.join(_TAGS)})\b[^>]*>\n)(?P<data>.*?)(?P<end>\n</(?P=tag)>)", re.DOTALL)


def for_prompt(
    mail: Mail,
    mail_id: str,
    *,
    timezone: tzinfo,
    limit: int,
    measure: Measure = len,
    people: int = FEW_LISTED,
    kept: Sequence[Quoted] | None = None,
) -> str:
    """The mail between `<mail id="…">` and `</mail>`. Of a body that measures more than `limit` an excerpt is given, of
    bulk mail the beginning; of recipients so many `people` a line. `kept`: what it quotes that stands nowhere else; all
    of it, if that is not known.

    Times are in `timezone`. Only lines that say something are given."""
    below = clean(kept_history(mail, kept, limit // (2 if measure is tokens else 2 * _CHARACTERS)))
    # A mail is its sender's words first: they have half of the room at least.
    body = (beginning if mail.bulk else excerpt)(clean(mail.body), limit - measure(below), measure)
    headers = {
        "From": str(mail.sender or ""),
        "Reply-To": _reply_to(mail, people),
        "To": _people(mail.to, people),
        "Cc": _people(mail.cc, people),
        "Date": _written(mail.date, timezone),
        "Event": _event(mail.event, timezone),
        "Subject": mail.subject,
        "Attachments": _attachments(mail.attachments),
        "Note": mail.note,
    }
    lengths = dict.fromkeys(("Reply-To", "To", "Cc"), max(people * _MAX_ENTRY, _MAX_HEADER))
    lines = [
        f"{name}: {one_line(value, lengths.get(name, _MAX_HEADER))}" for name, value in headers.items() if value.strip()
    ]
    inner = _neutral("\n".join([*lines, "", body, *(["", below] if below else [])]).rstrip())
    return f'<mail id="{re.sub(r"[^A-Za-z0-9._:@-]", "", mail_id)}">\n{inner}\n</mail>'


def kept_history(mail: Mail, kept: Sequence[Quoted] | None, most: int = _HISTORY_TOKENS) -> str:
    """What a mail quotes that is not stored, as its sender's text: they may have changed it, or made it up. Where what
    it quotes is left out, that is said. Empty if it quotes nothing, or holds it in its own text. `most`: tokens."""
    left = [each for each in reading(mail.text, subject=mail.subject, bulk=mail.bulk).history if not each.in_body]
    shown = left if kept is None else kept
    if not shown:
        return LEFT_OUT if left else ""
    sender = one_line(mail.sender.name or mail.sender.email, _MAX_ENTRY) if mail.sender else "its sender"
    most = max(LEAST, min(most, _HISTORY_TOKENS) - _FRAME_TOKENS)
    text = excerpt("\n\n".join(each.text for each in shown), most, lambda part: tokens(part) + 2 * part.count("\n"))
    quoted = "\n".join(line if line.startswith(">") else f"> {line}".rstrip() for line in text.split("\n"))
    return f"[Quoted by {sender}, not found in this mailbox:]\n{quoted}"


def mail_as_text(mail: Mail, kept: Sequence[Quoted] = ()) -> str:
    """The mail as plain text: `Sender: subject`, its addresses, and what is new in it, of a long one head and tail.
    `kept`: what it quotes that stands nowhere else."""
    sender = mail.sender.name or mail.sender.email if mail.sender else "(no sender)"
    lines = [f"{sender}: {mail.subject or '(no subject)'}", ""]
    lines += [f"From: {mail.sender}"] if mail.sender else []
    lines += [f"To: {', '.join(map(str, mail.to))}"] if mail.to else []
    lines += ["", excerpt(mail.body, _SHOWN)]
    below = kept_history(mail, kept)
    lines += ["", below] if below else []
    lines += [f"({mail.note})"] if mail.note else []
    return "\n".join(lines)


def parts_of_mail_text(mail_text: str) -> tuple[str, str, str]:
    """Of a mail as text: whose words, that stand nowhere else, it quotes, and the quotation; and what is said of how it
    could be read."""
    quoted, note = _KEPT.search(mail_text), _NOTE.search(mail_text)
    return quoted[1] if quoted else "", quoted[2] if quoted else "", note[1] if note else ""


def delimited(tag: str, text: str) -> str:
    """Data of any kind as a block of a prompt, which nothing inside it can close. `tag` is one of those known here."""
    assert tag in _TAGS
    return f"<{tag}>\n{inert(text)}\n</{tag}>"


def block_lengths(text: str) -> list[int]:
    """Characters of data in each block of a prompt."""
    return [len(block["data"]) for block in _BLOCK.finditer(text)]


def shorten_blocks(text: str, ceiling: int) -> str:
    """A prompt with the data in each of its blocks cut to `ceiling` characters. The blocks' own tags stay, and a mail's
    headers."""
    return _BLOCK.sub(lambda block: f"{block['start']}{_shorten(block, ceiling)}{block['end']}", text)


def shorten(text: str, ceiling: int) -> str:
    """Text of at most `ceiling` characters, which says so where it was longer. `ceiling` has room for that."""
    if len(text) <= ceiling:
        return text
    return excerpt(text, ceiling) if ceiling >= LEAST else beginning(text, ceiling - _ROOM_TO_SAY_SO)


def _shorten(block: re.Match[str], ceiling: int) -> str:
    headers, gap, body = block["data"].partition("\n\n") if block["tag"] == "mail" else ("", "", block["data"])
    if len(headers) > ceiling // 2:
        return shorten(block["data"], ceiling)
    return f"{headers}{gap}{shorten(body, ceiling - len(headers) - len(gap))}"


def inert(text: str) -> str:
    """Data that can neither open nor close a block, nor hide anything from the person."""
    return _neutral(clean(text))


def rule(text: str) -> str:
    """A learned rule as one line of a prompt, which stands in no block: it can neither open nor close any."""
    return _ANY_TAG.sub("‹", unicodedata.normalize("NFKC", " ".join(clean(text).split())))


def one_line(text: str, limit: int = _MAX_HEADER) -> str:
    """`clean` text without line breaks, cut to `limit` characters."""
    return beginning(" ".join(clean(text).split()), limit).replace("\n", " ")


def _neutral(text: str) -> str:
    """Text in which no block's tag stands, nor anything that normalises to one."""
    if _TAG.search(folded := unicodedata.normalize("NFKC", text)):
        return _TAG.sub("‹", folded)
    return text


def _event(event: CalendarEvent | None, timezone: tzinfo) -> str:
    """When it is, where its calendar part alone would have to be converted."""
    if event is None:
        return ""
    return " to ".join(filter(None, (_written(event.start, timezone), _written(event.end, timezone))))


def _written(moment: datetime | None, timezone: tzinfo) -> str:
    if moment is None:
        return ""
    try:
        local = moment.astimezone(timezone)
    except OverflowError:  # the first or the last day that there is
        return ""
    return f"{local:%a} {local.day} {local:%b %Y %H:%M %z}"


def _reply_to(mail: Mail, most: int) -> str:
    """Given where answers would go to somebody other than the sender."""
    same = mail.sender is not None and [a.email.lower() for a in mail.reply_to] == [mail.sender.email.lower()]
    return "" if same else _people(mail.reply_to, most)


def _people(people: Sequence[Address], most: int) -> str:
    return _listed([str(person) for person in people], most)


def _attachments(attachments: Sequence[Attachment]) -> str:
    return _listed([f"{a.name or a.mime_type}{_size(a.size)}" for a in attachments], FEW_LISTED)


def _size(size: int | None) -> str:
    if size is None:
        return ""
    return f" ({size / 1_000_000:.1f} MB)" if size >= 1_000_000 else f" ({max(1, size // 1_000)} kB)"


def _listed(items: Sequence[str], most: int) -> str:
    shown = ", ".join(item[:_MAX_ENTRY] for item in items[:most])
    return f"{shown} and {len(items) - most} more" if len(items) > most else shown
