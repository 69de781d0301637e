"""Schemas by name: all load, all are valid JSON Schema, and violations say where."""

import pytest
from jsonschema import Draft202012Validator

from ingot.converters import json_yaml


@pytest.mark.parametrize("name", json_yaml.schema_names())
def test_every_schema_is_a_valid_schema(name):
    Draft202012Validator.check_schema(json_yaml.schema(name))
    assert json_yaml.validator(name) is json_yaml.validator(name)


def test_names():
    assert {"manifest", "mapping", "record.pt", "record.sft"} <= set(json_yaml.schema_names())


def test_unknown_name_says_what_there_is():
    with pytest.raises(KeyError, match=r"no schema 'record'; there are: .*record\.pt"):
        json_yaml.schema("record")


@pytest.mark.parametrize("name", ["../pyproject", "record.pt.schema.json", ""])
def test_only_schema_files_have_names(name):
    with pytest.raises(KeyError):
        json_yaml.schema_text(name)


def test_violations_point_into_the_document():
    meta = dict.fromkeys(
        ["source", "language", "timestamp", "token_count", "quality_score", "original_id"]
    )
    record = {"text": "a", "meta": meta, "a/b~c": 1}
    assert json_yaml.violations("record.pt", record)[0][0] == ""
    assert json_yaml.violations("record.pt", {"text": 1, "meta": {**meta, "source": 2}}) == [
        ("/meta/source", "2 is not of type 'string', 'null'"),
        ("/text", "1 is not of type 'string'"),
    ]
