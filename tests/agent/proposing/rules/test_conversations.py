"""Conversations: every shape in which a list or a text may hold one."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import check_mapping
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample


def _roles(outcome: Any, number: int = 0) -> list[str]:
    return [role for role, _ in outcome.turns(number)]


@pytest.mark.parametrize(
    ("speaker", "said", "human", "machine"),
    [
        ("from", "value", "human", "gpt"),
        ("role", "content", "user", "assistant"),
        ("speaker", "utterance", "customer", "agent"),
        ("角色", "内容", "用户", "助手"),
        ("who", "line", "USER", "SYSTEM"),
        ("x", "y", "client", "doctor"),
        ("speaker", "text", "A", "B"),
    ],
)
def test_speakers_are_read_from_the_data(
    mapped: Any, pool: Any, speaker: str, said: str, human: str, machine: str
) -> None:
    def turns(n: int) -> list[dict[str, str]]:
        texts = [pool.question(n), pool.answer(n), pool.question(n + 1), pool.answer(n + 1)]
        return [{speaker: (human, machine)[k % 2], said: text} for k, text in enumerate(texts)]

    outcome = mapped([{"id": f"row{n}", "talk": turns(n)} for n in range(10)], "sft")
    assert outcome.proposal.decision == "sft"
    assert _roles(outcome, 3) == ["user", "assistant", "user", "assistant"]
    assert outcome.turns(3)[1][1] == pool.answer(3)
    assert outcome.meta["original_id"] == "id"


def test_every_role_that_was_seen_is_in_the_map_and_thoughts_are_left_out(
    mapped: Any, pool: Any
) -> None:
    rows = [
        {
            "conversations": [
                {"from": "system", "value": "You may look things up."},
                {"from": "human", "value": pool.question(n)},
                {"from": "thought", "value": "I should look it up first."},
                {"from": "function_call", "value": '{"name": "look_up"}'},
                {"from": "observation", "value": '{"found": true}'},
                {"from": "gpt", "value": pool.answer(n)},
            ],
            "tools": '[{"name": "look_up"}]',
        }
        for n in range(10)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.mapping["messages"][0]["role"]["map"]["thought"] is None
    assert _roles(outcome) == ["system", "user", "assistant", "tool", "assistant"]
    assert outcome.records[0]["tools"] == '[{"name": "look_up"}]'


def test_weights_of_messages_become_loss_masks(mapped: Any, pool: Any) -> None:
    def row(n: int) -> dict[str, Any]:
        first = {"role": "assistant", "content": pool.answer(n), "weight": 0}
        return {
            "messages": [
                {"role": "user", "content": pool.question(n)},
                first,
                {"role": "user", "content": pool.question(n + 1)},
                {"role": "assistant", "content": pool.answer(n + 1), "weight": 1},
            ]
        }

    outcome = mapped([row(n) for n in range(8)], "sft")
    assert [m["loss_mask"] for m in outcome.records[0]["messages"]] == [False, False, False, True]


def test_tool_calls_beside_the_content_are_kept(mapped: Any, pool: Any) -> None:
    def row(n: int) -> dict[str, Any]:
        return {
            "messages": [
                {"role": "user", "content": pool.question(n), "tool_calls": None},
                {"role": "assistant", "content": "", "tool_calls": [{"name": "look_up", "n": n}]},
                {"role": "tool", "content": '{"found": true}', "tool_calls": None},
                {"role": "assistant", "content": pool.answer(n), "tool_calls": None},
            ]
        }

    outcome = mapped([row(n) for n in range(8)], "sft")
    assert outcome.turns(2)[1] == ("assistant", '[{"name": "look_up", "n": 2}]')


def test_turns_in_pairs_with_a_system_text_inside(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "conversation": [
                {"system": "Be brief.", "input": pool.question(n + k), "output": pool.answer(n + k)}
                for k in range(2)
            ]
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert _roles(outcome) == ["user", "assistant", "user", "assistant"]
    assert outcome.records[0]["system"] == "Be brief."


def test_turns_under_numbered_keys_lose_their_marks(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "chat": {
                f"turn_{k + 1}": {
                    "Human": f"<|Human|>: {pool.question(n + k)}<eoh>\n",
                    "Bot": f"<|Bot|>: {pool.answer(n + k)}<eom>\n",
                }
                for k in range(1 + n % 3)
            }
        }
        for n in range(9)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(0) == [
        ("user", f"{pool.question(0)}\n"),
        ("assistant", f"{pool.answer(0)}\n"),
    ]
    assert len(outcome.turns(2)) == 6


def test_bare_texts_take_turns(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "dialog": [pool.question(n), pool.answer(n), "And today?", "Today it is closed."],
            "act": [1, 2, 1, 2],
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert _roles(outcome) == ["user", "assistant", "user", "assistant"]


def test_objects_without_speakers_take_turns(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "messages": [{"message": pool.question(n)}, {"attrs": [1], "message": pool.answer(n)}],
            "name": f"x{n}",
        }
        for n in range(8)
    ]
    assert mapped(rows, "sft").turns(1) == [
        ("user", pool.question(1)),
        ("assistant", pool.answer(1)),
    ]


def test_lists_of_two(mapped: Any, pool: Any) -> None:
    rows = [
        [[pool.question(n), pool.answer(n)], [pool.question(n + 1), pool.answer(n + 1)]]
        for n in range(8)
    ]
    assert _roles(mapped(rows, "sft")) == ["user", "assistant", "user", "assistant"]


def test_questions_and_answers_in_step_with_their_passage(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "story": pool.document(n),
            "questions": [{"input_text": pool.question(n + k), "turn_id": k} for k in range(3)],
            "answers": [
                {"span_text": "in it", "input_text": pool.thing(n + k), "turn_id": k}
                for k in range(3)
            ],
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1)[2:4] == [("user", pool.question(2)), ("assistant", pool.thing(2))]
    assert outcome.turns(1)[0] == ("user", f"{pool.document(1)}\n{pool.question(1)}")


@pytest.mark.parametrize(
    "marks",
    [
        ("\n\nHuman: ", "\n\nAssistant: "),
        ("<user>: ", " <bot>: "),
        ("### Human: ", "### Assistant: "),
        ("<s>[INST] ", " [/INST] "),
        ("User 1: ", "\nUser 2: "),
        ("患者：", "\n医生："),
    ],
)
def test_transcripts_are_cut_at_their_markers(
    mapped: Any, pool: Any, marks: tuple[str, str]
) -> None:
    human, machine = marks
    again = human if human.startswith("\n") or not machine.startswith("\n") else f"\n{human}"

    def text(n: int) -> str:
        first = f"{human}{pool.question(n)}{machine}{pool.answer(n)}"
        return f"{first}{again}{pool.question(n + 1)}{machine}{pool.answer(n + 1)}"

    outcome = mapped([{"no": n, "dialogue": text(n)} for n in range(10)], "sft")
    assert outcome.turns(4) == [
        ("user", pool.question(4)),
        ("assistant", pool.answer(4)),
        ("user", pool.question(5)),
        ("assistant", pool.answer(5)),
    ]


def test_a_transcript_that_ends_with_the_user_is_followed_by_the_answer(
    mapped: Any, pool: Any
) -> None:
    rows = [
        {
            "instruction": f"Human: {pool.question(n)}\nAssistant: {pool.answer(n)}\n"
            f"Human: {pool.question(n + 1)}\nAssistant:",
            "output": pool.answer(n + 1),
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert _roles(outcome) == ["user", "assistant", "user", "assistant"]
    assert outcome.turns(0)[3][1] == pool.answer(1)


def test_an_introduction_and_end_marks_carry_nothing(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "input": "A talk between two parties.\n"
            f"[|Human|] {pool.question(n)}\n[|AI|] {pool.answer(n)}<|endoftext|>\n"
        }
        for n in range(8)
    ]
    assert mapped(rows, "sft").turns(1) == [
        ("user", pool.question(1)),
        ("assistant", pool.answer(1)),
    ]


def test_speakers_before_the_texts_of_a_list(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "query": pool.question(n),
            "history": [f"[客户] {pool.question(n)}", f"[律师] {pool.answer(n)}"],
        }
        for n in range(8)
    ]
    assert mapped(rows, "sft").turns(1) == [
        ("user", pool.question(1)),
        ("assistant", pool.answer(1)),
    ]


def test_preference_pairs_keep_the_chosen_side(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "conversations": [{"from": "human", "value": pool.question(n)}],
            "chosen": {"from": "gpt", "value": pool.answer(n)},
            "rejected": {"from": "gpt", "value": "Who knows."},
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1) == [("user", pool.question(1)), ("assistant", pool.answer(1))]


def test_binary_feedback_keeps_the_good(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "messages": [
                {"role": "user", "content": pool.question(n)},
                {"role": "assistant", "content": pool.answer(n)},
            ],
            "label": n % 2 == 0,
        }
        for n in range(10)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.mapping["where"] == [{"path": "label", "in": [True]}]
    assert len(outcome.records) == 5


def test_history_stands_before_the_question(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "instruction": pool.question(n),
            "input": "",
            "output": pool.answer(n),
            "history": [[pool.question(n + 1), pool.answer(n + 1)]] if n % 2 else [],
        }
        for n in range(10)
    ]
    outcome = mapped(rows, "sft")
    assert len(outcome.turns(0)) == 2
    assert outcome.turns(1)[0] == ("user", pool.question(2))
    assert outcome.turns(1)[2:] == [("user", pool.question(1)), ("assistant", pool.answer(1))]


def test_parts_of_a_message_are_joined(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "value": pool.question(n)}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "reasoning", "value": "Let me see."},
                        {"type": "text", "value": pool.answer(n)},
                    ],
                },
            ]
        }
        for n in range(8)
    ]
    assert mapped(rows, "sft").turns(0)[1][1] == f"Let me see.\n{pool.answer(0)}"


def test_turns_in_rows_of_a_table_are_grouped(mapped: Any, pool: Any) -> None:
    lines = ["dialogue,turn,who,said"]
    for n in range(8):
        for k in range(4):
            said = (pool.question(n + k) if k % 2 == 0 else pool.answer(n + k)).replace(",", ";")
            lines.append(f"d{n},{k + 1},{('customer', 'agent')[k % 2]},{said}")
    outcome = mapped("\n".join(lines) + "\n", "sft", name="turns.csv")
    assert outcome.mapping["group"] == {"by": ["dialogue"], "sort": "turn"}
    assert len(outcome.records) == 8
    assert _roles(outcome) == ["user", "assistant", "user", "assistant"]
    assert outcome.records[2]["meta"]["original_id"] == "d2"


def test_the_first_path_of_a_reply_tree(mapped: Any, pool: Any) -> None:
    def node(n: int, depth: int) -> dict[str, Any]:
        text = pool.question(n) if depth % 2 == 0 else pool.answer(n)
        replies = [node(n + k, depth + 1) for k in range(2)] if depth < 3 else []
        return {"message_id": f"m{n}-{depth}", "text": text, "replies": replies}

    outcome = mapped([{"tree_id": f"t{n}", "prompt": node(n, 0)} for n in range(8)], "sft")
    assert outcome.turns(1) == [
        ("user", pool.question(1)),
        ("assistant", pool.answer(1)),
        ("user", pool.question(1)),
        ("assistant", pool.answer(1)),
    ]


def test_conversations_spelt_as_json_in_a_string(mapped: Any, pool: Any) -> None:
    import json

    rows = [
        {
            "id": f"c{n}",
            "talk": json.dumps(
                [
                    {"role": "user", "content": pool.question(n)},
                    {"role": "assistant", "content": pool.answer(n)},
                ]
            ),
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.mapping["source"]["json_fields"] == ["talk"]
    assert outcome.turns(1) == [("user", pool.question(1)), ("assistant", pool.answer(1))]


def test_turns_in_columns_of_their_own(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "user_1": pool.question(n),
            "bot_1": pool.answer(n),
            "user_2": pool.question(n + 1),
            "bot_2": pool.answer(n + 1),
        }
        for n in range(8)
    ]
    assert _roles(mapped(rows, "sft")) == ["user", "assistant", "user", "assistant"]


def test_several_kinds_of_rows_are_alternatives(mapped: Any, pool: Any) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(6):
        rows.append({"instruction": pool.question(n), "input": "", "output": pool.answer(n)})
        rows.append({"prompt": pool.question(n + 20), "completion": pool.answer(n + 20)})
        rows.append(
            {
                "conversations": [
                    {"from": "human", "value": pool.question(n + 40)},
                    {"from": "gpt", "value": pool.answer(n + 40)},
                ]
            }
        )
    outcome = mapped(rows, "sft")
    assert len(outcome.mapping["any_of"]) == 3
    assert len(outcome.records) == len(rows)


def _talk(pool: Any, n: int, keys: tuple[str, str], names: tuple[str, ...]) -> list[Any]:
    said = (pool.question(n), pool.answer(n), pool.document(n))
    return [dict(zip(keys, one, strict=True)) for one in zip(names, said, strict=False)]


@pytest.mark.parametrize("mode", ["sft", "auto"])
@pytest.mark.parametrize("share", [2, 10, 30])
def test_messages_with_other_keys_in_some_rows_are_alternatives(
    mapped: Any, pool: Any, mode: str, share: int
) -> None:
    usual, other = ("role", "content"), ("from", "value")
    rows = [
        {"id": n, "messages": _talk(pool, n, usual, ("user", "assistant"))}
        if n % share
        else {"id": n, "messages": _talk(pool, n, other, ("human", "gpt"))}
        for n in range(90)
    ]
    outcome = mapped(rows, mode)
    assert outcome.proposal.decision == "sft"
    assert [outcome.turns(n) for n in range(90)] == [
        [("user", pool.question(n)), ("assistant", pool.answer(n))] for n in range(90)
    ]


def test_messages_with_other_keys_beside_them_in_a_row_are_all_said(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "messages": [
                *_talk(pool, n, ("from", "value"), ("human", "gpt")),
                *_talk(pool, n + 1, ("role", "content"), ("user", "assistant")),
            ]
        }
        for n in range(12)
    ]
    said = [pool.question(1), pool.answer(1), pool.question(2), pool.answer(2)]
    assert [text for _, text in mapped(rows, "sft").turns(1)] == said


@pytest.mark.parametrize("every", [8, 15, 4])
def test_somebody_who_speaks_now_and_then_is_named_and_never_left_out(
    mapped: Any, pool: Any, every: int
) -> None:
    names = ("user", "assistant", "reviewer")
    rows = [
        {"messages": _talk(pool, n, ("role", "content"), names[: 2 + (n % every == 0)])}
        for n in range(60)
    ]
    outcome = mapped(rows, "auto")
    assert "'reviewer'" in outcome.proposal.reason
    assert outcome.proposal.confidence < 0.6
    assert "reviewer" not in outcome.mapping["messages"][0]["role"].get("map", {})
    notes = json.loads(json.dumps(rows).replace("reviewer", "note"))
    assert mapped(notes, "auto").proposal.confidence > 0.6


def test_prompts_alone_are_no_conversation(mapped: Any, pool: Any) -> None:
    rows = [
        {"id": n, "turns": [pool.question(n), "Rewrite your previous answer as a poem."]}
        for n in range(10)
    ]
    assert mapped(rows, "sft").proposal.decision == "irrelevant"
    rows = [{"messages": [{"role": "user", "content": pool.question(n)}]} for n in range(10)]
    assert mapped(rows, "sft", name="more").proposal.decision == "irrelevant"


def test_reasoning_of_a_message_stands_before_its_content(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "messages": [
                {"role": "user", "content": pool.question(n)},
                {
                    "role": "assistant",
                    "content": pool.answer(n),
                    "reasoning_content": pool.document(n),
                },
            ]
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1) == [
        ("user", pool.question(1)),
        ("assistant", f"<think>\n{pool.document(1)}\n</think>\n\n{pool.answer(1)}"),
    ]


def _chats(pool: Any, key: str, names: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Twenty chats of four turns; half start with the second speaker, two hold the third."""
    first, second, rare = names

    def chat(n: int) -> dict[str, Any]:
        who = [first, second] * 2 if n % 2 else [second, first] * 2
        if n % 10 == 3:
            who[2] = rare
        texts = [pool.question(n), pool.answer(n), pool.question(n + 1), pool.answer(n + 1)]
        turns = [{key: name, "text": text} for name, text in zip(who, texts, strict=True)]
        return {"id": f"chat{n}", "chat": turns}

    return [chat(n) for n in range(20)]


