"""Text files with a structured file of the same name beside them: which of both is the data."""

from collections.abc import Iterator, Sequence

from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceFile
from ingot.converters.sources.formats.json_documents import parse_json_document
from ingot.converters.sources.formats.text import read_utf8_blocks
from ingot.converters.sources.storage.compression import open_decompressed

_FEWEST = 3  # pairs
_PAIRED = 0.8  # of the text files
_LOOKED_AT = 5
_MOST_BYTES = 1 << 20  # of a file that only says something about another one


def are_texts_beside(texts: Sequence[SourceFile], notes: Sequence[SourceFile]) -> bool:
    """Whether each text has a file of the same name beside it that only says what it is.

    A file that holds a text of its own as long as the one beside it is the data itself.
    """
    named = {_bare_name(file): file for file in notes if file.bytes <= _MOST_BYTES}
    pairs = [(file, named[key]) for file in texts if (key := _bare_name(file)) in named]
    if len(pairs) < max(_FEWEST, _PAIRED * len(texts)):
        return False
    longer = [_longest_text(note) < 0.5 * text.bytes for text, note in pairs[:_LOOKED_AT]]
    return sum(longer) > _PAIRED * len(longer)


def _bare_name(file: SourceFile) -> tuple[str, str]:
    folder, _, name = file.name.rpartition("/")
    return folder.rpartition("/")[0] and folder, name.partition(".")[0].lower()


def _longest_text(file: SourceFile) -> int:
    """The characters of all texts of several words in a JSON file."""
    try:
        with file.place.open() as raw:
            stream = open_decompressed(raw, str(file.place))
            facts = file.facts
            parts = read_utf8_blocks(stream, str(file.place), facts.encoding, facts.newline)
            value, _ = parse_json_document(parts, _MOST_BYTES)
    except SourceError:
        return 0
    return sum(len(text) for text in _texts_in(value) if text.count(" ") > 1)


def _texts_in(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(inside)
