"""The mail whose cost is measured: ordinary letters, an advertisement, and a newsletter as its senders build them."""

from dataclasses import dataclass
from importlib.resources import files

from email_assistant.core_yaml import load

PERSON = "ada@bench.example"


@dataclass(frozen=True, slots=True)
class SampleLetter:
    sender: str  # a bare address
    subject: str
    text: str = ""
    html: str = ""


_ALL = load((files(__package__) / "letters.yaml").read_text("utf-8"))
PROMOTION, INVOICE, DINNER, PLANNING, NEWSLETTER = (
    SampleLetter(**_ALL[name]) for name in ("promotion", "invoice", "dinner", "planning", "newsletter")
)
