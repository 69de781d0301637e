"""The registry of readers: how files of each format are recognized and how their rows are read.

A format is added here alone. What tells the files that may be of it stands in the registry, so that
the modules of other formats are not imported.
"""

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, BinaryIO, Final

from ingot.converters.columnar.file_opening import PARQUET
from ingot.converters.columnar.lance_files import LANCE
from ingot.converters.errors import SourceError
from ingot.converters.imports import LateFunction
from ingot.converters.sources import file_kinds
from ingot.converters.sources.documents.kinds import DOCUMENTS
from ingot.converters.sources.facts import EMPTY, FileFacts, NoData, SourceFile, SourceSpec
from ingot.converters.sources.formats import detection, json_rows, text
from ingot.converters.sources.formats.delimited import Dialect, delimited_rows
from ingot.converters.sources.formats.detection import FilePeek, TextHead
from ingot.converters.sources.formats.json_documents import read_json_document
from ingot.converters.sources.formats.json_rows import RowRoot
from ingot.converters.sources.formats.row_chunks import RowChunk
from ingot.converters.sources.formats.text import Encoding
from ingot.converters.sources.recognizers import RECOGNIZERS
from ingot.converters.sources.storage.archives import archive_members, open_window
from ingot.converters.sources.storage.compression import (
    detect_compression,
    open_decompressed,
)
from ingot.converters.sources.storage.listing import Entry, file_stem

if TYPE_CHECKING:
    from ingot.converters.sources.containers.tables import LeftMember, Wants

Blocks = Iterator[bytes]


@dataclass(frozen=True)
class BinaryReader:
    """A format that is recognized by its first bytes.

    Attributes:
        detect: the facts of a file, `facts.format` being its name in `READERS`; None for a file of
            another format, `NoData` where none is to be asked.
        rows: the rows of a file from its decompressed stream.
        begins: a pattern; files that do not begin so are not asked for their facts.
        or_stated: files that do not are asked where the format is stated.
    """

    detect: Callable[[Entry, FilePeek, SourceSpec], FileFacts | NoData | None]
    rows: Callable[[SourceFile, SourceSpec, BinaryIO], Iterator[RowChunk]]
    begins: bytes = b""
    or_stated: bool = True


@dataclass(frozen=True)
class TextReader:
    """A text format, recognized by its first lines after their encoding was found out.

    Attributes:
        detect: as that of a `BinaryReader`; the text is the file's place for messages.
        rows: the rows of a file from its blocks of UTF-8.
        may_be: whether a file is asked for its facts where no format is stated.
    """

    detect: Callable[[TextHead, SourceSpec, str], FileFacts | None]
    rows: Callable[[SourceFile, SourceSpec, Blocks], Iterator[RowChunk]]
    may_be: Callable[[TextHead], bool] = lambda _: True


def _read_none(file: SourceFile, _: SourceSpec) -> Iterator[RowChunk]:
    raise TypeError(f"{file.name} lies in an archive: it is read by its own format")


@dataclass(frozen=True)
class Container:
    """A kind of file that holds several.

    Attributes:
        begins: a pattern of its first bytes.
        members: what is in it in order: an `Entry` that is looked into, a `SourceFile` with its
            facts, or (name, why) of what is left out; ("", why) where that is all of it.
        rows: the rows of a member that has facts of this format.
        detect: whether a file that begins so is of this kind; `NoData` where it is and cannot be
            read.
    """

    begins: bytes
    members: "Callable[[Entry, SourceSpec, Wants], Iterator[Entry | LeftMember]]"
    rows: Callable[[SourceFile, SourceSpec], Iterator[RowChunk]] = _read_none
    detect: Callable[[Entry, FilePeek], bool | NoData] = lambda *_: True


def read_file(file: SourceFile, spec: SourceSpec) -> Iterator[RowChunk]:
    """Yield the rows of a file in order. Raises SourceError."""
    where, piece, reader = str(file.place), file.piece, READERS[file.facts.format]
    if isinstance(reader, Container):
        yield from with_partitions(file, reader.rows(file, spec))
        return
    whole = file.place.open()
    with open_window(whole, piece.start, piece.size, where) if piece else whole as raw:
        stream = open_decompressed(raw, where)
        if isinstance(reader, BinaryReader):
            rows = reader.rows(file, spec, stream)
        else:
            facts = file.facts
            parts = text.read_utf8_blocks(stream, where, facts.encoding, facts.newline)
            rows = reader.rows(file, spec, parts)
        yield from with_partitions(file, rows)


