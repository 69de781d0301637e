"""What a model takes of other records: texts of one row for all, one group of all rows."""

from typing import Any

import pytest

from ingot.agent.judging import model_gates


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
    assert bool(model_gates.fixed_element_paths(document | {"each": "data[*].qas[*]"})) is found
    assert model_gates.fixed_element_paths(document) == []


def test_values_of_an_object_are_walked_too() -> None:
    document = chat(message("assistant", "^.rows.r3.note"), each="rows.*")
    assert model_gates.fixed_element_paths(document) == ["'^.rows.r3.note'"]
    stepped = chat(message("assistant", "^.b[3].note"), each=["a[*]", "b[*]"])
    assert model_gates.fixed_element_paths(stepped) == ["'^.b[3].note'"]


def test_a_group_of_all_rows() -> None:
    document = chat(group={"by": ["note"]})
    assert model_gates.constant_group_keys(document, 1, 12) == ["'note'"]
    assert (
        model_gates.constant_group_keys(document, 2, 12)
        == model_gates.constant_group_keys(document, 1, 2)
        == []
    )
    assert model_gates.constant_group_keys(chat(), 1, 12) == []
