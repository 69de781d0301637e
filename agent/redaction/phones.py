"""Phone numbers: international ones, some countries' by their usual spelling, labelled ones.

`phonenumbers` says whether a number could exist; which stretches of digits are put to it is decided
here, since its own search over plain text takes dates, sums and ids for numbers of some country.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

# no part of a word and no decimals of a number; 1234567890.13800138000 is none
_BOUNDARY = r"(?<![0-9A-Za-z_])(?<!(?<!\d)\d[.,])(?<!(?<!\d)\d\d[.,])"
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
    rf"{_BOUNDARY}(?:86[ -]?)?(1[3-9]\d[ -]?\d{{4}}[ -]?\d{{4}})(?![0-9A-Za-z_]|[.]\d)"
)
# With the trunk 0: 010-12345678, 020 7946 0018, 06 12 34 56 78, 0151 23456789, (021) 62345678
_TRUNK = re.compile(
    rf"{_BOUNDARY}\(?0\d{{1,4}}\)?(?:[ /-]{{0,3}}\d){{6,10}}(?![0-9A-Za-z_]|[.,-]\d)"
)
_OTHER = re.compile(
    rf"{_BOUNDARY}(?:[78][ -]?\(?9\d\d\)?[ -]?\d{{3}}-\d\d-\d\d"  # Russia
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
_NAME = re.compile(
    r"(?:(?:^|[^A-Za-z]|(?<=[a-z])(?=[A-Z]))(?i:(?:tele|cell|mobile)?phone|tel|mobile|fax|msisdn"
    r"|whatsapp)(?:[ _-]?(?i:number|num|no|nr))?s?|(?:电话|電話|手机|手機|联系方式)(?:号码?)?)\Z"
)
_LONGEST_NAME = 40
_SPELLED = re.compile(r"\s*\+?[ .()/\d-]{7,30}\s*")
_DIGITS = re.compile(r"\d+")


def is_phone_name(name: str) -> bool:
    """Whether digits under this key are a phone number."""
    return _NAME.search(name[-_LONGEST_NAME:]) is not None


def is_phone_like(text: str) -> bool:
    """Whether a value is spelled as a phone number is: 7 to 15 digits and what stands between."""
    return bool(_SPELLED.fullmatch(text)) and 7 <= sum(map(str.isdigit, text)) <= 15


def phones(text: str) -> Iterator[tuple[int, int]]:
    """Phone numbers; no dates, sums, versions, and no bare ids but those spelled as mobiles are."""
    yield from _international(text)
    yield from (match.span() for match in _AMERICAN.finditer(text))
    yield from (match.span() for match in _OTHER.finditer(text))
    for match in _CHINESE.finditer(text):
        if _valid(match[1], "CN"):
            yield match.span()
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
        and any(_valid(number, region) for region in _TRUNK_REGIONS)
    )


def _international(text: str) -> Iterator[tuple[int, int]]:
    place = 0
    while match := _INTERNATIONAL.search(text, place):
        end = _international_end(match)
        if end:
            yield match.start(), end
        place = end or match.end()


def _international_end(match: re.Match[str]) -> int | None:
    """Where the number ends: the longest of its groups of digits that is a valid number.

    Made-up numbers such as +1 555 0100 are of a possible length but not valid; behind a `+` they
    count, as a whole.
    """
    number = match[0]
    for group in reversed(list(_DIGITS.finditer(number))):
        if group.end() >= 7 and _valid(number[: group.end()], None):
            return match.start() + group.end()
    return match.end() if "+" in number and _possible(number) else None


@lru_cache(maxsize=4096)
def _valid(number: str, region: str | None) -> bool:
    """Whether there is such a number; of digits without signs between them mobiles only."""
    import phonenumbers

    try:
        parsed = phonenumbers.parse(_dialled(number), region)
    except phonenumbers.NumberParseException:
        return False
    if region and region != "US" and number.isdigit():
        return phonenumbers.number_type(parsed) == phonenumbers.PhoneNumberType.MOBILE
    return bool(phonenumbers.is_valid_number(parsed))


@lru_cache(maxsize=4096)
def _possible(number: str) -> bool:
    import phonenumbers

    try:
        return phonenumbers.is_possible_number(phonenumbers.parse(_dialled(number), None))
    except phonenumbers.NumberParseException:
        return False


def _dialled(number: str) -> str:
    plus = "+" in number or number.startswith("00")
    digits = "".join(_DIGITS.findall(number.replace("(0)", "")))
    return f"+{digits.removeprefix('00')}" if plus else digits
