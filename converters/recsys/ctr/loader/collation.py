"""Rows to the batch of the contract's section 4, from Arrow columns or from dicts.

    {"labels": {"y_ctr", "y_cvr", "y_ctcvr", "click_mask": FloatTensor[B],
                "row_id": LongTensor[B], "entity_id": list[str] of B},
     "features": {name: {"type": "single", "idx": LongTensor[B], "val": FloatTensor[B] | None}
                     or {"type": "multi", "idx": LongTensor[B, Lmax], "len": LongTensor[B],
                         "val": FloatTensor[B, Lmax] | None}}}

Lmax is the longest list of the batch; shorter ones are filled up at the right with id 0 and value
0.0. Features stand in the order of the files' columns, `val` is None where a feature has no column
of values.

Jagged instead of padded, a multi-value feature is

    {"type": "jagged", "idx": LongTensor[T], "len": LongTensor[B], "offsets": LongTensor[B + 1],
     "val": FloatTensor[T] | None}

with T the sum of the lengths; row i has idx[offsets[i]:offsets[i + 1]]. Single-value features are
as above.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.errors import SourceError
from ingot.converters.kernels.compile import kernel
from ingot.converters.recsys.ctr.contract import ENTITY_ID, LABELS, REQUIRED, ROW_ID
from ingot.converters.recsys.ctr.loader.split_files import StoredFeature
from ingot.converters.recsys.ctr.loader.stored_rows import ID_TYPES, Piece, Taken, rows_schema
from ingot.converters.recsys.training.environment import import_torch

Row = Mapping[str, Any]
Batch = dict[str, Any]
Array = npt.NDArray[Any]

_INDEX: Final = "_idx"
_VALUE: Final = "_val"
_KINDS: Final[dict[type, str]] = {np.int64: "iu", np.float32: "fiu"}
_DAMAGED: Final = "the cache is damaged, delete it"


def collate_fn(
    rows: Sequence[Row], feature_meta: Mapping[str, Mapping[str, bool]] | None = None
) -> Batch:
    """Collate rows as `ProcessedIterDataset` gives them to a batch.

    Args:
        rows: dicts with the contract's columns; lists may be numpy arrays.
        feature_meta: which features, in this order: name to `is_multi_hot` and `use_value`, as
            `ProcessedIterDataset.feature_meta`. None: all that the first row has, a list being
            a multi-value feature; `val` where it has a `_val`.

    Returns:
        The batch (see the module); of no rows, empty tensors, Lmax 0.

    Raises:
        ValueError: a row without a column, a cell of another kind, lists of ids and values of
            different lengths, a key of the first row that the contract does not know.
        ConversionError: torch is not installed.
    """
    rows = list(rows)
    features = (
        _parse_feature_meta(feature_meta) if feature_meta is not None else _infer_features(rows)
    )
    labels: Batch = {name: _to_tensor(_scalar_cells(rows, name, np.float32)) for name in LABELS}
    labels[ROW_ID] = _to_tensor(_scalar_cells(rows, ROW_ID, np.int64))
    texts = _row_cells(rows, ENTITY_ID)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"row {number}: {ENTITY_ID} is {type(text).__name__}, not str")
    labels[ENTITY_ID] = texts
    return {
        "labels": labels,
        "features": {feature.name: _feature_of_rows(rows, feature) for feature in features},
    }


def _feature_of_rows(rows: Sequence[Row], feature: StoredFeature) -> Batch:
    index, value = f"{feature.name}{_INDEX}", f"{feature.name}{_VALUE}"
    if not feature.is_multi_hot:
        ids = _to_tensor(_scalar_cells(rows, index, np.int64))
        values = _to_tensor(_scalar_cells(rows, value, np.float32)) if feature.use_value else None
        return {"type": "single", "idx": ids, "val": values}
    ids, sizes = _list_cells(rows, index, np.int64)
    if not feature.use_value:
        return _list_feature(ids, sizes, None)
    floats, value_sizes = _list_cells(rows, value, np.float32)
    for row in np.flatnonzero(sizes != value_sizes)[:1]:
        raise ValueError(f"row {row}: {sizes[row]} ids in {index}, {value_sizes[row]} in {value}")
    return _list_feature(ids, sizes, floats)


def _list_feature(ids: Array, sizes: Array, values: Array | None) -> Batch:
    real = np.arange(sizes.max(initial=0)) < sizes[:, None]
    return {
        "type": "multi",
        "idx": _to_tensor(_pad_lists(ids, real)),
        "len": _to_tensor(np.array(sizes)),
        "val": None if values is None else _to_tensor(_pad_lists(values, real)),
    }


def _pad_lists(flat: Array, real: npt.NDArray[np.bool_]) -> Array:
    padded = np.zeros(real.shape, flat.dtype)  # the contract's PAD and PAD_VALUE
    padded[real] = flat
    return padded


def _to_tensor(array: Array) -> Any:  # noqa: ANN401
    return import_torch().from_numpy(array)


def feature_meta_of(features: Sequence[StoredFeature]) -> dict[str, dict[str, bool]]:
    """Return the features as `collate_fn` takes them."""
    return {
        one.name: {"is_multi_hot": one.is_multi_hot, "use_value": one.use_value} for one in features
    }


def _parse_feature_meta(feature_meta: Mapping[str, Mapping[str, bool]]) -> list[StoredFeature]:
    features = []
    for name, one in feature_meta.items():
        if not {"is_multi_hot", "use_value"} <= one.keys():
            raise ValueError(f"feature_meta[{name!r}] does not say is_multi_hot and use_value")
        multi, value = bool(one["is_multi_hot"]), bool(one["use_value"])
        features.append(StoredFeature(name=name, is_multi_hot=multi, use_value=value))
    return features


def _infer_features(rows: Sequence[Row]) -> list[StoredFeature]:
    if not rows:
        return []
    row = rows[0]
    features = [
        StoredFeature(
            name=key.removesuffix(_INDEX),
            is_multi_hot=isinstance(row[key], list | tuple) or np.ndim(row[key]) > 0,
            use_value=f"{key.removesuffix(_INDEX)}{_VALUE}" in row,
        )
        for key in row
        if key.endswith(_INDEX)
    ]
    known = {*REQUIRED, *chain.from_iterable(feature.columns for feature in features)}
    for key in row:
        if key not in known:
            raise ValueError(f"row 0: {key!r} is not a column of the contract; give feature_meta")
    return features


def _row_cells(rows: Sequence[Row], name: str) -> list[Any]:
    cells = [row.get(name) for row in rows]
    for number, cell in enumerate(cells):
        if cell is None:
            raise ValueError(f"row {number} has no {name}")
    return cells


def _scalar_cells(rows: Sequence[Row], name: str, kind: type) -> Array:
    try:
        return _check_type(np.array(_row_cells(rows, name)), name, kind)
    except ValueError as error:  # lists of several lengths, or what `_typed` says
        raise ValueError(f"{name}: {error}" if name not in str(error) else str(error)) from error


def _list_cells(rows: Sequence[Row], name: str, kind: type) -> tuple[Array, Array]:
    """The elements of all rows, and each row's number of them."""
    cells = _row_cells(rows, name)
    for number, cell in enumerate(cells):
        if isinstance(cell, str | bytes) or not hasattr(cell, "__len__"):
            raise ValueError(f"row {number}: {name} is {type(cell).__name__}, not a list")
    sizes = np.fromiter(map(len, cells), np.int64, len(cells))
    return _check_type(np.array(list(chain.from_iterable(cells))), name, kind), sizes


