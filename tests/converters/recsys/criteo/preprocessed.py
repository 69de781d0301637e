"""Runs of preprocessing, and what they wrote, against the reference."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.output.identity import CommittedResult
from ingot.converters.recsys.criteo.contract import KEYS
from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs
from ingot.converters.recsys.criteo.preprocess.job import preprocess
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from tests.converters.recsys.criteo.reference import Raw, Result, Vocabulary

GOLDEN = Path(__file__).parents[3] / "golden/criteo"


def write(folder: Path, parts: Iterable[Raw]) -> Path:
    """Raw files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        (folder / part.file).write_bytes(part.content)
    return folder


def run(raw: Path, out: Path, **settings: Any) -> CommittedResult:
    settings = {"accept_unseen": True, **settings}  # the values are of chance
    return preprocess(find_inputs(str(raw)), Settings(**settings), out)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a result but run.json."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "run.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def arrays(folder: Path) -> dict[str, NDArray[Any]]:
    return {path.name: np.load(path) for path in folder.glob("*.npy")}


def vocabularies(folder: Path) -> list[Vocabulary]:
    tables = [pq.read_table(folder / f"vocab/{key}.parquet") for key in KEYS]
    return [
        {row["value"]: (row["id"], row["count"]) for row in table.to_pylist()} for table in tables
    ]


def next_ids(folder: Path) -> list[int]:
    metadata = [pq.read_metadata(folder / f"vocab/{key}.parquet").metadata for key in KEYS]
    return [json.loads(one[b"ingot.criteo"])["next_id"] for one in metadata]


def rejects(folder: Path) -> list[dict[str, Any]]:
    path = folder / "rejects.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check(folder: Path, expected: Result) -> None:
    """Hold every file of a result to the reference."""
    there = arrays(folder)
    assert there.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        assert same_bits(there[name], array), name
    found = vocabularies(folder)
    for at, vocabulary in enumerate(expected.vocabularies):
        assert list(found[at].items()) == list(vocabulary.items()), KEYS[at]
    assert next_ids(folder) == expected.next_ids
    assert rejects(folder) == expected.rejects
    assert json.loads((folder / "stats.json").read_bytes()) == expected.stats


def same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Equal shapes, types and bytes; NaN is NaN."""
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )
