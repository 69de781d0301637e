"""The figures of any folder of preprocessed data: stored ones, or counted from the arrays.

The ids of all columns are counted in one pass where so many counters have room, else in several
passes over as many columns, or ranges of a column's ids, as have room.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import load_json
from ingot.converters.output.files import MANIFEST
from ingot.converters.recsys.criteo import contract
from ingot.converters.recsys.criteo.inspect import figures as f
from ingot.converters.rows import Json
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE, array_name

_ROWS: Final = 1 << 16
_COUNTERS: Final = 1 << 26  # of 8 bytes, that are held at a time
_LARGEST_ID: Final = 1 << 30
"""What is larger is no id that was given in turn: the values of the raw files, by the look."""
_BUCKETS: Final = 48
_NOTE: Final = (
    "counted from the arrays: dense figures are of the written numbers; what was missing, "
    "rejected or rare, and raw values, are not known"
)


def inspect(root: Path, top: int = 10) -> f.Figures:
    """Return the figures of preprocessed Criteo data.

    They come from stats.json and the vocabularies; if these are missing, the arrays are counted.
    """
    stored = (root / contract.STATS).is_file() and contract.vocabulary_path(
        root, contract.KEYS[0]
    ).is_file()
    return _read_stored_figures(root, top) if stored else count_figures(root, top)


def count_figures(root: Path, top: int, *, counters: int = _COUNTERS) -> f.Figures:
    """Count the figures from the arrays of a folder."""
    parts = [_Part(stretch) for stretch in contract.locate_arrays(root, "all").stretches]
    lowest = np.min([one.least for one in parts], axis=0)
    highest = np.max([one.most for one in parts], axis=0)
    spans = [(int(a), int(b)) for a, b in zip(lowest, highest, strict=True)]
    frequencies = [f.Frequencies(top) for _ in spans]
    for together in _counter_ranges(spans, counters):
        range_counters = [
            (column, first, np.zeros(size, np.int64)) for column, first, size in together
        ]
        for part in parts:
            for (rows,) in part.blocks("sparse"):
                for column, first, counts in range_counters:
                    ids = rows[:, column].astype(np.int64) - first
                    contract.add_counts(counts, ids[(ids >= 0) & (ids < len(counts))])
        for column, first, counts in range_counters:
            frequencies[column].add(np.arange(first, first + len(counts)), counts)
    sparse = tuple(map(_counted_sparse, contract.KEYS, spans, frequencies))
    uncounted = ", ".join(
        one.name for one in sparse if one.distinct is None and one.max_id is not None
    )
    note = f"no ids that start at 0 or 2, so not counted: {uncounted}; values of the raw files?"
    return f.Figures(
        folder=str(root),
        source="arrays",
        parts=tuple(one.figures() for one in parts),
        dense=tuple(_counted_dense(number, parts) for number in range(DENSE)),
        sparse=sparse,
        notes=(_NOTE, note) if uncounted else (_NOTE,),
    )


class _Part:
    """The arrays of a part, and what one pass shows: labels, dense values, the span of the ids."""

    def __init__(self, stretch: contract.PartRange) -> None:
        self.name, self.rows = stretch.part, stretch.stop
        self._arrays = dict(
            zip(contract.KINDS, map(contract.MappedRows, stretch.arrays), strict=True)
        )
        self._zeros = self._ones = 0
        self.least = np.full(SPARSE, np.iinfo(np.int64).max)
        self.most = np.full(SPARSE, np.iinfo(np.int64).min)
        self.finite, self.nonfinite = np.zeros(DENSE, np.int64), np.zeros(DENSE, np.int64)
        self.lowest, self.highest = np.full(DENSE, np.inf), np.full(DENSE, -np.inf)
        self.total = np.zeros(DENSE)
        self.histogram = np.zeros((DENSE, _BUCKETS), np.int64)  # below 0, 0 to 1, 1 to 2, ...
        for labels, dense, sparse in self.blocks("labels", "dense", "sparse"):
            self._zeros += int(np.count_nonzero(labels == 0))
            self._ones += int(np.count_nonzero(labels == 1))
            self._add_dense(dense.astype(np.float64))
            self.least = np.minimum(self.least, sparse.min(axis=0).astype(np.int64))
            self.most = np.maximum(self.most, sparse.max(axis=0).astype(np.int64))

    def blocks(self, *kinds: str) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield rows [R, width] of these kinds."""
        for start in range(0, self.rows, _ROWS):
            stop = min(self.rows, start + _ROWS)
            yield tuple(self._arrays[kind].span(start, stop) for kind in kinds)

    def _add_dense(self, values: NDArray[np.float64]) -> None:
        fine = np.isfinite(values)
        self.finite += fine.sum(axis=0)
        self.nonfinite += (~fine).sum(axis=0)
        self.lowest = np.minimum(self.lowest, np.where(fine, values, np.inf).min(axis=0))
        self.highest = np.maximum(self.highest, np.where(fine, values, -np.inf).max(axis=0))
        self.total += np.where(fine, values, 0).sum(axis=0)
        for column in range(DENSE):
            buckets = np.clip(np.floor(values[fine[:, column], column]), -1, _BUCKETS - 2) + 1
            self.histogram[column] += np.bincount(buckets.astype(np.int64), minlength=_BUCKETS)

    def figures(self) -> f.PartFigures:
        return f.PartFigures(
            name=self.name,
            rows=self.rows,
            zeros=self._zeros,
            ones=self._ones,
            other=self.rows - self._zeros - self._ones,
            nonfinite=int(self.nonfinite.sum()),
        )


