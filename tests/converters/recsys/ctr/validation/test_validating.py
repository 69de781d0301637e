"""validate: a folder that is right, and every rule broken in its turn."""

import json
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr import contract, featuremap
from ingot.converters.recsys.ctr.featuremap import FeatureMap
from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp
from ingot.converters.recsys.ctr.preprocess.job import build
from ingot.converters.recsys.ctr.validation import row_rules
from ingot.converters.recsys.ctr.validation.findings import (
    NUMBERS,
    RULES,
    BatchStart,
    Findings,
    Place,
    Report,
)
from ingot.converters.recsys.ctr.validation.processed_folder import find_folder
from ingot.converters.recsys.ctr.validation.row_rules import Entities, check_row_ids
from ingot.converters.recsys.ctr.validation.validator import validate
from tests.converters.recsys.ctr.planting import cast, cell, columns, document, rewrite, violations
from tests.converters.recsys.ctr.right import ROWS, TRAIN, VALID, list_files, make

GOLDEN = Path(__file__).parents[4] / "golden/ctr"


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, str] | None], Path]:
    """Right folders by the choices of their featuremap, made once."""
    made: dict[str, Path] = {}

    def folder(choices: dict[str, str] | None = None) -> Path:
        key = json.dumps(choices)
        if key not in made:
            made[key] = make(tmp_path_factory.mktemp("right") / "out", choices)
        return made[key]

    return folder


def broken(report: Report) -> dict[str, int]:
    return {one.rule.number: one.count for one in report.broken}


CASES = violations()
NAMES = [f"{one.rule}-{i}" for i, one in enumerate(CASES)]


@pytest.mark.parametrize("planted", CASES, ids=NAMES)
def test_a_planted_violation_is_found_where_it_is_and_nothing_else(planted, right, tmp_path):
    root = shutil.copytree(right(planted.choices), tmp_path / "out")
    planted.plant(root)
    if planted.rule != "R7.5":
        list_files(root)
    report = validate(root)
    assert set(broken(report)) == {planted.rule, *planted.follows}
    (verdict,) = (one for one in report.broken if one.rule.number == planted.rule)
    first = verdict.places[0]
    assert (first.file, first.column) == (planted.file, planted.column)
    assert planted.found in first.found
    if planted.row is not None:
        assert first.row == planted.row


def test_every_rule_is_broken_by_some_case():
    assert sorted({one.rule for one in CASES}) == sorted(NUMBERS)


@pytest.mark.parametrize(
    "choices",
    [
        None,
        {"click_mask": "exposed"},
        {"tail_ids": "contract"},
        {"funnel": "drop"},
        {"funnel": "coerce", "tail_ids": "contract", "click_mask": "exposed"},
    ],
)
def test_a_right_folder_breaks_no_rule_under_any_profile(choices, right):
    report = validate(right(choices))
    assert broken(report) == {}
    assert sum(report.rows.values()) <= ROWS
    passed = [one.rule.number for one in report.verdicts if one.state == "passed"]
    left = set(NUMBERS) - set(passed)
    assert left == ({"R1.7"} if "funnel" not in (choices or {}) else set())
    document = report.to_document()
    assert json.loads(json.dumps(document)) == document
    assert document["broken"] == []


def raw(root: Path) -> Aliccp:
    """The golden raw files, with lines that are rejected."""
    names = {"skeleton": "sample_skeleton_train.csv", "common": "common_features_train.csv"}
    odd = {"skeleton": b"7,2,0,abc,0,\n8,1\n", "common": b",0,\nno\n"}
    for role, name in names.items():
        (root / name).write_bytes((GOLDEN / name).read_bytes() + odd[role])
    return Aliccp(**{role: str(root / name) for role, name in names.items()})


@pytest.mark.more
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"click_mask": "exposed", "tail_ids": "contract", "funnel": "coerce"},
        {"funnel": "drop"},
        {"train_ratio": 1.0},
        {"train_ratio": 0.5, "split_seed": 3, "hash_seed": 5},
    ],
)
def test_what_the_build_writes_is_right(choices, tmp_path):
    wanted = replace(featuremap.load(GOLDEN / "featuremap_small.yaml"), **choices)
    inputs = raw(tmp_path)
    build(inputs, wanted, tmp_path / "first")
    report = validate(tmp_path / "first")
    assert {one.rule.number: one.places for one in report.broken} == {}
    stats = json.loads((tmp_path / "first/stats.json").read_bytes())
    assert (stats["rows"]["rejected"], sum(stats["common_rejects"].values())) == (2, 2)
    other = replace(wanted, split_seed=8, train_ratio=0.6)
    build(inputs, other, tmp_path / "second", vocab=tmp_path / "first")
    assert {one.rule.number: one.places for one in validate(tmp_path / "second").broken} == {}


def golden(root: Path, *, kind: pa.DataType | None) -> Path:
    for split in contract.SPLITS:
        table = pq.read_table(GOLDEN / f"upstream_fullrank_{split}.parquet")
        for at, name in enumerate(contract.LABELS if kind else ()):
            table = table.set_column(at, name, table[name].cast(kind))
        (root / split).mkdir(parents=True)
        pq.write_table(table, root / split / "part-00000.parquet")
    return root


