"""Section 4 of the contract: the batch of rows and of columns against cells put down one by one."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
import torch

from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr import collate_fn
from ingot.converters.recsys.ctr.featuremap import FeatureMap
from ingot.converters.recsys.ctr.loader.collation import Form, feature_meta_of
from ingot.converters.recsys.ctr.loader.split_files import StoredFeature
from ingot.converters.recsys.ctr.loader.stored_rows import Piece, rows_schema
from tests.converters.recsys.ctr.stored import (
    FEATUREMAPS,
    FEATURES,
    assert_same,
    plain_batch,
    rows_of,
)

pytestmark = pytest.mark.more


def stored(features: FeatureMap) -> list[StoredFeature]:
    return [
        StoredFeature(name=one.name, is_multi_hot=one.is_multi_hot, use_value=one.use_value)
        for one in features.features
    ]


def columns(rows: list[dict[str, Any]], features: FeatureMap) -> Any:
    return pa.RecordBatch.from_pylist(rows, schema=rows_schema(stored(features)))


def collate_columns(source: Any, features: FeatureMap = FEATURES, **options: bool) -> Any:
    """The batch of all rows, on the way that a worker's takes."""
    form = Form(features=tuple(stored(features)), **options)
    packed = form.collate([(Piece(source), np.arange(source.num_rows))])
    return form.unpack(pickle.loads(pickle.dumps(packed)))


@given(FEATUREMAPS, st.integers(0, 12), st.integers(0, 1000))
def test_rows_columns_and_the_plain_way_agree(features: FeatureMap, count: int, seed: int) -> None:
    rows = rows_of(count, features=features, seed=seed)
    batch = plain_batch(rows, features)
    assert_same(collate_columns(columns(rows, features), features), batch)
    assert_same(collate_fn(rows, feature_meta_of(stored(features))), batch)
    if rows:
        assert_same(collate_fn(rows), batch)


@given(FEATUREMAPS, st.integers(0, 12), st.integers(0, 12))
def test_a_slice_of_columns_is_its_rows(features: FeatureMap, start: int, stop: int) -> None:
    rows = rows_of(12, features=features)
    sliced = columns(rows, features).slice(start, max(stop - start, 0))
    assert_same(collate_columns(sliced, features), plain_batch(rows[start:stop], features))


def test_the_structure_of_a_batch() -> None:
    rows = rows_of(2)
    rows[0] |= {"f1_110_14_idx": [5, 6, 7], "f1_110_14_val": [1.0, 0.5, 2.0]}
    rows[1] |= {"f1_110_14_idx": [1], "f1_110_14_val": [1.0]}
    batch = collate_fn(rows)
    assert list(batch["labels"]) == [
        *("y_ctr", "y_cvr", "y_ctcvr", "click_mask", "row_id", "entity_id")
    ]
    assert batch["labels"]["entity_id"] == ["é0", "é1"]
    multi = batch["features"]["f1_110_14"]
    assert multi["type"] == "multi"
    assert multi["idx"].tolist() == [[5, 6, 7], [1, 0, 0]]
    assert multi["val"].tolist() == [[1.0, 0.5, 2.0], [1.0, 0.0, 0.0]]
    assert multi["len"].tolist() == [3, 1]
    assert batch["features"]["f1_121"]["val"] is None
    assert batch["features"]["f0_210"]["val"] is None
    assert "len" not in batch["features"]["f0_508"]


def test_no_rows_make_empty_tensors() -> None:
    batch = collate_fn([], feature_meta_of(stored(FEATURES)))
    assert batch["labels"]["y_ctr"].shape == (0,)
    assert batch["labels"]["entity_id"] == []
    assert batch["features"]["f1_110_14"]["idx"].shape == (0, 0)
    assert batch["features"]["f1_110_14"]["val"].dtype == torch.float32
    assert collate_fn([])["features"] == {}


def test_jagged_lists() -> None:
    rows = rows_of(5)
    batch = collate_columns(columns(rows, FEATURES), jagged=True)
    padded = plain_batch(rows)
    jagged = batch["features"]["f1_110_14"]
    assert list(jagged) == ["type", "idx", "len", "offsets", "val"]
    assert jagged["type"] == "jagged"
    ids = [row["f1_110_14_idx"] for row in rows]
    assert jagged["idx"].tolist() == [one for row in ids for one in row]
    assert jagged["offsets"].tolist() == np.cumsum([0, *map(len, ids)]).tolist()
    assert_same(jagged["len"], padded["features"]["f1_110_14"]["len"])
    assert jagged["val"].dtype == torch.float32
    assert batch["features"]["f0_210"]["val"] is None
    assert_same(batch["features"]["f0_508"], padded["features"]["f0_508"])


