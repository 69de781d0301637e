"""Numbers that carry a check digit: payment cards, IBANs, numbers of identity papers.

Phone numbers: international ones, some countries' by their usual spelling, labelled ones.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache, lru_cache
from importlib import import_module
from importlib.resources import files
from string import ascii_uppercase

Span = tuple[int, int]
Finder = Callable[[str], Iterator[Span]]

_CARD = re.compile(r"(?<![0-9A-Za-z])(?<!\d[.,])\d{4}(?:[ .-]{0,3}\d){9,15}(?![0-9A-Za-z])")
_DIGITS = re.compile(r"\d+")
_ALPHANUMERICS = re.compile(r"[A-Za-z0-9]+")
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
_LETTER_VALUES = {ord(letter): str(int(letter, 36)) for letter in ascii_uppercase}
# Between a label and its number: `CPF: `, `"cpf": "`, `Aadhaar No. `.
_BETWEEN = (
    r"[\"'’]?[^0-9A-Za-z\n]{0,3}(?:(?i:no|nr|n[°º]|num(?:ber|mer|[eé]ro|ara(?:s[ıi])?)|número|code"
    r"|id|is)(?!\w)[^0-9A-Za-z\n]{0,4}){0,2}"
)


def _search_numbers(
    text: str, pattern: re.Pattern[str], find_end: Callable[[re.Match[str]], int | None], step: int
) -> Iterator[Span]:
    """Yield where numbers begin and end; `step`: behind what is none, the search goes on there."""
    place = 0
    while match := pattern.search(text, place):
        end = find_end(match)
        if end:
            yield match.start(), end
        place = end or min(match.start() + step, match.end())


def _longest_end(
    match: re.Match[str], group: re.Pattern[str], is_number: Callable[[str], bool]
) -> int | None:
    """The end of the longest number that the groups from here on spell."""
    for digit in reversed(list(group.finditer(match[0]))):
        if is_number(match[0][: digit.end()]):
            return match.start() + digit.end()
    return None


def find_payment_cards(text: str) -> Iterator[tuple[int, int]]:
    """Yield payment card numbers, by the issuer's range, the length and the Luhn check digit."""
    return _search_numbers(text, _CARD, lambda match: _longest_end(match, _DIGITS, _is_card), 4)


def _is_card(number: str) -> bool:
    digits = "".join(_DIGITS.findall(number))
    issued = _ISSUERS.get(len(digits))
    known = bool(issued and issued.match(digits)) and len(set(digits)) > 1
    return known and _paper_validator("luhn")(digits)


def find_ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yield international bank account numbers, by country structure and check digits."""
    return _search_numbers(
        text, _IBAN, lambda match: _longest_end(match, _ALPHANUMERICS, _is_iban), 4
    )


def _is_iban(number: str) -> bool:
    return len(number) >= 15 and _passes_mod_97(number) and _paper_validator("iban")(number)


def _passes_mod_97(iban: str) -> bool:
    digits = iban.replace(" ", "").replace("-", "").upper().translate(_LETTER_VALUES)
    return int(digits[6:] + digits[:6]) % 97 == 1  # two letters, of two digits each, and two digits


def find_id_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Yield numbers of identity papers whose check digits hold."""
    for module, pattern in _paper_patterns():
        for match in pattern.finditer(text):
            if _paper_validator(module)(match[match.lastindex or 0]):
                yield match.span(match.lastindex or 0)


@cache
def _paper_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    text = files("ingot.agent.privacy").joinpath("papers.json").read_text("utf-8")
    return tuple((scheme["validator"], _paper_pattern(**scheme)) for scheme in json.loads(text))


def _paper_pattern(*, pattern: str, after: str | None = None, **_: str) -> re.Pattern[str]:
    """The number alone, or as group 1 behind the label it needs."""
    if after:
        return re.compile(rf"{after}{_BETWEEN}({pattern})(?!\w)")
    return re.compile(rf"(?<![0-9A-Za-z_.-])(?:{pattern})(?![0-9A-Za-z_]|[.-]\d)")


def _is_chinese_id(number: str) -> bool:
    """Birth date and check digit; of places many that papers name are in no list any more."""
    compact = re.sub(r"[ -]", "", number).upper()
    born = f"{compact[6:10]}-{compact[10:12]}-{compact[12:14]}"
    try:
        date.fromisoformat(born)
    except ValueError:
        return False
    return bool(import_module("stdnum.iso7064.mod_11_2").is_valid(compact))


