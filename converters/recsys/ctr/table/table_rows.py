"""A plain table as rows with raw tokens: what a featuremap with `table` builds from.

A row whose click or conversion is not 0 or 1, whose entity is missing, or whose line has another
number of cells is a reject; so `rows` counts it, and the rows behind it keep their numbers.
"""

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from ingot.converters.columnar.batch_checks import text_mask
from ingot.converters.errors import FeaturemapError, Problem
from ingot.converters.recsys.ctr.featuremap import FeatureMap, Table
from ingot.converters.recsys.ctr.table import table_cells as cells
from ingot.converters.recsys.ctr.table.table_cells import RawBlock, RawTokens, Reject
from ingot.converters.recsys.ctr.table.table_files import (
    Piece,
    TableFile,
    open_table,
    read_pieces,
    with_columns,
)
from ingot.converters.sources.formats.row_chunks import EXCERPT_CHARACTERS, row_excerpt

BATCH_ROWS: Final = 65536
_BATCH_BYTES = 64 << 20  # of tokens: a block of long lists has fewer rows


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What a featuremap wants of a table."""

    table: Table
    missing: tuple[bytes, ...]
    fields: tuple[tuple[str, cells.CellFormat], ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        table = self.table
        names = [table.entity_id, table.y_ctr, table.y_cvr, table.sample_id]
        names += [column for column, _ in self.fields]
        return tuple(dict.fromkeys(one for one in names if one is not None))


def read_table(
    path: str, featuremap: FeatureMap, files: Sequence[TableFile] = (), first: int = 0
) -> Iterator[RawBlock]:
    """Yield the rows of a plain table in order; batching changes nothing else.

    Args:
        path: where it is.
        featuremap: what is wanted of it.
        files: those of its files that are read, all by default.
        first: number of the first row.
    """
    files = files or open_table_files(path, featuremap)
    return _raw_blocks(files, _make_plan(path, featuremap), first)


def open_table_files(path: str, featuremap: FeatureMap) -> list[TableFile]:
    """Return the files of a plain table, each with the columns that a featuremap names."""
    plan = _make_plan(path, featuremap)
    source = open_table(path)
    files = [with_columns(file, plan.columns) for file in source.files]
    for table in files:
        location = path if len(files) == 1 else f"{path}: {table.file.name}"
        if problems := tuple(_unknown_columns(featuremap, table.columns)):
            raise FeaturemapError(location, problems)
    return files


def _make_plan(path: str, featuremap: FeatureMap) -> _Plan:
    table = featuremap.table
    if table is None:
        expected = "entity_id, y_ctr and y_cvr, the columns of a plain table"
        raise FeaturemapError(path, (Problem("/table", "missing", expected, "nothing"),))
    missing = tuple(text.encode() for text in table.missing)
    sources = featuremap.sources
    fields = tuple(_field_format(featuremap, table, one, missing) for one in sources)
    return _Plan(table=table, missing=missing, fields=fields)


def _field_format(
    featuremap: FeatureMap, table: Table, source: tuple[int, str], missing: tuple[bytes, ...]
) -> tuple[str, cells.CellFormat]:
    """The column of a source, read as the features want it that share it."""
    sharing = [one for one in featuremap.features if one.source == source]
    reading = cells.CellFormat(
        many=any(one.is_multi_hot for one in sharing),
        valued=any(one.use_value for one in sharing),
        token_separator=(sharing[0].token_separator or table.token_separator).encode(),
        value_separator=(sharing[0].value_separator or table.value_separator).encode(),
        missing=missing,
    )
    return sharing[0].column or sharing[0].field, reading


def _unknown_columns(featuremap: FeatureMap, columns: Sequence[str]) -> Iterator[Problem]:
    roles = ("entity_id", "y_ctr", "y_cvr", "sample_id")
    references = [(f"/table/{key}", getattr(featuremap.table, key)) for key in roles]
    for index, one in enumerate(featuremap.features):
        key = "column" if one.column else "field"
        references.append((f"/features/{index}/{key}", one.column or one.field))
    for pointer, name in references:
        if name is not None and name not in columns:
            nearest = difflib.get_close_matches(name, columns, n=1, cutoff=0.4)
            listed = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
            expected = f"a column of the table ({listed})"
            yield Problem(pointer, "unknown_column", expected, name, *nearest)


def _raw_blocks(files: Sequence[TableFile], plan: _Plan, first: int) -> Iterator[RawBlock]:
    pending, rows, size = list[RawBlock](), 0, 0
    for piece, block in _small_blocks(files, plan, first):
        if pending and (rows + piece.read > BATCH_ROWS or size > _BATCH_BYTES):
            yield _join_blocks(pending)
            pending, rows, size = [], 0, 0
        pending.append(block)
        rows += piece.read
        size += sum(tokens.tokens.nbytes for tokens in block.tokens)
    if pending:
        yield _join_blocks(pending)


def _small_blocks(
    files: Sequence[TableFile], plan: _Plan, first: int
) -> Iterator[tuple[Piece, RawBlock]]:
    """The rows as the files give them, at most `BATCH_ROWS` at a time."""
    for table in files:
        done = 0
        for piece in read_pieces(table, plan.columns):
            for start in range(done, done + piece.read, BATCH_ROWS):
                part = piece.part(start, min(start + BATCH_ROWS, done + piece.read))
                yield part, _raw_block(part, table, plan, first)
            done += piece.read
        first += done


@dataclass(frozen=True, kw_only=True)
class _Labels:
    """The required cells of n rows; -1 is no label."""

    clicks: NDArray[np.int8]
    purchases: NDArray[np.int8]
    entities: pa.LargeBinaryArray
    kept: NDArray[np.bool_]  # whether a row has all of them


def _raw_block(piece: Piece, table: TableFile, plan: _Plan, first: int) -> RawBlock:
    path = str(table.file.place)
    labels = _read_required(piece.columns, plan, path)
    is_kept, columns = labels.kept, piece.columns
    rejects = [*piece.rejects, *_find_rejects(piece, plan, labels, table.file.name)]
    if not is_kept.all():
        columns = columns.filter(pa.array(is_kept))
    rows = piece.rows[is_kept] + first
    read = [
        cells.read_tokens(columns[name], cell_format, f"{path}: column {name}")
        for name, cell_format in plan.fields
    ]
    return RawBlock(
        rows=rows,
        clicks=labels.clicks[is_kept].astype(np.uint8),
        purchases=labels.purchases[is_kept].astype(np.uint8),
        entities=labels.entities.filter(pa.array(is_kept)),
        samples=_sample_hashes(columns, plan.table.sample_id, rows, path),
        tokens=tuple(read),
        kinds={name: cells.cell_kind(columns[name].type) for name, _ in plan.fields},
        rejects=tuple(sorted(rejects, key=lambda one: one.row)),
    )


def _read_required(columns: pa.RecordBatch, plan: _Plan, location: str) -> _Labels:
    table = plan.table
    clicks = cells.read_labels(columns[table.y_ctr], f"{location}: column {table.y_ctr}")
    purchases = np.zeros_like(clicks)
    if table.y_cvr is not None:
        purchases = cells.read_labels(columns[table.y_cvr], f"{location}: column {table.y_cvr}")
    entities = cells.cell_texts(columns[table.entity_id], f"{location}: column {table.entity_id}")
    known = entities.is_valid().to_numpy(zero_copy_only=False) & text_mask(entities)
    known &= ~cells.is_among(entities, (b"", *plan.missing))
    is_kept = (clicks >= 0) & (purchases >= 0) & known
    return _Labels(clicks=clicks, purchases=purchases, entities=entities, kept=is_kept)


def _find_rejects(piece: Piece, plan: _Plan, labels: _Labels, file: str) -> Iterator[Reject]:
    """The rows whose required cells are wrong; of several the first counts."""
    for row in np.flatnonzero(~labels.kept).tolist():
        if labels.clicks[row] < 0:
            reason, column = "label", plan.table.y_ctr
        elif labels.purchases[row] < 0:
            reason, column = "label", plan.table.y_cvr or ""
        else:
            reason, column = "entity_id", plan.table.entity_id
        cell = cells.cell_texts(piece.columns[column].slice(row, 1), column)[0].as_py()
        cell_text = "null" if cell is None else repr(row_excerpt(cell))
        found_text = f"{column}: {cell_text}"[:EXCERPT_CHARACTERS]
        yield Reject(file=file, row=int(piece.rows[row]), reason=reason, found=found_text)


def _sample_hashes(
    columns: pa.RecordBatch, name: str | None, rows: NDArray[np.int64], location: str
) -> NDArray[np.uint64] | None:
    """A hash of each sample's id; rows without one differ from each other."""
    if name is None:
        return None
    ids = cells.cell_texts(columns[name], f"{location}: column {name}").to_pylist()
    texts = [one or b"\0row %d" % row for one, row in zip(ids, rows.tolist(), strict=True)]
    return np.array([xxhash.xxh3_64_intdigest(text) for text in texts], dtype=np.uint64)


def _join_blocks(blocks: Sequence[RawBlock]) -> RawBlock:
    if len(blocks) == 1:
        return blocks[0]
    samples = [one.samples for one in blocks if one.samples is not None]
    return RawBlock(
        rows=np.concatenate([one.rows for one in blocks]),
        clicks=np.concatenate([one.clicks for one in blocks]),
        purchases=np.concatenate([one.purchases for one in blocks]),
        entities=pa.concat_arrays([one.entities for one in blocks]),
        samples=np.concatenate(samples) if samples else None,
        tokens=tuple(map(_join_tokens, zip(*[one.tokens for one in blocks], strict=True))),
        kinds=blocks[-1].kinds,
        rejects=tuple(reject for one in blocks for reject in one.rejects),
    )


def _join_tokens(parts: Sequence[RawTokens]) -> RawTokens:
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return RawTokens(
        offsets=offsets,
        tokens=pa.concat_arrays([part.tokens for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        counts=sum((part.counts for part in parts), Counter[str]()),
    )
