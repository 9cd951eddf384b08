"""What a letter comes to on one line."""

import pytest

from email_assistant.mail.excerpt import asked, said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Hello Alex,\n\nyour contract ends soon. Would Wednesday suit you? Or later?\n\nTomas",
            "Would Wednesday suit you?",
        ),
        ("Hi\n\nPlease send me the paper.\n\nTomas", "Please send me the paper."),
        ("Dear Ms Lind,\n\nthe build failed.\n", "the build failed."),
        ("See http://example.org/login?user=alex for more.", "See http://example.org/login?user=alex for more."),
        ("Is it you?", "Is it you?"),
        ("", ""),
    ],
)
def test_what_a_mail_asks_else_what_it_says_first(text: str, sentence: str) -> None:
    assert asked(text) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Hello Jonas,\n\nThank you for your mail.\n\nYou asked: “Is there a lift?”\n\nThere is one.\n\nAlex",
            "There is one.",
        ),
        ("Many thanks!\n", "Many thanks!"),
        ("Thanks, but no: I cannot come.\nAlex", "Thanks, but no: I cannot come."),
        ("Thank you very much, I pay today.\n\nKind regards,\nAlex Morgan", "Thank you very much, I pay today."),
        ("Thank you for asking. Friday suits.\n\nAlex", "Friday suits."),
        ("Thank you for the offer.\n\nKind regards\nAlex", "Thank you for the offer."),
        ("Friday is fine.\n\nAda", "Friday is fine."),
        ("", ""),
    ],
)
def test_what_a_reply_says_beside_greeting_thanks_and_repetition(text: str, sentence: str) -> None:
    assert said(text, "Is there a lift?") == sentence
