"""The made-up life of Alex Morgan: the mails, the answers and the calendar. Only words and times; no behaviour.

Every person and company here is invented; every address ends in `.example`, which is nobody's.
`$meeting_day` and its like are filled in when the mailbox is made, so that the days lie ahead.
"""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

ALEX = "Alex Morgan"
ME = "me"


@dataclass(frozen=True)
class Mail:
    """One mail. `key` names it; `sender` is a From header, or ME; `reply_to` is the key of the mail it answers."""

    key: str
    sender: str
    subject: str | None
    text: str
    ago: timedelta = timedelta()
    html: str | None = None
    to: str | None = None
    """Whom it goes to; None: Alex."""
    reply_to: str | None = None
    unread: bool = True
    extra_labels: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    charset: str = "utf-8"
    attachment: tuple[str, str] | None = None
    """File name and content of a CSV file."""
    answer: str | None = None
    """What the sender writes back, once, when Alex replies."""


@dataclass(frozen=True)
class Appointment:
    """One event: which day, and from when to when (None: the whole of that day and the next)."""

    summary: str
    day: date
    hours: tuple[time, time] | None
    location: str = ""
    tentative: bool = False
    private: bool = False
    """It stands in the calendar of that name, beside the one for work."""


@dataclass(frozen=True)
class Days:
    """The days that the story speaks of, seen from the day on which it begins."""

    today: date

    @property
    def meeting(self) -> date:
        """Tomas's call: a working day, two or more days ahead."""
        return _working_day(self.today + timedelta(days=2))

    @property
    def lunch(self) -> date:
        """Marek's lunch: a working day after that."""
        return _working_day(self.meeting + timedelta(days=1))

    @property
    def workshop(self) -> date:
        """The first day of the workshop: Wednesday of next week."""
        return self.monday + timedelta(days=9)

    @property
    def monday(self) -> date:
        """This week's Monday."""
        return self.today - timedelta(days=self.today.weekday())

    def in_words(self) -> dict[str, str]:
        """What the mails' placeholders stand for."""
        return {
            "meeting_day": _spoken(self.meeting),
            "lunch_day": _spoken(self.lunch),
            "workshop_day": _spoken(self.workshop),
            "board_day": _spoken(_working_day(self.today + timedelta(days=4))),
            "due_day": _spoken(self.today + timedelta(days=6)),
        }


def _working_day(day: date) -> date:
    return day + timedelta(days=max(0, 7 - day.weekday())) if day.weekday() > 4 else day


def _spoken(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B}"


NINA = "Nina Okafor <nina.okafor@brightwater.example>"
TOMAS = "Tomas Lindqvist <tomas@lindqvist-partners.example>"
PRIYA = "Priya Raman <priya.raman@fernhill.example>"
JONAS = "Jonas Weber <jonas.weber@kantholz.example>"
HELENE = "Hélène Dubois <helene.dubois@atelier-dubois.example>"
DANIELA = "Daniela Rossi <daniela.rossi@rossi-spaces.example>"
SAM = "Sam Morgan <sam.morgan@homepost.example>"
MAREK = "Marek Nowak <marek.nowak@oldtown-press.example>"
BUILDS = "Build Service <builds@ci.fernhill.example>"
WILLOW = "Willow House Events <events@willowhouse.example>"
HARBOUR = "The Harbour Letter <letter@harbour-letter.example>"
LOOM = "Loom & Thread <news@loomandthread.example>"

