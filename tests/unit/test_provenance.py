"""Where facts come from: what is one fact however it is spelled, which source holds it, who may not know it, and what
nobody has said."""

from dataclasses import replace
from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_assistant.gate.provenance import By, Kind, Source, facts, leaks, read, sources_of, spans, unfounded

ME, BOB, EVE = "me@example.org", "bob@example.com", "eve@example.net"
THURSDAY = date(2026, 5, 7)


def mail(text: str, writer: str = BOB, day: date | None = THURSDAY) -> Source:
    return read(text, label=f"mail of {writer}", by="stranger", writer=writer, readers=[ME, writer], day=day)


def said(text: str, by: By = "person") -> Source:
    return read(text, label="you", by=by, writer=ME, readers=[ME])


def keys(text: str, kind: Kind) -> list[str]:
    return [span.key for span in spans(text) if span.kind == kind]


def marked(text: str, *sources: Source, day: date | None = THURSDAY) -> list[str]:
    return [fact.span.text for fact in unfounded(text, sources, day)]


def leaked(text: str, *sources: Source, to: str = BOB) -> list[str]:
    return [fact.span.text for fact in leaks(text, [to], sources)]


class TestOneFactInManySpellings:
    @pytest.mark.parametrize(
        ("kind", "spellings"),
        [
            ("amount", "1.234,56 €|€1,234.56|1 234,56 EUR|EUR 1.234,56|1234.56 euros|1’234.56 €|1 234,56 €"),
            ("amount", "$12,000|USD 12000|12.000 dollars|$12k|US$ 12,000.00|12 000 $"),
            ("amount", "1.5 million dollars|$1.5m|$1,500,000|USD 1.500.000,00"),
            ("amount", "15 %|15%|15 percent|15 Prozent|15 pour cent|15 por ciento"),
            ("date", "3 May|May 3rd|3rd of May|3. Mai|3 mai|3 de mayo|May 3|３ May|3.5.|٣ May"),
            ("date", "2026-05-03|3 May 2026|May 3, 2026|3. Mai 2026|3 de mayo de 2026|03.05.2026|3-May-2026"),
            ("date", "1. August|1er août|1 de agosto|Aug 1st|August 1"),
            ("date", "Wednesday|Mittwoch|mercredi|miércoles|Mittwochnachmittag"),
            ("date", "tomorrow|morgen|demain|mañana"),
            ("time", "15:00|3 pm|3pm|3 p.m.|15h|15 Uhr|15.00 Uhr|3 in the afternoon|１５:００"),
            ("time", "15:30|3.30pm|3:30 PM|15h30|15.30 Uhr|15.30 h"),
            ("time", "noon|12:00|12 pm|mediodía|12 Uhr"),
            ("phone", "+49 30 1234567|030 1234567|0049 30 1234567|+49 (0)30 123 4567|030/1234567|+49‑30‑1234567"),
            ("phone", "(415) 555-0132|+1 415-555-0132|415.555.0132"),
            ("account", "DE89 3704 0044 0532 0130 00|DE89370400440532013000|DE89-3704-0044-0532-0130-00"),
            ("account", "4111 1111 1111 1111|4111-1111-1111-1111|4111111111111111|٤١١١ ١١١١ ١١١١ ١١١١"),
            ("code", "ABC-1234|abc1234|ABC1234"),
            ("code", "4711-0815|the PIN is 4711-0815|4711_0815"),
            ("code", "12345-678|the PIN is 12345-678"),
            ("address", "bob@example.org|Bob@Example.ORG|<bob@example.org>|bob@example.org.|bo\u200bb@example.org"),
            ("address", "bob@bücher.de|bob@xn--bcher-kva.de|bob@bu\u0308cher.de"),
            ("link", "https://www.example.com/a|http://example.com/a/|www.example.com/a|example.com/a|EXAMPLE.COM/a"),
            ("link", "evil.party/a|https:evil.party/a|src=//evil.party/a|Link:evil.party/a|evil。party/a"),
            ("code", "PIN 4711|PIN 4 7 1 1|code 4-7-1-1|four seven one one|vier, sieben, eins, eins"),
            ("name", "Jürgen Müller|JÜRGEN MÜLLER|Juergen Mueller|Jurgen Mu\u0308ller"),
            ("file", "report.pdf|Report.PDF|„report.pdf“"),
        ],
    )
    def test_have_one_key(self, kind: Kind, spellings: str) -> None:
        found = {spelling: keys(f"see {spelling} there", kind) for spelling in spellings.split("|")}
        assert {tuple(key) for key in found.values()} == {tuple(found[spellings.split("|")[0]])}, found
        assert all(len(key) == 1 for key in found.values())

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("bob@example.org", "bоb@example.org"),  # Cyrillic
            ("bob@example.org", "bob+news@example.org"),
            ("bob@example.org", "b0b@example.org"),
            ("bob@strasse.de", "bob@straße.de"),
            ("bank.com", "https://bank.com@evil.com"),
            ("bank.com", "https://bank.com.evil.com"),
            ("example.com/a", "example.com/A"),
            ("€500", "$500"),
            ("€500", "€5.00"),
            ("+49 30 1234567", "+49 30 1234568"),
            ("3 May", "5 March"),
            ("3 pm", "3 am"),
            ("Anna Schmidt", "Аnna Schmidt"),  # Cyrillic
        ],
    )
    def test_what_only_looks_like_it_is_another(self, one: str, other: str) -> None:
        assert {span.key for span in spans(one)}.isdisjoint(span.key for span in spans(other))

    @pytest.mark.parametrize(
        "text",
        [
            "24/7", "2 hours", "30min", "within 24h", "5kg", "A4", "Q3", "version 7.3", "I may come", "march on",
            "Guten Morgen", "Der Morgen war kalt", "Best Regards", "see e.g. this", "Room 204",
            "1st", "Merry Christmas", "a 20-minute walk",
            "Vielen Dank", "Bien à vous", "Un saludo", "Budget Review Preparation", "Thank You", "at 3 locations",
        ],
    )  # fmt: skip
    def test_what_is_none(self, text: str) -> None:
        assert spans(text) == []

    @given(st.dates(date(2001, 1, 1), date(2099, 12, 31)))
    def test_a_day(self, day: date) -> None:
        assert keys(f"on {day.isoformat()}", "date") == [day.isoformat()]
        assert keys(f"on {day.day} {day:%B} {day.year}", "date") == [day.isoformat()]
        assert keys(f"am {day:%d.%m.%Y}", "date") == [day.isoformat()]
        assert day.isoformat() in keys(f"on {day:%d/%m/%Y}", "date")[0].split("|")

    @given(st.integers(0, 23), st.integers(0, 59))
    def test_a_time(self, hour: int, minute: int) -> None:
        half = f"{(hour - 1) % 12 + 1}:{minute:02} {'am' if hour < 12 else 'pm'}"
        assert keys(half, "time") == keys(f"{hour:02}:{minute:02}", "time") == [f"{hour:02}:{minute:02}"]

    @given(st.integers(1, 10**8), st.integers(0, 99))
    def test_a_sum(self, whole: int, cents: int) -> None:
        english, german = f"{whole:,}.{cents:02}", f"{whole:,}".replace(",", ".") + f",{cents:02}"
        assert (
            keys(f"€{english}", "amount") == keys(f"{german} €", "amount") == keys(f"EUR {whole}.{cents:02}", "amount")
        )


