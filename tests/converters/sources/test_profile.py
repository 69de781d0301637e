"""The inventory of a sample: paths, counts, values and looks."""

from typing import Any

import pytest

from ingot.converters.paths import Node, compile_path
from ingot.converters.sources.profile import profile_values
from ingot.converters.sources.text_kinds import count_words, is_question, is_time, text_looks


def test_missing_null_and_blank_are_told_apart() -> None:
    facts = profile_values([{"a": "x"}, {"a": None}, {"a": "  "}, {}, {"a": "x"}])["a"]
    assert (facts.places, facts.missing, facts.null, facts.blank) == (5, 1, 1, 1)
    assert facts.types == {"string": 3, "null": 1}
    assert facts.filled == 2
    assert facts.values == (("x", 2),)
    assert not facts.unique


def test_paths_are_spelt_in_the_language_and_resolve() -> None:
    row = {"a.b": 1, "x y": {"it's": [{"": "deep"}]}, "ünï": ["t"], "*": 0}
    for facts in profile_values([row]).paths:
        assert compile_path(facts.path).find(Node(row)), facts.path


def test_of_too_many_paths_those_with_text_are_kept() -> None:
    row: dict[str, Any] = {f"n{k}": k for k in range(500)}
    found = profile_values([{**row, "log": {"turns": [{"say": "Some words."}]}}] * 2)
    assert (len(found.paths), found.cut) == (400, 105)
    assert found.paths[0].path == "$"
    assert [one.path for one in found.paths[-2:]] == ["log.turns[*]", "log.turns[*].say"]


def test_lists_and_lengths() -> None:
    found = profile_values([{"m": [{"t": "ab"}, {"t": "abcd"}]}, {"m": []}])
    items, chars = found["m"].items, found["m[*].t"].chars
    assert items is not None
    assert chars is not None
    assert (items.low, items.high) == (0, 2)
    assert (chars.low, chars.middle, chars.total) == (2, 3, 6)
    assert found["m[*].t"].unique


def test_numbered_keys_and_ids_are_collapsed() -> None:
    turns = [
        {"chat": {f"turn_{k}": {"human": "a", "bot": "b"} for k in range(n + 2)}} for n in range(3)
    ]
    assert profile_values(turns).get("chat.*.human") is not None
    ids = {str(1000 + n * 7): {"question": "q", "answer": "a"} for n in range(50)}
    assert profile_values([ids]).get("*.question") is not None
    columns = [{"option_1": "a", "option_2": "b"}]
    assert profile_values(columns).get("option_1") is not None


def test_shapes_that_contain_themselves_are_cut() -> None:
    tree: dict[str, Any] = {"text": "end", "replies": []}
    for _ in range(30):
        tree = {"text": "more", "replies": [tree]}
    found = profile_values([tree])
    assert len(found.paths) < 20
    assert any("goes on" in facts.note for facts in found.paths)


def test_truth_values_are_spelt_as_in_json() -> None:
    found = profile_values([{"a": "x", "n": 1.5, "b": True, "l": [1, None]}])
    assert found["b"].values == (("true", 1),)


@pytest.mark.parametrize(
    ("text", "look"),
    [
        ("https://x.example/a?b=1", "url"),
        ("labels/00/img_1.txt", "file"),
        ("6b067319d726eb612224d9033ee8f2e497688021b99c24c32b9c146e9120b6d5", "hash"),
        ("sha1:QWERTYUIOPASDFGHJKLZXCVBNMQWERTY", "hash"),
        ("c65539db-4e2b-4ce4-a22b-563b6ef3f4f1", "uuid"),
        ("3.14", "number"),
        ("(C)", "letter"),
        ("2021-03-04T05:06:07Z", "time"),
        ("Mon Apr 06 22:13:31 PDT 2009", "time"),
        ("Mon, 2 Apr 2007 19:18:42 GMT", "time"),
        ("2021年3月4日", "time"),
        ('[{"a": 1}]', "json"),
        ("A. the first one", "option"),
        ("import os\n\ndef f(x):\n    return x\n", "code"),
        ("This is a sentence with several words.", "sentence"),
        ("今天天气很好，我们去公园散步。", "prose"),
    ],
)
def test_looks(text: str, look: str) -> None:
    assert look in text_looks(text)


@pytest.mark.parametrize(
    "text",
    [
        "Why is it so?",
        "为什么天是蓝的",
        "Write a poem about tea.",
        "Wie hoch ist er?",
        "サイズは何ですか",
        "Rework your previous answer.",
    ],
)
def test_questions_and_orders(text: str) -> None:
    assert is_question(text)


def test_plain_statements_ask_nothing() -> None:
    assert not is_question("The harbour was repaired by hand.")
    assert not is_time("12")
    assert not is_time("2020年物理试卷（新课标ⅱ）")
    assert is_time("2020年3月5日 上午 10:30")
    assert is_time("2020년 3월 5일 오후 3시")
    assert count_words("今天天气 is fine") == 4
