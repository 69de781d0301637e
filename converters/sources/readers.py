"""The registry of readers: how files of each format are recognized and how their rows are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from ingot.converters.errors import SourceError
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats import arrow, detection
from ingot.converters.sources.formats.delimited import Dialect, delimited_rows
from ingot.converters.sources.formats.json_rows import (
    RowRoot,
    compile_root,
    read_concatenated_values,
    read_element_values,
    read_json_document,
    read_json_elements,
    read_json_lines,
)
from ingot.converters.sources.formats.row_chunks import RowChunk
from ingot.converters.sources.formats.text import (
    read_text_document,
    read_text_lines,
    read_utf8_blocks,
)
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, file_stem

Blocks = Iterator[bytes]


@dataclass(frozen=True)
class BinaryReader:
    """A format that is recognized by its first bytes.

    Attributes:
        detect: the facts of a file, `facts.format` being its name in `READERS`; None for a file of
            another format.
        rows: the rows of a decompressed stream; the text is the file's place for messages.
    """

    detect: Callable[[Entry, detection.FilePeek], FileFacts | None]
    rows: Callable[[BinaryIO, str], Iterator[RowChunk]]


@dataclass(frozen=True)
class TextReader:
    """A text format, recognized by its first lines after their encoding was found out.

    Attributes:
        detect: as that of a `BinaryReader`; the text is the file's place for messages.
        rows: the rows of a file from its blocks of UTF-8.
    """

    detect: Callable[[detection.TextHead, SourceSpec, str], FileFacts | None]
    rows: Callable[[SourceFile, SourceSpec, Blocks], Iterator[RowChunk]]


def read_file(file: SourceFile, spec: SourceSpec) -> Iterator[RowChunk]:
    """Yield the rows of a file in order. Raises SourceError."""
    where, reader = str(file.place), READERS[file.facts.format]
    with file.place.open() as raw:
        stream = open_decompressed(raw, where)
        if isinstance(reader, BinaryReader):
            yield from reader.rows(stream, where)
        else:
            parts = read_utf8_blocks(stream, where, file.facts.encoding, file.facts.newline)
            yield from reader.rows(file, spec, parts)


def read_text_blocks(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    """Yield the rows of a file of a text format from its UTF-8 blocks. Raises SourceError."""
    reader = READERS[file.facts.format]
    if not isinstance(reader, TextReader):
        raise TypeError(f"{file.facts.format} is not a text format")
    return reader.rows(file, spec, parts)


def file_root(file: SourceFile, spec: SourceSpec) -> RowRoot:
    """Where the rows of a JSON file lie. Raises SourceError for what is no path."""
    default = "$" if file.facts.layout == "object" else "[*]"
    return compile_root(spec.root or default, str(file.place))


def _read_json(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    where = str(file.place)
    if file.facts.layout == "values" and spec.root in (None, "[*]"):
        return read_element_values(read_concatenated_values(parts, where))
    root = file_root(file, spec)
    if root.streams:
        return read_json_elements(parts, root, where)
    return read_json_document(parts, file_stem(file.name), None if root.whole else root.text, where)


def _read_lines(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    if spec.root not in (None, "[*]"):
        hint = "leave `root` out; `each` walks into a row"
        raise SourceError(
            str(file.place), "root is for JSON files; this one has a value per line", hint
        )
    return read_json_lines(parts)


def _read_csv(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    facts = file.facts
    dialect = Dialect(delimiter=facts.delimiter, quote=facts.quote)
    return delimited_rows(parts, facts.columns, dialect, facts.header, facts.fewest)


def _read_text(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    return (
        read_text_document(parts, file_stem(file.name))
        if spec.root == "$"
        else read_text_lines(parts)
    )


# In the order in which they are tried; lines of text are what is left.
READERS: Final[dict[str, BinaryReader | TextReader]] = {
    "parquet": BinaryReader(detection.parquet_file_facts, arrow.parquet_rows),
    "arrow": BinaryReader(detection.arrow_file_facts, arrow.arrow_rows),
    "jsonl": TextReader(detection.lines_facts, _read_lines),
    "json": TextReader(detection.json_facts, _read_json),
    "csv": TextReader(detection.table_facts, _read_csv),
    "text": TextReader(detection.text_facts, _read_text),
}
