"""Files that lie beside data and are none: told by name, or by bytes that are no text.

What a file is, from its content: format, layout, encoding, dialect, columns.
"""

import io
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import orjson
import pyarrow as pa

from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceSpec
from ingot.converters.sources.formats import arrow, dialect
from ingot.converters.sources.formats.json_rows import (
    compile_root,
    read_concatenated_values,
    read_elements,
    top_level_containers,
)
from ingot.converters.sources.formats.text import (
    Encoding,
    classify_lines,
    detect_encoding,
    read_utf8_blocks,
)
from ingot.converters.sources.recognizers import monolith
from ingot.converters.sources.storage.archives import archive_kind
from ingot.converters.sources.storage.compression import (
    detect_compression,
    open_decompressed,
    peek_first_bytes,
)
from ingot.converters.sources.storage.listing import Entry, LocalFile
from ingot.converters.sources.storage.read_errors import translate_read_errors

_SIDE_FILE_NAMES = re.compile(
    r"(readme|licen[cs]e|copying|notice|citation|changelog|changes|authors|contributing|contributors)(\..*)?"
    r"|dataset_infos?\.json|dataset_dict\.json|state\.json|croissant\.json|datapackage\.json"
    r"|_success|_metadata|_common_metadata|thumbs\.db|desktop\.ini|cache-.*\.arrow"
    r"|(sample_?)?submission\.csv"
    r"|(md5|sha1|sha256)sums?(\.txt)?|requirements.*\.txt|makefile|dockerfile",
    re.IGNORECASE,
)
_SIDE_FILE_KINDS = {
    "document": "md markdown rst pdf doc docx xls xlsx ppt pptx",
    "web page": "html htm css",
    "script": "py ipynb sh js ts r bat pl c cpp h java go rs",
    "settings": "yaml yml toml ini cfg lock",
    "checksum": "md5 sha1 sha256 crc",
    "shortcut": "url lnk webloc",
    "image": "png jpg jpeg gif bmp webp svg",
    "sound": "mp3 wav flac",
    "video": "mp4 avi mkv",
}
_KIND_OF_ENDING = {
    ending: kind for kind, endings in _SIDE_FILE_KINDS.items() for ending in endings.split()
}
BINARY = "binary data"
_BINARY_MAGIC = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF", "an HDF5 file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"Rar!", "a RAR archive, which is not read: unpack it"),
    (b"7z\xbc\xaf", "a 7z archive, which is not read: unpack it"),
    (b"ORC", "an ORC file, which is not read"),
    (b"Obj\x01", "an Avro file, which is not read"),
    (b"\x80\x02", "a pickle, which is never read"),
    (b"\x80\x03", "a pickle, which is never read"),
    (b"\x80\x04", "a pickle, which is never read"),
    (b"\x80\x05", "a pickle, which is never read"),
)


def _is_hidden_folder(folder: str) -> bool:
    return folder.startswith(".") or folder in ("__MACOSX", "__pycache__")


def side_file_reason(name: str) -> str | None:
    """Why a file of this name (relative to the source) is no data, or None where it may be."""
    *folders, base = name.split("/")
    if base.startswith(".") or any(_is_hidden_folder(part) for part in folders):
        return "hidden"
    if _SIDE_FILE_NAMES.fullmatch(base):
        return "side file"
    kind = _KIND_OF_ENDING.get(base.rpartition(".")[2].lower()) if "." in base else None
    return None if kind is None else f"side file ({kind})"


def describe_binary(head: bytes) -> str:
    """What a file that is no text is, in words."""
    return next((kind for magic, kind in _BINARY_MAGIC if head.startswith(magic)), BINARY)


