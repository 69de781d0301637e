"""Two answers and what says which is better: by number, by name, by what their scores say."""

from typing import Any

import pytest


def _rows(pool: Any, first: str, second: str, **told: Any) -> list[dict[str, Any]]:
    return [
        {
            "prompt": pool.question(n),
            first: pool.answer(n),
            second: pool.document(n),
            **{name: values[n % len(values)] for name, values in told.items()},
        }
        for n in range(9)
    ]


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("response_0", "response_1", {"better_response_id": [0, 1]}),
        ("response_1", "response_2", {"label": [1, 2]}),
        ("response_a", "response_b", {"winner": ["model_a", "model_b", "tie"]}),
        ("answerA", "answerB", {"preferred": ["A", "B"]}),
        ("output1", "output2", {"preference": ["output1", "output2"]}),
        ("response_a", "response_b", {"winner_model_a": [1, 0], "winner_model_b": [0, 1]}),
        ("reply_A", "reply_B", {"labels": [1, 0], "score_A": [9, 2], "score_B": [3, 4]}),
    ],
)
def test_the_better_answer_is_said(
    mapped: Any, pool: Any, first: str, second: str, told: dict[str, list[Any]]
) -> None:
    outcome = mapped(_rows(pool, first, second, **told), "sft")
    assert outcome.turns(0) == [("user", pool.question(0)), ("assistant", pool.answer(0))]
    assert outcome.turns(1) == [("user", pool.question(1)), ("assistant", pool.document(1))]
    assert len(outcome.records) == (6 if "tie" in told.get("winner", ()) else 9)


def test_scores_alone_leave_it_to_a_person(mapped: Any, pool: Any) -> None:
    rows = _rows(pool, "answer_0", "answer_1", score_0=[0.5, -0.2], score_1=[-0.5, 0.2])
    assert mapped(rows, "sft").proposal.confidence < 0.5


def test_a_label_that_names_no_side_picks_nothing(mapped: Any, pool: Any) -> None:
    rows = _rows(pool, "answer_1", "answer_2", label=["easy", "hard"])
    assert mapped(rows, "sft").turns(1)[1] == ("assistant", pool.answer(1))


def test_of_two_conversations_the_one_that_won(mapped: Any, pool: Any) -> None:
    def talk(n: int, reply: str) -> list[dict[str, str]]:
        return [
            {"role": "user", "content": pool.question(n)},
            {"role": "assistant", "content": reply},
        ]

    rows = [
        {
            "conversation_a": talk(n, pool.answer(n)),
            "conversation_b": talk(n, pool.document(n)),
            "winner": ("model_a", "model_b", "tie (bothbad)")[n % 3],
        }
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert len(outcome.records) == 6  # a tie has no winner
    assert [outcome.turns(n)[1][1] for n in (2, 3)] == [pool.answer(3), pool.document(4)]


def test_two_conversations_of_which_nothing_says_the_winner(mapped: Any, pool: Any) -> None:
    rows = [
        {
            f"conversation_{side}": [
                {"role": "user", "content": pool.question(n)},
                {"role": "assistant", "content": reply},
            ]
            for side, reply in (("a", pool.answer(n)), ("b", pool.document(n)))
        }
        for n in range(9)
    ]
    assert mapped(rows, "sft").proposal.confidence < 0.5


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        ("candidate_left", "candidate_right", ["candidate_left", "candidate_right"]),
        ("left_reply", "right_reply", ["left", "right", "draw"]),
        ("回答甲", "回答乙", ["甲", "乙", "均差"]),
    ],
)
def test_values_alone_say_the_better_answer(
    mapped: Any, pool: Any, first: str, second: str, values: list[str]
) -> None:
    outcome = mapped(_rows(pool, first, second, told=values), "sft")
    assert outcome.turns(0)[1] == ("assistant", pool.answer(0))
    assert outcome.turns(1)[1] == ("assistant", pool.document(1))
    assert len(outcome.records) == 9 - 3 * (len(values) - 2)


@pytest.mark.parametrize("sides", [("reply_a", "reply_b"), ("answer1", "answer2")])
def test_two_answers_of_which_nothing_says_the_better_one(
    mapped: Any, pool: Any, sides: tuple[str, str]
) -> None:
    assert mapped(_rows(pool, *sides), "sft").proposal.confidence < 0.5


def test_options_that_nothing_chooses_are_not_sure(mapped: Any, pool: Any) -> None:
    rows = [
        {"goal": pool.question(n), "sol1": pool.answer(n), "sol2": pool.answer(n + 1)}
        for n in range(9)
    ]
    assert mapped(rows, "sft").proposal.confidence < 0.5


def test_a_number_picks_from_a_list_of_answers(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "post": pool.document(n),
            "summaries": [{"text": pool.answer(n)}, {"text": pool.answer(n + 1)}],
            "choice": n % 2,
        }
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert [outcome.turns(n)[1][1] for n in (2, 3)] == [pool.answer(2), pool.answer(4)]


def test_answers_with_the_number_of_the_right_one_are_options(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "answers": [pool.thing(n + k) for k in range(4)],
            "label": n % 4,
        }
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert f"B. {pool.thing(3)}" in outcome.turns(2)[0][1]
    assert outcome.turns(2)[1][1] == pool.thing(4)
