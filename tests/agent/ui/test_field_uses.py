"""A field that is dragged becomes what the person means: that field, and no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.chat.conversation import Conversation
from ingot.agent.chat.operations import begin_conversation
from ingot.agent.chat.responses import respond
from ingot.agent.context import Context
from ingot.agent.state import Order
from ingot.agent.ui.conversation_view import view_conversation
from ingot.agent.ui.field_uses import row_path

ROWS = range(40)
ODD = ["x,y", "p|q", "tmpl{{a}}", "none", "Nothing", "-", 'q"t', "sort sort x", "it's", "a.b"]
ODD += [
    "an swer",
    "...",
    "{path}",
    "$",
    "^",
    "~",
    "*",
    "@file",
    "\n",
    "a\\b",
    "]",
    "[0]",
    "表,头",
    "\u202e",
]
SETS: dict[str, list[dict[str, Any]]] = {
    "each": [
        {
            "title": f"Paper {n}",
            "qas": [
                {"question": f"What is {n} {m}?", "answer": f"It is {n} {m}, of course."}
                for m in range(3)
            ],
        }
        for n in ROWS
    ],
    "deep": [
        {
            "data": {
                "title": f"Book {n}",
                "parts": [
                    {
                        "context": f"The context of {n} is long.",
                        "qas": [
                            {"question": f"What is {n} {m}?", "answer": f"It is {n} {m} here."}
                            for m in range(2)
                        ],
                    }
                ],
            }
        }
        for n in ROWS
    ],
    "group": [
        {
            "conv_id": f"c{n // 4}",
            "turn": n % 4,
            "role": ("user", "assistant")[n % 2],
            "text": f"Text number {n} is said here.",
        }
        for n in range(160)
    ],
    "turns": [
        {
            "q1": f"What is {n}?",
            "a1": f"This is {n}.",
            "q2": f"And {n + 1}?",
            "a2": f"It is {n + 1}.",
        }
        for n in ROWS
    ],
    "chats": [
        {
            "id": n,
            "conversations": [
                {"from": "human", "value": f"Is {n} there?", "alt": f"Hello {n}"},
                {"from": "gpt", "value": f"Yes, {n} is here.", "alt": f"Sure, {n}"},
            ],
        }
        for n in ROWS
    ],
}


def begin(
    folder: Path, rows: list[dict[str, Any]], mapping: dict[str, Any] | None = None
) -> tuple[Conversation, Context]:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    context = Context()
    mapper: Any = "file" if mapping else "rules"
    order = Order(source=str(file), mapper=mapper, mapping=mapping)
    return begin_conversation("c", order, context, lambda _: None), context


@pytest.mark.parametrize("target", ["user", "text", "meta.original_id"])
def test_a_field_of_any_name_is_meant_by_its_line(tmp_path: Path, target: str) -> None:
    plain = {"question": "What is that?", "answer": "It is this.", "x": "ex", "y": "why"}
    odd = [{name: f"of {place} {n}" for place, name in enumerate(ODD)} for n in ROWS]
    talk, context = begin(tmp_path, [{**plain, **one, "a": {"b": "inner"}} for one in odd])
    for line in ("set user question", "set assistant answer"):
        talk = respond(talk, line, context).conversation
    fields = view_conversation(talk, context)["fields"]
    shown = {one["examples"][0].rpartition(" ")[0]: one for one in fields if one["examples"]}
    for place, name in enumerate(ODD):
        (line,) = [one["line"] for one in shown[f"of {place}"]["uses"] if one["target"] == target]
        told = respond(talk, line, context)
        assert not told.problems, (name, line, told.problems)
        made = view_conversation(told.conversation, context)
        (found,) = [one["examples"] for one in made["fields"] if target in one["targets"]]
        assert found[0].startswith(f"of {place} "), (name, line)


@pytest.mark.parametrize("name", SETS)
def test_every_line_that_is_offered_is_understood(tmp_path: Path, name: str) -> None:
    talk, context = begin(tmp_path, SETS[name])
    view = view_conversation(talk, context)
    lines = [
        (one["path"], use["target"], line)
        for one in view["fields"]
        for use in one["uses"]
        for line in (use["line"], use["add"])
        if line
    ]
    assert len(lines) > 20
    for path, target, line in lines:
        told = respond(talk, line, context)
        assert not told.problems, (line, told.problems)
        assert told.say in ("", "That is what the mapping says already."), (line, told.say)
        after = {
            one["path"]: one for one in view_conversation(told.conversation, context)["fields"]
        }
        if target not in ("messages", "each", "group"):
            assert target in after[path]["targets"], line


def test_alternatives_are_changed_one_by_one(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"What is {n}?", "answer": f"It is {n}.", "more": f"More of {n}."}
        if n % 2
        else {"ask": f"Who is {n}?", "reply": f"She is {n}.", "note": f"A note of {n}."}
        for n in ROWS
    ]
    sides = [("prompt", "answer"), ("ask", "reply")]
    variants = [
        {
            "messages": [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": answer},
            ]
        }
        for asked, answer in sides
    ]
    talk, context = begin(tmp_path, rows, {"version": 2, "any_of": variants})
    fields = {one["path"]: one for one in view_conversation(talk, context)["fields"]}
    assert fields["ask"]["targets"] == ["alternative 2: user"]
    uses = {one["target"]: one["line"] for one in fields["note"]["uses"]}
    made = respond(talk, uses["alternative 2: assistant"], context).conversation
    after = {one["path"]: one for one in view_conversation(made, context)["fields"]}
    assert after["note"]["targets"] == ["alternative 2: assistant"]
    assert after["answer"]["targets"] == ["alternative 1: assistant"]
    assert not after["reply"]["targets"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("data.parts[*].qas[*].^.context", "data.parts[*].context"),
        ("data.parts[*].qas[*].^.^.title", "data.title"),
        ("qas[*].^.title", "title"),
        ("['x.y'][*].^.title", "title"),
        ("[0].conv_id", "[*].conv_id"),
        ("a[-1].b", "a[*].b"),
    ],
)
def test_a_path_that_leads_out_is_shown_as_that_of_the_row(path: str, shown: str) -> None:
    assert row_path(path) == shown


def test_a_list_of_messages_takes_the_field_that_names_speakers_best(tmp_path: Path) -> None:
    kinds, roles = ("Comment", "Change"), ("end-user", "agent")
    rows = [
        {
            "events": [
                {
                    "type": kinds[(number + place) % 2],
                    "author": {"id": place, "role": roles[place % 2]},
                    "body": f"What is said of ticket {number} in its turn {place}, at some length.",
                }
                for place in range(4)
            ]
        }
        for number in ROWS
    ]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    context = Context()
    order = Order(source=str(tmp_path / "a.json"), mapper="rules", mode="pt")
    begun = begin_conversation("c", order, context, lambda _: None)
    fields = {one["path"]: one for one in view_conversation(begun, context)["fields"]}
    lines = [use["line"] for use in fields["events"]["uses"] if use["target"] == "messages"]
    assert lines == ["set messages events[*] speaker=author.role text=body"]


def test_a_speaker_that_is_left_out_is_shown_as_that(tmp_path: Path) -> None:
    turns = [{"who": who, "text": f"{who} says {n}."} for n, who in enumerate(["a", "b", "c"] * 2)]
    (tmp_path / "a.json").write_text(json.dumps([{"turns": turns}] * 12))
    mapping = {
        "version": 2,
        "messages": [
            {
                "each": "turns[*]",
                "role": {"path": "who", "map": {"a": "user", "b": "assistant", "c": None}},
                "content": "text",
            }
        ],
    }
    context = Context()
    order = Order(source=str(tmp_path / "a.json"), mapper="file", mapping=mapping)
    view = view_conversation(begin_conversation("c", order, context, lambda _: None), context)
    assert {one["name"]: one["role"] for one in view["roles"]} == {
        "a": "user",
        "b": "assistant",
        "c": "drop",
    }
    told = respond(begin_conversation("c", order, context, lambda _: None), "swap", context)
    assert told.problems == ()


def test_a_problem_of_speakers_names_their_control(tmp_path: Path) -> None:
    turns = [{"who": who, "text": f"{who} says {n}."} for n, who in enumerate(["a", "b"] * 2)]
    (tmp_path / "a.json").write_text(json.dumps([{"turns": turns}] * 12))
    role = {"path": "who", "map": {"a": "user"}}
    mapping = {"version": 2, "messages": [{"each": "turns[*]", "role": role, "content": "text"}]}
    context = Context()
    order = Order(source=str(tmp_path / "a.json"), mapper="file", mapping=mapping)
    view = view_conversation(begin_conversation("c", order, context, lambda _: None), context)
    (problem,) = view["problems"]
    assert problem["words"] == "who has 'b' (24) without a role."
    assert problem["control"] == "roles"
    assert problem["command"].startswith("role b ")
