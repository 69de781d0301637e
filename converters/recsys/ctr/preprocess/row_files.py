"""Write the files of rows: each takes rows of scanned pieces, and encodes them."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.output.files import FinishedBlock, output_errors
from ingot.converters.output.pieces import do_piece, piece_name
from ingot.converters.recsys.ctr.contract import LABELS, SPLITS, processed_schema
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap
from ingot.converters.recsys.ctr.preprocess.encoder import Encoded, Encoder, EntityStore, LabelSums
from ingot.converters.recsys.ctr.preprocess.fitting import ARRAYS, CODES, STORE, ScannedPiece
from ingot.converters.recsys.ctr.preprocess.inputs import Order
from ingot.converters.recsys.ctr.preprocess.row_collector import (
    Codes,
    Rows,
    read_spool,
    split_spool,
)
from ingot.converters.recsys.ctr.preprocess.vocabulary import join_texts
from ingot.converters.rows import Json

GROUP_ROWS: Final = 16_384
GROUPS_PER_FILE: Final = 64
WRITE: Final = "write"  # the stage, and the folder of its pieces
ROWS_FILE: Final = "rows.parquet"  # of a piece
_CELLS: Final = 32 << 20
"""The most elements of lists that are made at a time,"""
_FEWEST: Final = 256
"""but for this number of rows."""


class RowFile(FinishedBlock):
    """Writes a Parquet file in row groups of one size, however its rows come."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.rows = 0
        # A row group is written while the next is encoded; one at a time, so memory is bounded.
        self._pool = ThreadPoolExecutor(1, "write")
        self._writing: Future[None] | None = None
        self._path, self._schema = path, schema
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        with output_errors(path):
            self._writer = pq.ParquetWriter(path, schema, compression="snappy")

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of the schema."""
        self.rows += batch.num_rows
        self._held.append(batch)
        self._held_rows += batch.num_rows
        while self._held_rows >= GROUP_ROWS:
            self._write_group(GROUP_ROWS)

    def close(self) -> None:
        """Write the last rows."""
        if self._held_rows or not self.rows:
            self._write_group(self._held_rows)
        self._wait()

    def abandon(self) -> None:
        """Close the file, once nothing writes to it."""
        self._pool.shutdown()
        with output_errors(self._path):
            self._writer.close()

    def _write_group(self, rows: int) -> None:
        held = pa.Table.from_batches(self._held, schema=self._schema)
        rest = held.slice(rows)
        self._held, self._held_rows = rest.to_batches(), rest.num_rows
        self._wait()
        self._writing = self._pool.submit(self._write_table, held.slice(0, rows))

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _write_table(self, table: pa.Table) -> None:
        with output_errors(self._path):
            # In one chunk: where pages end depends on chunks, and these on how the rows came.
            self._writer.write_table(table.combine_chunks(), row_group_size=GROUP_ROWS)


class RowEncoder:
    """Encodes rows, and sums up what stats.json says of them."""

    def __init__(
        self, featuremap: FeatureMap, encoders: dict[str, Encoder], store: EntityStore
    ) -> None:
        self.schema = processed_schema(featuremap)
        self.labels = LabelSums()
        self.encoders = encoders
        self._featuremap, self._store = featuremap, store
        # Few at a time where lists may be long: a row can name an entity with very many tokens.
        longest = sum(one.max_len or 0 for one in featuremap.features)
        self.step = min(GROUP_ROWS, max(_FEWEST, _CELLS // max(1, longest)))

    def encode(self, split: int, rows: Rows, codes: Codes) -> pa.RecordBatch:
        """Return the contract's columns of rows of a split."""
        labels = self._label_columns(rows)
        self.labels.add(labels)
        entities = codes.names.take(pa.array(rows.entities))
        columns = [pa.array(labels[name]) for name in LABELS]
        columns += [pa.array(rows.rows), entities.cast(pa.string())]
        for feature in self._featuremap.features:
            columns += self._cells(feature, split, rows, codes).columns(feature)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _cells(self, feature: Feature, split: int, rows: Rows, codes: Codes) -> Encoded:
        if feature.src == 1:
            return self._store.take(feature, codes.lines[rows.entities])
        own = [source for source in self._featuremap.sources if source[0] == 0]
        count = len(rows.rows)
        splits, weights = np.full(count, split, np.uint8), np.ones(count, np.int64)
        tokens = rows.tokens[own.index(feature.source)]
        return self.encoders[feature.name].encode(tokens, codes.places, splits, weights)

    def _label_columns(self, rows: Rows) -> dict[str, NDArray[np.float32]]:
        clicks, purchases = rows.clicks.astype(np.float32), rows.purchases.astype(np.float32)
        both = clicks * purchases
        exposed = self._featuremap.click_mask == "exposed"
        return {
            "y_ctr": clicks,
            "y_cvr": both if self._featuremap.funnel == "coerce" else purchases,
            "y_ctcvr": both,
            "click_mask": np.ones_like(clicks) if exposed else clicks,
        }


