"""The phrases by which mail programs mark history, signatures and boilerplate, in the languages they come in."""

import re

FORWARD_SUBJECT = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|vs|i|doorst)\s*:", re.IGNORECASE)
FORWARD_MARK = re.compile(
    r"[-_ >]*(?:forwarded message|weitergeleitete nachricht|message transféré|mensaje reenviado|mensagem encaminhada"
    r"|messaggio inoltrato|doorgestuurd bericht|vidarebefordrat meddelande)[-_ ]*|begin forwarded message:\s*",
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
    r"on\b.{5,}\bwrote:|.{3,}\bwrote on\b.{5,}:|.{3,}@\S+ wrote:|am\b.{5,}\bschrieb\b.*:|.{3,}\bschrieb am\b.{5,}:"
    r"|le\b.{5,}\ba écrit\s?:|el\b.{5,}\bescribió:|il\b.{5,}\bha scritto:|op\b.{5,}\bschreef\b.*:"
    r"|(?:em|a)\b.{5,}\bescreveu:|(?:den|on|tor|fre|lør|lör|søn|sön|man|mån|tir|tis|ons)\b.{5,}\bskrev\b.*:"
    r"|(?:dnia|w dniu|pon\.|wt\.|śr\.|czw\.|pt\.|sob\.|niedz\.)\s.{5,}\bnapisał.*:|.*\d{4}年.{3,}[:：]"
    r"|.*\d{4}년.{3,}작성:",
    re.IGNORECASE,
)
HEADERS = {
    name: kind
    for kind, names in {
        "from": "from von de da van från fra od 发件人",
        "date": "sent date gesendet datum envoyé enviado enviada inviato data verzonden skickat sendt dato "
        "wysłano 发送时间",
        "to": "to an à a para aan till til do 收件人",
        "subject": "subject betreff objet asunto assunto oggetto onderwerp ämne emne temat 主题",
    }.items()
    for name in names.split()
}
DEVICE_LINE = re.compile(
    r"(?:sent (?:from|via) (?:my |mail for|outlook|yahoo|gmail|proton|samsung|blackberry).{0,40}"
    r"|get outlook for .{0,60}|gesendet (?:mit|von) .{0,40}|von meinem .{0,30} gesendet"
    r"|diese nachricht wurde von meinem .{0,60}gesendet\.?|envoyé (?:de|depuis) (?:mon |outlook|yahoo).{0,40}"
    r"|enviado (?:desde|do) (?:mi|meu) .{0,40}"
    r"|inviato da(?:l mio)? .{0,40}|verzonden vanaf mijn .{0,40})",
    re.IGNORECASE,
)
DISCLAIMER = re.compile(
    r"intended (?:only |solely |exclusively )?for (?:the )?(?:use|addressee|recipient|person|individual|named)"
    r"|intended recipient|received this .{0,60}in error|irrtümlich|nicht der richtige adressat|par erreur|por error"
    r"|per errore|abusievelijk|ten onrechte ontvangen",
    re.IGNORECASE,
)
FOOTER_LINE = re.compile(
    r"unsubscribe|opt[- ]out|manage (?:your |my )?(?:e-?mail |subscription )?(?:preferences|subscriptions?)"
    r"|(?:update|change) (?:your )?(?:e-?mail )?(?:preferences|settings)"
    r"|view (?:this (?:e-?mail|message) )?(?:in|on|as) (?:your |a |the )?(?:browser|web|online)"
    r"|view online|privacy policy|terms (?:of (?:service|use)|& conditions)"
    r"|all rights reserved|©|\(c\) 20\d\d|you(?:'re| are) receiving this|you received this"
    r"|this (?:e-?mail|message) was sent"
    r"|add us to your address book|abmelden|abbestellen|newsletter abbestellen|im browser (?:ansehen|anzeigen|öffnen)"
    r"|impressum|datenschutz|se désabonner|désinscrire|voir (?:ce message |cet e-?mail )?(?:en ligne|dans)"
    r"|darse de baja|cancelar (?:la )?suscripción|uitschrijven|disiscriviti|follow us|forward to a friend",
    re.IGNORECASE,
)
