"""An answer that stands in its own question, and other uses of a path that are none."""

from typing import Any

import pytest

from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.path_uses import shared_paths

ABCD = {"concat": ["A", "B", "C", "D"], "label": "A. "}


def found(*messages: dict[str, Any], **more: Any) -> list[tuple[str, str, str]]:
    mapping = bind({"version": 2, "messages": list(messages), **more})
    return [(one.question, one.answer, one.path) for one in shared_paths(mapping)]


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


@pytest.mark.parametrize(
    ("asked", "answered", "path"),
    [
        ("q", "q", "q"),
        (["q", "a"], "a", "a"),
        ("q", ["why", "q"], "q"),
        ({"template": "Question: {{q}}"}, "q", "q"),
        ("turns[*].text", {"path": "$", "each": "turns[*].text"}, "turns[*].text"),
    ],
)
def test_the_same_path_on_both_sides(asked: Any, answered: Any, path: str) -> None:
    assert found(user(asked), assistant(answered)) == [
        ("/messages/0/content", "/messages/1/content", path)
    ]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("q", "a"),
        ("turns[0]", "turns[1]"),
        (["q", {"path": "o[*]", "label": "A. "}], {"path": "o[*]", "pick": "n"}),
        (["q", ABCD], {"concat": ["A", "B", "C", "D"], "pick": "n"}),
        (["q", {"concat": ["wrong", "right"], "label": "A. "}], "right"),
        ({"template": "{{q}}\nA. {{wrong}}\nB. {{right}}"}, "right"),
        (["q", "kind"], {"path": "kind", "map": {"0": "no", "1": "yes"}}),
        ({"any_of": ["q", "text"]}, {"any_of": ["a", "text"]}),
    ],
)
def test_another_use_is_no_fault(asked: Any, answered: Any) -> None:
    assert found(user(asked), assistant(answered)) == []


def test_paths_are_compared_from_the_row_on() -> None:
    pairs = {"each": "turns[*]"}
    assert found(user("q", **pairs), assistant("a", **pairs)) == []
    assert found(user("q", **pairs), assistant("q", **pairs))[0][2] == "turns[*].q"
    step = {"each": ["qs[*]", "as[*]"]}
    assert found(user("[0]", **step), assistant("[1]", **step)) == []
    assert found(user("[0]", **step), assistant("[0]", **step))[0][2] == "qs[*]"
    assert found(user("[0].t", **step), assistant("[0].t", **step))[0][2] == "qs[*].t"


def test_roles_from_the_data_say_nothing_of_sides() -> None:
    read = {"each": "m[*]", "role": {"path": "r"}, "content": "t"}
    assert found(read, assistant("chosen")) == []


def test_each_alternative_is_looked_at_alone() -> None:
    fine = {"messages": [user("a"), assistant("b")]}
    turned = {"messages": [user("b"), assistant("a")]}
    bad = {"messages": [user("b"), assistant("b")]}
    mapping = bind({"version": 2, "any_of": [fine, turned]})
    assert list(shared_paths(mapping)) == []
    mapping = bind({"version": 2, "any_of": [fine, bad]})
    assert [one.answer for one in shared_paths(mapping)] == ["/any_of/1/messages/1/content"]
