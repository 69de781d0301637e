"""The files of a source: facts that a mapping states or a reader finds, stamps and hashes."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal, Unpack

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.json_yaml import UNSTORED, decode, encode
from ingot.converters.output.files import InputEntry, InputLabels, InputStamp
from ingot.converters.rows import MappingDocument
from ingot.converters.sources.storage.archives import TableMember
from ingot.converters.sources.storage.places import Entry, LocalFile, storage_places


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSpec:
    """What a mapping or a user states about the files; None = let the reader find out.

    The keys and their meaning are those of section 5 of the language (docs/mapping.md).
    """

    files: tuple[str, ...] | None = None
    format: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    quote: str | None = None
    columns: tuple[str, ...] | None = None
    header_rows: tuple[int, ...] | None = None
    query: str | None = None
    root: str | None = None
    orient: str | None = None
    html: str | None = None
    json_fields: tuple[str, ...] | None = None

    @classmethod
    def from_document(cls, document: MappingDocument | None) -> "SourceSpec":
        """Build from a (schema-valid) `source` block."""
        return decode(cls, document or {})

    def with_facts(self, stated: "SourceSpec") -> "SourceSpec":
        """Return these facts with those that another one states in their place."""
        return SourceSpec.from_document(self.to_document() | stated.to_document())

    def to_document(self) -> MappingDocument:
        """Return the `source` block of a mapping: stated keys only, in the order of this class."""
        return {key: value for key, value in encode(self).items() if value is not None}


FORMATS = (
    *(
        "chat_tree",
        "jsonl",
        "json",
        "csv",
        "parquet",
        "lance",
        "arrow",
        "text",
        "document",
        "chapters",
    ),
    *("avro", "feather", "mds", "msgpack", "orc", "webdataset"),
    *("xml", "yaml", "toml", "warc", "mbox", "eml"),
    *("duckdb", "excel", "sqlite"),
)
MAIN_TEXT, RAW_PAGE = WEB_PAGES = ("main", "raw")  # what of one is the text of its document
MOST_HEADER_ROW = 200  # of a sheet or a file; more rows are not looked at
ORIENTS = ("split", "list", "index", "columns")  # of a table in JSON, with the names of pandas


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFacts:
    """How a file is read.

    Attributes:
        layout: of `json`: `list`, `object` (one value of any kind) or `values` (several in a row);
            of `chat_tree` one of the first two; of `document` its kind; of a `text` that is one
            mapping of `yaml` or `toml` that format.
        compression: `gz`, `zst`, `bz2`, `xz` or None.
        delimiter, quote: of `csv`; `""` = no quoting.
        columns: names of the columns of `csv`, Parquet and Arrow.
        header: whether the first record of `csv` holds the names.
        fewest: least number of cells of a `csv` row that only lacks its last ones.
        preamble: lines of `csv`, rows of a sheet above the header: comments, a title.
        header_rows: the lines or rows that hold the names, from 1, where it is not just the first.
        unclear: what may be wrong with the header.
        multiline: whether quoted `csv` cells with line breaks were seen.
        one_line: whether the file is one `json` object on one line, which `jsonl` could be too.
        rows: number of rows where the file says it, else None.
        partitions: columns that the names of its folders hold, each with the value of all rows.
        forms: of `xml` the paths of elements that are lists (`/a/b[]`) or objects (`/a/b{}`);
            of a `text` that is one mapping its keys.
        shape: keys or columns seen at the head: files of one shape are read together.
    """

    format: str
    layout: str = "list"
    encoding: str = "utf-8"
    newline: str = "\n"
    compression: str | None = None
    delimiter: str = ","
    quote: str = '"'
    columns: tuple[str, ...] = ()
    header: bool = True
    fewest: int = 1
    multiline: bool = False
    preamble: int = 0
    header_rows: tuple[int, ...] = ()
    unclear: str = ""
    one_line: bool = False
    rows: int | None = None
    partitions: tuple[tuple[str, str | int | None], ...] = ()
    forms: frozenset[str] = field(default=frozenset())
    shape: frozenset[str] = field(default=frozenset())
    guessed: frozenset[str] = field(default=frozenset())


# What a file is that is not read: `note` (README, licences), `aside` (scripts, settings), `prose`
# (a document by its name), `elsewhere` (another command of ingot reads it), `unread` (its format is
# not read), `shape` (data of another shape than what is read), ...
LeftKind = Literal[
    "note", "aside", "prose", "media", "hidden", "unread", "empty", "unfetched", "binary", "shape",
    "table", "unselected", "elsewhere", "other",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class NoData:
    """The verdict on a file that holds no rows: why, what it is, and its format if it has one.

    Attributes:
        form: the format: one that is read, that another command reads, or that has advice.
        reason: the part of `why` that it shares with other files, "" for all of it.
        form_text: the format as people read it, "" as `why` says it.
    """

    why: str
    kind: LeftKind = "other"
    form: str = ""
    reason: str = ""
    form_text: str = ""

    @classmethod
    def unread(cls, form_text: str, advice: str = "", form: str = "") -> "NoData":
        """Return a file of a format that is not read, and what to do with it."""
        reason = f"{form_text}, which is not read"
        return cls(reason + advice, "unread", form, reason, form_text)


NOT_SELECTED: Final = NoData("not in source.files", "unselected")
EMPTY: Final = NoData("empty", "empty")


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePiece:
    """Whole lines of a file: `size` bytes from `start`, which begin with row `row` of the file."""

    start: int
    size: int
    row: int


_ENTRY_FIELDS: Final = tuple(entry_field.name for entry_field in fields(Entry))


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile(Entry):
    """A file that is read: an `Entry` with the facts about how it is read.

    With a `piece` only that is read; all else is said of the whole file.
    """

    facts: FileFacts
    piece: FilePiece | None = None

    @classmethod
    def of(cls, entry: Entry, facts: FileFacts) -> "SourceFile":
        """Return an entry with its facts."""
        known = {name: getattr(entry, name) for name in _ENTRY_FIELDS}
        return cls(**known, facts=facts)

    def open_raw(self) -> BinaryIO:
        """Return the bytes as they lie on storage, from the start. Raises SourceError."""
        return self.place.open()


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """A file that is not read, and why; `bytes` is its size as stored, 0 where unknown.

    `kind`, `form`, `reason` and `form_text` are those of its `NoData`.
    """

    name: str
    why: str
    bytes: Annotated[int, UNSTORED] = field(default=0, compare=False)
    kind: Annotated[LeftKind, UNSTORED] = field(default="other", compare=False)
    form: Annotated[str, UNSTORED] = field(default="", compare=False)
    reason: Annotated[str, UNSTORED] = field(default="", compare=False)
    form_text: Annotated[str, UNSTORED] = field(default="", compare=False)

    @property
    def is_unread(self) -> bool:
        """Return whether it may hold data in a format that is not read.

        Images and sounds do not count.
        """
        return self.kind in ("unread", "table")

    @classmethod
    def of(cls, entry: Entry, verdict: NoData) -> "LeftOut":
        """Return an entry that is not read."""
        return cls(name=entry.name, bytes=entry.bytes, **asdict(verdict))


@dataclass(frozen=True, kw_only=True, slots=True)
class RootCandidate:
    """Where rows may lie in a JSON or XML file: `path` is a `root`, `rows` None where unknown.

    `orient` is set where the file is a table in this orient, and can be read in no other one.
    """

    path: str
    rows: int | None
    why: str
    orient: str | None = None

    @property
    def facts(self) -> MappingDocument:
        """Return the facts of `source` that read these rows."""
        place: MappingDocument = {} if self.orient and self.path == "$" else {"root": self.path}
        return {**place, "orient": self.orient} if self.orient else place


_BLOCK: Final = 1 << 20


def absolute_location(location: str) -> str:
    """Return where a location lies, the same from whatever folder it is named; a URL as it is."""
    return location if "://" in location else str(Path(location).absolute())


def input_stamp(file: Entry, **labels: Unpack[InputLabels]) -> InputStamp:
    """Return what tells a file from a changed one without reading it, after the `labels`."""
    return {
        **labels,
        "name": file.name,
        "bytes": file.bytes,
        "mtime_ns": file.mtime_ns,
        "etag": file.etag,
    }


def input_entry(
    file: Entry, sha256: str | None = None, **labels: Unpack[InputLabels]
) -> InputEntry:
    """Return name, size and SHA-256 as manifests list an input; the file is read if not given."""
    digest = sha256 or _hash_once(file)
    return {**labels, "name": file.name, "bytes": file.bytes, "sha256": digest}


def _hash_once(file: Entry) -> str:
    """Return the SHA-256 of a file; that of a container once for the tables read in a row."""
    take_digest = getattr(file.place, "take_digest", None)  # of rows that a server gave
    if take_digest is not None and (digest := take_digest()) is not None:
        return str(digest)
    if not isinstance(file.place, TableMember) or not file.tells_changes:
        return hash_input(file)
    archive = file.place.archive
    return _hash_container(
        Entry(
            name=str(archive),
            place=archive,
            bytes=file.bytes,
            mtime_ns=file.mtime_ns,
            etag=file.etag,
        )
    )


@lru_cache(maxsize=8)
def _hash_container(container: Entry) -> str:
    return hash_input(container)


def stored_bytes(files: Iterable[Entry]) -> int:
    """Return the bytes of files as stored, those of a container of tables once."""
    places = {
        file.place.archive if isinstance(file.place, TableMember) else file.place: file.bytes
        for file in files
    }
    return sum(places.values())


@contextmanager
def unchanged_files(files: Iterable[Entry]) -> Iterator[None]:
    """Check that local files stay what they were listed as, until the block ends.

    A file that is rewritten in place with its former size and time has another time of change of
    its inode. One that is gone was read whole, or its reader says so; remote files are watched by
    their readers. Raises SourceError, also in place of what is wrong with the content.
    """
    before: dict[str, tuple[str, tuple[int, ...] | None]] = {}
    for file in files:
        for place in storage_places(file.place):
            if isinstance(place, LocalFile) and place.path not in before:
                before[place.path] = file.name, (facts := _file_state(place.path))
                whole = place is file.place or getattr(file.place, "places", ()) == (place,)
                if whole and facts and facts[:2] != (file.bytes, file.mtime_ns):
                    raise _changed_error(file.name)
    try:
        yield
    except SourceError:
        _check_same_files(before)
        raise
    _check_same_files(before)


def _check_same_files(before: dict[str, tuple[str, tuple[int, ...] | None]]) -> None:
    for path, (name, facts) in before.items():
        if None not in (facts, now := _file_state(path)) and now != facts:
            raise _changed_error(name)


def _file_state(path: str) -> tuple[int, ...] | None:
    """Return what tells a file from another one or from another state of it; None if it is gone."""
    try:
        facts = os.stat(path)  # noqa: PTH116 - a Path takes longer than the look
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino


def _changed_error(name: str) -> SourceError:
    return SourceError(name, "changed while it was read", "run again when nothing writes to it")


def hash_input(file: Entry, stopped: Callable[[], bool] = lambda: False) -> str:
    """Return the SHA-256 of a file as stored, streamed."""
    digest, size = hashlib.sha256(), 0
    for place in getattr(file.place, "places", (file.place,)):  # of a table a row may be in several
        with place.open() as stream, translate_read_errors(str(place)):
            while not stopped() and (block := stream.read(_BLOCK)):
                digest.update(block)
                size += len(block)
    if file.bytes and size != file.bytes and not stopped():
        raise _changed_error(file.name)
    return digest.hexdigest()
