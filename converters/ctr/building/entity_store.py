"""The encoded common features of every entity, on disk, taken by row."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.commit import writing
from ingot.converters.ctr.building.collecting import Collector
from ingot.converters.ctr.building.encoding import Encoded, Encoder
from ingot.converters.ctr.building.kernels.selecting import gather_lists
from ingot.converters.ctr.building.rows import Rows, Tokens
from ingot.converters.ctr.contract import SPLITS
from ingot.converters.ctr.featuremap import Feature

_UNKNOWN: Final = len(SPLITS)
"""Lines before those of the file: what an entity without common features has, for each split."""


class _Column:
    """The cells of one feature."""

    def __init__(self, feature: Feature, path: Path) -> None:
        self._feature = feature
        self._paths = (path.with_suffix(".ids"), path.with_suffix(".values"))
        with writing(path):
            self._files: list[BinaryIO] = [one.open("wb") for one in self._paths]
        self._lengths: list[NDArray[np.int32]] = []
        self._offsets = np.zeros(1, np.int64)
        self._ids: NDArray[np.uint32] = np.empty(0, np.uint32)
        self._values: NDArray[np.float32] = np.empty(0, np.float32)

    def add(self, cells: Encoded) -> None:
        if cells.offsets is not None:
            self._lengths.append(np.diff(cells.offsets))
        with writing(self._paths[0]):
            cells.ids.astype(np.uint32).tofile(self._files[0])
            if self._feature.use_value:
                cells.values.tofile(self._files[1])

    def close(self) -> None:
        with writing(self._paths[0]), ExitStack() as files:
            for file in self._files:
                files.callback(file.close)

    def finish(self) -> None:
        """Close the files and map them; the pages are the system's to drop."""
        self.close()
        self._ids = np.memmap(self._paths[0], np.uint32, "r")
        if self._feature.use_value:
            self._values = np.memmap(self._paths[1], np.float32, "r")
        if self._lengths:
            lengths = np.concatenate(self._lengths)
            self._lengths = []
            self._offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def take(self, lines: NDArray[np.int64]) -> Encoded:
        if self._feature.is_multi_hot:
            offsets, ids, values = gather_lists(
                lines, self._offsets, np.asarray(self._ids), np.asarray(self._values)
            )
            return Encoded(offsets=offsets, ids=ids, values=values)
        values = self._values[lines] if self._feature.use_value else self._values
        return Encoded(offsets=None, ids=self._ids[lines].astype(np.int64), values=values)


class EntityStore:
    """Every feature of common features, encoded once for every line."""

    def __init__(self, folder: Path, encoders: Sequence[Encoder], fields: Sequence[int]) -> None:
        """Make an empty one.

        Args:
            folder: for its files.
            encoders: of the features of src 1.
            fields: for each of them its place in `Rows.tokens`.
        """
        with writing(folder):
            folder.mkdir(exist_ok=True)
        self._encoders = list(zip(encoders, fields, strict=True))
        self._columns = {
            one.feature.name: _Column(one.feature, folder / str(at))
            for at, one in enumerate(encoders)
        }

    def fill(self, collector: Collector, places: NDArray[np.uint32]) -> None:
        """Encode the lines of common features.

        Args:
            collector: of the first pass.
            places: for each code its place among the sorted tokens of its field.
        """
        entities = collector.entities
        unknown = entities.lines < 0
        weights = [entities.rows[unknown & (entities.splits == at)].sum() for at in range(_UNKNOWN)]
        splits = np.arange(_UNKNOWN, dtype=np.uint8)
        for encoder, _ in self._encoders:
            cells = encoder.encode(_nothing(), places, splits, np.array(weights, np.int64))
            self._columns[encoder.feature.name].add(cells)
        by_line = collector.weights()
        first = 0
        for rows in collector.common.read():
            part = by_line[:, first : first + len(rows.rows)]
            first += len(rows.rows)
            # A line serves the rows of one entity, and they are all in one split.
            self._add(rows, places, part.argmax(axis=0).astype(np.uint8), part.max(axis=0))
        for column in self._columns.values():
            column.finish()
        self._lines = entities.lines + _UNKNOWN
        self._lines[unknown] = 0

    def close(self) -> None:
        """Close the files; again is no harm."""
        with ExitStack() as files:
            for column in self._columns.values():
                files.callback(column.close)

    def _add(
        self,
        rows: Rows,
        places: NDArray[np.uint32],
        splits: NDArray[np.uint8],
        weights: NDArray[np.int64],
    ) -> None:
        for encoder, field in self._encoders:
            cells = encoder.encode(rows.tokens[field], places, splits, weights)
            self._columns[encoder.feature.name].add(cells)

    def take(self, feature: Feature, entities: NDArray[np.int32]) -> Encoded:
        """The cells of a feature for rows with these entities."""
        return self._columns[feature.name].take(self._lines[entities])


def _nothing() -> Tokens:
    """Rows without a token, one per split."""
    return Tokens(
        offsets=np.zeros(_UNKNOWN + 1, np.int32),
        codes=np.empty(0, np.int32),
        values=np.empty(0, np.float32),
    )
