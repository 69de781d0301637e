import copy

import pytest

from ingot.agent.chat.edits import KINDS, apply_edits, list_conditions, swap_role
from ingot.converters import json_yaml
from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.mapping.documents.writer import part_document, to_document

PT = {
    "version": 2,
    "text": {"path": "body", "replace": {"<eos>": ""}},
    "meta": {"language": "lang"},
}
SFT = {
    "version": 2,
    "messages": [
        {"role": "user", "content": ["ctx", "q"]},
        {"role": "assistant", "content": "a"},
    ],
    "system": "persona",
}
TURNS = {
    "version": 2,
    "messages": [
        {
            "each": "chat[*]",
            "role": {"path": "who", "map": {"h": "user", "b": "assistant", "n": None}},
            "content": "say",
        }
    ],
}
SPLIT = {
    "version": 2,
    "messages": [{"role": {"split": {"H:": "user", "A:": "assistant"}}, "content": "t"}],
}
EITHER = {
    "version": 2,
    "any_of": [{"text": "a"}, {"text": "b"}],
    "where": [{"path": "ok", "in": [True]}],
}
MESSAGE = {"each": [], "where": [], "role": "user", "content": ["x"], "loss_mask": None}


WHOLE = ("meta", "group", "root", "files", "header_rows")


def edit(kind, **given):
    alternative = {} if kind in WHOLE else {"alternative": None}
    return {"set": kind, **alternative, **given}