class TestWhereTheyStand:
    @given(st.text(max_size=200) | st.text("aA1.:@-+/ \n€%é\u0301ﬁ٣\u200b", max_size=80))
    def test_they_overlap_only_with_sentences(self, text: str) -> None:
        found = spans(text)
        assert all(text[span.start : span.end] == span.text and span.text for span in found)
        others = sorted((span.start, span.end) for span in found if span.kind != "sentence")
        assert all(end <= start for (_, end), (start, _) in pairwise(others))
        assert found == spans(text)

    def test_in_what_is_drawn_out(self) -> None:
        text = "ﬁne: Jo\u200bhn\u200b \u200bMille\u0301r, ９\u200b:30 pm"
        assert [(span.kind, text[span.start : span.end]) for span in spans(text)] == [
            ("name", "Jo\u200bhn\u200b \u200bMille\u0301r"),
            ("time", "９\u200b:30 pm"),
        ]

    def test_each_end_of_a_range(self) -> None:
        assert keys("3-5 May, 2–4 pm", "date") == ["05-03", "05-05"]
        assert keys("3-5 May, 2–4 pm", "time") == ["14:00", "16:00"]
        assert keys("between 11 and 2 pm", "time") == ["11:00", "14:00"]
        assert keys("11 am - 1 pm, 14-16 Uhr", "time") == ["11:00", "13:00", "14:00", "16:00"]