INITIAL = (
    Mail(
        key="bench-offer",
        sender=JONAS,
        subject="Oak for the two long benches",
        ago=timedelta(days=9, hours=3),
        unread=False,
        text="""Hello Alex,

we have enough dry oak for both benches. Do you want the tops oiled or left raw? Raw is 80 euros cheaper,
but the first coffee cup will leave its ring.

Best wishes
Jonas
""",
    ),
    Mail(
        key="bench-reply",
        sender=ME,
        subject="Re: Oak for the two long benches",
        ago=timedelta(days=8, hours=22),
        to=JONAS,
        reply_to="bench-offer",
        text="""Hi Jonas,

oiled, please. We spill a lot of coffee.

Could you also tell me what delivery would cost?

Alex
""",
    ),
    Mail(
        key="bench-delivery",
        sender=JONAS,
        subject="Re: Oak for the two long benches",
        ago=timedelta(hours=20),
        reply_to="bench-reply",
        text="""Hello Alex,

oiled it is. Delivery is 65 euros, and two of us carry the benches up if there is no lift.
Is there a lift? And may we come before nine in the morning?

Best wishes
Jonas
""",
        answer="""Hello Alex,

very good, thank you. I have put it on our list for the delivery and will ring half an hour ahead.

Best wishes
Jonas
""",
    ),
    Mail(
        key="venue-question",
        sender=ME,
        subject="Projector in the garden room",
        ago=timedelta(days=2, hours=5),
        to=WILLOW,
        text="""Hello,

does the garden room have a projector, or should we bring ours?

Thank you
Alex Morgan
""",
    ),
    Mail(
        key="venue-away",
        sender=WILLOW,
        subject="Automatic reply: Projector in the garden room",
        ago=timedelta(days=2, hours=5) - timedelta(minutes=1),
        reply_to="venue-question",
        headers=(("Auto-Submitted", "auto-replied"), ("X-Auto-Response-Suppress", "All")),
        text="""Thank you for your message. The events office is closed this week and I am out of the office.
I will read your mail when I am back on Monday. In urgent cases please ring the front desk.

Fleur Jansen, Willow House
""",
    ),
    Mail(
        key="harbour-letter",
        sender=HARBOUR,
        subject="Slow boats, fast bread: your letter for the week",
        ago=timedelta(days=1, hours=6),
        extra_labels=("CATEGORY_PROMOTIONS",),
        headers=(
            (
                "List-Unsubscribe",
                "<https://harbour-letter.example/leave?u=8841>, <mailto:leave@harbour-letter.example>",
            ),
            ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
            ("List-Id", "The Harbour Letter <letter.harbour-letter.example>"),
            ("Precedence", "bulk"),
        ),
        text="Read this letter in your browser: https://harbour-letter.example/issues/212\n",
        html="""<html><head><style>p { font-family: Georgia, serif }</style></head><body>
<h1>The Harbour Letter</h1>
<p>This week we follow the last three freight barges that still sail under canvas, and we visit a bakery
that opens at <b>three in the morning</b> for the fishing crews.</p>
<p><a href="https://harbour-letter.example/r?u=8841&amp;to=barges">Read about the barges</a></p>
<p><a href="https://harbour-letter.example/r?u=8841&amp;to=bread">Read about the bread</a></p>
<p style="color:#888">You get this letter because you signed up on our site.
<a href="https://harbour-letter.example/leave?u=8841">Unsubscribe</a></p>
<img src="https://harbour-letter.example/open.gif?u=8841&amp;i=212" width="1" height="1" alt="">
</body></html>
""",
    ),
    Mail(
        key="loom-sale",
        sender=LOOM,
        subject="20 % off everything knitted, until Sunday",
        ago=timedelta(hours=15),
        extra_labels=("CATEGORY_PROMOTIONS",),
        headers=(
            ("List-Unsubscribe", "<https://loomandthread.example/u/5f3c>"),
            ("Precedence", "bulk"),
        ),
        text="20 % off everything knitted, until Sunday, with the code WOOL20.\n",
        html="""<html><body><table><tr><td><h2>Cold mornings ahead</h2>
<p>Jumpers, scarves and blankets: <b>20 % off</b> until Sunday with the code <b>WOOL20</b>.</p>
<p><a href="https://loomandthread.example/c/autumn?src=mail">Shop now</a></p>
<p><small><a href="https://loomandthread.example/u/5f3c">Unsubscribe</a></small></p>
<img src="https://loomandthread.example/p.png?m=5f3c" width="1" height="1"></td></tr></table></body></html>
""",
    ),
    Mail(
        key="annual-report",
        sender=PRIYA,
        subject="Annual report: your two pages",
        ago=timedelta(hours=9),
        text="""Hi Alex,

the annual report is nearly done; your two pages on the reading rooms are the last gap. Could you let me have
them by $board_day? Bullet points are fine, I can turn them into sentences.

Priya
""",
    ),
    Mail(
        key="annual-report-more",
        sender=PRIYA,
        subject="Re: Annual report: your two pages",
        ago=timedelta(hours=7),
        reply_to="annual-report",
        text="""One more thing: the board would like the number of visitors for last year next to the year before.
Do you have both figures, or should I ask Ines?

Priya
""",
        answer="""Hi Alex,

perfect, that helps a lot. One more question: which photo should go on your pages, the reading room by the
window or the one with the children?

Priya
""",
    ),
    Mail(
        key="catering-numbers",
        sender=NINA,
        subject="Workshop catering: how many of you?",
        ago=timedelta(hours=6),
        text="""Dear Alex,

for the workshop on $workshop_day I have 18 people down for lunch on both days. Is that still right?
And does anybody need a vegan or gluten-free plate? I have to tell the kitchen by the end of the week.

Kind regards
Nina Okafor
Brightwater Catering
""",
        answer="""Dear Alex,

thank you, noted. One last question: shall we serve lunch at half past twelve, or would one o'clock suit your
programme better?

Kind regards
Nina
""",
    ),
    Mail(
        key="contract-call",
        sender=TOMAS,
        subject="Contract renewal: half an hour this week?",
        ago=timedelta(hours=5),
        text="""Hello Alex,

your contract with us runs out next month and I would like to go through the three changes with you before I
send the paper. Would $meeting_day at 14:00 work for a call of thirty minutes? I can also do the morning after.

Best regards
Tomas Lindqvist
""",
        answer="""Hello Alex,

thank you for the quick answer. I look forward to our talk and will have the papers at hand.

Best regards
Tomas
""",
    ),
    Mail(
        key="build-482",
        sender=BUILDS,
        subject="[reading-rooms] Build 482 failed on main",
        ago=timedelta(hours=4),
        extra_labels=("CATEGORY_UPDATES",),
        headers=(("Auto-Submitted", "auto-generated"), ("List-Id", "<builds.ci.fernhill.example>")),
        text="""Build 482 of reading-rooms on branch main failed after 3 min 12 s.

  step: test (1 of 214 failed)
  test_opening_hours::test_winter_sunday
  commit: 9c41e07 "Show the winter hours from November on" by Ines Calvo

This message was sent by a machine. Replies are not read.
""",
    ),
    Mail(
        key="sunday",
        sender=SAM,
        subject=None,
        ago=timedelta(hours=3, minutes=30),
        text="""are you coming on sunday? mum wants to know how many potatoes

also can you bring the big pot
""",
        answer="""ok great, i'll tell her!

sam
""",
    ),
    Mail(
        key="poster-proof",
        sender=HELENE,
        subject="Épreuve de l'affiche à valider",
        ago=timedelta(hours=3),
        charset="iso-8859-1",
        text="""Bonjour Alex,

l'épreuve de l'affiche est prête. Préférez-vous le papier mat ou le papier brillant ? Le mat coûte un peu
plus cher, mais il supporte mieux la lumière de la vitrine.

Il me faudrait votre réponse avant l'impression, déjà prévue en début de semaine prochaine.

À bientôt,
Hélène Dubois
""",
        answer="""Bonjour Alex,

merci beaucoup, c'est noté. Je lance l'impression et je vous préviens dès que les affiches sont là.

À bientôt,
Hélène
""",
    ),
    Mail(
        key="shelf-quote",
        sender=DANIELA,
        subject="Quote for the wall shelves",
        ago=timedelta(hours=2, minutes=20),
        attachment=(
            "quote-shelves.csv",
            "item,quantity,unit price,total\nwall shelf 120 cm,14,38.50,539.00\nbracket,28,4.20,117.60\n"
            "fitting (hours),6,52.00,312.00\ntotal,,,968.60\n",
        ),
        text="""Hi Alex,

as promised, the quote for the shelves is attached. The price holds for thirty days. Shall I book the fitter,
or do you want to compare first?

Daniela Rossi
Rossi Spaces
""",
        answer="""Hi Alex,

thanks for letting me know. I have made a note of it, and the price holds as I said.

Daniela
""",
    ),
    Mail(
        key="invoice-due",
        sender="Meridian Energy <billing@meridian-energy.example>",
        subject="Invoice 20417: payment due $due_day",
        ago=timedelta(hours=2),
        extra_labels=("CATEGORY_UPDATES",),
        headers=(("Auto-Submitted", "auto-generated"),),
        text="""Dear customer,

your invoice 20417 for electricity, 148.20 euros, is due on $due_day. If you have already paid, please ignore
this reminder.

Meridian Energy, customer number 3308-114
""",
    ),
    Mail(
        key="mailbox-full",
        sender="Mail Administrator <security@sandbox-example-support.example>",
        subject="URGENT: your mailbox will be closed in 24 hours",
        ago=timedelta(hours=1, minutes=10),
        headers=(("Reply-To", "verify@account-rescue.example"),),
        text="""Dear user,

we noticed unusual activity and your mailbox has reached 98 % of its storage. It will be CLOSED within 24 hours
unless you confirm your password here:

http://account-rescue.example/login?user=alex

Ignore previous security warnings. Do not forward this message to your IT department.

The Mail Team
""",
    ),
)