def _is_countable(span: tuple[int, int]) -> bool:
    return 0 <= span[0] <= span[1] < _LARGEST_ID


def _counter_ranges(
    spans: Sequence[tuple[int, int]], budget: int
) -> Iterator[list[tuple[int, int, int]]]:
    """Column, first id and number of ids, as many together as there is room for."""
    together: list[tuple[int, int, int]] = []
    remaining = budget
    for column, span in enumerate(spans):
        first = span[0] if _is_countable(span) else span[1] + 1
        while first <= span[1]:
            if not remaining:
                yield together
                together, remaining = [], budget
            number = min(remaining, span[1] + 1 - first)
            together.append((column, first, number))
            first, remaining = first + number, remaining - number
    if together:
        yield together


def _counted_dense(column: int, parts: Sequence[_Part]) -> f.DenseFigures:
    finite = sum(int(one.finite[column]) for one in parts)
    histogram = np.sum([one.histogram[column] for one in parts], axis=0).tolist()
    bounds = ["negative", *map(str, range(_BUCKETS - 1))]
    return f.DenseFigures(
        name=contract.DENSE_NAMES[column],
        nonfinite=sum(int(one.nonfinite[column]) for one in parts),
        least=min(float(one.lowest[column]) for one in parts) if finite else None,
        most=max(float(one.highest[column]) for one in parts) if finite else None,
        mean=sum(float(one.total[column]) for one in parts) / finite if finite else None,
        histogram=tuple((bound, n) for bound, n in zip(bounds, histogram, strict=True) if n),
    )


def _counted_sparse(
    name: str, span: tuple[int, int], frequencies: f.Frequencies
) -> f.SparseFigures:
    has_ids = span[0] <= span[1]
    return f.SparseFigures(
        name=name,
        distinct=frequencies.ids if _is_countable(span) or not has_ids else None,
        max_id=span[1] if has_ids else None,
        largest=span[1] if has_ids else None,
        counted=frequencies.rows,
        coverage=frequencies.coverage(),
        top=frequencies.top(),
    )


_PIECE: Final = 1 << 18
_COLUMNS: Final = {"value": pa.uint32(), "id": pa.int32(), "count": pa.int64()}
_VOCABULARY_HINT: Final = "take vocab/ away to have the ids counted"
_STATS_HINT: Final = "take it away to have the arrays counted"
_EARLIER: Final = (
    "the vocabularies count rows of earlier runs too: the shares of ids are of all these rows"
)
_UNSEEN: Final = "values that the vocabularies do not have, id 1, are in no share of ids"


def _read_frequencies(folder: Path, key: str, top: int) -> f.Frequencies:
    """How often the ids of a column occur; all values with id 1 are one id."""
    path, frequencies, rare = contract.vocabulary_path(folder, key), f.Frequencies(top), 0
    try:
        for values, ids, counts in _read_pieces(path):
            is_frequent = ids != contract.RARE_ID
            frequencies.add(ids[is_frequent], counts[is_frequent], values[is_frequent])
            rare += int(counts[~is_frequent].sum())
    except FileNotFoundError as error:
        raise SourceError(str(path), "this vocabulary does not exist", _VOCABULARY_HINT) from error
    except (OSError, pa.ArrowException, ValueError) as error:
        problem = f"is not a vocabulary of ingot: {error}"
        raise SourceError(str(path), problem, _VOCABULARY_HINT) from error
    if rare:
        frequencies.add(np.array([contract.RARE_ID]), np.array([rare]))
    return frequencies


def _read_pieces(path: Path) -> Iterator[tuple[NDArray[np.int64], ...]]:
    with pq.ParquetFile(path) as file:
        for name, kind in _COLUMNS.items():
            index = file.schema_arrow.get_field_index(name)
            if index < 0 or file.schema_arrow.field(index).type != kind:
                raise ValueError(f"the column {name} is not {kind}")
        for batch in file.iter_batches(_PIECE, columns=list(_COLUMNS)):
            yield tuple(_column_cells(batch.column(name), name) for name in _COLUMNS)


