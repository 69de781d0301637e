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
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ingot.converters.recsys.ctr.contract import ENTITY_ID, LABELS, REQUIRED, ROW_ID
from ingot.converters.recsys.ctr.loader.split_files import StoredFeature
from ingot.converters.recsys.ctr.loader.stored_rows import list_lengths
from ingot.converters.recsys.training.environment import import_torch

Row = Mapping[str, Any]
Batch = dict[str, Any]
Array = npt.NDArray[Any]

_INDEX: Final = "_idx"
_VALUE: Final = "_val"
_KINDS: Final[dict[type, str]] = {np.int64: "iu", np.float32: "fiu"}


def collate_fn(
    rows: Sequence[Row], feature_meta: Mapping[str, Mapping[str, bool]] | None = None
) -> Batch:
    """The batch of rows as `ProcessedIterDataset` gives them.

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
    labels[ENTITY_ID] = _entity_texts(rows)
    return {
        "labels": labels,
        "features": {feature.name: _feature_of_rows(rows, feature) for feature in features},
    }


def collate_columns(
    columns: Any,  # noqa: ANN401
    features: Sequence[StoredFeature],
    *,
    jagged: bool = False,
) -> Batch:
    """The batch of a record batch, without a Python object per row but in `entity_id`."""
    labels: Batch = {name: _copy_to_tensor(columns.column(name)) for name in (*LABELS, ROW_ID)}
    labels[ENTITY_ID] = columns.column(ENTITY_ID).to_pylist()
    return {
        "labels": labels,
        "features": {one.name: _feature_of_columns(columns, one, jagged) for one in features},
    }


def _feature_of_columns(columns: Any, feature: StoredFeature, jagged: bool) -> Batch:  # noqa: ANN401
    cells = [columns.column(name) for name in feature.columns]
    if not feature.is_multi_hot:
        return {
            "type": "single",
            "idx": _copy_to_tensor(cells[0]),
            "val": _copy_to_tensor(cells[1]) if feature.use_value else None,
        }
    flat = [column.flatten().to_numpy() for column in cells]
    return _list_feature(
        flat[0], list_lengths(cells[0]), flat[1] if feature.use_value else None, jagged
    )


def _feature_of_rows(rows: Sequence[Row], feature: StoredFeature) -> Batch:
    index, value = f"{feature.name}{_INDEX}", f"{feature.name}{_VALUE}"
    if not feature.is_multi_hot:
        ids = _to_tensor(_scalar_cells(rows, index, np.int64))
        values = _to_tensor(_scalar_cells(rows, value, np.float32)) if feature.use_value else None
        return {"type": "single", "idx": ids, "val": values}
    ids, sizes = _list_cells(rows, index, np.int64)
    if not feature.use_value:
        return _list_feature(ids, sizes, None, False)
    floats, others = _list_cells(rows, value, np.float32)
    for row in np.flatnonzero(sizes != others)[:1]:
        raise ValueError(f"row {row}: {sizes[row]} ids in {index}, {others[row]} in {value}")
    return _list_feature(ids, sizes, floats, False)


def _list_feature(ids: Array, sizes: Array, values: Array | None, jagged: bool) -> Batch:
    """A multi-value feature from its flat ids, the lists' lengths and its flat values."""
    if jagged:
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return {
            "type": "jagged",
            "idx": _to_tensor(np.array(ids)),
            "len": _to_tensor(np.array(sizes)),
            "offsets": _to_tensor(offsets),
            "val": None if values is None else _to_tensor(np.array(values)),
        }
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


def _copy_to_tensor(column: Any) -> Any:  # noqa: ANN401
    """A tensor with memory of its own: Arrow's may be a file's."""
    return _to_tensor(np.array(column.to_numpy()))


def _to_tensor(array: Array) -> Any:  # noqa: ANN401
    return import_torch().from_numpy(array)


def feature_meta_of(features: Sequence[StoredFeature]) -> dict[str, dict[str, bool]]:
    """The features as `collate_fn` takes them."""
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
        found = array.dtype if array.ndim == 1 else "lists"
        raise ValueError(f"{name} holds {found}, not numbers for {np.dtype(kind)}")
    typed: Array = array.reshape(-1).astype(kind)
    if array.dtype.kind == "u" and kind is np.int64 and (typed < 0).any():
        raise ValueError(f"{name} holds numbers beyond int64")
    return typed


def _entity_texts(rows: Sequence[Row]) -> list[str]:
    texts = _row_cells(rows, ENTITY_ID)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"row {number}: {ENTITY_ID} is {type(text).__name__}, not str")
    return texts


Tensors = Mapping[Any, Any]


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a tensor lies: numbers from `start` of the block of its type."""

    kind: Any
    start: int
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A batch whose tensors lie in blocks."""

    batch: Any
    blocks: Tensors

    def pin_memory(self) -> "Packed":
        """The same in page-locked memory; torch's pinning thread calls it."""
        blocks = {kind: block.pin_memory() for kind, block in self.blocks.items()}
        return Packed(batch=self.batch, blocks=blocks)


def pack(batch: Any) -> Packed:  # noqa: ANN401
    """Pack dicts of dicts with tensors."""
    import torch

    parts: dict[Any, list[Any]] = {}
    ends: dict[Any, int] = {}

    def placed(one: Any) -> Any:  # noqa: ANN401
        if isinstance(one, dict):
            return {key: placed(value) for key, value in one.items()}
        if not isinstance(one, torch.Tensor):
            return one
        place = _Place(kind=one.dtype, start=ends.get(one.dtype, 0), shape=tuple(one.shape))
        parts.setdefault(one.dtype, []).append(one.reshape(-1))
        ends[one.dtype] = place.start + one.numel()
        return place

    template = placed(batch)
    return Packed(batch=template, blocks={kind: torch.cat(part) for kind, part in parts.items()})


def unpack(packed: Packed) -> Any:  # noqa: ANN401
    """The batch that was packed; its tensors are views of the blocks."""

    def unpacked(one: Any) -> Any:  # noqa: ANN401
        if isinstance(one, dict):
            return {key: unpacked(value) for key, value in one.items()}
        if not isinstance(one, _Place):
            return one
        return packed.blocks[one.kind][one.start : one.start + prod(one.shape)].view(one.shape)

    return unpacked(packed.batch)
