"""Limit the texts of documents: the largest that is tokenized, `max_chars` and `long_docs`."""

from collections.abc import Iterator
from typing import Final

from ingot.converters.megatron.options import BuildOptions

# UTF-8 bytes of the largest text that is tokenized. A text is encoded whole, and the libraries
# need many times its size for that: `docs/tokens.md` says how much.
LARGEST_TEXT: Final = 64 << 20
TOO_LONG_REASON: Final = "too_long"
TOO_LONG: Final = f"more than {LARGEST_TEXT:,} bytes of text: split it into documents first"


def limit_text(text: str, options: BuildOptions) -> list[str]:
    """Return the sequences of a document that stays, as `max_chars` and `long_docs` want them."""
    most = options.max_chars
    if most is None or len(text) <= most:
        return [text]
    if options.long_docs == "truncate":
        return [text[:most]]
    return list(split_sequences(text, most))


def split_sequences(text: str, most: int) -> Iterator[str]:
    """Yield a text in parts of at most `most` characters, which join to the text.

    A part ends behind the last line break of its second half, else behind the last white space
    there, else after `most` characters.
    """
    start = 0
    while len(text) - start > most:
        end = _sequence_end(text, start + most // 2, start + most)
        yield text[start:end]
        start = end
    yield text[start:]


def _sequence_end(text: str, begin: int, end: int) -> int:
    line = text.rfind("\n", begin, end)
    if line >= 0:
        return line + 1
    return next((i for i in range(end, begin, -1) if text[i - 1].isspace()), end)
