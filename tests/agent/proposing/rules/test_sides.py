"""Which columns ask and answer: by what they hold, against decoys, copies and several tries."""

from typing import Any


def _user(outcome: Any, number: int = 0) -> str:
    return str(outcome.turns(number)[0][1])


def test_names_of_programs_do_not_ask(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "intent": ("cancel_order", "track_refund", "get_invoice")[n % 3],
            "instruction": pool.question(n),
            "response": pool.answer(n),
        }
        for n in range(9)
    ]
    assert mapped(rows, "sft").turns(1) == [
        ("user", pool.question(1)),
        ("assistant", pool.answer(1)),
    ]


def test_single_words_may_ask(mapped: Any, pool: Any) -> None:
    rows = [{"question": f"word{n}", "answer": pool.answer(n)} for n in range(9)]
    assert _user(mapped(rows, "sft"), 3) == "word3"


def test_a_copy_cut_into_tokens_is_left_out(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "segmented_text": " ".join(pool.question_zh(n)),
            "original_text": pool.question_zh(n),
            "answer": pool.answer_zh(n),
        }
        for n in range(9)
    ]
    assert _user(mapped(rows, "sft"), 2) == pool.question_zh(2)


def test_numbers_of_other_rows_do_not_answer(mapped: Any, pool: Any) -> None:
    rows = [{"ans_id": 9000 + 7 * n, "content": pool.question(n)} for n in range(12)]
    assert mapped(rows, "sft").proposal.decision == "irrelevant"


def test_a_number_that_answers_stays(mapped: Any) -> None:
    rows = [{"question": f"What is {n} plus {n}?", "answer": 2 * n} for n in range(12)]
    assert mapped(rows, "sft").turns(4) == [("user", "What is 4 plus 4?"), ("assistant", "8")]


def test_an_attribution_does_not_answer_a_translation(mapped: Any, pool: Any) -> None:
    lines = [
        f"{pool.question(n)}\t{pool.question_zh(n)}\tShared under CC-BY by example.org #{n * 97}"
        for n in range(12)
    ]
    outcome = mapped("\n".join(lines) + "\n", "sft", name="pairs.tsv")
    assert outcome.turns(3) == [("user", pool.question(3)), ("assistant", pool.question_zh(3))]


def test_of_several_answers_the_first(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "input": pool.question(n),
            "answer_clinic": pool.answer(n),
            "answer_chatgpt": pool.document(n) * 2,
        }
        for n in range(9)
    ]
    assert mapped(rows, "sft").turns(1)[1] == ("assistant", pool.answer(1))
    numbered = [
        {
            "article": pool.document(n) * 3,
            "summary1": pool.thing(n) + " was seen.",
            "summary2": pool.answer(n),
        }
        for n in range(9)
    ]
    assert mapped(numbered, "sft").turns(1)[1] == ("assistant", pool.thing(1) + " was seen.")


def test_reasons_beside_the_answer_are_no_second_try(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "answer_rationale": pool.answer(n),
            "answer_text": pool.thing(n),
        }
        for n in range(9)
    ]
    assert mapped(rows, "sft").turns(1)[1] == ("assistant", f"{pool.answer(1)}\n{pool.thing(1)}")


def test_what_tools_say_of_themselves_answers_nothing(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "api_list": [{"name": f"api{n}", "description": pool.answer(n)}],
            "query": pool.question(n),
        }
        for n in range(12)
    ]
    assert mapped(rows, "sft").proposal.decision == "irrelevant"


def test_a_title_of_the_question_stands_before_its_text(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "questionTitle": pool.title(n),
            "questionText": pool.document(n),
            "answerText": pool.answer(n),
        }
        for n in range(9)
    ]
    assert _user(mapped(rows, "sft"), 2) == f"{pool.title(2)}\n{pool.document(2)}"


def test_a_prompt_made_of_the_other_columns_is_not_said_twice(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "instruction": pool.question(n),
            "input": pool.document(n),
            "instruction_with_input": f"{pool.question(n)}\n{pool.document(n)}",
            "output": pool.answer(n),
        }
        for n in range(9)
    ]
    assert _user(mapped(rows, "sft"), 1) == f"{pool.question(1)}\n{pool.document(1)}"