def test_files_of_the_public_project_break_the_type_of_the_labels_and_nothing_else(tmp_path):
    given = featuremap.load(GOLDEN / "featuremap_small.yaml")
    report = validate(golden(tmp_path / "as", kind=None), given=given)
    assert broken(report) == {"R1.2": 8}
    report = validate(golden(tmp_path / "cast", kind=pa.float32()), given=given)
    assert broken(report) == {}
    assert report.rows == {"train": 1226, "valid": 274}
    assert report.profile is None
    assert "no profile" in report.notes[0]
    skipped = {one.rule.number for one in report.verdicts if one.state == "not checked"}
    assert skipped == {one.number for one in RULES if one.decided} | {"R7.1"}


def test_files_of_the_public_project_hold_to_the_decisions_too(tmp_path):
    """With a profile beside them: all that the files alone can show."""
    root = golden(tmp_path / "out", kind=pa.float32())
    shutil.copy(GOLDEN / "featuremap_small.yaml", root / "featuremap.yaml")
    for file in (TRAIN, VALID):
        columns(lambda table: table.replace_schema_metadata({"ingot.ctr": "{}"}), file)(root)
    report = validate(root)
    assert set(broken(report)) == {"R7.3", "R7.4", "R7.5"}  # that project writes none of them


def test_without_a_featuremap_labels_alone_are_looked_at(right, tmp_path):
    root = shutil.copytree(right(None), tmp_path / "out")
    (root / "featuremap.yaml").unlink()
    cell("f0_3_idx", 4, 0)(root)
    cell("y_ctr", 4, 3.0)(root)
    list_files(root)
    report = validate(root)
    assert set(broken(report)) == {"R1.4", "R7.1"}
    assert {one.why for one in report.verdicts if one.rule.number in ("R3.4", "R1.11")} == {
        "no featuremap"
    }


def test_types_that_parquet_does_not_tell_apart_are_right(right, tmp_path):
    root = shutil.copytree(right(None), tmp_path / "out")
    cast("entity_id", pa.large_string())(root)
    cast("f1_5_idx", pa.large_list(pa.int64()))(root)
    columns(lambda t: t.set_column(5, "entity_id", t["entity_id"].dictionary_encode()), VALID)(root)
    list_files(root)
    assert broken(validate(root)) == {}


def test_an_entity_that_is_no_utf8(right, tmp_path):
    root = shutil.copytree(right(None), tmp_path / "out")
    table = pq.read_table(root / TRAIN)
    texts = [one.encode() for one in table["entity_id"].to_pylist()]
    texts[3] = b"\xff"
    raw = pa.array(texts, pa.binary())
    bad = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    pq.write_table(table.set_column(5, "entity_id", bad), root / TRAIN)
    report = validate(root)
    (verdict,) = (one for one in report.broken if one.rule.number == "R1.3")
    assert verdict.places == (
        Place(file=TRAIN, row=3, column="entity_id", found="no UTF-8: b'\\xff'"),
    )


def test_places_are_bounded_and_counts_are_not(right, tmp_path):
    root = shutil.copytree(right(None), tmp_path / "out")

    def zero(told: dict[str, list[Any]]) -> None:
        told["f0_3_idx"] = [0] * len(told["f0_3_idx"])

    rewrite(root / TRAIN, zero)
    report = validate(root, max_shown=2)
    (verdict,) = (one for one in report.broken if one.rule.number == "R3.4")
    assert (verdict.count, len(verdict.places)) == (report.rows["train"], 2)


def test_several_files_and_small_row_groups_are_one_split(right, tmp_path):
    root = shutil.copytree(right(None), tmp_path / "out")
    table = pq.read_table(root / TRAIN)
    pq.write_table(table.slice(0, 10), root / TRAIN, row_group_size=3)
    pq.write_table(table.slice(10), root / "train/part-00001.parquet", row_group_size=5)
    list_files(root)
    assert broken(validate(root)) == {}
    cell("f0_3_idx", 2, 0, "train/part-00001.parquet")(root)
    (verdict,) = (one for one in validate(root).broken if one.rule.number == "R3.4")
    assert (verdict.places[0].file, verdict.places[0].row) == ("train/part-00001.parquet", 2)


@pytest.mark.parametrize("per_pass", [3, 50, 10**6])
def test_row_ids_are_compared_in_bounded_passes(tmp_path, per_pass):
    rng = np.random.default_rng(5)
    ids = rng.permutation(np.concatenate([np.arange(0, 4000, 4), np.arange(-9, -3)]))
    ids[[7, 400, 900]] = ids[3], ids[3], ids[800]
    halves = {"train": ids[:500], "valid": ids[500:]}
    for split, some in halves.items():
        (tmp_path / split).mkdir()
        pq.write_table(pa.table({"row_id": some}), tmp_path / split / "a.parquet")
    found = Findings(max_shown=10)
    check_row_ids(find_folder(tmp_path).all_parts, found, per_pass)
    assert found.counts["R1.8"] == 3
    places = {(one.file, one.row) for one in found.places["R1.8"]}
    assert places == {("train/a.parquet", 7), ("train/a.parquet", 400), ("valid/a.parquet", 400)}


