"""The phrases by which mail programs mark history, signatures and boilerplate, in the languages they come in."""

import re

REPLY_SUBJECT = re.compile(r"(?:\s*+(?:re|aw|sv|antw|r|rif|odp|回复|答复)(?:\[\d+\])?\s*+[:：])", re.IGNORECASE)
_PREFIXES = re.compile(
    rf"(?<!\s)(?:{REPLY_SUBJECT.pattern}|\s*+(?:fwd?|wg|tr|rv|enc|vs|doorst)\s*+[:：])+\s*", re.IGNORECASE
)
FORWARD_SUBJECT = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|vs|vl|i|doorst|pd|转发|轉寄)\s*[:：]", re.IGNORECASE)
FORWARD_MARK = re.compile(
    r"[-_ >]*(?:forwarded message|weitergeleitete nachricht|message transféré|mensaje reenviado|mensagem encaminhada"
    r"|messaggio inoltrato|doorgestuurd bericht|vidarebefordrat meddelande|videresendt (?:meddelelse|melding)"
    r"|przekazana wiadomość|přeposlaná zpráva|пересылаемое сообщение|iletilen mesaj|转发的邮件)[-_ ]*"
    r"|(?:begin forwarded message|anfang der weitergeleiteten nachricht|début du message (?:réexpédié|transféré)"
    r"|inicio del mensaje reenviado|inizio messaggio inoltrato|begin doorgestuurd bericht"
    r"|início da mensagem reencaminhada)\s?:\s*",
    re.IGNORECASE,
)
REFERS_TO_HISTORY = re.compile(
    r"\b(?:below|inline|in-line|in line|underneath|beneath|interspersed|between (?:the|your) lines|fyi|fwd|forwarding"
    r"|unten|untenstehend|weiter unten|zur info|zwischen (?:den|deinen|ihren) zeilen|im text|ci-dessous|plus bas"
    r"|pour info|entre les lignes|dans le texte|abajo|más abajo|entre líneas|sotto|tra le righe|hieronder|onderstaand"
    r"|tussen de regels|abaixo|entre as linhas|nedan|nedanför|mellan raderna|nedenfor|mellem linjerne|poniżej|níže"
    r"|nižšie"
    r"|alább|mai jos|aşağıda\w*|ниже|нижче|по-долу|παρακάτω|dưới đây|di bawah)\b"
    r"|以下|下面|下記|行内|红色|赤字|아래|ด้านล่าง|أدناه|למטה|नीचे|ከታች",
    re.IGNORECASE,
)
"""By which its writer points to what stands below, or says that answers stand in it."""
_ANSWERS = (
    r"(?:answers?|repl(?:y|ies)|responses?|comments?|remarks?|notes|antworten|kommentare|anmerkungen|réponses"
    r"|commentaires|remarques|respuestas|comentarios|risposte|commenti|respostas|comentários|antwoorden|opmerkingen|svar"
    r"|kommentarer|odpowiedzi|uwagi|odpovědi|ответы|комментарии|відповіді)"
)
ANSWERS_WITHIN = re.compile(
    r"\b(?:see|find|siehe|anbei|voir|voici|ver|vea|vedi|zie|veja|se|patrz|zobacz|viz|смотри\w*|см\.?) (?:\w+ ){0,3}?"
    rf"{_ANSWERS}\b"
    rf"|\b(?:{_ANSWERS}|answered|text|changes|edits|änderungen)\b[^.!?\n]{{0,40}}?"
    r"\b(?:below|unten|dessous|abajo|sotto|hieronder|onder|abaixo|nedan|nedenfor|poniżej|ниже"
    r"|(?:in|en|em|i|na|v|in het) (?:red|blue|green|bold|capitals|caps|rot|blau|grün|fett|großbuchstaben|rouge|bleu"
    r"|vert|gras|rojo|azul|verde|negrita|rosso|blu|grassetto|vermelho|negrito|rood|blauw|groen|vet|rött|blått|grönt|rødt"
    r"|blåt|grønt|czerwono|niebiesko|červeně|the text|your text|deinem text|ihrem text))\b"
    r"|红色|赤字|行内|in-?line|between (?:the|your) lines|interspersed|zwischen (?:den|deinen|ihren) zeilen"
    r"|entre les lignes|entre líneas|tra le righe|tussen de regels|entre as linhas|mellan raderna|mellem linjerne",
    re.IGNORECASE,
)
"""By which its writer says that answers stand in what they quote."""
THIS = re.compile(
    r"\b(?:das hier|das da|das(?= (?:bitte|bezahlen|machen|erledigen|klären|prüfen|übernehmen))|dies|ceci|cela|ça"
    r"|esto"
    r"|eso|isto|isso|det här|detta|dette|tohle|toto|это|це|това|bunu|ezt|tätä|tämän|asta|αυτό)\b"
    r"|\b(?:this|these|diese[rmns]?|ce|cet|cette|este|esta|questo|questa|dit|deze|denna|denne|tego|tę|tento|tuto"
    r"|этот|эту"
    r"|цей|цю|bu|acest|această|ini|này)"
    r"(?=\s*(?:[?.!,;:]|$)|\s(?:by|for|please|before|today|tomorrow|until|to|with|and|or|soon|asap|now|one|from|up"
    r"|off|on"
    r"|bitte|bis|für|invoice|bill|e?-?mails?|message|request|question|offer|order|rechnung|nachricht|anfrage|frage"
    r"|facture|courriel|demande|question|factura|correo|mensaje|pregunta|fattura|richiesta|domanda|fatura|pedido"
    r"|factuur|vraag|bericht|faktura|fakturan|fakturę|fakturu|счёт|счет|письмо|вопрос|рахунок|fatura|cerere|email"
    r"|pesan)\b)"
    r"|これ|こちら|这个|這個|此事|이거|이것|이 메일|هذا\b|זאת|นี้|इसे|ይህን",
    re.IGNORECASE,
)
"""With a question or a request, it may be what stands below that is meant."""
FRAMED = re.compile(r"(?P<left>[-–—_=*~#]{2,}+)\s{0,9}+(?P<words>\S.{1,200}?)\s?[-–—_=*~#]{2,200}+")
"""A line between dashes; which words stand there depends on the program and its language."""
ATTRIBUTION = re.compile(
    r"on\b.{5,}\bwrote:|am\b.{5,}\bschrieb\b.*:"
    r"|le\b.{5,}\ba écrit\s?:|el\b.{5,}\bescribió:|il\b.{5,}\bha scritto:|op\b.{5,}\bschreef\b.*:"
    r"|(?:em|a)\b.{5,}\bescreveu:|(?:den|on|tor|fre|lør|lör|søn|sön|man|mån|tir|tis|ons)\b.{5,}\bskrev\b.*:"
    r"|(?:dnia|w dniu|pon\.|wt\.|śr\.|czw\.|pt\.|sob\.|niedz\.)\s.{5,}\bnapisał.*:"
    r"|în\b.{5,}\ba scris:|(?:po|út|st|čt|pá|so|ne)\b.{5,}\bnapsala?:|(?:ma|ti|ke|to|pe|la|su)\b.{5,}\bkirjoitti:"
    r"|(?:пн|вт|ср|чт|пт|сб|вс)\b.{5,}<\S+@\S+>:|στις\b.{5,}\bέγραψε:"
    r"|\d{4}年.{3,}[:：]|\d{4}(?:년|\. ?\d).{3,}작성:",
    re.IGNORECASE,
)
"""Those that begin with the date."""
NAME_FIRST_ATTRIBUTION = re.compile(
    r".{3,}\bwrote on\b.{5,}:|.{3,}@\S+ wrote:|.{3,}\bschrieb am\b.{5,}:|.{3,}\ba écrit le\b.{5,}:"
    r"|.*\d{4}年.{3,}[:：]"
    r"|.*\d{4}년.{3,}작성:|.{3,}<\S+@\S+>.{5,}\b(?:yazdı|ezt írta \(.{5,}\)):",
    re.IGNORECASE,
)
QUOTED_BY = re.compile(
    r"\b(?:wr[oi]tes?|written by|schrieb|schreibt|(?:a |ha )?écrit|escribió|escribe|ha scritto|scrive|escreveu"
    r"|escreve"
    r"|schreef|schrijft|skrev|skriver|kirjoitti|kirjoittaa|napisał\w*|pisze|napsal\w*|píše|napísal\w*|írta|írja"
    r"|a scris"
    r"|scrie|yazdı|yazıyor|писал\w*|написал\w*|пишет|пише|написав\w*|написа|έγραψε|γράφει|menulis|menulliskan"
    r"|đã viết|viết"
    r"|ha escrit|escribiu|napisao\w*|napisal\w*|написао\w*|kirjutas|rašė|rakstīja|skrifaði|idatzi du"
    r"|zitat von|quoting|citando(?: a)?|citation de|citat(?: från| fra)?|citát|cytowanie|цитирую|cytat|idézet)\b"
    r"|写道|寫道|写了|書きました|のメール|さんは|쓴 글|님이|작성|כתב|כתבה|كتب|تمت كتابة|نوشت|เขียน|ने लिखा|ጻፈ",
    re.IGNORECASE,
)
"""What an introduction says of whom it quotes."""
HEADERS = {
    name: kind
    for kind, names in {
        "from": "from|von|de|de la|da|van|från|fra|frá|lähettäjä|od|feladó|от|від|від кого|от кого|од|από|kimden"
        "|gönderen"
        "|kimdən|dari|daripada|từ|šalje|pošiljatelj|пошиљалац|saatja|kellelt|no|sūtītājs|nuo|siuntėjas|nork"
        "|bidaltzailea"
        "|发件人|寄件人|寄件者|差出人|送信者|보낸 사람|보낸사람|보낸이|발신|발신자|من|از|מאת|จาก|प्रेषक|ከ",
        "date": "sent|date|sent at|sent on|gesendet|datum|envoyé|envoyé le|message du|enviado|enviado el|enviada"
        "|enviada em|enviado em|enviada el|fecha|fecha de envío|inviato|inviato il|data|verzonden|skickat|sendt|dato"
        "|dátum|wysłano|wysłane|data wysłania|odesláno|posláno|odoslané|lähetetty|päivämäärä|päiväys|отправлено|дата"
        "|дата отправки|надіслано|відправлено|изпратено|изпратено на|испратено|στάλθηκε|απεστάλη|ημερομηνία"
        "|gönderilme|gönderildi|gönderme tarihi|gönderim tarihi|tarih|göndərildi|küldve|elküldve|trimis|trimisă|dată"
        "|dikirim|tanggal|dihantar|tarikh|đã gửi|gửi|ngày|ngày gửi|thời gian|poslano|poslato|послато|датум|saadetud"
        "|kuupäev|nosūtīts|datums|išsiųsta|enviat|bidaltze-data|bidalia|dagsetning|发送时间|发送日期|日期|时间|已发送"
        "|寄件日期|傳送時間|傳送日期|已傳送|送信日時|日付|日時|送信済み|보낸 날짜|보낸날짜|보낸 시간|날짜|발신일"
        "|تم الإرسال"
        "|أرسلت|التاريخ|تاريخ الإرسال|ارسال‌شده|تاریخ|נשלח|תאריך|ส่ง|ส่งเมื่อ|วันที่|भेजा गया|दिनांक|የተላከው|ቀን",
        "to": "to|an|à|a|para|per|per a|aan|till|til|do|komu|pre|vastaanottaja|кому|до|за|προς|kime|alıcı|kimə"
        "|címzett|către"
        "|pentru|kepada|ke|tới|đến|prima|primatelj|adressaat|kellele|saaja|kam|adresāts|kam|gavėjas|nori"
        "|hartzailea|收件人"
        "|收件者|宛先|받는 사람|받는사람|수신|수신자|إلى|به|אל|ถึง|ไปยัง|प्रति|को|ለ",
        "subject": "subject|betreff|objet|sujet|asunto|assunto|assumpte|oggetto|ogg|onderwerp|ämne|emne|efni|aihe"
        "|temat|tema"
        "|teema|tēma|předmět|predmet|zadeva|naslov|тема|относно|предмет|наслов|θέμα|konu|mövzu|tárgy|subiect"
        "|subiectul"
        "|subjek|perihal|chủ đề|tiêu đề|gaia|主题|主旨|主題|件名|제목|الموضوع|موضوع|נושא|เรื่อง|หัวเรื่อง|विषय"
        "|ርዕሰ ጉዳይ|ርዕስ",
    }.items()
    for name in names.split("|")
}
"""What the lines above a quoted mail are called."""
_CLIENT = (
    r"(?:outlook|yahoo|gmail|google mail|proton\s?mail|proton|samsung|galaxy|blackberry|iphon\w*|ipad\w*|ios"
    r"|android\w*"
    r"|gmx|web\.de|libero|smartphone|huawei|xiaomi|redmi|oneplus|nokia|typeapp|bluemail|aquamail|k-9|thunderbird"
    r"|tutanota|tuta|fairemail|zoho|hotmail|mail\.ru|yandex|naver|aol|airmail|superhuman|missive|icloud)"
)
_SENT = (
    r"(?:sent|gesendet|envoyé|expédié|enviado|enviada|inviato|inviata|verzonden|verstuurd|sendt|skickat|lähetetty"
    r"|wysłan[eoy]"
    r"|odesláno|odoslané|küldve|elküldve|trimis|gönderildi|gönderilmiştir|отправлено|надіслано|изпратено|στάλθηκε"
    r"|εστάλη"
    r"|dikirim|dihantar|đã gửi|được gửi|poslano|poslato|послато|saadetud|nosūtīts|išsiųsta|enviat|bidalia)"
)
POSTSCRIPT = re.compile(r"\s*(?:p\.? ?){1,2}s\b[.:,]*\s", re.IGNORECASE)
DEVICE_LINE = re.compile(
    rf"(?:{_SENT}\b.{{0,40}}?\b{_CLIENT}.{{0,60}}|.{{0,40}}\b{_CLIENT}.{{0,12}}?\b(?:küldve|gönderil\w+)\.?"
    rf"|von .{{0,40}}\b{_CLIENT}.{{0,20}} gesendet\.?"
    r"|sent (?:from|via|with|using) (?:my |mail for |(?:the )?(?:windows|mobile|handy|orange|front|hey|spark"
    r"|edison)\b).{0,40}"
    r"|gesendet (?:mit|von) (?:mein|der |mail ).{0,40}|envoyé (?:de|depuis) mon .{0,40}|enviado (?:desde|do) (?:mi"
    r"|meu) .{0,40}"
    r"|inviato dal mio .{0,40}|verzonden (?:vanaf|met) mijn .{0,40}|(?:sendt fra|skickat från) min .{0,40}"
    rf"|get (?:outlook|bluemail|typeapp|aquamail|spark) for .{{0,60}}|outlook für (?:ios|android|mac) .{{0,20}}"
    r"|(?:télécharger|obtener|scarica|baixe|hämta|hent|pobierz|descargar?) (?:o )?outlook .{0,40}"
    rf"|diese nachricht wurde von meinem .{{0,60}}gesendet\.?|von meinem .{{0,30}} gesendet"
    rf"|.{{0,30}}(?:から送信|から送信されました)|(?:发自|發自|傳送自|傳自|寄自).{{0,40}}|[從从].{{0,30}}(?:傳送"
    rf"|发送|寄出)|(?:나의 |내 ).{{0,30}}에서 보냄"
    rf"|נשלח מ.{{0,40}}|(?:أُ?رسلت?|تم الإرسال) من .{{0,40}}|ส่งจาก.{{0,40}}|मेरे .{{0,30}} से भेजा गया"
    r"|(?:\S+ ){0,3}outlook (?:for|für|pour|para|per|voor|för|til|pro|dla(?: systemu)?|для|pentru|için|untuk|cho|за)"
    r" (?:ios|android|mac)(?: \S+)?|ios ?(?:用|için) outlook.{0,20}|ios için outlook.{0,20}"
    rf"|(?:{_SENT}\b|skickades\b|provenance ?:).{{0,20}}?"
    r"\b(?:mail|e-?post|correo|courrier|posta|poczta|почт\w+|correio)\b.{0,16}\bwindows\b.{0,5}"
    r"|sent (?:with|via|from) (?:shortwave|mailspring|mailbird|em client|canary|spike)\b.{0,20}|来自我的.{1,20}手机"
    r"|please consider the environment before printing.{0,40})",
    re.IGNORECASE,
)
DISCLAIMER_START = re.compile(
    r"(?:(?:this|the information|the contents?|if you|confidential|notice|disclaimer|important|privileged)\b"
    r"|(?:diese|dieses|der inhalt|die information|ce |cet |le contenu|este|esta|el contenido|o conteúdo"
    r"|questo|questa|il contenuto|le informazioni|dit |deze|de inhoud|de informatie|vertraulich|hinweis)\b)",
    re.IGNORECASE,
)
DISCLAIMER_MARKS = (
    re.compile(
        r"confidential|privileged|vertraulich|geheim|confidentiel|confidencial|riservat|vertrouwelijk", re.IGNORECASE
    ),
    re.compile(
        r"intended (?:only |solely |exclusively )?for|intended recipient|in error|adressat|empfänger|irrtümlich"
        r"|destinat|par erreur|por error|por engano|per errore|geadresseerde|abusievelijk|ten onrechte|bestemd voor",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:delet|destroy|notify|disseminat|copying|unauthori[sz]ed|prohibited|lösch|vernicht|informieren sie"
        r"|unbefugt|détrui|supprim|interdit|elimin|borr|destru|prohib|apag|cancell|distrugg|vietat|verwijder"
        r"|vernietig)",
        re.IGNORECASE,
    ),
)
"""What a disclaimer says: the content is secret, others may have got it, and what they must do."""
NAMES_THE_MAIL = re.compile(
    r"\b(?:this|the|these|its|any|diese[rsn]?|der|die|den|dem|ce|cet|cette|le|la|les|l'|este|esta|el|questo|questa|il"
    r"|quest'|dit|deze|de|het)[ ’']?(?:[\w-]+ ){0,2}?"
    r"(?:e-?mails?|messages?|communications?|transmissions?|nachricht\w*|mail|courriels?|courriers?|mél|correos?"
    r"|mensaje"
    r"|mensagem|messaggio|comunicazione|bericht|attachments?|anhang|anhänge\w*)\b",
    re.IGNORECASE,
)
"""A disclaimer speaks of the very mail that it stands under."""
FOOTER_START = re.compile(
    r"\W*(?:you(?:'re| are) receiving this|you(?:'ve| have)? received this (?:e-?mail|message|newsletter)"
    r"|this (?:e-?mail|message) was sent|if you (?:no longer|don't|do not) (?:wish|want)|to (?:unsubscribe"
    r"|opt[- ]out)"
    r"|(?:click here to )?unsubscribe|view (?:this (?:e-?mail|message) )?(?:in|on|as) (?:your |a |the )?(?:browser"
    r"|web)"
    r"|add us to your address book|©|\(c\) 20\d\d|copyright (?:©|\(c\)|20\d\d)"
    r"|sie erhalten diese|diese e-?mail wurde (?:an|gesendet)|wenn sie (?:keine|diesen newsletter nicht)"
    r"|vous recevez ce|pour vous désabonner|si vous ne souhaitez plus|recibe[s]? este|si no desea"
    r"|ricevi questa|per disiscriverti|u ontvangt deze)",
    re.IGNORECASE,
)
"""The sentences with which mass mail speaks of itself."""
FOOTER_LINK = re.compile(
    r"unsubscribe|opt[- ]out|manage (?:your |my )?(?:e-?mail |subscription )?(?:preferences|subscriptions?)"
    r"|(?:update|change) (?:your )?(?:e-?mail )?(?:preferences|settings)|preferences"
    r"|view (?:this (?:e-?mail|message) )?(?:in|on|as) (?:your |a |the )?(?:browser|web|online)|view online"
    r"|privacy(?: policy)?|terms (?:of (?:service|use)|& conditions)|all rights reserved|contact us|help cent(?:er"
    r"|re)"
    r"|abmelden|abbestellen|newsletter abbestellen|im browser (?:ansehen|anzeigen|öffnen)|impressum"
    r"|datenschutz(?:erklärung)?|se désabonner|désinscrire|voir (?:ce message |cet e-?mail )?(?:en ligne|dans)"
    r"|mentions légales|darse de baja|cancelar (?:la )?suscripción|uitschrijven|disiscriviti|follow us"
    r"|forward to a friend",
    re.IGNORECASE,
)
"""The labels of its links."""
ASKS = re.compile(
    r"[?？؟፧]|\b(?:please|kindly|let me know|(?:could|can|would|will) you|need you to"
    r"|bitte|könn(?:t|ten)e?[nst]? (?:sie|du|ihr)|s'il (?:vous|te) plaît|veuillez|merci de|por favor|per favore"
    r"|alstublieft|graag|proszę|prosím|kérem|voisitteko|vänligen|venligst|lütfen|пожалуйста|прошу|παρακαλώ"
    r"|vui lòng)\b"
    r"|请|請|能否|可否|是否|能不能|麻烦|麻煩|务必|務必|希望[您你]|吗|嗎|尽快|盡快|回复|回覆|告知|发给我|發給我"
    r"|お願い|ください|下さい|いただけ|頂け|いただきたい|もらえ|ませんか|でしょうか|ご返信|ご連絡|までに"
    r"|주세요|주시|주실|부탁|바랍니다|까요|회신|알려"
    r"|कृपया|กรุณา|من فضل|يرجى|בבקשה|እባክ",
    re.IGNORECASE,
)
"""By which a request may be told; scripts in which little fits into a prompt rely on it."""


def subject_of_conversation(subject: str) -> str:
    """What the subjects of a mail and of its answers have in common."""
    return " ".join(_PREFIXES.sub("", subject, count=1).lower().split())
