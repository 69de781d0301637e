"""The rows of a unit, batch by batch: text columns of any Parquet file, or unified records.

Only the columns that are needed are decoded, in batches bounded by the bytes of their texts. What
cannot be read is a `SourceError` that names the file; the file counts as failed then.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.megatron.units import InputFile, Unit
from ingot.converters.records import kind_of_schema, read_batches
from ingot.converters.rows import Json

BATCH_BYTES: Final = 4 << 20  # of decoded text
DICTIONARY_ROWS: Final = 1_024  # where equal texts are stored once, sizes say nothing
TEXT_COLUMNS: Final = ("text", "content", "doc")
_WAITING: Final = 4  # decoded batches per row group that is read ahead
_LOOK_SECONDS: Final = 0.1

InputKind = Literal["raw", "pt", "sft"]
TextType: TypeAlias = pa.DataType


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """What is read out of every file.

    Attributes:
        kind: texts of raw columns, or unified records.
        columns: names of the columns.
    """

    kind: InputKind
    columns: tuple[str, ...]

    def to_document(self) -> dict[str, Json]:
        """As JSON."""
        return {"kind": self.kind, "columns": list(self.columns)}

    @staticmethod
    def from_document(document: dict[str, Json]) -> "Layout":
        """The layout of such a document."""
        return Layout(kind=document["kind"], columns=tuple(document["columns"]))


_RECORDS: Final[dict[str, Layout]] = {
    "pt": Layout(kind="pt", columns=("text",)),
    "sft": Layout(kind="sft", columns=("messages", "system", "tools")),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Consecutive rows of a file.

    Attributes:
        first: number of the first, from 0.
        table: their columns, as the layout names them.
        row_group: where they lie, None where the file has none.
        read: bytes of the file that they stand for.
    """

    first: int
    table: pa.RecordBatch
    row_group: int | None
    read: int


def find_layout(files: Sequence[InputFile], text_cols: tuple[str, ...] | None) -> Layout:
    """What to read: unified records where the first file that opens holds such, else its columns.

    Raises:
        SourceError: no file can be opened, or the first that can has no such columns.
    """
    first: SourceError | None = None
    for file in files:
        try:
            found = _layout(file, text_cols)
        except _UnopenedError as error:
            first = first or SourceError(*error.args)
        else:
            return found
    raise first or SourceError("", "no file to read")


class _UnopenedError(SourceError):
    """A file that cannot be opened at all: another one may tell the layout."""


def _layout(file: InputFile, text_cols: tuple[str, ...] | None) -> Layout:
    if file.path.suffix == ".jsonl":
        return _records(_jsonl_kind(file), text_cols, file)
    try:
        with _readable(file), pq.ParquetFile(file.path) as parquet:
            schema = parquet.schema_arrow
    except SourceError as error:
        raise _UnopenedError(*error.args) from error
    kind = kind_of_schema(schema)
    if kind is not None:
        return _records(kind, text_cols, file)
    columns = text_cols or _likely(schema, file)
    _check_columns(schema, columns, file)
    return Layout(kind="raw", columns=columns)


def _records(kind: InputKind, text_cols: tuple[str, ...] | None, file: InputFile) -> Layout:
    if text_cols and (kind, text_cols) != ("pt", ("text",)):
        raise SourceError(
            str(file.path), "holds unified records, whose text is known", "leave --text-cols out"
        )
    return _RECORDS[kind]


def _jsonl_kind(file: InputFile) -> InputKind:
    try:
        batch = next(read_batches([file.path], rows=1), None)
    except ConversionError as error:
        raise _UnopenedError(error.where, error.problem, error.hint) from error
    if batch is None:
        raise _UnopenedError(str(file.path), "holds no record")
    return "sft" if "messages" in batch.schema.names else "pt"


def _likely(schema: pa.Schema, file: InputFile) -> tuple[str, ...]:
    lowered = {name.lower(): name for name in reversed(schema.names)}
    for wanted in TEXT_COLUMNS:
        if wanted in schema.names or wanted in lowered:
            return (wanted if wanted in schema.names else lowered[wanted],)
    names = ", ".join(repr(name) for name in schema.names[:20])
    problem = f"has no column {', '.join(TEXT_COLUMNS[:-1])} or {TEXT_COLUMNS[-1]} (it has {names})"
    raise SourceError(str(file.path), problem, "name the text columns: --text-cols")


def _check_columns(schema: pa.Schema, columns: Sequence[str], file: InputFile) -> None:
    for name in columns:
        found = schema.get_all_field_indices(name)
        if len(found) != 1:
            has = ", ".join(repr(one) for one in schema.names[:20])
            problem = f"has {len(found) or 'no'} columns {name!r}" if found else ""
            problem = problem or f"has no column {name!r} (it has {has})"
            raise SourceError(str(file.path), problem, "see --text-cols")
        kind = schema.field(found[0]).type
        if not _is_text(kind):
            raise SourceError(
                str(file.path), f"column {name!r} is {kind}, not text", "see --text-cols"
            )


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    checks: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_null,
    )
    return any(check(kind) for check in checks)


