"""How much of a proposed letter is left in what was sent."""

from hypothesis import given
from hypothesis import strategies as st

from email_assistant.mail.diff import survival

LETTER = "Hi Ada,\n\nThursday at three suits me well. I will bring the contract. See you there.\n\nBest,\nBob"


class TestSentences:
    def test_those_that_were_sent_word_for_word_survive(self) -> None:
        sent = "Dear Ada,\n\nThursday at three suits me well, and I will bring the contract! Call me before.\n\nBob"
        found = survival(LETTER, sent)
        assert (found.sentences, found.survived, found.share) == (3, 2, 2 / 3)

    def test_line_breaks_capitals_and_punctuation_count_for_nothing(self) -> None:
        proposed = "Thursday at three suits me well, and I will bring the contract that we spoke of."
        sent = "thursday at three suits me well and I will bring the contract\nthat we spoke of"
        assert survival(proposed, sent) == survival(sent, proposed)
        assert survival(proposed, sent).share == 1
        assert survival(proposed, sent).distance == 0

    def test_greeting_and_closing_are_none(self) -> None:
        found = survival(LETTER, "Hi Ada,\n\nNo.\n\nBest,\nBob")
        assert (found.sentences, found.survived) == (3, 0)

    def test_a_short_one_within_another_has_not_survived(self) -> None:
        assert survival("No. It is done.", "No problem, it is done.").survived == 0
        assert survival("No. It is done.", "No. It is done.").survived == 2

    def test_a_letter_of_one_word_is_a_sentence(self) -> None:
        assert survival("Yes", "Yes").share == 1

    def test_of_nothing_no_share_is_told(self) -> None:
        assert survival("", "Yes, at three.").share is None
        assert survival("", "Yes, at three.").distance == 1
        assert survival("", "").distance == 0

    def test_chinese_and_japanese_are_compared_sign_by_sign(self) -> None:
        found = survival("会议改到周四下午。我会带上合同。", "会议改到周五下午。我会带上合同。")
        assert (found.sentences, found.survived) == (2, 1)
        assert found.distance == 1 / 14


class TestDistance:
    def test_is_of_words(self) -> None:
        assert survival("see you on monday", "see you on friday then").distance == 2 / 5
        assert survival("one two", "three four").distance == 1

    @given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
    def test_is_the_fewest_changes(self, before: list[str], after: list[str]) -> None:
        row = list(range(len(after) + 1))
        for above, word in enumerate(before, 1):
            diagonal, row[0] = row[0], above
            for place, other in enumerate(after, 1):
                diagonal, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, diagonal + (word != other))
        found = survival(" ".join(before), " ".join(after)).distance
        assert found == (row[-1] / max(len(before), len(after)) if before or after else 0)
