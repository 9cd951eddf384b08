"""Where the history of a mail begins: in the words of many programs, in many languages. And where it does not."""

# ruff: noqa: E501 - lines as programs write them

import pytest

from email_assistant.mail.history import new_text, reading, written

A = "<ann@example.org>"
"""Of whom is quoted."""

# By programs that write the address, as Gmail does.
WITH_ADDRESS = [
    f"On Tue, 5 May 2026 at 10:15, Ann Old {A} wrote:",
    f"Am Di., 5. Mai 2026 um 10:15 Uhr schrieb Ann Old {A}:",
    f"Le mar. 5 mai 2026 à 10:15, Ann Old {A} a écrit :",
    f"El mar, 5 may 2026 a las 10:15, Ann Old ({A}) escribió:",
    f"Il giorno mar 5 mag 2026 alle ore 10:15 Ann Old {A} ha scritto:",
    f"A terça, 5/05/2026, 10:15, Ann Old {A} escreveu:",
    f"Em ter., 5 de mai. de 2026 às 10:15, Ann Old {A} escreveu:",
    f"Op di 5 mei 2026 om 10:15 schreef Ann Old {A}:",
    f"Den tis 5 maj 2026 kl 10:15 skrev Ann Old {A}:",
    f"Den tirs. 5. maj 2026 kl. 10.15 skrev Ann Old {A}:",
    f"tir. 5. mai 2026 kl. 10:15 skrev Ann Old {A}:",
    "ti 5. toukok. 2026 klo 10.15 Ann Old (ann@example.org) kirjoitti:",
    f"wt., 5 maj 2026 o 10:15 Ann Old {A} napisał(a):",
    f"út 5. 5. 2026 v 10:15 odesílatel Ann Old {A} napsal:",
    f"ut 5. 5. 2026 o 10:15 Ann Old {A} napísal(a):",
    f"Ann Old {A} ezt írta (időpont: 2026. máj. 5., K, 10:15):",
    f"În mar., 5 mai 2026 la 10:15, Ann Old {A} a scris:",
    f"Ann Old {A}, 5 May 2026 Sal, 10:15 tarihinde şunu yazdı:",
    f"вт, 5 мая 2026 г. в 10:15, Ann Old {A}:",
    f"вт, 5 трав. 2026 р. о 10:15 Ann Old {A} пише:",
    f"На вт, 5.05.2026 г. в 10:15 Ann Old {A} написа:",
    f"Στις Τρί 5 Μαΐ 2026 στις 10:15 π.μ., ο χρήστης Ann Old {A} έγραψε:",
    f"2026年5月5日(火) 10:15 Ann Old {A}:",
    f"Ann Old {A} 于2026年5月5日周二 10:15写道：",
    f"Ann Old {A} 於 2026年5月5日 週二 上午10:15寫道：",
    f"2026년 5월 5일 (화) 오전 10:15, Ann Old {A}님이 작성:",
    "\u202bבתאריך יום ג׳, 5 במאי 2026 ב-10:15 מאת \u202aAnn Old\u202c\u200f <\u202aann@example.org\u202c\u200f>:\u202c",
    "في الثلاثاء، 5 مايو 2026 في 10:15 ص تمت كتابة ما يلي بواسطة \u202aAnn Old\u202c\u200f <\u202aann@example.org\u202c\u200f>:",
    f"Vào Th 3, 5 thg 5, 2026 vào lúc 10:15 Ann Old {A} đã viết:",
    f"Pada tanggal Sel, 5 Mei 2026 pukul 10.15 Ann Old {A} menulis:",
    f"ในวันที่ อ. 5 พ.ค. 2026 เวลา 10:15 Ann Old {A} เขียนว่า:",
    f"uto, 5. svi 2026. u 10:15 Ann Old {A} napisao je:",
    f"2026-05-05, an, 10:15 Ann Old {A} rašė:",
    f"otrd., 2026. g. 5. maijs, plkst. 10:15 — lietotājs Ann Old ({A}) rakstīja:",
    f"Kuupäev T, 5. mai 2026 kell 10:15 kirjutas Ann Old {A}:",
    f"Missatge de Ann Old {A} del dia dt., 5 de maig 2026 a les 10:15:",
    f"V V tor., 5. maj 2026 ob 10:15 je oseba Ann Old {A} napisala:",
    f"уто, 5. мај 2026. у 10:15 Ann Old {A} је написао/ла:",
    f"मंगल, 5 मई 2026 को 10:15 am बजे को Ann Old {A} ने लिखा:",
    f"On 5 May 2026, at 10:15, Ann Old {A} wrote:",
    f"Am 05.05.2026 um 10:15 schrieb Ann Old {A}:",
    f"在 2026年5月5日，上午10:15，Ann Old {A} 写道：",
    f"2026/05/05 10:15、Ann Old {A}のメール:",
    f"Wiadomość napisana przez Ann Old {A} w dniu 05.05.2026, o godz. 10:15:",
    f"5 мая 2026 г., в 10:15, Ann Old {A} написал(а):",
    f"On Tuesday, May 5, 2026 at 10:15:50 AM GMT+1, Ann Old {A} wrote:",
    f"--- On Tue, 5/5/26, Ann Old {A} wrote:",
    f"On February 24, 2026, Ann Old {A} wrote:",
    "On February 24, 2026 at 2:02 PM GMT+1 ann@example.org wrote:",
    f"Am 5. Mai 2026 10:15:50 MEZ schrieb Ann Old {A}:",
    f'At 2026-05-05 10:15:50, "Ann Old" {A} wrote:',
    f'在 2026-05-05 10:15:50，"Ann Old" {A} 写道：',
    f'05.05.2026, 10:15, "Ann Old" {A}:',
    f"Вторник, 5 мая 2026, 10:15 +03:00 от Ann Old {A}:",
    f"On 24 Feb 2026 at 14:02 +0100, Ann Old {A}, wrote:",
    "On Tue, Feb 24, 2026 at 2:02 PM, Ann Old < ann@example.org > wrote:",
    f"On Tuesday, February 24, 2026 14:02 CET, Ann Old {A} wrote:",
    "Ann Old wrote on 05.05.2026 10:15:50:",
    "Ann Old schrieb am 05.05.2026 um 10:15:",
    f"Dnia 5 maja 2026 10:15 Ann Old {A} napisał(a):",
    f"W dniu 2026-05-05 10:15:50 użytkownik Ann Old {A} napisał:",
    f"---- On Tue, 05 May 2026 10:15:50 +0100 Ann Old {A} wrote ----",
    f"---- Am Di, 05 Mai 2026 10:15:50 +0100 Ann Old {A} schrieb ----",
    "Ann Old---02/24/2026 02:02:50 PM---Hi Kim",
    "ann@example.org wrote:",
    f"Ann Old {A} wrote:",
]
# By programs that write the time alone, as Thunderbird does.
WITH_TIME = [
    "On 05/05/2026 10:15, Ann Old wrote:",
    "Am 05.05.2026 um 10:15 schrieb Ann Old:",
    "Le 05/05/2026 à 10:15, Ann Old a écrit :",
    "El 05/05/2026 a las 10:15, Ann Old escribió:",
    "Il 05/05/2026 10:15, Ann Old ha scritto:",
    "Em 05/05/2026 10:15, Ann Old escreveu:",
    "Às 10:15 de 05/05/2026, Ann Old escreveu:",
    "Op 05-05-2026 om 10:15 schreef Ann Old:",
    "Den 2026-05-05 kl. 10:15, skrev Ann Old:",
    "Den 05.05.2026 kl. 10.15 skrev Ann Old:",
    "Den 05.05.2026 10:15, skrev Ann Old:",
    "Ann Old kirjoitti 5.5.2026 klo 10.15:",
    "W dniu 05.05.2026 o 10:15, Ann Old pisze:",
    "Dne 05. 05. 26 v 10:15 Ann Old napsal(a):",
    "Dňa 5. 5. 2026 o 10:15 Ann Old napísal(a):",
    "2026. 05. 05. 10:15 keltezéssel, Ann Old írta:",
    "Pe 05.05.2026 10:15, Ann Old a scris:",
    "5.05.2026 10:15 tarihinde Ann Old yazdı:",
    "05.05.2026 10:15, Ann Old пишет:",
    "05.05.26 10:15, Ann Old пише:",
    "На 5.5.26 г. в 10:15, Ann Old написа:",
    "Στις 5/5/26 10:15, ο/η Ann Old έγραψε:",
    "在 2026/5/5 10:15, Ann Old 写道:",
    "Ann Old 於 2026/5/5 10:15 寫道:",
    "On 2026/05/05 10:15, Ann Old wrote:",
    "26. 5. 5. 10:15에 Ann Old 이(가) 쓴 글:",
    "בתאריך 5.5.2026 10:15, Ann Old כתב:",
    "كتب Ann Old في 5/5/26 10:15:",
    "El 5/5/26 a les 10:15, Ann Old ha escrit:",
    "Ann Old je napisao/la 05. 05. 2026. u 10:15:",
    "Ann Old je 5. 5. 26 ob 10:15 napisal/a:",
    "Ann Old kirjutas 5.05.2026 kell 10:15:",
    "2026-05-05 10:15, Ann Old rašė:",
    "Ann Old rakstīja 05.05.2026 10:15:",
    "Pada 05/05/26 10.15, Ann Old menulis:",
    "Vào 5/5/26 10:15, Ann Old viết:",
    "O 05/05/2026 ás 10:15, Ann Old escribiu:",
    "Þann 5.5.2026 10:15, skrifaði Ann Old:",
]
# Of two and more lines.
OF_LINES = [
    f"------- Original Message -------\nOn Tuesday, May 5th, 2026 at 10:15, Ann Old {A} wrote:",
    f"------- Original Message -------\nLe mardi 5 mai 2026 à 10:15, Ann Old {A} a écrit :",
    f"-----Ann Old {A} wrote: -----\nTo: Kim Lee <kim@example.org>\nFrom: Ann Old {A}\nDate: 02/24/2026 02:02PM\nSubject: Meeting",
    f"-------- Original message --------\nFrom: Ann Old {A}\nDate: 24/02/2026 14:02 (GMT+01:00)\nTo: kim@example.org\nSubject: Roof",
    f"-------- Ursprüngliche Nachricht --------\nVon: Ann Old {A}\nDatum: 24.02.26 14:02 (GMT+01:00)\nAn: kim@example.org\nBetreff: Dach",
    f'------ Original Message ------\nFrom "Ann Old" {A}\nTo "Kim Lee" <kim@example.org>\nDate 05.05.2026 10:15:50\nSubject Roof',
    f"---- Messaggio originale ----\nDa: Ann Old {A}\nData: 5-mag-2026 10.15\nA: kim@example.org\nOgg: Tetto",
    f"--------- 원본 메일 ---------\n보낸사람 : Ann Old {A}\n받는사람 : kim@example.org\n날짜: 2026년 5월 5일 화요일, 10시 15분 50초 +0900\n제목: 지붕",
    f"----- 原始邮件 -----\n发件人：Ann Old {A}\n收件人：kim@example.org\n主题：屋顶\n日期：2026年05月05日 10点15分",
    "----- Original Message -----\nFrom: Ann Old\nTo: Kim Lee\nSent: Tue May 05 10:15:50 2026\nSubject: Roof",
    "From:\tAnn Old/ACME\nTo:\tKim Lee/ACME@ACME\nDate:\t05.05.2026 10:15\nSubject:\tRoof\n________________________________",
    f'Gesendet: Dienstag, 5. Mai 2026 um 10:15 Uhr\nVon: "Ann Old" {A}\nAn: kim@example.org\nBetreff: Dach',
    f"-------- Исходное сообщение --------\nОт кого: Ann Old {A}\nДата: 5 мая 2026 10:15\nКому: kim@example.org\nТема: Крыша",
]
# Told by the quoted lines below them.
BEFORE_QUOTES = [
    f"Zitat von Ann Old {A}:",
    f"Quoting Ann Old {A}:",
    f"Citando Ann Old {A}:",
    f"Ann Old {A} writes:",
    f"* Ann Old {A} [2026-05-05 10:15]:",
    "05.05.2026, 10:15 von ann@example.org:",
    "May 5, 2026, 10:15 by ann@example.org:",
    "5 mai 2026, 10:15 de ann@example.org:",
    "On Tue, 5 May 2026, Ann Old wrote:",
    "Ann Old писал 2026-05-05 10:15:",
    "2026-05-05 10:15 időpontban Ann Old ezt írta:",
    "2026-05-05 10:15 に Ann Old さんは書きました:",
    "Ann Old wrote (on Tue, 5 May 2026):",
    "El 05/05/26 a las 10:15, Ann Old dijo:",
    "Ann Old wrote:",
    "Ann Old schrieb:",
    f"> On 5 May 2026, at 10:15, Ann Old {A} wrote:\n> ",
    f'> Message du 05/05/26 10:15\n> De : "Ann Old" {A}\n> A : kim@example.org\n> Copie à : \n> Objet : Toit\n> ',
    f">-------- Оригинално писмо --------\n >От: Ann Old {A}\n >Относно: Покрив\n >До: kim@example.org\n >Изпратено на: 05.05.2026 10:15",
]
NAMES = {
    "en": ("From", "Sent", "To", "Cc", "Subject"),
    "en2": ("From", "Date", "To", "Cc", "Subject"),
    "de": ("Von", "Gesendet", "An", "Cc", "Betreff"),
    "fr": ("De", "Envoyé", "À", "Cc", "Objet"),
    "fr2": ("De", "Date", "À", "Cc", "Objet"),
    "es": ("De", "Enviado", "Para", "CC", "Asunto"),
    "es2": ("De", "Fecha", "Para", "CC", "Asunto"),
    "pt": ("De", "Enviada", "Para", "Cc", "Assunto"),
    "pt2": ("De", "Data", "Para", "Cc", "Assunto"),
    "it": ("Da", "Inviato", "A", "Cc", "Oggetto"),
    "nl": ("Van", "Verzonden", "Aan", "CC", "Onderwerp"),
    "sv": ("Från", "Skickat", "Till", "Kopia", "Ämne"),
    "da": ("Fra", "Sendt", "Til", "Cc", "Emne"),
    "fi": ("Lähettäjä", "Lähetetty", "Vastaanottaja", "Kopio", "Aihe"),
    "pl": ("Od", "Wysłano", "Do", "DW", "Temat"),
    "pl2": ("Od", "Data", "Do", "DW", "Temat"),
    "cs": ("Od", "Odesláno", "Komu", "Kopie", "Předmět"),
    "sk": ("Od", "Odoslané", "Komu", "Kópia", "Predmet"),
    "hu": ("Feladó", "Elküldve", "Címzett", "Másolatot kap", "Tárgy"),
    "ro": ("De la", "Trimis", "Către", "Cc", "Subiect"),
    "bg": ("От", "Изпратено", "До", "Копие", "Относно"),
    "ru": ("От", "Отправлено", "Кому", "Копия", "Тема"),
    "uk": ("Від", "Надіслано", "Кому", "Копія", "Тема"),
    "el": ("Από", "Στάλθηκε", "Προς", "Κοιν.", "Θέμα"),
    "tr": ("Kimden", "Gönderildi", "Kime", "Bilgi", "Konu"),
    "tr3": ("Gönderen", "Tarih", "Kime", "Bilgi", "Konu"),
    "ar": ("من", "تم الإرسال", "إلى", "نسخة", "الموضوع"),
    "he": ("מאת", "נשלח", "אל", "עותק", "נושא"),
    "fa": ("از", "تاریخ", "به", "رونوشت", "موضوع"),
    "ja": ("差出人", "送信日時", "宛先", "CC", "件名"),
    "zh": ("发件人", "发送时间", "收件人", "抄送", "主题"),
    "zh-TW": ("寄件者", "寄件日期", "收件者", "副本", "主旨"),
    "ko": ("보낸 사람", "보낸 날짜", "받는 사람", "참조", "제목"),
    "th": ("จาก", "ส่ง", "ถึง", "สำเนา", "เรื่อง"),
    "th2": ("จาก", "วันที่", "ถึง", "สำเนา", "หัวเรื่อง"),
    "vi": ("Từ", "Đã gửi", "Đến", "Cc", "Chủ đề"),
    "id": ("Dari", "Dikirim", "Kepada", "Cc", "Subjek"),
    "hr": ("Od", "Poslano", "Prima", "Kopija", "Predmet"),
    "hr2": ("Šalje", "Poslano", "Prima", "Kopija", "Predmet"),
    "sl": ("Od", "Poslano", "Za", "Kp", "Zadeva"),
    "sr": ("Od", "Poslato", "Za", "Kopija", "Naslov"),
    "et": ("Saatja", "Saadetud", "Adressaat", "Koopia", "Teema"),
    "lv": ("No", "Nosūtīts", "Kam", "Kopija", "Tēma"),
    "lt": ("Nuo", "Išsiųsta", "Kam", "Kopija", "Tema"),
    "ca": ("De", "Enviat", "Per a", "A/c", "Tema"),
    "eu": ("Nork", "Bidaltze-data", "Nori", "Kopia", "Gaia"),
    "gl": ("De", "Enviado", "Para", "Cc", "Asunto"),
    "is": ("Frá", "Sent", "Til", "Afrit", "Efni"),
    "hi": ("प्रेषक", "भेजा गया", "प्रति", "प्रतिलिपि", "विषय"),
    "am": ("ከ", "የተላከው", "ለ", "ቅጂ", "ርዕሰ ጉዳይ"),
    "no2": ("Fra", "Dato", "Til", "Kopi", "Emne"),
    "ms": ("Daripada", "Dihantar", "Kepada", "Sk", "Subjek"),
}
"""What Outlook and others call sender, time, receivers, further receivers and subject."""

