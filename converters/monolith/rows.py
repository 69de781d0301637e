"""Rows as places in the bytes they lie in, whatever kind of record they came in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.records import Bytes, Places


@dataclass(frozen=True, kw_only=True)
class Rows:
    """R rows with E features in all: what an Example says, as places in bytes.

    A feature is an entry: those of row r are `first[r]`..`first[r + 1] - 1`, in their order in the
    record. `__LINE_ID__`, `__LABEL__` and `instance_weight` are no entries: what they say stands in
    the row's own arrays, whether it came in fields or in features.

    Attributes:
        data: uint8[B] that all places point into; never written to.
        names: the distinct names, in UTF-8; `name` counts in them.
        first: int64[R + 1] entries before each row.
        name: int32[E] number of the name.
        raw: bool[E] whether it is a raw feature.
        start: int64[E] where the content of the `Feature` (or `RawFeature`) message begins; -1
            where the named feature has none at all, which reads as an unset one.
        stop: int64[E] where it ends; equal to start where the feature is unset.
        ident: int32[E] `id` of the feature.
        sorted_id: int32[E] `sorted_id` of the feature.
        extra_start: int64[E] where unknown fields of the named feature begin.
        extra_stop: int64[E] where they end.
        line_start: int64[R] where the LineId's content begins; -1 where the row has none.
        line_stop: int64[R] where it ends; -1 where the row has none.
        label_first: int64[R + 1] labels before each row.
        label: float32[L].
        weighted: bool[R] whether instance_weight is given.
        weight: float32[R] instance_weight; 0 where it is not given.
        source: uint32[R] data_source_key; 0 where it is not given.
        rest_start: int64[R] where unknown fields of the record begin.
        rest_stop: int64[R] where they end.
        sort_start: int64[R] where the sort_id of the record's frame begins.
        sort_stop: int64[R] where it ends; equal where there is none.
        record: int64[R] number of the record in the stream, from 0.
        offset: int64[R] where the record's frame begins, in bytes of the decompressed stream.
        row: int64[R] number of the row in its batch; 0 for other records.
    """

    data: Bytes
    names: tuple[bytes, ...]
    first: Places
    name: NDArray[np.int32]
    raw: NDArray[np.bool_]
    start: Places
    stop: Places
    ident: NDArray[np.int32]
    sorted_id: NDArray[np.int32]
    extra_start: Places
    extra_stop: Places
    line_start: Places
    line_stop: Places
    label_first: Places
    label: NDArray[np.float32]
    weighted: NDArray[np.bool_]
    weight: NDArray[np.float32]
    source: NDArray[np.uint32]
    rest_start: Places
    rest_stop: Places
    sort_start: Places
    sort_stop: Places
    record: Places
    offset: Places
    row: Places

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def entry_row(self) -> Places:
        """int64[E], the row of each entry."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.first))

    def line_id(self, at: int) -> bytes | None:
        """The LineId of row `at`, serialized; None where it has none."""
        start, stop = int(self.line_start[at]), int(self.line_stop[at])
        return None if start < 0 else self.data[start:stop].tobytes()

    def feature(self, entry: int) -> bytes:
        """The content of the `Feature` message of an entry, serialized."""
        return self.data[self.start[entry] : self.stop[entry]].tobytes()

    def labels(self, at: int) -> NDArray[np.float32]:
        """float32[K], the labels of row `at`."""
        return self.label[self.label_first[at] : self.label_first[at + 1]]