def _problems(outcome: Any, rows: list[dict[str, Any]], folder: Path) -> dict[str, str]:
    """What check finds in the proposed mapping: codes with what was found."""
    (folder / "chats.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    mapping = bind(outcome.mapping, rows)
    report = check_mapping(
        mapping, draw_sample(open_source(str(folder / "chats.jsonl"))), source_name="chats"
    )
    return {problem.code: problem.got for problem in report.problems}


@pytest.mark.parametrize("mode", ["sft", "auto"])
@pytest.mark.parametrize(
    ("names", "roles", "unknown"),
    [
        (("Kunde", "Agent", "Zeta-9"), {"Kunde": "user", "Agent": "assistant"}, "Zeta-9 (2 times)"),
        (
            ("Kunde", "Hildegard", "Bot-9"),
            {"Kunde": "user", "Bot-9": "assistant"},
            "Hildegard",
        ),
        (("Kunde", "Hildegard", "Zeta-9"), {"Kunde": "user"}, "Hildegard"),
    ],
)
def test_speakers_that_are_not_understood_are_left_to_a_person(
    mapped: Any,
    pool: Any,
    tmp_path: Path,
    names: tuple[str, str, str],
    roles: dict[str, str],
    unknown: str,
    mode: str,
) -> None:
    rows = _chats(pool, "from", names)
    outcome = mapped(rows, mode)
    assert outcome.proposal.decision == "sft"
    assert outcome.mapping["messages"][0]["role"] == {"path": "from", "map": roles}
    assert outcome.proposal.confidence < 0.6
    told = next(e for e in outcome.proposal.evidence if e.target == "messages.role")
    for name in set(names) - set(roles):
        assert repr(name) in told.why
        assert repr(name) in outcome.proposal.reason
    assert unknown in _problems(outcome, rows, tmp_path)["unmapped_value"]


@pytest.mark.parametrize("key", ["from", "x"])
def test_turns_by_order_are_doubted_where_a_column_may_say_who_speaks(
    mapped: Any, pool: Any, key: str
) -> None:
    outcome = mapped(_chats(pool, key, ("Alba", "Bruno", "Carla")), "sft")
    assert outcome.mapping["messages"][0]["role"] == ["user", "assistant"]
    assert outcome.proposal.confidence <= 0.3
    assert f"although {key} may say who speaks" in outcome.proposal.reason


def test_a_label_that_lasts_does_not_say_who_speaks(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "dialog": [
                {"mood": ("calm", "glad", "tired")[n % 3], "text": text}
                for text in (pool.question(n), pool.answer(n))
            ]
        }
        for n in range(12)
    ]
    outcome = mapped(rows, "sft")
    assert _roles(outcome) == ["user", "assistant"]
    assert outcome.proposal.confidence > 0.5
    assert "without speakers" in outcome.proposal.reason