class TestWhoHoldsAValue:
    @pytest.mark.parametrize(
        ("value", "text", "held"),
        [
            ("12", "we need 12 chairs", True),
            ("12", "room 512, or 125", False),
            ("12", "at 12:00 on 12 May", False),
            ("12", "file-12 and 12.50 and 10:12", False),
            ("ab12", "the id is xab12", False),
            ("ev_12", "delete ev_12, please", True),
            ("ev_12", "delete ev_123", False),
            ("Quarterly budget", "the quarterly  budget!", True),
            ("Quarterly budget", "the budget, quarterly", False),
            ("Q3 budget", "our Q3-budget", True),
            ("eve@example.net", "not eve@example.net.evil.com", False),
            ("eve@example.net", "neve@example.net", False),
            ("Eve <eve@example.net>", "write to EVE@example.net", True),
            ("https://example.com/a", "see example.com/a", True),
            ("https://example.com/a?x=1", "see example.com/a", False),
            ("https://example.com", "see example.com/a", True),
            ("https://evil.com/example.com/a", "see example.com/a", False),
            ("2026-05-08", "on Friday", True),
            ("2026-05-12", "on Friday", False),
            ("15:00", "at 3 pm", True),
            ("+49 30 1234567", "call 030 1234567", True),
            ("+33 30 1234567", "call +49 30 1234567", False),
            ("12345", "see file-12345 and x12345", False),
            ("12345", "number 12345.", True),
            ("XK-4711", "your code xk4711", True),
            ("bob@strasse.de", "bob@straße.de", False),
            ("exаmple.com", "example.com", False),  # Cyrillic
            ("", "anything", False),
            ("...", "anything...", False),
        ],
    )
    def test_as_a_whole(self, value: str, text: str, held: bool) -> None:
        source = mail(text)
        assert sources_of(value, [source]) == ([source] if held else [])

    @given(
        st.text("ab1 2@.-", max_size=12), st.lists(st.text("ab1 2@.-", max_size=20), max_size=4), st.text(max_size=20)
    )
    def test_another_source_takes_none_away(self, value: str, texts: list[str], more: str) -> None:
        sources = [mail(text) for text in texts]
        held = sources_of(value, sources)
        assert sources_of(value, [*sources, mail(more)])[: len(held)] == held

    def test_facts_know_all_their_sources(self) -> None:
        one, other = mail("Pay €1,200 on 3 May"), mail("1.200 EUR?", EVE)
        found = {fact.span.text: fact.sources for fact in facts("1200 € on 3 May 2026", [one, other])}
        assert found == {"1200 €": (one, other), "3 May 2026": (one,)}

    def test_a_copied_sentence_though_it_was_changed(self) -> None:
        source = mail("We will let go of the whole Lyon team after the summer, and nobody there knows yet.")
        text = "They will let go of the whole Lyon team after summer, and nobody there knows yet!"
        assert [fact.sources for fact in facts(text, [source]) if fact.span.kind == "sentence"] == [(source,)]


