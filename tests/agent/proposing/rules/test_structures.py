"""Shapes of companies' own exports: what the rules read in them, and what they doubt."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.proposal import Request
from ingot.agent.proposing.rules.mapper import propose, propose_with_doubts
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document

SIDES = ("user", "assistant", "user", "assistant")


def doubts_of(rows: list[Any], folder: Path, mode: str) -> dict[str, float]:
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(str(folder / "d.jsonl"))
    return propose_with_doubts(source, draw_sample(source), Request(mode=mode))[1]


def talk(pool: Any, n: int) -> list[tuple[str, str]]:
    return [("user", pool.question(n)), ("assistant", pool.answer(n))]


def test_annotations_below_an_utterance_are_not_what_is_said(mapped: Any, pool: Any) -> None:
    """As in task dialogues: a label beside the text of each turn, with a long value."""
    rows = [
        {
            "instruction_id": "pizza",
            "utterances": [
                {
                    "speaker": role,
                    "text": text,
                    "segments": [{"annotations": [{"value": text * 2}]}],
                }
                for role, text in talk(pool, n)
            ],
        }
        for n in range(12)
    ]
    assert mapped(rows, "auto").turns(3) == talk(pool, 3)


def test_a_turn_is_a_text_or_a_list_of_blocks(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "messages": [
                {"role": "user", "content": pool.question(n)},
                {"role": "assistant", "content": [{"type": "text", "text": pool.answer(n)}]},
            ]
        }
        for n in range(12)
    ]
    assert mapped(rows, "sft").turns(5) == talk(pool, 5)


def test_the_pieces_of_a_stream_are_one_answer(mapped: Any, pool: Any) -> None:
    rows = []
    for n in range(12):
        answer = pool.answer(n)
        pieces = [answer[k : k + 7] for k in range(0, len(answer), 7)]
        first = [{"delta": {"role": "assistant", "content": ""}}]
        rows.append(
            {
                "request": {"messages": [{"role": "user", "content": pool.question(n)}]},
                "chunks": first + [{"delta": {"content": piece}} for piece in pieces],
            }
        )
    assert mapped(rows, "sft").turns(2) == talk(pool, 2)


def test_a_reply_says_of_itself_that_the_assistant_speaks(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "id": f"req-{n}",
            "request": {"body": {"messages": [{"role": "user", "content": pool.question(n)}]}},
            "response": {
                "id": f"resp-{n}",
                "choices": [{"message": {"role": "assistant", "content": pool.answer(n)}}],
            },
        }
        for n in range(12)
    ]
    assert mapped(rows, "sft").turns(7) == talk(pool, 7)


def test_steps_of_an_agent_stand_between_task_and_answer(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "task": pool.question(n),
            "steps": [
                {
                    "thought": "I look it up.",
                    "action": {"tool": "find", "id": n},
                    "observation": "a",
                }
            ],
            "answer": pool.answer(n) if n else "",
        }
        for n in range(12)
    ]
    outcome = mapped(rows, "sft")
    assert [role for role, _ in outcome.turns()] == ["user", "assistant", "tool", "assistant"]
    assert outcome.turns()[1][1].startswith('<think>\nI look it up.\n</think>\n\n{"')
    assert len(outcome.records) == 11  # a run that was broken off answers nothing


def test_notes_that_the_other_side_does_not_see_are_no_turns(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "thread": [
                {"by": "customer", "public": True, "body": pool.question(n)},
                {"by": "agent", "public": False, "body": f"Ask the depot about number {n} first."},
                {"by": "agent", "public": True, "body": pool.answer(n)},
            ]
        }
        for n in range(12)
    ]
    assert mapped(rows, "sft").turns(4) == talk(pool, 4)


def test_one_who_is_in_all_conversations_answers_all_others(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "items": [
                {"von": f"guest{n}-{n * n}", "wort": pool.question(n)},
                {"von": "zeta", "wort": pool.answer(n)},
            ]
        }
        for n in range(12)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(6) == talk(pool, 6)


def test_rows_are_messages_of_one_thread(mapped: Any, pool: Any) -> None:
    """A direction says who writes; the rows lie in the order of a random id."""
    rows = []
    for n in range(12):
        for k, (direction, text) in enumerate(
            zip(("Incoming", "Outgoing"), (pool.question(n), pool.answer(n)), strict=True)
        ):
            sent = f"2026-02-{n + 1:02}T1{k}:18:00Z"
            thread = f"92B4A65A-8512-454A-A3F5-DB11592179{n:02}"
            rows.append({"thread": {"id": thread}, "dir": direction, "sent": sent, "text": text})
    rows.sort(key=lambda row: row["text"][::-1])
    outcome = mapped(rows, "sft")
    assert sorted(map(str, (outcome.turns(n) for n in range(12)))) == sorted(
        str(talk(pool, n)) for n in range(12)
    )


def test_pages_that_break_in_sentences_are_joined(mapped: Any, pool: Any) -> None:
    rows = []
    for n in range(6):
        words = (pool.document(n) + " " + pool.document(n + 3)).split()
        for page in range(4):
            cut = " ".join(words[page * len(words) // 4 : (page + 1) * len(words) // 4])
            rows.append({"vol": f"b{n:03}x", "pg": str(page + 8), "scan": cut.lower()})
    rows.sort(key=lambda row: row["scan"])
    outcome = mapped(rows, "pt")
    assert len(outcome.records) == 6
    assert outcome.mapping["group"] == {"by": ["vol"], "sort": "pg"}


def test_sections_inside_sections_are_one_text(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "name": pool.title(n),
            "secs": [
                {
                    "h": f"Part {n}",
                    "ps": [pool.document(n)],
                    "subs": [{"h": "Later", "ps": [pool.document(n + 1)], "subs": []}],
                }
            ],
        }
        for n in range(12)
    ]
    text = mapped(rows, "pt").text(2)
    assert [pool.document(2) in text, pool.document(3) in text, "Later" in text] == [True] * 3


def test_rows_that_a_person_rejected_are_left_out(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "answer": pool.answer(n),
            "review": "rejected" if n % 3 == 0 else "approved",
        }
        for n in range(12)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.mapping["where"] == [{"path": "review", "not_in": ["rejected"]}]
    assert len(outcome.records) == 8


def test_what_is_said_to_the_bot_in_every_row_is_the_system_text(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "zq": "You are a patient harbour guide.",
            "question": pool.question(n),
            "answer": pool.answer(n),
        }
        for n in range(12)
    ]
    assert mapped(rows, "sft").records[0]["system"] == "You are a patient harbour guide."


def test_options_in_one_text_belong_to_the_question(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "body": f"Which of these was repaired in {1800 + n}",
            "opts": f"A. {pool.thing(n)}\nB. {pool.thing(n + 1)}\nC. {pool.thing(n + 2)}",
            "std": "ABC"[n % 3] if n % 4 else "A|C",
        }
        for n in range(12)
    ]
    said = mapped(rows, "sft").turns(1)
    assert said == [
        ("user", f"{rows[1]['body']}\n{rows[1]['opts']}"),
        ("assistant", rows[1]["std"]),
    ]


def test_a_statement_is_true_or_false_in_words(mapped: Any) -> None:
    rows = [
        {"statement": f"The harbour was repaired by hand in the year {1800 + n}.", "answer": n % 2}
        for n in range(12)
    ]
    assert [mapped(rows, "sft").turns(n)[1][1] for n in (0, 1)] == ["False", "True"]


def test_two_files_of_one_keyed_object_each(tmp_path: Path, pool: Any) -> None:
    for part in range(2):
        keyed = {
            f"t_{part}{n:03}": {"content": [{"role": r, "message": m} for r, m in talk(pool, n)]}
            for n in range(10)
        }
        (tmp_path / f"part{part}.json").write_text(json.dumps(keyed))
    source = open_source(str(tmp_path))
    proposal, _ = propose_with_doubts(source, draw_sample(source), Request(mode="sft"))
    assert document(proposal.mapping)["source"] == {"root": "*"}


def test_objects_keyed_by_office_and_number(tmp_path: Path, pool: Any) -> None:
    offices = {
        f"office {k}": {
            f"NK-{k}{n}": {"title": pool.title(3 * k + n), "body": pool.document(3 * k + n)}
            for n in range(3)
        }
        for k in range(4)
    }
    (tmp_path / "d.json").write_text(json.dumps(offices))
    source = open_source(str(tmp_path))
    proposal, _ = propose_with_doubts(source, draw_sample(source), Request(mode="pt"))
    assert document(proposal.mapping)["source"]["root"] == "*.*"


def test_many_pairs_of_a_file_are_records_of_their_own(mapped: Any, pool: Any) -> None:
    rows = [
        {"pairs": [[f"{pool.question(n)} ({k})", pool.answer(n + k)] for k in range(20)]}
        for n in range(4)
    ]
    assert len(mapped(rows, "sft").records) == 80


def test_pairs_of_a_row_that_are_records_keep_what_stands_around_them(
    mapped: Any, pool: Any
) -> None:
    rows = [
        {"id": f"r{n}", "system": f"You are the guide of {pool.thing(n)}.",
         "pairs": [[f"{pool.question(n)} ({k})", pool.answer(n + k)] for k in range(8)]}
        for n in range(9)
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert (len(outcome.records), outcome.meta["original_id"]) == (72, "^.id")
    assert outcome.records[8]["system"] == rows[1]["system"]
    assert outcome.records[8]["meta"]["original_id"] == "r1"


def test_a_constant_is_no_language_of_a_mixed_set(mapped: Any, pool: Any) -> None:
    rows = [
        {"question": pool.question_zh(n), "answer": pool.answer_zh(n)}
        if n % 3 == 0
        else {"question": pool.question(n), "answer": pool.answer(n)}
        for n in range(24)
    ]
    assert "language" not in mapped(rows, "sft").meta


@pytest.mark.parametrize(
    ("name", "mode", "row"),
    [
        ("markup", "pt", lambda p, n: {"body": f"<section>{p.document(n)}</section>"}),
        ("ids", "sft", lambda p, n: {"question": p.question(n), "answer": f"doc/{n}-a81f{n:04}"}),
        ("cut", "pt", lambda p, n: {"text": p.document(n).lower()}),
        (
            "boilerplate",
            "pt",
            lambda p, n: {"text": f"{p.title(n)}\nAll rights are reserved here."},
        ),
        ("same answers", "sft", lambda p, n: {"question": p.question(n), "answer": p.answer(0)}),
    ],
)
def test_what_looks_wrong_is_doubted(
    tmp_path: Path, pool: Any, name: str, mode: str, row: Any
) -> None:
    rows = [{"id": n, **row(pool, n)} for n in range(12)]
    assert doubts_of(rows, tmp_path, mode).get(name, 0.0) >= 0.45


def test_a_text_that_holds_the_answers_is_asked_about(mapped: Any, pool: Any) -> None:
    """However it is called: the passage of a reading test, two levels above its questions."""
    rows = []
    for n in range(12):
        answers = [pool.answer(3 * n + m) for m in range(3)]
        short = [" ".join(answer.split()[2:9]) for answer in answers]
        asked = [{"ask": pool.question(3 * n + m), "gold": short[m]} for m in range(3)]
        rows.append({"no": n, "units": [{"txt": " ".join(answers), "sets": [{"qs": asked}]}]})
    (_, user), _ = mapped(rows, "sft").turns(4)
    assert user == f"{rows[1]['units'][0]['txt']}\n{pool.question(4)}"


def test_a_log_of_thoughts_and_observations_is_cut(mapped: Any, pool: Any) -> None:
    rows = []
    for n in range(12):
        log = f"Thought: I look it up.\nAction: find\nObservation: {n} items"
        log += f"\nThought: I know it.\nFinal Answer: {pool.answer(n)}"
        rows.append({"question": pool.question(n), "log": log})
    assert mapped(rows, "sft").turns(3) == [
        ("user", pool.question(3)),
        ("assistant", "I look it up.\nAction: find"),
        ("tool", "3 items"),
        ("assistant", f"I know it.\nFinal Answer: {pool.answer(3)}"),
    ]


def test_a_table_of_members_says_who_speaks(mapped: Any, pool: Any) -> None:
    rows = []
    for n in range(12):
        asks, bot = f"U{n:03}", "B1"
        members = [{"id": bot, "is_bot": True}, {"id": asks, "is_bot": False}]
        said = [{"user": asks, "text": pool.question(n)}, {"user": bot, "text": pool.answer(n)}]
        gone = {"user": bot, "subtype": "tombstone", "text": "This message was deleted."}
        rows.append({"members": members, "messages": [*said, *([gone] if n % 3 == 0 else [])]})
    assert mapped(rows, "sft").turns(3) == talk(pool, 3)


def test_the_candidate_whose_number_is_chosen_ends_the_talk(mapped: Any, pool: Any) -> None:
    rows = []
    for n in range(12):
        answers = [pool.answer(40 + n), pool.answer(80 + n)]
        answers.insert(n % 3, pool.answer(n))
        given = [{"no": m + 1, "reply": text} for m, text in enumerate(answers)]
        before = [{"role": "user", "content": pool.question(n)}]
        rows.append({"context": before, "candidates": given, "picked": n % 3 + 1, "seconds": n})
    assert mapped(rows, "sft").turns(4) == talk(pool, 4)


def test_an_edited_turn_is_what_it_was_edited_to(mapped: Any, pool: Any) -> None:
    rows = []
    for n in range(12):
        said = [{"role": role, "text": text} for role, text in talk(pool, n)]
        if n % 3 == 0:
            said[0]["edit"] = {"by": "U17", "text": pool.question(50 + n)}
        rows.append({"messages": said})
    found = mapped(rows, "sft")
    assert found.turns(4) == talk(pool, 4)
    assert found.turns(3) == [("user", pool.question(53)), ("assistant", pool.answer(3))]


def test_notes_of_the_staff_and_placeholders_are_no_turns(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "質問": pool.question(n),
            "社内メモ": f"{pool.answer(60 + n)} Call back.",
            "回答": "（未回答）" if n % 5 == 4 else pool.answer(n),
        }
        for n in range(20)
    ]
    found = mapped(rows, "sft")
    assert len(found.records) == 16
    assert found.turns(2) == talk(pool, 2)


def test_an_answer_that_an_annotator_wrote_anew_is_doubted(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "response": pool.answer(50 + n),
            "correction": [{"status": "submitted", "value": pool.answer(n)}],
        }
        for n in range(12)
    ]
    assert mapped(rows, "sft").proposal.confidence <= 0.45


@pytest.mark.parametrize(
    "mask", ["XXX", "<text removed, {n} characters>", "[gelöscht {n}]", "----"]
)
def test_conversations_whose_texts_were_masked_are_nothing(
    mask: str, tmp_path: Path, pool: Any
) -> None:
    said = mask.replace("XXX", "▒▒▒ ▒▒▒▒▒ ▒▒")
    rows = [
        {"log": [{"who": role, "said": said.replace("{n}", str(n + 40))} for role in SIDES]}
        for n in range(12)
    ]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(str(tmp_path / "d.jsonl"))
    assert propose(source, draw_sample(source), Request(mode="sft")).mapping is None
