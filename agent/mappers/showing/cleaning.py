"""Names and texts made fit to be shown: invisible characters, long names, long texts.

In values what cannot be seen is dropped. In names it is escaped, so that a path that is copied
still finds its key.
"""

import re
import unicodedata

MOST_NAME = 128
_MOST_PATH = 1_000
_BOUND = 20_000  # characters kept of each end of a text before it is redacted and cut
_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
_DOTS = "..."


def clean(text: str) -> str:
    """The text without control, format (zero-width, direction) and unassigned characters."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in _HIDDEN)


def escaped(text: str) -> str:
    """The text with all that does not print as the escapes of JSON and of quoted path segments."""
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def hidden_escaped(text: str) -> str:
    """The text with all that `clean` would drop as escapes; wide blanks stay."""
    if text.isprintable():
        return text
    return "".join(_escape(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def shown_path(path: str) -> str:
    """A path as it can be copied; of one with a name that is too long its beginning, and why."""
    longest = max((len(part) for part in re.split(r"[.\[\]]", path[:_MOST_PATH])), default=0)
    if len(path) > _MOST_PATH:  # a long key with dots in it looks like many names
        longest = len(path)
    if longest <= MOST_NAME:
        return escaped(path)
    return (
        f"{escaped(path[:MOST_NAME])}{_DOTS}(a name of {longest} characters: cannot be addressed)"
    )


def shown_name(name: str, most: int = MOST_NAME) -> str:
    """A name of a file or key, on one line and at most `most` characters of it."""
    text = clean(name).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= most else f"{text[:most]}{_DOTS}(+{len(text) - most})"


def bounded(text: str) -> str:
    """The ends of a text that is longer than anything shown, so that redacting it stays cheap.

    The cut lies far behind what is shown of either end: no half of a secret comes into view.
    """
    if len(text) <= 2 * _BOUND:
        return text
    return text[:_BOUND] + "\n" + text[-_BOUND:]


def cut(text: str, head: int, tail: int, length: int | None = None) -> str:
    """Head and tail of a text.

    Args:
        text: cleaned and redacted.
        head: characters of the beginning.
        tail: characters of the end.
        length: of the whole text, where `text` holds only its ends.
    """
    left_out = len(text) - head - tail
    if left_out <= len(_DOTS) * 4:
        return text
    more = left_out if length is None else max(left_out, length - head - tail)
    return f"{text[:head]}{_DOTS}(+{more}){_DOTS}{text[len(text) - tail :]}"
