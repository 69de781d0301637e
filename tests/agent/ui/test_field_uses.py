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
from ingot.agent.ui.conversation_view import list_uses, view_conversation, view_reply
from ingot.agent.ui.example_rows import RowFilter, view_rows
from ingot.agent.ui.field_uses import row_path
from ingot.converters.mapping.bind import read_tree
from tests.agent.documents import document

ROWS = range(40)
FEW = range(12)
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
        for n in FEW
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
        for n in FEW
    ],
    "group": [
        {
            "conv_id": f"c{n // 4}",
            "turn": n % 4,
            "role": ("user", "assistant")[n % 2],
            "text": f"Text number {n} is said here.",
        }
        for n in range(48)
    ],
    "turns": [
        {
            "q1": f"What is {n}?",
            "a1": f"This is {n}.",
            "q2": f"And {n + 1}?",
            "a2": f"It is {n + 1}.",
        }
        for n in FEW
    ],
    "chats": [
        {
            "id": n,
            "conversations": [
                {"from": "human", "value": f"Is {n} there?", "alt": f"Hello {n}"},
                {"from": "gpt", "value": f"Yes, {n} is here.", "alt": f"Sure, {n}"},
            ],
        }
        for n in FEW
    ],
}


def begin(
    folder: Path, rows: list[dict[str, Any]], mapping: dict[str, Any] | None = None
) -> tuple[Conversation, Context]:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    context = Context()
    mapper: Any = "file" if mapping else "rules"
    tree = read_tree(mapping) if mapping else None
    order = Order(source=str(file), mapper=mapper, mapping=tree)
    return begin_conversation("c", order, context, lambda _: None), context


@pytest.mark.more
@pytest.mark.parametrize("target", ["user", "text", "meta.original_id"])
def test_a_field_of_any_name_is_meant_by_its_line(tmp_path: Path, target: str) -> None:
    plain = {"question": "What is that?", "answer": "It is this.", "x": "ex", "y": "why"}
    odd = [{name: f"of {place} {n}" for place, name in enumerate(ODD)} for n in FEW]
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


@pytest.mark.more
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


# --- leaving out by a value


TICKETS = [
    {
        "id": n,
        "state": ("open", "true", "a, b", 'q"t under 3', "5")[n % 5],
        "events": [
            {"who": "end-user", "body": f"Where is parcel {n}, please?", "public": True, "n": 1},
            {"who": "agent", "body": f"INTERNAL: number {n} again.", "public": False, "n": 2},
            {"who": "agent", "body": f"Parcel {n} arrives tomorrow.", "public": True, "n": 3},
        ],
    }
    for n in ROWS
]
TICKET_MAPPING = {
    "version": 2,
    "messages": [
        {
            "each": "events[*]",
            "role": {"path": "who", "map": {"end-user": "user", "agent": "assistant"}},
            "content": "body",
        }
    ],
}


def choices_of(talk: Conversation, context: Context, path: str) -> tuple[str, dict[str, Any]]:
    """What a field leaves out, and its choices by their values as the page shows them."""
    fields = {one["path"]: one for one in view_conversation(talk, context)["fields"]}
    found = fields[path]["choices"]
    values = [text for text, _ in fields[path]["values"]]
    return found["what"], dict(zip(values, found["values"], strict=True))


def say_all(talk: Conversation, context: Context, lines: list[str]) -> Conversation:
    for line in lines:
        told = respond(talk, line, context)
        assert not told.problems, (line, told.problems)
        assert not told.say, (line, told.say)
        talk = told.conversation
    return talk


@pytest.mark.more
def test_messages_are_left_out_by_a_value_and_come_back(tmp_path: Path) -> None:
    talk, context = begin(tmp_path, TICKETS, TICKET_MAPPING)
    whole = talk.mapping
    what, choices = choices_of(talk, context, "events[*].public")
    assert what == "messages"
    assert {value: one["kept"] for value, one in choices.items()} == {"true": True, "false": True}
    talk = say_all(talk, context, choices["false"]["lines"])
    (message,) = document(talk.mapping)["messages"]
    assert message["where"] == [{"path": "public", "not_in": [False]}]
    made = view_conversation(talk, context)["examples"][0]["records"][0]
    assert not any("INTERNAL" in span["text"] for line in made for span in line["spans"])
    _, choices = choices_of(talk, context, "events[*].public")
    assert [choices[value]["kept"] for value in ("true", "false")] == [True, False]
    talk = say_all(talk, context, choices["false"]["lines"])
    assert talk.mapping == whole
    _, choices = choices_of(talk, context, "events[*].n")
    talk = say_all(talk, context, [*choices["1"]["lines"], *choices["2"]["lines"]])
    _, choices = choices_of(talk, context, "events[*].n")
    assert [one["kept"] for one in choices.values()] == [False, False, True]
    talk = say_all(talk, context, choices["2"]["lines"])  # the other one stays left out
    _, choices = choices_of(talk, context, "events[*].n")
    assert [one["kept"] for one in choices.values()] == [False, True, True]


