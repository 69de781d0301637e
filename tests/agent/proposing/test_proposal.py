"""What a mapper returns survives JSON, and the rules explain what they chose."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.names import alias_tables, language_code, name_strength, speaker_role
from ingot.agent.proposing.proposal import Evidence, Proposal, Request
from ingot.agent.proposing.rules.mapper import propose
from ingot.converters.errors import IngotError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document


def test_a_proposal_goes_through_json() -> None:
    proposal = Proposal(
        decision="pt",
        mapping=bind({"version": 2, "text": "text", "meta": {}}, None, where="m"),
        confidence=0.9,
        reason="text holds running text.",
        evidence=(Evidence(target="text", choice="text", why="long", runner_up="title"),),
        detected={"language": "zh"},
    )
    assert decode(Proposal, json.loads(json.dumps(encode(proposal)))) == proposal
    wrong = {"text": "a[", "provenance": {"by": "me"}, "version": 2}  # as a person wrote it
    stored = json.dumps(encode(replace(proposal, mapping=read_tree(wrong))))
    assert list(json.loads(stored)["mapping"].items()) == list(wrong.items())
    assert encode(decode(Proposal, json.loads(stored))) == json.loads(stored)


def test_the_rules_say_why_and_what_came_second(tmp_path: Path) -> None:
    rows = [
        {
            "question": f"When was pier number {n} of the old harbour built?",
            "answer": f"Pier number {n} was built in {1800 + n}, after a long and stormy winter.",
        }
        for n in range(9)
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    source = open_source(str(file))
    proposal = propose(source, draw_sample(source), Request())
    assert proposal.mapper == "rules"
    targets = {one.target: one for one in proposal.evidence}
    assert targets["decision"].choice == "sft"
    assert str(targets["decision"].runner_up).startswith("pt: ")
    assert "look like questions" in targets["messages.user"].why
    assert bind(document(proposal.mapping), None, where="rules")
    assert propose(source, draw_sample(source), Request()) == proposal


@pytest.mark.parametrize(
    ("name", "slot", "least", "most"),
    [
        ("question", "question", 1.0, 1.0),
        ("userQuery", "question", 0.8, 1.0),
        ("textbox_answer_analysis", "rationale", 0.8, 0.8),
        ("标准答案", "answer", 0.8, 1.0),
        ("col_a", "answer", 0.0, 0.4),
        ("weather", "answer", 0.0, 0.0),
    ],
)
def test_names(name: str, slot: str, least: float, most: float) -> None:
    assert least <= name_strength(name, slot) <= most


def test_speakers_and_languages() -> None:
    assert [speaker_role(v) for v in ("Human", "GPT", "function_call", "observation", "xyz")] == [
        "user",
        "assistant",
        "assistant",
        "tool",
        None,
    ]
    assert [language_code(v) for v in ("English", "zh-CN", "fra", "Python")] == [
        "en",
        "zh",
        "fr",
        None,
    ]


def test_the_tables_are_well_formed() -> None:
    known = alias_tables()
    assert set(known["markers"].values()) <= {"user", "assistant", "system", "tool"}
    for slot, names in known["slots"].items():
        assert len(names) == len(set(names)), slot


KEYS = (
    *("text", "question", "answer", "messages", "role", "content", "a.b", "it's", "x[0]", "", "A"),
    *("B", "C", "options", "id", "history", "ünï", "~", "^", "*", "$", "chosen", "turn_1"),
    *("turn_2", "replies", " k ", '"q"'),
)
TEXTS = (
    *("", "  ", "hello there my friend, how are you?", "user", "assistant", "A", "1", "[1,2]"),
    *('{"a":1}', '["x","y"]', "Human: hi\nAssistant: hello", "2020-01-01", "http://x.y"),
    *("é" * 50, "你好，请问怎么走？", "\u2028", "[INST] a [/INST] b", "<s>"),
)


def _value(chance: random.Random, depth: int) -> Any:
    pick = chance.random()
    if depth <= 0 or pick < 0.45:
        return chance.choice(TEXTS)
    if pick < 0.6:
        return chance.choice([None, True, 0, 1, 3.5, 10**20, -1])
    if pick < 0.8:
        return [_value(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    return {chance.choice(KEYS): _value(chance, depth - 1) for _ in range(chance.randint(0, 5))}


@pytest.mark.parametrize("seed", range(12))
def test_any_rows_get_a_proposal_that_parses(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows = [_value(chance, 4) for _ in range(chance.randint(1, 12))]
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(rows), encoding="utf-8")
    source = open_source(str(file))
    for mode in ("auto", "pt", "sft"):
        try:
            proposal = propose(source, draw_sample(source), Request(mode=mode))
        except IngotError as error:  # the reader may refuse such a file, and says so
            pytest.skip(str(error))
        if proposal.mapping is not None:
            assert bind(document(proposal.mapping), None, where="rules")