def log_of(pool: Any, n: int, form: str = "{time} - {who}: ") -> str:
    """A transcript of four turns with the time before each."""
    turns = [pool.question(n), pool.answer(n), pool.question(n + 1), pool.answer(n + 1)]
    heads = [
        form.format(time=f"{hour}:0{n % 10}", who=("Kunde", "Agent")[hour % 2])
        for hour in (8, 9, 10, 11)
    ]
    return "\n".join(head + said for head, said in zip(heads, turns, strict=True))


NUMBERED = "Call them.\n1. Say the word.\n2. Wait for 10 minutes."


@pytest.mark.parametrize(
    "form", ["{time} - {who}: ", "[{time}] {who}: ", "2024-05-01 {time} | {who}: "]
)
@pytest.mark.parametrize("often", [1, 6, 12])
def test_times_are_cut_and_numbered_lists_are_not(
    mapped: Any, pool: Any, form: str, often: int
) -> None:
    rows = [{"id": n, "chat": log_of(pool, n, form)} for n in range(12)]
    for row in rows[::often]:
        row["chat"] = row["chat"].replace("families remember it.", f"families do. {NUMBERED}", 1)
    outcome = mapped(rows, "sft")
    said = [text for n in range(12) for _, text in outcome.turns(n)]
    assert [role for role, _ in outcome.turns()] == ["user", "assistant"] * 2
    assert sum(NUMBERED in text for text in said) == len(rows[::often])
    assert not any("Agent" in text or "0:0" in text or "05-01" in text for text in said)


