"""The registry of readers: how files of each format are recognized and how their rows are read."""

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

from ingot.converters.columnar.lance_files import LANCE
from ingot.converters.columnar.table_view import FragmentStream
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.sources.containers import avro, mds, msgpack_rows, webdataset
from ingot.converters.sources.containers.registry import TABLE_CONTAINERS, Container
from ingot.converters.sources.documents.document_files import document_facts, read_document
from ingot.converters.sources.documents.kinds import DOCUMENTS
from ingot.converters.sources.facts import FileFacts, NoData, SourceFile, SourceSpec
from ingot.converters.sources.file_kinds import (
    BINARY,
    BLANK,
    EMPTY,
    LFS_MAGIC,
    LFS_POINTER,
    MARKUP,
    UNREAD,
    describe_magic,
)
from ingot.converters.sources.formats import columnar_files, detection
from ingot.converters.sources.formats.chat_trees import chat_tree_facts, read_chat_trees
from ingot.converters.sources.formats.delimited import Dialect, delimited_rows
from ingot.converters.sources.formats.detection import (
    FilePeek,
    TextHead,
    stated_encoding,
    text_facts,
)
from ingot.converters.sources.formats.json_documents import read_json_document
from ingot.converters.sources.formats.json_rows import (
    RowRoot,
    compile_root,
    parse_elements,
    read_concatenated_values,
    read_json_elements,
    read_json_lines,
)
from ingot.converters.sources.formats.row_chunks import RowChunk
from ingot.converters.sources.formats.text import (
    Encoding,
    detect_encoding,
    read_text_document,
    read_text_lines,
    read_utf8_blocks,
)
from ingot.converters.sources.interchange import mail, web_archives, xml_rows, yaml_toml
from ingot.converters.sources.recognizers import RECOGNIZERS
from ingot.converters.sources.storage.archives import open_window
from ingot.converters.sources.storage.compression import (
    detect_compression,
    open_decompressed,
    peek_first_bytes,
)
from ingot.converters.sources.storage.listing import Entry, LocalFile, file_stem
from ingot.converters.sources.tables.lance import lance_fragment_facts
from ingot.converters.sources.tables.partitions import add_partitions

Blocks = Iterator[bytes]


@dataclass(frozen=True)
class BinaryReader:
    """A format that is recognized by its first bytes.

    Attributes:
        detect: the facts of a file, `facts.format` being its name in `READERS`; None for a file of
            another format, `NoData` where none is to be asked.
        rows: the rows of a file from its decompressed stream.
    """

    detect: Callable[[Entry, detection.FilePeek, SourceSpec], FileFacts | NoData | None]
    rows: Callable[[SourceFile, SourceSpec, BinaryIO], Iterator[RowChunk]]


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
    where, piece, reader = str(file.place), file.piece, READERS[file.facts.format]
    if isinstance(reader, Container):
        yield from add_partitions(file, reader.rows(file, spec))
        return
    whole = file.place.open()
    with open_window(whole, piece.start, piece.size) if piece else whole as raw:
        stream = open_decompressed(raw, where)
        if isinstance(reader, BinaryReader):
            rows = reader.rows(file, spec, stream)
        else:
            facts, begins = file.facts, not (piece and piece.start)
            parts = read_utf8_blocks(stream, where, facts.encoding, facts.newline, begins=begins)
            rows = reader.rows(file, spec, parts)
        yield from add_partitions(file, rows)


