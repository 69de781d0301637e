"""The registry of readers: how files of each format are recognized and how their rows are read."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import BinaryIO, Final

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.paths import join_path
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, RootCandidate, SourceFile, SourceSpec
from ingot.converters.sources.formats import arrow, detection
from ingot.converters.sources.formats.delimited import Dialect, delimited_rows
from ingot.converters.sources.formats.detection import FilePeek, TextHead, text_facts
from ingot.converters.sources.formats.json_rows import (
    RowRoot,
    compile_root,
    parse_elements,
    parse_json_document,
    read_concatenated_values,
    read_json_document,
    read_json_elements,
    read_json_lines,
    top_level_containers,
)
from ingot.converters.sources.formats.row_chunks import BrokenRow, RowChunk
from ingot.converters.sources.formats.text import (
    Encoding,
    detect_encoding,
    read_text_document,
    read_text_lines,
    read_utf8_blocks,
)
from ingot.converters.sources.recognizers import RECOGNIZERS
from ingot.converters.sources.storage.compression import (
    detect_compression,
    open_decompressed,
    peek_first_bytes,
)
from ingot.converters.sources.storage.listing import Entry, LocalFile, file_stem

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
        groups = read_concatenated_values(parts, where)
        return (RowChunk(values=parse_elements(group)) for group in groups)
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


_SIDE_FILE_NAMES = re.compile(
    r"(readme|licen[cs]e|copying|notice|citation|changelog|changes|authors|contributing|contributors)(\..*)?"
    r"|dataset_infos?\.json|dataset_dict\.json|state\.json|croissant\.json|datapackage\.json"
    r"|_success|_metadata|_common_metadata|thumbs\.db|desktop\.ini|cache-.*\.arrow"
    r"|(sample_?)?submission\.csv"
    r"|(md5|sha1|sha256)sums?(\.txt)?|requirements.*\.txt|makefile|dockerfile",
    re.IGNORECASE,
)
_SIDE_FILE_KINDS = {
    "document": "md markdown rst",
    "style sheet": "css",
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
UNREAD = ", which is not read"
_UNREAD_KINDS = {
    "a PDF document": "pdf",
    "an Office document": "doc docx xls xlsx ppt pptx odt ods rtf",
    "an HTML page": "html htm",
}
_UNREAD_ENDINGS = {
    ending: kind + UNREAD for kind, endings in _UNREAD_KINDS.items() for ending in endings.split()
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


# What is text, and is not read as lines unless `format` says so.
_MARKUP = [
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (rb"(<!--.*?-->\s*)?(<!doctype html|<html)", "an HTML page"),
        (rb"<\?xml|<!doctype ", "an XML file"),
        (rb"WARC/[\d.]+\s", "a WARC archive"),
        (rb"From \S+ [^\n]*\d{4}\r?\n[\w-]+: ", "a mailbox (mbox)"),
        (rb"\{\\rtf\d", "an RTF document"),
    )
]


def side_file_reason(name: str) -> str | None:
    """Why a file of this name (relative to the source) is no data, or None where it may be."""
    *folders, base = name.split("/")
    hidden = {"__MACOSX", "__pycache__"}.intersection(folders)
    if hidden or any(part.startswith(".") for part in (base, *folders)):
        return "hidden"
    if _SIDE_FILE_NAMES.fullmatch(base):
        return "side file"
    ending = base.rpartition(".")[2].lower() if "." in base else ""
    kind = _KIND_OF_ENDING.get(ending)
    return _UNREAD_ENDINGS.get(ending) if kind is None else f"side file ({kind})"


def describe_binary(head: bytes) -> str:
    """What a file that is no text is, in words."""
    return next((kind for magic, kind in _BINARY_MAGIC if head.startswith(magic)), BINARY)


LFS_POINTER = "a Git LFS pointer: the file itself was not fetched"
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/"
HEAD = 256 << 10
LONG_HEAD = 8 << 20  # where the head holds no whole line
_WINDOWS = 8
_WINDOW = 64 << 10
_COMPRESSED_NAME = re.compile(r"\.(gz|gzip|zst|zstd|bz2|xz)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NoData:
    """The verdict on a file that holds no rows, and why.

    `elsewhere` says that another command of ingot reads it: it is no mistake to name it alone.
    """

    why: str
    broken: bool = False
    elsewhere: bool = False


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
    for reader in READERS.values():
        if isinstance(reader, BinaryReader) and (facts := reader.detect(entry, seen)) is not None:
            return facts
    if isinstance(READERS.get(spec.format or ""), BinaryReader):
        raise SourceError(str(entry.place), f"not a {spec.format} file")
    encoding = _head_encoding(entry, seen, spec)
    if encoding is None:
        for recognizer in RECOGNIZERS.values():
            if recognizer.binary and recognizer.recognize(seen.head) is not None:
                return NoData(recognizer.what, broken=True, elsewhere=True)
        return NoData(describe_binary(seen.head), broken=True)
    return _text_facts(entry, seen, spec, encoding)


def _head_encoding(entry: Entry, seen: FilePeek, spec: SourceSpec) -> Encoding | None:
    if spec.encoding is None:
        return detect_encoding([seen.head, *seen.windows], seen.whole)
    try:
        "".encode(spec.encoding)
    except LookupError as error:
        hint = "for example utf-8, gb18030, big5, cp1252"
        raise SourceError(str(entry.place), f"no encoding {spec.encoding!r}", hint) from error
    return Encoding(spec.encoding)


def _text_facts(
    entry: Entry, seen: FilePeek, spec: SourceSpec, encoding: Encoding
) -> FileFacts | NoData:
    newline = "\r" if b"\r" in seen.head and b"\n" not in seen.head else "\n"
    data = b"".join(read_utf8_blocks(io.BytesIO(seen.head), entry.name, encoding.name, newline))
    if not data.strip():
        return NoData("blank") if seen.whole else NoData("blank at its beginning")
    for pattern, kind in _MARKUP if spec.format is None else ():
        if pattern.match(data.lstrip()):
            return NoData(f"{kind}{UNREAD}", broken=True)
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
    head = TextHead(name=name, data=data, lines=lines, whole=seen.whole, base=base)
    return _format_facts(head, spec, str(entry.place))


def _format_facts(head: TextHead, spec: SourceSpec, where: str) -> FileFacts:
    stated = spec.format or ("csv" if spec.delimiter or spec.columns else None)
    for name, reader in READERS.items():
        if name != "text" and stated in (None, name) and isinstance(reader, TextReader):
            facts = reader.detect(head, spec, where)
            if facts is not None:
                return facts
    if stated in (None, "csv", "text"):
        return text_facts(head)
    raise SourceError(where, f"not {stated}", "leave `format` out to have it found")


# --- where rows may lie in a file that is one object

MAX_BYTES = 64 << 20  # a larger file is not loaded to look for roots, only its head is
MAX_HEAD = 1 << 20
_HEAD_BLOCKS = 8  # of a megabyte
_MOST_CANDIDATES = 20
_MOST_DEPTH = 3
_FEW_VALUES = 3  # an object of fewer values is a record rather than keyed by id


def root_candidates(files: Sequence[SourceFile]) -> tuple[RootCandidate, ...]:
    """Candidates of the largest file that is one object; () where there is none.

    `rows` counts that file alone, and is None where it is too large to be loaded.
    """
    objects = [file for file in files if file.facts.layout == "object"]
    if not objects:
        return ()
    file = max(objects, key=lambda file: (file.bytes, file.name))
    with file.place.open() as raw:
        stream = open_decompressed(raw, str(file.place))
        parts = read_utf8_blocks(stream, str(file.place), file.facts.encoding, file.facts.newline)
        head = b"".join(islice(parts, _HEAD_BLOCKS))
        value = parse_json_document(chain([head], parts), MAX_BYTES)
    if isinstance(value, dict):
        points = _file_points(value, len(objects))
        whole = RootCandidate(path="$", rows=1, why="the file as one row")
        ranked = [*_find_roots(value, (), 1), (points, whole)]
        return tuple(root for _, root in sorted(ranked, key=lambda item: (-item[0], item[1].path)))
    large = type(value) is BrokenRow and len(head) > MAX_HEAD
    return tuple(_head_candidates(head)) if large else ()


def _head_candidates(head: bytes) -> Iterator[RootCandidate]:
    """The candidates of a file that is too large, from its first megabytes."""
    held = top_level_containers(head)
    if len(held) > _MOST_CANDIDATES and all(is_object for _, is_object in held):
        yield RootCandidate(path="*", rows=None, why="objects keyed by id")
        return
    for key, is_object in held:
        mark, why = (".*", "an object") if is_object else ("[*]", "a list")
        yield RootCandidate(path=join_path(key, mark), rows=None, why=f"{why} in a large file")


def _find_roots(
    value: dict[str, Json], keys: tuple[str, ...], depth: int
) -> Iterator[tuple[float, RootCandidate]]:
    if len(value) >= _FEW_VALUES and (why := _id_key_reason(value)):
        path = join_path(*keys, ".*").removeprefix(".")
        yield 2.0 - depth * 0.5, RootCandidate(path=path, rows=len(value), why=why)
    for key, held in value.items():
        here = (*keys, key)
        if isinstance(held, dict) and depth < _MOST_DEPTH and len(value) < 100:
            yield from _find_roots(held, here, depth + 1)
        if not isinstance(held, list) or not held:
            continue
        path, long = join_path(*here, "[*]"), len(held) >= _FEW_VALUES
        if all(isinstance(item, dict) for item in held):
            root = RootCandidate(path=path, rows=len(held), why="a list of objects")
            yield (1.5 if long else 0.9) - depth * 0.25, root
        elif long and all(isinstance(item, str) for item in held):
            root = RootCandidate(path=path, rows=len(held), why="a list of texts")
            yield 0.1 - depth * 0.25, root


def _id_key_reason(value: dict[str, Json]) -> str | None:
    """Whether the values are records of one kind: objects with the same keys, or long texts."""
    held = list(value.values())
    numbered = all(any(map(str.isdigit, key)) for key in value)
    # Few plain words without a digit read like names of fields.
    named = len(value) < 10 and all(
        key.isidentifier() and not any(map(str.isdigit, key)) for key in value
    )
    if all(isinstance(item, dict) for item in held):
        shared = set(held[0]).intersection(*held[:100])
        return "objects keyed by id" if shared and not named else None
    if all(isinstance(item, str) for item in held):
        long = sum(len(item) > 40 for item in held) * 2 > len(held)
        return "texts keyed by id" if len(held) > 20 or (long and not named) else None
    if all(isinstance(item, list) for item in held) and (len(held) > 20 or numbered):
        return "lists keyed by id"
    return None


def _file_points(value: dict[str, Json], files: int) -> float:
    """A file is a record if there are many like it, or if it has a text of its own."""
    text = any(isinstance(item, str) and len(item) > 200 for item in value.values())
    return (1.4 if files > 2 else 0.0) + (0.8 if text else 0.0) + 0.4
