"""Sums, phone numbers, accounts and codes as people write them."""

import re
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from email_assistant.gate.names import folded
from email_assistant.gate.vocabulary import ACCOUNT_CUES, CURRENCIES, PHONE_CUES, SCALES, SECRET_CUES

_NUMBER: Final = r"\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d{1,8})?"
_SCALE: Final = rf"(?:\s?({'|'.join(sorted(SCALES, key=len, reverse=True))}|millón)\b\.?)?"
_UNIT: Final = (
    r"(?:[ ]?(?:d'|de )?(€|\$|£|¥|₹|₩|₺|₪|₽|%|[A-Za-z]{2,3}\$|pour ?cent(?![^\W\d_])|por ciento|per cent"
    r"|[^\W\d_]{2,9}(?![^\W\d_])))?"
)
_WHOLE: Final = re.compile(rf"(?<![\w.,'/:-])(?:{_NUMBER})(?![\w'/:-]|[.,]\w)")
_AMOUNT: Final = re.compile(rf"({_NUMBER})(?!\d){_SCALE}{_UNIT}", re.IGNORECASE)
_BEFORE: Final = re.compile(r"(€|[A-Za-z]{0,2}\$|£|¥|₹|₩|₺|₪|₽|(?<![^\W\d_])[^\W\d_]{3})[ ]?$")
_GROUPED: Final = re.compile(r"\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d{1,2})?$")
_DECIMALS: Final = re.compile(r"[.,](\d{1,2}|\d{4,8})$")

_FOREIGN: Final = re.compile(r"(?:\+|00)\d{1,3}(?:[ ./-]?\(\d{1,5}\))?(?:[ ./-]{0,2}+\d++){1,8}(?![\d:])")
_NATIONAL: Final = re.compile(r"\(?0\d+\)?(?:[ ./-]{1,2}\d+){1,6}(?![\d:])|0\d{8,12}(?!\d)")
_AMERICAN: Final = re.compile(r"\(?\d{3}\)?[ .-]{1,2}\d{3}[ .-]\d{4}(?!\d)")
_SPANISH: Final = re.compile(r"[6789]\d{2}[ .]\d{3}[ .]\d{3}(?!\d)|[6789]\d{2}(?:[ ]\d{2}){3}(?!\d)")
_CUED_PHONE: Final = re.compile(r"\(?\d++\)?(?:[ ./-]{1,2}+\d++){0,20}(?![\d:])")
_IBAN: Final = re.compile(r"[A-Za-z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?!\w)")
_CARD: Final = re.compile(r"\d{4}(?:[ -]\d{4}){2,3}(?:[ -]\d{1,3})?(?!\d)|\d{4}[ -]\d{6}[ -]\d{5}(?!\d)")
_SORT_CODE: Final = re.compile(r"\d\d-\d\d-\d\d(?![\d-])")
_ROW: Final = re.compile(r"\d{8,}(?!\w)|\d{2,}(?:[ -]\d{2,}){2,}(?![\w:])")
_TOKEN: Final = re.compile(r"[^\W_]++(?:[-_][^\W_]++){0,40}+")
_FIVE: Final = re.compile(r"(?:\d{5,}|\d{4}[-_]\d{4,})(?:[-_]\d+){0,20}(?!\w)")
_FOUR: Final = re.compile(r"[1-9]\d{3}(?![\w]|[.,]\d)")
_QUANTITY: Final = re.compile(
    r"\d+-?[A-Za-z]{1,4}|\d+-[a-z]+|[A-Za-z]+-[A-Z]?\d{1,2}|[A-Za-z]\d{1,3}|[A-Z][a-z]+\d{1,2}|[a-z]+\d{1,2}"
    r"|\d{1,2}-[A-Za-z]{3,9}-\d{2,4}|(?:\d{1,2}[ap]m-?)+|\d{1,2}h\d\d|(?:\d{1,2}h(?:\d\d)?-?)+"
    r"|\d{4}-\d\d-\d\dT\d\d.*"
)
"""A measure, a time, a date or a version."""
_LONGEST_QUANTITY: Final = 40
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_TELLING: Final = r"is|ist|lautet|est|es|no\.?|nr\.?|n°|number|code"
_CODE_AFTER: Final = re.compile(
    rf"[ ]*+(?:[:=#]|{_TELLING})[ :#]*(?:(?:=|{_TELLING})[ :#]*){{0,8}}[\"'`]?"
    r"((?=[^\s\"'`]{0,63}[A-Z0-9!$%&*@^])[^\s\"'`<>]{4,64})"
)
_LEAST_CODE: Final = 4
_LEAST_ACCOUNT: Final = 8
_LEAST_PHONE, _LEAST_CUED, _MOST_PHONE = 7, 6, 15  # digits
_LAST: Final = 8
"""Digits by which phone numbers are equal: country codes and leading zeros differ between spellings."""

