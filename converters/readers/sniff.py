"""What a file is, from its content: format, layout, encoding, dialect, columns."""

import io
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import orjson
import pyarrow as pa

from ingot.converters.errors import SourceError
from ingot.converters.monolith import recognizing
from ingot.converters.readers import columnar, dialect
from ingot.converters.readers.archives import archive_kind
from ingot.converters.readers.compression import compression_of, decompressed, first_bytes
from ingot.converters.readers.elements import containers, elements, values_in_a_row
from ingot.converters.readers.encoding import Encoding, detect
from ingot.converters.readers.facts import FileFacts
from ingot.converters.readers.faults import reading
from ingot.converters.readers.linekinds import line_kind
from ingot.converters.readers.lines import utf8_blocks
from ingot.converters.readers.root import compile_root
from ingot.converters.readers.sidefiles import binary_kind
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.readers.storage import Entry, LocalFile
from ingot.converters.rows import Json

LFS = "a Git LFS pointer: the file itself was not fetched"
_LFS = b"version https://git-lfs.github.com/spec/"
HEAD = 256 << 10
LONG_HEAD = 8 << 20  # where the head holds no whole line
_WINDOWS = 8
_WINDOW = 64 << 10
_SHAPE_ROWS = 50
_TABLE_NAMES = (".csv", ".tsv", ".tab", ".psv")
_LINES_NAMES = (".jsonl", ".ndjson", ".jsonlines")
_DIGITS = b"0123456789"
_LAST_OF = {
    **{b"{": b"}", b"[": b"]", b'"': b'"', b"t": b"e", b"f": b"e", b"n": b"l", b"-": _DIGITS},
    **{_DIGITS[n : n + 1]: _DIGITS for n in range(10)},
}
_SPACE = " \t\r\n\ufeff"
_PACKED = re.compile(r"\.(gz|gzip|zst|zstd|bz2|xz)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NoData:
    """The verdict on a file that holds no rows, and why.

    `elsewhere` says that another command of ingot reads it: it is no mistake to name it alone.
    """

    why: str
    broken: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Peek:
    """The beginning of a file, decompressed, and pieces of the rest where that is cheap."""

    head: bytes
    whole: bool
    compression: str | None
    windows: tuple[bytes, ...] = ()

    @property
    def archive(self) -> str | None:
        """`zip` or `tar` where the file is an archive."""
        return archive_kind(self.head)


def peek(entry: Entry, size: int = HEAD) -> Peek:
    """Read the beginning of a file. Raises SourceError."""
    where = str(entry.place)
    with entry.place.open() as raw:
        with reading(where):
            codec = compression_of(first_bytes(raw))
        stream = decompressed(raw, where)
        head = _read(stream, size)
        if len(head) == size and b"\n" not in head and b"\r" not in head:
            head += _read(stream, LONG_HEAD - size)
        whole = len(head) < size or not stream.read(1)
        cheap = codec is None and isinstance(entry.place, LocalFile) and not whole
        windows = _windows(raw, entry.bytes) if cheap else ()
    return Peek(head=head, whole=whole, compression=codec, windows=windows)


def _read(stream: BinaryIO, size: int) -> bytes:
    parts = []
    while size > 0 and (data := stream.read(size)):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def _windows(raw: BinaryIO, size: int) -> tuple[bytes, ...]:
    """Pieces spread over the file (fewer of a small one), each from line end to line end."""
    count = max(1, min(_WINDOWS, size // (4 * _WINDOW)))
    pieces = []
    for number in range(1, count + 1):
        raw.seek(max(0, size * number // count - _WINDOW))
        data = raw.read(_WINDOW)
        pieces.append(data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1])
    return tuple(piece for piece in pieces if piece)


def sniff(entry: Entry, seen: Peek, spec: SourceSpec) -> FileFacts | NoData:
    """What a file is. `spec` states what is not to be guessed.

    Raises:
        SourceError: a Parquet or Arrow file that is damaged, a stated encoding that does not exist.
    """
    if not seen.head:
        return NoData("empty")
    if seen.head.startswith(_LFS):
        return NoData(LFS, broken=True)
    if seen.head.startswith(columnar.PARQUET):
        return _parquet(entry, seen)
    if _is_arrow(seen.head):
        return _arrow(entry, seen)
    if spec.format in ("parquet", "arrow"):
        raise SourceError(str(entry.place), f"not a {spec.format} file")
    encoding = _encoding(entry, seen, spec)
    if encoding is None:
        return _no_text(seen.head)
    return _text(entry, seen, spec, encoding)


def _no_text(head: bytes) -> NoData:
    if recognizing.stream_of(head) is not None:
        return NoData(recognizing.WHY, broken=True, elsewhere=True)
    return NoData(binary_kind(head), broken=True)


def _is_arrow(head: bytes) -> bool:
    if head.startswith(columnar.ARROW_FILE):
        return True
    if not head.startswith(columnar.ARROW_STREAM):
        return False
    try:
        pa.ipc.read_schema(pa.BufferReader(head))
    except (pa.ArrowException, OSError, ValueError):
        return False
    return True


def _parquet(entry: Entry, seen: Peek) -> FileFacts:
    where = str(entry.place)
    with entry.place.open() as raw:
        names, rows = columnar.parquet_facts(decompressed(raw, where), where)
    return FileFacts(
        format="parquet",
        compression=seen.compression,
        columns=names,
        rows=rows,
        shape=frozenset(names),
    )


def _arrow(entry: Entry, seen: Peek) -> FileFacts:
    where = str(entry.place)
    with entry.place.open() as raw:
        names = columnar.arrow_columns(decompressed(raw, where), where)
    return FileFacts(
        format="arrow", compression=seen.compression, columns=names, shape=frozenset(names)
    )


def _encoding(entry: Entry, seen: Peek, spec: SourceSpec) -> Encoding | None:
    if spec.encoding is None:
        return detect([seen.head, *seen.windows], seen.whole)
    try:
        "".encode(spec.encoding)
    except LookupError as error:
        hint = "for example utf-8, gb18030, big5, cp1252"
        raise SourceError(str(entry.place), f"no encoding {spec.encoding!r}", hint) from error
    return Encoding(spec.encoding)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Head:
    """The head of a text file, decoded to UTF-8, and what is known so far."""

    name: str
    data: bytes
    lines: list[str]
    whole: bool
    base: FileFacts


def _text(entry: Entry, seen: Peek, spec: SourceSpec, encoding: Encoding) -> FileFacts | NoData:
    newline = "\r" if b"\r" in seen.head and b"\n" not in seen.head else "\n"
    data = b"".join(utf8_blocks(io.BytesIO(seen.head), entry.name, encoding.name, newline))
    if not data.strip():
        return NoData("blank") if seen.whole else NoData("blank at its beginning")
    guessed = frozenset({"encoding"} if encoding.guessed else ())
    base = FileFacts(
        format="text",
        encoding=encoding.name,
        newline=newline,
        compression=seen.compression,
        guessed=guessed,
    )
    lines = data.decode("utf-8", "replace").split("\n")
    if not seen.whole and len(lines) > 1:
        lines.pop()
    name = _PACKED.sub("", entry.name).lower()
    head = _Head(name=name, data=data, lines=lines, whole=seen.whole, base=base)
    return _by_format(head, spec, str(entry.place))


def _by_format(head: _Head, spec: SourceSpec, where: str) -> FileFacts:
    wanted = spec.format or ("csv" if spec.delimiter or spec.columns else None)
    if wanted in (None, "json", "jsonl"):
        facts = _json(head, spec, wanted)
        if facts is not None:
            return facts
        if wanted is not None:
            raise SourceError(where, f"not {wanted}", "leave `format` out to have it found")
    if wanted in (None, "csv"):
        facts = _csv(head, spec, wanted, where)
        if facts is not None:
            return facts
    return _changed(head.base, format="text", shape=frozenset({line_kind(head.lines)}))


def _changed(facts: FileFacts, **changes: object) -> FileFacts:
    return replace(facts, **changes)  # type: ignore[arg-type]


def _json(head: _Head, spec: SourceSpec, wanted: str | None) -> FileFacts | None:
    text = head.lines[0] if len(head.lines) == 1 else "\n".join(head.lines[:50])
    first = text.lstrip(_SPACE)[:1]
    if wanted == "jsonl" or (wanted is None and spec.root is None and _is_lines(head)):
        return _changed(head.base, format="jsonl", shape=_shape(_parsed_lines(head)))
    if first == "[":
        facts = _list(head)
    elif first == "{":
        facts = _object(head)
    else:
        facts = None
    if facts is None and wanted == "json" and head.whole and _loads(head.data) is not None:
        return _changed(head.base, format="json", layout="object")
    return facts


def _is_lines(head: _Head) -> bool:
    """Whether (most) lines are JSON values of their own."""
    lines = [line.strip(_SPACE) for line in head.lines if line.strip(_SPACE)][:100]
    values = [_loads(line.encode("utf-8", "replace")) for line in lines]
    whole = [isinstance(value, dict | list) for value in values]
    # A broken row still looks like one, but does not make a file of lines by itself.
    held = sum(map(operator.or_, whole, map(_looks_whole, lines))) if any(whole) else 0
    if len(lines) == 1 and isinstance(values[0], list):
        return False
    if head.name.endswith(_LINES_NAMES):
        return held * 2 >= len(lines) or all(value is not None for value in values)
    if len(lines) >= 2:
        texts = sum(isinstance(value, str) for value in values)
        table = head.name.endswith(_TABLE_NAMES)
        return held * 2 > len(lines) or (texts == len(lines) and not table)
    return False


def _looks_whole(line: str) -> bool:
    return (line[0], line[-1]) in (("{", "}"), ("[", "]"))


def _loads(data: bytes) -> Json:
    if not _may_be_json(data):  # an error is slow to raise
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _may_be_json(data: bytes) -> bool:
    """Whether the last byte fits to the first one, as that of every JSON value does."""
    if data[:1].isspace() or data[-1:].isspace():
        return True
    return data[-1:] in _LAST_OF.get(data[:1], b"")


def _parsed_lines(head: _Head) -> list[Json]:
    lines = [line for line in head.lines if line.strip(_SPACE)][:_SHAPE_ROWS]
    return [_loads(line.strip(_SPACE).encode("utf-8", "replace")) for line in lines]


def _list(head: _Head) -> FileFacts | None:
    found = _first_elements(head, "[*]")
    if found is None:
        return None
    values = [value for value in found if value is not None]
    if found and len(values) * 2 < len(found):
        return None
    layout = "list"
    if not found and not head.whole and not re.match(rb'\s*\[\s*["{\[\dtfn-]', head.data):
        return None
    return _changed(head.base, format="json", layout=layout, shape=_shape(values))


def _object(head: _Head) -> FileFacts | None:
    in_a_row = _values_in_a_row(head)
    if len(in_a_row) >= 2 and sum(value is not None for value in in_a_row) * 2 >= len(in_a_row):
        return _changed(head.base, format="json", layout="values", shape=_shape(in_a_row))
    if head.whole:
        value = _loads(head.data)
        if isinstance(value, dict):
            one_line = len([line for line in head.lines if line.strip(_SPACE)]) == 1
            shape = _object_shape(value)
            return _changed(
                head.base, format="json", layout="object", shape=shape, one_line=one_line
            )
    keys = _first_elements(head, "*")
    if keys is None and not head.whole:
        return None
    opens = re.match(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:', head.data, re.DOTALL)
    if not opens:
        return None
    return _changed(head.base, format="json", layout="object", shape=_begun_shape(head))


def _begun_shape(head: _Head) -> frozenset[str]:
    """The shape of an object from its beginning: as that of a whole one, where its keys are few."""
    held: dict[str, Json] = {}
    try:
        for group in elements(iter([head.data]), compile_root("*", head.name), head.name):
            held |= {one.key or "": _loads(one.data) for one in group[:_SHAPE_ROWS]}
    except SourceError:
        pass
    keys = {*held, *(key for key, _ in containers(head.data))}
    if len(keys) >= _SHAPE_ROWS:
        return frozenset({"*"})
    inner = [value for value in held.values() if isinstance(value, dict)]
    if len(inner) == len(held) and len(inner) >= 2:
        return _object_shape(held)
    return frozenset(keys) or frozenset({"*"})


def _first_elements(head: _Head, root: str) -> list[Json] | None:
    """The values at the head of the outer list or object (None = no JSON); [] where none is whole.

    None where something else than JSON follows its end.
    """
    values: list[Json] = []
    try:
        for group in elements(iter([head.data]), compile_root(root, head.name), head.name):
            for element in group[:_SHAPE_ROWS]:
                values.append(_loads(element.data))
    except SourceError as error:
        if "comes" in error.problem:
            return None
        return None if head.whole and not values else values
    return values


def _values_in_a_row(head: _Head) -> list[Json]:
    values: list[Json] = []
    try:
        for group in values_in_a_row(iter([head.data]), head.name):
            values += [_loads(element.data) for element in group[:_SHAPE_ROWS]]
    except SourceError:
        return values
    return values


def _shape(values: Iterable[Json]) -> frozenset[str]:
    """The keys of objects, `$list` and `$value` for rows that are none."""
    keys: set[str] = set()
    for value in values:
        if isinstance(value, dict):
            keys.update(value)
        elif value is not None:
            keys.add("$list" if isinstance(value, list) else "$value")
    return frozenset(keys)


def _object_shape(value: dict[str, Json]) -> frozenset[str]:
    """The keys of an object; of one keyed by id those of its values, marked `*.`."""
    held = list(value.values())
    inner = [item for item in held if isinstance(item, dict)]
    by_id = bool(held) and all(any(map(str.isdigit, key)) for key in value)  # of a small split too
    if len(inner) == len(held) and (len(inner) >= 3 or by_id):
        return frozenset(f"*.{key}" for key in set[str]().union(*inner))
    if len(held) >= 3 and all(isinstance(item, str) for item in held) and len(held) > 20:
        return frozenset({"*"})
    return frozenset(value)


def _csv(head: _Head, spec: SourceSpec, wanted: str | None, where: str) -> FileFacts | None:
    table = dialect.guess(
        _bounded(head.lines),
        whole=head.whole,
        named_table=wanted == "csv" or head.name.endswith(_TABLE_NAMES),
        delimiter=spec.delimiter,
        quote=spec.quote,
        columns=spec.columns,
    )
    if table is None:
        return None
    if spec.columns is not None and table.width > len(spec.columns):
        problem = f"{len(spec.columns)} names for {table.width} columns"
        raise SourceError(where, problem, "correct source.columns")
    guessed = _table_guesses(head, spec, table) | head.base.guessed
    return _changed(
        head.base,
        format="csv",
        delimiter=table.dialect.delimiter,
        quote=table.dialect.quote,
        columns=table.columns,
        header=table.header,
        fewest=table.fewest,
        multiline=table.multiline,
        shape=frozenset(table.columns),
        guessed=guessed,
    )


def _table_guesses(head: _Head, spec: SourceSpec, table: dialect.Delimited) -> frozenset[str]:
    """The facts of a table that other values could have made come out otherwise."""
    usual = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".psv": "|"}
    ending = next((end for end in usual if head.name.endswith(end)), None)
    plain = table.dialect.quote == '"' and '"' not in "\n".join(head.lines)
    open_questions = {
        "format": spec.format is None and spec.delimiter is None and ending is None,
        "delimiter": spec.delimiter is None and usual.get(ending or "") != table.dialect.delimiter,
        "quote": spec.quote is None and not (plain and usual.get(ending or "") == ","),
        "columns": spec.columns is None and not table.header,
    }
    return frozenset(fact for fact, is_open in open_questions.items() if is_open)


def _bounded(lines: Sequence[str], most: int = 4000) -> Sequence[str]:
    return lines[:most]