OWN = "Gladly, at nine.\n\nKim"
PLAIN = "Do you come?\nRegards, Ann"
MARKED = "> Do you come?\n> Regards, Ann"


def header_block(names: tuple[str, ...], form: str) -> str:
    values = (f"Ann Old {A}", "5 May 2026 10:15", "Kim Lee <kim@example.org>", "Eve <eve@example.org>", "Roof")
    return "\n".join(form.format(name, value) for name, value in zip(names, values, strict=True))


class TestHistoryIsNoOwnText:
    @pytest.mark.parametrize("introduction", [*WITH_ADDRESS, *WITH_TIME, *OF_LINES])
    @pytest.mark.parametrize("quoted", [f"\n{PLAIN}", MARKED, f"\n{MARKED}"])
    def test_below_an_introduction(self, introduction: str, quoted: str) -> None:
        text = f"{OWN}\n\n{introduction}\n{quoted}\n"
        assert new_text(text) == written(text) == OWN

    @pytest.mark.parametrize("introduction", BEFORE_QUOTES)
    @pytest.mark.parametrize("gap", ["", "\n"])
    def test_below_an_introduction_that_the_quotation_makes_sure(self, introduction: str, gap: str) -> None:
        text = f"{OWN}\n\n{introduction}\n{gap}{MARKED}\n"
        assert new_text(text) == written(text) == OWN

    @pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
    @pytest.mark.parametrize("form", ["{}: {}", "*{}:* {}", "{} : {}", "**{}**: {}", "{}：{}"])
    def test_below_header_lines(self, names: tuple[str, ...], form: str) -> None:
        assert new_text(f"{OWN}\n\n{header_block(names, form)}\n\n{PLAIN}") == OWN

    @pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
    def test_below_header_lines_in_another_order(self, names: tuple[str, ...]) -> None:
        lines = header_block(names, "{}: {}").split("\n")
        block = "\n".join([lines[1], lines[4], lines[0], lines[2]])
        for mark in ("", "_" * 32 + "\n", "=" * 40 + "\n", "-----  Ursprungligt  -----\n"):
            assert new_text(f"{OWN}\n\n{mark}{block}\n\n{PLAIN}") == OWN

    @pytest.mark.parametrize("mark", [">>> Ann Old <ann@example.org> 05.05.2026 10:15 >>>",
                                      ">>> On 5/5/2026 at 10:15 AM, in message <x@y>, Ann Old <ann@example.org> wrote:",
                                      "Ann Old---05.05.2026 10:15:50---Do you come?"])  # fmt: skip
    def test_below_the_marks_of_old_programs(self, mark: str) -> None:
        assert new_text(f"{OWN}\n\n{mark}\n{PLAIN}") == OWN

    @pytest.mark.parametrize(
        "line",
        ["Sendt fra min iPad", "iPadから送信", "Wysłane z telefonu Samsung", "Skickat från min Android-telefon",
         "Lähetetty iPadista", "iPad'imden gönderildi", "Отправлено с iPhone", "Надіслано з мого iPhone", "发自我的iPhone",
         "從我的 iPhone 傳送", "나의 iPhone에서 보냄", "Odesláno z iPhonu", "Odoslané z iPadu", "Trimis de pe iPhone-ul meu",
         "Στάλθηκε από το iPhone μου", "Elküldve az iPhone-omról", "נשלח מה-iPhone שלי", "Dikirim dari iPhone saya",
         "Đã gửi từ iPhone của tôi", "ส่งจาก iPhone ของฉัน", "Sent with Proton Mail secure email.",
         "Sent from AquaMail for Android<https://mail.example/x?y=1>", "Get Outlook for iOS<https://aka.example/o0>", "Holen Sie sich Outlook für iOS", "Получить Outlook для iOS", "Inviato da Posta per Windows", "Provenance : Courrier pour Windows", "Sent from Mailspring"],
    )  # fmt: skip
    def test_below_what_a_device_says_of_itself(self, line: str) -> None:
        assert new_text(f"{OWN}\n\n{line}\n\n> 5 maj 2026 10.15 skrev Ann Old {A}:\n>\n{MARKED}") == OWN
        assert new_text(f"{OWN}\n\n{line}\nOn May 5, 2026, at 10:15, Ann Old {A} wrote:\n\n{PLAIN}") == OWN

    def test_the_end_of_a_quoted_line_that_a_program_has_broken(self) -> None:
        long = "> Could you look at the drawings of the roof once more, and at the"
        text = f"{OWN}\n\nOn 5 May 2026 10:15, Ann Old wrote:\n{long}\nlist of\n> tiles?"
        assert new_text(text) == OWN
        assert "\nyes, I could" in new_text(text.replace(" at the\nlist of", " more?\nyes, I could"))

    @pytest.mark.parametrize("mark", ["|", "¦", "»", ":", "}", "＞", "&gt;"])
    def test_lines_that_other_marks_than_the_usual_begin(self, mark: str) -> None:
        quoted = f"{mark} Do you come?\n{mark}\n{mark} Regards, Ann"
        introduction = "On 5 May 2026 10:15, Ann Old wrote:"
        assert new_text(f"{OWN}\n\n{introduction}\n{quoted}") == OWN
        between = f"{introduction}\n{quoted}\n\nGladly.\n\n{mark} And Bob?\n\nHe too."
        assert written(between) == "Gladly.\n\nHe too."
        assert "> And Bob?\n\nHe too." in new_text(between)