LFS_POINTER = "a Git LFS pointer: the file itself was not fetched"
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/"
HEAD = 256 << 10
LONG_HEAD = 8 << 20  # where the head holds no whole line
_WINDOWS = 8
_WINDOW = 64 << 10
_SHAPE_ROWS = 50
_TABLE_NAMES = (".csv", ".tsv", ".tab", ".psv")
_LINES_NAMES = (".jsonl", ".ndjson", ".jsonlines")
_DIGITS = b"0123456789"
_LAST_BYTES = {
    **{b"{": b"}", b"[": b"]", b'"': b'"', b"t": b"e", b"f": b"e", b"n": b"l", b"-": _DIGITS},
    **{_DIGITS[n : n + 1]: _DIGITS for n in range(10)},
}
_SPACE = " \t\r\n\ufeff"
_COMPRESSED_NAME = re.compile(r"\.(gz|gzip|zst|zstd|bz2|xz)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NoData:
    """The verdict on a file that holds no rows, and why.

    `elsewhere` says that another command of ingot reads it: it is no mistake to name it alone.
    """

    why: str
    broken: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePeek:
    """The beginning of a file, decompressed, and pieces of the rest where that is cheap."""

    head: bytes
    whole: bool
    compression: str | None
    windows: tuple[bytes, ...] = ()

    @property
    def archive(self) -> str | None:
        """`zip` or `tar` where the file is an archive."""
        return archive_kind(self.head)


def peek_file(entry: Entry, size: int = HEAD) -> FilePeek:
    """Read the beginning of a file. Raises SourceError."""
    where = str(entry.place)
    with entry.place.open() as raw:
        with translate_read_errors(where):
            codec = detect_compression(peek_first_bytes(raw))
        stream = open_decompressed(raw, where)
        head = _read_head(stream, size)
        if len(head) == size and b"\n" not in head and b"\r" not in head:
            head += _read_head(stream, LONG_HEAD - size)
        whole = len(head) < size or not stream.read(1)
        cheap = codec is None and isinstance(entry.place, LocalFile) and not whole
        windows = _read_windows(raw, entry.bytes) if cheap else ()
    return FilePeek(head=head, whole=whole, compression=codec, windows=windows)


def _read_head(stream: BinaryIO, size: int) -> bytes:
    parts = []
    while size > 0 and (data := stream.read(size)):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def _read_windows(raw: BinaryIO, size: int) -> tuple[bytes, ...]:
    """Pieces spread over the file (fewer of a small one), each from line end to line end."""
    count = max(1, min(_WINDOWS, size // (4 * _WINDOW)))
    pieces = []
    for number in range(1, count + 1):
        raw.seek(max(0, size * number // count - _WINDOW))
        data = raw.read(_WINDOW)
        pieces.append(data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1])
    return tuple(piece for piece in pieces if piece)


def sniff_file(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | NoData:
    """What a file is. `spec` states what is not to be guessed."""
    if not seen.head:
        return NoData("empty")
    if seen.head.startswith(_LFS_MAGIC):
        return NoData(LFS_POINTER, broken=True)
    if seen.head.startswith(arrow.PARQUET):
        return _parquet_file_facts(entry, seen)
    if _is_arrow_head(seen.head):
        return _arrow_file_facts(entry, seen)
    if spec.format in ("parquet", "arrow"):
        raise SourceError(str(entry.place), f"not a {spec.format} file")
    encoding = _head_encoding(entry, seen, spec)
    if encoding is None:
        return _not_text_verdict(seen.head)
    return _text_facts(entry, seen, spec, encoding)


def _not_text_verdict(head: bytes) -> NoData:
    if monolith.recognize_monolith(head) is not None:
        return NoData(monolith.MONOLITH_STREAM, broken=True, elsewhere=True)
    return NoData(describe_binary(head), broken=True)


def _is_arrow_head(head: bytes) -> bool:
    if head.startswith(arrow.ARROW_FILE):
        return True
    if not head.startswith(arrow.ARROW_STREAM):
        return False
    try:
        pa.ipc.read_schema(pa.BufferReader(head))
    except (pa.ArrowException, OSError, ValueError):
        return False
    return True


def _parquet_file_facts(entry: Entry, seen: FilePeek) -> FileFacts:
    where = str(entry.place)
    with entry.place.open() as raw:
        names, rows = arrow.parquet_facts(open_decompressed(raw, where), where)
    return FileFacts(
        format="parquet",
        compression=seen.compression,
        columns=names,
        rows=rows,
        shape=frozenset(names),
    )


def _arrow_file_facts(entry: Entry, seen: FilePeek) -> FileFacts:
    where = str(entry.place)
    with entry.place.open() as raw:
        names = arrow.arrow_columns(open_decompressed(raw, where), where)
    return FileFacts(
        format="arrow", compression=seen.compression, columns=names, shape=frozenset(names)
    )


def _head_encoding(entry: Entry, seen: FilePeek, spec: SourceSpec) -> Encoding | None:
    if spec.encoding is None:
        return detect_encoding([seen.head, *seen.windows], seen.whole)
    try:
        "".encode(spec.encoding)
    except LookupError as error:
        hint = "for example utf-8, gb18030, big5, cp1252"
        raise SourceError(str(entry.place), f"no encoding {spec.encoding!r}", hint) from error
    return Encoding(spec.encoding)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TextHead:
    """The head of a text file, decoded to UTF-8, and what is known so far."""

    name: str
    data: bytes
    lines: list[str]
    whole: bool
    base: FileFacts


def _text_facts(
    entry: Entry, seen: FilePeek, spec: SourceSpec, encoding: Encoding
) -> FileFacts | NoData:
    newline = "\r" if b"\r" in seen.head and b"\n" not in seen.head else "\n"
    data = b"".join(read_utf8_blocks(io.BytesIO(seen.head), entry.name, encoding.name, newline))
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
    name = _COMPRESSED_NAME.sub("", entry.name).lower()
    head = _TextHead(name=name, data=data, lines=lines, whole=seen.whole, base=base)
    return _format_facts(head, spec, str(entry.place))


def _format_facts(head: _TextHead, spec: SourceSpec, where: str) -> FileFacts:
    wanted = spec.format or ("csv" if spec.delimiter or spec.columns else None)
    if wanted in (None, "json", "jsonl"):
        facts = _json_facts(head, spec, wanted)
        if facts is not None:
            return facts
        if wanted is not None:
            raise SourceError(where, f"not {wanted}", "leave `format` out to have it found")
    if wanted in (None, "csv"):
        facts = _table_facts(head, spec, wanted, where)
        if facts is not None:
            return facts
    return _change_facts(head.base, format="text", shape=frozenset({classify_lines(head.lines)}))


def _change_facts(facts: FileFacts, **changes: object) -> FileFacts:
    return replace(facts, **changes)  # type: ignore[arg-type]


def _json_facts(head: _TextHead, spec: SourceSpec, wanted: str | None) -> FileFacts | None:
    text = head.lines[0] if len(head.lines) == 1 else "\n".join(head.lines[:50])
    first = text.lstrip(_SPACE)[:1]
    if wanted == "jsonl" or (wanted is None and spec.root is None and _is_json_lines(head)):
        return _change_facts(head.base, format="jsonl", shape=_rows_shape(_parse_head_lines(head)))
    if first == "[":
        facts = _json_list_facts(head)
    elif first == "{":
        facts = _json_object_facts(head)
    else:
        facts = None
    if facts is None and wanted == "json" and head.whole and _parse_or_none(head.data) is not None:
        return _change_facts(head.base, format="json", layout="object")
    return facts


def _is_json_lines(head: _TextHead) -> bool:
    """Whether (most) lines are JSON values of their own."""
    lines = [line.strip(_SPACE) for line in head.lines if line.strip(_SPACE)][:100]
    values = [_parse_or_none(line.encode("utf-8", "replace")) for line in lines]
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


def _parse_or_none(data: bytes) -> Json:
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
    return data[-1:] in _LAST_BYTES.get(data[:1], b"")


def _parse_head_lines(head: _TextHead) -> list[Json]:
    lines = [line for line in head.lines if line.strip(_SPACE)][:_SHAPE_ROWS]
    return [_parse_or_none(line.strip(_SPACE).encode("utf-8", "replace")) for line in lines]


def _json_list_facts(head: _TextHead) -> FileFacts | None:
    found = _first_elements(head, "[*]")
    if found is None:
        return None
    values = [value for value in found if value is not None]
    if found and len(values) * 2 < len(found):
        return None
    layout = "list"
    if not found and not head.whole and not re.match(rb'\s*\[\s*["{\[\dtfn-]', head.data):
        return None
    return _change_facts(head.base, format="json", layout=layout, shape=_rows_shape(values))


def _json_object_facts(head: _TextHead) -> FileFacts | None:
    in_a_row = _concatenated_values(head)
    if len(in_a_row) >= 2 and sum(value is not None for value in in_a_row) * 2 >= len(in_a_row):
        return _change_facts(head.base, format="json", layout="values", shape=_rows_shape(in_a_row))
    if head.whole:
        value = _parse_or_none(head.data)
        if isinstance(value, dict):
            one_line = len([line for line in head.lines if line.strip(_SPACE)]) == 1
            shape = _object_shape(value)
            return _change_facts(
                head.base, format="json", layout="object", shape=shape, one_line=one_line
            )
    keys = _first_elements(head, "*")
    if keys is None and not head.whole:
        return None
    opens = re.match(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:', head.data, re.DOTALL)
    if not opens:
        return None
    return _change_facts(head.base, format="json", layout="object", shape=_partial_shape(head))


def _partial_shape(head: _TextHead) -> frozenset[str]:
    """The shape of an object from its beginning: as that of a whole one, where its keys are few."""
    held: dict[str, Json] = {}
    try:
        for group in read_elements(iter([head.data]), compile_root("*", head.name), head.name):
            held |= {one.key or "": _parse_or_none(one.data) for one in group[:_SHAPE_ROWS]}
    except SourceError:
        pass
    keys = {*held, *(key for key, _ in top_level_containers(head.data))}
    if len(keys) >= _SHAPE_ROWS:
        return frozenset({"*"})
    inner = [value for value in held.values() if isinstance(value, dict)]
    if len(inner) == len(held) and len(inner) >= 2:
        return _object_shape(held)
    return frozenset(keys) or frozenset({"*"})


def _first_elements(head: _TextHead, root: str) -> list[Json] | None:
    """The values at the head of the outer list or object (None = no JSON); [] where none is whole.

    None where something else than JSON follows its end.
    """
    values: list[Json] = []
    try:
        for group in read_elements(iter([head.data]), compile_root(root, head.name), head.name):
            for element in group[:_SHAPE_ROWS]:
                values.append(_parse_or_none(element.data))
    except SourceError as error:
        if "comes" in error.problem:
            return None
        return None if head.whole and not values else values
    return values


def _concatenated_values(head: _TextHead) -> list[Json]:
    values: list[Json] = []
    try:
        for group in read_concatenated_values(iter([head.data]), head.name):
            values += [_parse_or_none(element.data) for element in group[:_SHAPE_ROWS]]
    except SourceError:
        return values
    return values


def _rows_shape(values: Iterable[Json]) -> frozenset[str]:
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


def _table_facts(
    head: _TextHead, spec: SourceSpec, wanted: str | None, where: str
) -> FileFacts | None:
    table = dialect.guess_table(
        _limit_lines(head.lines),
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
    return _change_facts(
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


def _table_guesses(head: _TextHead, spec: SourceSpec, table: dialect.TableLayout) -> frozenset[str]:
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


def _limit_lines(lines: Sequence[str], most: int = 4000) -> Sequence[str]:
    return lines[:most]
