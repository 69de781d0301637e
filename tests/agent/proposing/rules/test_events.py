"""Logs of events: messages among offers, joins and other things that nobody says."""

from typing import Any


def _log(pool: Any, n: int) -> list[dict[str, Any]]:
    said = [pool.question(n), pool.answer(n), pool.question(n + 1), pool.answer(n + 1)]
    events = [{"agent": k % 2, "action": "message", "data": text} for k, text in enumerate(said)]
    offer = {"agent": 0, "action": "offer", "data": {"price": 10 + n}}
    return [*events, offer, {"agent": 1, "action": "accept", "data": None}]


def test_only_the_kind_of_event_that_holds_texts_is_said(mapped: Any, pool: Any) -> None:
    rows = [{"uuid": f"C_{n:04}", "events": _log(pool, n)} for n in range(9)]
    outcome = mapped(rows, "sft")
    assert outcome.turns(2) == [
        ("user", pool.question(2)),
        ("assistant", pool.answer(2)),
        ("user", pool.question(3)),
        ("assistant", pool.answer(3)),
    ]
    assert len(outcome.records) == 9


def test_where_every_element_is_said_their_kind_does_not_matter(mapped: Any, pool: Any) -> None:
    rows = [
        {"events": [{**one, "data": str(one["data"])} for one in _log(pool, n)]} for n in range(9)
    ]
    assert mapped(rows, "sft").mapping["messages"][0]["content"] == "data"
