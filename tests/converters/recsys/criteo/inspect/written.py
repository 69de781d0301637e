"""Folders as a run writes them, made of made-up raw rows by plain Python."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.recsys.criteo.contract import DENSE_NAMES, KEYS
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE


@dataclass(frozen=True)
class Raw:
    """Raw rows of a part; None is an empty field."""

    name: str
    labels: list[int]
    dense: list[list[int | None]]
    sparse: list[list[int | None]]


def draw(name: str, rows: int, seed: int) -> Raw:
    """Made-up rows; columns have from 2 to some 100 values."""
    rng = np.random.default_rng(seed)

    def hole(value: int) -> int | None:
        return None if rng.random() < 0.1 else value

    return Raw(
        name,
        [int(one) for one in rng.random(rows) < 0.2],
        [[hole(int(one)) for one in rng.geometric(0.1, DENSE) - 4] for _ in range(rows)],
        [
            [
                hole(int(rng.zipf(1.3) % (2 + 5 * k)) * 0x01234567 & 0xFFFFFFFF)
                for k in range(SPARSE)
            ]
            for _ in range(rows)
        ],
    )


def write(root: Path, parts: list[Raw], threshold: int = 0) -> Path:
    """Arrays, vocabularies and stats.json of the rows."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "vocab").mkdir(exist_ok=True)
    columns = [_column(root, at, parts, threshold) for at in range(SPARSE)]
    told = {
        "rows": sum(len(part.labels) for part in parts),
        "lines": sum(len(part.labels) for part in parts) + 3,
        "rejects": {"columns": 2, "sparse": 1},
        "parts": [_part(root, part, at, columns) for at, part in enumerate(parts)],
        "dense": [_dense(at, parts) for at in range(DENSE)],
        "sparse": [told for _, told in columns],
    }
    (root / "stats.json").write_text(json.dumps(told), encoding="utf-8")
    return root


def _column(
    root: Path, at: int, parts: list[Raw], threshold: int
) -> tuple[dict[int, int], dict[str, Any]]:
    cells = [row[at] for part in parts for row in part.sparse]
    counts = Counter(cell or 0 for cell in cells)  # in first-seen order
    ids, following = {}, 2
    for value, count in counts.items():
        ids[value] = following if count >= threshold else 1
        following += count >= threshold
    table = {
        "value": pa.array(list(counts), pa.uint32()),
        "id": pa.array(list(ids.values()), pa.int32()),
        "count": pa.array(list(counts.values()), pa.int64()),
    }
    pq.write_table(pa.table(table), root / f"vocab/{KEYS[at]}.parquet", row_group_size=7)
    rare = [value for value, id_ in ids.items() if id_ == 1]
    told = {
        "name": KEYS[at],
        "missing": cells.count(None),
        "distinct": len(counts),
        "vocabulary": len(counts),
        "rare": len(rare),
        "rare_rows": sum(counts[value] for value in rare),
        "max_id": max(ids.values(), default=1),
    }
    return ids, told


def _part(root: Path, raw: Raw, at: int, columns: list[tuple[dict[int, int], Any]]) -> Any:
    dense = np.array([[cell or 0 for cell in row] for row in raw.dense], np.int32)
    with np.errstate(all="ignore"):
        written = np.log(dense.reshape(-1, DENSE) + 3, dtype=np.float32)
    ids = [[columns[k][0][cell or 0] for k, cell in enumerate(row)] for row in raw.sparse]
    np.save(root / f"{raw.name}_dense.npy", written)
    np.save(root / f"{raw.name}_labels.npy", np.array(raw.labels, np.int32).reshape(-1, 1))
    np.save(root / f"{raw.name}_sparse.npy", np.array(ids, np.int32).reshape(-1, SPARSE))
    labels = Counter(raw.labels)
    return {
        "name": raw.name,
        "file": f"{raw.name}.gz",
        "lines": len(raw.labels) + 3 * (at == 0),
        "rows": len(raw.labels),
        "rejects": {"columns": 2, "sparse": 1} if at == 0 else {},
        "labels": {
            "0": labels[0],
            "1": labels[1],
            "other": len(raw.labels) - labels[0] - labels[1],
        },
        "nonfinite": int((~np.isfinite(written)).sum()),
        "dense_min": int(dense.min()) if len(dense) else None,
        "shuffled": at == 0,
    }


def _dense(at: int, parts: list[Raw]) -> dict[str, Any]:
    cells = [row[at] for part in parts for row in part.dense]
    values = [cell or 0 for cell in cells]
    return {
        "name": DENSE_NAMES[at],
        "missing": cells.count(None),
        "nonfinite": sum(value <= -3 for value in values),
        "min": min(values, default=None),
        "max": max(values, default=None),
        "sum": sum(values),
        "histogram": Counter(_bucket(value) for value in values),
    }


def _bucket(value: int) -> str:
    if value < 0:
        return "negative"
    return str(1 << value.bit_length() - 1) if value else "0"
