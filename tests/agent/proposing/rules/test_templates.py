"""Transcripts written by chat templates."""

from collections.abc import Callable
from typing import Any

import pytest

Turn = Callable[[str, str], str]


def _gemma(role: str, text: str) -> str:
    return f"<start_of_turn>{'user' if role == 'user' else 'model'}\n{text}<end_of_turn>\n"


def _inline(role: str, text: str) -> str:
    return f"USER: {text} " if role == "user" else f"ASSISTANT: {text}</s>"


def _bars(role: str, text: str) -> str:
    end = "" if role == "user" else "<｜end▁of▁sentence｜>"
    return f"<｜{role.capitalize()}｜>{text}{end}"


def _ends(role: str, text: str) -> str:
    return f"<|Human|>: {text}<eoh>\n" if role == "user" else f"<|AI|>: {text}<eoa>\n"


@pytest.mark.parametrize("turn", [_gemma, _inline, _bars, _ends])
@pytest.mark.parametrize("start", ["", "<bos>", "A talk between a person and a machine. "])
def test_transcripts_of_chat_templates(mapped: Any, pool: Any, turn: Turn, start: str) -> None:
    def text(n: int) -> str:
        said = [pool.question(n), pool.answer(n), pool.question(n + 1), pool.answer(n + 1)]
        roles = ("user", "assistant") * 2
        return start + "".join(turn(role, one) for role, one in zip(roles, said, strict=True))

    outcome = mapped([{"text": text(n)} for n in range(9)], "sft")
    assert outcome.turns(4) == [
        ("user", pool.question(4)),
        ("assistant", pool.answer(4)),
        ("user", pool.question(5)),
        ("assistant", pool.answer(5)),
    ]


def test_words_with_a_colon_inside_a_sentence_are_no_speakers(mapped: Any, pool: Any) -> None:
    rows = [
        {"question": f"Fill it in. User: {pool.thing(n)} and so on. What is it?",
         "answer": pool.answer(n)}
        for n in range(9)
    ]  # fmt: skip
    assert [role for role, _ in mapped(rows, "sft").turns()] == ["user", "assistant"]