@pytest.mark.more
def test_rows_of_any_value_are_left_out_by_its_line(tmp_path: Path) -> None:
    talk, context = begin(tmp_path, TICKETS, TICKET_MAPPING)
    what, choices = choices_of(talk, context, "state")
    assert what == "rows"
    assert len(choices) == 5
    for value, one in choices.items():
        for lines, kept in ((one["lines"], 32), (one["only"], 8)):
            changed = say_all(talk, context, lines)
            _, after = choices_of(changed, context, "state")
            assert after[value]["kept"] is (kept == 8), lines
            check = changed.state["check"]
            assert check
            assert check.records == kept, lines


def test_what_cannot_be_said_in_one_condition_has_no_choice(tmp_path: Path) -> None:
    entry = TICKET_MAPPING["messages"][0]  # type: ignore[index]
    first = {**entry, "where": [{"path": "n", "in": [1]}]}
    other = {**entry, "where": [{"path": "n", "not_in": [1]}]}
    mapping = {"version": 2, "messages": [first, other]}
    talk, context = begin(tmp_path, TICKETS, mapping)
    fields = {one["path"]: one for one in view_conversation(talk, context)["fields"]}
    assert fields["events[*].n"]["choices"] is None  # each message has a condition of its own
    assert fields["events[*].public"]["choices"]
    assert fields["id"]["choices"] is None  # no value stands there twice


def test_a_hidden_value_has_no_line(tmp_path: Path) -> None:
    rows = [
        {**one, "mail": ("ann.lee@corp-mail.com", "none")[n % 2]} for n, one in enumerate(TICKETS)
    ]
    talk, context = begin(tmp_path, rows, TICKET_MAPPING)
    _, choices = choices_of(talk, context, "mail")
    assert choices["[email]"]["lines"] == choices["[email]"]["only"] == []
    assert choices["none"]["lines"] == ["drop mail is none"]
    shown = view_rows(talk, context, list_uses(talk), RowFilter("mail", "[email]"))
    assert shown["rows"]["found"] == 20
    assert "ann.lee" not in json.dumps(shown)
    assert all(one["hidden"] for one in shown["examples"])


# --- rows that are asked for


def test_rows_are_found_by_a_value_and_an_outcome(tmp_path: Path) -> None:
    rows = [
        {"q": f"What is {n}?", "a": f"It is {n}." if n % 4 else "", "k": "xy"[n % 2]} for n in ROWS
    ]
    sides = [("user", "q"), ("assistant", "a")]
    messages = [{"role": role, "content": field} for role, field in sides]
    talk, context = begin(tmp_path, rows, {"version": 2, "messages": messages})
    uses = list_uses(talk)
    whole = view_rows(talk, context, uses)
    assert whole["rows"] == {
        "of": 40,
        "found": 40,
        "outcomes": [("record", 30), ("no_assistant", 10)],
    }
    assert all(one["records"] for one in whole["examples"])  # those with a record come first
    lost = view_rows(talk, context, uses, RowFilter(outcome="no_assistant"))
    assert lost["rows"]["found"] == 10
    assert {one["outcome"] for one in lost["examples"]} == {"no_assistant"}
    both = view_rows(talk, context, uses, RowFilter("k", "x", "no_assistant"))
    assert (both["rows"]["found"], sum(n for _, n in both["rows"]["outcomes"])) == (10, 20)
    for wanted in (RowFilter("k", "z"), RowFilter("no[", "x"), RowFilter("nowhere", "x")):
        assert view_rows(talk, context, uses, wanted)["rows"]["found"] == 0


def test_rows_of_a_group_are_found_by_a_value_of_one_of_them(tmp_path: Path) -> None:
    mapping = {
        "version": 2,
        "group": {"by": ["conv_id"], "sort": "turn"},
        "messages": [{"each": "[*]", "role": {"path": "role"}, "content": "text"}],
    }
    talk, context = begin(tmp_path, SETS["group"], mapping)
    assert choices_of(talk, context, "role")[0] == "messages"
    found = view_rows(talk, context, list_uses(talk), RowFilter("role", "user"))
    assert found["rows"]["of"] == found["rows"]["found"] == len(FEW)


def test_steps_and_alternatives_say_what_they_are(tmp_path: Path) -> None:
    talk, context = begin(tmp_path, SETS["turns"])
    talk = say_all(talk, context, ["set language none"])
    steps = view_conversation(talk, context)["steps"]
    assert steps == [{"words": "", "by": "rules"}, {"words": "set language none", "by": "you"}]
    found = view_reply(respond(talk, "alternatives", context), context)["alternatives"]
    assert {"pt", "sft"} >= {one["decision"] for one in found}
    judged = [one for one in found if one["confidence"] is not None]
    assert judged
    assert all(0 < float(one["confidence"]) < 1 for one in judged)
    assert all(one["why"] and one["rows"] <= 40 for one in judged)


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
    order = Order(source=str(tmp_path / "a.json"), mapper="file", mapping=read_tree(mapping))
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
    order = Order(source=str(tmp_path / "a.json"), mapper="file", mapping=read_tree(mapping))
    view = view_conversation(begin_conversation("c", order, context, lambda _: None), context)
    (problem,) = view["problems"]
    assert problem["words"] == "who has 'b' (24) without a role."
    assert problem["control"] == "roles"
    assert problem["command"].startswith("role b ")