CASES = {
    "a field before what is there": (
        PT,
        edit("text", parts=["title", {"current": 0}]),
        {"text": ["title", PT["text"]]},
    ),
    "one part of several": (
        {"version": 2, "text": ["a", "b", "c"]},
        edit("text", parts=[{"current": 3}, {"current": 1}]),
        {"text": ["c", "a"]},
    ),
    "a text in place of a conversation": (
        SFT,
        edit("text", parts=["q", "a"]),
        {"text": ["q", "a"], "messages": None, "system": None},
    ),
    "first of several": (
        PT,
        edit("text", parts=[{"any_of": ["x", "y"]}]),
        {"text": {"any_of": ["x", "y"]}},
    ),
    "definitions of tools": (
        SFT,
        edit(
            "tools",
            parts=[
                {"path": "t", "map": [], "replace": [], "json": True, "html": False, "sep": None}
            ],
        ),
        {"tools": {"path": "t", "as": "json"}},
    ),
    "first of one": (PT, edit("text", parts=[{"any_of": ["x"]}]), {"text": "x"}),
    "values looked up, texts replaced": (
        PT,
        edit(
            "text",
            parts=[
                {
                    "path": "x",
                    "map": [{"value": "0", "becomes": "bad"}, {"value": "1", "becomes": None}],
                    "replace": [{"find": "<s>", "put": ""}],
                    "json": True,
                    "html": False,
                    "sep": ", ",
                }
            ],
        ),
        {
            "text": {
                "path": "x",
                "map": {"0": "bad", "1": None},
                "replace": {"<s>": ""},
                "as": "json",
                "sep": ", ",
            }
        },
    ),
    "parts with another separator": (
        PT,
        edit("text", parts=[{"concat": ["x", "y"], "each": [], "sep": "\n\n"}]),
        {"text": {"concat": ["x", "y"], "sep": "\n\n"}},
    ),
    "a modified path without modifiers is a path": (
        PT,
        edit(
            "text",
            parts=[
                {"path": "x", "map": [], "replace": [], "json": False, "html": False, "sep": None}
            ],
        ),
        {"text": "x"},
    ),
    "a template": (
        PT,
        edit("text", parts=[{"template": "{{a}}: {{b}}", "each": ["c[*]"]}]),
        {"text": {"template": "{{a}}: {{b}}", "each": "c[*]"}},
    ),
    "other content of a message": (
        SFT,
        edit("content", number=1, parts=[{"current": 2}, {"current": 1}]),
        {"messages": [{"role": "user", "content": ["q", "ctx"]}, SFT["messages"][1]]},
    ),
    "no content": (
        SFT,
        edit("content", number=1, parts=[]),
        {"messages": [{"role": "user", "content": None}, SFT["messages"][1]]},
    ),
    "one more message": (
        SFT,
        edit("message", number=3, message=MESSAGE),
        {"messages": [*SFT["messages"], {"role": "user", "content": "x"}]},
    ),
    "another message": (
        SFT,
        edit("message", number=2, message={**MESSAGE, "content": [{"current": 1}]}),
        {"messages": [SFT["messages"][0], {"role": "user", "content": "a"}]},
    ),
    "a message less": (
        SFT,
        edit("message", number=1, message=None),
        {"messages": [SFT["messages"][1]]},
    ),
    "messages in another order": (
        SFT,
        edit("messages", messages=[{"current": 2}, MESSAGE, {"current": 1}]),
        {
            "messages": [
                SFT["messages"][1],
                {"role": "user", "content": "x"},
                SFT["messages"][0],
            ]
        },
    ),
    "messages in place of a text": (
        PT,
        edit("messages", messages=[MESSAGE]),
        {"messages": [{"role": "user", "content": "x"}], "text": None},
    ),
    "messages in place of alternatives": (
        EITHER,
        edit("messages", messages=[MESSAGE]),
        {"messages": [{"role": "user", "content": "x"}], "any_of": None},
    ),
    "a system text": (
        SFT,
        edit("system", parts=[{"literal": "Hi"}]),
        {"system": {"literal": "Hi"}},
    ),
    "no system text": (SFT, edit("system", parts=[]), {"system": None}),
    "a speaker": (
        TURNS,
        edit("role", number=None, value="x", role="drop"),
        {
            "messages": [
                {
                    **TURNS["messages"][0],
                    "role": {
                        "path": "who",
                        "map": {**TURNS["messages"][0]["role"]["map"], "x": None},
                    },
                }
            ]
        },
    ),
    "a speaker where the names were the roles": (
        {"version": 2, "messages": [{"each": "m[*]", "role": {"path": "r"}, "content": "c"}]},
        edit("role", number=1, value="bot", role="assistant"),
        {
            "messages": [
                {
                    "each": "m[*]",
                    "role": {
                        "path": "r",
                        "map": {
                            "user": "user",
                            "assistant": "assistant",
                            "system": "system",
                            "tool": "tool",
                            "bot": "assistant",
                        },
                    },
                    "content": "c",
                }
            ]
        },
    ),
    "sides by their texts": (
        SFT,
        edit("swap"),
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": ["ctx", "q"]},
            ]
        },
    ),
    "sides by their names": (
        TURNS,
        edit("swap"),
        {
            "messages": [
                {
                    **TURNS["messages"][0],
                    "role": {"path": "who", "map": {"h": "assistant", "b": "user", "n": None}},
                }
            ]
        },
    ),
    "sides by their markers": (
        SPLIT,
        edit("swap"),
        {
            "messages": [
                {"role": {"split": {"H:": "assistant", "A:": "user"}}, "content": "t"},
            ]
        },
    ),
    "trained on": (
        SFT,
        edit("train", number=1, mask=True),
        {"messages": [{**SFT["messages"][0], "loss_mask": True}, SFT["messages"][1]]},
    ),
    "trained on as a field says": (
        SFT,
        edit("train", number=2, mask={"path": "w"}),
        {"messages": [SFT["messages"][0], {**SFT["messages"][1], "loss_mask": "w"}]},
    ),
    "trained on as usual": (
        {"version": 2, "messages": [{"role": "user", "content": "x", "loss_mask": True}]},
        edit("train", number=1, mask=None),
        {"messages": [{"role": "user", "content": "x"}]},
    ),
    "conditions": (
        PT,
        edit(
            "where",
            number=None,
            where=[
                {"path": "a", "op": "min_chars", "values": [20]},
                {"path": "b", "op": "not_in", "values": ["x", None, 1]},
            ],
        ),
        {"where": [{"path": "a", "min_chars": 20}, {"path": "b", "not_in": ["x", None, 1]}]},
    ),
    "no conditions": (EITHER, edit("where", number=None, where=[]), {"where": None}),
    "a literal language": (
        PT,
        edit("meta", key="language", value={"literal": "en"}),
        {"meta": {"language": {"literal": "en"}}},
    ),
    "the last metadata away": (PT, edit("meta", key="language", value=None), {"meta": None}),
    "another metadata": (
        PT,
        edit("meta", key="original_id", value="id"),
        {"meta": {"language": "lang", "original_id": "id"}},
    ),
    "each": (PT, edit("each", path="a[*]"), {"each": "a[*]"}),
    "no each": ({**PT, "each": "a[*]"}, edit("each", path=None), {"each": None}),
    "group": (
        PT,
        edit("group", group={"by": ["id"], "sort": None}),
        {
            "group": {"by": ["id"]},
            "text": {**PT["text"], "each": "[*]"},
            "meta": {"language": "[0].lang"},
        },
    ),
    "another group": (
        {**PT, "group": {"by": ["id"]}},
        edit("group", group={"by": ["id"], "sort": "n"}),
        {"group": {"by": ["id"], "sort": "n"}},
    ),
    "no group": ({**PT, "group": {"by": ["id"]}}, edit("group", group=None), {"group": None}),
    "root": (PT, edit("root", path="data[*]"), {"source": {"root": "data[*]"}}),
    "no root": (
        {**PT, "source": {"root": "x", "encoding": "utf-8"}},
        edit("root", path=None),
        {"source": {"encoding": "utf-8"}},
    ),
    "a sheet is left out": (
        {**PT, "source": {"files": ["!Log", "Old"]}},
        edit("files", read=[], leave_out=["Old", "Log", "Notes"]),
        {"source": {"files": ["!Log", "!Old", "!Notes"]}},
    ),
    "a sheet of those that are read is left out": (
        {**PT, "source": {"files": ["Log", "Old"]}},
        edit("files", read=[], leave_out=["Log"]),
        {"source": {"files": ["Old"]}},
    ),
    "sheets are read": (
        {**PT, "source": {"files": ["!Log"]}},
        edit("files", read=["Log", "Old"], leave_out=[]),
        {"source": {"files": ["Log", "Old"]}},
    ),
    "a header": (
        {**PT, "source": {"columns": ["c0", "c1"], "encoding": "utf-8"}},
        edit("header_rows", rows=[2, 3]),
        {"source": {"encoding": "utf-8", "header_rows": [2, 3]}},
    ),
    "a header to be detected": (
        {**PT, "source": {"header_rows": [2]}},
        edit("header_rows", rows=[]),
        {"source": None},
    ),
    "the text of one alternative": (
        EITHER,
        {"set": "text", "parts": ["c", {"current": 1}], "alternative": 2},
        {"any_of": [{"text": "a"}, {"text": ["c", "b"]}]},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_edit_changes_what_it_names_and_nothing_else(case):
    document, one, wanted = CASES[case]
    given = read_tree({**document, "provenance": {"mapper": "rules"}})
    before = copy.deepcopy(given)
    made = to_document(apply_edits(given, [one]))
    expected = {key: value for key, value in {**document, **wanted}.items() if value is not None}
    assert made == expected
    assert given == before
    bind(made, None, where="m")  # it is a mapping


@pytest.mark.parametrize("case", CASES)
def test_every_edit_of_the_table_is_one_that_a_model_may_say(case):
    reply = {"say": "", "edits": [CASES[case][1]]}
    assert json_yaml.violations("chat", reply) == []


def test_the_table_has_every_kind():
    assert {one["set"] for _, one, _ in CASES.values()} == set(KINDS)
    branches = json_yaml.schema("chat")["properties"]["edits"]["items"]["anyOf"]
    assert {kind for one in branches for kind in one["properties"]["set"]["enum"]} == set(KINDS)


IMPOSSIBLE = {
    "a part that is not there": (PT, edit("text", parts=[{"current": 2}]), "/parts/0/current"),
    "no text": (PT, edit("text", parts=[]), "/parts"),
    "a message that is not there": (SFT, edit("content", number=3, parts=["x"]), "/number"),
    "a message far behind the last": (SFT, edit("message", number=4, message=MESSAGE), "/number"),
    "message 0": (SFT, edit("message", number=0, message=MESSAGE), "/number"),
    "the only message away": (TURNS, edit("message", number=1, message=None), "/message"),
    "no messages": (SFT, edit("messages", messages=[]), "/messages"),
    "a message of a text": (PT, edit("content", number=1, parts=["x"]), "/number"),
    "nothing to swap": (PT, edit("swap"), ""),
    "roles that are not read": (SFT, edit("role", number=None, value="x", role="user"), ""),
    "no such alternative": (
        EITHER,
        {"set": "text", "parts": ["x"], "alternative": 3},
        "/alternative",
    ),
    "an alternative of none": (
        PT,
        {"set": "text", "parts": ["x"], "alternative": 1},
        "/alternative",
    ),
    "half a character": (
        PT,
        edit("where", number=None, where=[{"path": "a", "op": "min_chars", "values": [1.5]}]),
        "/where/0/values",
    ),
    "true characters": (
        PT,
        edit("where", number=None, where=[{"path": "a", "op": "min_chars", "values": [True]}]),
        "/where/0/values",
    ),
    "no values": (
        PT,
        edit("where", number=None, where=[{"path": "a", "op": "in", "values": []}]),
        "/where/0",
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_done_is_a_problem_with_its_place(case):
    document, one, place = IMPOSSIBLE[case]
    with pytest.raises(MappingError) as raised:
        apply_edits(read_tree(document), [edit("meta", key="source", value=None), one])
    (problem,) = raised.value.problems
    assert problem.pointer.startswith(f"/edits/1{place}")


def test_edits_are_made_in_their_order():
    edits = [
        edit("messages", messages=[MESSAGE]),
        edit("content", number=1, parts=["y", {"current": 1}]),
    ]
    made = to_document(apply_edits(read_tree(PT), edits))
    assert made["messages"] == [{"role": "user", "content": ["y", "x"]}]


def test_conditions_are_said_as_they_were_set():
    where = [
        {"path": "a", "op": "in", "values": [True, "x"]},
        {"path": "b", "op": "max_chars", "values": [9]},
    ]
    made = apply_edits(read_tree(PT), [edit("where", number=None, where=where)])
    assert list(list_conditions(made.outer)) == where


@pytest.mark.parametrize(
    ("role", "other"),
    [
        ("user", "assistant"),
        ("tool", "tool"),
        (["user", "assistant"], ["assistant", "user"]),
        (
            {"path": "r"},
            {
                "path": "r",
                "map": {
                    "user": "assistant",
                    "assistant": "user",
                    "system": "system",
                    "tool": "tool",
                },
            },
        ),
        (
            {"path": "by", "order": ["user", "assistant"]},
            {"path": "by", "order": ["assistant", "user"]},
        ),
    ],
)
def test_roles_are_exchanged(role, other):
    given = read_tree({"version": 2, "messages": [{"role": role, "content": "x"}]})
    assert part_document(swap_role(given.outer.messages[0].role)) == other


def test_conditions_go_with_what_is_said():
    kinds = [[{"path": "kind", "in": [kind]}] for kind in ("q", "a")]
    messages = [
        {"each": "t[*]", "where": kinds[0], "role": "user", "content": "x"},
        {"each": "t[*]", "where": kinds[1], "role": "assistant", "content": "x"},
    ]
    given = read_tree({"version": 2, "messages": messages})
    made = to_document(apply_edits(given, [edit("swap", alternative=None)]))
    assert [one["where"] for one in made["messages"]] == kinds[::-1]


def test_no_speaker_of_an_order_is_named():
    role = {"path": "by", "order": ["user", "assistant"]}
    document = {"version": 2, "messages": [{"each": "t[*]", "role": role, "content": "x"}]}
    with pytest.raises(MappingError, match="a message whose role is read from the data by name"):
        apply_edits(read_tree(document), [edit("role", number=1, value="Ann", role="user")])
