"""Rows that are single turns: which belong together, and in which order."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.proposal import Request
from ingot.agent.proposing.rules.mapper import propose
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document


def _turns(pool: Any, n: int, count: int = 4) -> list[str]:
    return [(pool.question, pool.answer)[k % 2](n + k // 2) for k in range(count)]


def _contents(outcome: Any, number: int = 0) -> list[str]:
    return [text for _, text in outcome.turns(number)]


def test_rows_that_say_who_speaks_keep_the_order_of_the_file(mapped: Any, pool: Any) -> None:
    rows = [
        {"conversation_id": f"c{n}", "role": ("user", "assistant")[k % 2], "text": text}
        for n in range(8)
        for k, text in enumerate(_turns(pool, n))
    ]
    outcome = mapped(rows, "sft")
    assert outcome.mapping["group"] == {"by": ["conversation_id"]}
    assert _contents(outcome, 3) == _turns(pool, 3)


def test_talks_that_run_side_by_side_are_parted_and_put_in_order_of_time(
    mapped: Any, pool: Any
) -> None:
    rows = [
        {"chat_id": f"c{n}", "from_agent": k % 2 == 1, "at": f"2024-05-01 10:{k:02}:{n:02}",
         "text": _turns(pool, n)[k]}
        for k in (1, 0, 3, 2)
        for n in range(8)
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert outcome.mapping["group"] == {"by": ["chat_id"], "sort": "at"}
    assert _contents(outcome, 5) == _turns(pool, 5)


@pytest.mark.parametrize(
    ("key", "who", "values"),
    [
        ("session_id", "waiter_send", (0, 1, 0, 1)),
        ("Dialogue_ID", "Speaker", ("Tom", "Lea", "Tom", "Lea")),
    ],
)
def test_speakers_without_a_role_who_take_turns_keep_the_order_of_the_file(
    mapped: Any, pool: Any, key: str, who: str, values: tuple[Any, ...]
) -> None:
    rows = [
        {key: f"s{n}", who: value, "other": 0, "content": text}
        for n in range(8)
        for value, text in zip(values, _turns(pool, n), strict=True)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.mapping["group"] == {"by": [key]}
    assert [role for role, _ in outcome.turns()] == ["user", "assistant"] * 2


def test_lines_of_a_document_are_no_turns(mapped: Any, pool: Any) -> None:
    rows = [
        {"page_id": f"p{n}", "bold": k % 2, "line": text}
        for n in range(8)
        for k, text in enumerate(_turns(pool, n))
    ]
    mapping = mapped(rows, "sft").proposal.mapping
    assert mapping is None or mapping.group is None


def _replies(pool: Any, turns: int, parent: Any) -> list[dict[str, Any]]:
    """Rows whose last turn stands first, each with the id of the row that it answers."""
    return [
        {"message_id": f"m{n}{k}", "thread_id": f"t{n}", "text": _turns(pool, n, turns)[k],
         "in_reply_to": parent(n, k)}
        for n in range(8)
        for k in reversed(range(turns))
    ]  # fmt: skip


def test_replies_are_put_behind_what_they_answer(mapped: Any, pool: Any) -> None:
    rows = _replies(pool, 4, lambda n, k: f"m{n}{k - 1}" if k else None)
    outcome = mapped(rows, "sft")
    assert outcome.mapping["group"] == {"by": ["thread_id"], "sort": "message_id"}
    assert _contents(outcome, 2) == _turns(pool, 2)


def test_replies_that_branch_are_no_conversation(mapped: Any, pool: Any) -> None:
    rows = _replies(pool, 5, lambda n, k: f"m{n}0" if k else None)
    mapping = mapped(rows, "sft").proposal.mapping
    assert mapping is None or mapping.group is None


def test_rows_that_hold_both_sides_are_gathered_by_their_dialogue(mapped: Any, pool: Any) -> None:
    rows = [
        {"context": pool.question(n + k), "response": pool.answer(n + k), "dialogue_id": n,
         "turn": k}
        for n in range(6)
        for k in range(3)
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert outcome.mapping["group"] == {"by": ["dialogue_id"], "sort": "turn"}
    assert len(outcome.turns()) == 6


def test_questions_about_one_article_are_not_gathered(mapped: Any, pool: Any) -> None:
    rows = [
        {"article_id": n, "number": k, "article": pool.document(n),
         "question": pool.question(n + k), "answer": pool.answer(n + k)}
        for n in range(6)
        for k in range(3)
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert "group" not in outcome.mapping
    assert pool.document(0) in outcome.turns()[0][1]


@pytest.mark.parametrize("key", ["role", "speaker"])
def test_a_file_is_a_conversation_where_it_lists_messages(
    tmp_path: Path, pool: Any, key: str
) -> None:
    for n in range(5):
        said = enumerate(_turns(pool, n))
        messages = [{key: ("client", "counselor")[k % 2], "content": text} for k, text in said]
        (tmp_path / f"{n}.json").write_text(json.dumps(messages), encoding="utf-8")
    source = open_source(str(tmp_path))
    proposal = propose(source, draw_sample(source), Request(mode="sft"))
    assert proposal.mapping is not None
    assert document(proposal.mapping)["source"]["root"] == "$"


def test_files_that_list_records_stay_lists_of_records(tmp_path: Path, pool: Any) -> None:
    for n in range(5):
        rows = [{"role": "teacher", "question": pool.question(n + k), "answer": pool.answer(n + k)}
                for k in range(4)]  # fmt: skip
        (tmp_path / f"{n}.json").write_text(json.dumps(rows), encoding="utf-8")
    source = open_source(str(tmp_path))
    proposal = propose(source, draw_sample(source), Request(mode="sft"))
    assert proposal.mapping is not None
    assert document(proposal.mapping).get("source", {}).get("root") != "$"


def test_what_all_rows_of_a_talk_say_of_the_system_is_said_once(mapped: Any, pool: Any) -> None:
    rows = [
        {"chat_id": f"c{n}", "turn": k, "system_prompt": pool.document(n),
         "role": ("user", "assistant")[k % 2], "text": text}
        for n in range(8)
        for k, text in enumerate(_turns(pool, n))
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert outcome.mapping["system"] == "[0].system_prompt"
    assert outcome.records[3]["system"] == pool.document(3)