@pytest.mark.parametrize("other", ["Nobody wrote a time here.", "=== ann has joined the room"])
def test_a_text_without_times_among_logs_is_no_fault(mapped: Any, pool: Any, other: str) -> None:
    rows = [{"chat": log_of(pool, n)} for n in range(11)]
    outcome = mapped([*rows[:4], {"chat": other}, *rows[4:]], "sft")
    assert [role for role, _ in outcome.turns()] == ["user", "assistant"] * 2
    assert len(outcome.records) == 11


def test_dates_of_days_are_for_a_person(mapped: Any, pool: Any) -> None:
    rows = [{"chat": log_of(pool, n, "03.05.26, {time} - {who}: ")} for n in range(12)]
    assert mapped(rows, "sft").proposal.confidence < 0.6


@pytest.mark.parametrize("often", [1, 4, 20])
def test_a_quoted_dialogue_stays_in_its_answer(mapped: Any, pool: Any, often: int) -> None:
    quoted = "Sure:\nHuman: Who is there?\nAssistant: The miller.\nThat is all."
    rows = [
        {
            "text": f"\n\nHuman: {pool.question(n)}\n\nAssistant: {pool.answer(n)}"
            f"\n\nHuman: {pool.question(n + 1)}"
            f"\n\nAssistant: {pool.answer(n + 1) if n % often else quoted}"
        }
        for n in range(20)
    ]
    outcome = mapped(rows, "sft")
    for n in range(20):
        assert [role for role, _ in outcome.turns(n)] == ["user", "assistant"] * 2
    assert outcome.turns(0)[3][1] == quoted


