"""Generated mail, of parts that are known: cleaning keeps all that its sender wrote, and drops all else.

`EMAIL_ASSISTANT_FUZZ_EXAMPLES` sets the number of mails for each test; the default keeps the run short.
"""

import os
import re
from base64 import b64encode
from dataclasses import dataclass
from html import escape
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_bytes
from email_assistant.mail.prompt import LEFT_OUT, for_prompt

MAILS = settings(
    max_examples=int(os.environ.get("EMAIL_ASSISTANT_FUZZ_EXAMPLES", "50")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# --- what a person writes

TEMPLATES = st.sampled_from(
    ["Can you come on {day} at {time}?", "Please pay {money} to {name} by {day}.", "The new address is {place}.",
     "The plan is at https://docs.example/{number}/plan?id={number} for now.", "{name} says {number} is too many.",
     "On {day} {name} and I wrote: nothing was decided.", "From: the office, to: {place}, on {day}.",
     "Subject: to change, the date is {day}.", "Ich komme am {day} um {time}, wie {name} schrieb.",
     "J'ai par erreur envoyé la facture {number} à {name}; pouvez-vous l'annuler et rembourser {money} avant {day} ?",
     "I was sent {number} by mistake, so please delete the older one and tell {name} that it is confidential now.",
     "How do I unsubscribe {number} people from the list?", "Update the privacy policy by {day}, says {name}.",
     "Inviato da {name} ieri, {money}.", "Gesendet von {name} am {day}.", "Sent from {place} to {name}.",
     "Mail {name} at {name}{number}@example.org about {money}.",
     "请在{day}前付款{money}，谢谢。", "{number}) Yes, {money}.",
     "{name} wrote to me on {day} at {time} and asks for {money}:", "Is this original message still valid?",
     "See https://x.example/a?id={number}&utm_source=mail. It is due on {day}!", "* {name}: {money}",
     "{name} | {money}",
     "    for item in range({number}):", "Total:\t{money}", "--{name}-- is the code word.",
     "C'est {money}, pas {number}."]
)  # fmt: skip
FACTS = st.fixed_dictionaries(
    {
        "day": st.sampled_from(["5 May 2026", "2026-05-05", "Friday", "05.05.2026"]),
        "time": st.sampled_from(["10:15", "5 pm", "17 Uhr"]),
        "money": st.sampled_from(["300 €", "$1,250.00", "CHF 40.-", "1.250,00 EUR"]),
        "name": st.sampled_from(["Zoë", "Bob", "O'Neil", "Jürgen", "Ann"]),
        "place": st.sampled_from(["12 Mill Road, Oxford", "Hauptstraße 5, 10115 Berlin"]),
        "number": st.integers(1, 99_999).map(str),
    }
)
SENTENCES = st.tuples(TEMPLATES, FACTS).map(lambda pair: pair[0].format(**pair[1]))
PARAGRAPHS = st.lists(st.lists(SENTENCES, min_size=1, max_size=4), min_size=1, max_size=5)
GREETINGS = st.sampled_from(["Hi Bob,", "Dear Ms Smith,", "Hallo Jürgen,", "Bonjour,"])

# --- what programs add

ATTRIBUTIONS = st.sampled_from(
    ["On Tue, May 5, 2026 at 10:15 AM Ann Old <old@example.org> wrote:",
     "On Tue, May 5, 2026 at 10:15 AM Ann Marie Smith-Jones Old\n<old@example.org> wrote:",
     "On 5 May 2026, at 10:15, Ann Old <old@example.org> wrote:", "On 05/05/2026 10:15, Ann Old wrote:",
     "Am 05.05.26 um 10:15 schrieb Ann Old:", "Am Di., 5. Mai 2026 um 10:15 Uhr schrieb Ann Old <\nold@example.org>:",
     "Le mar. 5 mai 2026 à 10:15, Ann Old <old@example.org> a écrit :",
     "El mar, 5 may 2026 a las 10:15, Ann Old (<old@example.org>) escribió:",
     "Op di 5 mei 2026 om 10:15 schreef Ann Old <old@example.org>:",
     "Il giorno mar 5 mag 2026 alle ore 10:15 Ann Old <old@example.org> ha scritto:",
     "Em ter., 5 de mai. de 2026 às 10:15, Ann Old <old@example.org> escreveu:",
     "tir. 5. maj 2026 kl. 10.15 skrev Ann Old <old@example.org>:",
     "wt., 5 maj 2026 o 10:15 Ann Old <old@example.org> napisał(a):",
     "ti 5. toukok. 2026 klo 10.15 Ann Old (old@example.org) kirjoitti:",
     "вт, 5 мая 2026 г. в 10:15, Ann Old <old@example.org>:",
     "Ann Old <old@example.org>, 5 May 2026 Sal, 10:15 tarihinde şunu yazdı:",
     "2026年5月5日(火) 10:15 Ann Old <old@example.org>:", "Ann Old <old@example.org> 于2026年5月5日周二 10:15写道："]
)  # fmt: skip
HEADER_NAMES = st.sampled_from(
    [("From", "Sent", "To", "Subject"), ("From", "Date", "To", "Subject"), ("Von", "Gesendet", "An", "Betreff"),
     ("De", "Envoyé", "À", "Objet"), ("De", "Enviado el", "Para", "Asunto"), ("De", "Enviada em", "Para", "Assunto"),
     ("Da", "Inviato", "A", "Oggetto"), ("Van", "Verzonden", "Aan", "Onderwerp"), ("Från", "Skickat", "Till", "Ämne"),
     ("Fra", "Sendt", "Til", "Emne"), ("Od", "Wysłano", "Do", "Temat"), ("От", "Отправлено", "Кому", "Тема")]
)  # fmt: skip
RULES = st.sampled_from(["", "________________________________\n", "-----Original Message-----\n",
                         "-----Ursprüngliche Nachricht-----\n"])  # fmt: skip
FORWARD_MARKS = st.sampled_from(
    ["---------- Forwarded message ---------", "Begin forwarded message:",
     "-------- Weitergeleitete Nachricht --------",
     "-------- Message transféré --------", "Anfang der weitergeleiteten Nachricht:", "Inicio del mensaje reenviado:"]
)  # fmt: skip
DEVICE_LINES = ["Sent from my iPhone", "Von meinem iPhone gesendet", "Get Outlook for iOS", "Envoyé de mon iPhone",
                "Enviado desde mi iPhone", "Inviato da iPhone", "Verzonden vanaf mijn iPhone"]  # fmt: skip
DISCLAIMERS = [
    "This e-mail and its attachments are confidential and intended solely for the addressee. If you have received it in"
    " error, please notify the sender and delete it.",
    "Diese Nachricht enthält vertrauliche Informationen. Wenn Sie nicht der richtige Adressat sind, informieren Sie"
    " bitte den Absender und vernichten Sie diese E-Mail.",
    "Ce message est confidentiel et réservé à ses destinataires. Si vous l'avez reçu par erreur, merci de le supprimer"
    " et d'en avertir l'expéditeur.",
]
SIGNATURE = "Ann New\nDirector of Trees\n+49 30 12345678\nwww.signature.example"
SIGNATURES = st.sampled_from(["", f"\n-- \n{SIGNATURE}"])
TAILS = st.sampled_from(["", *DEVICE_LINES, *DISCLAIMERS, f"{DISCLAIMERS[0]}\n\n{DEVICE_LINES[0]}"])
OLD = ["Could the old question be answered?", "The old price was 17 €.", "Old regards, Ann Old"]


@dataclass(frozen=True)
class History:
    """Another mail's text as a program puts it under a reply."""

    plain: str
    html: str


@st.composite
def quoted(draw: st.DrawFn) -> History:
    attribution = draw(ATTRIBUTIONS)
    name, css = draw(st.sampled_from([("gmail_quote", ""), ("", 'type="cite"')]))
    return History(
        plain=f"{attribution}\n{draw(st.sampled_from(['', chr(10)]))}" + "\n".join(f"> {line}" for line in OLD),
        html=f'<div class="{name}"><div>{in_html(attribution)}<br></div><blockquote class="{name}" {css}>'
        + "".join(f"<p>{escape(line)}</p>" for line in OLD)
        + "</blockquote></div>",
    )


@st.composite
def unquoted(draw: st.DrawFn) -> History:
    names = draw(HEADER_NAMES)
    values = ("Ann Old <old@example.org>", "Tuesday, 5 May 2026 10:15", "Ann New", "Old question")
    lines = [f"{name}: {value}" for name, value in zip(names, values, strict=True)]
    bold = [f"<b>{name}:</b> {escape(value)}" for name, value in zip(names, values, strict=True)]
    return History(
        plain=draw(RULES) + "\n".join([*lines, "", *OLD]),
        html="<hr><div><p class=MsoNormal>"
        + "<br>".join(bold)
        + "</p></div>"
        + "".join(f"<p>{line}</p>" for line in OLD),
    )


HISTORIES = quoted() | unquoted()
NOTHING = History("", "")


def in_html(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def plain_part(text: str) -> bytes:
    return b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n" + b64encode(
        text.encode()
    )


def html_part(html: str) -> bytes:
    return b"Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n" + b64encode(
        html.encode()
    )


def both(plain: str, html: str) -> bytes:
    parts = b"".join(b"--edge\r\n" + part + b"\r\n" for part in (plain_part(plain), html_part(html)))
    return b"Content-Type: multipart/alternative; boundary=edge\r\n\r\n" + parts + b"--edge--\r\n"


FORMS = st.sampled_from(["plain", "html", "both"])


def mail_of(form: str, plain: str, html: str, subject: str = "Re: Old question") -> Mail:
    data = {"plain": plain_part(plain), "html": html_part(html), "both": both(plain, html)}[form]
    return parse_bytes(f"From: Ann New <new@example.org>\r\nSubject: {subject}\r\n".encode() + data)


def words(text: str) -> str:
    """Text as a reader takes it: white space is one blank, and tracking is no part of a URL."""
    return " ".join(text.replace("&utm_source=mail", "").split())


def assert_in_order(sentences: list[str], text: str) -> None:
    rest = words(text)
    for sentence in sentences:
        before, found, rest = rest.partition(words(sentence))
        assert found, f"{sentence!r} is lost after {before[-200:]!r}"


def block_html(paragraphs: list[list[str]]) -> str:
    return "".join(f"<p>{'<br>'.join(map(escape, lines))}</p>" for lines in paragraphs)


def block_plain(paragraphs: list[list[str]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in paragraphs)


# --- what must hold


@MAILS
@given(FORMS, GREETINGS, PARAGRAPHS, SIGNATURES, TAILS, HISTORIES | st.just(NOTHING))
def test_new_text_survives_and_the_rest_is_gone(
    form: str, greeting: str, paragraphs: list[list[str]], signature: str, tail: str, history: History
) -> None:
    paragraphs = [[greeting], *paragraphs, ["Best, Ann New"]]
    plain = "\n\n".join(filter(None, [block_plain(paragraphs) + signature, tail, history.plain]))
    html = (
        block_html(paragraphs)
        + "".join(f"<div>{in_html(text)}</div><br>" for text in (signature, tail) if text)
        + history.html
        + '<img src="https://track.example/open.gif" width="1" height="1" alt="track">'
    )
    mail = mail_of(form, plain, html)
    assert_in_order([sentence for lines in paragraphs for sentence in lines], mail.body)
    for junk in (*OLD, "Old question", "old@example.org", "utm_", "track", "Director of Trees"):
        assert junk not in mail.body
    for junk in tail.split("\n\n") if tail else []:
        assert junk not in mail.body
    assert len(mail.body) <= len(mail.text)


ANSWERS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=5)


@MAILS
@given(FORMS, st.sampled_from(["", "Hi Ann,\n\n"]), ATTRIBUTIONS, ANSWERS, SIGNATURES, TAILS, st.booleans())
def test_inline_answers_keep_what_they_answer(
    form: str, top: str, attribution: str, pairs: list[tuple[str, str]], signature: str, tail: str, rest: bool
) -> None:
    pairs = [
        (f"Q{number}: {question.strip()}", f"A{number}: {answer}") for number, (question, answer) in enumerate(pairs)
    ]
    end = ["> Old regards, Ann Old"] if rest else []
    plain = "\n\n".join([f"{top}{attribution}", *(f"> {question}\n\n{answer}" for question, answer in pairs), *end])
    html = f"<p>{in_html(top)}{in_html(attribution)}</p>" + "".join(
        f'<blockquote type="cite"><p>{escape(question)}</p></blockquote><p>{escape(answer)}</p>'
        for question, answer in pairs
    )
    html += '<blockquote type="cite">Old regards, Ann Old</blockquote>' if rest else ""
    plain += "".join(filter(None, [signature, tail and f"\n\n{tail}"]))
    mail = mail_of(form, plain, html)
    assert_in_order([text for question, answer in pairs for text in (f"> {question}", answer)], mail.body)
    if form != "html":
        assert "Director of Trees" not in mail.body


@MAILS
@given(FORMS, SENTENCES, SIGNATURES, FORWARD_MARKS, HEADER_NAMES, PARAGRAPHS, st.sampled_from(["Fwd: x", "WG: x", "x"]))
def test_what_is_forwarded_survives(
    form: str, top: str, signature: str, mark: str, names: tuple[str, ...], paragraphs: list[list[str]], subject: str
) -> None:
    values = ("Ann Old <old@example.org>", "Tuesday, 5 May 2026 10:15", "Ann New", "Old question")
    block = "\n".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
    plain = f"{top}\n{signature}\n\n{mark}\n{block}\n\n{block_plain(paragraphs)}\n"
    html = f"<div>{in_html(top)}<br>{in_html(signature)}<br></div><br><div>{mark}<br>{in_html(block)}</div><br>"
    mail = mail_of(form, plain, html + block_html(paragraphs), subject)
    assert_in_order([top, "Old question", *(sentence for lines in paragraphs for sentence in lines)], mail.body)
    assert "Director of Trees" not in mail.body


@MAILS
@given(FORMS, HISTORIES)
def test_a_mail_of_nothing_but_history_is_not_empty(form: str, history: History) -> None:
    assert "The old price was 17 €." in mail_of(form, history.plain, history.html).body


@MAILS
@given(FORMS, st.sampled_from(["See below.", "FYI", "Siehe unten.", "Voir ci-dessous."]), SIGNATURES, HISTORIES)
def test_history_that_is_pointed_at_survives(form: str, top: str, signature: str, history: History) -> None:
    html = f"<p>{top}</p><div>{in_html(signature)}</div><br>{history.html}"
    assert_in_order([top, *OLD], mail_of(form, f"{top}\n{signature}\n\n{history.plain}", html).body)


@MAILS
@given(st.lists(st.tuples(SENTENCES, st.sampled_from(["here", "the contract", "Join meeting", "https://a.example/x"])),
                min_size=1, max_size=6))  # fmt: skip
def test_links_keep_their_text_and_a_usable_host(links: list[tuple[str, str]]) -> None:
    html = "".join(
        f"<p>{escape(sentence)} <a href='https://a.example/x/{number}?utm_source=n&amp;id={number}'>{label}</a></p>"
        for number, (sentence, label) in enumerate(links)
    )
    body = mail_of("html", "", html).body
    for number, (sentence, label) in enumerate(links):
        assert_in_order([sentence, label], body)
        if label in ("here", "Join meeting"):
            assert f"{label} (https://a.example/x/{number}?id={number})" in body
    assert "utm_" not in body


CELLS = st.sampled_from(["", "Tea", "3 €", "5 May 2026", "12 Mill Road", "x"])


@MAILS
@given(st.lists(st.lists(CELLS, min_size=2, max_size=5), min_size=1, max_size=5), st.sampled_from(["{}", "<p>{}</p>"]))
def test_tables_keep_each_value_in_its_row_and_column(rows: list[list[str]], form: str) -> None:
    width = max(map(len, rows))
    rows = [["first", *row, *[""] * (width - len(row))] for row in rows]
    html = "".join("<tr>" + "".join(f"<td>{form.format(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    lines = mail_of("html", "", f"<p>Before</p><table border=1>{html}</table><p>After</p>").body.split("\n")
    found = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("first")]
    assert [row + [""] * (width + 1 - len(row)) for row in found] == rows
    assert (lines[0], lines[-1]) == ("Before", "After")


@MAILS
@given(st.lists(SENTENCES, min_size=6, max_size=20), st.booleans(), st.booleans())
def test_a_list_mail_keeps_its_words_and_a_mass_mail_loses_its_frame(
    sentences: list[str], is_mass: bool, has_sheet: bool
) -> None:
    hidden = "class=pre" if has_sheet else "style='display:none;max-height:0'"
    head = (
        f"<style>.pre{{display:none}}</style><div {hidden}>Nobody sees this</div>"
        "<a href='https://m.example/v'>View in browser</a>"
    )
    foot = (
        "<p>You are receiving this because you signed up.</p><p><a href='https://m.example/u'>Unsubscribe</a> |"
        " <a href='https://m.example/p'>Privacy policy</a></p><p>© 2026 Mailer Inc., 1 Mill Road</p>"
    )
    html = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    data = html_part(head + html + foot if is_mass else html)
    mail = parse_bytes(b"List-Id: <list.example.org>\r\nSubject: News\r\n" + data)
    assert_in_order(sentences, mail.body)
    for junk in ("Nobody sees", "View in browser", "Unsubscribe |", "© 2026", "You are receiving"):
        assert junk not in mail.body


@MAILS
@given(PARAGRAPHS, HISTORIES)
def test_a_prompt_is_never_larger_than_its_mail(paragraphs: list[list[str]], history: History) -> None:
    assume(not block_plain(paragraphs).rstrip().endswith(":"))  # or it may be what introduces the history
    plain = f"{block_plain(paragraphs)}\n\n{history.plain}"
    mail = mail_of("plain", plain, "")
    empty = mail_of("plain", "x", "")
    frame = len(for_prompt(empty, "1", timezone=ZoneInfo("UTC"), limit=100)) - 1
    prompt = for_prompt(mail, "1", timezone=ZoneInfo("UTC"), limit=10_000, kept=())
    assert len(prompt.replace(f"\n\n{LEFT_OUT}", "")) - frame <= len(block_plain(paragraphs))
    assert not re.search(r"\n{3}", prompt)