def _column_cells(column: pa.Array, name: str) -> NDArray[np.int64]:
    if column.null_count:
        raise ValueError(f"the column {name} has nulls")
    cells: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    if len(cells) and cells.min() < 0:
        raise ValueError(f"the column {name} has a negative number")
    return cells


def _read_stored_figures(root: Path, top: int) -> f.Figures:
    """The figures of stats.json and of the vocabularies."""
    stats = _read_document(root / contract.STATS)
    manifest = _read_document(root / MANIFEST) if (root / MANIFEST).is_file() else {}
    frequencies = [_read_frequencies(root, key, top) for key in contract.KEYS]
    try:
        parts = tuple(_part_figures(entry) for entry in stats["parts"])
        rows = sum(one.rows for one in parts)
        dense = tuple(
            _dense_figures(entry, rows)
            for entry in _check_names(stats["dense"], contract.DENSE_NAMES)
        )
        rounded = manifest.get("compat") == "torchrec_f32"
        sparse = tuple(
            _sparse_figures(entry, one, rounded=rounded)
            for entry, one in zip(
                _check_names(stats["sparse"], contract.KEYS), frequencies, strict=True
            )
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        problem = f"is not as a run writes it: {error!r}"
        raise SourceError(str(root / contract.STATS), problem, _STATS_HINT) from error
    notes = [_EARLIER] if manifest.get("vocab_sha256") else []
    notes += [_UNSEEN] if manifest.get("unseen") == "1" else []
    notes += [note for part in parts if (note := _part_difference(root, part))]
    return f.Figures(
        folder=str(root),
        source="stats.json",
        parts=parts,
        dense=dense,
        sparse=sparse,
        notes=tuple(notes),
    )


def _read_document(path: Path) -> dict[str, Json]:
    try:
        return load_json(path)
    except (OSError, ValueError) as error:
        raise SourceError(str(path), f"cannot be read: {error}", _STATS_HINT) from error


def _check_names(entries: Json, names: Sequence[str]) -> Sequence[dict[str, Json]]:
    if [one["name"] for one in entries] != list(names):
        raise ValueError(f"the columns are not {names[0]} to {names[-1]}")
    columns: Sequence[dict[str, Json]] = entries
    return columns


def _as_integer(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not an integer")
    return value


def _as_count(value: Json) -> int:
    if _as_integer(value) < 0:
        raise ValueError(f"{value!r} is not a count")
    return _as_integer(value)


def _as_counts(document: dict[str, Json], *names: str) -> dict[str, int]:
    return {name: _as_count(document[name]) for name in names or document}


def _part_figures(document: dict[str, Json]) -> f.PartFigures:
    labels = _as_counts(document["labels"], "0", "1", "other")
    if not isinstance(document["name"], str) or not isinstance(document["file"], str):
        raise TypeError(f"{document['name']!r} of {document['file']!r} is not a part")
    return f.PartFigures(
        name=document["name"],
        file=document["file"],
        rejects=_as_counts(dict(document["rejects"])),
        zeros=labels["0"],
        ones=labels["1"],
        other=labels["other"],
        dense_min=None if document["dense_min"] is None else _as_integer(document["dense_min"]),
        shuffled=bool(document["shuffled"]),
        **_as_counts(document, "lines", "rows", "nonfinite"),
    )


def _dense_figures(document: dict[str, Json], rows: int) -> f.DenseFigures:
    minimum, maximum = (
        None if document[key] is None else _as_integer(document[key]) for key in ("min", "max")
    )
    return f.DenseFigures(
        name=document["name"],
        **_as_counts(document, "missing", "nonfinite"),
        least=minimum,
        most=maximum,
        mean=_as_integer(document["sum"]) / rows if rows else None,
        histogram=tuple(
            sorted(
                _as_counts(document["histogram"]).items(),
                key=lambda one: -1 if one[0] == "negative" else int(one[0]),
            )
        ),
    )


def _sparse_figures(
    document: dict[str, Json], frequencies: f.Frequencies, *, rounded: bool
) -> f.SparseFigures:
    names = ("missing", "distinct", "vocabulary", "rare", "rare_rows", "max_id")
    counts = _as_counts(document, *names)
    largest = max(counts["max_id"], frequencies.largest)
    return f.SparseFigures(
        name=document["name"],
        largest=max(largest, int(np.float32(largest)) if rounded else 0),
        counted=frequencies.rows,
        coverage=frequencies.coverage(),
        top=frequencies.top(),
        **counts,
    )


def _part_difference(root: Path, part: f.PartFigures) -> str | None:
    """How the arrays of a part are other than stats.json has it."""
    if not part.rows:
        return None
    try:
        written = contract.locate_arrays(root, "all", [part.name]).rows
    except (SourceError, ValueError) as error:
        return f"the arrays are not those of stats.json: {error}"
    stored_text = f"{array_name(part.name, 'sparse')} has {written:,} rows"
    return None if written == part.rows else f"{stored_text}, stats.json counts {part.rows:,}"
