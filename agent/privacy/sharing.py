"""Names and texts made fit to be shown: invisible characters, long names, long texts.

In values what cannot be seen is dropped. In names it is escaped, so that a path that is copied
still finds its key.

What of a value or name may leave the machine: `none`, `redacted` or `raw`.
"""

import re
import unicodedata

from ingot.agent.privacy import redact, redact_value, value_shapes
from ingot.converters.rows import Json

MOST_NAME_CHARS = 128
_MOST_PATH = 1_000
_BOUND = 20_000  # characters kept of each end of a text before it is redacted and cut
_HIDDEN_CATEGORIES = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
_DOTS = "..."


def clean_text(text: str) -> str:
    """The text without control, format (zero-width, direction) and unassigned characters."""
    if text.isprintable():
        return text
    return "".join(
        c for c in text if c in "\n\t" or unicodedata.category(c) not in _HIDDEN_CATEGORIES
    )


def escape_text(text: str) -> str:
    """The text with all that does not print as the escapes of JSON and of quoted path segments."""
    return "".join(c if c.isprintable() else _escape_char(c) for c in text)


def escape_hidden(text: str) -> str:
    """The text with all that `clean` would drop as escapes; wide blanks stay."""
    if text.isprintable():
        return text
    return "".join(
        _escape_char(c) if unicodedata.category(c) in _HIDDEN_CATEGORIES else c for c in text
    )


def _escape_char(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def display_path(path: str) -> str:
    """A path as it can be copied; of one with a name that is too long its beginning, and why."""
    longest = max((len(part) for part in re.split(r"[.\[\]]", path[:_MOST_PATH])), default=0)
    if len(path) > _MOST_PATH:  # a long key with dots in it looks like many names
        longest = len(path)
    if longest <= MOST_NAME_CHARS:
        return escape_text(path)
    why = f"(a name of {longest} characters: cannot be addressed)"
    return f"{escape_text(path[:MOST_NAME_CHARS])}{_DOTS}{why}"


def display_name(name: str, most: int = MOST_NAME_CHARS) -> str:
    """A name of a file or key, on one line and at most `most` characters of it."""
    text = clean_text(name).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= most else f"{text[:most]}{_DOTS}(+{len(text) - most})"


def bound_text(text: str) -> str:
    """The ends of a text that is longer than anything shown, so that redacting it stays cheap.

    The cut lies far behind what is shown of either end: no half of a secret comes into view.
    """
    if len(text) <= 2 * _BOUND:
        return text
    return text[:_BOUND] + "\n" + text[-_BOUND:]


def cut_middle(text: str, head: int, tail: int, length: int | None = None) -> str:
    """Head and tail of a text."""
    left_out = len(text) - head - tail
    if left_out <= len(_DOTS) * 4:
        return text
    more = left_out if length is None else max(left_out, length - head - tail)
    return f"{text[:head]}{_DOTS}(+{more}){_DOTS}{text[len(text) - tail :]}"


_LONGEST_KEY = 2_000  # characters of a key that are looked at, far more than are shown


def share_value(name: str, value: Json, share: str) -> tuple[str, Json]:
    """A scalar and its key as they may leave; a key can make a secret of its value."""
    if share == "raw":
        return name, value
    pair = {name[:_LONGEST_KEY]: value}
    made: dict[str, Json] = value_shapes(pair) if share == "none" else redact_value(pair)
    return next(iter(made.items()))


def share_text(name: str, text: str, share: str) -> str:
    """A text that stands under a key, as it may leave."""
    return str(share_value(name, text, share)[1])


def share_line(line: str, share: str) -> str:
    """A line about paths, whose names may hold secrets too."""
    return line if share == "raw" else redact(line)


def share_path(path: str, share: str) -> str:
    """A path as it can be copied; one that holds a secret cannot, and says so."""
    plain = display_path(path)
    told = share_line(plain, share)
    return plain if told == plain else f"{told} (a name with a secret: cannot be addressed)"