Kind = Literal["amount", "phone", "account", "code"]


class Figure(NamedTuple):
    start: int
    end: int
    kind: Kind
    key: str


def figure_at(text: str, at: int) -> Figure | None:
    """The sum, account or code whose first digit stands there."""
    cues = _cues(text[max(0, at - 32) : at])
    return _amount(text, at) or _account(text, at, cues) or _code(text, at, cues) or _row(text, at) or _number(text, at)


def token_at(text: str, head: int) -> Figure | None:
    """The account or code of letters and digits in one that begins there."""
    return _iban(text, head) or _token(text, head)


def phone_at(text: str, at: int) -> Figure | None:
    """The phone number whose first digit stands there."""
    start = at
    while start and text[start - 1] in "+(":
        start -= 1
    found = _FOREIGN.match(text, start) or (_FOREIGN.match(text, start + 1) if start < at else None)
    found = found or _NATIONAL.match(text, start) or _AMERICAN.match(text, start) or _SPANISH.match(text, start)
    whole = found or _CUED_PHONE.match(text, start)
    digits = re.sub(r"\(0\)|\D", "", whole[0]) if whole else ""
    if whole is None or not _LEAST_CUED <= len(digits.lstrip("0")) <= _MOST_PHONE:
        return None
    cues = _cues(text[max(0, at - 32) : at])
    is_told = bool(cues & PHONE_CUES) or (found is not None and len(digits.lstrip("0")) >= _LEAST_PHONE)
    unit = _AMOUNT.match(text, at)
    is_sum = unit is not None and _currency(unit[3]) is not None and "+" not in whole[0]
    if not is_told or is_sum or cues & ACCOUNT_CUES:
        return None
    return Figure(whole.start(), whole.end(), "phone", last(digits))


def last(digits: str) -> str:
    """Those by which a phone number is told from others."""
    return digits.lstrip("0")[-_LAST:]


def code_after(text: str, cue_end: int) -> Figure | None:
    """What is told behind a word such as "password"."""
    found = _CODE_AFTER.match(text, cue_end)
    said = found[1].rstrip(".,;:!?)") if found else ""
    if found is None or len(said) < _LEAST_CODE:
        return None
    return Figure(found.start(1), found.start(1) + len(said), "code", code_key(said))


def code_key(said: str) -> str:
    return re.sub(r"[-_ ]", "", said).casefold()


def numbers(text: str) -> list[str]:
    """Every number of a text as the key of a sum without currency."""
    return [_told(_value(found)) for found in _WHOLE.findall(text)]


def international(text: str) -> str | None:
    """All digits of a phone number that tells its country."""
    digits = re.sub(r"\(0\)|\D", "", text)
    if text.lstrip("( ").startswith("+"):
        return digits
    return digits[2:] if digits.startswith("00") else None