@pytest.mark.parametrize("per_pass", [3, 50, 10**6])
def test_entities_are_compared_in_bounded_passes(tmp_path, per_pass):
    names = {
        "train": [f"u{n}" for n in range(900)] * 2,
        "valid": ["v", None, *(f"u{n}" for n in range(890, 950)), "u3"],
    }
    entities = Entities(featuremap=FeatureMap(features=()), findings=Findings(), per_pass=per_pass)
    for split, texts in names.items():
        (tmp_path / split).mkdir()
        column = pa.array(texts, pa.string())
        pq.write_table(pa.table({"entity_id": column}), tmp_path / split / "a.parquet")
        entities.check(split, column.cast(pa.binary()), BatchStart(file=split, row=0))
    entities.check_splits(find_folder(tmp_path).all_parts)
    assert entities.distinct == {"train": 900, "valid": 62}
    assert entities.found.counts["R1.10"] == 11
    rows = {one.row for one in entities.found.places["R1.10"]}
    assert len(rows) == 3
    assert rows <= {*range(2, 12), 62}


@pytest.mark.more
def test_memory_does_not_follow_the_number_of_entities_or_repeated_ids(tmp_path, monkeypatch):
    monkeypatch.setattr(row_rules, "_BATCH", 1 << 11)
    entities = Entities(featuremap=FeatureMap(features=()), findings=Findings(), per_pass=1 << 12)
    (tmp_path / "train").mkdir()
    for name in ("a", "b"):
        table = pa.table({"row_id": np.arange(100_000)})
        pq.write_table(table, tmp_path / f"train/{name}.parquet")
    tracemalloc.start()
    for first in range(0, 100_000, 1 << 11):
        column = pa.array([b"%d" % n for n in range(first, first + (1 << 11))])
        entities.check("train", column, BatchStart(file="a", row=first))
    entities.check_splits(())
    check_row_ids(find_folder(tmp_path).all_parts, entities.found, 1 << 14)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert entities.found.counts["R1.8"] == 100_000
    assert peak < 1_000_000


def test_reused_vocabularies_are_not_held_against_the_statistics(right, tmp_path):
    root = shutil.copytree(right(None), tmp_path / "out")
    document("stats.json", lambda s: s["vocab"]["f0_1"].update(distinct=1, kept=1))(root)
    list_files(root)
    assert set(broken(validate(root))) == {"R7.4"}
    document("manifest.json", lambda m: m.update(vocab_sha256="0" * 64))(root)
    assert broken(validate(root)) == {}


def test_what_is_no_processed_folder(tmp_path):
    with pytest.raises(SourceError, match="no such folder"):
        validate(tmp_path / "nothing")
    with pytest.raises(SourceError, match="neither train/ nor valid/"):
        validate(tmp_path)


ODD = {
    "struct": pa.array([{"a": 1}] * 9),
    "decimal": pa.array([1] * 9).cast(pa.decimal128(20, 0)),
    "nested": pa.array([[[1]]] * 9),
    "null": pa.nulls(9),
    "text": pa.array(["x"] * 9),
    "time": pa.array([1] * 9, pa.timestamp("us")),
    "uint64": pa.array([2**63 + 5] * 9, pa.uint64()),
    "fractions": pa.array([1.5] * 9),
    "map": pa.array([[("a", 1)]] * 9, pa.map_(pa.string(), pa.int64())),
    "texts": pa.array([["x"]] * 9),
    "nulls": pa.array([[None]] * 9),
}


@pytest.mark.parametrize("name", ["y_ctr", "row_id", "entity_id", "f1_5_idx"])
@pytest.mark.parametrize("odd", ODD)
def test_any_type_of_a_column_is_a_finding(right, tmp_path, name, odd):
    root = shutil.copytree(right(None), tmp_path / "out")
    table = pq.read_table(root / TRAIN).slice(0, 9)
    at = table.schema.names.index(name)
    pq.write_table(table.set_column(at, name, ODD[odd]), root / TRAIN)
    expected = {"y_ctr": "R1.2", "row_id": "R1.3", "entity_id": "R1.3"}.get(name)
    scalar = not pa.types.is_list(ODD[odd].type) and name.startswith("f1")
    expected = expected or ("R2.4" if scalar or name[:2] == "f0" else "R2.5")
    found = broken(validate(root))
    if odd == "text" and name == "entity_id":
        assert "R1.3" not in found
    else:
        assert {expected, "R2.5"} & set(found)


@pytest.mark.more
def test_damaged_files_never_end_the_look(right, tmp_path):
    root = shutil.copytree(right(None), tmp_path / "out")
    files = sorted(path for path in root.rglob("*") if path.is_file())
    rng = np.random.default_rng(11)
    for _ in range(25):
        path = files[rng.integers(len(files))]
        whole = path.read_bytes()
        damaged = bytearray(whole)
        for at in rng.integers(len(whole), size=3):
            damaged[at] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        assert validate(root).broken
        path.write_bytes(whole)
