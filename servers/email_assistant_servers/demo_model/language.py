"""The languages that the drafts are written in: which one a mail uses, and the fixed phrases of each."""

import re
from dataclasses import dataclass
from datetime import date

_COMMON_WORDS = {
    "en": "the and you your is are for with have this that will can please would about on of to we",
    "de": "der die das und ich du sie wir ist nicht mit für auf ein eine bitte kannst können am im uns zu dir dich",
    "fr": "le la les et je vous nous est pas avec pour un une bonjour des que sur votre merci pouvez au tu du",
}


@dataclass(frozen=True)
class Phrases:
    """The fixed phrases of one language; three of a kind are plain, formal and informal."""

    greetings: tuple[str, str, str]
    greeting_nobody: str
    sign_offs: tuple[str, str, str]
    thanks: str
    thanks_bare: str
    asked: str
    answer: str
    later: str
    yes: str
    no: str
    note: str
    ask: str
    booked: str
    taken: str
    offers: str
    nothing_free: str
    whole_day: str
    days: str
    months: str
    dated: str
    at: str
    either: str

    def day(self, day: date) -> str:
        """A day as people write it: "Thursday 7 May"."""
        return self.dated.format(
            weekday=self.days.split()[day.weekday()], day=day.day, month=self.months.split()[day.month - 1]
        )

    def moment(self, day: date, minute: int) -> str:
        """A day and a time of day: "Thursday 7 May at 14:00"."""
        return self.at.format(day=self.day(day), time=f"{minute // 60:02}:{minute % 60:02}")


PHRASES = {
    "en": Phrases(
        greetings=("Hello {first},", "Dear {full},", "Hi {first},"),
        greeting_nobody="Hello,",
        sign_offs=("Best regards,", "Yours sincerely,", "Cheers,"),
        thanks="Thank you for your mail about “{subject}”.",
        thanks_bare="Thank you for your mail.",
        asked="You asked: “{question}”",
        answer="To your question “{question}”: {answer}",
        later="I will look into it and get back to you soon.",
        yes="Yes, that is fine with me.",
        no="Unfortunately, I have to decline.",
        note="Please note: {text}",
        ask="May I ask {text}?",
        booked="{moment} works for me. An invitation follows.",
        taken="Unfortunately, {moment} is not free on my side.",
        offers="I could do one of these times: {moments}. Does one of them suit you?",
        nothing_free="Unfortunately, I have no free time on {days}. Could you propose another day?",
        whole_day="Unfortunately, {day} is full on my side.",
        days="Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        months="January February March April May June July August September October November December",
        dated="{weekday} {day} {month}",
        at="{day} at {time}",
        either=" or ",
    ),
    "de": Phrases(
        greetings=("Hallo {first},", "Guten Tag {full},", "Hi {first},"),
        greeting_nobody="Guten Tag,",
        sign_offs=("Beste Grüße", "Mit freundlichen Grüßen", "Viele Grüße"),
        thanks="vielen Dank für die Nachricht zu „{subject}“.",
        thanks_bare="vielen Dank für die Nachricht.",
        asked="Die Frage war: „{question}“",
        answer="Zur Frage „{question}“: {answer}",
        later="Ich kümmere mich darum und melde mich bald.",
        yes="Ja, das ist mir recht.",
        no="Leider muss ich absagen.",
        note="Noch ein Hinweis: {text}",
        ask="Eine Frage noch: {text}?",
        booked="{moment} passt mir gut. Eine Einladung folgt.",
        taken="Leider ist {moment} bei mir schon belegt.",
        offers="Diese Zeiten gehen bei mir: {moments}. Passt eine davon?",
        nothing_free="Leider habe ich an diesen Tagen keine freie Zeit: {days}. Geht ein anderer Tag?",
        whole_day="Leider bin ich am {day} ausgebucht.",
        days="Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        months="Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        dated="{weekday}, {day}. {month}",
        at="{day}, um {time} Uhr",
        either=" oder ",
    ),
    "fr": Phrases(
        greetings=("Bonjour {first},", "Madame, Monsieur {full},", "Salut {first},"),
        greeting_nobody="Bonjour,",
        sign_offs=("Cordialement,", "Veuillez agréer mes salutations distinguées,", "À bientôt,"),
        thanks="Merci pour votre message au sujet de « {subject} ».",
        thanks_bare="Merci pour votre message.",
        asked="Votre question : « {question} »",
        answer="À votre question « {question} » : {answer}",
        later="Je m'en occupe et je reviens vers vous bientôt.",
        yes="Oui, cela me convient.",
        no="Malheureusement, je dois décliner.",
        note="À noter : {text}",
        ask="Encore une question : {text} ?",
        booked="{moment} me convient. Une invitation suit.",
        taken="Malheureusement, {moment} n'est pas libre de mon côté.",
        offers="Je suis disponible : {moments}. Est-ce qu'un de ces moments vous convient ?",
        nothing_free="Malheureusement, je n'ai pas de temps libre ces jours-là : {days}. Un autre jour vous irait-il ?",
        whole_day="Malheureusement, je ne suis pas disponible le {day}.",
        days="lundi mardi mercredi jeudi vendredi samedi dimanche",
        months="janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        dated="{weekday} {day} {month}",
        at="{day} à {time}",
        either=" ou ",
    ),
}


def phrases_for(text: str) -> Phrases:
    """The phrases of the text's language, told by its most common words; English when in doubt."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    counts = {language: sum(word in common.split() for word in words) for language, common in _COMMON_WORDS.items()}
    return PHRASES[max(counts, key=lambda language: counts[language])]