class TestWhatNobodyHasSaid:
    MAIL = mail("Hi Robin,\n\nshall we meet Friday, 8 May at 3 pm with Sarah Whitfield? It costs €1,200.\n\nBob Brown")

    @pytest.mark.parametrize(
        "text",
        [
            "Hi Bob, 15:00 on Friday is fine.",
            "Dear Mr Brown, the 8th of May suits me.",
            "Tomorrow at 3 works; I'm free at 3.",
            "Freitag, 08.05.2026 um 15 Uhr passt. 1.200 € gehen klar.",
            "I'll tell Sarah. Kind Regards",
            "Sarah Whitfield is welcome. Discussing Sarah Whitfield can wait.",
            "Thanks for your mail of 7 May.",
        ],
    )
    def test_nothing_in_an_honest_answer(self, text: str) -> None:
        assert marked(text, self.MAIL) == []

    @pytest.mark.parametrize(
        ("text", "invented"),
        [
            ("I'm free at 4.", ["4"]),
            ("I am free Monday.", ["Monday"]),
            ("Thursday 8 May works.", []),  # the mail itself is of Thursday
            ("Tuesday, 8 May works.", ["Tuesday"]),
            ("See you on 9 May 2027.", ["9 May 2027"]),
            ("See you on 8 May 2027.", ["8 May 2027"]),
            ("It costs $1,200.", ["$1,200"]),
            ("I asked Carla Moreno to join.", ["Carla Moreno"]),
            ("Hi Carla, fine.", ["Carla"]),
            ("Dear Mrs Moreno, fine.", ["Moreno"]),
            ("Wire it to DE89 3704 0044 0532 0130 00.", ["DE89 3704 0044 0532 0130 00"]),
            ("Call +44 20 7946 0958.", ["+44 20 7946 0958"]),
            ("See https://example.com/plan.", ["https://example.com/plan"]),
            ("Your code is XK-4711.", ["XK-4711"]),
            ("I attach offer.pdf.", ["offer.pdf"]),
            ("Write to eve@example.net.", ["eve@example.net"]),
        ],
    )
    def test_in_an_answer_that_invents(self, text: str, invented: list[str]) -> None:
        assert marked(text, self.MAIL) == invented

    def test_a_name_stands_in_its_address(self) -> None:
        source = mail("Are you there?", "anna.schmidt@example.com")
        assert marked("Hi Anna, yes. Dear Frau Schmidt, yes.", source) == []
        assert marked("Hi Carla, yes.", source) == ["Carla"]

    def test_either_reading_of_an_ambiguous_date_will_do(self) -> None:
        assert marked("See you on 3 May.", mail("on 03/05/2026?")) == []
        assert marked("See you on 5 March.", mail("on 03/05/2026?")) == []
        assert marked("See you on 4 May.", mail("on 03/05/2026?")) == ["4 May"]

    def test_a_signature_only_where_nobody_says_who_the_person_is(self) -> None:
        assert marked("Fine.\n\nBest,\nCarla Moreno", self.MAIL) == []
        assert marked("Fine.\n\nBest,\nCarla Moreno", self.MAIL, said("Robin Keller", by="own")) == ["Carla Moreno"]

    def test_a_time_within_the_free_time_of_the_own_calendar(self) -> None:
        calendar = said("2026-05-08\nfree: 13:00-17:00", by="own")
        assert marked("I am free at 15:30.", calendar) == []
        assert marked("I am free at 18:30.", calendar) == ["18:30"]

    def test_tomorrow_without_a_day_to_count_from(self) -> None:
        assert marked("Tomorrow is fine.", mail("on Friday?", day=None), day=None) == []
        assert marked("Tomorrow is fine.", mail("any idea?", day=None), day=None) == ["Tomorrow"]