@cache
def _paper_validator(module: str) -> Callable[[str], bool]:
    if module == "cn.ric":
        return _is_chinese_id
    validator = import_module(f"stdnum.{module}")
    if module == "iban":
        # made-up national account numbers carry valid check digits too
        return lambda number: bool(validator.is_valid(number, check_country=False))
    return lambda number: bool(
        validator.is_valid(number) or validator.is_valid(number.replace(" ", ""))
    )


# not inside a word or the decimals of a number, as in 1234567890.13800138000
_NUMBER_START = r"(?<![0-9A-Za-z_])(?<!(?<!\d)\d[.,])(?<!(?<!\d)\d\d[.,])"
_INTERNATIONAL = re.compile(
    r"(?<![0-9A-Za-z+])(?:\+(?:\([1-9]\d{0,2}\)|[1-9])|\(\+[1-9]|00(?=[1-9]\d[ -]?\d))"
    r"(?:(?:[ .()/-]{0,2}|[ ]\(0\)[ ]?)\d){6,14}(?!\d)"
)
# (555) 123-4567, 555-123-4567, 555.123.4567, with or without 1 before it
_AMERICAN = re.compile(
    r"(?<![0-9A-Za-z_+.-])(?:1[ .-])?"
    r"(?:\([2-9]\d\d\)[ .-]?\d{3}[ .-]|([2-9]\d\d)([.-])\d{3}\2)\d{4}(?![0-9A-Za-z]|[.-]\d)"
)
_CHINESE = re.compile(
    # a number, or a name of who speaks made with it: user13800138000
    rf"(?:{_NUMBER_START}(?:86[ -]?)?|(?<![A-Za-z])(?i:user|assistant|agent|human|bot|speaker"
    r"|customer|client|caller|operator|member|guest)[_-]?)"
    r"(1[3-9]\d[ -]?\d{4}[ -]?\d{4})(?![0-9A-Za-z_]|[.]\d)"
)
# With the trunk 0: 010-12345678, 020 7946 0018, 06 12 34 56 78, 0151 23456789, (021) 62345678
_TRUNK = re.compile(
    rf"{_NUMBER_START}\(?0\d{{1,4}}\)?(?:[ /-]{{0,3}}\d){{6,10}}(?![0-9A-Za-z_]|[.,-]\d)"
)
_OTHER_FORMS = re.compile(
    rf"{_NUMBER_START}(?:[78][ -]?\(?9\d\d\)?[ -]?\d{{3}}-\d\d-\d\d"  # Russia
    r"|\([1-9]\d\)[ ]?9?\d{4}-\d{4}"  # Brazil
    r"|0[1-9](?:\.\d\d){4}"  # France, with dots
    r"|1[2-9]\d\d[2-9]\d{6})(?![0-9A-Za-z_]|[.-]\d)"  # 1 and ten digits, North America
)
_LABELLED = re.compile(
    r"(?:(?<![A-Za-z])(?i:tel(?:ephone|efon[eo]?|éfono)?|tél|(?:cell|mobile|tele)?[ ]?phone|mobile"
    r"|cell(?=[ ]?:)|fax|whats[ ]?app|handy|m[óo]vil|celular|hotline|тел(?:ефон)?"
    r"|call(?:[ ](?:me|us))?(?:[ ](?:at|on))?(?=[ :])|(?:text|ring)[ ](?:me|us)(?:[ ](?:at|on))?)"
    r"|电话|電話|手机|手機|联系方式|座机|携帯|전화|휴대폰|هاتف)"
    r"(?:[ ]?(?i:number|no|nr|num|nummer|号码|號碼|号|番号|번호))?(?![A-Za-z])[^0-9A-Za-z\n+(]{0,6}"
    r"((?:\+[ ]?)?\(?\d(?:[ .()/-]{0,2}\d){6,14})(?!\d)"
)
_TRUNK_REGIONS = ("CN", "GB", "FR", "DE", "JP", "KR", "AU", "NL", "IT", "BE", "CH", "ZA", "TR")
_MONTH_DAY = r"(?:0[1-9]|1[0-2])[./-]?(?:0[1-9]|[12]\d|3[01])"
_DATE = re.compile(
    rf"(?:\d{{1,2}}[./-]\d{{1,2}}[./-](?:19|20)?\d\d|(?:19|20)\d\d[./-]?{_MONTH_DAY})(?!\d)"
)
_PHONE_NAME = re.compile(
    r"(?:(?:^|[^A-Za-z]|(?<=[a-z])(?=[A-Z]))(?i:(?:tele|cell|mobile)?phone|tel|mobile|fax|msisdn"
    r"|whatsapp)(?:[ _-]?(?i:number|num|no|nr))?s?|(?:电话|電話|手机|手機|联系方式)(?:号码?)?)\Z"
)
_LONGEST_PHONE_NAME = 40
_PHONE_SPELLING = re.compile(r"\+?[ .()/\d-]{7,30}")