def test_single_line_breaks_between_turns_are_cut_too(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "text": f"Human: {pool.question(n)}\n\nAssistant: {pool.answer(n)}"
            f"\nHuman: {pool.question(n + 1)}\nAssistant: {pool.answer(n + 1)}"
        }
        for n in range(12)
    ]
    assert [role for role, _ in mapped(rows, "sft").turns()] == ["user", "assistant"] * 2


def test_what_was_expected_of_an_agent_is_no_turn(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "traj": [
                {"role": "user", "content": pool.question(n)},
                {"role": "assistant", "content": "", "tool_calls": [{"name": "look"}]},
                {"role": "tool", "content": f"found {n}"},
                {"role": "assistant", "content": pool.answer(n)},
                {"role": "user", "content": f"Thank you, number {n}."},
            ],
            "task": {"outputs": [str(n)], "actions": [{"day": f"2031-05-{n + 1:02}"}]},
        }
        for n in range(12)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns()[-1][0] == "user"
    assert "where" not in outcome.mapping
    assert "timestamp" not in outcome.meta


@pytest.mark.parametrize("name", ["thinking", "reasoning", "thought", "reasoning_content"])
def test_thoughts_are_marked_and_never_said_twice(mapped: Any, pool: Any, name: str) -> None:
    def rows(content: str) -> list[dict[str, Any]]:
        return [
            {
                "messages": [
                    {"role": "user", "content": pool.question(n)},
                    {
                        "role": "assistant",
                        "content": content.format(pool.document(n), pool.answer(n)),
                        name: pool.document(n),
                    },
                ]
            }
            for n in range(8)
        ]

    marked = f"<think>\n{pool.document(1)}\n</think>\n\n{pool.answer(1)}"
    assert mapped(rows("{1}"), "sft").turns(1)[1][1] == marked
    within = mapped(rows("{0}\n\n{1}"), "sft").turns(1)[1][1]
    assert within == f"{pool.document(1)}\n\n{pool.answer(1)}"
    flat = [
        {"question": pool.question(n), name: pool.document(n), "answer": pool.answer(n)}
        for n in range(8)
    ]
    assert mapped(flat, "sft").turns(1)[1][1] == marked


