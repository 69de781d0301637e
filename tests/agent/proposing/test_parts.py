"""The parts of a mapping: alternatives, roles, texts."""

from typing import Any

import pytest

from ingot.agent.proposing.proposal import value_strings
from ingot.converters.mapping.bind import read_tree
from ingot.converters.mapping.language import ROLES, possible_roles
from ingot.converters.mapping.walk import layout_parts, mapping_layouts


def test_a_mapping_and_its_alternatives_have_pointers() -> None:
    found = read_tree({"version": 2, "any_of": [{"text": "a"}, {"text": "b"}]})
    assert [(pointer, layout.text) for pointer, layout in mapping_layouts(found)] == [
        ("", None),
        ("/any_of/0", found.any_of[0].text),
        ("/any_of/1", found.any_of[1].text),
    ]
    (part,) = layout_parts(found.any_of[1], "/any_of/1")
    assert (part.key, part.pointer) == ("text", "/any_of/1/text")


def test_wrong_parts_of_a_document_are_left_out_of_its_tree() -> None:
    found = read_tree({"version": 2, "text": "a..b", "meta": {"language": "l", "source": 3}})
    assert (found.outer.text, [*found.outer.meta]) == (None, ["language"])
    assert [*layout_parts(read_tree(None).outer)] == []


@pytest.mark.parametrize(
    ("role", "may_be"),
    [
        ("user", ("user",)),
        (["user", "assistant"], ("user", "assistant")),
        ({"path": "who", "map": {"a": "user", "b": None}}, ("user", None)),
        ({"path": "who", "order": ["user", "tool"]}, ("user", "tool")),
        ({"split": {"Q:": "user"}}, ("user",)),
        ({"path": "who"}, ROLES),
    ],
)
def test_roles_that_a_message_may_have(role: Any, may_be: tuple[Any, ...]) -> None:
    document = {"version": 2, "messages": [{"role": role, "content": "c"}]}
    (message,) = read_tree(document).outer.messages or ()
    assert possible_roles(message.role) == may_be


def test_every_text_inside_a_value() -> None:
    value = {"concat": ["a", {"literal": "x"}], "each": "t[*]", "loss_mask": True, "sep": None}
    assert [*value_strings(value)] == ["a", "x", "t[*]"]
    assert [*value_strings("a")] == ["a"]
    assert [*value_strings(None)] == []
