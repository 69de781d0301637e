"""One text: what every finder reports, settled where it overlaps, replaced by placeholders."""

from collections.abc import Iterator

from ingot.agent.redaction.assignments import assignments
from ingot.agent.redaction.keys import jwts, private_keys, tokens
from ingot.agent.redaction.network import addresses, emails, query_values, url_credentials
from ingot.agent.redaction.numbers import cards, ibans, id_numbers
from ingot.agent.redaction.phones import phones
from ingot.agent.redaction.view import view
from ingot.agent.redaction.windows import Finder, windows, within

# In the order of precedence: of two that begin at one place the earlier wins.
_FINDERS: tuple[tuple[str, Finder], ...] = (
    ("private key", private_keys),
    ("credentials", url_credentials),
    ("jwt", jwts),
    ("token", tokens),
    ("secret", query_values),
    ("email", emails),
)
_NUMBERS: tuple[tuple[str, Finder], ...] = (
    ("id number", id_numbers),
    ("card", cards),
    ("phone", phones),
)
_MOST_PASSES, _MOST_CHARACTERS = 12, 500_000


def redact(text: str) -> str:
    """The text with every secret found replaced by a placeholder such as `[email]`.

    Looked at again until nothing is found, so that `redact(redact(text)) == redact(text)`: of
    numbers strung together one may be seen only when its neighbour is gone. Passes over long texts
    are limited; time grows linearly with the text.
    """
    for _ in range(max(_MOST_PASSES, _MOST_CHARACTERS // (len(text) + 1))):
        found = _settled(text)
        if not found:
            break
        text = _replaced(text, found)
    return text


def is_secret(text: str) -> bool:
    """Whether `redact` would change the text."""
    return bool(_settled(text))


def _replaced(text: str, found: list[tuple[int, int, str]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end, kind in found:
        pieces += (text[done:start], f"[{kind}]")
        done = end
    return "".join([*pieces, text[done:]])


def _settled(text: str) -> list[tuple[int, int, str]]:
    """Places in the original, in order, none overlapping; a later pass sees what is left over."""
    kept: list[tuple[int, int, str]] = []
    done = 0
    for start, _, longest, kind in sorted(_found(text)):
        end = -longest
        if start >= done and end > start:
            kept.append((start, end, kind))
            done = end
    return kept


def _found(text: str) -> Iterator[tuple[int, int, int, str]]:
    """(start, precedence, -end, kind) in the original text."""
    raw = view(text, escapes=False)
    read = view(text, escapes=True) if "\\" in text or "＼" in text else raw
    digits = windows(read.text)
    of_text = ((kind, finder(read.text)) for kind, finder in _FINDERS)
    # An account may be all letters but for two digits, so it is looked for everywhere.
    accounts = ibans(read.text) if digits else ()
    of_digits = ((kind, within(finder, read.text, digits)) for kind, finder in _NUMBERS)
    spans = (*of_text, ("iban", accounts), *of_digits, ("ip", addresses(read.text)))
    for rank, (kind, found) in enumerate(spans):
        for start, end in found:
            yield read.origin(start), rank, -read.origin(end), kind
    for start, end in assignments(raw.text):
        yield raw.origin(start), len(spans), -raw.origin(end), "secret"
