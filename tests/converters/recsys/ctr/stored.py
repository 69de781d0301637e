"""Processed splits to read in tests, and the batch of rows put together the plain way."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from ingot.converters.recsys.ctr.contract import processed_schema
from ingot.converters.recsys.ctr.featuremap import HASH, Feature, FeatureMap
from ingot.converters.recsys.ctr.loader.stored_rows import CachedRows, ParquetRows, RowReader
from ingot.converters.recsys.training.batch_order import RowSequence

if TYPE_CHECKING:
    import torch

Row = dict[str, Any]
FEATURES = FeatureMap(
    features=(
        Feature(name="f0_508", src=0, field="508", encoding=HASH, hash_bucket=50, use_value=True),
        Feature(name="f1_121", src=1, field="121", encoding=HASH, hash_bucket=50),
        Feature(
            name="f1_110_14",
            src=1,
            field="110_14",
            encoding=HASH,
            hash_bucket=50,
            max_len=6,
            use_value=True,
        ),
        Feature(name="f0_210", src=0, field="210", encoding=HASH, hash_bucket=50, max_len=4),
    )
)


def _made(number: int, max_len: int | None, use_value: bool) -> Feature:
    return Feature(
        name=f"f0_{number}",
        src=0,
        field=str(number),
        encoding=HASH,
        hash_bucket=9,
        max_len=max_len,
        use_value=use_value,
    )


FEATUREMAPS = st.lists(
    st.tuples(st.none() | st.integers(1, 9), st.booleans()), min_size=1, max_size=6
).map(lambda kinds: FeatureMap(features=tuple(_made(n, *kind) for n, kind in enumerate(kinds))))
"""Featuremaps of all kinds of features."""


def rows_of(count: int, *, features: FeatureMap = FEATURES, seed: int = 0) -> list[Row]:
    """Rows of the contract with random cells, row_id 10, 11, ..."""
    rng = np.random.default_rng(seed)
    return [_row(number, features, rng) for number in range(count)]


def _row(number: int, features: FeatureMap, rng: np.random.Generator) -> Row:
    row: Row = {name: float(rng.integers(2)) for name in ("y_ctr", "y_cvr", "y_ctcvr")}
    row |= {"click_mask": row["y_ctr"], "row_id": number + 10, "entity_id": f"é{number % 7}"}
    for feature in features.features:
        size = int(rng.integers(1, (feature.max_len or 1) + 1))
        ids = rng.integers(1, 1 << 40, size).tolist()
        values = rng.standard_normal(size).astype(np.float32).tolist()
        row[f"{feature.name}_idx"] = ids if feature.is_multi_hot else ids[0]
        if feature.use_value:
            row[f"{feature.name}_val"] = values if feature.is_multi_hot else values[0]
    return row


def write_split(
    folder: Path,
    rows: Sequence[Row],
    *,
    features: FeatureMap = FEATURES,
    files: int = 1,
    group: int = 7,
    schema: pa.Schema | None = None,
) -> Path:
    """Write rows as a split of so many files with row groups of `group` rows."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = processed_schema(features) if schema is None else schema
    for number in range(files):
        part = rows[len(rows) * number // files : len(rows) * (number + 1) // files]
        table = pa.Table.from_pylist(list(part), schema=schema)
        pq.write_table(table, folder / f"part-{number:05d}.parquet", row_group_size=group)
    return folder


def stored_rows(
    source: ParquetRows | CachedRows, sequence: RowSequence, start: int, stop: int
) -> list[Row]:
    """The rows at positions start..stop-1 of a sequence."""
    parts = RowReader(source, sequence).parts(start, stop)
    pieces = [piece.rows.slice(first, end - first).to_pylist() for piece, first, end in parts]
    return list(chain.from_iterable(pieces))


def plain_batch(rows: Sequence[Row], features: FeatureMap = FEATURES) -> dict[str, Any]:
    """Section 4 of the contract, cell by cell."""
    import torch

    labels: dict[str, Any] = {
        name: torch.tensor([row[name] for row in rows], dtype=torch.float32)
        for name in ("y_ctr", "y_cvr", "y_ctcvr", "click_mask")
    }
    labels["row_id"] = torch.tensor([row["row_id"] for row in rows], dtype=torch.int64)
    labels["entity_id"] = [row["entity_id"] for row in rows]
    return {
        "labels": labels,
        "features": {one.name: _plain(rows, one) for one in features.features},
    }


def _plain(rows: Sequence[Row], feature: Feature) -> dict[str, Any]:
    import torch

    ids = [row[f"{feature.name}_idx"] for row in rows]
    values = [row[f"{feature.name}_val"] for row in rows] if feature.use_value else None
    if not feature.is_multi_hot:
        val = None if values is None else torch.tensor(values, dtype=torch.float32)
        return {"type": "single", "idx": torch.tensor(ids, dtype=torch.int64), "val": val}
    longest = max(map(len, ids), default=0)
    return {
        "type": "multi",
        "idx": _filled(ids, 0, longest, torch.int64),
        "len": torch.tensor([len(one) for one in ids], dtype=torch.int64),
        "val": None if values is None else _filled(values, 0.0, longest, torch.float32),
    }


def _filled(
    lists: list[list[Any]], pad: float, longest: int, kind: "torch.dtype"
) -> "torch.Tensor":
    import torch

    rows = [[*one, *[pad] * (longest - len(one))] for one in lists]
    return torch.tensor(rows, dtype=kind).reshape(len(lists), longest)


def assert_same(one: Any, other: Any) -> None:
    """Equal in keys and their order, types, shapes, dtypes and every value, bit by bit."""
    import torch

    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.numpy().tobytes() == other.numpy().tobytes()
    else:
        assert one == other


def row_ids(batches: Any) -> list[list[int]]:
    """The row ids of each batch."""
    return [batch["labels"]["row_id"].tolist() for batch in batches]
