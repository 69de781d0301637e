"""Questions and answers in columns, with what belongs beside them; multiple choice."""

from typing import Any

import pytest


def test_values_decide_where_names_say_nothing(mapped: Any, pool: Any) -> None:
    rows = [{"x": n % 3, "left": pool.question(n), "right": pool.answer(n)} for n in range(12)]
    outcome = mapped(rows, "sft")
    assert outcome.turns(5) == [("user", pool.question(5)), ("assistant", pool.answer(5))]
    assert outcome.proposal.confidence < 0.9


def test_languages_as_columns_are_a_translation_of_no_single_language(
    mapped: Any, pool: Any
) -> None:
    rows = [
        {"translation": {"en": pool.question(n), "zh": pool.question_zh(n)}, "id": n}
        for n in range(10)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1) == [("user", pool.question(1)), ("assistant", pool.question_zh(1))]
    assert "language" not in outcome.meta


def test_each_question_of_a_nested_set_is_a_record(mapped: Any, pool: Any) -> None:
    data = [
        {
            "title": pool.title(n),
            "paragraphs": [
                {
                    "context": pool.document(n),
                    "qas": [
                        {
                            "question": pool.question(n + k),
                            "id": f"{n}-{k}-x",
                            "answers": [{"text": pool.thing(n + k), "answer_start": 1}],
                        }
                        for k in range(2)
                    ],
                }
            ],
        }
        for n in range(6)
    ]
    outcome = mapped({"version": "1.1", "data": data}, "sft")
    assert outcome.mapping["source"]["root"] == "data[*]"
    assert outcome.mapping["each"] == "paragraphs[*].qas[*]"
    assert len(outcome.records) == 12
    assert outcome.turns(1) == [
        ("user", f"{pool.document(0)}\n{pool.question(1)}"),
        ("assistant", pool.thing(1)),
    ]
    assert outcome.records[1]["meta"]["original_id"] == "0-1-x"


def test_records_keyed_by_id(mapped: Any, pool: Any) -> None:
    rows = {
        str(16_418_930 + n): {"QUESTION": pool.question(n), "LONG_ANSWER": pool.answer(n)}
        for n in range(10)
    }
    outcome = mapped(rows, "sft")
    assert outcome.mapping["source"]["root"] == "*"
    assert len(outcome.records) == 10
    assert {r["meta"]["original_id"] for r in outcome.records} == set(rows)


def test_tables_without_a_header(mapped: Any, pool: Any) -> None:
    def cell(text: str) -> str:
        return f'"{text}"'

    lines = [
        ",".join([cell(str(n % 4 + 1)), cell(pool.question(n)), cell(pool.answer(n))])
        for n in range(10)
    ]
    outcome = mapped("\n".join(lines) + "\n", "sft", name="train.csv")
    assert outcome.turns(1) == [("user", pool.question(1)), ("assistant", pool.answer(1))]


@pytest.mark.parametrize("letters", [True, False])
@pytest.mark.parametrize("shape", ["columns", "list", "object", "labelled", "pairs"])
def test_options_get_letters_and_the_answer_its_text_or_letter(
    mapped: Any, pool: Any, letters: bool, shape: str
) -> None:
    def row(n: int) -> dict[str, Any]:
        texts = [pool.thing(n + k) for k in range(4)]
        shapes: dict[str, dict[str, Any]] = {
            "columns": dict(zip("ABCD", texts, strict=True)),
            "list": {"choices": texts},
            "object": {"options": dict(zip("ABCD", texts, strict=True))},
            "labelled": {"choices": {"text": texts, "label": list("ABCD")}},
            "pairs": {
                "choices": [{"label": x, "text": t} for x, t in zip("ABCD", texts, strict=True)]
            },
        }
        return {
            "question": pool.question(n),
            **shapes[shape],
            "answer": "ABCD"[n % 4] if letters else n % 4,
        }

    outcome = mapped([row(n) for n in range(12)], "sft")
    things = [pool.thing(n) for n in range(1, 5)]
    shown = "\n".join(f"{x}. {t}" for x, t in zip("ABCD", things, strict=True))
    assert outcome.turns(1)[0] == ("user", f"{pool.question(1)}\n{shown}")
    assert outcome.turns(1)[1] == ("assistant", "B" if letters else things[1])


def test_options_that_carry_letters_keep_them(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "options": [f"{x}) {pool.thing(n + k)}" for k, x in enumerate("ABC")],
            "correct": "ABC"[n % 3],
        }
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1)[0][1].splitlines()[1] == f"A) {pool.thing(1)}"
    assert outcome.turns(1)[1] == ("assistant", "B")


def test_options_in_a_table_without_a_header(mapped: Any, pool: Any) -> None:
    lines = [
        ",".join(
            f'"{cell}"'
            for cell in (pool.question(n), *(pool.thing(n + k) for k in range(4)), "ABCD"[n % 4])
        )
        for n in range(12)
    ]
    outcome = mapped("\n".join(lines) + "\n", "sft", name="dev.csv")
    assert outcome.turns(2)[0][1].splitlines()[4] == f"D. {pool.thing(5)}"
    assert outcome.turns(2)[1] == ("assistant", "C")


def test_questions_about_one_text_are_records_of_their_own(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "doc": pool.document(n),
            "questions": [
                {"question": pool.question(n + k), "answer": pool.answer(n + k)} for k in range(2)
            ],
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert len(outcome.records) == 16
    assert outcome.turns(1)[0] == ("user", f"{pool.document(0)}\n{pool.question(1)}")
