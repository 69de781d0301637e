"""catalog.parquet as programs read it."""

import dataclasses

import pyarrow.parquet as pq
import pytest

from ingot.converters.json_yaml import encode
from ingot.converters.lake.catalog import SCHEMA, SetFacts, SetFigures, Split, write_catalog
from ingot.converters.lake.page import lake_totals
from tests.converters.lake.lakes import lake

FULL = SetFacts(
    name="wiki",
    place="wiki",
    status="converted",
    decision="pt",
    mapper="rules",
    confidence=0.9,
    coverage=1.0,
    format="jsonl",
    files=2,
    bytes=100,
    left_out=({"name": "README.md", "why": "auxiliary file"},),
    left_out_count=1,
    rows={"read": 10, "converted": 7, "rejected": 2, "filtered": 1},
    records={"written": 7, "rejected": 2, "filtered": 1, "duplicates": 0, "ragged": 0},
    rejects={"missing": 2},
    tokens=70,
    figures=SetFigures(
        records=7, characters=70, lengths={8: 7}, languages={"": 1, "zh": 6}, heard={"zh": 7}
    ),
    across=3,
    overlaps={"b": 1, "a": 3},
    splits=(Split(name="train", records=4, duplicates=3, tokens=40),),
    spent={"calls": 1, "chars_sent": 900, "tokens_in": 300, "tokens_out": 50, "cost": None},
    card={"file": "README.md", "license": "mit", "languages": ["zh"]},
    mapping={"version": 2, "text": "t"},
    mapping_file="mappings/wiki.json",
    result="sets/wiki",
    fingerprint="f",
)
BARE = SetFacts(name="broken\u202e<b>", place="a\nb", status="failed", why="cut off")


def test_every_fact_can_be_read_back(tmp_path):
    write_catalog([FULL, BARE], tmp_path / "catalog.parquet")
    bare, full = pq.read_table(tmp_path / "catalog.parquet").to_pylist()
    assert full["rows"] == FULL.rows
    assert full["records"] == FULL.records
    assert dict(full["rejects"]) == {"missing": 2}
    assert dict(full["lengths"]) == {8: 7}
    assert dict(full["languages"]) == {"": 1, "zh": 6}
    assert full["overlaps"] == [("a", 3), ("b", 1)]
    assert full["splits"] == [{"name": "train", "records": 4, "duplicates": 3, "tokens": 40}]
    assert full["spent"]["cost"] is None
    assert (full["card_license"], full["card_languages"], full["card_tasks"]) == ("mit", ["zh"], [])
    assert full["left_out"] == [{"name": "README.md", "why": "auxiliary file"}]
    assert bare["name"] == BARE.name
    assert (bare["rows"], bare["spent"], bare["tokens"], bare["rejects"]) == (None, None, None, [])


def test_the_bytes_do_not_depend_on_the_order(tmp_path):
    write_catalog([FULL, BARE], tmp_path / "one.parquet")
    write_catalog([BARE, FULL], tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_a_lake_without_data_sets_has_a_catalog(tmp_path):
    write_catalog([], tmp_path / "catalog.parquet")
    assert pq.read_table(tmp_path / "catalog.parquet").schema.equals(SCHEMA)


def test_every_column_says_what_it_holds():
    assert all(field.metadata[b"description"] for field in SCHEMA)


def test_every_fact_has_a_column_but_samples_and_mappings():
    elsewhere = {"figures", "across", "card", "mapping", "approved"}
    names = {one.name for one in dataclasses.fields(SetFacts)} - elsewhere
    assert names <= set(SCHEMA.names)


def test_catalog_and_page_say_the_same(tmp_path):
    sets = lake(120, seed=5)
    write_catalog(sets, tmp_path / "catalog.parquet")
    rows = pq.read_table(tmp_path / "catalog.parquet").to_pylist()
    done = [row for row in rows if row["status"] == "converted"]
    told = lake_totals(sets)
    for name, count in told["rows"].items():
        assert sum(row["rows"][name] for row in done) == count
    assert all(row["rows"]["read"] == sum([*row["rows"].values()][1:]) for row in done)
    assert sum(row["records"]["written"] for row in done) == told["records"]
    assert sum(row["tokens"] for row in done) == told["tokens"]
    assert sum(row["duplicates_within"] for row in done) == told["within"]
    assert sum(row["duplicates_across"] for row in done) == told["across"]
    assert all(sum(dict(row["languages"]).values()) == row["records"]["written"] for row in done)
    assert all(sum(dict(row["lengths"]).values()) == row["records"]["written"] for row in done)


@pytest.mark.parametrize(
    ("former", "status"),
    [
        ("nothing", "no_training_text"),
        ("other", "other_command"),
        ("resting", "postponed"),
        ("gone", "removed"),
        ("failed", "failed"),
    ],
)
def test_facts_of_a_former_lake_are_read(former: str, status: str) -> None:
    stored = {**encode(BARE), "status": former}
    assert SetFacts.read(stored) == dataclasses.replace(BARE, status=status)