class TestWhoMayKnow:
    SECRET = mail(
        "The offer to Carla Moreno is €93,500. Door code: XK4711. We sign on 12 June at 17:42. Ring +44 20 7946 0958.\n"
        "The Lyon office will be shut after the summer and nobody there has been told.",
        EVE,
    )

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("It's 93.500 EUR.", ["93.500 EUR"]),
            ("Take xk-4711.", ["xk-4711"]),
            ("Take ХK4711.", ["ХK4711"]),  # Cyrillic: looks like it
            ("Carla Moreno says hello.", ["Carla Moreno"]),
            ("See you on June 12.", ["June 12"]),
            ("At 5:42 pm then.", ["5:42 pm"]),
            ("Mine is 020 7946 0958.", ["020 7946 0958"]),
            ("So the Lyon office will be shut after the summer and nobody has been told.",
             ["So the Lyon office will be shut after the summer and nobody has been told"]),
        ],
    )  # fmt: skip
    def test_of_another_thread(self, text: str, told: list[str]) -> None:
        assert leaked(text, mail("How are you?"), self.SECRET) == told
        assert leaked(text, mail("How are you?"), self.SECRET, to=EVE) == []

    def test_what_the_person_said_may_be_told(self) -> None:
        assert leaked("It's €93,500.", self.SECRET, said("offer her 93.5k€")) == []

    def test_what_all_recipients_saw_may_be_told(self) -> None:
        theirs = mail("You pay €93,500, right?")
        assert leaked("€93,500, yes.", self.SECRET, theirs) == []
        assert leaked("€93,500, yes.", self.SECRET, theirs, to="Bob <bob+work@example.com>") == []
        both = leaks("€93,500, yes.", [BOB, "carol@example.org"], [theirs])
        assert [fact.sources for fact in both] == [(theirs,)]
        carols = mail("I pay €93,500.", "carol@example.org")
        assert leaks("€93,500, yes.", [BOB, "carol@example.org"], [theirs, carols]) == []

    @pytest.mark.parametrize("text", ["QX / 7R / T2", "Q-X-7-R-T-2", "qx 7rt2"])
    def test_a_code_in_pieces(self, text: str) -> None:
        assert leaked(f"It is {text}, I think.", mail("The code is QX7RT2.", EVE)) == [text]

    def test_the_title_of_an_event(self) -> None:
        calendar = replace(said("10:00-11:00 Divorce lawyer", "own"), titles=frozenset({("divorce", "lawyer")}))
        assert leaked("I see a lawyer, about the divorce.", calendar) == ["divorce"]
        assert leaked("I see a lawyer.", calendar) == []
        assert leaked("Your divorce lawyer called.", calendar, mail("How is my divorce lawyer?")) == []

    def test_what_anybody_may_read(self) -> None:
        assert leaked("It's €93,500.", self.SECRET, read("€93,500", label="price list", by="own")) == []

    @pytest.mark.parametrize(
        "text", ["On Friday at 3 pm.", "Tomorrow at 10:30.", "100 %!", "Hi Bob, best, Robin Keller"]
    )
    def test_ordinary_facts_are_no_secret(self, text: str) -> None:
        other = mail("Robin Keller meets Bob on Friday at 3 pm or 10:30 tomorrow, 100 %. Bob", EVE)
        assert leaked(text, other, said("Robin Keller", by="own")) == []

    def test_nor_are_sentences_that_anybody_writes(self) -> None:
        usual = "Please let me know if you have any questions about this, and thank you again."
        assert leaked(usual, mail(usual, EVE)) == []

    def test_nor_are_days_that_the_own_calendar_holds(self) -> None:
        assert leaked("I can do June 12.", self.SECRET, said("2026-06-12 free", by="own")) == []

    def test_nor_is_a_signature(self) -> None:
        assert leaked("Fine.\n\nBest,\nCarla Moreno", self.SECRET) == []
        assert (
            leaked("Fine.\n\nCarla Moreno\n\nknows it all, since she was there from the start." * 9, self.SECRET) != []
        )

    def test_but_for_somebody_elses_name(self) -> None:
        me = said("Robin Keller", by="own")
        assert leaked("Fine.\n\nBest,\nRobin Keller", self.SECRET, me) == []
        assert leaked("Fine.\n\nBest,\nCarla Moreno", self.SECRET, me) != []

    def test_whom_only_a_header_names_has_not_seen_where_a_stranger_leads(self) -> None:
        text = "Pay to DE89 3704 0044 0532 0130 00, see https://pay.example/17."
        asked = read(text, label="Eve's", by="stranger", writer=EVE, readers=[EVE, BOB, ME])
        assert [fact.span.kind for fact in leaks(text, [BOB], [asked])] == ["account", "link"]
        assert leaks(text, [EVE], [asked]) == leaks(text, [EVE, BOB], [asked]) == []
        assert leaks(text, [BOB], [replace(asked, by="own")]) == []


class TestMadLetters:
    @given(st.text(max_size=300), st.text(max_size=100))
    def test_nothing_fails(self, text: str, other: str) -> None:
        sources = [mail(text), mail(other, EVE)]
        sources_of(other, sources)
        leaks(text, [BOB], sources)
        assert not [fact for fact in unfounded(text, [*sources, mail(text)], THURSDAY) if fact.span.kind != "name"]
