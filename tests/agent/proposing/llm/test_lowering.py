"""Lowering of a model's reply to a document: every form, and all that cannot be said."""

from typing import Any

import pytest

from ingot.agent.proposing.llm.lowering import lower_reply
from ingot.converters import json_yaml
from ingot.converters.errors import MappingError

NO_META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)


def reply(**given: Any) -> dict[str, Any]:
    made = {
        "decision": "pt" if "text" in given else "sft",
        "reason": "r",
        "confidence": 0.9,
        "root": None,
        "source": None,
        "each": [],
        "group": None,
        "where": [],
        "text": None,
        "messages": None,
        "system": None,
        "meta": NO_META,
    }
    return {**made, **given}


LOOKUP = {"lookup": "users[*]", "key": "id", "of": "author", "take": "bot"}


def message(
    role: Any = "user", content: Any = ("q",), each: Any = (), loss_mask: Any = None
) -> Any:
    made = {"each": list(each), "where": [], "role": role, "content": list(content)}
    return {**made, "loss_mask": loss_mask}


def looked_up(path: str, *, map: Any = (), replace: Any = (), **given: Any) -> Any:
    """A path with modifiers, tables as pairs."""
    made = {"path": path, "json": False, "html": False, "sep": None, **given}
    made["map"] = [{"value": value, "becomes": becomes} for value, becomes in map]
    made["replace"] = [{"find": find, "put": put} for find, put in replace]
    return made


PAIR = [message(), message("assistant", ["a"])]
PAIR_LOWERED = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def lowered(given: dict[str, Any]) -> dict[str, Any]:
    """Lower a reply that the model's schema allows to a document that the file's schema allows."""
    assert json_yaml.violations("llm", given) == []
    document = lower_reply(given)
    assert json_yaml.violations("mapping", document) == []
    return document


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        (["body"], "body"),
        (["title", "body"], ["title", "body"]),
        ([{"literal": "Q: "}, "q"], [{"literal": "Q: "}, "q"]),
        ([{"template": "{{a}}: {{b}}", "each": []}], {"template": "{{a}}: {{b}}"}),
        (
            [{"template": "{{k}}. {{v}}", "each": ["o[*]"]}],
            {"template": "{{k}}. {{v}}", "each": "o[*]"},
        ),
        (
            [{"template": "{{[0]}} {{[1]}}", "each": ["a[*]", "b[*]"]}],
            {"template": "{{[0]}} {{[1]}}", "each": ["a[*]", "b[*]"]},
        ),
        ([{"template": "Answer:", "each": []}, "a"], [{"literal": "Answer:"}, "a"]),
        ([{"options": ["o[*]"], "label": None, "pick": None, "from": 0}], "o[*]"),
        (
            [{"options": ["o[*]"], "label": "A. ", "pick": None, "from": 0}],
            {"path": "o[*]", "label": "A. "},
        ),
        (
            [{"options": ["o[*]"], "label": None, "pick": "key", "from": 0}],
            {"path": "o[*]", "pick": "key"},
        ),
        (
            [{"options": ["A", "B"], "label": "(a) ", "pick": "key", "from": 0}],
            {"concat": ["A", "B"], "pick": "key", "label": "(a) "},
        ),
        (["", "body", {"literal": ""}], "body"),
        (
            [looked_up("k", map=[("1", "yes"), ("*", None)])],
            {"path": "k", "map": {"1": "yes", "*": None}},
        ),
        (
            [looked_up("k", replace=[("|", "")], json=True, sep="")],
            {"path": "k", "as": "json", "replace": {"|": ""}, "sep": ""},
        ),
        ([looked_up("k", html=True)], {"path": "k", "text_of": "html"}),
        ([looked_up("k", sep="\n")], "k"),
        (
            [{"any_of": ["a", looked_up("b", json=True)]}],
            {"any_of": ["a", {"path": "b", "as": "json"}]},
        ),
        ([{"any_of": ["a"]}], "a"),
        (
            [{"options": ["o[*]"], "label": None, "pick": "key", "from": 1}],
            {"path": "o[*]", "pick": {"path": "key", "from": 1}},
        ),
        ([LOOKUP], {"path": LOOKUP}),
        (
            [{"tree": "s[*]", "text": ["h", "ps[*]"], "children": "s[*]", "depth": 3}],
            {"tree": "s[*]", "text": ["h", "ps[*]"], "children": "s[*]", "depth": 3},
        ),
        (
            [{"concat": ["h", "ps[*]"], "each": ["secs[*]"], "sep": None}],
            {"concat": ["h", "ps[*]"], "each": "secs[*]"},
        ),
        ([{"concat": ["a"], "each": [], "sep": None}], "a"),
    ],
)
def test_values(parts: list[Any], value: Any) -> None:
    assert lowered(reply(text=parts)) == {"version": 2, "text": value}


