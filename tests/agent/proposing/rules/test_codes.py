"""Speakers known by codes, and texts that stand apart: what is said and done tells who is who."""

import json
import random
from typing import Any

import pytest


def _said(pool: Any, n: int, count: int = 4) -> list[str]:
    return [(pool.question, pool.answer)[k % 2](n + k // 2) for k in range(count)]


def _spoken(pool: Any, n: int, count: int = 4) -> list[tuple[str, str]]:
    return list(zip(("user", "assistant") * 3, _said(pool, n, count), strict=False))


def _shuffled(rows: list[Any]) -> list[Any]:
    random.Random(5).shuffle(rows)
    return rows


@pytest.mark.parametrize("codes", [("K", "M", "S"), ("1", "2", "9"), ("IN", "AUS", "INFO")])
def test_rows_without_names_are_gathered_by_who_answers_whom(
    mapped: Any, pool: Any, codes: tuple[str, str, str]
) -> None:
    """A table without a header, shuffled, with numbers that do not sort as texts and notices."""
    rows = [
        (f"{7000 + 13 * n}", str(8 + k), codes[who], "app", text)
        for n in range(9)
        for k, (who, text) in enumerate(
            [(2, "Chat opened"), *((k % 2, text) for k, text in enumerate(_said(pool, n)))]
        )
    ]
    outcome = mapped("".join("\t".join(row) + "\n" for row in _shuffled(rows)), "sft", "log.tsv")
    assert outcome.mapping["group"] == {"by": ["c0"], "sort": "c1"}
    told = {r["meta"]["original_id"]: k for k, r in enumerate(outcome.records)}
    assert outcome.turns(told["7026"]) == _spoken(pool, 2)
    assert outcome.proposal.confidence < 0.9


def test_two_texts_that_are_no_turns_are_not_gathered(mapped: Any, pool: Any) -> None:
    """Articles of a shop by kind: nobody answers anybody."""
    kinds = random.Random(1).choices("AB", k=36)
    rows = [
        {"x1": f"g{n // 4}", "x2": n % 4, "x3": kinds[n], "x4": f"{pool.thing(n)} number {n} here"}
        for n in range(36)
    ]
    mapping = mapped(rows, "sft").proposal.mapping
    assert mapping is None or mapping.group is None


def test_remarks_between_marked_texts_are_no_turns(mapped: Any, pool: Any) -> None:
    rows = [
        {"nr": n, "lead": f"About {pool.thing(n)}.",
         "tape": [["X", _said(pool, n)[0]], ["Y", _said(pool, n)[1]]]
         + [["z", "(pause)"]] * (n % 3 == 0)
         + [["X", _said(pool, n)[2]], ["Y", _said(pool, n)[3]]]}
        for n in range(9)
    ]  # fmt: skip
    assert mapped(rows, "sft").turns(3) == _spoken(pool, 3)


@pytest.mark.parametrize("names", [("K", "M"), ("Kundin", "Berater")])
@pytest.mark.parametrize("mark", ["[{0:02}:{1:02}] {2}: ", "{0:02}:{1:02} - {2}: "])
def test_times_before_the_marks_of_a_transcript_belong_to_no_turn(
    mapped: Any, pool: Any, names: tuple[str, str], mark: str
) -> None:
    rows = [
        {"case": f"T-{n}", "gist": f"Talk about {pool.thing(n)}.",
         "record": "\n".join(
            mark.format(8 + n, 11 * k, names[k % 2]) + text
            for k, text in enumerate(_said(pool, n)))}
        for n in range(9)
    ]  # fmt: skip
    assert mapped(rows, "sft").turns(4) == _spoken(pool, 4)


def test_notices_in_a_transcript_belong_to_no_turn(mapped: Any, pool: Any) -> None:
    rows = [
        {"id": n, "log": "=== chat opened\n" * (n % 2)
         + f"Client: {pool.question(n)}\nAgent: {pool.answer(n)}\nIt is so.\n=== chat closed"}
        for n in range(9)
    ]  # fmt: skip
    answer = pool.answer(3) + "\nIt is so."
    assert mapped(rows, "sft").turns(3) == [("user", pool.question(3)), ("assistant", answer)]


@pytest.mark.parametrize("role", [True, False])
def test_the_first_message_stands_before_the_others(mapped: Any, pool: Any, role: bool) -> None:
    author = {"kind": "customer"}
    who = {"by": author} if role else {}
    rows = [
        {"id": n, "subject": "Ticket", "first": {"body": pool.question(n)} | who,
         "more": [{"body": pool.answer(n), "by": {"kind": "agent"}, "t": "reply"},
                  {"body": "ask Tom first", "by": {"kind": "agent"}, "t": "internal_note"},
                  {"body": pool.question(n + 1), "by": author, "t": "reply"},
                  {"body": pool.answer(n + 1), "by": {"kind": "agent"}, "t": "reply"}]}
        for n in range(9)
    ]  # fmt: skip
    assert mapped(rows, "sft").turns(2) == _spoken(pool, 2)


def test_events_hold_their_texts_under_the_key_of_their_kind(mapped: Any, pool: Any) -> None:
    rows = [
        {"no": n, "log": [
            {"what": "start", "who": "system_event", "build": f"b{n}"},
            {"what": "wish", "who": "customer", "phrase": pool.question(n)},
            {"what": "lookup", "who": "bot", "plan": f"I search for {pool.thing(n)}."},
            {"what": "found", "who": "tool", "rows": f"{pool.thing(n)} is in room {n}"},
            {"what": "close", "who": "bot", "message": pool.answer(n)}][: 5 - (n == 4)]}
        for n in range(9)
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert [role for role, _ in outcome.turns(1)] == ["user", "assistant", "tool", "assistant"]
    assert outcome.turns(1)[3] == ("assistant", pool.answer(1))
    assert len(outcome.records) == 8


def test_a_table_of_the_participants_says_who_speaks(mapped: Any, pool: Any) -> None:
    rows = [
        {"call": n, "crew": [{"ref": f"a{n}", "side": "staff"}, {"ref": f"b{n}", "side": "caller"}],
         "lines": [{"speaker_ref": f"a{n}", "said": f"Good day, harbour office, line {n}."}]
         + [{"speaker_ref": f"{'ba'[k % 2]}{n}", "said": t} for k, t in enumerate(_said(pool, n))],
         "abstract": f"The caller asks about {pool.thing(n)}."}
        for n in range(9)
    ]  # fmt: skip
    assert mapped(rows, "sft").turns(2)[1:] == _spoken(pool, 2)


def test_attributes_are_found_by_their_key(mapped: Any, pool: Any) -> None:
    rows = [
        {"span": f"s{n}", "attrs": _shuffled([
            {"k": "llm.model", "v": {"text": "m-1"}}, {"k": "llm.tokens", "v": {"num": n}},
            {"k": "llm.prompt", "v": {"text": pool.question(n)}},
            {"k": "llm.completion", "v": {"text": pool.answer(n)}}])}
        for n in range(12)
    ]  # fmt: skip
    assert mapped(rows, "sft").turns(7) == _spoken(pool, 7, 2)


def test_mails_are_gathered_without_drafts_and_quotes(mapped: Any, pool: Any) -> None:
    boxes = ("inbox", "sent_items")
    rows = [
        {"thread": f"AA{n}x", "box": boxes[k % 2], "title": f"Re: {pool.thing(n)}",
         "when": 1000 * n + k, "own": text,
         "whole": text + f"\n\n-----Original-----\n> {pool.thing(n)}" * (k > 0)}
        for n in range(9)
        for k, text in enumerate(_said(pool, n))
    ]  # fmt: skip
    draft = {"box": "drafts", "own": "Dear", "whole": "Dear"}
    drafts = [{**rows[4 * n + 3], **draft, "when": 1000 * n + 9} for n in (1, 5)]
    outcome = mapped(_shuffled(rows + drafts), "sft")
    told = {r["meta"]["original_id"]: k for k, r in enumerate(outcome.records)}
    assert outcome.turns(told["AA5x"]) == _spoken(pool, 5)


def test_requests_without_an_answer_are_left_out(mapped: Any, pool: Any) -> None:
    failed = json.dumps({"error": {"message": "busy"}})
    rows = []
    for n in range(12):
        said = [{"type": "text", "text": pool.answer(n)}]
        got = json.dumps({"role": "assistant", "content": said}) if n % 4 else failed
        sent = json.dumps({"messages": [{"role": "user", "content": pool.question(n)}]})
        rows.append({"id": n, "sent": sent, "got": got})
    outcome = mapped(rows, "sft")
    assert len(outcome.records) == 9
    assert outcome.turns(0) == _spoken(pool, 1, 2)
