"""What is computed over all sampled rows."""

from typing import Any

import pytest

from ingot.agent.proposing.columns import View
from ingot.agent.proposing.llm.relations import relation_lines

WORDS = [*"abcdefghijkl"]


def sentence(number: int) -> str:
    first, second = WORDS[number % 12], WORDS[(number * 5 + 1) % 12]
    return f"The river {first} near number {number} is older than the stone {second} of the town."


def told(rows: list[Any], share: str = "redacted") -> str:
    return "\n".join(relation_lines(rows, View.of(rows), share))


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (lambda a, b: f"{b} {a}", "full begins with part in all 12 rows"),
        (lambda a, b: f"{a} {b}", "full ends with part in all 12 rows"),
        (lambda a, b: f"{a} {b} {a}", "full contains part in all 12 rows"),
    ],
)
def test_one_text_in_another(made: Any, line: str) -> None:
    rows = [{"part": sentence(n), "full": made(sentence(n + 40), sentence(n))} for n in range(12)]
    assert line in told(rows)


def test_equal_texts_with_their_share() -> None:
    rows = [{"a": sentence(n), "b": sentence(n)} for n in range(20)]
    rows[3]["b"] = rows[3]["a"] + " And more."
    assert "equals" not in told([{"a": sentence(n), "b": sentence(n + 1)} for n in range(20)])
    assert "b equals a in 95% of 20 rows" in told(rows)


def test_a_short_answer_at_the_end_of_a_long_one() -> None:
    rows = [{"short": str(7 * n), "long": f"{sentence(n)} #### {7 * n}"} for n in range(2, 12)]
    assert "long ends with short in all 10 rows" in told(rows)


def test_what_is_always_the_same_is_no_relation() -> None:
    rows = [{"kind": "river", "text": f"river {sentence(n)}"} for n in range(12)]
    assert "river" not in told(rows)
    assert "kind" not in told(rows)


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (lambda n: "ABC"[n % 3], "answer names an option by its letter or key (choices[*])"),
        (lambda n: n % 3, "answer is the number of an option, from 0 (choices[*])"),
        (lambda n: n % 3 + 1, "answer is the number of an option, from 1 (choices[*])"),
        (lambda n: f"choice {n}-{n % 3}", "answer is the text of one option (choices[*])"),
    ],
)
def test_how_an_answer_names_an_option(answer: Any, line: str) -> None:
    rows = [
        {
            "question": f"What is {sentence(n)}?",
            "choices": [f"choice {n}-{place}" for place in range(3)],
            "answer": answer(n),
        }
        for n in range(12)
    ]
    assert line in told(rows)


def test_options_without_names_and_inside_the_question() -> None:
    bare = [
        {f"c{i}": v for i, v in enumerate([sentence(n), f"red {n}", f"blue {n}", "AB"[n % 2]])}
        for n in range(12)
    ]
    assert "c3 names an option by its letter or key (c1, c2)" in told(bare)
    inside = [
        {"q": f"Which one {n}?\nA. red\nB. blue\nC. green", "a": "ABC"[n % 3]} for n in range(9)
    ]
    assert "q already holds lettered options" in told(inside)


def test_elements_that_are_the_answer() -> None:
    rows = [
        {"answers": [sentence(n), sentence(n + 1)], "best": sentence(n + 1)}
        for n in range(0, 24, 2)
    ]
    assert "best equals the last of answers[*] in all 12 rows" in told(rows)


def test_lists_of_one_length_and_of_even_length() -> None:
    rows = [
        {"qs": [sentence(n + i) for i in range(2 + 2 * (n % 3))], "as": ["yes"] * (2 + 2 * (n % 3))}
        for n in range(9)
    ]
    made = told(rows)
    assert "qs and as have the same length in all rows" in made
    assert "qs has an even number of elements in all 9 rows" in made


def test_what_decides_whether_a_text_is_there() -> None:
    rows: list[Any] = [
        {
            "kind": ("open", "closed")[n % 2],
            "note": sentence(n) if n % 2 else "",
            "why": sentence(n + 1) if n % 2 else None,
            "plan": "" if n % 2 else sentence(n + 2),
        }
        for n in range(20)
    ]
    assert 'note, why: filled where kind is "closed"\n' in told(rows)
    assert 'plan: filled where kind is "open"\n' in told(rows)
    assert "note, why, plan: whether filled follows from kind\n" in told(rows, "none")


def test_what_names_an_element_of_a_list_by_its_key() -> None:
    rows = [
        {
            "users": [{"id": f"U{n}ZED", "name": "Zed"}, {"id": f"B{n}BOT", "name": "Bot"}],
            "turns": [{"by": f"U{n}ZED", "say": sentence(n)}, {"by": f"B{n}BOT", "say": "Yes."}],
            "options": [{"no": k, "say": sentence(n + k)} for k in (1, 2, 3)],
            "best": n % 3 + 1,
            "points": 9 - n,
        }
        for n in range(6)
    ]
    made = told(rows)
    assert "turns[*].by names an element by its users[*].id in all 6 rows" in made
    assert "best names an element by its options[*].no in all 6 rows" in made
    assert "points names" not in made


def test_languages_of_long_texts() -> None:
    rows = [
        {
            "en": sentence(n) * 3,
            "zh": f"今天第{n}条河边的石头比城里的桥还要古老得多。" * 3,
            "role": "user",
        }
        for n in range(12)
    ]
    made = told(rows)
    assert "language detected: en (100%) in en" in made
    assert "language detected: zh (100%) in zh" in made
    assert "role" not in made


def test_empty_and_odd_rows_give_nothing() -> None:
    assert told([]) == ""
    assert told([1, None, "x"]) == ""
    assert told([{}, {"a": None}]) == ""