@pytest.mark.parametrize(
    ("role", "wanted"),
    [
        ("tool", "tool"),
        ({"in_turn": ["user", "assistant"]}, ["user", "assistant"]),
        (
            {"path": "by", "order": ["user", "assistant"]},
            {"path": "by", "order": ["user", "assistant"]},
        ),
        ({"path": LOOKUP, "map": []}, {"path": LOOKUP}),
        ({"in_turn": ["assistant"]}, "assistant"),
        ({"path": "from", "map": []}, {"path": "from"}),
        (
            {
                "path": "from",
                "map": [{"value": "human", "role": "user"}, {"value": "note", "role": "drop"}],
            },
            {"path": "from", "map": {"human": "user", "note": None}},
        ),
        (
            {"split": [{"marker": "\nQ:", "role": "user"}, {"marker": "\nX:", "role": "drop"}]},
            {"split": {"\nQ:": "user", "\nX:": None}},
        ),
    ],
)
def test_roles(role: Any, wanted: Any) -> None:
    document = lowered(reply(messages=[message(role, ["text"], ["turns[*]"])]))
    assert document["messages"] == [{"each": "turns[*]", "role": wanted, "content": "text"}]


def test_messages_keep_their_order_and_masks() -> None:
    entries = [
        message("user", ["[0]"], ["q[*]", "a[*]"], loss_mask=False),
        message("assistant", ["[1]"], ["q[*]", "a[*]"], loss_mask={"path": "^.weight"}),
        message("assistant", [], loss_mask=True),
    ]
    assert lowered(reply(messages=entries))["messages"] == [
        {"each": ["q[*]", "a[*]"], "role": "user", "content": "[0]", "loss_mask": False},
        {
            "each": ["q[*]", "a[*]"],
            "role": "assistant",
            "content": "[1]",
            "loss_mask": "^.weight",
        },
        {"role": "assistant", "content": None, "loss_mask": True},
    ]


def test_everything_around_the_messages() -> None:
    given = reply(
        root="data[*]",
        each=["qas[*]"],
        group={"by": ["chat"], "sort": "turn"},
        where=[
            {"path": "good", "op": "in", "values": [True, 1]},
            {"path": "lang", "op": "not_in", "values": [None]},
            {"path": "q", "op": "min_chars", "values": [3.0]},
        ],
        messages=PAIR,
        system=["persona", {"literal": "Be kind."}],
        meta={**NO_META, "language": {"literal": "en"}, "original_id": "id", "source": ""},
    )
    assert lowered(given) == {
        "version": 2,
        "source": {"root": "data[*]"},
        "group": {"by": ["chat"], "sort": "turn"},
        "each": "qas[*]",
        "where": [
            {"path": "good", "in": [True, 1]},
            {"path": "lang", "not_in": [None]},
            {"path": "q", "min_chars": 3},
        ],
        "messages": PAIR_LOWERED,
        "system": ["persona", {"literal": "Be kind."}],
        "meta": {"language": {"literal": "en"}, "original_id": "id"},
    }


def test_what_corrects_the_reader_and_what_meta_looks_up() -> None:
    facts = {"encoding": None, "delimiter": ";", "quote": "", "columns": ["a", "b"], "orient": None}
    source = {**facts, "json_fields": ["a"]}
    codes = looked_up("l", map=[("English", "en")])
    made = lowered(reply(text=["a.x"], source=source, meta={**NO_META, "language": codes}))
    assert made == {
        "version": 2,
        "source": {"delimiter": ";", "columns": ["a", "b"], "json_fields": ["a"], "quote": ""},
        "text": "a.x",
        "meta": {"language": {"path": "l", "map": {"English": "en"}}},
    }


