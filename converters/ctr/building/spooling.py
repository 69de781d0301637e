"""Rows on disk between the two passes of a build: parsed once, read once or twice.

An Arrow IPC file: row_id int64, click uint8, purchase uint8, entity int32, then for every field
`c<i>` list<int32> (codes) and `v<i>` list<float32> (values).
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.commit import writing
from ingot.converters.ctr.building.rows import Rows, Tokens

_CODES, _VALUES = pa.list_(pa.int32()), pa.list_(pa.float32())


def _schema(fields: int) -> pa.Schema:
    names = [("row_id", pa.int64()), ("click", pa.uint8()), ("purchase", pa.uint8())]
    names.append(("entity", pa.int32()))
    for at in range(fields):
        names += [(f"c{at}", _CODES), (f"v{at}", _VALUES)]
    return pa.schema(names)


class Spool:
    """Rows of a split, or common features, written once and read in the same order.

    Attributes:
        rows: rows so far.
    """

    def __init__(self, path: Path, fields: int) -> None:
        self.rows = 0
        self._path, self._fields = path, fields
        self._schema = _schema(fields)
        with writing(path):
            self._sink = pa.OSFile(str(path), "wb")
            self._writer = pa.ipc.new_file(self._sink, self._schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, rows: Rows, kept: NDArray[np.bool_] | None = None) -> Rows:
        """Append rows, or those of them that are `kept`; gives what was appended."""
        batch = self._batch(rows)
        if kept is not None and not kept.all():
            batch = batch.take(pa.array(np.flatnonzero(kept)))
        if batch.num_rows:
            with writing(self._path):
                self._writer.write_batch(batch)
        self.rows += batch.num_rows
        return self._rows(batch)

    def close(self) -> None:
        """Finish the file; again is no harm."""
        if self._sink.closed:
            return
        with writing(self._path), self._sink:
            self._writer.close()

    def read(self, most: int | None = None) -> Iterator[Rows]:
        """What was written, as the batches that it was written in.

        Args:
            most: rows at a time; longer batches come in parts.
        """
        with pa.OSFile(str(self._path)) as source:
            reader = pa.ipc.open_file(source)
            for at in range(reader.num_record_batches):
                batch = reader.get_batch(at)
                for first in range(0, batch.num_rows, most or batch.num_rows):
                    yield self._rows(batch.slice(first, most))

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        columns = [rows.rows, rows.clicks, rows.purchases, rows.entities]
        arrays = [pa.array(column) for column in columns]
        for one in rows.tokens:
            offsets = pa.array(one.offsets)
            arrays.append(pa.ListArray.from_arrays(offsets, pa.array(one.codes)))
            arrays.append(pa.ListArray.from_arrays(offsets, pa.array(one.values)))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        row_ids, clicks, purchases, entities = (
            batch.column(at).to_numpy(zero_copy_only=False) for at in range(4)
        )
        tokens = tuple(
            _tokens(batch.column(4 + 2 * at), batch.column(5 + 2 * at))
            for at in range(self._fields)
        )
        return Rows(
            rows=row_ids,
            clicks=clicks,
            purchases=purchases,
            entities=entities,
            samples=None,
            tokens=tokens,
        )


def _tokens(codes: pa.ListArray, values: pa.ListArray) -> Tokens:
    return Tokens(
        offsets=codes.offsets.to_numpy(),
        codes=codes.values.to_numpy(),
        values=values.values.to_numpy(),
    )
