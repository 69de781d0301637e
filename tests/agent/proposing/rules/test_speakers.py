"""Who speaks where no name says it: truth values, numbers, places in lists, names of people."""

from typing import Any

import pytest

PEOPLE = ("Ada", "Ben", "Cleo", "Dov", "Ema", "Finn", "Gus", "Hana", "Ivo", "Jun", "Kai", "Lea")


def _roles(outcome: Any, number: int = 0) -> list[str]:
    return [role for role, _ in outcome.turns(number)]


def _texts(pool: Any, n: int, count: int = 4) -> list[str]:
    return [(pool.question, pool.answer)[k % 2](n + k // 2) for k in range(count)]


@pytest.mark.parametrize(
    ("name", "human", "machine"),
    [
        ("is_human", True, False),
        ("isBot", False, True),
        ("from_agent", 0, 1),
        ("inbound", "True", "False"),
    ],
)
def test_truth_values_say_who_speaks_whoever_begins(
    mapped: Any, pool: Any, name: str, human: Any, machine: Any
) -> None:
    def chat(n: int) -> list[dict[str, Any]]:
        who = [machine, human, machine, machine, human, machine]
        texts = [pool.answer(n), *_texts(pool, n, 5)]
        return [{name: one, "text": text} for one, text in zip(who, texts, strict=True)]

    outcome = mapped([{"id": f"c{n}", "chat": chat(n)} for n in range(8)], "sft")
    first = ["assistant", "user", "assistant", "assistant", "user", "assistant"]
    assert _roles(outcome, 2) == first


def test_a_truth_value_about_what_is_said_is_no_speaker(mapped: Any, pool: Any) -> None:
    """`is_answer` marks the accepted one of the answers; the actor says who speaks."""

    def chat(n: int) -> list[dict[str, Any]]:
        who = ["User", "Agent", "User", "Agent"]
        return [
            {"is_answer": int(k == 1), "actor_type": name, "utterance": text}
            for k, (name, text) in enumerate(zip(who, _texts(pool, n), strict=True))
        ]

    outcome = mapped([{"id": f"c{n}", "utterances": chat(n)} for n in range(8)], "sft")
    assert _roles(outcome) == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("marks", [(0, 1), ("A", "B"), ("1_Apprentice", "0_Wizard")])
def test_turns_are_pairs_of_a_speaker_and_a_text(
    mapped: Any, pool: Any, marks: tuple[Any, Any]
) -> None:
    def chat(n: int) -> list[list[Any]]:
        texts = [*_texts(pool, n), pool.question(n + 5)]
        return [[marks[k], text] for k, text in zip((0, 1, 0, 1, 1), texts, strict=True)]

    outcome = mapped([{"id": f"c{n}", "dialog": chat(n)} for n in range(8)], "sft")
    assert _roles(outcome) == ["user", "assistant", "user", "assistant", "assistant"]
    assert outcome.turns()[0][1] == pool.question(0)


def test_slots_and_their_values_are_no_turns(mapped: Any, pool: Any) -> None:
    """A list of pairs is a conversation only where the pairs are said."""
    rows = [
        {
            "log": [
                {"text": text, "acts": [["price", "cheap"], ["area", "north"]]}
                for text in _texts(pool, n)
            ]
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert [text for _, text in outcome.turns()] == _texts(pool, 0)


def test_people_who_take_turns_are_read_in_order(mapped: Any, pool: Any) -> None:
    """Their names differ from talk to talk, and the one who begins asks."""

    def chat(n: int) -> list[dict[str, str]]:
        two = (PEOPLE[n], PEOPLE[(n + 5) % 12])
        return [{"speaker": two[k % 2], "text": t} for k, t in enumerate(_texts(pool, n))]

    outcome = mapped([{"id": f"c{n}", "turns": chat(n)} for n in range(12)], "sft")
    assert _roles(outcome, 7) == ["user", "assistant", "user", "assistant"]
    assert outcome.proposal.confidence > 0.5


def test_people_who_speak_twice_in_a_row_are_doubted(mapped: Any, pool: Any) -> None:
    def chat(n: int) -> list[dict[str, str]]:
        two = (PEOPLE[n], PEOPLE[(n + 5) % 12])
        who = [two[k] for k in (0, 1, 1, 0)]
        return [{"speaker": w, "text": t} for w, t in zip(who, _texts(pool, n), strict=True)]

    outcome = mapped([{"id": f"c{n}", "turns": chat(n)} for n in range(12)], "sft")
    assert outcome.proposal.confidence <= 0.3


def test_a_thing_that_both_sides_have_is_not_said(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "sheets": [{"role": who, "title": pool.title(n)} for who in ("buyer", "seller")],
            "talk": [{"by": k % 2, "text": text} for k, text in enumerate(_texts(pool, n))],
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert [text for _, text in outcome.turns()] == _texts(pool, 0)


def test_a_weight_that_the_users_turns_have_too_is_no_loss_mask(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "messages": [
                {"role": ("user", "assistant")[k % 2], "content": text, "weight": 1.0}
                for k, text in enumerate(_texts(pool, n))
            ]
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "sft")
    assert [m["loss_mask"] for m in outcome.records[0]["messages"]] == [False, True, False, True]


@pytest.mark.parametrize(("human", "machine"), [(0, 1), ("client", "therapist"), ("A", "B")])
def test_who_speaks_stands_in_a_list_beside_the_texts(
    mapped: Any, pool: Any, human: Any, machine: Any
) -> None:
    rows = [
        {"turns": {"who": [human, machine, human, machine, machine],
                   "said": [*_texts(pool, n), pool.answer(n + 7)]}}
        for n in range(8)
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert _roles(outcome, 1) == ["user", "assistant", "user", "assistant", "assistant"]
    assert outcome.turns(1)[4][1] == pool.answer(8)


def test_marks_beside_texts_that_are_no_speakers(mapped: Any, pool: Any) -> None:
    rows = [{"dialog": _texts(pool, n), "emotion": [0, 0, n % 3, 0]} for n in range(8)]
    assert mapped(rows, "sft").mapping["messages"][0]["role"] == ["user", "assistant"]


def test_people_in_a_list_beside_the_texts_who_do_not_take_turns_are_doubted(
    mapped: Any, pool: Any
) -> None:
    rows = [
        {"dialogue": _texts(pool, n),
         "speakers": [PEOPLE[n], PEOPLE[(n + 5) % 12], PEOPLE[(n + 5) % 12], PEOPLE[n]]}
        for n in range(8)
    ]  # fmt: skip
    assert mapped(rows, "sft").proposal.confidence <= 0.3


def test_numbers_of_people_who_speak_twice_in_a_row_are_doubted(mapped: Any, pool: Any) -> None:
    def chat(n: int) -> list[dict[str, Any]]:
        who = [100 + n, 500 + n, 500 + n, 100 + n]
        return [{"senderId": w, "text": t} for w, t in zip(who, _texts(pool, n), strict=True)]

    outcome = mapped([{"messages": chat(n)} for n in range(8)], "sft")
    assert outcome.proposal.confidence <= 0.3


@pytest.mark.parametrize(("replies", "sure"), [(1, True), (2, False)])
def test_messages_keyed_by_id_are_doubted_where_a_reply_has_several_versions(
    mapped: Any, pool: Any, replies: int, sure: bool
) -> None:
    def chat(n: int) -> dict[str, Any]:
        asked = {"role": "user", "text": pool.question(n), "children": ["b", "c"][:replies]}
        answers = {key: {"role": "assistant", "text": pool.answer(n + k), "children": []}
                   for k, key in enumerate(("b", "c")[:replies])}  # fmt: skip
        return {"a": asked, **answers}

    rows = [
        {"id": n, "nodes": {f"{n}-{key}": {**one, "children": [f"{n}-{c}" for c in one["children"]]}
                            for key, one in chat(n).items()}}
        for n in range(45)
    ]  # fmt: skip
    outcome = mapped(rows, "sft")
    assert outcome.mapping["messages"][0]["each"] == "nodes.*"
    assert (outcome.proposal.confidence > 0.6) == sure


def test_a_system_text_before_a_prompt_is_no_answer(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "conversations": [
                *([{"from": "system", "value": "Answer in one sentence."}] * (n % 5 == 0)),
                {"from": "human", "value": pool.question(n)},
            ],
            "chosen": pool.answer(n),
            "rejected": "I do not know.",
        }
        for n in range(12)
    ]
    assert [role for role, _ in mapped(rows, "sft").turns(0)] == ["system", "user", "assistant"]


def test_two_numbered_users_are_two_people(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "history": [
                {
                    "uid": ("user1", "user2")[turn % 2],
                    "text": (pool.question, pool.answer)[turn % 2](n),
                }
                for turn in range(4)
            ]
        }
        for n in range(12)
    ]
    roles = [role for role, _ in mapped(rows, "sft").turns(0)]
    assert roles == ["user", "assistant"] * 2
