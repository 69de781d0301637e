"""One text of an object that is still being written."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.agent.model.json_text import PartialString

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.just("say"), inside, max_size=3)
    ),
    max_leaves=8,
)
CHARACTERS = st.characters(codec=None, categories=None) | st.sampled_from(
    '"\\\n\t😀人é{}[],:\ud83d'
)


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(min(one, len(text)) for one in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def heard(parts: list[str], key: str = "say") -> str:
    following = PartialString(key)
    return "".join(following.hear(one) for one in parts)


def shown(text: str) -> str:
    """A text as it is shown: half of a surrogate pair cannot be."""
    return re.sub("[\ud800-\udfff]", "\ufffd", json.loads(json.dumps(text)))


@given(
    said=st.text(CHARACTERS, max_size=20),
    before=st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
    after=st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
    wrapped=st.sampled_from(
        [
            "%s",
            "\ufeff %s",
            "```json\n%s\n```",
            "Here {it} is, { as I said: %s Bye {",
            '<think>{"say": "draft"}</think>\n%s',
            'A draft: {"text": "x"}. <thinking>"{[</thinking> %s {"say": "again"}',
        ]
    ),
    ascii_only=st.booleans(),
    indent=st.none() | st.just(1),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_any_split_gives_what_the_whole_says(
    said: str,
    before: dict[str, Any],
    after: dict[str, Any],
    wrapped: str,
    ascii_only: bool,
    indent: int | None,
    cuts: list[int],
) -> None:
    before.pop("say", None)
    after.pop("say", None)
    document = {**before, "say": said, **{k: v for k, v in after.items() if k not in before}}
    if not ascii_only:
        said = document["say"] = shown(said)
    text = wrapped % json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    assert heard(pieces(text, cuts)) == shown(said)
    assert heard(list(text)) == shown(said)


@given(st.text(st.sampled_from('{}[]":,\\uds8 a1<think>/\n')), st.lists(st.integers(0, 99)))
def test_whatever_is_no_json_raises_nothing_and_is_read_alike(text: str, cuts: list[int]) -> None:
    assert heard(pieces(text, cuts), "a") == heard([text], "a")


@pytest.mark.parametrize(
    ("parts", "new"),
    [
        (['{"say": "', "a", "b", '"', ', "x": "c"}'], ["", "a", "b", "", ""]),
        (['{"say": "a\\', "n", "\\u00", "e9", "b"], ["a", "\n", "", "é", "b"]),
        (['{"say": "\\ud83d', "\\ude", '00"}'], ["", "", "😀"]),
        (['{"say": "\\ud83d', "x", '"}'], ["", "\ufffdx", ""]),
        (['{"say": "\\ud83d', '"}'], ["", "\ufffd"]),
        (['{"say": "\\ude00', '"}'], ["\ufffd", ""]),
        (['{"s\\u0061', 'y": "a'], ["", "a"]),
        (['{"x": {"say": "no"}, "y": [{"say": "no"}], "say"', ' : "yes'], ["", "yes"]),
        (['{"say": null, "x": "say"}'], [""]),
        (['{"say": ["a"]}'], [""]),
        (['{"x": -1.5e3, "say": "a'], ["a"]),
        (['[{"say": "a"}]'], ["a"]),
        (['{"say": "two\nlines"}'], ["two\nlines"]),
        (['{"say": "a", }', '{"say": "b"}'], ["a", ""]),
        (['{"x": "1",}', '{"say": "b"}'], ["", "b"]),
        # What is broken stops; before the text, another object may begin.
        (['{"say": "a\\x', 'b", "say": "c"}'], ["a", ""]),
        (['{"say": "a\\u12g', 'b"}'], ["a", ""]),
        (['{"x\\y": 1} {"say": "a"}'], ["a"]),
        (['{"x": "\\y"} {"say": "a"}'], ["a"]),
        (['{"x": ["\\y"]} {"say": "a"}'], ["a"]),
        (['{"x" 1} {"say": "a"}'], ["a"]),
        (['{"x": "1" "y"} {"say": "a"}'], ["a"]),
        (['{"x": 1 "y"} {"say": "a"}'], ["a"]),
        (["<th", "ink>{", '"say": "no"}</thi', 'nk>{"say": "a'], ["", "", "", "a"]),
        (['<think>{"say": "for ever'], [""]),
        ([""], [""]),
    ],
)
def test_what_is_certain_is_given_at_once(parts: list[str], new: list[str]) -> None:
    following = PartialString("say")
    assert [following.hear(one) for one in parts] == new
