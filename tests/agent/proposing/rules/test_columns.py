"""Questions and answers in columns, with what belongs beside them; multiple choice."""

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("question", "answer"),
        ("prompt", "completion"),
        ("inputs", "targets"),
        ("problem", "solution"),
        ("query", "response"),
        ("Q", "A"),
        ("问题", "回答"),
        ("consigne", "réponse"),
        ("Frage", "Antwort"),
        ("вопрос", "ответ"),
        ("質問", "回答"),
        ("질문", "답변"),
        ("user_query", "bot_reply"),
        ("textbox_question", "textbox_answer"),
    ],
)
def test_names_in_several_languages(mapped: Any, pool: Any, asked: str, told: str) -> None:
    rows = [{"no": n * 7, asked: pool.question(n), told: pool.answer(n)} for n in range(8)]
    outcome = mapped(rows, "sft")
    assert outcome.turns(2) == [("user", pool.question(2)), ("assistant", pool.answer(2))]
    assert outcome.meta["language"] == {"literal": "en"}
    assert outcome.proposal.detected == {"language": "en"}


def test_values_decide_where_names_say_nothing(mapped: Any, pool: Any) -> None:
    rows = [{"x": n % 3, "left": pool.question(n), "right": pool.answer(n)} for n in range(12)]
    outcome = mapped(rows, "sft")
    assert outcome.turns(5) == [("user", pool.question(5)), ("assistant", pool.answer(5))]
    assert outcome.proposal.confidence < 0.9


def test_misleading_names_are_outweighed(mapped: Any, pool: Any) -> None:
    """A `query` that holds SQL answers the question."""
    rows = [
        {"query": f"SELECT count(*) FROM t{n} WHERE a > {n};", "question": pool.question(n)}
        for n in range(8)
    ]
    assert mapped(rows, "sft").turns(1)[0] == ("user", pool.question(1))


def test_instruction_before_input_and_empty_input_dropped(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "instruction": f"Retell number {n} in one sentence.",
            "input": pool.document(n) if n % 2 else "",
            "output": pool.answer(n),
        }
        for n in range(10)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(0)[0] == ("user", "Retell number 0 in one sentence.")
    assert outcome.turns(1)[0] == ("user", f"Retell number 1 in one sentence.\n{pool.document(1)}")


def test_context_before_the_question(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "passage": pool.document(n),
            "answers": {"text": [pool.thing(n), "it"], "answer_start": [3, 9]},
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1)[0] == ("user", f"{pool.document(1)}\n{pool.question(1)}")
    assert outcome.turns(1)[1] == ("assistant", pool.thing(1))


def test_title_and_description_are_the_question(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "qid": n,
            "category": "health",
            "title": pool.question(n),
            "desc": "I have looked everywhere." if n % 3 == 0 else "",
            "answer": pool.answer(n),
        }
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(0)[0] == ("user", f"{pool.question(0)}\nI have looked everywhere.")
    assert outcome.turns(1)[0] == ("user", pool.question(1))


def test_system_and_rejected_columns(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "system": "You help people." if n % 2 else "",
            "question": pool.question(n),
            "chosen": pool.answer(n),
            "rejected": "I do not know, ask somebody else about it.",
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1) == [("user", pool.question(1)), ("assistant", pool.answer(1))]
    assert outcome.records[1]["system"] == "You help people."


def test_reasoning_before_a_short_answer(mapped: Any, pool: Any) -> None:
    rows = [
        {"question": pool.question(n), "answer": str(n * 3), "analysis": pool.answer(n)}
        for n in range(8)
    ]
    assert mapped(rows, "sft").turns(1)[1] == ("assistant", f"{pool.answer(1)}\n3")


def test_the_first_answer_that_is_not_empty(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "answers": ["", pool.answer(n)] if n % 2 else [pool.answer(n)],
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert [outcome.turns(n)[1][1] for n in range(8)] == [pool.answer(n) for n in range(8)]


def test_tries_of_models_are_passed_over(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "ground_truth": pool.answer(n),
            "small": {"is_correct": n % 2 == 0, "solution": pool.answer(n + 1)},
            "large": {"is_correct": True, "solution": pool.answer(n + 2)},
        }
        for n in range(8)
    ]
    assert mapped(rows, "sft").turns(1)[1] == ("assistant", pool.answer(1))


def test_a_text_and_its_summary(mapped: Any, pool: Any) -> None:
    rows = [{"article": pool.document(n), "highlights": pool.title(n)} for n in range(8)]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1) == [("user", pool.document(1)), ("assistant", pool.title(1))]


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


def test_numbers_from_one_point_to_options(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "sentence": pool.question(n),
            "option1": pool.thing(n),
            "option2": pool.thing(n + 1),
            "answer": str(n % 2 + 1),
        }
        for n in range(10)
    ]
    assert mapped(rows, "sft").turns(1)[1] == ("assistant", pool.thing(2))


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


def test_options_without_an_answer_are_no_conversation(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "id": n,
            "question": pool.question(n),
            **{x: pool.thing(n + k) for k, x in enumerate("ABCD")},
        }
        for n in range(10)
    ]
    assert mapped(rows, "sft").proposal.decision == "irrelevant"


def test_a_judged_pair_of_sentences(mapped: Any, pool: Any) -> None:
    labels = ("entailment", "neutral", "contradiction")
    rows = [
        {"premise": pool.document(n), "hypothesis": pool.title(n), "label": labels[n % 3]}
        for n in range(12)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1) == [
        ("user", f"{pool.document(1)}\n{pool.title(1)}"),
        ("assistant", "neutral"),
    ]


@pytest.mark.parametrize(
    "row",
    [
        lambda pool, n: {"id": n, "question": pool.question(n), "category": "general"},
        lambda pool, n: {"id": n, "question": pool.question(n), "answer": None if n % 2 else ""},
        lambda pool, n: {"id": n, "text": pool.document(n), "url": f"http://x.example/{n}"},
        lambda pool, n: {
            "iata": f"A{n:02d}",
            "name": pool.thing(n),
            "city": f"Town {n}",
            "lat": n / 3,
        },
        lambda pool, n: {"user": n, "item": n * 3, "rating": n % 5},
        lambda pool, n: {"input_ids": [n, 2, 3], "labels": [-100, 2, 3]},
    ],
)
def test_what_is_no_conversation(mapped: Any, pool: Any, row: Any) -> None:
    outcome = mapped([row(pool, n) for n in range(12)], "sft")
    assert outcome.proposal.decision == "irrelevant"
    assert outcome.proposal.reason


def test_the_better_of_two_answers(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "prompt": pool.question(n),
            "response_0": pool.answer(n),
            "response_1": pool.answer(n + 20),
            "better_response_id": n % 2,
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(0)[1] == ("assistant", pool.answer(0))
    assert outcome.turns(1)[1] == ("assistant", pool.answer(21))


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


def test_binary_feedback_in_columns(mapped: Any, pool: Any) -> None:
    rows = [
        {"prompt": pool.question(n), "completion": pool.answer(n), "label": n % 3 != 0}
        for n in range(9)
    ]
    assert len(mapped(rows, "sft").records) == 6
