"""From HTML to text, and from a whole text to what is new in it."""

import pytest

from email_assistant.mail.history import new_text
from email_assistant.mail.html_text import html_to_text
from email_assistant.mail.parse import parse_bytes

ARTICLE = """
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="border-collapse:collapse">
 <tr><td align="center" style="padding:24px 0 24px 0;font-size:0px;word-break:break-word;background:#f4f4f4">
  <table width="600" cellpadding="0" cellspacing="0"><tr><td style="font-family:Helvetica,Arial,sans-serif">
   <a href="https://click.mailer.example/f/a/{n}abcdefghijklmnopqrstuvwxyz0123456789~~/AAQRxQA~/{n}?utm_source=nl"
      target="_blank" style="text-decoration:none;color:#1a1a1a"><img src="https://img.mailer.example/{n}.png"
      width="560" height="280" alt="" style="display:block;border:0;outline:none"></a>
   <h2 style="margin:0;font-size:22px;line-height:28px;font-weight:700;color:#111">Release {n} is out</h2>
   <p style="margin:12px 0;font-size:15px;line-height:22px;color:#444">Faster builds and fewer surprises, part {n}.</p>
   <a href="https://click.mailer.example/f/b/{n}abcdefghijklmnopqrstuvwxyz0123456789~~/AAQRxQA~/{n}?utm_source=nl"
      style="display:inline-block;padding:12px 24px;background:#0a66c2;color:#fff;font-size:15px">Read more</a>
  </td></tr></table></td></tr></table>
"""
NEWSLETTER = f"""<!DOCTYPE html><html><head><title>Newsletter</title><style>.a{{color:red}}</style></head><body>
<div style="display:none;max-height:0;overflow:hidden">Preheader nobody sees {"&zwnj;&nbsp;" * 80}</div>
<a href="https://mailer.example/v">View in browser</a>
{"".join(ARTICLE.format(n=n) for n in range(17))}
<p>You are receiving this because you signed up. <a href="https://mailer.example/u">Unsubscribe</a></p>
<p>© 2026 Mailer Inc.</p><img src="https://open.mailer.example/o.gif" width="1" height="1" alt="pixel">
</body></html>"""


