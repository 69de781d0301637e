"""Examples: which differences are shown, redacted, and cut to where records differ."""

from typing import Any

import pytest

from ingot.agent.privacy import Redactor
from ingot.agent.review.mapping_review import example_differences
from ingot.agent.review.replay import Difference

META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)

DOOR = Redactor("redacted", numbered=False)


def text(said: str) -> dict[str, Any]:
    return {"text": said, "meta": META}


def chat(*said: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [
        {"role": roles[n % 2], "content": one, "loss_mask": n % 2 == 1}
        for n, one in enumerate(said)
    ]
    return {"messages": messages, "system": None, "meta": META}


def differ(kind: str, old: Any, new: Any, place: str = "a row 1") -> Difference:
    return Difference(kind=kind, place=place, old=old, new=new)  # type: ignore[arg-type]


def shown(old: Any, new: Any) -> tuple[list[list[str]], list[list[str]]]:
    [one] = example_differences([differ("changed", old, new)], DOOR)
    return one["old"], one["new"]


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        ("", []),
        ("c", ["changed"]),
        ("cccc", ["changed"] * 3),
        ("cclg", ["lost", "changed", "gained"]),
        ("cccg", ["changed", "changed", "gained"]),
        ("lllg", ["lost", "lost", "gained"]),
        ("gggg", ["gained"] * 3),
    ],
)
def test_every_kind_is_shown_once_at_least(kinds: str, chosen: list[str]) -> None:
    names = {"c": "changed", "l": "lost", "g": "gained"}
    made = {
        "c": (text("x"), text("y")),
        "l": (text("x"), None),
        "g": (None, text("y")),
    }
    found = example_differences([differ(names[one], *made[one]) for one in kinds], DOOR)
    assert [one["kind"] for one in found] == chosen
    for one in found:
        assert (one["old"] is None, one["new"] is None) == (
            one["kind"] == "gained",
            one["kind"] == "lost",
        )


def test_long_texts_begin_where_they_differ() -> None:
    same = "".join(f"sentence {n}. " for n in range(400))
    old, new = shown(text(f"{same}before"), text(f"{same}after"))
    assert old[0][1].endswith("sentence 399. before")
    assert new[0][1].endswith("sentence 399. after")
    assert len(old[0][1]) < 200
    assert f"({len(same) - 80} characters as in the other)" in old[0][1]


def test_long_conversations_begin_where_they_differ() -> None:
    turns = [f"turn {n}" for n in range(20)]
    old, new = shown(chat(*turns), chat(*turns[:15], "else", *turns[16:]))
    assert old[0] == ["", "(14 messages as in the other)"]
    assert old[1:3] == [["user", "turn 14"], ["assistant", "turn 15"]]
    assert new[2] == ["assistant", "else"]


def test_a_message_more_on_one_side() -> None:
    old, new = shown(chat("a", "b"), chat("a", "b", "c"))
    assert [line[1] for line in new[:3]] == ["a", "b", "c"]
    assert [line[1] for line in old[:2]] == ["a", "b"]


def test_many_messages_are_counted() -> None:
    [one] = example_differences([differ("lost", chat(*"abcdefghijkl"), None)], DOOR)
    assert ["", "(+4 messages)"] in one["old"]


def test_secrets_are_shown_nowhere() -> None:
    mail = "write to ada@example.org now"
    old, new = shown(text("x" * 500 + mail), text("x" * 500 + mail + "!"))
    assert "[email]" in old[0][1]
    told = str(
        example_differences(
            [differ("lost", chat(mail, mail), None, "ada@example.org row 1")],
            DOOR,
        )
    )
    assert "ada@example.org" not in told + str(old) + str(new)


def test_what_differs_only_in_what_is_redacted_is_shown_alike() -> None:
    old, new = shown(text("ada@example.org"), text("bob@example.org"))
    assert old[0] == new[0] == ["text", "[email]"]
