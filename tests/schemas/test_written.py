"""The schemas of mappings and of models' answers follow the fields of the tree."""

import pytest

from tests.schemas.written import FOLDER, INDENTS, committed, schema_bytes, write_schema


@pytest.mark.parametrize("name", INDENTS)
def test_a_committed_schema_is_what_the_fields_say(name: str) -> None:
    said = (FOLDER / f"{name}.schema.json").read_bytes()
    assert schema_bytes(name) == said, "python -m tests.schemas.written"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(("mapping", key) for key in ("condition", "group", "lookup", "message", "source")),
        *(("llm", key) for key in ("condition", "literal", "looked_up")),
    ],
)
def test_a_key_changed_by_hand_is_written_as_the_fields_say(name: str, key: str) -> None:
    before = committed(name)
    before["$defs"][key] = {"properties": {"unknown": {}}}
    whole = committed(name)["$defs"][key]
    written = write_schema(name, before)["$defs"][key]
    assert written.keys() == whole.keys() - {"description"}
    assert written.get("properties", {}).keys() == whole.get("properties", {}).keys()


def test_words_said_by_hand_are_kept() -> None:
    before = committed("mapping")
    before["$defs"]["group"]["properties"]["sort"]["description"] = "the order of the rows"
    sort = write_schema("mapping", before)["$defs"]["group"]["properties"]["sort"]
    assert sort == {"$ref": "#/$defs/path", "description": "the order of the rows"}