class TestOwnTextIsNoHistory:
    @pytest.mark.parametrize(
        "text",
        [
            "Hello,\n\nsee what bob@example.org wrote:\n\nthe roof leaks. Please call him.\n\nKim",
            "Hello,\n\nOn Tuesday 5 May the office met and wrote:\n\nwe close at noon.\n\nTell Ann, please.",
            "Hallo,\n\nAm 5. Mai um 10:15 schrieb ich dir:\n\nder Preis ist 5. Bitte prüfen.\n\nKim",
            "Bonjour,\n\nLe 5 mai, la mairie a écrit :\n\nle toit fuit. Merci de passer.\n\nKim",
            "Hello,\n\ntwo places:\n\nSeat: 4\nFrom: kim@example.org\nDate: 5 May 2026 10:15\nSubject: boat\n\nAnd a cabin?",
            "Hello,\n\nprint this:\n\nFrom: the office\nDate: 5 May 2026\nTo: all\nSubject: roof\n\nWe close.\n\nFive copies.",
            "Hello,\n\nthe sign is to say:\n\n--- Original text ---\nKeep out\n\nTwo of them, please.",
            "Hello,\n\n---- Plan 10:15 ----\n\n1. Roof\n2. Can you bring tea?",
            "Hello,\n\n| Tea | 5 |\n| Milk | 4 |\n\nIs that right?",
            "Hello,\n\n: one\n: two\n\n# three\n# four",
            "Hello,\n\nring on 5 May 2026 at 10:15 or write to me at Ann Old <ann@example.org>:\n\nshe has the key.\n\nKim",
            "Hello,\n\nthe lease is confidential. It was intended for Ann alone and sent to Bob in error, so delete his copy"
            " and write me an email when you have done so, before Friday.",
            "Yes.\n\n-- \nKim Lee\nExample Ltd\n\nCould you also bring the key?",
            "All is done.\n\nSent to my mother.",
            "All is done.\n\nSent with love",
            "I ask Ann.\n\nShe has the iPad that was sent.",
        ],
    )
    def test_what_only_looks_like_it(self, text: str) -> None:
        assert new_text(text) == written(text) == text.replace("-- \n", "--\n")

    @pytest.mark.parametrize(
        "top",
        ["My replies are in blue.", "Siehe meine Antworten in rot.", "Mes réponses sont en rouge.", "Le mie risposte sotto",
         "I answer between the lines.", "Mijn antwoorden staan in het rood.", "Mina svar i rött.", "Vea mis respuestas."],
    )  # fmt: skip
    def test_answers_within_what_is_quoted(self, top: str) -> None:
        for names, form in ((NAMES["en"], "{}: {}"), (NAMES["de"], "*{}:* {}")):
            text = f"{top}\n\n{header_block(names, form)}\n\nDo you come?\nYes, with Eve.\nRegards, Ann"
            assert "Yes, with Eve." in new_text(text)
            assert "Yes, with Eve." in reading(text).own

    @pytest.mark.parametrize("answer", ["[Kim] Yes, with Eve.", "Kim: Yes, with Eve.", "[Kim Lee]: Yes, with Eve."])
    def test_answers_behind_the_name_of_who_was_asked(self, answer: str) -> None:
        text = f"Hi Ann,\n\n{header_block(NAMES['en'], '{}: {}')}\n\nDo you come?\n{answer}\n"
        assert "Yes, with Eve." in reading(text).own
        other = text.replace("Kim Lee <kim@example.org>", "Dan Lee <dan@example.org>")
        assert ("Yes, with Eve." in reading(other).own) is ("Kim Lee" in answer)  # a Lee was asked

    @pytest.mark.parametrize(
        "top", ["Can you pay this?", "Could you answer this by Friday?", "Kannst du das bitte prüfen?", "请处理这个"]
    )
    def test_what_it_asks_about_is_needed_to_follow_it(self, top: str) -> None:
        text = f"{top}\n\n{header_block(NAMES['en'], '{}: {}')}\n\nThe tiles cost 300."
        assert "The tiles cost 300." in new_text(text)
        assert reading(text).own == top