def test_newsletter_becomes_small() -> None:
    headers = b"List-Unsubscribe: <https://mailer.example/u>\nContent-Type: text/html; charset=utf-8\n\n"
    mail = parse_bytes(headers + NEWSLETTER.encode())
    assert len(NEWSLETTER) > 20_000
    assert len(mail.body) < 1_350
    assert mail.body.startswith("Release 0 is out\n\nFaster builds and fewer surprises, part 0.\n\nRead more")
    assert "Release 16 is out" in mail.body
    for gone in ("Preheader", "pixel", "http", "Unsubscribe", "©", "View in browser", "color"):
        assert gone not in mail.body
    assert "Unsubscribe" in mail.text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>One</p><p>Two<br>Three</p>", "One\n\nTwo\nThree"),
        ("<div>Hi</div><div><br></div><div>there</div>", "Hi\n\nthere"),
        ("a  <b>b</b>\n c", "a b c"),
        ("<ol><li>x<li>y</ol><ul><li>z</ul>", "1. x\n2. y\n\n- z"),
        ("<table><tr><th>Item<th>Price<tr><td>Tea<td>3 €</table>", "Item | Price\nTea | 3 €"),
        ("<pre>a\n\n  b</pre>", "a\n\n  b"),
        ("<pre>a\n   \nb</pre>", "a\n\nb"),
        ("x<script>evil()</script><style>p{}</style><!-- no -->y", "xy"),
        ("<p>seen</p><p style='DISPLAY: none'>unseen <b>x</b></p><p>too", "seen\n\ntoo"),
        ("<td style='font-size:0px'>gap<p style='font-size:14px'>text</p></td>", "text"),
        ("<p style='font-size:small'>small</p>", "small"),
        ("<p hidden>only this</p>", "only this"),  # better shown than lost
        ('<img src=x alt="A chart of sales" width=300> <img alt="logo.png"> <img alt=px width=1 height=1>',
         "A chart of sales"),
        ('<a href="https://x.example/a?utm_source=n">the report</a>', "the report"),
        ('the form is <a href="https://x.example/a?id=1&utm_source=n">here</a>.',
         "the form is here (https://x.example/a?id=1)."),
        ('<a href="https://evil.example/p">www.bank.example</a>', "www.bank.example (evil.example)"),
        ('<a href="https://bank.example@evil.example/p">bank.example</a>', "bank.example (evil.example)"),
        ('<a href="https://www.bank.example/p">bank.example</a>', "bank.example"),
        ('<a href="mailto:ann@example.org">Ann</a>', "Ann (ann@example.org)"),
        ("Yes<blockquote type=cite>Can you?<br>Soon</blockquote>", "Yes\n\n> Can you?\n> Soon"),
        ("Hi<blockquote style='margin:0 0 0 40px'>indented</blockquote>", "Hi\n\nindented"),
        ("Meet <s>Thursday</s> Friday", "Meet ~~Thursday~~ Friday"),
        ("10<sup>6</sup> €, m<sup>2</sup>, the 5<sup>th</sup>, H<sub>2</sub>O", "10^6 €, m^2, the 5th, H2O"),
        ("<ol start=3><li>c<li><p>d</p></ol>", "3. c\n\n4. d"),
        ("<table border=1><tr><td>Who<td>Mon<td>Tue<tr><td>Ann<td><td>x</table>", "Who | Mon | Tue\nAnn |  | x"),
        ("<table><tr><td>Who<td><td>Tue<tr><td>Ann<td><td>x</table>", "Who | Tue\nAnn | x"),
        ("<table><tr><td><p>Tea</p><td><p>3 €</p><tr><td><p>Milk</p><td><p>1 €</p></table>", "Tea | 3 €\nMilk | 1 €"),
        ("<table><tr><td><h2>Title</h2><p>Words</p></table>", "Title\n\nWords"),
        ("<table><tr>Ring me<td>a<td>b</table>", "Ring me\na\nb"),
        ("<table><tr><td>a<td>b</td><p>Ring me</p></tr><tr><td>c<td>d</table>", "a\nb\n\nRing me\n\nc | d"),
        ("Bye<br>-- <br>Ann", "Bye\n-- \nAnn"),
        ('<a href="https://eur01.safelinks.protection.outlook.com/?url=https%3A%2F%2Fx.example%2Fa%3Fid%3D1&data=05">here</a>',
         "here (https://x.example/a?id=1)"),
        ("Caf&eacute; &lt;b&gt; &#128512;", "Café <b> 😀"),
        ("", ""),
    ],
)  # fmt: skip
def test_html_to_text(html: str, text: str) -> None:
    assert html_to_text(html) == text


@pytest.mark.parametrize("tag", ["<div>", "<b>", "<table><tr><td>", "<blockquote type=cite>", "<ul><li>"])
def test_deeply_nested_html_keeps_its_text(tag: str) -> None:
    assert "hello" in html_to_text(tag * 50_000 + "hello" + "</i>" * 10_000)


