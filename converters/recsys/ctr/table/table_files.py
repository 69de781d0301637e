"""The files of a plain table, and their columns a bounded number of rows at a time.

Parquet and Arrow keep their types. Cells of CSV are the bytes between the delimiters: blocks of
whole lines are parsed by Arrow, and what it refuses is read again line by line, which tells broken
lines from good ones. Both have one meaning, so where a block ends does not matter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.columnar.parquet import open_parquet
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.recsys.ctr.table.table_cells import Reject
from ingot.converters.sources import Source, SourceFile, SourceSpec, open_source
from ingot.converters.sources.formats import columnar_files
from ingot.converters.sources.formats.delimited import Dialect, TableReader, column_names
from ingot.converters.sources.formats.row_chunks import EXCERPT_CHARACTERS, MAX_ROW_BYTES, BrokenRow
from ingot.converters.sources.formats.text import read_utf8_blocks, skip_lines
from ingot.converters.sources.formats.text_columns import TextColumns
from ingot.converters.sources.readers import read_file
from ingot.converters.sources.recognizers.aliccp import ALICCP_HEAD, recognize_aliccp
from ingot.converters.sources.storage.archives import keep_archive_open
from ingot.converters.sources.storage.compression import open_decompressed

TABLES = ("csv", "parquet", "arrow")
_ROWS = 8192  # of a batch of a columnar file: lists of hundreds of tokens stay small
_OPEN = 8 << 20  # bytes after which a quoted cell counts as one that never ends


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A file of a table."""

    file: SourceFile
    columns: tuple[str, ...]
    header: bool


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Consecutive rows of a file."""

    rows: NDArray[np.int64]  # int64[n], the numbers in the file of the rows that could be read
    columns: pa.RecordBatch
    read: int
    rejects: tuple[Reject, ...] = ()

    @classmethod
    def of(cls, columns: pa.RecordBatch, first: int) -> "Piece":
        """Make a piece of rows that could all be read, numbered from `first`."""
        rows = np.arange(first, first + len(columns), dtype=np.int64)
        return cls(rows=rows, columns=columns, read=len(columns))

    def part(self, start: int, stop: int) -> "Piece":
        """Return the rows of numbers `start` to `stop` - 1."""
        first, last = np.searchsorted(self.rows, [start, stop])
        return Piece(
            rows=self.rows[first:last],
            columns=self.columns.slice(first, last - first),
            read=stop - start,
            rejects=tuple(one for one in self.rejects if start <= one.row < stop),
        )


def open_table(path: str) -> Source:
    """Open the files of a table: one file, or a folder, a glob or an archive, in sorted order."""
    source = open_source(path)
    if source.files and source.files[0].facts.format in ("csv", "text"):
        _refuse_other_files(path, source.files[0])
    if [file.facts.format for file in source.files] == ["text"]:
        source = source.with_spec(SourceSpec(format="csv"))
    if not source.files or source.files[0].facts.format not in TABLES:
        kind = source.files[0].facts.format if source.files else "nothing that can be read"
        raise SourceError(path, f"no table: {kind}", "a table is CSV, TSV, Parquet or Arrow")
    other = [one.name for one in source.left_out if one.form in TABLES]
    if other:
        problem = f"tables of several kinds, such as {source.files[0].name} and {other[0]}"
        raise SourceError(path, problem, "name the files of one table with a glob")
    return source


def _refuse_other_files(path: str, file: SourceFile) -> None:
    location = str(file.place)
    with keep_archive_open(), file.place.open() as raw, translate_read_errors(location):
        kind = recognize_aliccp(open_decompressed(raw, location).read(ALICCP_HEAD))
    if kind is not None:
        hint = "give it as `skeleton` or `common`, with the featuremap aliccp"
        raise SourceError(path, f"not a plain table: it is a raw file of Ali-CCP ({kind})", hint)


def with_columns(file: SourceFile, names: Sequence[str]) -> TableFile:
    """Return the file with its column names, as the wanted names suggest.

    Whether the first line of a CSV holds names is a guess of the readers. The wanted names decide:
    if they are in the first line, it is a header; if they are `c0`, `c1`, ..., which no header
    holds, there is no header. A wanted column may be missing.
    """
    facts = file.facts
    guessed = TableFile(file=file, columns=facts.columns, header=facts.header)
    if facts.format != "csv" or set(names) <= set(facts.columns):
        return guessed
    if facts.header:
        numbered = tuple(f"c{number}" for number in range(len(facts.columns)))
        names_numbers = set(names) <= set(numbered) and bool(names)
        return TableFile(file=file, columns=numbered, header=False) if names_numbers else guessed
    first = column_names(_first_record(file))
    if len(first) == len(facts.columns) and set(names) <= set(first):
        return TableFile(file=file, columns=first, header=True)
    return guessed


def _first_record(file: SourceFile) -> list[str]:
    with keep_archive_open():
        for rows in read_file(file, SourceSpec()):
            for row in rows.values:
                return list(row.values()) if isinstance(row, dict) else []
    return []


def read_pieces(table: TableFile, names: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of a file in order."""
    with keep_archive_open():
        if table.file.facts.format == "csv":
            yield from _read_delimited(table, names)
            return
        first = 0
        for batch in _columnar_batches(table, names):
            yield Piece.of(pa.RecordBatch.from_arrays(batch.columns, names=list(names)), first)
            first += len(batch)


