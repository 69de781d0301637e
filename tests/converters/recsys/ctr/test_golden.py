"""The golden set: what the public project made of the same raw files, cell by cell."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ingot.converters.output.identity import CommittedResult
from ingot.converters.recsys.ctr.featuremap import FeatureMap, load
from tests.converters.recsys.ctr.reference import Builder
from tests.converters.recsys.ctr.test_reference import check_folder

SPLITS = ("train", "valid")
LABELS = ("y_ctr", "y_cvr", "y_ctcvr", "click_mask")
MULTI = ("f1_110_14", "f0_210", "f1_127_14", "f1_150_14", "f1_109_14", "f0_853")


@pytest.fixture(scope="module")
def featuremap(golden: Path) -> FeatureMap:
    return load(golden / "featuremap_small.yaml")


@pytest.fixture(scope="module")
def upstream(golden: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((golden / "upstream_fullrank_metadata.json").read_bytes())
    return document


@pytest.fixture(scope="module", params=SPLITS)
def split(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read(folder: Path, split: str) -> pa.Table:
    return pq.read_table(folder / split)


def test_every_cell(golden: Path, golden_build: CommittedResult, split: str) -> None:
    ours = read(golden_build.out, split).to_pydict()
    theirs = pq.read_table(golden / f"upstream_fullrank_{split}.parquet").to_pydict()
    assert sorted(ours) == sorted(theirs)
    # The order of the rows and that of every list count.
    different = {name: ours[name] != theirs[name] for name in theirs}
    assert not any(different.values()), different


def bits(column: pa.ChunkedArray) -> list[int]:
    """The values of a column, lists one after the other, as bits: -0.0 is not 0.0."""
    flat = pc.list_flatten(column) if pa.types.is_list(column.type) else column
    numbers: list[int] = flat.to_numpy().astype(np.float32).view(np.uint32).tolist()
    return numbers


def test_every_value_has_its_bits(golden: Path, golden_build: CommittedResult, split: str) -> None:
    ours = read(golden_build.out, split)
    theirs = pq.read_table(golden / f"upstream_fullrank_{split}.parquet")
    values = [name for name in ours.column_names if name.endswith("_val")]
    assert {name: bits(ours[name]) for name in values} == {
        name: bits(theirs[name]) for name in values
    }
    if split == "train":
        assert 1 << 31 in {number for name in values for number in bits(ours[name])}


def test_types_are_the_contracts(golden: Path, golden_build: CommittedResult, split: str) -> None:
    schema = pq.read_schema(golden_build.out / split / "part-00000.parquet")
    assert schema.names[:6] == [*LABELS, "row_id", "entity_id"]
    assert [schema.field(name).type for name in LABELS] == [pa.float32()] * 4
    assert schema.field("row_id").type == pa.int64()
    assert schema.field("entity_id").type == pa.string()
    for name in schema.names[6:]:
        wanted = pa.int64() if name.endswith("_idx") else pa.float32()
        multi = name.removesuffix("_idx").removesuffix("_val") in MULTI
        found = schema.field(name).type
        assert (found.value_type if multi else found) == wanted, name
        assert pa.types.is_list(found) == multi
    theirs = pq.read_schema(golden / f"upstream_fullrank_{split}.parquet")
    features = [name for name in theirs.names if name[0] == "f"]
    assert sorted(schema.names[6:]) == sorted(features)


def test_order_of_columns_and_rows(
    featuremap: FeatureMap, golden_build: CommittedResult, split: str
) -> None:
    table = read(golden_build.out, split)
    columns = []
    for feature in featuremap.features:
        columns += [f"{feature.name}_idx"] + [f"{feature.name}_val"] * feature.use_value
    assert table.column_names[6:] == columns
    rows = table["row_id"].to_pylist()
    assert rows == sorted(rows)
    assert sum(column.null_count for column in table.columns) == 0


def test_splits_share_no_entity_and_miss_no_row(golden_build: CommittedResult) -> None:
    tables = [read(golden_build.out, split) for split in SPLITS]
    rows = [row for table in tables for row in table["row_id"].to_pylist()]
    assert sorted(rows) == list(range(1500))
    train, valid = (set(table["entity_id"].to_pylist()) for table in tables)
    assert not train & valid


def test_metadata_holds_the_profile(golden_build: CommittedResult, split: str) -> None:
    metadata = pq.read_schema(golden_build.out / split / "part-00000.parquet").metadata
    profile = {"click_mask": "clicked", "funnel": "keep", "tail_ids": "disjoint"}
    assert json.loads(metadata[b"ingot.ctr"]) == {**profile, "schema_version": 2}


def test_vocabularies(golden: Path, featuremap: FeatureMap, golden_build: CommittedResult) -> None:
    document = json.loads((golden / "upstream_fullrank_vocab.json").read_bytes())
    assert sorted(document["fields"]) == sorted(one.name for one in featuremap.features)
    for feature in featuremap.features:
        table = pq.read_table(golden_build.out / f"vocab/{feature.name}.parquet").to_pydict()
        theirs = document["fields"][feature.name]
        assert {token: rank for rank, token in enumerate(table["token"])} == theirs["freq_rank"]
        size = feature.vocab_num_tokens or 0
        head = dict(zip(table["token"][:size], range(3, 3 + size), strict=False))
        ids = dict(zip(table["token"], table["id"], strict=True))
        if feature.name != "f1_124":  # its vocabulary was made longer there, see the golden README
            assert {token: 3 + rank for token, rank in (theirs["vocab"] or {}).items()} == head
        assert {token: ids[token] for token in head} == head
        assert table["count"] == sorted(table["count"], reverse=True)


def test_counts_of_rows(
    upstream: dict[str, Any], golden_build: CommittedResult, split: str
) -> None:
    ours, theirs = golden_build.stats["splits"][split], upstream["split_stats"][split]
    assert ours["rows"] == upstream["rows"][split] == theirs["rows"]
    assert ours["y_ctr"] / ours["rows"] == pytest.approx(theirs["ctr"])
    assert ours["y_cvr"] / ours["rows"] == pytest.approx(theirs["cvr"])
    assert ours["funnel_anomalies"] == theirs["funnel_anomaly"]
    assert golden_build.stats["entities"][split] == theirs["unique_entity"]


def test_counts_of_features(
    upstream: dict[str, Any], featuremap: FeatureMap, golden_build: CommittedResult, split: str
) -> None:
    """What both count.

    That project's `strategy_cnt_*`, `nan_inf_tokens` and `retained_frac` have no counterpart by
    feature: stats.json has `not_finite` of the files, and `distinct_before` and `value_kept`.
    """
    for feature in featuremap.features:
        ours = golden_build.stats["splits"][split]["features"][feature.name]
        theirs = upstream["field_stats"][split][feature.name]
        assert ours["missing"] == theirs["missing"]
        assert golden_build.stats["splits"][split]["rows"] - ours["missing"] == theirs["token_rows"]
        assert ours["oov"] == theirs["oov"]
        assert ours["tail"] == theirs["tail_fallback"]
        if feature.is_multi_hot:
            assert ours["tokens"] + ours["missing"] == theirs["len_sum"]
        if split == "train":
            occurrences = golden_build.stats["vocab"][feature.name]["occurrences"]
            assert occurrences == theirs["total_tokens"]
        ids = read(golden_build.out, split)[f"{feature.name}_idx"].combine_chunks()
        largest = pc.max(ids.flatten() if feature.is_multi_hot else ids).as_py()
        assert largest == theirs["max_idx"] < feature.num_embeddings()


def test_sizes_of_embeddings(upstream: dict[str, Any], featuremap: FeatureMap) -> None:
    ours = {one.name: one.num_embeddings() for one in featuremap.features}
    assert ours == {**upstream["total_num_embeddings"], "f1_124": 7}


def test_counts_of_files(golden_build: CommittedResult) -> None:
    stats = golden_build.stats
    assert stats["rows"] == {
        "read": 1500,
        "train": 1226,
        "valid": 274,
        "rejected": 0,
        "dropped": 0,
    }
    entities = stats["entities"]
    assert (entities["rows_of_common"], entities["repeated"], entities["unknown"]) == (147, 1, 4)


def test_malformed_tokens(golden: Path, golden_build: CommittedResult) -> None:
    """The 403 of the golden README: there a line of common features counts once per row."""
    skeleton = (golden / "sample_skeleton_train.csv").read_bytes().splitlines()
    common = (golden / "common_features_train.csv").read_bytes().splitlines()
    lists = {line.split(b",", 2)[0]: line.split(b",", 2)[2] for line in common}
    served = Counter(line.split(b",", 5)[3] for line in skeleton)
    own = [(line.split(b",", 5)[5], 1) for line in skeleton]
    shared = [(lists[entity], rows) for entity, rows in served.items() if entity in lists]
    by_row, by_line = malformed(own + shared), malformed(own + all_of(common))
    assert by_row == {"no_id": 102, "no_value": 79, "bad_number": 222}
    assert by_line == {name: golden_build.stats["tokens"][name] for name in by_line}


def all_of(common: list[bytes]) -> list[tuple[bytes, int]]:
    return [(line.split(b",", 2)[2], 1) for line in common]


def malformed(lists: list[tuple[bytes, int]]) -> dict[str, int]:
    """Dropped tokens of lists, each list counted so often."""
    counts: Counter[str] = Counter()
    for tokens, times in lists:
        for piece in filter(None, tokens.split(b"\x01")):
            kind = kind_of(piece)
            if kind:
                counts[kind] += times
    return dict(counts)


def kind_of(piece: bytes) -> str | None:
    rest = piece.partition(b"\x02")[2]
    if b"\x02" not in piece:
        return "no_id"
    if b"\x03" not in rest:
        return "no_value"
    try:
        float(rest.partition(b"\x03")[2])
    except ValueError:
        return "bad_number"
    return None


@pytest.mark.more
def test_the_plain_rules_say_the_same(
    golden: Path, featuremap: FeatureMap, golden_build: CommittedResult
) -> None:
    """The reference of the other tests is held to the golden set too, statistics included."""
    skeleton = (golden / "sample_skeleton_train.csv").read_bytes()
    common = (golden / "common_features_train.csv").read_bytes()
    expected = Builder(skeleton, common, featuremap).expected()
    check_folder(golden_build.out, expected, featuremap)
