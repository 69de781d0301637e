"""What a file is, told by its beginning: format, layout, dialect, columns."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import orjson
import pyarrow as pa

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceSpec
from ingot.converters.sources.formats import columnar_files, dialect
from ingot.converters.sources.formats.json_rows import (
    Element,
    TrailingDataError,
    compile_root,
    read_concatenated_values,
    read_elements,
    top_level_containers,
)
from ingot.converters.sources.formats.line_kinds import text_shape
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    ends_early,
    load_json,
)
from ingot.converters.sources.formats.text import Encoding
from ingot.converters.sources.storage.archives import archive_kind
from ingot.converters.sources.storage.compression import (
    detect_compression,
    open_as,
    open_decompressed,
    peek_first_bytes,
    read_bytes,
)
from ingot.converters.sources.storage.listing import Entry, LocalFile
from ingot.converters.sources.storage.places import is_local

if TYPE_CHECKING:
    from ingot.converters.sources.formats.header_rows import Header

HEAD = 256 << 10
LONG_HEAD = 8 << 20  # where the head holds no whole line
_BLOCK = 1 << 20
_PREFIX = 100  # bytes that tell whether a cut text is JSON
_WINDOWS = 8
_WINDOW = 64 << 10
_SHAPE_ROWS = 50
_MOST_LINES = 4_000  # that a table is judged by
_USUAL = {".csv": ",;", ".tsv": "\t", ".tab": "\t", ".psv": "|"}  # delimiters by ending
_LINES_NAMES = (".jsonl", ".ndjson", ".jsonlines")
_DIGITS = b"0123456789"
_LAST_BYTES = {
    **{b"{": b"}", b"[": b"]", b'"': b'"', b"t": b"e", b"f": b"e", b"n": b"l", b"-": _DIGITS},
    **{_DIGITS[n : n + 1]: _DIGITS for n in range(10)},
}
_SPACE = " \t\r\n\ufeff"
MOST_COLUMNS = 100_000  # of a table in text: what is known of each stays in memory


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePeek:
    """The beginning of a file, decompressed, and pieces of the rest where that is cheap."""

    head: bytes
    whole: bool
    compression: str | None
    windows: tuple[bytes, ...] = ()
    goes_on: bool = False  # behind a long first line another one begins, as of JSON

    @property
    def archive(self) -> str | None:
        """Return `zip` or `tar` if the file is an archive, else None."""
        return archive_kind(self.head)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextHead:
    """The head of a text file, decoded to UTF-8, and what is known so far."""

    name: str
    data: bytes
    lines: list[str]
    whole: bool
    base: FileFacts
    goes_on: bool = False


def peek_file(entry: Entry, size: int = HEAD) -> FilePeek:
    """Read the beginning of a file. Raises SourceError."""
    where = str(entry.place)
    with entry.place.open() as raw:
        with translate_read_errors(where):
            codec = detect_compression(peek_first_bytes(raw))
        stream = open_as(raw, where, codec)
        head = read_bytes(stream, size)
        if len(head) == size and b"\n" not in head and b"\r" not in head:
            head += read_bytes(stream, LONG_HEAD - size)
        whole = len(head) < size or not stream.read(1)
        goes_on = not whole and is_local(entry.place) and _goes_on(head, stream)
        cheap = codec is None and isinstance(entry.place, LocalFile) and not whole
        windows = _read_windows(raw, entry.bytes) if cheap else ()
    return FilePeek(head=head, whole=whole, compression=codec, windows=windows, goes_on=goes_on)


def _goes_on(head: bytes, stream: BinaryIO) -> bool:
    """Whether a first line of JSON beyond the head ends, and another one begins."""
    if head.lstrip()[:1] not in (b"{", b"[") or b"\n" in head:
        return False
    last, read = b"", len(head)
    while read < MAX_ROW_BYTES and (block := read_bytes(stream, _BLOCK)):
        line, ended, after = block.partition(b"\n")
        if ended:
            after = after or read_bytes(stream, _BLOCK)
            ends = (last + line).rstrip()[-1:]
            return ends in (b"}", b"]") and after.lstrip()[:1] in (b"{", b"[")
        last, read = block[-_WINDOWS:], read + len(block)
    return False


def _read_windows(raw: BinaryIO, size: int) -> tuple[bytes, ...]:
    """Pieces spread over the file (fewer of a small one), each from line end to line end."""
    count = max(1, min(_WINDOWS, size // (4 * _WINDOW)))
    pieces = []
    for number in range(1, count + 1):
        raw.seek(max(0, size * number // count - _WINDOW))
        data = raw.read(_WINDOW)
        pieces.append(data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1])
    return tuple(piece for piece in pieces if piece)


def stated_encoding(entry: Entry, spec: SourceSpec) -> Encoding | None:
    """Return the encoding that is stated, None if none is.

    Raises SourceError for what is none.
    """
    if spec.encoding is None:
        return None
    try:
        "".encode(spec.encoding)
    except LookupError as error:
        hint = "for example utf-8, gb18030, big5, cp1252"
        raise SourceError(str(entry.place), f"no encoding {spec.encoding!r}", hint) from error
    return Encoding(spec.encoding)


def _is_arrow_head(head: bytes) -> bool:
    if head.startswith(columnar_files.ARROW_FILE):
        return True
    if not head.startswith(columnar_files.ARROW_STREAM):
        return False
    try:
        pa.ipc.read_schema(pa.BufferReader(head))
    except (pa.ArrowException, OSError, ValueError):
        return False
    return True


def arrow_file_facts(entry: Entry, seen: FilePeek, _: SourceSpec) -> FileFacts | None:
    """Return the facts of an Arrow file or stream. Raises SourceError."""
    if not _is_arrow_head(seen.head):
        return None
    return columnar_facts("arrow", entry, seen, columnar_files.arrow_facts)


def columnar_facts(
    form: str,
    entry: Entry,
    seen: FilePeek,
    read: Callable[[BinaryIO, str], tuple[tuple[str, ...], int | None]],
) -> FileFacts:
    """Return the facts of a file that tells its columns. Raises SourceError."""
    where, codec = str(entry.place), seen.compression
    with entry.place.open() as raw:
        names, rows = read(open_decompressed(raw, where), where)
    shape = frozenset(names)
    return FileFacts(format=form, compression=codec, columns=names, rows=rows, shape=shape)


def lines_facts(head: TextHead, spec: SourceSpec, _: str) -> FileFacts | None:
    """Return the facts of a file with a JSON value on each line."""
    if spec.format == "jsonl" or (
        spec.format is None and not (spec.root or spec.orient) and _is_json_lines(head)
    ):
        return replace(head.base, format="jsonl", shape=rows_shape(_parse_head_lines(head)))
    return None


def json_facts(head: TextHead, spec: SourceSpec, _: str) -> FileFacts | None:
    """Return the facts of a JSON file: a list, an object or several values in a row."""
    text = head.lines[0] if len(head.lines) == 1 else "\n".join(head.lines[:50])
    first = text.lstrip(_SPACE)[:1]
    facts = None
    if first == "[":
        facts = _json_list_facts(head)
    elif first == "{":
        facts = _json_object_facts(head, table=spec.orient in ("split", "list", "columns"))
    if facts is None and _is_cut_json(head):
        layout = "list" if first == "[" else "object"
        return replace(head.base, format="json", layout=layout)
    stated = facts is None and spec.format == "json" and head.whole
    if stated and _parse_or_none(head.data) is not None:
        return replace(head.base, format="json", layout="object")
    return facts


def _is_cut_json(head: TextHead) -> bool:
    """Whether a whole file begins as JSON does and ends inside its first value: it is damaged."""
    data = head.data.lstrip()
    if not head.whole or data[:1] not in (b"{", b"["):
        return False
    elements, error = _head_elements(read_concatenated_values(iter([data]), head.name))
    return not elements and error is not None and ends_early(data[:_PREFIX])


def _is_json_lines(head: TextHead) -> bool:
    """Whether (most) lines are JSON values of their own."""
    lone = not head.whole and len(head.lines) == 1  # a line that is longer than what is looked at
    if lone and (head.goes_on or head.name.endswith(_LINES_NAMES)):
        return head.lines[0].lstrip(_SPACE)[:1] in ("{", "[")
    lines = [line.strip(_SPACE) for line in head.lines if line.strip(_SPACE)][:100]
    values = [_parse_or_none(line.encode("utf-8", "replace")) for line in lines]
    whole = [isinstance(value, dict | list) for value in values]
    # A broken row still looks like one, but does not make a file of lines by itself.
    shape = sum(map(operator.or_, whole, map(_looks_whole, lines))) if any(whole) else 0
    if len(lines) == 1 and isinstance(values[0], list):
        return False
    if head.name.endswith(_LINES_NAMES):
        return shape * 2 >= len(lines) or all(value is not None for value in values)
    if len(lines) >= 2:
        texts = sum(isinstance(value, str) for value in values)
        table = head.name.endswith(tuple(_USUAL))
        return shape * 2 > len(lines) or (texts == len(lines) and not table)
    return False


def _looks_whole(line: str) -> bool:
    return (line[0], line[-1]) in (("{", "}"), ("[", "]"))


def _parse_or_none(data: bytes) -> Json:
    if not _may_be_json(data):  # an error is slow to raise
        return None
    try:
        return load_json(data)[0]
    except orjson.JSONDecodeError:
        return None


def _may_be_json(data: bytes) -> bool:
    """Whether the last byte fits to the first one, as that of every JSON value does."""
    if data[:1].isspace() or data[-1:].isspace():
        return True
    return data[-1:] in _LAST_BYTES.get(data[:1], b"")


def _parse_head_lines(head: TextHead) -> list[Json]:
    lines = [line for line in head.lines if line.strip(_SPACE)][:_SHAPE_ROWS]
    return [_parse_or_none(line.strip(_SPACE).encode("utf-8", "replace")) for line in lines]


def _json_list_facts(head: TextHead) -> FileFacts | None:
    elements = _first_elements(head, "[*]")
    if elements is None:
        return None
    values = [value for value in elements if value is not None]
    if elements and len(values) * 2 < len(elements):
        return None
    if not elements and not head.whole and not re.match(rb'\s*\[\s*["{\[\dtfn-]', head.data):
        return None
    return replace(head.base, format="json", layout="list", shape=rows_shape(values))


def _json_object_facts(head: TextHead, *, table: bool) -> FileFacts | None:
    elements, _ = _head_elements(read_concatenated_values(iter([head.data]), head.name))
    in_a_row = [_parse_or_none(element.data) for element in elements]
    if len(in_a_row) >= 2 and sum(value is not None for value in in_a_row) * 2 >= len(in_a_row):
        return replace(head.base, format="json", layout="values", shape=rows_shape(in_a_row))
    if head.whole:
        value = _parse_or_none(head.data)
        if isinstance(value, dict):
            one_line = len([line for line in head.lines if line.strip(_SPACE)]) == 1
            shape = frozenset(value) if table else _object_shape(value)
            return replace(
                head.base, format="json", layout="object", shape=shape, one_line=one_line
            )
    keys = _first_elements(head, "*")
    if keys is None and not head.whole:
        return None
    opens = re.match(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:', head.data, re.DOTALL)
    if not opens:
        return None
    return replace(head.base, format="json", layout="object", shape=_partial_shape(head))


def _partial_shape(head: TextHead) -> frozenset[str]:
    """The shape of an object from its beginning: as that of a whole one, where its keys are few."""
    elements, _ = _head_elements(_read_root(head, "*"))
    values = {element.key or "": _parse_or_none(element.data) for element in elements}
    keys = {*values, *(key for key, _ in top_level_containers(head.data))}
    if len(keys) >= _SHAPE_ROWS:
        return frozenset({"*"})
    inner = [value for value in values.values() if isinstance(value, dict)]
    if len(inner) == len(values) and len(inner) >= 2:
        return _object_shape(values)
    return frozenset(keys) or frozenset({"*"})


def _read_root(head: TextHead, root: str) -> Iterator[list[Element]]:
    return read_elements(iter([head.data]), compile_root(root, head.name), head.name)


def _head_elements(groups: Iterator[list[Element]]) -> tuple[list[Element], SourceError | None]:
    """Return some elements, and what is wrong behind them."""
    elements: list[Element] = []
    try:
        for group in groups:
            elements += group[:_SHAPE_ROWS]
    except SourceError as error:
        return elements, error
    return elements, None


def _first_elements(head: TextHead, root: str) -> list[Json] | None:
    """Return the whole values at the head of the outer list or object; None if it is no JSON."""
    elements, error = _head_elements(_read_root(head, root))
    if isinstance(error, TrailingDataError) or (error and head.whole and not elements):
        return None
    return [_parse_or_none(element.data) for element in elements]


def rows_shape(values: Iterable[Json]) -> frozenset[str]:
    """Return the keys of objects, `$list` and `$value` for rows that are none."""
    keys: set[str] = set()
    for value in values:
        if isinstance(value, dict):
            keys.update(value)
        elif value is not None:
            keys.add("$list" if isinstance(value, list) else "$value")
    return frozenset(keys)


def _object_shape(value: dict[str, Json]) -> frozenset[str]:
    """The keys of an object; of one keyed by id those of its values, marked `*.`."""
    values = list(value.values())
    inner = [item for item in values if isinstance(item, dict)]
    # Of a small split too.
    by_id = bool(values) and all(any(map(str.isdigit, key)) for key in value)
    if len(inner) == len(values) and (len(inner) >= 3 or by_id):
        return frozenset(f"*.{key}" for key in set[str]().union(*inner))
    if len(values) >= 3 and all(isinstance(item, str) for item in values) and len(values) > 20:
        return frozenset({"*"})
    return frozenset(value)


def table_facts(head: TextHead, spec: SourceSpec, where: str) -> FileFacts | None:
    """Return the facts of a delimited table. Raises SourceError if it has too many columns."""
    from ingot.converters.sources.formats.header_rows import Header

    guess = partial(
        dialect.guess_table,
        whole=head.whole,
        stated=spec.format == "csv" or bool(spec.delimiter or spec.columns or spec.header_rows),
        usual=next((marks for end, marks in _USUAL.items() if head.name.endswith(end)), ""),
        delimiter=spec.delimiter,
        quote=spec.quote,
        columns=spec.columns,
    )
    lines = head.lines[:_MOST_LINES]
    table, preamble = guess(lines), 0
    free = spec.columns is None and spec.header_rows is None
    if free and (above := dialect.lines_above(lines, table)):
        below = guess(lines[above:])
        if below is not None and below.header and below.width > 1:
            table, preamble = below, above
    if table is None:
        return None
    header = _table_header(lines, table, spec, where) if not preamble else Header()
    if header.rows:
        preamble = header.rows[-1] - 1
        below = guess(lines[preamble:]) or table
        columns = spec.columns or header.names
        table = replace(below, header=True, columns=columns, width=len(columns))
    if table.width > MOST_COLUMNS:
        problem = f"{table.width:,} columns; at most {MOST_COLUMNS:,} are read"
        raise SourceError(where, problem, "correct `source.delimiter`, or cut the table")
    if spec.columns is not None and table.width > len(spec.columns):
        problem = f"{len(spec.columns)} names for {table.width} columns"
        raise SourceError(where, problem, "correct `source.columns`")
    guessed = _table_guesses(head, spec, table) | head.base.guessed
    if header.rows and spec.header_rows is None:
        guessed |= {"header_rows"}
    return replace(
        head.base,
        format="csv",
        delimiter=table.dialect.delimiter,
        quote=table.dialect.quote,
        columns=table.columns,
        header=table.header,
        fewest=table.fewest,
        multiline=table.multiline,
        preamble=preamble,
        header_rows=header.rows,
        unclear="" if table.header else header.unclear,
        shape=frozenset(table.columns),
        guessed=guessed,
    )


def _table_header(
    lines: Sequence[str], table: dialect.TableLayout, spec: SourceSpec, where: str
) -> "Header":
    """Return the header in the lines that are stated, or where titles or groups stand above it."""
    from ingot.converters.sources.formats.header_rows import Header, find_header, stated_header

    stated = spec.header_rows
    if stated is None and (spec.columns or not 1 < table.width <= MOST_COLUMNS):
        return Header()
    rows = list(dialect.numbered_records(lines, table))
    if stated is None:
        detected = find_header(rows) if rows else Header()
        return replace(detected, rows=()) if rows and detected.rows == (rows[0][0],) else detected
    header = stated_header(rows, stated, ())
    if header is None:
        problem = f"it has no table with a header in line {stated[-1]}"
        raise SourceError(where, problem, "correct `source.header_rows`")
    return header


def _table_guesses(head: TextHead, spec: SourceSpec, table: dialect.TableLayout) -> frozenset[str]:
    """The facts of a table that other values could have made come out otherwise."""
    usual = {end: marks[0] for end, marks in _USUAL.items()}
    ending = next((end for end in usual if head.name.endswith(end)), None)
    plain = table.dialect.quote == '"' and '"' not in "\n".join(head.lines)
    open_questions = {
        "format": spec.format is None and spec.delimiter is None and ending is None,
        "delimiter": spec.delimiter is None and usual.get(ending or "") != table.dialect.delimiter,
        "quote": spec.quote is None and not (plain and usual.get(ending or "") == ","),
        "columns": spec.columns is None and not table.header,
    }
    return frozenset(fact for fact, is_open in open_questions.items() if is_open)


def text_facts(head: TextHead, *_: object) -> FileFacts:
    """Return the facts of a file of lines of text."""
    return replace(head.base, format="text", shape=frozenset({text_shape(head.name, head.lines)}))