def test_conditions_of_messages_and_lists_in_step() -> None:
    note = {"path": "kind", "op": "not_in", "values": ["note"]}
    entry = {**message(each=["turns[*]"]), "where": [note]}
    made = lowered(reply(messages=[entry], each=["a[*]", "b[*]"]))
    assert made["each"] == ["a[*]", "b[*]"]
    assert made["messages"][0]["where"] == [{"path": "kind", "not_in": ["note"]}]
    with pytest.raises(MappingError, match="/messages/0/where/0/values"):
        lower_reply(reply(messages=[{**entry, "where": [{**note, "values": []}]}]))


def test_empty_keys_are_left_out() -> None:
    given = reply(root="", each=[], group={"by": [], "sort": None}, messages=PAIR, system=[])
    assert lowered(given) == {"version": 2, "messages": PAIR_LOWERED}
    assert lowered(reply(group={"by": ["k"], "sort": None}, messages=PAIR))["group"] == {
        "by": ["k"]
    }


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (reply(text=[]), "/text"),
        (reply(decision="pt", messages=PAIR), "/messages"),
        (reply(decision="sft", text=["a"], messages=PAIR), "/text"),
        (reply(messages=[]), "/messages"),
        (reply(text=[{"options": [], "label": None, "pick": None, "from": 0}]), "/text/0/options"),
        (
            reply(
                messages=[
                    message("user", [{"options": [], "label": None, "pick": None, "from": 0}])
                ]
            ),
            "/messages/0/content/0/options",
        ),
        (reply(text=[{"any_of": []}]), "/text/0/any_of"),
        (reply(text=[{"concat": [], "each": [], "sep": None}]), "/text/0/concat"),
        (
            reply(text=[{"any_of": ["a", looked_up("k", map=[("1", "a"), ("1", "b")])]}]),
            "/text/0/any_of/1/map/1",
        ),
        (reply(text=[looked_up("k", replace=[("", "a")])]), "/text/0/replace/0/find"),
        (
            reply(
                text=["a"],
                meta={**NO_META, "language": looked_up("l", map=[("x", "en"), ("x", "zh")])},
            ),
            "/meta/language/map/1",
        ),
        (reply(messages=[message({"in_turn": []})]), "/messages/0/role/in_turn"),
        (reply(messages=[message({"split": []})]), "/messages/0/role/split"),
        (
            reply(messages=[message({"split": [{"marker": "", "role": "user"}]})]),
            "/messages/0/role/split/0/marker",
        ),
        (
            reply(
                messages=[
                    message(
                        {
                            "path": "from",
                            "map": [
                                {"value": "x", "role": "user"},
                                {"value": "x", "role": "assistant"},
                            ],
                        }
                    )
                ]
            ),
            "/messages/0/role/map/1",
        ),
        (
            reply(text=["a"], where=[{"path": "a", "op": "in", "values": []}]),
            "/where/0/values",
        ),
        (
            reply(text=["a"], where=[{"path": "a", "op": "min_chars", "values": ["many"]}]),
            "/where/0/values",
        ),
        (
            reply(text=["a"], where=[{"path": "a", "op": "max_chars", "values": [True]}]),
            "/where/0/values",
        ),
        (
            reply(text=["a"], where=[{"path": "a", "op": "max_chars", "values": [-1]}]),
            "/where/0/values",
        ),
    ],
)
def test_what_no_mapping_can_say_is_a_problem_with_its_place(
    given: dict[str, Any], pointer: str
) -> None:
    assert json_yaml.violations("llm", given) == []
    with pytest.raises(MappingError) as caught:
        lower_reply(given)
    assert pointer in [problem.pointer for problem in caught.value.problems]


def test_the_same_entry_twice_is_no_contradiction() -> None:
    role = {"path": "from", "map": [{"value": "x", "role": "user"}] * 2}
    assert lowered(reply(messages=[message(role)]))["messages"][0]["role"]["map"] == {"x": "user"}
