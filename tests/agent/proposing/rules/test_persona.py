"""Who the assistant is to be, told in columns beside the conversation."""

from typing import Any


def _chat(pool: Any, n: int) -> list[dict[str, Any]]:
    texts = [pool.answer(n), pool.question(n), pool.answer(n + 1)]
    return [{"is_human": k == 1, "message": text} for k, text in enumerate(texts)]


def test_what_describes_the_bot_is_the_system_text(mapped: Any, pool: Any) -> None:
    rows = [
        {"bot_name": pool.thing(n), "bot_description": pool.document(n) if n % 3 else None,
         "bot_definitions": pool.title(n), "user_description": pool.document(n + 3),
         "conversation": _chat(pool, n)}
        for n in range(9)
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert outcome.mapping["system"] == ["bot_description", "bot_definitions"]
    assert outcome.records[0]["system"] == pool.title(0)


def test_a_persona_may_be_a_list(mapped: Any, pool: Any) -> None:
    rows = [
        {"personality": [f"I own {pool.thing(n)}.", "I like rain."], "chat": _chat(pool, n)}
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.records[2]["system"] == f"I own {pool.thing(2)}.\nI like rain."


def test_what_describes_the_answer_is_not(mapped: Any, pool: Any) -> None:
    rows = [{"answer_description": pool.document(n), "chat": _chat(pool, n)} for n in range(9)]
    assert "system" not in mapped(rows, "sft").mapping