def read_text_blocks(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    """Yield the rows of a file of a text format from its UTF-8 blocks. Raises SourceError."""
    reader = READERS[file.facts.format]
    if not isinstance(reader, TextReader):
        raise TypeError(f"{file.facts.format} is not a text format")
    return reader.rows(file, spec, parts)


def file_root(file: SourceFile, spec: SourceSpec) -> RowRoot:
    """Where the rows of a JSON file lie. Raises SourceError for what is no path."""
    where = str(file.place)
    if spec.orient is None:
        default = "$" if file.facts.layout == "object" else "[*]"
        return compile_root(spec.root or default, where)
    root = spec.root or "$"
    if spec.orient == "index":  # which is an object keyed by row
        return compile_root("*" if root == "$" else f"{root}.*", where)
    return replace(compile_root(root, where), streams=False, orient=spec.orient)


def _read_json(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    where = str(file.place)
    if file.facts.layout == "values" and spec.root in (None, "[*]"):
        groups = read_concatenated_values(parts, where)
        return map(parse_elements, groups)
    root = file_root(file, spec)
    if root.streams:
        return read_json_elements(parts, root, where)
    return read_json_document(parts, file_stem(file.name), root, where)


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


def _read_tree(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    where, form = str(file.place), file.facts.format
    root = None if spec.root is None else compile_root(spec.root, where)
    return yaml_toml.read_documents(form, parts, root, where, file_stem(file.name))


def _read_text(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    if spec.root == "$":
        return read_text_document(parts, file_stem(file.name))
    return read_text_lines(parts)


# In the order in which they are tried; lines of text are what is left.
READERS: Final[dict[str, BinaryReader | TextReader | Container]] = {
    **TABLE_CONTAINERS,
    **dict.fromkeys(DOCUMENTS, BinaryReader(document_facts, read_document)),
    "parquet": BinaryReader(detection.parquet_file_facts, columnar_files.read_parquet),
    "lance": BinaryReader(lance_fragment_facts, columnar_files.read_parquet),
    "arrow": BinaryReader(detection.arrow_file_facts, columnar_files.read_arrow),
    "avro": BinaryReader(avro.avro_file_facts, avro.read_avro),
    "feather": BinaryReader(detection.feather_file_facts, columnar_files.read_other),
    "mds": BinaryReader(mds.mds_file_facts, mds.read_mds),
    "msgpack": BinaryReader(msgpack_rows.msgpack_file_facts, msgpack_rows.read_msgpack),
    "orc": BinaryReader(detection.orc_file_facts, columnar_files.read_other),
    "webdataset": BinaryReader(webdataset.webdataset_facts, webdataset.read_webdataset),
    "warc": BinaryReader(web_archives.warc_facts, web_archives.read_warc),
    "mbox": BinaryReader(mail.mbox_facts, mail.read_mbox),
    "eml": BinaryReader(mail.eml_facts, mail.read_eml),
    "xml": BinaryReader(xml_rows.xml_facts, xml_rows.read_xml),
    "yaml": TextReader(yaml_toml.yaml_facts, _read_tree),
    "toml": TextReader(yaml_toml.toml_facts, _read_tree),
    "chat_tree": TextReader(chat_tree_facts, read_chat_trees),
    "jsonl": TextReader(detection.lines_facts, _read_lines),
    "json": TextReader(detection.json_facts, _read_json),
    "csv": TextReader(detection.table_facts, _read_csv),
    "text": TextReader(detection.text_facts, _read_text),
}


HEAD = 256 << 10
LONG_HEAD = 8 << 20  # where the head holds no whole line
_WINDOWS = 8
_WINDOW = 64 << 10
_COLUMNAR_NAME = re.compile(
    r"\.(parquet|arrow|avro|feather|mds|mpk|msgpack|orc)(\.\w{1,9})?$", re.IGNORECASE
)
_COMPRESSED_NAME = re.compile(r"\.(gz|gzip|zst|zstd|bz2|xz)$", re.IGNORECASE)


def peek_file(entry: Entry, size: int = HEAD) -> FilePeek:
    """Read the beginning of a file. Raises SourceError."""
    where = str(entry.place)
    with entry.place.open() as raw:
        if isinstance(raw, FragmentStream):
            return FilePeek(head=LANCE, whole=False, compression=None)
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
        return NoData(EMPTY)
    if seen.head.startswith(LFS_MAGIC):
        return NoData(LFS_POINTER)
    for reader in READERS.values():
        if (
            isinstance(reader, BinaryReader)
            and (facts := reader.detect(entry, seen, spec)) is not None
        ):
            return facts
    if inner := seen.archive or detect_compression(seen.head):
        return NoData(f"a {inner} file inside another file{UNREAD}: unpack it")
    if isinstance(READERS.get(spec.format or ""), BinaryReader | Container):
        raise SourceError(str(entry.place), f"not a {spec.format} file")
    if spec.format is None and (kind := describe_magic(seen.head)):
        return NoData(kind)
    found = stated_encoding(entry, spec)
    encoding = found or detect_encoding([seen.head, *seen.windows], seen.whole)
    if encoding is None:
        return _binary_verdict(entry, seen)
    return _text_facts(entry, seen, spec, encoding)


def _binary_verdict(entry: Entry, seen: FilePeek) -> NoData:
    for recognizer in RECOGNIZERS.values():
        if recognizer.binary and recognizer.recognize(seen.head) is not None:
            return NoData(recognizer.what, elsewhere=True)
    if named := _COLUMNAR_NAME.search(entry.name):
        problem = f"damaged: it is named .{named[1]} and does not begin like such a file"
        raise SourceError(str(entry.place), problem, "fetch or copy it again")
    return NoData(describe_magic(seen.head) or BINARY)


def _text_facts(
    entry: Entry, seen: FilePeek, spec: SourceSpec, encoding: Encoding
) -> FileFacts | NoData:
    newline = "\r" if b"\r" in seen.head and b"\n" not in seen.head else "\n"
    data = b"".join(read_utf8_blocks(io.BytesIO(seen.head), entry.name, encoding.name, newline))
    if not data.strip():
        return NoData(BLANK[0] if seen.whole else BLANK[1])
    for pattern, kind in MARKUP if spec.format is None else ():
        if pattern.match(data.lstrip()):
            return NoData(f"{kind}{UNREAD}")
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