def _check_type(array: Array, name: str, kind: type) -> Array:
    """The array as `kind`, if it holds numbers that are meant to be that."""
    if array.size and (array.dtype.kind not in _KINDS[kind] or array.ndim != 1):
        actual = array.dtype if array.ndim == 1 else "lists"
        raise ValueError(f"{name} holds {actual}, not numbers for {np.dtype(kind)}")
    typed: Array = array.reshape(-1).astype(kind)
    if array.dtype.kind == "u" and kind is np.int64 and (typed < 0).any():
        raise ValueError(f"{name} holds numbers beyond int64")
    return typed


_Cells = npt.NDArray[np.int64] | npt.NDArray[np.float32] | npt.NDArray[np.uint32]
_u = np.uint64  # of indices: numba asks of each signed one whether it counts from the end


@kernel
def gather_cells(values: _Cells, rows: npt.NDArray[np.int64], out: _Cells) -> None:
    """Copy the cells of rows."""
    for index in range(len(rows)):
        out[index] = values[_u(rows[index])]


@kernel
def measure_lists(
    offsets: npt.NDArray[np.int32], rows: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> None:
    """Write the lengths of the lists of rows."""
    for index in range(len(rows)):
        lengths[index] = offsets[_u(rows[index]) + _u(1)] - offsets[_u(rows[index])]


@kernel
def pad_lists(
    values: _Cells,
    offsets: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
    width: int,
    out: _Cells,
) -> None:
    """Copy the lists of rows, zeros behind each of them up to the width."""
    end = _u(0)
    for index in range(len(rows)):
        start, first = _u(offsets[_u(rows[index])]), end
        length = _u(offsets[_u(rows[index]) + _u(1)]) - start
        end = first + _u(width)
        for element in range(length):
            out[first + _u(element)] = values[start + _u(element)]
        for element in range(first + length, end):
            out[_u(element)] = 0  # the contract's PAD and PAD_VALUE


@kernel
def join_lists(
    values: _Cells, offsets: npt.NDArray[np.int32], rows: npt.NDArray[np.int64], out: _Cells
) -> int:
    """Copy the lists of rows one behind another; return the number of elements."""
    end = _u(0)
    for index in range(len(rows)):
        start = _u(offsets[_u(rows[index])])
        length = _u(offsets[_u(rows[index]) + _u(1)]) - start
        for element in range(length):
            out[end + _u(element)] = values[start + _u(element)]
        end += length
    return int(end)


@dataclass(frozen=True, kw_only=True)
class PackedBatch:
    """A batch whose tensors lie one behind another in two."""

    rows: int
    sizes: tuple[int, ...]  # of each multi-value feature Lmax; if jagged, the sum of its lengths
    entities: list[str]
    ints: Any
    floats: Any

    def pin_memory(self) -> "PackedBatch":
        """Return the same in page-locked memory; torch's pinning thread calls it."""
        return replace(self, ints=self.ints.pin_memory(), floats=self.floats.pin_memory())


@dataclass(frozen=True, kw_only=True)
class Form:
    """The form of batches: which features, in this order, and whether lists stay jagged."""

    features: tuple[StoredFeature, ...]
    jagged: bool = False

    def collate(self, selections: Sequence[Taken]) -> PackedBatch:
        """Make a batch of rows, without a Python object per row but in `entity_id`."""
        rows = sum(len(numbers) for _, numbers in selections)
        lengths = {
            one.name: _measure_feature(selections, one) for one in self.features if one.is_multi_hot
        }
        sizes = tuple(
            int(one.sum() if self.jagged else one.max(initial=0)) for one in lengths.values()
        )
        slots = self._slots(rows, sizes)
        blocks: dict[type, Array] = {
            kind: np.empty(sum(prod(one.shape) for one in slots if one.kind is kind), kind)
            for kind in _KINDS
        }
        stops = dict.fromkeys(_KINDS, 0)
        for slot in slots:
            start, stops[slot.kind] = stops[slot.kind], stops[slot.kind] + prod(slot.shape)
            out = blocks[slot.kind][start : stops[slot.kind]]
            if slot.key == "len":
                out[:] = lengths[slot.feature]
            elif slot.key == "offsets":
                out[0] = 0
                np.cumsum(lengths[slot.feature], out=out[1:])
            else:
                _fill(selections, slot, out)
        entities: list[str] = []
        for piece, numbers in selections:
            entities += piece.rows.column(ENTITY_ID).take(pa.array(numbers)).to_pylist()
        ints, floats = (_to_tensor(blocks[kind]) for kind in _KINDS)
        return PackedBatch(rows=rows, sizes=sizes, entities=entities, ints=ints, floats=floats)

    def unpack(self, packed: PackedBatch) -> Batch:
        """Return the batch; features are views of what was packed, labels have their own memory."""
        slots = self._slots(packed.rows, packed.sizes)
        views = {
            kind: iter(block.split([prod(one.shape) for one in slots if one.kind is kind]))
            for kind, block in zip(_KINDS, (packed.ints, packed.floats), strict=True)
        }
        lists = "jagged" if self.jagged else "multi"
        labels: Batch = {}
        features: Batch = {
            one.name: {"type": lists if one.is_multi_hot else "single"} for one in self.features
        }
        for slot in slots:
            tensor = next(views[slot.kind]).view(slot.shape)
            if slot.feature:
                features[slot.feature][slot.key] = tensor
            else:
                labels[slot.key] = tensor.clone()  # a label that is kept must not keep the batch
        for feature in features.values():
            feature.setdefault("val", None)
        labels[ENTITY_ID] = packed.entities
        return {"labels": labels, "features": features}

    def _slots(self, rows: int, sizes: tuple[int, ...]) -> list["_Slot"]:
        slots = [_Slot("", name, name, np.float32, (rows,)) for name in LABELS]
        slots.append(_Slot("", ROW_ID, ROW_ID, np.int64, (rows,)))
        coming = iter(sizes)
        for one in self.features:
            shape: tuple[int, ...] = (rows,)
            if one.is_multi_hot:
                shape = (next(coming),) if self.jagged else (rows, next(coming))
            slots.append(_Slot(one.name, "idx", one.columns[0], np.int64, shape))
            if one.is_multi_hot:
                slots.append(_Slot(one.name, "len", "", np.int64, (rows,)))
            if one.is_multi_hot and self.jagged:
                slots.append(_Slot(one.name, "offsets", "", np.int64, (rows + 1,)))
            if one.use_value:
                slots.append(_Slot(one.name, "val", one.columns[1], np.float32, shape))
        return slots


class _Slot(NamedTuple):
    """A tensor of a batch: of a feature, or a label where that is empty."""

    feature: str
    key: str
    column: str  # of the files; empty for what follows from others
    kind: type
    shape: tuple[int, ...]


def _measure_feature(selections: Sequence[Taken], feature: StoredFeature) -> Array:
    """Return the lengths of the lists of a feature, int64[rows]."""
    measured = [_measure_column(selections, name) for name in feature.columns]
    if any(not np.array_equal(measured[0], other) for other in measured[1:]):
        raise SourceError("", f"{feature.name}: lists of ids and values differ", _DAMAGED)
    return measured[0]


def _measure_column(selections: Sequence[Taken], column: str) -> Array:
    lengths = np.empty(sum(len(numbers) for _, numbers in selections), np.int64)
    start = 0
    for piece, numbers in selections:
        measure_lists(piece.cells[column][1], numbers, lengths[start : start + len(numbers)])
        start += len(numbers)
    return lengths


def _fill(selections: Sequence[Taken], slot: _Slot, out: Array) -> None:
    start = 0
    for piece, numbers in selections:
        values, offsets = piece.cells[slot.column]
        if offsets is None:
            gather_cells(values, numbers, out[start:])
            start += len(numbers)
        elif len(slot.shape) > 1:
            pad_lists(values, offsets, numbers, slot.shape[1], out[start:])
            start += len(numbers) * slot.shape[1]
        else:
            start += join_lists(values, offsets, numbers, out[start:])


def load_kernels() -> None:
    """Compile the kernels of batches, or load them from the cache, for all types of cells."""
    kinds = {"single": False, "multi": True}.items()
    features = tuple(
        StoredFeature(name=name, is_multi_hot=many, use_value=True) for name, many in kinds
    )
    for ids in ID_TYPES:
        nothing = Piece(pa.RecordBatch.from_pylist([], rows_schema(features, ids)))
        for jagged in (False, True):
            Form(features=features, jagged=jagged).collate([(nothing, np.arange(0))])