@pytest.mark.parametrize("piece", ["<p>a", "<", "&", "<a href='", "<!--", "</b>", "<td>x", "\u200b "])
def test_a_megabyte_of_anything_is_converted(piece: str) -> None:
    assert isinstance(html_to_text(piece * (1_000_000 // len(piece))), str)


ATTRIBUTIONS = [
    "On Tue, May 5, 2026 at 10:15 AM Ann Smith <ann@example.org> wrote:",
    "On Tue, May 5, 2026 at 10:15 AM Ann Marie Smith-Jones\n<ann@example.org>\nwrote:",
    "On 2026-05-05T10:15:00Z, Ann <ann@example.org> wrote:",
    "Am 05.05.26 um 10:15 schrieb Ann Smith:",
    "Am Di., 5. Mai 2026 um 10:15 Uhr schrieb Ann <ann@example.org>:",
    "Ann Smith schrieb am 05.05.2026 10:15:",
    "Le mar. 5 mai 2026 à 10:15, Ann <ann@example.org> a écrit :",
    "El mar, 5 may 2026 a las 10:15, Ann (<ann@example.org>) escribió:",
    "Il giorno mar 5 mag 2026 alle ore 10:15 Ann <ann@example.org> ha scritto:",
    "Op di 5 mei 2026 om 10:15 schreef Ann <ann@example.org>:",
    "Em ter., 5 de mai. de 2026 às 10:15, Ann <ann@example.org> escreveu:",
    "Den tis 5 maj 2026 kl 10:15 skrev Ann <ann@example.org>:",
    "2026年5月5日(火) 10:15 Ann <ann@example.org>:",
]


@pytest.mark.parametrize("attribution", ATTRIBUTIONS)
@pytest.mark.parametrize("history", ["> Can you come?\n>\n> Ann", "Can you come?\n\nAnn"])
def test_history_under_a_reply_is_cut(attribution: str, history: str) -> None:
    assert new_text(f"Yes, gladly.\n\n{attribution}\n\n{history}\n") == "Yes, gladly."


@pytest.mark.parametrize(
    "block",
    [
        "From: Ann <ann@example.org>\nSent: Tuesday, May 5, 2026 10:15\nTo: Bob\nSubject: Lunch",
        "*From:* Ann <ann@example.org>\n*Date:* Tuesday, May 5, 2026\n*To:* Bob\n*Subject:* Lunch",
        "Von: Ann\nGesendet: Dienstag, 5. Mai 2026 10:15\nAn: Bob\nBetreff: Essen",
        "De : Ann\nEnvoyé : mardi 5 mai 2026 10:15\nÀ : Bob\nObjet : Déjeuner",
        "________________________________\nFrom: Ann\nSent: 5 May 2026\nTo: Bob\nSubject: Lunch",
        "-----Original Message-----\nFrom: Ann",
    ],
)
def test_outlook_history_is_cut(block: str) -> None:
    assert new_text(f"Yes, gladly.\n\n{block}\n\nCan you come?") == "Yes, gladly."


def test_several_levels_of_history_are_cut() -> None:
    text = "Yes.\n\nOn 5 May 2026 10:15, Ann wrote:\n> Well?\n\nOn 4 May 2026 10:15, Bob wrote:\n> Hm.\n>> Hello?"
    assert new_text(text) == "Yes."


def test_inline_answers_keep_their_questions() -> None:
    text = "On 5 May 2026 10:15, Ann <ann@example.org> wrote:\n> Can you come?\nYes.\n> When?\nAt five.\n> Bye\n> Ann\n"
    body = new_text(text)
    assert "> Can you come?\nYes.\n> When?\nAt five." in body
    assert "Bye" not in body


@pytest.mark.parametrize(
    "sentence", ["On Monday I fly to Rome", "On Monday I fly.", "Thanks, see you at 5.", "See you. I asked Ann:"]
)
@pytest.mark.parametrize(
    "attribution", ["On 5 May 2026 10:15, Ann wrote:", "ann@example.org wrote:", "Ann <a@b.example>, 5 May 2026 10:15:"]
)
def test_a_sentence_directly_above_the_history_is_kept(sentence: str, attribution: str) -> None:
    assert new_text(f"Hi,\n\n{sentence}\n{attribution}\n> Can you come?") == f"Hi,\n\n{sentence}"


def test_a_dated_sentence_without_its_full_stop_above_the_history_is_kept() -> None:
    text = "Hi,\n\nOn Monday at 5 I fly to Rome\nOn 5 May 2026 10:15, Ann wrote:\n> Can you come?"
    assert new_text(text) == "Hi,\n\nOn Monday at 5 I fly to Rome"


def test_a_sentence_like_a_header_above_the_history_is_kept() -> None:
    block = "From: Ann\nSent: 5 May 2026\nTo: Bob\nSubject: Lunch"
    text = f"Hi,\n\nFrom: the office, that is.\n\nI come.\n\n{block}\n\nCan you come?"
    assert new_text(text) == "Hi,\n\nFrom: the office, that is.\n\nI come."


def test_a_signature_ends_where_another_mail_begins() -> None:
    history = "On 5 May 2026 10:15, Ann wrote:\n> Can you come?\nYes, at five."
    assert new_text(f"Hi, my answers:\n-- \nBob\n\n{history}") == f"Hi, my answers:\n\n{history}"
    forwarded = "---------- Forwarded message ---------\nFrom: Ann\nDate: 5 May 2026\n\nthe content"
    assert new_text(f"Please handle.\n-- \nBob\n\n{forwarded}", subject="Fwd: x").endswith("the content")


def test_a_quotation_that_a_colon_introduces_is_kept() -> None:
    text = "Is this clause right?\nThe contract says:\n\n> The fee is due in May."
    assert new_text(text) == text


def test_a_disclaimer_takes_no_words_with_it() -> None:
    disclaimer = (
        "This e-mail is confidential and intended solely for the addressee. If you have received this e-mail in error,"
        " please delete it at once."
    )
    assert new_text(f"Hello,\n\nPlease pay 300 € by Friday.\n{disclaimer}") == "Hello,\n\nPlease pay 300 € by Friday."


def test_long_quotation_before_an_answer_is_shortened() -> None:
    quoted = "\n".join(f"> line {number}" for number in range(100))
    body = new_text(f"On 5 May 2026 10:15, Ann wrote:\n{quoted}\n\nI agree.")
    assert body.endswith("> line 99\n\nI agree.")
    assert "> […]\n> line 90\n" in body
    assert "line 50" not in body


@pytest.mark.parametrize("top", ["See below.", "FYI", "My answers are inline.", "Siehe unten, kannst du das machen?"])
def test_history_that_the_sender_points_to_is_kept(top: str) -> None:
    assert "Can you come?" in new_text(f"{top}\n\nOn 5 May 2026 10:15, Ann <a@b.example> wrote:\n> Can you come?")


@pytest.mark.parametrize("subject", ["Fwd: Lunch", "FW: Lunch", "WG: Essen"])
def test_forwarded_mail_is_kept(subject: str) -> None:
    text = "Please handle.\n\nFrom: Ann\nSent: 5 May 2026\nTo: Bob\nSubject: Lunch\n\nCan you come?"
    assert "Can you come?" in new_text(text, subject=subject)


def test_forward_mark_is_kept_whatever_the_subject() -> None:
    text = (
        "Hi\n\n---------- Forwarded message ---------\nFrom: Ann\nDate: 5 May 2026\nSubject: x\nTo: Bob\n\nthe content"
    )
    assert "the content" in new_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "From: the office\nTo: the airport\nSubject: travel\n\nplease book",
        "Please book:\n\nFrom: Berlin\nTo: Paris\nDate: 5 May 2026\nSeats: 2\n\nThanks",
        "Agenda\n\n--\n\nFirst item",
        "Hi\n\n--\nCan you come?",
        "Hi\n\nThis message is for the whole team: please delete the old plan from your folders by Friday, 8 May, and"
        " tell Ann once you have done so.",
        "Hi\n\nThis is confidential, so please delete the older message of 5 May, which I sent in error, before you"
        " show the new one to anybody else: can you do that?",
        "On reflection I'd say yes. As I once wrote:\nthere is no hurry.",
        "Agenda\n--\nFirst item\nSecond item",
        "- one\n- two\n- three",
        "Thanks,\nBob\n\nPS: please send the invoice",
        "Please keep this message confidential until Monday.",
        "> only a quotation",
        "How do I unsubscribe my team?",
    ],
)
def test_what_has_no_clear_mark_is_kept(text: str) -> None:
    assert new_text(text, bulk=True) == text


@pytest.mark.parametrize(
    "tail",
    [
        "-- \nBob Smith\n+49 123",
        "\n--\nBob Smith\n+49 123",
        "Sent from my iPhone",
        "Von meinem iPhone gesendet",
        "Get Outlook for iOS",
        "\n_______________________________________________\nproject mailing list\nhttps://lists.example.org",
        "\nThis e-mail and any attachments are confidential and intended solely for the use of the addressee. If you"
        " received this message in error, please delete it.\n\nSent from my phone",
    ],
)
def test_signatures_and_boilerplate_are_cut(tail: str) -> None:
    assert new_text(f"I'll come at five.\nBob\n{tail}\n") == "I'll come at five.\nBob"


def test_signature_above_history() -> None:
    assert new_text("Yes.\n\n-- \nBob\n\nOn 5 May 2026 10:15, Ann wrote:\n" + "> x\n" * 40) == "Yes."


def test_body_is_never_empty_when_the_text_is_not() -> None:
    text = "On 5 May 2026 10:15, Ann <ann@example.org> wrote:\n> Can you come?"
    assert "Can you come?" in new_text(text)


def test_openpgp_frame_is_removed() -> None:
    text = (
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nMeet at five.\n"
        "-----BEGIN PGP SIGNATURE-----\n\niQEz\n-----END PGP SIGNATURE-----\n"
    )
    assert new_text(text) == "Meet at five."


def test_tracking_in_plain_text_urls_is_removed() -> None:
    assert new_text("See https://x.example/a?id=7&utm_source=n&fbclid=zzz now") == "See https://x.example/a?id=7 now"
    assert new_text("See https://t.example/" + "x" * 500 + " now") == "See https://t.example/… now"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("(https://x.example/a?utm_source=n). Then", "(https://x.example/a). Then"),
        ("https://x.example/?utm_a=1，请在星期五回复", "https://x.example/，请在星期五回复"),
        (f"https://x.example/{'x' * 300}请在星期五回复", "https://x.example/…请在星期五回复"),
        ("https://x.example/?a=1,2&utm_a=1&b", "https://x.example/?a=1,2&b"),
        ("https://x.example/a#utm_source=n", "https://x.example/a"),
        ("https://www.google.com/url?sa=t&q=https%3A%2F%2Fx.example%2Fa", "https://x.example/a"),
        ("https://urldefense.com/v3/__https://x.example/a__;!!abc$", "https://x.example/a"),
        (
            "https://www.google.com/url?q=https%3A%2F%2Fx.example%0Aa",
            "https://www.google.com/url?q=https%3A%2F%2Fx.example%0Aa",
        ),
    ],
)
def test_urls_in_text(text: str, cleaned: str) -> None:
    assert new_text(f"See {text} now") == f"See {cleaned} now"


def test_html_reply_of_gmail() -> None:
    html = (
        '<div dir="ltr">Yes, five is fine.</div><br><div class="gmail_quote"><div class="gmail_attr">'
        'On Tue, May 5, 2026 at 10:15 AM Ann &lt;<a href="mailto:ann@example.org">ann@example.org</a>&gt; wrote:<br>'
        '</div><blockquote class="gmail_quote"><div>Can you come?</div></blockquote></div>'
    )
    mail = parse_bytes(b"Content-Type: text/html\n\n" + html.encode())
    assert mail.body == "Yes, five is fine."
    assert "> Can you come?" in mail.text


def test_html_reply_of_outlook() -> None:
    html = (
        "<p class=MsoNormal>Yes, five is fine.<o:p></o:p></p><div style='border-top:solid #E1E1E1 1.0pt'>"
        "<p class=MsoNormal><b>From:</b> Ann &lt;ann@example.org&gt;<br><b>Sent:</b> Tuesday, May 5, 2026 10:15<br>"
        "<b>To:</b> Bob<br><b>Subject:</b> Lunch</p></div><p>Can you come?</p>"
    )
    assert parse_bytes(b"Content-Type: text/html\n\n" + html.encode()).body == "Yes, five is fine."