def test_rows_may_hold_arrays() -> None:
    rows = rows_of(3)
    arrays = [
        {key: np.array(cell) if isinstance(cell, list) else cell for key, cell in row.items()}
        for row in rows
    ]
    assert_same(collate_fn(arrays), plain_batch(rows))


def test_feature_meta_says_which_features_and_values() -> None:
    meta = {"f0_508": {"is_multi_hot": False, "use_value": False}}
    batch = collate_fn(rows_of(2), meta)
    assert list(batch["features"]) == ["f0_508"]
    assert batch["features"]["f0_508"]["val"] is None


def test_tensors_own_their_memory() -> None:
    source = columns(rows_of(3), FEATURES)
    for jagged in (False, True):
        batch = collate_columns(source, jagged=jagged)
        ids = [feature["idx"] for feature in batch["features"].values()]
        for number, tensor in enumerate(ids):
            tensor.fill_(-number - 1)
        assert [set(tensor.flatten().tolist()) for tensor in ids] == [{-1}, {-2}, {-3}, {-4}]
    assert source.to_pylist() == rows_of(3)


def test_a_label_that_is_kept_does_not_keep_the_batch() -> None:
    labels = collate_columns(columns(rows_of(5), FEATURES))["labels"]
    assert labels["y_ctr"].untyped_storage().nbytes() == 5 * 4
    assert labels["row_id"].untyped_storage().nbytes() == 5 * 8


def test_rows_of_several_pieces_in_any_place() -> None:
    rows = rows_of(20)
    source, form = columns(rows, FEATURES), Form(features=tuple(stored(FEATURES)))
    numbers = np.array([1, 4, 5, 9])
    taken = [(Piece(source.slice(0, 10)), numbers), (Piece(source.slice(10)), numbers)]
    chosen = [rows[at + first] for first in (0, 10) for at in numbers.tolist()]
    assert_same(form.unpack(form.collate(taken)), plain_batch(chosen))


def test_ids_and_values_of_other_lengths_are_not_padded() -> None:
    lists = {"f1_110_14_idx": [2, 3], "f1_110_14_val": [1.0, 0.5]}
    piece = Piece(columns([row | lists for row in rows_of(2)], FEATURES))
    values, _ = piece.cells["f1_110_14_idx"]
    piece.cells["f1_110_14_idx"] = values, np.array([0, 1, 4], np.int32)
    with pytest.raises(SourceError, match=r"f1_110_14.*the cache is damaged"):
        Form(features=tuple(stored(FEATURES))).collate([(piece, np.arange(2))])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"y_cvr": None}, "row 1 has no y_cvr"),
        ({"f1_121_idx": None}, "row 1 has no f1_121_idx"),
        ({"f1_121_idx": 1.5}, "f1_121_idx holds float64, not numbers for int64"),
        ({"f1_121_idx": 2**63}, "f1_121_idx holds"),
        ({"f1_121_idx": [1]}, "f1_121_idx"),
        ({"f0_210_idx": 4}, "row 1: f0_210_idx is int, not a list"),
        ({"f0_210_idx": ["4"]}, "f0_210_idx holds"),
        ({"f0_210_idx": [None]}, "f0_210_idx holds object"),
        ({"f1_110_14_val": [1.0] * 9}, r"row 1: \d ids in f1_110_14_idx, 9 in f1_110_14_val"),
        ({"entity_id": 5}, "row 1: entity_id is int, not str"),
    ],
)
def test_cells_of_another_kind_are_refused(change: dict[str, Any], said: str) -> None:
    rows = rows_of(2)
    rows[1] |= change
    with pytest.raises(ValueError, match=said):
        collate_fn(rows)


def test_a_key_of_no_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="'weight' is not a column of the contract"):
        collate_fn([{**rows_of(1)[0], "weight": 1.0}])
    with pytest.raises(ValueError, match="does not say is_multi_hot"):
        collate_fn([], {"f0_1": {"use_value": True}})


def test_the_extra_is_named_where_torch_is_missing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from ingot.converters.recsys.ctr import (\n"
        "    ProcessedIterDataset, build_dataloader, collate_fn\n)\n"
        "from ingot.converters.errors import ConversionError\n"
        "for call in (lambda: ProcessedIterDataset('x'), lambda: build_dataloader('x'),\n"
        "             lambda: collate_fn([])):\n"
        "    try: call()\n"
        "    except ConversionError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "torch is not installed (pip install 'ingot[torch]')\n" * 3


def test_the_package_is_imported_without_torch() -> None:
    code = "import sys, ingot.converters.recsys.ctr; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
