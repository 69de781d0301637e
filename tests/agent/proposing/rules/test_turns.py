"""Turns without speakers: columns that take turns, and lists of bare texts."""

from typing import Any

import pytest


def _said(pool: Any, n: int, count: int) -> list[str]:
    return [(pool.question, pool.answer)[k % 2](n + k // 2) for k in range(count)]


@pytest.mark.parametrize(
    "names",
    [
        ("HS01", "SS01", "HS02", "SS02"),
        ("turn_1_human", "turn_1_bot", "turn_2_human", "turn_2_bot"),
        ("user_turn_1", "agent_turn_1", "user_turn_2", "agent_turn_2"),
    ],
)
def test_columns_take_turns(mapped: Any, pool: Any, names: tuple[str, ...]) -> None:
    rows = [dict(zip(names, _said(pool, n, 4), strict=True)) for n in range(9)]
    rows[3][names[3]] = ""
    outcome = mapped([{"code": f"S{n}", "talk": row} for n, row in enumerate(rows)], "sft")
    assert outcome.turns(1) == list(zip(("user", "assistant") * 2, _said(pool, 1, 4), strict=True))


def test_numbered_columns_that_mean_something_are_no_turns(mapped: Any, pool: Any) -> None:
    """Titles with their texts stand in the same order as turns would."""
    rows = [
        {"title1": pool.title(n), "text1": pool.document(n), "title2": pool.title(n + 1),
         "text2": pool.document(n + 1), "question": pool.question(n), "answer": pool.answer(n)}
        for n in range(9)
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert len(outcome.turns()) == 2
    assert outcome.turns()[1][1] == pool.answer(0)


def test_short_texts_that_ask_each_other_are_turns_whatever_their_list_is_called(
    mapped: Any, pool: Any
) -> None:
    rows = [{"key": n, "content": _said(pool, n, 4 + n % 3)} for n in range(9)]
    outcome = mapped(rows, "sft")
    assert outcome.turns(2) == list(zip(("user", "assistant") * 3, _said(pool, 2, 6), strict=True))


def test_paragraphs_are_no_turns(mapped: Any, pool: Any) -> None:
    rows = [{"key": n, "content": [pool.document(n + k) for k in range(4)]} for n in range(9)]
    assert mapped(rows, "sft").proposal.decision == "irrelevant"


def test_what_stands_before_the_talk_of_a_single_text_is_no_introduction(
    mapped: Any, pool: Any
) -> None:
    """One file with many talks in blocks: cut as one it would be said by the wrong side."""
    blocks = [
        f"id={n}\nhttps://example.org/{n}\nTalk\nPatient:\n{pool.question(n)}\n\n"
        f"Doctor:\n{pool.answer(n)}\n\n\n"
        for n in range(4)
    ]
    assert mapped("".join(blocks), "sft", name="talks.txt").proposal.decision == "irrelevant"


def test_turns_that_are_objects_of_their_own(mapped: Any, pool: Any) -> None:
    rows = [
        {"id": f"r{n}",
         "turn_1": {"user": pool.question(n), "bot": pool.answer(n)},
         "turn_2": {"user": pool.question(n + 1), "bot": pool.answer(n + 1)}}
        for n in range(9)
    ]  # fmt: skip
    assert mapped(rows, "sft").turns(1) == list(
        zip(("user", "assistant") * 2, _said(pool, 1, 4), strict=True)
    )


def test_an_answer_beside_turns_that_end_open_is_their_end(mapped: Any, pool: Any) -> None:
    rows = [{"context": _said(pool, n, 3), "response": pool.answer(n + 5)} for n in range(9)]
    turns = mapped(rows, "sft").turns(1)
    assert [role for role, _ in turns] == ["user", "assistant", "user", "assistant"]
    assert turns[3][1] == pool.answer(6)