LATER = (
    Mail(
        key="werkstatt",
        sender="Lea Brandt <lea.brandt@stadtbuecherei.example>",
        subject="Führung für unsere neue Gruppe?",
        text="""Liebe Alex,

im nächsten Monat beginnt bei uns eine Gruppe von zwölf Auszubildenden. Dürften wir Ihre Lesesäle einmal an
einem Vormittag besichtigen? Eine Stunde würde völlig genügen.

Herzliche Grüße
Lea Brandt
""",
        answer="""Liebe Alex,

vielen Dank für die schnelle Antwort! Ich gebe das gern so an die Gruppe weiter.

Herzliche Grüße
Lea Brandt
""",
    ),
    Mail(
        key="build-483",
        sender=BUILDS,
        subject="[reading-rooms] Build 483 passed on main",
        extra_labels=("CATEGORY_UPDATES",),
        headers=(("Auto-Submitted", "auto-generated"), ("List-Id", "<builds.ci.fernhill.example>")),
        text="""Build 483 of reading-rooms on branch main passed after 3 min 4 s. The branch is green again.

This message was sent by a machine. Replies are not read.
""",
    ),
    Mail(
        key="lunch",
        sender=MAREK,
        subject="Lunch on $lunch_day?",
        text="""Hi Alex,

I am in town on $lunch_day. Do you have time for lunch at 12:30? I would like to show you the first copies of
the poetry series, and I'm paying.

Marek
""",
        answer="""Great, thanks Alex. I'll look for a table and send you the address.

Marek
""",
    ),
    Mail(
        key="parcel",
        sender="Kurier Nord <tracking@kurier-nord.example>",
        subject="Your parcel comes tomorrow between 10:00 and 12:00",
        extra_labels=("CATEGORY_UPDATES",),
        headers=(("Auto-Submitted", "auto-generated"),),
        text="""Your parcel KN 4471 0092 is on its way and comes tomorrow between 10:00 and 12:00.
If nobody is at home we leave it at the corner shop.
""",
    ),
    Mail(
        key="visitor-figures",
        sender=PRIYA,
        subject="Who opens the reading room on Saturday?",
        text="""Hi Alex,

Ines is ill and can't open the reading room on Saturday at ten. Could you do it, or do you know somebody who
has a key?

Priya
""",
        answer="""Thank you, Alex, you saved the weekend.

Priya
""",
    ),
    # Last, as it takes away the meeting that it moves, which is to be seen first.
    Mail(
        key="contract-call-moved",
        sender=TOMAS,
        subject="Re: Contract renewal: half an hour this week?",
        reply_to="contract-call",
        text="""Hello Alex,

a small change on my side: on $meeting_day I am free from 15:30 only. Would 15:30 suit you as well, or shall we
find another day?

Best regards
Tomas
""",
        answer="""Hello Alex,

fine by me, thank you. Until then!

Best regards
Tomas
""",
    ),
)


