"""What is known about one file of a source: format, layout, encoding and dialect."""

from dataclasses import dataclass, field
from typing import BinaryIO

from ingot.converters.readers.storage import Entry, Place

FORMATS = ("jsonl", "json", "csv", "parquet", "arrow", "text")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFacts:
    """How a file is read.

    Attributes:
        format: one of FORMATS.
        layout: of `json`: `list`, `object` (one value of any kind) or `values` (several in a row).
        encoding: Python codec name of text formats.
        newline: LF (also for CR LF) or CR.
        compression: `gz`, `zst`, `bz2`, `xz` or None.
        delimiter, quote: of `csv`; `""` = no quoting.
        columns: names of the columns of `csv`, Parquet and Arrow.
        header: whether the first record of `csv` holds the names.
        fewest: least number of cells of a `csv` row that only lacks its last ones.
        multiline: whether quoted `csv` cells with line breaks were seen.
        one_line: whether the file is one `json` object on one line, which `jsonl` could be too.
        rows: number of rows where the file says it, else None.
        shape: keys or columns seen at the head: files of one shape are read together.
        guessed: names of the facts that are guesses.
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
    one_line: bool = False
    rows: int | None = None
    shape: frozenset[str] = field(default=frozenset())
    guessed: frozenset[str] = field(default=frozenset())


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """A file that is read, with its identity on storage and what was found out about it.

    Attributes:
        name: relative to the source, with `/`.
        bytes: size on storage (of an archive's member: its own size).
        mtime_ns: time of the last change, None where unknown.
        etag: the storage's mark of the content, None where it has none.
        place: how it is opened.
        facts: how it is read.
    """

    name: str
    bytes: int
    mtime_ns: int | None
    etag: str | None
    place: Place
    facts: FileFacts

    @classmethod
    def of(cls, entry: Entry, facts: FileFacts) -> "SourceFile":
        """An entry with its facts."""
        return cls(
            name=entry.name,
            bytes=entry.bytes,
            mtime_ns=entry.mtime_ns,
            etag=entry.etag,
            place=entry.place,
            facts=facts,
        )

    def open_raw(self) -> BinaryIO:
        """The bytes as they lie on storage, from the start. Raises SourceError."""
        return self.place.open()


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """A file that is not read, and why."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RootCandidate:
    """Where rows may lie in a JSON file: `path` is a `root`, `rows` None where unknown."""

    path: str
    rows: int | None
    why: str