def test_answers_that_are_only_calls_are_kept_beside_the_request(mapped: Any, pool: Any) -> None:
    def answer(n: int) -> dict[str, Any]:
        call = {"id": f"c{n}", "function": {"name": "look", "arguments": f'{{"n": {n}}}'}}
        said = (
            {"content": None, "tool_calls": [call]} if n % 4 == 0 else {"content": pool.answer(n)}
        )
        return {"choices": [{"message": {"role": "assistant", **said}}]}

    rows = [
        {
            "request": {"messages": [{"role": "user", "content": pool.question(n)}]},
            "response": answer(n),
        }
        for n in range(20)
    ]
    outcome = mapped(rows, "sft")
    assert len(outcome.records) == len(rows)
    calls = rows[4]["response"]["choices"][0]["message"]["tool_calls"]
    assert json.loads(outcome.turns(4)[1][1]) == calls
    assert outcome.turns(5)[1][1] == pool.answer(5)


def test_an_answer_beside_a_request_that_used_tools_is_its_last_message(
    mapped: Any, pool: Any
) -> None:
    def row(n: int) -> dict[str, Any]:
        call = {"id": f"c{n}", "function": {"name": "look", "arguments": f'{{"n": {n}}}'}}
        used: list[dict[str, Any]] = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": f'{{"found": {n}}}'},
        ]
        asked = [{"role": "user", "content": pool.question(n)}, *(used if n % 3 == 0 else [])]
        said = {"message": {"role": "assistant", "content": pool.answer(n)}}
        return {"id": n, "request": {"messages": asked}, "response": {"choices": [said]}}

    rows = [row(n) for n in range(24)]
    for mode in ("sft", "auto"):
        outcome = mapped(rows, mode)
        assert outcome.proposal.decision == "sft"
        assert _roles(outcome, 3) == ["user", "assistant", "tool", "assistant"]
        assert outcome.turns(3)[-1][1] == pool.answer(3)