@dataclass(frozen=True)
class _FilePart:
    """Rows `start` to `stop` of a piece's split, whose numbers in the input are `shift` higher."""

    number: int
    folder: Path  # of the piece
    start: int
    stop: int
    shift: int


@dataclass(frozen=True)
class FileTask:
    """A file of a split: rows of scanned pieces."""

    folder: Path
    split: int
    name: str
    parts: list[_FilePart]

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return sum(one.stop - one.start for one in self.parts)


def plan_files(work: Path, scanned: Sequence[ScannedPiece], shifts: list[int]) -> list[FileTask]:
    """Say which rows of pieces are in each file of the result."""
    room = GROUP_ROWS * GROUPS_PER_FILE
    tasks: list[FileTask] = []
    for split, split_name in enumerate(SPLITS):
        ends = [0, *accumulate(one.document["rows"][split] for one in scanned)]
        for first in range(0, max(1, ends[-1]), room):
            last = min(first + room, ends[-1])
            parts = [
                _FilePart(
                    at,
                    scanned[at].folder,
                    max(first, begin) - begin,
                    min(last, end) - begin,
                    shifts[at],
                )
                for at, (begin, end) in enumerate(pairwise(ends))
                if max(first, begin) < min(last, end)
            ]
            name = f"{split_name}/part-{first // room:05d}.parquet"
            folder = work / WRITE / piece_name(len(tasks))
            tasks.append(FileTask(folder, split, name, parts))
    return tasks


def write_file(order: Order, fitted: Path, task: FileTask) -> dict[str, Json]:
    """Write a file as a piece, with what was `fitted`; gives what stats.json sums up."""
    return do_piece(task.folder, partial(_write_rows, order, fitted, task))


def _write_rows(order: Order, fitted: Path, task: FileTask, draft: Path) -> dict[str, Json]:
    featuremap = order.featuremap
    own, shared = featuremap.of_src(0), featuremap.of_src(1)
    encoders = {one.name: Encoder(one, *_open_arrays(fitted, one.name)) for one in own}
    store = EntityStore(fitted / STORE, shared).open()
    rows = RowEncoder(featuremap, encoders, store)
    fields = sum(src == 0 for src, _ in featuremap.sources)
    with RowFile(draft / ROWS_FILE, rows.schema) as file:
        for part in task.parts:
            scanned, saved = np.load(part.folder / CODES), np.load(fitted / f"{part.number}.npz")
            names = join_texts(scanned["names"], scanned["name_ends"])
            codes = Codes(places=saved["places"], lines=saved["lines"], names=names)
            spool = part.folder / split_spool(SPLITS[task.split])
            for some in read_spool(spool, fields, rows.step, part.start, part.stop):
                shifted = replace(some, rows=some.rows + part.shift)
                file.write(rows.encode(task.split, shifted, codes))
                order.add(len(some.rows))
    features = {name: one.sums.to_document() for name, one in encoders.items()}
    return {"labels": rows.labels.to_json(), "features": features}


def _open_arrays(fitted: Path, name: str) -> Iterator[NDArray[np.generic]]:
    for kind in ARRAYS:
        # Copy on write: processes share the pages, and kernels get arrays that can be written.
        yield np.asarray(np.load(fitted / f"{name}.{kind}.npy", mmap_mode="c"))
