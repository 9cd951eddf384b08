"""The phrases by which mail programs mark history, signatures and boilerplate, in the languages they come in."""

import re

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
    r"\b(?:below|inline|in-line|underneath|fyi|fwd|forwarding|unten|untenstehend|weiter unten|zur info"
    r"|ci-dessous|pour info|abajo|más abajo|sotto|hieronder|onderstaand|abaixo|nedan|poniżej)\b",
    re.IGNORECASE,
)
ORIGINAL_MARK = re.compile(
    r"-{2,}\s?(?:original message|original appointment|ursprüngliche nachricht|originalnachricht|message d'origine"
    r"|mensaje original|mensagem original|messaggio originale|oorspronkelijk bericht|ursprungligt meddelande"
    r"|oprindelig meddelelse|wiadomość oryginalna)\s?-{2,}",
    re.IGNORECASE,
)
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
    r".{3,}\bwrote on\b.{5,}:|.{3,}@\S+ wrote:|.{3,}\bschrieb am\b.{5,}:|.{3,}\ba écrit le\b.{5,}:|.*\d{4}年.{3,}[:：]"
    r"|.*\d{4}년.{3,}작성:|.{3,}<\S+@\S+>.{5,}\b(?:yazdı|ezt írta \(.{5,}\)):",
    re.IGNORECASE,
)
HEADERS = {
    name: kind
    for kind, names in {
        "from": "from von de da van från fra od lähettäjä от kimden feladó 发件人 差出人",
        "date": "sent date gesendet datum envoyé enviado enviada fecha inviato data verzonden skickat sendt dato "
        "wysłano odesláno lähetetty отправлено дата gönderilme tarih küldve 发送时间 送信日時",
        "to": "to an à a para aan till til do komu vastaanottaja кому kime címzett 收件人 宛先",
        "subject": "subject betreff objet asunto assunto oggetto onderwerp ämne emne temat předmět aihe тема konu "
        "tárgy 主题 件名",
    }.items()
    for name in names.split()
}
_CLIENT = r"(?:outlook|yahoo|gmail|proton|samsung|blackberry|iphone|ipad|android|gmx|web\.de|libero|smartphone|huawei)"
POSTSCRIPT = re.compile(r"\s*(?:p\.? ?){1,2}s\b[.:,]*\s", re.IGNORECASE)
DEVICE_LINE = re.compile(
    rf"(?:sent (?:from|via|with) (?:my |mail for|{_CLIENT}).{{0,40}}"
    rf"|get outlook for .{{0,60}}|gesendet (?:mit|von) (?:mein|der |mail |{_CLIENT}).{{0,40}}"
    r"|von meinem .{0,30} gesendet|diese nachricht wurde von meinem .{0,60}gesendet\.?"
    rf"|envoyé (?:de|depuis) (?:mon |{_CLIENT}).{{0,40}}|enviado (?:desde|do) (?:mi |meu |{_CLIENT}).{{0,40}}"
    rf"|inviato da(?:l mio | ?{_CLIENT}).{{0,40}}|verzonden (?:vanaf|met) (?:mijn |{_CLIENT}).{{0,40}}"
    r"|outlook für (?:ios|android|mac) .{0,20}|(?:télécharger|obtener|scarica) outlook (?:pour|para|per) .{0,20}"
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
        r"|unbefugt|détrui|supprim|interdit|elimin|borr|destru|prohib|apag|cancell|distrugg|vietat|verwijder|vernietig)",
        re.IGNORECASE,
    ),
)
"""What a disclaimer says: the content is secret, others may have got it, and what they must do."""
NAMES_THE_MAIL = re.compile(
    r"e-?mail|message|communication|transmission|nachricht|courriel|correo|mensaje|mensagem|messaggio|bericht"
    r"|attachment|anhang|anhänge",
    re.IGNORECASE,
)
FOOTER_START = re.compile(
    r"\W*(?:you(?:'re| are) receiving this|you(?:'ve| have)? received this (?:e-?mail|message|newsletter)"
    r"|this (?:e-?mail|message) was sent|if you (?:no longer|don't|do not) (?:wish|want)|to (?:unsubscribe|opt[- ]out)"
    r"|(?:click here to )?unsubscribe|view (?:this (?:e-?mail|message) )?(?:in|on|as) (?:your |a |the )?(?:browser|web)"
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
    r"|privacy(?: policy)?|terms (?:of (?:service|use)|& conditions)|all rights reserved|contact us|help cent(?:er|re)"
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
    r"|alstublieft|graag|proszę|prosím|kérem|voisitteko|vänligen|venligst|lütfen|пожалуйста|прошу|παρακαλώ|vui lòng)\b"
    r"|请|請|能否|可否|是否|能不能|麻烦|麻煩|务必|務必|希望[您你]|吗|嗎|尽快|盡快|回复|回覆|告知|发给我|發給我"
    r"|お願い|ください|下さい|いただけ|頂け|いただきたい|もらえ|ませんか|でしょうか|ご返信|ご連絡|までに"
    r"|주세요|주시|주실|부탁|바랍니다|까요|회신|알려"
    r"|कृपया|กรุณา|من فضل|يرجى|בבקשה|እባክ",
    re.IGNORECASE,
)
"""By which a request may be told; scripts in which little fits into a prompt rely on it."""
