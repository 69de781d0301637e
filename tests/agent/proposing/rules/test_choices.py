"""Options and what names the right one, in the spellings that data sets have."""

from typing import Any

import pytest

NAMES = ("copper", "granite", "linen", "amber")


def question(n: int) -> str:
    return f"Which of these did the {n}th ship carry when it left the harbour?"


@pytest.mark.parametrize("letters", ["ABCD", "abcd"])
def test_letters_of_a_list_of_answers(mapped: Any, letters: str) -> None:
    rows = [
        {
            "statement": question(n),
            "option_list": dict(zip(letters, NAMES, strict=True)),
            "answer": [letters[n % 4]] + ([letters[3]] if n % 5 == 1 else []),
            "type": str(n % 2),
        }
        for n in range(12)
    ]
    turns = mapped(rows, "sft").turns(0)
    shown = "\n".join(f"{letter}. {name}" for letter, name in zip(letters, NAMES, strict=True))
    assert turns == [("user", f"{question(0)}\n{shown}"), ("assistant", letters[0])]


def test_options_that_the_question_names_are_not_said_twice(mapped: Any) -> None:
    rows = [
        {
            "input": f"{question(n)} Choose: copper, linen.",
            "answer_choices": ["copper", "linen"],
            "target": ("copper", "linen")[n % 2],
        }
        for n in range(12)
    ]
    assert mapped(rows, "sft").turns(1) == [("user", rows[1]["input"]), ("assistant", "linen")]


def test_what_is_called_the_answer_goes_before_longer_texts(mapped: Any, pool: Any) -> None:
    rows = [
        {"ID": f"c-{n}", "Body": pool.document(n), "Question": question(n), "Answer": 10.0 + n}
        for n in range(12)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(2) == [
        ("user", f"{pool.document(2)}\n{question(2)}"),
        ("assistant", "12.0"),
    ]