@pytest.mark.parametrize("answered", [1.0, 0.7])
def test_turns_are_no_documents_where_some_wait_for_an_answer(
    mapped: Any, pool: Any, answered: float
) -> None:
    def event(who: str, text: str | None, kind: str = "Comment") -> dict[str, Any]:
        return {"type": kind, "author": {"role": who, "name": "A. B."}, "body": text}

    rows = [
        {
            "id": n,
            "subject": f"Case {n} of the week",
            "events": [
                event("end-user", pool.question(n)),
                event("system", "We have received your request.", "Notification"),
                *([event("agent", pool.answer(n))] if n < 60 * answered else []),
            ],
        }
        for n in range(60)
    ]
    outcome = mapped(rows, "auto")
    assert outcome.proposal.decision == "sft"
    assert _roles(outcome) == ["user", "assistant"]
    assert len(outcome.records) == round(60 * answered)


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (("visitor", "operator", "system"), ["user", "assistant"]),  # it tells what goes on
        (("user", "assistant", "system"), ["user", "system", "assistant"]),  # a protocol's own
    ],
)
def test_a_system_among_people_that_begins_nothing_is_left_out(
    mapped: Any, pool: Any, names: tuple[str, str, str], roles: list[str]
) -> None:
    asks, answers, system = names
    rows = [
        {
            "talk": [
                {"sender": asks, "text": pool.question(n)},
                {"sender": system, "text": f"{('Ann', 'Bob')[n % 2]} has joined the chat"},
                {"sender": answers, "text": pool.answer(n)},
            ]
        }
        for n in range(20)
    ]
    assert _roles(mapped(rows, "sft")) == roles
