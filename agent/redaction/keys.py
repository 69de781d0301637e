"""Keys and tokens that are known by how they look: PEM blocks, JWTs, the prefixes of services."""

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LONGEST_KEY = 20_000
# A block without an end: its lines of base64, and a last one that the text cuts off.
_LINES = re.compile(r"(?:\s*+[A-Za-z0-9+/=]{20,}+)*+(?:\s*+[A-Za-z0-9+/=]++\s*+\Z)?+")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]*+){0,4}")
_BEARER = re.compile(r"\bbearer[ \t]++(?=[A-Za-z._~+/=-]{0,80}\d)([A-Za-z0-9._~+/=-]{16,}+)", re.I)
_BASIC = re.compile(r"\bauthorization\W{1,6}basic[ \t]++([A-Za-z0-9+/=_-]{8,}+)", re.I)


def private_keys(text: str) -> Iterator[tuple[int, int]]:
    """PEM and PGP blocks of private keys, also those that are cut off before their end."""
    begins = list(_BEGIN.finditer(text))
    after = [*(one.start() for one in begins[1:]), len(text)]
    for begin, most in zip(begins, after, strict=False):
        end = _END.search(text, begin.end(), min(most, begin.end() + _LONGEST_KEY))
        found = end or _LINES.match(text, begin.end(), most)
        yield begin.start(), found.end() if found else begin.end()


def jwts(text: str) -> Iterator[tuple[int, int]]:
    """JSON Web Tokens: two or more parts of base64url, the first a JSON object."""
    for match in _JWT.finditer(text):
        header, _, rest = match[0].partition(".")
        before = text[match.start() - 1] if match.start() else ""
        if len(header) > 10 and "." in rest and not before.isalnum():
            yield match.span()


def tokens(text: str) -> Iterator[tuple[int, int]]:
    """Tokens with the prefix of a service (tokens.json), and what follows `Bearer` and `Basic`."""
    for match in _prefixed().finditer(text):
        yield match.span()
    for pattern in (_BEARER, _BASIC):
        for match in pattern.finditer(text):
            yield match.span(1)


@cache
def _prefixed() -> re.Pattern[str]:
    kinds = json.loads(files("ingot.agent.redaction").joinpath("tokens.json").read_text("utf-8"))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(one['pattern'] for one in kinds)})")
