"""The parts of a mapping document: alternatives, roles, texts."""

from typing import Any

import pytest

from ingot.agent.proposing.proposal import ROLES, document_layouts, message_roles, value_strings


def test_a_mapping_and_its_alternatives_have_pointers() -> None:
    document = {"version": 2, "any_of": [{"text": "a"}, {"text": "b"}]}
    assert [*document_layouts(document)] == [
        ("", document),
        ("/any_of/0", {"text": "a"}),
        ("/any_of/1", {"text": "b"}),
    ]
    assert [*document_layouts({"text": "a", "any_of": None})] == [
        ("", {"text": "a", "any_of": None})
    ]


@pytest.mark.parametrize(
    ("role", "may_be"),
    [
        ("user", ("user",)),
        (["user", "assistant"], ("user", "assistant")),
        ({"path": "who", "map": {"a": "user", "b": None}}, ("user", None)),
        ({"split": {"Q:": "user"}}, ("user",)),
        ({"path": "who"}, ROLES),
        (None, (None,)),
    ],
)
def test_roles_that_a_message_may_have(role: Any, may_be: tuple[Any, ...]) -> None:
    assert message_roles(role) == may_be


def test_every_text_inside_a_value() -> None:
    value = {"concat": ["a", {"literal": "x"}], "each": "t[*]", "loss_mask": True, "sep": None}
    assert [*value_strings(value)] == ["a", "x", "t[*]"]
    assert [*value_strings("a")] == ["a"]
    assert [*value_strings(None)] == []
