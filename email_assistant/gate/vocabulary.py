"""Words by which dates, times, sums and names are told, in English, German, French and Spanish; without accents."""

from typing import Final


def _numbered(rows: str) -> dict[str, int]:
    return {word: number for number, row in enumerate(rows.split("|"), 1) for word in row.split()}


def _set(row: str) -> frozenset[str]:
    return frozenset(row.split())


def _named(rows: dict[str, str]) -> dict[str, str]:
    return {word: name for name, row in rows.items() for word in row.split()}


MONTHS: Final = _numbered(
    "january jan januar janvier janv enero ene janner|february feb februar fevrier fevr fev febrero"
    "|march mar marz maerz mars marzo mrz|april apr avril avr abril abr|may mai mayo"
    "|june jun juni juin junio|july jul juli juillet juil julio|august aug aout agosto ago"
    "|september sep sept septembre septiembre setiembre|october oct okt oktober octobre octubre"
    "|november nov novembre noviembre|december dec dez dezember decembre diciembre dic"
)
WEEKDAYS: Final = _numbered(
    "monday mondays montag montags lundi lundis lunes|tuesday tuesdays dienstag dienstags mardi mardis martes"
    "|wednesday wednesdays mittwoch mittwochs mercredi mercredis miercoles"
    "|thursday thursdays donnerstag donnerstags jeudi jeudis jueves|friday fridays freitag freitags vendredi vendredis"
    " viernes|saturday saturdays samstag samstags sonnabend samedi samedis sabado sabados"
    "|sunday sundays sonntag sonntags dimanche dimanches domingo domingos"
)
SHORT_WEEKDAYS: Final = _numbered(
    "mon mo lun|tue tues di mar|wed mi mer mie|thu thur thurs do jeu jue|fri fr ven vie|sat sa sam sab|sun so dim dom"
)
"""They are other words too: they count only before a number."""
DAY_PARTS: Final = ("vormittag", "nachmittag", "abend", "mittag", "morgen", "fruh", "nacht")
RELATIVE: Final = {
    "tomorrow": 1, "tmrw": 1, "tmr": 1, "morgen": 1, "demain": 1, "manana": 1, "overmorrow": 2, "ubermorgen": 2,
    "uebermorgen": 2, "yesterday": -1, "gestern": -1, "ayer": -1, "vorgestern": -2, "anteayer": -2,
}  # fmt: skip
NO_TOMORROW: Final = {
    "morgen": {"guten", "heute", "am", "schonen"}, "manana": {"la", "esta", "de", "una"}, "demain": set(),
}  # fmt: skip
FURTHER: Final = {"after", "apres", "pasado"}
"""With which tomorrow is the day after it."""
CLOCK: Final = {
    "noon": "12:00", "midday": "12:00", "mediodia": "12:00", "midnight": "00:00", "mitternacht": "00:00",
    "minuit": "00:00", "medianoche": "00:00",
}  # fmt: skip
DIGITS: Final = {
    word: str(number - 1)
    for word, number in _numbered(
        "0 zero null nul cero|1 one ein eins un une uno una|2 two zwei zwo deux dos|3 three drei trois tres"
        "|4 four vier quatre cuatro|5 five funf cinq cinco|6 six sechs seis|7 seven sieben sept siete"
        "|8 eight acht huit ocho|9 nine neun neuf nueve"
    ).items()
}
"""By which a number is spelled, digit by digit."""
CURRENCIES: Final = _named({
    "EUR": "€ eur euro euros", "USD": "$ us$ usd dollar dollars dolar dolares bucks", "GBP": "£ gbp pound pounds quid",
    "CHF": "chf sfr franken francs", "JPY": "¥ jpy yen", "CNY": "cny rmb yuan", "SEK": "sek", "NOK": "nok",
    "DKK": "dkk", "INR": "₹ inr rupees", "PLN": "zł pln", "CAD": "cad ca$ c$", "AUD": "aud a$", "BRL": "brl r$",
    "MXN": "mxn", "CZK": "kč czk", "KRW": "₩ krw", "TRY": "₺", "ILS": "₪", "RUB": "₽ rub", "BTC": "btc", "ETH": "eth",
    "%": "% percent prozent", "XXX": "kr kronor kroner",
})  # fmt: skip
SCALES: Final = {
    "k": 1000, "thousand": 1000, "tausend": 1000, "tsd": 1000, "mille": 1000, "mil": 1000,
    "m": 10**6, "mn": 10**6, "mio": 10**6, "million": 10**6, "millions": 10**6, "millionen": 10**6,
    "millon": 10**6, "millones": 10**6, "bn": 10**9, "billion": 10**9, "billions": 10**9, "mrd": 10**9,
    "milliarde": 10**9, "milliarden": 10**9, "milliards": 10**9,
}  # fmt: skip
TITLES: Final = _set(
    "mr mrs ms miss dr prof professor sir madam herr herrn frau monsieur madame mademoiselle mme mlle senor"
    " senora senorita sr sra srta don dona"
)
GREETINGS: Final = _set(
    "hi hello dear hey hiya hallo liebe lieber moin servus geehrte geehrter bonjour salut cher chere hola"
    " estimado estimada querido querida"
)
PARTICLES: Final = _set("von van der den de la le del della di da dos du al el bin ibn ben ter ten zu")
GERMAN: Final = _set(
    "der die das und ist nicht ich sie wir mit fur auf den dem ein eine zu von bei uns ihnen ihr im am wenn haben"
)
NOT_GERMAN: Final = _set(
    "the and is not i you we with for on to of at us if have le la les et est pas je vous nous avec pour sur un"
    " une el los y no con para en que por"
)
SECRET_CUES: Final = _set(
    "pin code codes passcode password passwort kennwort token otp booking reservation reference ref confirmation"
    " voucher order ticket invoice tracking po pnr case customer kundennummer buchungscode buchungsnummer"
    " bestellnummer auftragsnummer rechnungsnummer bestellung rechnung buchung vorgang zugangscode reserva pedido"
    " factura referencia codigo clave contrasena localizador commande facture dossier motdepasse passe key id no"
    " nr number numero nummer"
)
SECRETS: Final = _set(
    "pin code passcode password passwort kennwort token otp codigo clave contrasena zugangscode buchungscode pwd"
)
"""Behind which stands a code, of letters alone too."""
ACCOUNT_CUES: Final = _set(
    "iban account acct konto kontonummer blz compte cuenta card karte carte tarjeta sortcode routing bic depot"
)
PHONE_CUES: Final = _set(
    "tel telefon telefonnummer phone mobile cell call ring fax handy mobil handynummer telephone portable"
    " telefono movil whatsapp sms durchwahl reach on number"
)
THINGS: Final = _set(
    "file files document documents doc folder event events meeting meetings appointment invitation mail mails email"
    " emails message messages thread note notes list subject title titled called named people participants attendees"
    " guests members datei dateien dokument ordner termin treffen besprechung einladung nachricht betreff titel namens"
    " teilnehmer gaste"
)
PLACES: Final = _set("channel group room user kanal gruppe raum")
"""Beside both stands a name."""
PEOPLE: Final = _set(
    "people person persons participant participants attendee attendees guest guests member members everybody everyone"
    " client clients leute teilnehmer teilnehmern gaste gasten kunde kunden kundin alle"
)
"""By which those are meant who belong to a thing."""
EXTREMES: Final = _set(
    "largest biggest smallest oldest newest latest earliest longest shortest highest lowest cheapest most least first"
    " last next previous all every each both grosste kleinste alteste neueste neuste letzte letzten erste ersten"
    " nachste nachsten alle jede jeden beide beiden"
)
"""By which one is meant of several, without a word that it bears."""
ARTICLES: Final = _set("the a an my our of der die das den dem des mein meine meinen unser unsere vom zum")

