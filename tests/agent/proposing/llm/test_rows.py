"""Rows that are shown: which ones, and how they are cut."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ingot.agent.privacy import Redactor, SafeValue
from ingot.agent.proposing.llm.data_block import choose_rows
from ingot.agent.proposing.llm.inventory import cut_value, render_value, size_ladder

SIZE = size_ladder(small=False)[0]
SMALL = size_ladder(small=True)[0]


def test_rows_that_cover_the_shapes_come_first() -> None:
    rows: list[Any] = [{"a": "x"}] * 50
    rows[17] = {"a": None, "b": ["y"]}
    rows[40] = {"a": ""}
    assert {17, 40} <= set(choose_rows(rows, 5))
    assert choose_rows(rows, 5) == choose_rows(rows, 5)


def test_every_speaker_is_seen() -> None:
    rows: list[Any] = [{"turns": [{"role": "user"}, {"role": "assistant"}]}] * 30
    rows[22] = {"turns": [{"role": "user"}, {"role": "observation"}]}
    assert 22 in choose_rows(rows, 2)


def test_rows_of_one_shape_are_spread_and_few() -> None:
    rows = [{"a": f"text {n}"} for n in range(100)]
    assert choose_rows(rows, 5) == [0, 1, 51]
    assert choose_rows(rows[:2], 5) == [0, 1]
    assert choose_rows([], 5) == []


def test_a_value_keeps_its_shape() -> None:
    long = "a" * 250 + "b" * 300 + "c" * 100
    cut = f"{'a' * 250}{'b' * 50}...(+250)...{'c' * 100}"
    assert cut_value(long, SIZE, "raw") == cut
    assert cut_value([1, 2, 3, 4, 5], SIZE, "raw") == [1, 2, 3, 4, "(+1 more)"]
    assert cut_value([{}, {}, {}, {}], SIZE, "raw") == [{}, {}, {}, "(+1 more)"]
    assert cut_value({"k": [{"a": None, "b": True}]}, SIZE, "raw") == {
        "k": [{"a": None, "b": True}]
    }
    many = cut_value({f"{n} k": n for n in range(70)}, SIZE, "raw")
    assert many["..."].startswith("(+")


def test_objects_with_numbered_keys_are_cut_like_lists() -> None:
    chat = {f"turn_{n}": {"q": "a"} for n in range(11)}
    assert list(cut_value(chat, SIZE, "raw")) == ["turn_0", "turn_1", "turn_2", "..."]


def test_a_shape_that_holds_itself_is_told_by_its_depth() -> None:
    tree: Any = {"text": "leaf", "replies": []}
    for _ in range(8):
        tree = {"text": "t", "replies": [tree]}
    told = render_value(SafeValue(tree), SMALL, "raw")
    assert "(same shape, depth 8 from here)" in told
    assert told.count('"text"') == 1


def test_deep_nesting_ends() -> None:
    deep: Any = "end"
    for _ in range(40):
        deep = [deep]
    assert "inside" in render_value(SafeValue(deep), SIZE, "raw")


def test_invisible_characters_of_keys_are_escapes_and_those_of_values_gone() -> None:
    told = render_value(SafeValue({"k\u200b": "v\u200b\u202e"}), SIZE, "raw")
    assert told == '{"k\\u200b": "v"}'
    assert json.loads(told) == {"k\u200b": "v"}


def test_secrets_are_taken_out_before_a_text_is_cut() -> None:
    secret = "somebody.long.name@mail.example.org"
    for start in range(270, 310):  # across the place of the cut
        row = {"t": "x" * start + " " + secret + " " + "y" * 900}
        told = render_value(Redactor("redacted").value(row), SIZE, "redacted")
        assert "somebody" not in told
        assert "example.org" not in told


def test_a_key_can_make_a_secret_of_its_value() -> None:
    row = {
        "password": "hunter2hunter2",
        "api_key": ["hunter2 again"],
        "mail": {"a@b.example.com": 1},
    }
    told = render_value(Redactor("redacted").value(row), SIZE, "redacted")
    assert "hunter2" not in told
    assert "a@b" not in told


@pytest.mark.parametrize("share", ["none", "redacted", "raw"])
def test_keys_stay_whatever_is_shared(share: str) -> None:
    row = {"name": "text of a value", "n": 12345, "list": [{"x": "word"}] * 9, "t": True}
    told = render_value(SafeValue(row), SIZE, share)
    for key in ("name", "n", "list", "x", "t"):
        assert f'"{key}"' in told
    assert ("text of a value" in told) is (share != "none")
    assert ("12345" in told) is (share != "none")
    if share == "none":
        assert "<string>" in told


def test_a_huge_text_is_no_slower_than_its_ends() -> None:
    long = SafeValue({"t": "word " * 2_000_000})
    told = render_value(long, replace(SIZE, head=10, tail=5), "redacted")
    assert told == '{"t": "word word ...(+9999985)...word "}'