def _columnar_batches(table: TableFile, selected: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a columnar file; of names that stand twice the place counts."""
    path = str(table.file.place)
    indices = [table.columns.index(name) for name in selected]
    with table.file.place.open() as raw:
        stream = open_decompressed(raw, path)
        if table.file.facts.format == "parquet":
            with open_parquet(stream, path) as file:
                names = file.schema.names
                unique = len(set(names)) == len(names)
                chosen = [names[index] for index in indices] if unique else None
                for batch, _ in file.batches(_ROWS, columns=chosen):
                    yield batch.select(chosen or indices)
        else:
            with columnar_files.open_arrow(stream, path) as (_, batches):
                for batch, _ in batches:
                    for start in range(0, len(batch), _ROWS):
                        yield batch.slice(start, _ROWS).select(indices)


def _read_delimited(table: TableFile, names: Sequence[str]) -> Iterator[Piece]:
    facts, path = table.file.facts, str(table.file.place)
    reader = _CsvReader(table, Dialect(delimiter=facts.delimiter, quote=facts.quote), names)
    first = -1 if table.header else 0  # the header is the record before row 0
    with table.file.place.open() as raw:
        stream = open_decompressed(raw, path)
        parts = read_utf8_blocks(stream, path, facts.encoding, facts.newline)
        parts = skip_lines(parts, facts.preamble)
        for piece in reader.read(_line_blocks(parts, path), first):
            start, first = first, first + piece.read
            if first >= 0:
                yield piece.part(0, first) if start < 0 else piece


def _line_blocks(parts: Iterator[bytes], path: str) -> Iterator[bytes]:
    buffer = b""
    for part in parts:
        buffer += part
        cut = buffer.rfind(b"\n") + 1
        if not cut and len(buffer) > MAX_ROW_BYTES:
            problem = f"a line of more than {MAX_ROW_BYTES >> 20} MiB"
            raise SourceError(path, problem, "is it a table?")
        if cut:
            yield buffer[:cut]
            buffer = buffer[cut:]
    if buffer:
        yield buffer


class _CsvReader:
    """Blocks of lines of a CSV to rows: by Arrow, or where that may be wrong with more care."""

    def __init__(self, table: TableFile, dialect: Dialect, names: Sequence[str]) -> None:
        self._table, self._dialect, self._wanted = table, dialect, list(names)
        self._quote = dialect.quote.encode()
        indices = [table.columns.index(name) for name in names]
        width = len(table.columns)
        self._columns = TextColumns(
            width, dialect.delimiter, dialect.quote, indices, pa.large_binary()
        )

    def read(self, blocks: Iterator[bytes], first: int) -> Iterator[Piece]:
        """Yield the rows of blocks; a block that ends inside a quoted cell is read on."""
        buffer = b""
        for block in blocks:
            buffer += block
            enough = len(buffer) > _OPEN
            if self._quote and buffer.count(self._quote) % 2 and not enough:
                continue
            piece = self._quickly(buffer, first) or self._carefully(buffer, first, last=enough)
            if piece is not None:
                yield piece
                first, buffer = first + piece.read, b""
        if buffer and (
            piece := self._quickly(buffer, first) or self._carefully(buffer, first, last=True)
        ):
            yield piece

    def _quickly(self, block: bytes, first: int) -> Piece | None:
        """The rows of a block by Arrow, the first of which has that number."""
        arrays = self._columns.parse(block)
        if arrays is None:
            return None
        return Piece.of(pa.RecordBatch.from_arrays(arrays, names=self._wanted), first)

    def _carefully(self, block: bytes, first: int, *, last: bool) -> Piece | None:
        """The rows of a block by the readers' own rules, which tell broken lines from good ones.

        None where it ends in a cell that may go on, unless it is `last`.
        """
        reader = TableReader(self._table.columns, self._dialect, len(self._table.columns))
        rows = reader.rows(block.decode("utf-8", "surrogateescape").removesuffix("\n"))
        rest = reader.finish()
        if rest and not last:
            return None
        good, rejects = [], []
        for index, row in enumerate(rows + rest):
            if type(row) is BrokenRow:
                cause = f"{row.detail}: {row.found}"[:EXCERPT_CHARACTERS]
                name, number = self._table.file.name, first + index
                rejects.append(Reject(file=name, row=number, reason="columns", found=cause))
            else:
                good.append((index, row))
        columns = []
        for name in self._wanted:
            cells = [row[name].encode("utf-8", "surrogateescape") for _, row in good]
            columns.append(pa.array(cells, pa.large_binary()))
        return Piece(
            rows=np.array([index for index, _ in good], dtype=np.int64) + first,
            columns=pa.RecordBatch.from_arrays(columns, names=self._wanted),
            read=len(rows) + len(rest),
            rejects=tuple(rejects),
        )
