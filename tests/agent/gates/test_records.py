"""What a model takes of other records: texts of one row for all, one group of all rows."""

from typing import Any

import pytest

from ingot.agent.gates import records


def message(role: Any, content: Any = "x", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"version": 2, "messages": [*messages], **more}


BY_DATA = {"path": "who", "map": {"a": "user", "b": "assistant"}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("^.data[3].note", True),
        ("^.data[-1].note", True),
        ("^.^.data[0]", True),
        ("^.note", False),
        ("^.data", False),
        ("data[3].note", False),
        ("^.database[3]", False),
        ("^.qas[0].text", True),
        ("answers[0].text", False),
        ("^.answers[0].text", False),
        ({"template": "{{^.data[3].note}} {{q}}"}, True),
    ],
)
def test_texts_of_one_row_for_all(path: Any, found: bool) -> None:
    document = chat(message("user", "q"), message("assistant", [path, "a"]))
    assert bool(records.borrowed(document | {"each": "data[*].qas[*]"})) is found
    assert records.borrowed(document) == []


def test_values_of_an_object_are_walked_too() -> None:
    document = chat(message("assistant", "^.rows.r3.note"), each="rows.*")
    assert records.borrowed(document) == ["'^.rows.r3.note'"]


def test_a_group_of_all_rows() -> None:
    document = chat(group={"by": ["note"]})
    assert records.lumped(document, 1, 12) == ["'note'"]
    assert records.lumped(document, 2, 12) == records.lumped(document, 1, 2) == []
    assert records.lumped(chat(), 1, 12) == []
