"""Hostile texts: long runs of one sign cost the rules their length, not its square.

Nothing is timed. What is quadratic takes minutes on these texts, and the suite would show it.
"""

from typing import Any

import pytest

from ingot.agent.proposing.names import language_code, name_strength, speaker_role
from ingot.agent.proposing.rules.conversations.transcripts import (
    find_wrapping_marks,
    texts_begin_with_speaker,
)

SIZE = 50_000
RUNS = ("a", "A", "1", "_1", " ", "\n", "\n ", "\t", "(", "[", "<|", "#", "*", ":", "f(", ". ")


def _run(unit: str) -> str:
    return (unit * SIZE)[:SIZE]


@pytest.mark.parametrize("unit", RUNS)
def test_a_long_name_means_nothing(unit: str) -> None:
    name = f"x{_run(unit)}x"
    assert name_strength(name, "question") == 0.0
    assert name_strength(f"问题{name}", "question") == 0.0
    assert speaker_role(name) is None
    assert speaker_role(f"user{name}") is None
    assert language_code(name) is None


@pytest.mark.parametrize("unit", RUNS)
def test_runs_of_a_sign_are_no_speakers(unit: str) -> None:
    texts = [_run(unit) + "x"] * 3
    assert not texts_begin_with_speaker(texts)
    assert find_wrapping_marks(texts) == []


@pytest.mark.parametrize("unit", ["a", "1", " ", "\n", "\n ", "\t", "(", "[", "=", "\r\n"])
def test_transcripts_are_cut_beside_runs_of_a_sign(mapped: Any, pool: Any, unit: str) -> None:
    run = f"{unit * 15_000}x"  # the markers behind it still stand within what is looked at

    def chat(n: int) -> str:
        first = f"User: {pool.question(n)}\nAssistant: {pool.answer(n)}{run}"
        return f"{first}\nUser: {n}?\nAssistant: yes"

    outcome = mapped([{"id": f"c{n}", "text": chat(n)} for n in range(8)], "sft")
    assert [role for role, _ in outcome.turns(2)] == ["user", "assistant"] * 2
    assert outcome.turns(2)[1] == ("assistant", f"{pool.answer(2)}{run}")


def test_markers_beyond_the_beginning_of_a_text_cut_it_too(mapped: Any, pool: Any) -> None:
    def chat(n: int) -> str:
        turns = [
            f"User: {pool.question(k)}\nAssistant: {pool.answer(k)}" for k in range(n, n + 200)
        ]
        return "\n".join(turns)

    outcome = mapped([{"id": f"c{n}", "text": chat(n)} for n in range(4)], "sft")
    assert len(outcome.turns(1)) == 400


@pytest.mark.parametrize("unit", ["1", "_1", "a1", "_", "a_"])
def test_columns_with_long_names_are_no_turns(mapped: Any, pool: Any, unit: str) -> None:
    def row(n: int) -> dict[str, str]:
        return {
            f"{unit * 20_000}x": "off",
            f"turn{'1' * 20_000}": "off",
            "turn_1": pool.question(n),
            "turn_2": pool.answer(n),
        }

    outcome = mapped([row(n) for n in range(8)], "sft")
    assert outcome.turns(3) == [("user", pool.question(3)), ("assistant", pool.answer(3))]