def test_each_element_with_both_sides_is_an_example(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "instruction": f"Retell text {n} in one sentence.",
            "instances": [
                {"input": pool.document(n + k), "output": pool.answer(n + k)}
                for k in range(1 + n % 2)
            ],
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert len(outcome.records) == 12
    assert outcome.turns(2) == [
        ("user", f"Retell text 1 in one sentence.\n{pool.document(2)}"),
        ("assistant", pool.answer(2)),
    ]


def test_elements_that_only_answer_are_tries_at_one_thing(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "instruction": pool.question(n),
            "completions": [
                {
                    "custom_system_prompt": f"You are clerk {k}.",
                    "response": pool.answer(n + k),
                    "annotations": {
                        "honesty": {"Rationale": pool.document(n)},
                        "helpfulness": {"Rationale": pool.document(n + 1)},
                    },
                }
                for k in range(3)
            ],
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1) == [("user", pool.question(1)), ("assistant", pool.answer(1))]
    assert outcome.records[1]["system"] == "You are clerk 0."


def test_labels_of_options_may_be_letters_in_one_row_and_numbers_in_another(
    mapped: Any, pool: Any
) -> None:
    rows = [
        {
            "question": {
                "stem": pool.question(n),
                "choices": [
                    {"text": pool.thing(n + k), "label": ("ABCD" if n % 5 else "1234")[k]}
                    for k in range(4)
                ],
            },
            "answerKey": ("ABCD" if n % 5 else "1234")[n % 4],
        }
        for n in range(10)
    ]
    outcome = mapped(rows, "sft")
    assert f"1. {pool.thing(5)}" in _user(outcome, 5)
    assert [outcome.turns(n)[1][1] for n in (5, 6)] == ["2", "C"]


def test_a_summary_of_a_talk_answers_the_whole_talk(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "dialogue": "\n".join(
                f"#Person{k % 2 + 1}#: {pool.question(n + k)}" for k in range(4 + n % 2)
            ),
            "summary": f"Two people talk about {pool.thing(n)} and what it means to them.",
        }
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert [role for role, _ in outcome.turns(0)] == ["user", "assistant"]
    assert outcome.turns(0)[1][1].startswith("Two people")


def test_a_template_with_both_sides_in_it_answers_nothing(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "instruction": pool.question(n),
            "output": pool.answer(n),
            "text": f"A task.\n\n### Task:\n{pool.question(n)}\n\n### Reply:\n{pool.answer(n)}",
        }
        for n in range(9)
    ]
    assert mapped(rows, "sft").turns(1) == [
        ("user", pool.question(1)),
        ("assistant", pool.answer(1)),
    ]


def test_code_that_repeats_its_task_answers(mapped: Any) -> None:
    rows = [
        {
            "prompt": f"# Add {n} to a number and return it.",
            "completion": f"# Add {n} to a number and return it.\ndef add(x):\n    return x + {n}",
        }
        for n in range(9)
    ]
    assert mapped(rows, "sft").turns(1)[1][1].endswith("return x + 1")


def test_short_answers_without_names(mapped: Any, pool: Any) -> None:
    lines = [f"{pool.question(n)}\t{pool.thing(n)}" for n in range(12)]
    outcome = mapped("\n".join(lines) + "\n", "sft", name="qa.txt")
    assert outcome.turns(2) == [("user", pool.question(2)), ("assistant", pool.thing(2))]
    labels = [f"{pool.document(n)}\t{pool.thing(n % 3)}" for n in range(12)]
    said = mapped("\n".join(labels) + "\n", "sft", name="qa.txt").proposal
    assert said.decision == "irrelevant" or said.confidence < 0.6


def test_the_first_answer_that_is_not_empty(mapped: Any, pool: Any) -> None:
    rows = [
        {"q": pool.question(n), "answer1": pool.answer(n) * (n % 2), "answer2": pool.document(n)}
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert [outcome.turns(n)[1][1] for n in (0, 1)] == [pool.document(0), pool.answer(1)]


def test_options_in_one_text_follow_the_question(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "problem": pool.question(n),
            "options": f"a ) {pool.thing(n)} , b ) {pool.thing(n + 1)}",
            "rationale": pool.answer(n),
            "correct": "ab"[n % 2],
        }
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1)[0][1] == (
        f"{pool.question(1)}\na ) {pool.thing(1)} , b ) {pool.thing(2)}"
    )


def test_keywords_ask_for_the_only_other_text(mapped: Any, pool: Any) -> None:
    rows = [{"keywords": f"moon {pool.thing(n)}", "poem": pool.document(n)} for n in range(12)]
    assert mapped(rows, "sft").turns(1) == [
        ("user", f"moon {pool.thing(1)}"),
        ("assistant", pool.document(1)),
    ]