def _amount(text: str, at: int) -> Figure | None:
    found = _AMOUNT.match(text, at)
    if found is None:
        return None
    before = _BEFORE.search(text[max(0, at - 4) : at])
    lead = _currency(before[1]) if before else None
    unit = _currency(found[3])
    scale = SCALES[folded(found[2])] if found[2] else 1
    currency = lead or unit
    if (
        found[2]
        and not currency
        and ((scale > 1000 and len(found[2]) == 1) or (len(found[2]) == 1 and len(found[1]) < 2))
    ):
        return None
    if not currency and scale == 1 and not _GROUPED.match(found[1]):
        return None
    if not currency and " " in found[1]:
        return None
    value = _value(found[1]) * scale
    end = found.end(3) if (unit and not lead) or (unit and unit == lead) else found.end(2) if found[2] else found.end(1)
    start = at - len(before[0]) if lead and before else at
    key = _told(value)
    return Figure(start, end, "amount", f"{currency} {key}" if currency else key)


def _account(text: str, at: int, cues: set[str]) -> Figure | None:
    found = _CARD.match(text, at) or _ROW.match(text, at)
    if found is None and cues & ACCOUNT_CUES:
        found = _SORT_CODE.match(text, at) or _CUED_PHONE.match(text, at)
    if found is None or sum(map(str.isdigit, found[0])) < (5 if cues & ACCOUNT_CUES else _LEAST_ACCOUNT):
        return None
    return Figure(at, found.end(), "account", re.sub(r"\D", "", found[0]))


def _iban(text: str, head: int) -> Figure | None:
    found = _IBAN.match(text, head)
    return Figure(head, found.end(), "account", re.sub(r"[ -]", "", found[0]).upper()) if found else None


def _code(text: str, at: int, cues: set[str]) -> Figure | None:
    """Digits that are told as a code."""
    found = _TOKEN.match(text, at)
    if found is None or not cues & SECRET_CUES or len(found[0]) < 3:
        return None
    return Figure(at, found.end(), "code", code_key(found[0]))


def _token(text: str, head: int) -> Figure | None:
    found = _TOKEN.match(text, head)
    if found is None or len(found[0]) < _LEAST_CODE or text[found.end() : found.end() + 1].isalnum():
        return None
    said = found[0]
    digits = sum(map(str.isdigit, said))
    letters = sum(map(str.isalpha, said))
    is_quantity = len(said) <= _LONGEST_QUANTITY and _QUANTITY.fullmatch(said)
    if not digits or not letters or is_quantity or ("-" in said and said == said.lower() and digits < 3):
        return None
    if not any(map(str.isupper, said)) and digits < 3 and not (digits == 2 and len(said) >= 8):
        return None
    return Figure(head, found.end(), "code", code_key(said))


def _row(text: str, at: int) -> Figure | None:
    """Five digits and more, in one or in groups; years and sums from one to another are none."""
    found = _FIVE.match(text, at)
    if found is None:
        return None
    groups = re.split("[-_]", found[0])
    until = _AMOUNT.match(text, found.end() - len(groups[-1]))
    if len(groups) == 2 and (all(map(_is_year, groups)) or (until and _currency(until[3]))):
        return None
    return Figure(at, found.end(), "code", code_key(found[0]))


def _number(text: str, at: int) -> Figure | None:
    """Of four digits and more, unless it is a year."""
    found = _FOUR.match(text, at)
    if found is None or _is_year(found[0]):
        return None
    return Figure(at, found.end(), "amount", found[0])


def _is_year(digits: str) -> bool:
    return len(digits) == 4 and 1900 <= int(digits) <= 2100


def _cues(before: str) -> set[str]:
    """The words of its line that stand nearest before a figure."""
    return {folded(word) for word in _LETTERS.findall(before.rpartition("\n")[2])[-3:]}


def _currency(unit: str | None) -> str | None:
    if unit is None:
        return None
    word = folded(unit.strip())
    if word.replace(" ", "") in ("pourcent", "percent", "porciento"):
        return "%"
    return CURRENCIES.get(word)


def _value(number: str) -> Decimal:
    number = number.replace(" ", "").replace("'", "")
    decimals = _DECIMALS.search(number)
    whole = number[: decimals.start()] if decimals else number
    return Decimal(re.sub(r"\D", "", whole) + (f".{decimals[1]}" if decimals else ""))


def _told(value: Decimal) -> str:
    return format(value.normalize(), "f")