@lru_cache(maxsize=4096)
def is_phone_name(name: str) -> bool:
    """Return whether digits under this key are a phone number."""
    return _PHONE_NAME.search(name[-_LONGEST_PHONE_NAME:]) is not None


def is_phone_like(text: str) -> bool:
    """Return whether a value is spelled like a phone number of 7 to 15 digits."""
    spelled = _PHONE_SPELLING.fullmatch(text.strip())
    return bool(spelled) and 7 <= sum(map(str.isdigit, text)) <= 15


def find_phones(text: str) -> Iterator[tuple[int, int]]:
    """Yield phone numbers; dates, sums, versions and bare ids that are not mobiles are left out."""
    yield from _search_numbers(text, _INTERNATIONAL, _international_end, len(text))
    yield from (match.span() for match in _AMERICAN.finditer(text))
    yield from (match.span() for match in _OTHER_FORMS.finditer(text))
    for match in _CHINESE.finditer(text):
        if _is_valid_number(match[1], "CN"):
            yield match.span() if match[0][0].isdigit() else match.span(1)
    yield from (match.span() for match in _TRUNK.finditer(text) if _is_national(match[0]))
    for match in _LABELLED.finditer(text):
        if not _DATE.match(match[1]):
            yield match.span(1)


def _is_national(number: str) -> bool:
    """Whether nine digits or more behind a 0 are a number in one of the countries looked at."""
    enough = sum(map(str.isdigit, number)) >= 9 and number != "0123456789"
    return (
        enough
        and not _DATE.match(number)
        and any(_is_valid_number(number, region) for region in _TRUNK_REGIONS)
    )


def _international_end(match: re.Match[str]) -> int | None:
    """Where the longest of its groups of digits that is a valid number ends.

    Made-up numbers such as +1 555 0100 are of a possible length but not valid; behind a `+` they
    count, as a whole.
    """
    end = _longest_end(
        match, _DIGITS, lambda number: len(number) >= 7 and _is_valid_number(number, None)
    )
    possible = end is None and "+" in match[0] and _is_possible_number(match[0])
    return match.end() if possible else end


@lru_cache(maxsize=4096)
def _is_valid_number(number: str, region: str | None) -> bool:
    """Whether there is such a number; of digits without signs between them mobiles only."""
    import phonenumbers

    try:
        parsed = phonenumbers.parse(_dialled_digits(number), region)
    except phonenumbers.NumberParseException:
        return False
    if region and region != "US" and number.isdigit():
        return phonenumbers.number_type(parsed) == phonenumbers.PhoneNumberType.MOBILE
    return bool(phonenumbers.is_valid_number(parsed))


@lru_cache(maxsize=4096)
def _is_possible_number(number: str) -> bool:
    import phonenumbers

    try:
        return phonenumbers.is_possible_number(phonenumbers.parse(_dialled_digits(number), None))
    except phonenumbers.NumberParseException:
        return False


_MEXICAN = re.compile(r"(?<=\+)521(?=\d{10}$)")  # mobiles, as they were dialled until 2020


def _dialled_digits(number: str) -> str:
    plus = "+" in number or number.startswith("00")
    digits = "".join(_DIGITS.findall(number.replace("(0)", "")))
    if not plus:
        return digits
    return _MEXICAN.sub("52", f"+{digits.removeprefix('00')}")


# More than a match and a look around it reach beside four digits: a label of 19 characters with 24
# between it and its number, or three digits more that stand 8 apart.
_WINDOW_MARGIN = 128
_FOUR_DIGITS = re.compile(r"\d(?:[^\d\n]{0,8}\d){3}")


def search_windows(text: str) -> list[Span]:
    """Return the stretches of the text that are worth a look, in order, apart from each other."""
    spans: list[Span] = []
    for match in _FOUR_DIGITS.finditer(text):
        start, end = match.start() - _WINDOW_MARGIN, match.end() + _WINDOW_MARGIN
        if spans and start <= spans[-1][1]:
            start = spans.pop()[0]
        spans.append((max(0, start), min(end, len(text))))
    return spans


def find_within(finder: Finder, text: str, looked_at: list[Span]) -> Iterator[Span]:
    """Yield what a finder finds in the text, given where it is worth a look."""
    for start, end in looked_at:
        for first, last in finder(text[start:end]):
            yield start + first, start + last
