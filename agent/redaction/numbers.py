"""Numbers that carry a check digit: payment cards, IBANs, numbers of identity papers."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from importlib import import_module
from importlib.resources import files
from string import ascii_uppercase

_CARD = re.compile(r"(?<![0-9A-Za-z])(?<!\d[.,])\d{4}(?:[ .-]{0,3}\d){9,15}(?![0-9A-Za-z])")
_GROUP = re.compile(r"\d+")
# Issuer ranges and the lengths they issue. Left out: Maestro (50, 56-69, 12 to 19 digits), which
# would take in one long id in thirty, and the 13 and 19 digits of Visa and Discover, which hardly
# any card has and many an id has.
_ISSUERS = {
    14: re.compile(r"3(?:0[0-5]|[689])"),  # Diners Club
    15: re.compile(r"3[47]"),  # American Express
    # Visa, Mastercard, Mir, Discover, JCB, RuPay, UnionPay
    16: re.compile(
        r"4|5[1-5]|2(?:20[0-4]|22[1-9]|2[3-9]|[3-6]|7[01]|720)|6011|64[4-9]|65|35(?:2[89]|[3-8])"
        r"|60|8[12]|508|62"
    ),
    17: re.compile(r"62"),  # UnionPay
    18: re.compile(r"62"),
    19: re.compile(r"62"),
}
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}(?![A-Za-z0-9])")
_LETTERS = {ord(letter): str(int(letter, 36)) for letter in ascii_uppercase}
# Between a label and its number: `CPF: `, `"cpf": "`, `Aadhaar No. `.
_BETWEEN = r"[\"'’]?[^0-9A-Za-z\n]{0,3}(?:(?:no|nr|number|code|id|is)\b[^0-9A-Za-z\n]{0,4}){0,2}"


def cards(text: str) -> Iterator[tuple[int, int]]:
    """Payment cards: an issuer's range and length, and the Luhn check digit."""
    place = 0
    while match := _CARD.search(text, place):
        end = _card_end(match)
        if end:
            yield match.start(), end
        place = end or match.start() + 4


def _card_end(match: re.Match[str]) -> int | None:
    """The end of the longest card that the groups of digits from here on spell."""
    ends = [match.start() + group.end() for group in _GROUP.finditer(match[0])]
    for end in reversed(ends):
        digits = "".join(_GROUP.findall(match.string, match.start(), end))
        if _is_card(digits):
            return end
    return None


def _is_card(digits: str) -> bool:
    issued = _ISSUERS.get(len(digits))
    return bool(issued and issued.match(digits)) and len(set(digits)) > 1 and _luhn(digits)


def _luhn(digits: str) -> bool:
    twice = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (twice + sum(map(int, digits[-1::-2]))) % 10 == 0


def ibans(text: str) -> Iterator[tuple[int, int]]:
    """International bank account numbers, by country structure and check digits."""
    place = 0
    while match := _IBAN.search(text, place):
        end = _iban_end(match)
        if end:
            yield match.start(), end
        place = end or match.start() + 4


def _iban_end(match: re.Match[str]) -> int | None:
    valid = _validator("iban")
    for group in reversed(list(re.finditer(r"[A-Za-z0-9]+", match[0]))):
        number = match[0][: group.end()]
        if group.end() >= 15 and _mod_97(number) and valid(number):
            return match.start() + group.end()
    return None


def _mod_97(iban: str) -> bool:
    digits = iban.replace(" ", "").replace("-", "").upper().translate(_LETTERS)
    return int(digits[6:] + digits[:6]) % 97 == 1  # two letters, of two digits each, and two digits


def id_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Numbers of identity papers whose check digits hold."""
    for module, pattern in _patterns():
        for match in pattern.finditer(text):
            if _validator(module)(match[match.lastindex or 0]):
                yield match.span(match.lastindex or 0)


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    text = files("ingot.agent.redaction").joinpath("papers.json").read_text("utf-8")
    return tuple((one["validator"], _pattern(**one)) for one in json.loads(text))


def _pattern(*, pattern: str, after: str | None = None, **_: str) -> re.Pattern[str]:
    """The number alone, or as group 1 behind the label it needs."""
    if after:
        return re.compile(rf"{after}{_BETWEEN}({pattern})(?!\w)")
    return re.compile(rf"(?<![0-9A-Za-z_.-])(?:{pattern})(?![0-9A-Za-z_]|[.-]\d)")


def _chinese(number: str) -> bool:
    """Birth date and check digit; of places many that papers name are in no list any more."""
    compact = re.sub(r"[ -]", "", number).upper()
    born = f"{compact[6:10]}-{compact[10:12]}-{compact[12:14]}"
    try:
        date.fromisoformat(born)
    except ValueError:
        return False
    return bool(import_module("stdnum.iso7064.mod_11_2").is_valid(compact))


@cache
def _validator(module: str) -> Callable[[str], bool]:
    if module == "cn.ric":
        return _chinese
    found = import_module(f"stdnum.{module}")
    if module == "iban":
        # made-up national account numbers carry valid check digits too
        return lambda number: bool(found.is_valid(number, check_country=False))
    return lambda number: bool(found.is_valid(number) or found.is_valid(number.replace(" ", "")))
