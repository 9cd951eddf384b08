"""What a model would have cost on past mail: an estimate, from the mails' length and the prices in the settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from email_assistant.features.rehearsal.walk import Prediction
from email_assistant.mail.excerpt import tokens
from email_assistant.settings import AccountRole, Settings

# Instructions, headers and the schemas of tools, and what comes back, as docs/costs.md has them measured, with room for
# some rules; a model that thinks before it answers takes more.
_SORTING: Final = (250, 60)
_DRAFTING: Final = (750, 250)
_MOST_SORTED: Final = 1_400  # tokens of a mail, as triage is shown them
_MOST_SORTED_BULK: Final = 560
_MOST_DRAFTED: Final = 3_000  # of a conversation


@dataclass(frozen=True, slots=True)
class Estimate:
    """What it would have cost to have so many mails sorted, and an answer to some of them drafted."""

    mails: int
    drafts: int
    money: Decimal
    currency: str  # empty where the settings name none
    models: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return (
            f"Had {' and '.join(self.models)} sorted these {self.mails:,} mails and drafted an answer to the "
            f"{self.drafts:,}, that would have cost about {written(self.money, self.currency)}: an estimate, from the "
            "length of the mails and your prices."
        )


def estimate(judged: Sequence[Prediction], settings: Settings) -> Estimate | None:
    """Of all mails sorted, and those drafted that would have been shown. None without a price for each model."""
    shown = [each for each in judged if each.shown]
    sums = (_sorting(judged, settings), drafting(shown, settings))
    if settings.model_stand_in or None in sums:
        return None
    models = tuple(dict.fromkeys((settings.model_for("triage"), settings.model_for("response"))))
    money = sum((each for each in sums if each is not None), Decimal(0))
    return Estimate(len(judged), len(shown), money, settings.currency, models)


def drafting(judged: Sequence[Prediction], settings: Settings) -> Decimal | None:
    """What drafts for so many mails cost; None without a price."""
    lengths = (min(tokens(each.entry.mail.body), _MOST_DRAFTED) for each in judged)
    return _money("response", [length + _DRAFTING[0] for length in lengths], _DRAFTING[1], settings)


def written(money: Decimal, currency: str) -> str:
    """A sum, such as 0.04 €."""
    return f"{max(money, Decimal('0.01')):,.2f} {currency}".strip()


def _sorting(judged: Sequence[Prediction], settings: Settings) -> Decimal | None:
    prompts = [
        min(tokens(each.entry.mail.body), _MOST_SORTED_BULK if each.entry.mail.bulk else _MOST_SORTED) + _SORTING[0]
        for each in judged
    ]
    return _money("triage", prompts, _SORTING[1], settings)


def _money(role: AccountRole, prompts: Sequence[int], answer: int, settings: Settings) -> Decimal | None:
    price = settings.prices.get(settings.model_for(role))
    return price.of(sum(prompts), len(prompts) * answer) if price else None
