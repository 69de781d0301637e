"""What a sample's records hold: trained on, constant, lists of numbers."""

from typing import Any

import pytest

from ingot.converters.sources.text_kinds import Content, count_content, is_numbers


def chat(*turns: tuple[str, str, bool], system: str | None = None) -> dict[str, Any]:
    messages = [{"role": role, "content": text, "loss_mask": on} for role, text, on in turns]
    return {"messages": messages, "system": system, "meta": {}}


def test_no_records() -> None:
    assert count_content([]) == Content()


def test_what_is_trained_on_is_counted_in_records_and_characters() -> None:
    found = count_content(
        [
            chat(("user", "abcd", False), ("assistant", "ab", True), system="1234"),
            chat(("user", "ab", False), ("assistant", "abcdefgh", False)),
        ]
    )
    assert (found.records, found.trained_records) == (2, 1)
    assert (found.chars, found.trained_chars) == (20, 2)


def test_of_running_text_everything_is_trained_on() -> None:
    found = count_content([{"text": "abc", "meta": {}}, {"text": "abc", "meta": {}}])
    assert (found.trained_records, found.chars, found.trained_chars) == (2, 6, 6)
    assert (found.usual["text"].count, found.usual["text"].distinct) == (2, 1)


def test_the_most_frequent_text_of_each_side() -> None:
    said = [("Why?", "So."), ("Why?", "Thus."), ("How?", "So."), ("Why?", "So.")]
    found = count_content([chat(("user", q, False), ("assistant", a, True)) for q, a in said])
    assert list(found.usual) == ["prompts", "answers"]
    usual = found.usual["prompts"]
    assert (usual.texts, usual.distinct, usual.count) == (4, 2, 3)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[101, 2023, 2003, 1037, 3231, 102, 0, 0]", True),
        ("101 2023 2003 1037 3231 102 0 0", True),
        ("\n".join(map(str, range(20))), True),
        (", ".join(map(str, range(5000))), True),
        ("[1, 2, 3]", False),
        ("12", False),
        ("", False),
        ("1, 2, 3, 4, 5, 6, 7, 8 and so on", False),
        ("1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5", False),
        ("2024-01-01 10:00:00", False),
        ("0" * 100_000, False),
    ],
)
def test_a_list_of_numbers_is_no_text(text: str, numbers: bool) -> None:
    assert is_numbers(text) is numbers
    assert count_content([{"text": text or "x", "meta": {}}]).numbers == {"text": int(numbers)}
