"""Letters that are longer than a prompt may be: whatever they are like, what is asked at their end is read."""

import random
import re
from collections.abc import Callable
from email.message import EmailMessage
from zoneinfo import ZoneInfo

import pytest

from email_assistant.mail.excerpt import excerpt, tokens
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_bytes
from email_assistant.mail.prompt import mail_as_text
from email_assistant.work.conversations import StoredMail, conversation_text, triage_text
from tests.benchmark.tokens import count_tokens

BERLIN = ZoneInfo("Europe/Berlin")
TRIAGE, DRAFTING = 1400, 3000
"""Tokens of mail text that a prompt may hold."""
REQUESTS = {
    "en": "Could you send me the signed lease by Friday?",
    "de": "Bitte schicken Sie mir den unterschriebenen Mietvertrag bis Freitag.",
    "fr": "Veuillez m'envoyer le bail signé avant vendredi.",
    "hu": "Kérem, küldje el az aláírt szerződést péntekig.",
    "ru": "Пришлите, пожалуйста, подписанный договор до пятницы.",
    "el": "Μπορείτε να μου στείλετε το συμβόλαιο μέχρι την Παρασκευή;",
    "ar": "هل يمكنكم إرسال عقد الإيجار الموقع قبل يوم الجمعة؟",
    "hi": "क्या आप शुक्रवार तक हस्ताक्षरित अनुबंध भेज सकते हैं?",
    "th": "กรุณาส่งสัญญาเช่าที่ลงนามแล้วภายในวันศุกร์",
    "ko": "금요일까지 서명한 임대차 계약서를 보내주시겠습니까?",
    "ja": "金曜日までに署名済みの賃貸契約書をお送りいただけますでしょうか。",
    "zh": "请您在星期五之前把签好的租约发给我。",
}
SENTENCES = {
    "en": "The garden was late this year. We took the old road over the hill and saw the herons. Nora has a new boat.",
    "de": "Der Garten kam dieses Jahr spät. Wir nahmen die alte Straße über den Berg. Nora hat ein neues Boot.",
    "fr": "Le jardin était en retard cette année. Nous avons pris la vieille route. Nora a un nouveau bateau.",
    "hu": "A kert idén későn virágzott. A régi úton mentünk át a hegyen. Nórának új csónakja van.",
    "ru": "Сад в этом году запоздал. Мы поехали старой дорогой через холм. У Норы новая лодка.",
    "el": "Ο κήπος άργησε φέτος. Πήραμε τον παλιό δρόμο πάνω από τον λόφο. Η Νόρα έχει καινούργια βάρκα.",
    "ar": "تأخرت الحديقة هذا العام. سلكنا الطريق القديم فوق التل. لدى نورا قارب جديد.",
    "hi": "इस साल बगीचा देर से खिला। हम पुराने रास्ते से पहाड़ी पार गए। नोरा के पास नई नाव है।",
    "th": "ปีนี้สวนออกดอกช้า เราใช้ถนนสายเก่าข้ามเนินเขา นอร่ามีเรือลำใหม่",
    "ko": "올해는 정원이 늦게 피었습니다. 우리는 옛길로 언덕을 넘었습니다. 노라는 새 배를 샀습니다.",
    "ja": "今年は庭の花が遅く咲きました。私たちは古い道で丘を越えました。ノラは新しい舟を買いました。",
    "zh": "今年院子里的花开得很晚。我们走老路翻过了山。诺拉买了一条新船。",
}
DISCLAIMER = (
    "This e-mail and its attachments are confidential and intended solely for the addressee. If you have received it "
    "in error, notify the sender and delete it; any copying is prohibited. "
    + "No contract is made by this message. "
    * 12
)
HISTORY = "On Mon, 26 May 2031 at 19:12, Ada <ada@example.com> wrote:\n" + "> We have not seen you for ages.\n" * 20


def sentences(language: str, length: int, draw: random.Random) -> str:
    """Filler of about a length."""
    every = re.findall(r".+?(?:[.。।]\s*|$)", SENTENCES[language])
    text = ""
    while len(text) < length:
        text += draw.choice(every).strip() + ("" if language in ("ja", "zh") else " ")
        text += "\n\n" if draw.random() < 0.1 else ""
    return text


def unpunctuated(text: str) -> str:
    return " ".join(re.sub(r"[.。।\n]+", " ", text).split())


def one_sentence(text: str) -> str:
    return re.sub(r"[.。।]\s*", ", ", text).replace("\n", "")


def wrapped(text: str) -> str:
    """Hard line ends, as programs make them."""
    return re.sub(r"(.{60,72}) ", r"\1\n", text)


SHAPES: list[Callable[[str], str]] = [str, unpunctuated, one_sentence, wrapped]
ENDS = ["", "\n\n-- \nBob Berg\nBerg & Co\n+49 30 1234567", f"\n\n{HISTORY}", f"\n\n{DISCLAIMER}", f" {DISCLAIMER}"]


