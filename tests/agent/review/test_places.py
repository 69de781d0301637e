"""Lines of a JSON text by pointer, and pointers in words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.agent.review.mapping_review import nearest_line, pointer_lines, target_text

TEXT = """{
  "version": 2,
  "messages": [
    {"role": "user",
     "content": ["a{\\"[", "b"]},
    {
      "role": "assistant", "content": {"path": "x"}
    }
  ],

  "meta": {"a/b~c": "id", "": null}
}"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_every_place_has_its_line() -> None:
    assert pointer_lines(TEXT) == {
        "": 1,
        "/version": 2,
        "/messages": 3,
        "/messages/0": 4,
        "/messages/0/role": 4,
        "/messages/0/content": 5,
        "/messages/0/content/0": 5,
        "/messages/0/content/1": 5,
        "/messages/1": 6,
        "/messages/1/role": 7,
        "/messages/1/content": 7,
        "/messages/1/content/path": 7,
        "/meta": 11,
        "/meta/a~1b~0c": 11,
        "/meta/": 11,
    }


def pointers(value: object, place: str = "") -> list[str]:
    inner = enumerate(value) if isinstance(value, list) else ()
    pairs = value.items() if isinstance(value, dict) else inner
    steps = [(str(k).replace("~", "~0").replace("/", "~1"), v) for k, v in pairs]
    return [place, *(p for step, v in steps for p in pointers(v, f"{place}/{step}"))]


@given(VALUES, st.sampled_from([None, 0, 2]))
def test_every_value_of_any_json_is_found(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    found = pointer_lines(text)
    assert set(found) == set(pointers(value))
    assert max(found.values()) <= text.count("\n") + 1


@given(st.text(alphabet='{}[]",:\\ a1\n'))
def test_what_is_no_json_harms_nothing(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in pointer_lines(text).values())


def test_a_place_that_is_not_there_is_at_what_is_around_it() -> None:
    lines = pointer_lines(TEXT)
    assert nearest_line(lines, "/messages/1/content/path") == 7
    assert nearest_line(lines, "/messages/7/content") == 3
    assert nearest_line(lines, "/nothing") == 1
    assert nearest_line({}, "/nothing") is None


@pytest.mark.parametrize(
    ("pointer", "words"),
    [
        ("/text", "text"),
        ("/text/0", "text"),
        ("/messages/1/content/path", "messages 2 content"),
        ("/messages/0/role/path", "messages 1 role"),
        ("/any_of/0/text", "alternative 1: text"),
        ("/any_of/1/messages/0/content", "alternative 2: messages 1 content"),
        ("/meta/language", "meta.language"),
        ("/source/root", "source.root"),
        ("/where/2/path", "where 3"),
        ("/group/by/0", "group"),
        ("", "the mapping"),
    ],
)
def test_pointers_in_words(pointer: str, words: str) -> None:
    assert target_text(pointer) == words