class TestParts:
    def test_each_says_whose_it_is_and_why(self) -> None:
        read = reading(f"{OWN}\n-- \nKim Lee\nExample Ltd\n\nOn May 5, 2026, at 10:15, Ann Old {A} wrote:\n\n{MARKED}")
        assert (read.own, read.signature) == (OWN, "Kim Lee\nExample Ltd")
        assert read.signature_why == "it follows the line “-- ”"
        assert [(each.by, each.text.endswith(MARKED)) for each in read.history] == [(f"Ann Old {A}", True)]
        assert read.history[0].why == f"the line “On May 5, 2026, at 10:15, Ann Old {A} wrote:” introduces it"

    @pytest.mark.parametrize(
        ("introduction", "by"),
        [
            (f"Am 05.05.2026 um 10:15 schrieb Ann Old {A}:", f"Ann Old {A}"),
            ("Am 05.05.2026 um 10:15 schrieb Ann Old:", "Ann Old"),
            ("On 05/05/2026 10:15, Ann Old wrote:", "Ann Old"),
            ("W dniu 05.05.2026 o 10:15, Ann Old pisze:", "Ann Old"),
            (f"Von: Ann Old {A}\nGesendet: 5. Mai 2026\nAn: Kim\nBetreff: Dach", f"Ann Old {A}"),
            (f"-----Original Message-----\nFrom: Ann Old {A}\nSent: 5 May 2026\nSubject: Roof", f"Ann Old {A}"),
            (f"> On May 5, 2026, at 10:15, Ann Old {A} wrote:\n>", f"Ann Old {A}"),
            ("On Fri, Nov 27, 2026 at 3:00 PM Ada <ada@me.example> wrote:", "Ada <ada@me.example>"),
            (f"On Fri, Nov 27, 2026 at 3:00 p.m. Ann Old {A} wrote:", f"Ann Old {A}"),
            ("> Do you come?", ""),
        ],
    )
    def test_who_is_quoted(self, introduction: str, by: str) -> None:
        assert [each.by for each in reading(f"{OWN}\n\n{introduction}\n{MARKED}").history] == [by]

    @pytest.mark.parametrize(
        "top",
        ["My comments are attached.", "We paint the door in red.", "Grazie, passo alla sede.", "My answer is yes."],
    )
    def test_an_answer_is_not_said_to_stand_below_by_its_name_alone(self, top: str) -> None:
        assert new_text(f"{top}\n\n{header_block(NAMES['en'], '{}: {}')}\n\n{PLAIN}") == top

    def test_what_is_passed_on_is_history_of_its_own_text(self) -> None:
        forwarded = f"---------- Forwarded message ---------\n{header_block(NAMES['en'], '{}: {}')}\n\n{PLAIN}"
        read = reading(f"{OWN}\n\n{forwarded}", subject="Fwd: Roof")
        assert (read.own, [each.by for each in read.history]) == (OWN, [f"Ann Old {A}"])
        assert PLAIN in read.body

    def test_a_mail_of_nothing_but_history_has_no_own_text(self) -> None:
        read = reading(f"On 5 May 2026 10:15, Ann Old wrote:\n\n{PLAIN}")
        assert (read.own, len(read.history)) == ("", 1)
        assert PLAIN in read.body