def letter(number: int) -> tuple[str, str, str]:
    """A language, a letter's text, and the request that stands in its last 2,000 characters."""
    draw = random.Random(number)
    language = list(REQUESTS)[number % len(REQUESTS)]
    shape, end = SHAPES[number // len(REQUESTS) % len(SHAPES)], draw.choice(ENDS)
    request, length = REQUESTS[language], draw.randint(500, 20_000)
    behind = draw.randint(0, max(0, min(1990, length) - len(request) - len(end) - 140))
    before = max(0, length - behind - len(request) - len(end))
    after = shape(sentences(language, behind, draw))[:behind]
    text = f"{shape(sentences(language, before, draw))} {request} {after}".rstrip() + end
    assert request in text[-2000:]
    return language, text, request


def mail_of(text: str, **headers: str) -> Mail:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "bob@example.org", "ada@example.com", "News"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return parse_bytes(message.as_bytes())


def stored(mail: Mail, gmail_id: str = "m1") -> StoredMail:
    return StoredMail(gmail_id, False, mail)


def text_in(prompt: str) -> str:
    """All text of mails in a prompt, without what stands above it."""
    return "\n".join(re.findall(r"<mail [^>]*>\n.*?\n\n(.*?)\n</mail>", prompt, re.DOTALL))


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("number", range(200))
def test_what_a_letter_asks_at_its_end_stands_in_both_prompts(number: int) -> None:
    language, text, request = letter(number)
    mail = mail_of(text)
    triage = triage_text(stored(mail), BERLIN)
    drafting = conversation_text([stored(mail)], "m1", "m1", BERLIN)
    assert flat(request) in flat(triage), language
    assert flat(request) in flat(drafting), language
    assert flat(mail.body)[:20] in flat(triage)
    for prompt, most in ((triage, TRIAGE), (drafting, DRAFTING)):
        assert count_tokens(text_in(prompt)) <= most, language
        if flat(mail.body) not in flat(prompt):
            assert re.search(r"\[… \d+ characters cut …\]", prompt)


def test_whole_sentences_are_cut_from_the_middle_and_it_is_said_how_much() -> None:
    every = [f"Sentence {n} says nothing much about the weather." for n in range(400)]
    text = " ".join(every)
    before, cut, after = re.split(r"\n\[… (\d+) characters cut …\]\n", excerpt(text, 1400, tokens))
    assert text.startswith(before)
    assert text.endswith(after)
    assert before.endswith("weather.")
    assert after.startswith("Sentence ")
    assert len(before) + int(cut) + len(after) in range(len(text) - 2, len(text) + 1)


def test_what_asks_in_the_middle_is_kept_too() -> None:
    text = (
        sentences("en", 8000, random.Random(1)) + "Will you sign the lease? " + sentences("en", 8000, random.Random(2))
    )
    assert "Will you sign the lease?" in excerpt(text, 1400, tokens)


def test_a_long_thread_stays_within_the_room_and_the_answered_mail_has_most_of_it() -> None:
    mails = [stored(mail_of(sentences("en", 9000, random.Random(n))), f"m{n}") for n in range(12)]
    prompt = conversation_text(mails, "m5", "m11", BERLIN)
    assert re.findall(r'<mail id="(\w+)"', prompt)[-1] == "m5"
    assert count_tokens(text_in(prompt)) <= DRAFTING
    shown = re.findall(r"<mail [^>]*>\n.*?\n\n(.*?)\n</mail>", prompt, re.DOTALL)
    assert len(shown[-1]) > 2 * max(map(len, shown[:-1]))


def test_bulk_mail_keeps_its_head_only() -> None:
    mail = mail_of(
        sentences("en", 9000, random.Random(1)) + "Could you buy this?", List_Unsubscribe="<https://x.example/u>"
    )
    assert mail.bulk
    triage = triage_text(stored(mail), BERLIN)
    assert re.search(r"\[… \d+ characters cut\]\n</mail>$", triage)
    assert "Could you buy this?" not in triage
    assert count_tokens(text_in(triage)) <= 350


@pytest.mark.parametrize(
    "text",
    [
        "aGVsbG8gd29ybGQ" * 1400,
        "ሰላም " * 4000,
        "1 2 3 " * 4000,
        "!?" * 9000,
        "👍🏽" * 5000,
        "\n" * 20_000 + "x",
    ],
    ids=["encoded", "Ethiopic", "digits", "signs", "emoji", "lines"],
)
def test_what_is_no_letter_stays_within_the_room(text: str) -> None:
    mail = stored(mail_of(text))
    assert count_tokens(text_in(triage_text(mail, BERLIN))) <= TRIAGE
    assert count_tokens(text_in(conversation_text([mail], "m1", "m1", BERLIN))) <= DRAFTING


@pytest.mark.parametrize(
    "text",
    [
        f"Hello Ada,\n\nall is well.\n\nThis is urgent: sign the lease by Friday. {DISCLAIMER}",
        f"Hello Ada,\n\nall is well.\n\nThis is urgent: sign the lease by Friday.\n\n{DISCLAIMER}",
        f"Hello Ada,\n\nall is well.\n\nThis is urgent: sign the lease by Friday.\nIMPORTANT NOTICE: {DISCLAIMER}",
        "Hello Ada,\n\nall is well.\n\n-- \nBob Berg\nBerg & Co\n\nP.S. Sign the lease by Friday, will you.",
    ],
    ids=["in its line", "above it", "with its heading", "below the signature"],
)
def test_a_request_beside_a_disclaimer_or_a_signature_is_kept(text: str) -> None:
    body = mail_of(text).body
    assert "ign the lease by Friday" in body
    assert "prohibited" not in body


def test_an_item_shows_a_long_letters_head_and_tail_and_what_is_left_out() -> None:
    text = "Hello Ada. " + sentences("en", 9000, random.Random(1)) + "Could you sign the lease?"
    shown = mail_as_text(mail_of(text))
    assert "Hello Ada." in shown
    assert "Could you sign the lease?" in shown
    assert re.search(r"\[… \d+ characters cut …\]", shown)
    assert len(shown) < 3200
