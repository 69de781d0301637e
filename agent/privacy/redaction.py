"""Replace secrets and personal numbers in texts and JSON values by placeholders.

A text is folded first: ASCII digits and signs, no invisible characters, escapes undone. Most of a
long text holds no number and is not searched for one.
"""

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from ingot.agent.privacy import addresses, secrets
from ingot.agent.privacy.numbers import (
    Finder,
    find_ibans,
    find_id_numbers,
    find_payment_cards,
    find_phones,
    find_within,
    is_phone_like,
    is_phone_name,
    search_windows,
)
from ingot.converters.rows import Json, Safe

_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u20e3\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"
)
# JSON in a string, perhaps twice: \u0040 \" \n with any number of backslashes. Patterns that look
# at quotes need their backslashes.
_UNICODE_ESCAPE = "(?<!\\\\)\\\\++(?:u([0-9a-fA-F]{4})"
_QUOTED = re.compile(f"[{_INVISIBLE}]++|{_UNICODE_ESCAPE}())")
_ESCAPED = re.compile(f"[{_INVISIBLE}]++|{_UNICODE_ESCAPE}|([nrt\"'/]))")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63"
_SPACES = "\u00a0\u1680\u202f\u205f\u3000"


class _Folding(dict[int, str]):
    """Character by character: digits of all scripts, full-width signs, spaces and dashes."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_char(chr(code))
        return folded


def _fold_char(char: str) -> str:
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    if "\uff01" <= char <= "\uff5e":
        return chr(ord(char) - 0xFEE0)
    if char in _SPACES or "\u2000" <= char <= "\u200a":
        return " "
    return "-" if char in _DASHES else char


_FOLDING = _Folding()


@dataclass(frozen=True, kw_only=True, slots=True)
class FoldedView:
    """Folded text and the way back: from `at[i]` on, place in the original = place + `shift[i]`."""

    text: str
    at: list[int]
    shift: list[int]

    def origin(self, place: int) -> int:
        """Return where in the original the character at `place` of the view stands."""
        index = bisect_right(self.at, place)
        return place + self.shift[index - 1] if index else place


def fold_text(text: str, *, escapes: bool) -> FoldedView:
    """Return the view of a text; with `escapes` also quotes and line breaks that JSON escapes.

    Time and memory grow linearly with the text.
    """
    folded = text if text.isascii() else text.translate(_FOLDING)
    pattern = _ESCAPED if escapes else _QUOTED
    pieces: list[str] = []
    at: list[int] = []
    shift: list[int] = []
    done = length = 0
    for match in pattern.finditer(folded):
        char = _escape_meaning(match)
        pieces += (folded[done : match.start()], char)
        length += match.start() - done + len(char)
        done = match.end()
        at.append(length)
        shift.append(done - length)
    if not pieces:
        return FoldedView(text=folded, at=[], shift=[])
    return FoldedView(text="".join([*pieces, folded[done:]]), at=at, shift=shift)


def _escape_meaning(match: re.Match[str]) -> str:
    code, char = match.groups()
    if code:
        spelled = _FOLDING[int(code, 16)]
        return "" if _QUOTED.fullmatch(spelled) else spelled
    return _ESCAPES.get(char, char) if char else ""


# In the order of precedence: of two that begin at one place the earlier wins.
_FINDERS: tuple[tuple[str, Finder], ...] = (
    ("private key", secrets.find_private_keys),
    ("credentials", addresses.find_url_credentials),
    ("jwt", secrets.find_jwts),
    ("token", secrets.find_tokens),
    ("secret", addresses.find_query_secrets),
    ("email", addresses.find_emails),
)
_NUMBER_FINDERS: tuple[tuple[str, Finder], ...] = (
    ("id number", find_id_numbers),
    ("card", find_payment_cards),
    ("phone", find_phones),
)
_MOST_PASSES, _MOST_CHARACTERS = 12, 500_000


def redact(text: str) -> Safe:
    """Return the text with every secret found replaced by a placeholder such as `[email]`.

    Looked at again until nothing is found, so that `redact(redact(text)) == redact(text)`: of
    numbers strung together one may be seen only when its neighbour is gone. Passes over long texts
    are limited; time grows linearly with the text.
    """
    for _ in range(max(_MOST_PASSES, _MOST_CHARACTERS // (len(text) + 1))):
        spans = _settle_spans(text)
        if not spans:
            break
        text = _replace_spans(text, spans)
    return Safe(text)


def joined(parts: Iterable[Safe], between: str = "\n\n") -> Safe:
    """Join safe texts to one."""
    return Safe(between.join(parts))


def _replace_spans(text: str, spans: list[tuple[int, int, str]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end, kind in spans:
        pieces += (text[done:start], f"[{kind}]")
        done = end
    return "".join([*pieces, text[done:]])


def _settle_spans(text: str) -> list[tuple[int, int, str]]:
    """Places in the original, in order, none overlapping; a later pass sees what is left over."""
    settled: list[tuple[int, int, str]] = []
    done = 0
    for start, _, longest, kind in sorted(_find_spans(text)):
        end = -longest
        if start >= done and end > start:
            settled.append((start, end, kind))
            done = end
    return settled


def _find_spans(text: str) -> Iterator[tuple[int, int, int, str]]:
    """(start, precedence, -end, kind) in the original text."""
    raw = fold_text(text, escapes=False)
    read = fold_text(text, escapes=True) if "\\" in text or "＼" in text else raw
    digits = search_windows(read.text)
    of_text = ((kind, finder(read.text)) for kind, finder in _FINDERS)
    # An account may be all letters but for two digits, so it is looked for everywhere.
    accounts = find_ibans(read.text) if digits else ()
    of_digits = ((kind, find_within(finder, read.text, digits)) for kind, finder in _NUMBER_FINDERS)
    spans = (
        *of_text,
        ("iban", accounts),
        *of_digits,
        ("ip", addresses.find_ip_addresses(read.text)),
    )
    for rank, (kind, kind_spans) in enumerate(spans):
        for start, end in kind_spans:
            yield read.origin(start), rank, -read.origin(end), kind
    for start, end in secrets.find_assignments(raw.text):
        yield raw.origin(start), len(spans), -raw.origin(end), "secret"


_DEEPEST = 100
_SCALARS = {type(None): "null", bool: "boolean", int: "integer", str: "string"}
_TOO_DEEP = "[nested too deeply]"
_NULL = r"\N"  # as databases write it into text
SECRET, _PHONE = "[secret]", "[phone]"


def convert_scalars(
    value: Json,
    convert: Callable[[Json, str], Json],
    name: str = "",
    levels: int = _DEEPEST,
    *,
    hide: Callable[[str], str] = redact,
) -> Json:
    """Convert what is neither a list nor an object, given the name that it stands under; hide keys.

    Keys that become equal are numbered; what lies deeper than 100 levels is left out.
    """
    if not isinstance(value, (dict, list)):
        return convert(value, name)
    if not levels:
        return _TOO_DEEP
    if isinstance(value, list):
        return [convert_scalars(inner, convert, name, levels - 1, hide=hide) for inner in value]
    keys, outer = _hidden_keys(value, hide), outer_name(value, name)
    return {
        keys[key]: convert_scalars(inner, convert, inner_name(key, outer), levels - 1, hide=hide)
        for key, inner in value.items()
    }


_SCHEMA_TYPES = frozenset(("string", "integer", "number", "boolean", "array", "object", "null"))
# No `default`, `const` or `examples`: these are values.
_SCHEMA_KEYS = frozenset(
    (
        *("type", "title", "description", "format", "enum", "properties", "required", "items"),
        *("pattern", "nullable", "optional", "$ref", "minLength", "maxLength", "minimum"),
        *("maximum", "minItems", "maxItems", "additionalProperties", "anyOf", "oneOf", "allOf"),
        *("readOnly", "writeOnly"),
    )
)


def is_telling(name: str) -> bool:
    """Return whether a name alone shows that its value is a secret or a phone number."""
    return bool(name) and (secrets.is_secret_name(name) or is_phone_name(name))


def outer_name(value: dict[str, Json], name: str) -> str:
    """Return the name that also counts inside an object, "" for most: `"password": {"value": "x"}`.

    The JSON schema of a parameter `password` holds no password; an object with other keys is not a
    schema.
    """
    if not is_telling(name):
        return ""
    kind = value.get("type")
    schema = isinstance(kind, str) and kind in _SCHEMA_TYPES and _SCHEMA_KEYS.issuperset(value)
    return "" if schema else name


def inner_name(key: str, outer: str) -> str:
    """Return the name that a value stands under: its key, or the name around it."""
    return outer if outer and not secrets.is_secret_name(key) else key


def redact_scalar(value: Json, name: str, hide: Callable[[str], Safe] | None = None) -> Json:
    """Redact what stands under a name, which may make it `[secret]` or `[phone]`, a number too."""
    if value is None or isinstance(value, bool) or value == "":
        return value
    text = spell_value(value)
    named = name_placeholder(text, name)
    if named is not None:
        return named
    redacted = (hide or redact_ends)(text)
    return redacted if redacted != text else value


def name_placeholder(text: str, name: str) -> str | None:
    """Return what a text becomes for the name of its key alone, None if that tells nothing."""
    if name and text != _NULL and secrets.is_secret_name(name):
        return SECRET
    if name and is_phone_name(name) and is_phone_like(text):
        return _PHONE
    return SECRET if name and secrets.is_secret_of(name, text) else None


def spell_value(value: str | int | float) -> str:
    """Return a text, or a number's digits.

    13800138000.0 is what a table makes of an integer with gaps.
    """
    if isinstance(value, str):
        return value
    whole = isinstance(value, float) and abs(value) < 1e16 and value.is_integer()
    return str(int(value)) if whole else json.dumps(value)


def _hidden_keys(value: dict[str, Json], hide: Callable[[str], str]) -> dict[str, str]:
    """Key -> key hidden, different where the keys were different."""
    named = {key: hide(key) for key in value}
    unchanged = {key for key, shown in named.items() if key == shown}
    numbers: dict[str, int] = {}
    for key, shown in named.items():
        if key == shown:
            continue
        free, number = shown, numbers.get(shown, 1)
        while free in unchanged:
            number += 1
            free = f"{shown} {number}"
        named[key], numbers[shown] = free, number
        unchanged.add(free)
    return named


def value_shapes(value: Json) -> Json:
    """Return the same shape, keys redacted, without its values: `<string>`, `<integer>`, ..."""
    return convert_scalars(value, lambda scalar, _: scalar_type(scalar))


def scalar_type(value: Json) -> str:
    """Return the JSON type of a scalar value, and nothing else about it."""
    return f"<{_SCALARS.get(type(value), 'number')}>"


MOST_NAME_CHARS = 128
_MOST_PATH = 1_000
_BOUND = 20_000  # characters kept of each end of a text before it is redacted and cut
_LOOKED_THROUGH = 200_000  # characters of a text of which any part may be shown
_HIDDEN_CATEGORIES = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
_DOTS = "..."


def clean_text(text: str) -> str:
    """Return the text without control, format (zero-width, direction) and unassigned characters."""
    if text.isprintable():
        return text
    return "".join(
        c for c in text if c in "\n\t" or unicodedata.category(c) not in _HIDDEN_CATEGORIES
    )


def escape_text(text: str) -> str:
    """Return the text with unprintable characters as escapes of JSON and quoted paths."""
    return "".join(c if c.isprintable() else _escape_char(c) for c in text)


def escape_hidden(text: str) -> str:
    """Return the text with all that `clean` would drop as escapes; wide blanks stay."""
    if text.isprintable():
        return text
    return "".join(
        _escape_char(c) if unicodedata.category(c) in _HIDDEN_CATEGORIES else c for c in text
    )


def _escape_char(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def display_path(path: str) -> str:
    """Return a path as it can be copied.

    If a name in it is too long: the beginning of the path, and the reason.
    """
    longest = max((len(part) for part in re.split(r"[.\[\]]", path[:_MOST_PATH])), default=0)
    if len(path) > _MOST_PATH:  # a long key with dots in it looks like many names
        longest = len(path)
    if longest <= MOST_NAME_CHARS:
        return escape_text(path)
    why = f"(a name of {longest} characters: cannot be addressed)"
    return f"{escape_text(path[:MOST_NAME_CHARS])}{_DOTS}{why}"


def display_name(name: str, most: int = MOST_NAME_CHARS) -> str:
    """Return a name of a file or key, on one line and at most `most` characters of it."""
    text = clean_text(name).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= most else f"{text[:most]}{_DOTS}(+{len(text) - most})"


def redact_ends(text: str) -> Safe:
    """Return a text redacted; of one longer than anything shown only its ends, the rest is blanked.

    A cut lies far behind what is shown of either end, and private keys are replaced before it.
    """
    if len(text) <= 2 * _BOUND:
        return redact(text)
    shown = _redact_apart(text)
    if (shown[:_BOUND], shown[-_BOUND:]) == (text[:_BOUND], text[-_BOUND:]):
        return Safe(text)
    return shown


def redact_whole(text: str) -> Safe:
    """Return a text redacted in all its parts; of a very long one the middle is blanked."""
    return redact(text) if len(text) <= _LOOKED_THROUGH else _redact_apart(text)


def _redact_apart(text: str) -> Safe:
    """The ends of a long text redacted, with blanks between them."""
    keys = [(*span, "private key") for span in secrets.find_private_keys(text)]
    whole = _replace_spans(text, keys)
    if len(whole) <= 2 * _BOUND:
        return redact(whole)
    head, tail = redact(whole[:_BOUND]), redact(whole[-_BOUND:])
    return Safe(head + " " * (len(whole) - 2 * _BOUND) + tail)


def bound_text(text: str) -> str:
    """Return both ends of a very long text, so that cleaning it stays cheap."""
    if len(text) <= 2 * _BOUND:
        return text
    return text[:_BOUND] + "\n" + text[-_BOUND:]


def cut_middle(text: str, head: int, tail: int, length: int | None = None) -> str:
    """Return the head and the tail of a text, with a mark between them."""
    left_out = len(text) - head - tail
    if left_out <= len(_DOTS) * 4:
        return text
    more = left_out if length is None else max(left_out, length - head - tail)
    return f"{text[:head]}{_DOTS}(+{more}){_DOTS}{text[len(text) - tail :]}"


def cut_line(text: str, most: int) -> str:
    """Return the head of a text, cleaned, on one line."""
    return cut_middle(clean_text(text).replace("\n", "\\n"), most, 0)


_LONGEST_KEY = 2_000  # characters of a path that are looked at, far more than are shown
PLACED = re.compile(
    r"\[(?:private key|credentials|jwt|token|secret|email|iban|id number|card|phone|ip)( [a-z]+)?\]"
)
_NO_ADDRESS = " (a name with a secret: cannot be addressed)"


def holds_placeholder(text: str, known: Collection[str] = ()) -> bool:
    """Return whether a redacted text holds a placeholder that is not from the data (`known`)."""
    return any(match[0] not in known for match in PLACED.finditer(text))


def share_path(path: str, share: str) -> str:
    """Return a path as it can be copied; one that holds a secret cannot, and says so."""
    if share == "raw":
        return display_path(path)
    shown = redact(path[:_LONGEST_KEY]) + path[_LONGEST_KEY:]
    return display_path(shown) + (_NO_ADDRESS if shown != path or holds_placeholder(shown) else "")
