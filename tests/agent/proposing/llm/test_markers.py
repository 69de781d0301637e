"""Marks that come again in texts."""

from typing import Any

import pytest

from ingot.agent.privacy import Redactor
from ingot.agent.proposing.columns import View
from ingot.agent.proposing.llm.markers import marker_lines

TALK = (
    "Human: Where is the old bridge number {n}?\n\n"
    "Assistant: It is over the river.\n\nHuman: Thanks"
)


def told(texts: list[Any], share: str = "redacted") -> str:
    rows = [Redactor(share).value({"t": text}).json for text in texts]
    return "\n".join(marker_lines(View.of(rows), share))


def test_speakers_of_a_transcript_as_they_are_spelt() -> None:
    made = told([TALK.format(n=n) for n in range(6)])
    assert '"\\n\\nHuman:" (6 of 6 texts, 2.0 each, begins 6)' in made
    assert '"\\n\\nAssistant:" (6 of 6 texts, 1.0 each)' in made
    assert 'first "Human:" x6; last "Human:" x6' in made


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("<|user|>What is stone {n}?<|assistant|>It is old.", ["<|user|>", "<|assistant|>"]),
        ("[INST] What is stone {n}? [/INST] It is old. </s>", ["</s>"]),
        ("USER: What is stone {n}? ASSISTANT: It is old.", ["USER:", "ASSISTANT:"]),
        ("### Instruction:\nSay stone {n}.\n### Response:\nOld.", ["### Instruction:"]),
        ("问：第{n}块石头是什么？\n答：很老。", ["问：", "答："]),
        ("<|im_start|>user\nHello {n}\n<|im_start|>assistant\nHi", ["<|im_start|>user"]),
    ],
)
def test_marks_of_many_kinds(text: str, marks: list[str]) -> None:
    made = told([text.format(n=n) for n in range(6)])
    assert [mark for mark in marks if mark not in made] == []


def test_rare_speakers_of_a_transcript_are_told_and_others_are_not() -> None:
    texts = [TALK.format(n=n) for n in range(40)]
    texts[7] += "\n\nTool: result"
    texts[9] += "\n\nTool: result"
    texts[11] += "\n\nNote: result"
    made = told(texts)
    assert "Tool:" in made
    assert "Note:" not in made


def test_every_speaker_of_a_transcript_is_told() -> None:
    names = ["User", "Assistant", "System", "Tool", "Human", "AI", "Customer", "Agent"]
    texts = ["\n".join(f"{name}: Word {n}." for name in names[n:] + names[:n]) for n in range(8)]
    made = told(texts)
    assert [name for name in names if f'{name}:" (8 of 8 texts' not in made] == []
    assert 'first "User:" x1, "Assistant:" x1, "System:" x1, +5; last' in made


def test_a_list_whose_texts_begin_with_their_speakers() -> None:
    row = {"turns": ["[Client] Where is it, please?", "[Lawyer] It is over there, I think."]}
    made = "\n".join(marker_lines(View.of([row] * 6), "redacted"))
    assert 'first "[Client]" x6; last "[Lawyer]" x6' in made


def test_a_fixed_beginning_and_ending() -> None:
    texts = [f"Please answer this now: what is {n} {'abc'[n % 3]} of it? Think!" for n in range(9)]
    made = told(texts)
    assert '9 of 9 begin with "Please answer this now: what is "' in made
    assert '9 of 9 end with " of it? Think!"' in made


def test_prose_and_json_have_no_marks() -> None:
    prose = ["It was late.", "Nobody said a word about it.", "On the next day they went on: home."]
    assert told([f"{prose[n % 3]} {n} {prose[n % 2]}" for n in range(9)]) == ""
    assert told([f'[{{"name": "f{n}", "parameters": {{"a": 1}}}}]' for n in range(9)]) == ""


def test_nothing_but_known_speakers_where_no_value_is_shared() -> None:
    texts = [f"Dear Mrs. Miller, here is {n}. " + TALK.format(n=n) for n in range(6)]
    assert "Miller" not in told(texts, "none")
    assert "Human:" in told([TALK.format(n=n) for n in range(6)], "none")
    assert "Miller" in told(texts, "raw")


def test_a_secret_at_the_edge_is_redacted() -> None:
    texts = [f"Send it to jo.miller@mail.example.com please, number {n} of them" for n in range(6)]
    assert "mail.example" not in told(texts)


def test_a_shared_tail_of_secrets_is_neither_an_edge_nor_a_mark() -> None:
    keys = [
        f"The key of service {n} is sk-proj-{'xyzq' * 8}{n}T3BlbkFJabcdEFGH1234" for n in "abcdef"
    ]
    made = told(keys)
    assert "EFGH1234" not in made
    assert "[" not in made
