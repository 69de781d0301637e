"""Names and texts made fit to be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.agent.privacy.redaction import (
    bound_text,
    clean_text,
    cut_middle,
    display_name,
    display_path,
    escape_hidden,
    escape_text,
)
from ingot.converters.paths import Node, compile_path, join_path

HIDDEN = "a\u200bb\u202ec\x1bd\ue000e"


def test_what_cannot_be_seen_is_dropped_from_values() -> None:
    assert clean_text(HIDDEN) == "abcde"
    assert clean_text("a\tb\n\u3000c") == "a\tb\n\u3000c"


def test_what_cannot_be_seen_is_escaped_in_names() -> None:
    assert escape_text("a\u200b\U000e0001") == "a\\u200b\\udb40\\udc01"
    assert escape_hidden("\u3000\u200b") == "\u3000\\u200b"


# `join_path` takes these for marks.
KEYS = st.text(min_size=1, max_size=12).filter(lambda key: key not in ("[*]", ".*"))


@given(st.lists(KEYS, min_size=1, max_size=3))
def test_a_path_that_is_shown_finds_its_key(keys: list[str]) -> None:
    value: object = "found"
    for key in reversed(keys):
        value = {key: value}
    if any("\ud800" <= char <= "\udfff" for key in keys for char in key):
        return
    path = display_path(join_path(*keys))
    assert path.isprintable()
    assert compile_path(path).find(Node(value)) == ["found"]


def test_a_long_name_is_cut_and_said_to_be_of_no_use() -> None:
    told = display_path(join_path("a", "k" * 300))
    assert len(told) < 200
    assert "300 characters: cannot be addressed" in told
    assert display_name("n" * 90 + "\n\u200b", 80) == "n" * 80 + "...(+11)"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a" * 50, "a" * 50),
        ("a" * 40 + "b" * 40, "a" * 30 + "...(+40)..." + "b" * 10),
        ("a" * 52, "a" * 52),  # what the mark would hide is no longer than the mark
    ],
)
def test_head_and_tail(text: str, told: str) -> None:
    assert cut_middle(text, 30, 10) == told


def test_no_tail_is_no_tail() -> None:
    assert cut_middle("a" * 100, 10, 0) == "a" * 10 + "...(+90)..."


def test_a_huge_text_keeps_its_ends() -> None:
    text = "a" * 50_000 + "b" * 50_000
    ends = bound_text(text)
    assert len(ends) < 50_000
    assert (ends[0], ends[-1]) == ("a", "b")
    assert cut_middle(ends, 5, 5, len(text)) == "aaaaa...(+99990)...bbbbb"


def test_a_long_key_with_dots_in_it_is_no_path_of_short_names() -> None:
    told = display_path("one. two. " * 1_000)
    assert len(told) < 200
    assert "a name of 10000 characters: cannot be addressed" in told
