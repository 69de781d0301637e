"""The schema of manifest.json: a full one, an irrelevant one, and what it refuses, and where."""

import copy

import pytest

from ingot.converters import json_yaml

SHA = "0f" * 32
CONVERTED = {
    "decision": "sft",
    "reason": None,
    "versions": {"ingot": "0.1.0", "format": 1},
    "mapping_sha256": SHA,
    "options": {
        "records": "parquet",
        "language": "zh",
        "source": "exam",
        "limit": 100,
        "tokenizer": {"file": "tokenizer.json", "sha256": SHA, "eod_id": 0, "chat_template": SHA},
    },
    "inputs": [
        {"name": "a/题目.jsonl.gz", "bytes": 1200, "sha256": SHA},
        {"name": "b.jsonl", "bytes": 0, "sha256": None},
    ],
    "left_out": [{"name": "README.md", "reason": "a README"}],
    "rows": {"read": 100, "converted": 97, "rejected": 2, "filtered": 1},
    "records": {"written": 97, "rejected": 2, "filtered": 1, "duplicates": 0, "ragged": 3},
    "rejects": {"bad_row": 1, "no_assistant": 1},
    "warnings": {
        "mapping": ["a column called en is read as a path"],
        "meta": {"quality_score: not_a_number": 2},
        "paths": {"options[*]": {"looked_up": 97, "missing": 4, "null": 0}},
    },
    "tokens": {
        "documents": 97,
        "sequences": 97,
        "tokens": 5120,
        "characters": 20000,
        "rejected": 0,
        "dtype": "uint16",
        "eod_id": 0,
        "vocabulary": 4096,
    },
    "files": [{"path": "records/part-00000.parquet", "bytes": 900, "sha256": SHA}],
}
IRRELEVANT = {
    **CONVERTED,
    "decision": "irrelevant",
    "reason": "Only numbers and times: nothing to read.",
    "mapping_sha256": None,
    "options": {**CONVERTED["options"], "tokenizer": None},
    "rows": dict.fromkeys(CONVERTED["rows"], 0),
    "records": dict.fromkeys(CONVERTED["records"], 0),
    "rejects": {},
    "warnings": {"mapping": [], "meta": {}, "paths": {}},
    "tokens": None,
    "files": [],
}
DROP = object()


def changed(document: dict, pointer: str, value: object) -> dict:
    """A copy with one place set, or dropped."""
    result = copy.deepcopy(document)
    *way, last = pointer.strip("/").split("/")
    spot = result
    for step in way:
        spot = spot[int(step) if isinstance(spot, list) else step]
    if value is DROP:
        del spot[last]
    else:
        spot[int(last) if isinstance(spot, list) else last] = value
    return result


@pytest.mark.parametrize("document", [CONVERTED, IRRELEVANT])
def test_good(document):
    assert json_yaml.violations("manifest", document) == []


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("/tokens", None), ("/options/limit", None), ("/decision", "pt"), ("/files", [])],
)
def test_good_variants(pointer, value):
    assert json_yaml.violations("manifest", changed(CONVERTED, pointer, value)) == []


@pytest.mark.parametrize("key", sorted(CONVERTED))
def test_every_key_is_required(key):
    assert json_yaml.violations("manifest", changed(CONVERTED, f"/{key}", DROP)) != []


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/decision", "criterion"),
        ("/versions/format", 2),
        ("/mapping_sha256", "0F" * 32),
        ("/mapping_sha256", None),
        ("/reason", "because"),
        ("/options/records", "csv"),
        ("/options/tokenizer/sha256", ""),
        ("/inputs/0/bytes", -1),
        ("/left_out/0/reason", ""),
        ("/rows/read", 1.5),
        ("/tokens/dtype", "uint32"),
        ("/files/0/path", "../out.parquet"),
        ("/files/0/path", "/records/out.parquet"),
        ("/files/0/path", "records/../../out.parquet"),
        ("/files/0/path", "manifest.json"),
        ("/warnings/paths/options[*]/missing", None),
    ],
)
def test_bad_value_is_found_where_it_stands(pointer, value):
    found = json_yaml.violations("manifest", changed(CONVERTED, pointer, value))
    assert {place for place, _ in found} == {pointer}


@pytest.mark.parametrize(
    ("pointer", "value", "place"),
    [
        ("/started", "2024-05-01", ""),
        ("/rejects/odd", 1, "/rejects"),
        ("/rows/skipped", 1, "/rows"),
        ("/versions/format", DROP, "/versions"),
        ("/records/ragged", DROP, "/records"),
    ],
)
def test_unknown_and_missing_keys(pointer, value, place):
    found = json_yaml.violations("manifest", changed(CONVERTED, pointer, value))
    assert [pointer for pointer, _ in found] == [place]


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/rows/read", 3),
        ("/records/written", 3),
        ("/reason", None),
        ("/reason", ""),
        ("/mapping_sha256", SHA),
        ("/tokens", CONVERTED["tokens"]),
    ],
)
def test_an_irrelevant_set_has_a_reason_and_no_counts(pointer, value):
    found = json_yaml.violations("manifest", changed(IRRELEVANT, pointer, value))
    assert {place for place, _ in found} == {pointer}


def test_reasons_are_those_of_the_language():
    from ingot.converters.mapping.rows.executor import REASONS

    named = json_yaml.schema("manifest")["properties"]["rejects"]["propertyNames"]["enum"]
    assert sorted(named) == sorted(REASONS)