ENDINGS: Final = _set(
    "com org net edu gov int info biz name app dev page site online store shop tech cloud live link click top xyz"
    " club news blog agency email digital global group media network software solutions systems world zone work"
    " works io ai co me tv cc eu uk us ca au nz de at ch fr es it nl be pl cz dk se fi ie pt gr ru ua in cn jp kr"
    " br mx ar za tr il ae sg hk lu li hu ro bg si sk hr rs ee lv lt ly gg to test example"
)
"""Of domains that people name without "www."."""

_ORDINARY: Final = """
a ab abend abends aber about above absence accept access account accounting across action actions actual add addendum
ademas adjunto admin administration advance advent advisory afin africa after afternoon ag again agenda agradezco
agree agreed agreement ahora ai ainsi airport al alert algo algun alguna all alle allem allen aller alles allocation
almost alors already als also alternative although always am amable amazon america american among amsterdam an
analysis analytics anbei and andere anderen android anfang anfrage angebot anhang annee annex anniversaire anniversary
announcement annual ano another antes antwort any anyone anything apologies appendix apple application approach
approval apres aqui architecture are around arrangements as asap asi asia ask asked asset assets assistance assurance
at atenta atentamente atentos attached attachment attendance au auch aucun audit auf aufgaben aujourd'hui aun aunque
aus aussi austria author authority autre autres aux available avant avec avenue avez avis avoir avons away back
background backlog backup balance bald bank barcelona baseline batch be beaucoup because been before bei beide being
belle below benchmark benefits berlin best beste besten better between bezug bien bientot billing birthday bis bitte
bleiben blocker blockers board bon bonheur bonne bonnes bonsoir booking both brand break breakdown breakfast brief
briefing briefly british brussels budget buen buena buenas bueno buenos build building business but buyer by ca cada
calendar call calls campaign can canada candidate cannot capacity car care career casa case cases caso category ce
cela center central centre ceo certificate ces cet cette cfo chair chairman chance change changes channel chart check
checklist checkpoint cheers chers chief china christmas ci city claim clarification claro click client clients cliquez
close closing cloud co code collaboration colleague colleagues coming comme comment comments commercial committee
common communication communications community como company compensation competitive completion compliance component
con concept concern concernant concerns conclusion condition conditions condolences conference configuration confirm
confirme confirmed confirming confirmo confluence congrats congratulations considerations considering consultant
consumer contact contacts content contents context contigo continuity contract contracts contrat contrato control
coordination coordinator cordial cordialement cordiales core corp corporate cost costs could council cover coverage
covid creative credit critical cto cual cualquier cuando cuanto cuenta cuidate cumpleanos current customer customers
da dabei daher daily damen damit danach dank danke dann dans daran darauf darf darum das dashboard dass data database
date day days de deadline deal dear decision decisions deck default dein deine del delegation delighted deliverables
delivery dem demand demo den denn department departure dependencies deposit depuis der derniere des desde deshalb
design desk detailed details development device devis dia diagram dial dias dich did die dies diese diesem diesen
dieser dieses digital dinner dir direct direction director directors disclosure disculpa disculpe discuss discussion
discussions disponible distribution division diwali do doch docs document documentation documents does dois dokument
domain donc donde done dont dort dos double draft drive driver drivers dropbox du duda dudas due durch during e each
early east easter economy education effet efficiency effort eid ein eine einem einen einer eines einfach einladung
einverstanden either el ella elle else email employee employees employment en encantado encore end ende ends
engagement engineer engineering england english enhorabuena enjoy ensuite enterprise entre entry entschuldigung
environment envoie envoyer eod equipe equipo er era eres erhalten error es esa escalation ese eso espero essential est
esta estaba estamos estan estar estas este estimate estimated esto estoy et eta etait etes etre euch euer eure europe
european evaluation eve even evening event events every everyone everything example excel excellente excited executive
executives expect expense expenses experience expert external facebook factors factura facture faire fait fall falls
family faq far father fathers faut favor feature features fecha fee feedback fees feiertage felices felicidades
felicitations feliz ferien fest festtage fete fetes few field fiestas file fin final finally finance financial find
finde findings fine first fiscal flight floor focus fois folks follow following followup for form forward forwarded
foundation frage fragen framework france fraulein free freight french freue freuen freundliche freundlichen friday
friend friends frohe frohes from fruhling fue full fully functional funding fur further future fyi gab gabe ganz gar
gate gave gebe geben geburtstag geht general geneva gentlemen german germany gern gerne gesprach gespräch gestern
gesundheit get gibt github give given giving glad gliche global glucklich gluckwunsch gluckwunsche gmail gmbh go goals
going good google got governance gracias gran graphics great greetings group growth gruessen gruss grusse gruße guest
guidance guide guidelines guten guter gutes ha habe haben hace hacia had half hall halloween hamburg han handover
hands hanukkah happy hardware has hasta hat hatte hatten have having hay haya he head headcount headquarters health
hello help her herbst here herren herz herzlich herzliche herzlichen heure heute hey hi hier hiermit highlights him
hiring his hola hold holiday holidays home hope hoping hora horas hotel hotfix hour hours how however hoy hr human i
ich ici ideas identity if igual ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres il ils im immediate impact
implementation important improvement improvements in inc incident income indeed independence india individual industry
info informacion information informationen informations initial initiative innovation ins insights instead insurance
integration intelligence interested interim internal international internet interview into introduction inventory
investment investor invoice iphone is issue issues ist it italy item items itinerary its j ja jahr jahres
jahreswechsel jai january japan je jeder jetzt jira job join joint jour journal journee journey joyeuse joyeuses
joyeux judgment junior just kann kannst keen keep kein keine key kick kickoff kind kindly kingdom know knowledge
kollege kollegen kollegin kolleginnen konnen konnte konnten kosten kunden kurz la lab labor ladies las last later
latest launch le lead leaders leadership leads learned learning least leave ledger legal leider les lessons let letter
leur level levels library license licensing liebe lieben lieber liebste lifecycle like limited line link linkedin list
little live llc lo local location logistics london long look looking lors los loss lot lots love lovely ltd luego
lugar lui lunch ma machen machine madam made madrid mail mailing main maintenance mais major make man management
manager managing manana manual many map march market marketing markets mas master mastercard material materials matin
matter matters may me meanwhile measures mechanism media medical meet meeting meetings mehr meilleures mein meine
meinem meinen meiner mejor mejores melde melden member members meme memo mensaje mentor merci merry mes message
metrics mi mich microsoft midi mientras might migration milan milestone milestones minutes mir mis mismo mission mit
mittag mitte mobile mochte mochten model module moglich moi mois momento mon monday month monthly more morgen morning
most mother mothers much mucha muchas mucho muchos munich muss mussen must muy my nach nachmittag nachricht
nachrichten nachste nachsten nada name navidad navidades ne need needed needs nein network neu neue neuen neujahr
never new next ni nice nicht nichts night no noch noel non none north nos nosotros not note noted notes nothing notice
notion notre nous nouvel now nuestra nuestro nueva nuevo number nur o ob objective objectives objet observations oder
of off offer office officer official ohne ok okay on onboarding once one ongoing online only ont open operating
operation operational operations opportunities opportunity option options or order orders organization orientation
original ort os ostern otra otro otros ou oui our out outcome outcomes outline outlook outstanding over overall
overview own owner owners package packet page panel paper papers paques par para parfait paris parking part
participants partner partners partnership parts party pas pascua patch pay payment paypal payroll pdf pendant pending
people per perfect perfecto performance period permission pero personal personnel petit peu peut phase phases phone
photo piece pilot pipeline plan planning platform player please pleased plus poco podemos podria point points policies
policy por porque portal portfolio posible position positioning positions possible post pour pourquoi pourriez pouvez
pouvons power powerpoint practice practices pre pregunta preguntas premier preparation pres present presentation press
presupuesto preview previous price pricing primary primero principal priorities priority private procedure procedures
process processes prochain prochaine procurement product production products professional profile program programme
progress project projekt projet promotion proof property proposal proposals proposed prospero protection protocol
provider proxima proximo proyecto ps public puede puedes puedo pues puis punkt punkte purchase purchasing purpose
quality quand quarter quarterly que quedo quel quelle queremos question questions queue qui quick quien quiero
quisiera quite quoi quota quote quotes ramadan rate rates raum re read readiness reading ready real really reason
receipt received recent rechnung recommendation recommendations record records recovery recruiting reduction reference
regarding regards regional register registration regression regular regulatory relations relationship release remember
reminder remote rendez-vous rendezvous rental repair replacement reply reponse report reporting reports representative
request requests required requirements research reservation residence resolution resource resources respect respecto
response responses respuesta rest reste results retail retention return returns reunion revenue review reviews revised
right risk risks road roadmap role roles roll rome room root round routine rsvp ruckfragen ruckmeldung rucksprache
rule rules rutsch sa safety said salary sale sales saludo saludos salutations same sample samstag sans sante sarl
saturday saving savings say scale scenario schedule schedules schicke schicken schon schone schonen school schreiben
science scope screen se sea search season seasons secondary section sector secure security see segun sehr sei sein
seine seit seiten selbst semaine semana send sende senden sending senior senores sent separately ser series server
service ses session sessions set setup shall share shared sharing she sheets shift shipment shipping short should si
sich side sido sie sieht siempre sign signature siguiente silvester sin since sincere sincerely sinceres sind sir site
situation skype sl slack slot slots small so sobald sobre social software soir soiree soll sollte sollten solo
solution some someone something sommer sommes somos son sondern sonst sont soon sorry souhaite source sous south soy
space spain spanish speak special specialist specification sponsor spreadsheet spring sprint stack stadt staff stage
stakeholder stakeholders stand standard standards standup start started starting state statement states station status
stehe stehen stelle step steps still stock storage store strategic strategy street structure student studies study
stunde stunden style subject submission success such suggest suggested suggestion suis suite suivant summary summer
sunday supplier suppliers supply support sur sure survey sus sustainability switzerland sync system systems ta tag
tage tagen take takeaways tal talk tambien tampoco tan tanto tardes target targets task tasks tax tbc tbd te teaching
team teams technical technology teile telefon tema temas template temps tenemos tener tengo tentative term termin
termine terms tes test testing thank thanks thanksgiving that the their them thema theme themen then there these they
thing things think third this those though thought through thursday ticket tiempo tiene tienes tier time timeframe
timeline timelines times title to toda todas today todo todos together toi told tomorrow ton tonight too tool tools
top topic topics total touch toujours tous tout toute toutes track tracker tracking trade traffic training transfer
transition transport tras travel tres trial trip trotzdem troubleshooting trouverez truly trust try tu tuesday tus tut
two type uber uhr um un una unas und une unfortunately unit united units university unless uno unos uns unser unsere
unserem unseren unserer unter unterlagen until up upcoming update updated updates upgrade urlaub us usage use user
users usted ustedes va vacaciones vacances vale valentine valentines validation value vamos vendor vendors venue ver
verification vers version versions vertrag very veuillez vez via viaje video viel viele vielen vielleicht vienna view
virtual visa vision visit voici voila volume volunteer vom von vor vorab voraus vormittag vorschlag vos votre voudrais
vous vp wait wann want war warehouse waren warm warmest warning warranty warum was way we web webex webinar wednesday
week weekend weekly weeks weg wegen weihnachten weihnachtszeit weil weiter weitere weiteren weitergeben weiterhin
welche welcome well wellness wenn wer werde werden were west what whatever whatsapp when where whether which while who
why wie wieder wiki will window winter wir wird wire wish wishes wishing with within without wo woche wochen
wochenende wohl wollen wollte word work worker workflow working works workshop workspace world worldwide would written
wunsche wunschen wurde wurden xmas xx y ya year yearly yes yesterday yet yo york you your yours zeit zeiten ziel zone
zoom zu zum zur zurich zuruck zusage zusammen zwei zwischen
"""
ORDINARY: Final = frozenset(_ORDINARY.split()) | WEEKDAYS.keys() | MONTHS.keys() | TITLES | GREETINGS | RELATIVE.keys()
"""Words that stand in anybody's letter: no name is made of them, and a sentence of them alone tells no secret."""
NOUN_ENDINGS: Final = ("ung", "ungen", "heit", "keit", "schaft", "tion", "tionen", "tat", "nis", "ismus", "tum")
THING_ENDINGS: Final = ("tion", "tions", "ments", "ness", "ity", "ities", "ship")