def with_partitions(file: SourceFile, chunks: Iterator[RowChunk]) -> Iterator[RowChunk]:
    """Return the rows of a file with the columns that its folders name."""
    return _add_partitions(file, chunks) if file.facts.partitions else chunks


def read_text_blocks(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    """Yield the rows of a file of a text format from its UTF-8 blocks. Raises SourceError."""
    reader = READERS[file.facts.format]
    if not isinstance(reader, TextReader):
        raise TypeError(f"{file.facts.format} is not a text format")
    return reader.rows(file, spec, parts)


def file_root(file: SourceFile, spec: SourceSpec) -> RowRoot:
    """Return where the rows of a JSON file lie. Raises SourceError for what is no path."""
    where = str(file.place)
    if spec.orient is None:
        default = "$" if file.facts.layout == "object" else "[*]"
        return json_rows.compile_root(spec.root or default, where)
    root = spec.root or "$"
    if spec.orient == "index":  # which is an object keyed by row
        return json_rows.compile_root("*" if root == "$" else f"{root}.*", where)
    return replace(json_rows.compile_root(root, where), streams=False, orient=spec.orient)


def _read_json(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    where = str(file.place)
    if file.facts.layout == "values" and spec.root in (None, "[*]"):
        groups = json_rows.read_concatenated_values(parts, where)
        return map(json_rows.parse_elements, groups)
    root = file_root(file, spec)
    if root.streams:
        return json_rows.read_json_elements(parts, root, where)
    return read_json_document(parts, file_stem(file.name), root, where)


def _read_lines(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    if spec.root not in (None, "[*]"):
        problem = "root is for JSON files; this one has a value per line"
        raise SourceError(str(file.place), problem, "leave `root` out; `each` walks into a row")
    return json_rows.read_json_lines(parts)


def _read_csv(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    facts = file.facts
    dialect = Dialect(delimiter=facts.delimiter, quote=facts.quote)
    parts = text.skip_lines(parts, facts.preamble)
    return delimited_rows(parts, facts.columns, dialect, facts.header, facts.fewest)


def _read_tree(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    from ingot.converters.sources.interchange.yaml_toml import read_documents

    where, form = str(file.place), file.facts.format
    root = None if spec.root is None else json_rows.compile_root(spec.root, where)
    return read_documents(form, parts, root, where, file_stem(file.name))


def _read_text(file: SourceFile, spec: SourceSpec, parts: Blocks) -> Iterator[RowChunk]:
    if spec.root == "$":
        return text.read_text_document(parts, file_stem(file.name))
    return text.read_text_lines(parts)


# How files begin that may be of a format, or are.
_NOTHING = rb"(?!)"
_WORKBOOK = rb"PK\x03\x04|\xd0\xcf\x11\xe0"
_TAR = rb".{257}ustar"
_ARROW = rb"ARROW1|\xff{4}"
_ORC = rb"ORC.{0,12}[\x00-\x08\x0e-\x1f]"  # no text that begins like one
_FEW_ROWS = rb".{3}[\x00-\x08]"  # the number of an MDS shard, which no text can be
_MAP_OR_LIST = rb"[\x80-\x9f\xdc-\xdf]"
_HEADER = rb"\s*+(?![{\[\"<])[!-9;-~]{1,80}:"  # of mail, and no JSON or XML
_TAG = rb"[\s\0\xef\xbb\xbf\xfe\xff]*+<"  # after the mark of an encoding


def _defer(module: str, name: str) -> LateFunction:
    return LateFunction(f"ingot.converters.sources.{module}:{name}")


_add_partitions = _defer("tables.partitions", "add_partitions")


def _binary(module: str, detect: str, rows: str, begins: bytes) -> BinaryReader:
    return BinaryReader(_defer(module, detect), _defer(module, rows), begins)


def _columnar(
    name: str, begins: bytes, facts: str = "parquet_facts", rows: str = "read_parquet"
) -> BinaryReader:
    """A format whose files tell their columns, and which all files are of that begin so."""
    columns = _defer(_COLUMNAR, facts)
    return BinaryReader(
        lambda file, seen, _: detection.columnar_facts(name, file, seen, columns),
        _defer(_COLUMNAR, rows),
        begins,
        or_stated=False,
    )


def _archive(kind: str) -> Container:
    return Container(
        b"",
        lambda entry, *_: archive_members(entry, kind),
        detect=lambda _, seen: seen.archive == kind and not file_kinds.describe_magic(seen.head),
    )


def _tables(begins: bytes, module: str, members: str, rows: str) -> Container:
    return Container(begins, _defer(module, members), _defer(module, rows))


def _named(*endings: str) -> Callable[[TextHead], bool]:
    return lambda head: head.name.endswith(endings)


_COLUMNAR: Final = "formats.columnar_files"
_TREES: Final = "interchange.yaml_toml"
# Each gives its format to its tables.
TABLE_CONTAINERS: Final = {
    "duckdb": _tables(
        rb".{8}DUCK", "containers.duckdb_files", "duckdb_tables", "read_duckdb_table"
    ),
    "excel": replace(
        _tables(_WORKBOOK, "containers.workbooks", "workbook_tables", "read_sheet"),
        detect=_defer("containers.workbooks", "is_workbook"),
    ),
    "sqlite": _tables(
        b"SQLite format 3\0", "containers.sqlite_files", "sqlite_tables", "read_sqlite_table"
    ),
}
_ANY_TABLES: Final = b"|".join(container.begins for container in TABLE_CONTAINERS.values())
# In the order in which they are tried: a workbook is a zip file, too.
CONTAINERS: Final = {
    **TABLE_CONTAINERS,
    "zip": _archive("zip"),
    "tar": _archive("tar"),
}
# In the order in which they are tried; lines of text are what is left.
READERS: Final[dict[str, BinaryReader | TextReader | Container]] = {
    **TABLE_CONTAINERS,
    **dict.fromkeys(
        DOCUMENTS,
        _binary("documents.document_files", "document_facts", "read_document", _NOTHING),
    ),
    "parquet": _columnar("parquet", PARQUET),
    "lance": _columnar("lance", LANCE),
    "arrow": BinaryReader(detection.arrow_file_facts, _defer(_COLUMNAR, "read_arrow"), _ARROW),
    "avro": _binary("containers.avro", "avro_file_facts", "read_avro", rb"Obj\x01"),
    "feather": _columnar("feather", rb"FEA1\0{4}", "feather_facts", "read_other"),
    "mds": _binary("containers.mds", "mds_file_facts", "read_mds", _FEW_ROWS),
    "msgpack": _binary(
        "containers.msgpack_rows", "msgpack_file_facts", "read_msgpack", _MAP_OR_LIST
    ),
    "orc": _columnar("orc", _ORC, "orc_facts", "read_other"),
    "webdataset": _binary("containers.webdataset", "webdataset_facts", "read_webdataset", _TAR),
    "warc": _binary("interchange.web_archives", "warc_facts", "read_warc", b"WARC/"),
    "mbox": _binary("interchange.mail", "mbox_facts", "read_mbox", b"From "),
    "eml": _binary("interchange.mail", "eml_facts", "read_eml", _HEADER),
    "xml": _binary("interchange.xml_rows", "xml_facts", "read_xml", _TAG),
    "yaml": TextReader(_defer(_TREES, "yaml_facts"), _read_tree, _named(".yaml", ".yml")),
    "toml": TextReader(_defer(_TREES, "toml_facts"), _read_tree, _named(".toml")),
    "chat_tree": TextReader(
        _defer("interchange.chat_trees", "chat_tree_facts"),
        _defer("interchange.chat_trees", "read_chat_trees"),
        lambda head: b'"parent' in head.data,
    ),
    "jsonl": TextReader(detection.lines_facts, _read_lines),
    "json": TextReader(detection.json_facts, _read_json),
    "csv": TextReader(detection.table_facts, _read_csv),
    "text": TextReader(detection.text_facts, _read_text),
}


def find_container(entry: Entry, seen: FilePeek, spec: SourceSpec) -> Container | NoData | None:
    """Return the kind of container that a file is, None for any other. Raises SourceError."""
    if seen.archive is None and not _begins(_ANY_TABLES, seen):
        return None  # one look in place of one for each kind
    if _binary_facts("webdataset", entry, seen, spec):
        return None  # the parts of a shard are no files
    for name, container in CONTAINERS.items():
        detected = _begins(container.begins, seen) and container.detect(entry, seen)
        if isinstance(detected, NoData):
            return detected
        if detected and name in TABLE_CONTAINERS and spec.format not in (None, name):
            return NoData(f"its format is {name}, and {spec.format} is stated")
        if detected:
            return container
    return None


_compile_magic = cache(partial(re.compile, flags=re.DOTALL))


def _begins(pattern: bytes, seen: FilePeek) -> bool:
    return bool(_compile_magic(pattern).match(seen.head))


def _binary_facts(
    name: str, entry: Entry, seen: FilePeek, spec: SourceSpec
) -> FileFacts | NoData | None:
    """What a file is by the reader of a binary format; None if it is of another format."""
    reader = READERS[name]
    if not isinstance(reader, BinaryReader):
        return None
    is_asked = (reader.or_stated and spec.format == name) or _begins(reader.begins, seen)
    return reader.detect(entry, seen, spec) if is_asked else None


_COLUMNAR_NAME = re.compile(
    r"\.(parquet|arrow|avro|feather|mds|mpk|msgpack|orc)(\.\w{1,9})?$", re.IGNORECASE
)
_COMPRESSED_NAME = re.compile(r"\.(gz|gzip|zst|zstd|bz2|xz)$", re.IGNORECASE)


def sniff_file(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | NoData:
    """Return what a file is. `spec` states what is not to be guessed."""
    if not seen.head:
        return EMPTY
    if seen.head.startswith(file_kinds.LFS_MAGIC):
        return file_kinds.LFS_POINTER
    for name in READERS:
        if (facts := _binary_facts(name, entry, seen, spec)) is not None:
            return facts
    if inner := seen.archive or detect_compression(seen.head):
        return NoData.unread(f"a {inner} file inside another file", ": unpack it")
    if isinstance(READERS.get(spec.format or ""), BinaryReader | Container):
        raise SourceError(str(entry.place), f"not a {spec.format} file")
    if spec.format is None and (known := file_kinds.describe_magic(seen.head)):
        return known
    stated = detection.stated_encoding(entry, spec)
    encoding = stated or text.detect_encoding([seen.head, *seen.windows], seen.whole)
    if encoding is None:
        return _binary_verdict(entry, seen)
    return _text_facts(entry, seen, spec, encoding)


def _binary_verdict(entry: Entry, seen: FilePeek) -> NoData:
    for name, recognizer in RECOGNIZERS.items():
        if recognizer.binary and recognizer.recognize(seen.head) is not None:
            return NoData(recognizer.what, "elsewhere", name)
    if named := _COLUMNAR_NAME.search(entry.name):
        problem = f"damaged: it is named .{named[1]} and does not begin like such a file"
        raise SourceError(str(entry.place), problem, "fetch or copy it again")
    return file_kinds.describe_magic(seen.head) or file_kinds.BINARY


def _text_facts(
    entry: Entry, seen: FilePeek, spec: SourceSpec, encoding: Encoding
) -> FileFacts | NoData:
    newline = "\r" if b"\r" in seen.head and b"\n" not in seen.head else "\n"
    data = b"".join(
        text.read_utf8_blocks(io.BytesIO(seen.head), entry.name, encoding.name, newline)
    )
    if not data.strip():
        return file_kinds.blank_verdict(whole=seen.whole)
    for pattern, verdict in file_kinds.MARKUP if spec.format is None else ():
        if pattern.match(data.lstrip()):
            return verdict
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
    head = TextHead(
        name=name, data=data, lines=lines, whole=seen.whole, base=base, goes_on=seen.goes_on
    )
    facts = _format_facts(head, spec, str(entry.place))
    known = next(
        (recognizer.what for recognizer in RECOGNIZERS.values() if recognizer.recognize(data)), None
    )
    # Raw data of one kind belongs together, however many cells the lines of each file have.
    return replace(facts, shape=frozenset({known})) if known and not facts.header else facts


def _format_facts(head: TextHead, spec: SourceSpec, where: str) -> FileFacts:
    stated = spec.format or ("csv" if spec.delimiter or spec.columns else None)
    for name, reader in READERS.items():
        if name == "text" or stated not in (None, name) or not isinstance(reader, TextReader):
            continue
        if stated or reader.may_be(head):
            facts = reader.detect(head, spec, where)
            if facts is not None:
                return facts
    if stated in (None, "csv", "text"):
        return detection.text_facts(head)
    raise SourceError(where, f"not {stated}", "leave `format` out to have it found")