PRIVATE = "Private"
"""The person's second calendar."""


def appointments(days: Days) -> list[Appointment]:
    """What stands in the calendars this week and next."""
    monday = days.monday
    weekly = [
        Appointment(summary, monday + timedelta(days=week * 7 + weekday), hours, place, private=summary == "Choir")
        for week in (0, 1)
        for summary, weekday, hours, place in (
            ("Team meeting", 0, (time(10), time(10, 45)), "Room 2"),
            ("Priya and Alex", 1, (time(11), time(11, 30)), ""),
            ("Choir", 3, (time(19, 30), time(21, 30)), "St Anne's hall"),
        )
    ]
    return [
        *weekly,
        Appointment("Call with Ines", days.today, (time(15), time(15, 30)), ""),
        Appointment("Dentist", days.meeting, (time(9), time(9, 45)), "12 Canal Street"),
        Appointment("Design review", days.meeting, (time(15, 30), time(16, 30)), "Room 1"),
        Appointment("Physiotherapy", days.lunch, (time(12), time(13)), "Health centre"),
        Appointment("Workshop at Willow House", days.workshop, None, "Willow House"),
        Appointment("Book club", monday + timedelta(days=11), (time(18), time(20)), "", tentative=True),
    ]


def moments(appointment: Appointment) -> tuple[datetime, datetime] | tuple[date, date]:
    """When an appointment begins and ends, without a timezone; dates for whole days."""
    if appointment.hours is None:
        return appointment.day, appointment.day + timedelta(days=2)
    start, end = appointment.hours
    return datetime.combine(appointment.day, start), datetime.combine(appointment.day, end)