@contextmanager
def _readable(file: InputFile) -> Iterator[None]:
    """Translate what the readers say about a file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split())[:300]
        raise SourceError(
            str(file.path), f"cannot be read as Parquet: {said}", "mend it or take it out"
        ) from error
    except ConversionError as error:
        raise SourceError(error.where, error.problem, error.hint) from error


def read_rows(
    file: InputFile, unit: Unit, layout: Layout, *, batch_size: int, ahead: int = 1
) -> Iterator[Rows]:
    """The rows of a unit, in order.

    Args:
        file: the file.
        unit: which part of it.
        layout: what to read.
        batch_size: rows per batch, at most.
        ahead: row groups that are decoded at once.

    Raises:
        SourceError: it cannot be read to its end, or has changed since it was listed.
    """
    _check_same(file)
    if file.path.suffix == ".jsonl":
        yield from _jsonl_rows(file, layout, batch_size)
        return
    with _readable(file):
        with pq.ParquetFile(file.path) as parquet:
            _check_fits(parquet.schema_arrow, layout, file)
            metadata = parquet.metadata
        groups = range(*(unit.row_groups or (0, metadata.num_row_groups)))
        jobs = [_Group(file, metadata, layout, group, batch_size) for group in groups]
        first, share = unit.first_row, unit.bytes / max(1, sum(job.rows for job in jobs))
        for group, batch in _in_turn(jobs, ahead):
            yield Rows(
                first=first, table=batch, row_group=group, read=round(share * batch.num_rows)
            )
            first += batch.num_rows


def _check_same(file: InputFile) -> None:
    with _readable(file):
        facts = file.path.stat()
    if (facts.st_size, facts.st_mtime_ns) != (file.bytes, file.mtime_ns):
        raise SourceError(str(file.path), "changed while it was to be read", "start again")


def _check_fits(schema: pa.Schema, layout: Layout, file: InputFile) -> None:
    kind = kind_of_schema(schema) or "raw"
    if kind != layout.kind:
        names = {"raw": "no unified records", "pt": "PT records", "sft": "SFT records"}
        raise SourceError(
            str(file.path),
            f"holds {names[kind]}, the first file {names[layout.kind]}",
            "build one data set of each kind",
        )
    if kind == "raw":
        _check_columns(schema, layout.columns, file)


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group that is to be decoded."""

    file: InputFile
    metadata: pq.FileMetaData
    layout: Layout
    group: int
    batch_size: int

    @property
    def rows(self) -> int:
        count: int = self.metadata.row_group(self.group).num_rows
        return count

    def batches(self) -> Iterator[pa.RecordBatch]:
        with (
            _readable(self.file),
            pq.ParquetFile(self.file.path, metadata=self.metadata, pre_buffer=False) as parquet,
        ):
            yield from parquet.iter_batches(
                batch_size=self._batch_rows(),
                row_groups=[self.group],
                columns=list(self.layout.columns),
                use_threads=False,
            )

    def _batch_rows(self) -> int:
        """Rows whose texts take about `BATCH_BYTES`, going by the size of the columns."""
        facts = self.metadata.row_group(self.group)
        chunks = [facts.column(i) for i in range(facts.num_columns)]
        own = [c for c in chunks if c.path_in_schema.split(".")[0] in self.layout.columns] or chunks
        size = sum(chunk.total_uncompressed_size for chunk in own)
        rows = max(1, BATCH_BYTES * max(1, facts.num_rows) // max(1, size))
        if any("DICTIONARY" in coding for chunk in own for coding in chunk.encodings):
            rows = min(rows, DICTIONARY_ROWS)
        return int(min(rows, self.batch_size))


def _in_turn(jobs: list[_Group], ahead: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of all row groups in order, with up to `ahead` of them decoded at once."""
    if ahead <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield from ((job.group, batch) for batch in job.batches())
        return
    stop = threading.Event()
    running: list[_Decoding] = []
    with ThreadPoolExecutor(ahead) as pool:
        try:
            for place, job in enumerate(jobs):
                while len(running) < min(ahead, len(jobs) - place):
                    running.append(_Decoding(jobs[place + len(running)], stop, pool))
                yield from ((job.group, batch) for batch in running.pop(0).batches())
        finally:
            stop.set()


class _Decoding:
    """A row group that a thread of its own decodes, a few batches ahead."""

    def __init__(self, job: _Group, stop: threading.Event, pool: ThreadPoolExecutor) -> None:
        self._stop = stop
        self._queue: queue.Queue[pa.RecordBatch | None] = queue.Queue(_WAITING)
        self._done = pool.submit(self._decode, job)

    def _decode(self, job: _Group) -> None:
        try:
            for batch in job.batches():
                self._put(batch)
                if self._stop.is_set():
                    return
        finally:
            self._put(None)

    def _put(self, item: pa.RecordBatch | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches as they come."""
        while (item := self._queue.get()) is not None:
            yield item
        self._done.result()


def _jsonl_rows(file: InputFile, layout: Layout, batch_size: int) -> Iterator[Rows]:
    first = 0
    with _readable(file):
        for batch in read_batches([file.path], rows=min(batch_size, DICTIONARY_ROWS)):
            if not set(layout.columns) <= set(batch.schema.names):
                raise SourceError(
                    str(file.path),
                    "holds records of another kind than the first file",
                    "build one data set of each kind",
                )
            table = batch.select(list(layout.columns))
            yield Rows(first=first, table=table, row_group=None, read=0)
            first += batch.num_rows
    yield Rows(first=first, table=pa.RecordBatch.from_pydict({}), row_group=None, read=file.bytes)
