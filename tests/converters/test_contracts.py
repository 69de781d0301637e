"""Schemas by name: all load, all are valid JSON Schema, and violations say where."""

import pytest
from jsonschema import Draft202012Validator

from ingot.converters import contracts


@pytest.mark.parametrize("name", contracts.names())
def test_every_schema_is_a_valid_schema(name):
    Draft202012Validator.check_schema(contracts.schema(name))
    assert contracts.validator(name) is contracts.validator(name)


def test_names():
    assert {"manifest", "mapping", "record.pt", "record.sft"} <= set(contracts.names())


def test_unknown_name_says_what_there_is():
    with pytest.raises(KeyError, match=r"no schema 'record'; there are: .*record\.pt"):
        contracts.schema("record")


@pytest.mark.parametrize("name", ["../pyproject", "record.pt.schema.json", ""])
def test_only_schema_files_have_names(name):
    with pytest.raises(KeyError):
        contracts.schema_text(name)


def test_violations_point_into_the_document():
    meta = dict.fromkeys(
        ["source", "language", "timestamp", "token_count", "quality_score", "original_id"]
    )
    record = {"text": "a", "meta": meta, "a/b~c": 1}
    assert contracts.violations("record.pt", record)[0][0] == ""
    assert contracts.violations("record.pt", {"text": 1, "meta": {**meta, "source": 2}}) == [
        ("/meta/source", "2 is not of type 'string', 'null'"),
        ("/text", "1 is not of type 'string'"),
    ]
