"""The parser and the published JSON Schema accept the same documents."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ingot.converters.errors import MappingError
from ingot.converters.json_yaml import violations
from ingot.converters.mapping.bind import bind, bind_tree, load_mapping, read_changed, read_tree
from ingot.converters.mapping.documents.parser import Parser
from ingot.converters.mapping.documents.version1 import Version1
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.language import Value
from ingot.converters.paths import compile_path

LOOKUP = {"lookup": "u[*]", "key": "id", "of": "@file", "take": "n"}
GOOD: list[dict[str, Any]] = [
    {"version": 2, "text": None},
    {"version": 2, "messages": None, "system": None, "meta": None, "tools": None},
    {
        "version": 2,
        "source": {
            "files": ["*.json", "!x/*"],
            "format": "csv",
            "encoding": "gb18030",
            "delimiter": "_!_",
            "quote": "",
            "columns": ["a", "b"],
            "root": "data[*]",
            "orient": "list",
            "json_fields": ["p", "p.q"],
        },
        "group": {"by": ["id"], "sort": "turn"},
        "each": ["x[*]", "y[*]"],
        "where": [
            {"path": {"lookup": "u[*]", "key": "~", "of": "^.id", "take": "$"}, "in": ["x"]},
            {"path": "a", "in": [True, None, 1, "x"]},
            {"path": "a", "not_in": ["y"]},
            {"path": "a", "min_chars": 0},
            {"path": "a", "max_chars": 9},
        ],
        "messages": [
            {"each": "t[*]", "role": {"path": "from", "map": {"h": "user"}}, "content": "v"},
            {"each": ["p[*]", "q[*]"], "role": ["user", "assistant"], "content": "[0]"},
            {
                "each": "t[*]",
                "where": [{"path": "kind", "in": ["said"]}, {"path": "v", "min_chars": 1}],
                "role": {
                    "path": {"lookup": "^.u[*]", "key": "id", "of": "from", "take": "name"},
                    "order": ["user", "assistant"],
                },
                "content": {"path": "o[*]", "pick": {"path": "k", "map": {"x": 2}, "from": 1}},
            },
            {"role": {"split": {"\nA:": "assistant", "\nB:": None}}, "content": ["a", "b"]},
            {"role": "tool", "content": None, "loss_mask": True},
            {"role": "assistant", "content": {"path": "o[*]", "pick": "k"}, "loss_mask": "weight"},
        ],
        "tools": {"path": {"lookup": "u.*", "key": "k", "of": "i", "take": "t"}, "as": "json"},
        "system": {"any_of": ["s", {"literal": "S"}], "sep": " "},
        "meta": {
            "source": {"template": "{{a}}/{{b}}", "replace": {"x": ""}},
            "language": {"path": "l", "map": {"French": "fr", "*": None}},
            "original_id": {"concat": ["a", "b"], "label": "(1) ", "each": ["c[*]", "d[*]"]},
            "timestamp": None,
        },
        "provenance": {"mapper": "rules", "anything": [1]},
    },
    {
        "version": 2,
        "any_of": [
            {"text": {"tree": "s[*]", "text": ["h", LOOKUP], "children": "c.*", "depth": 64}},
            {"text": "b", "each": "c[*]", "where": [{"path": "x", "in": [1]}]},
        ],
    },
    {"text": ["a", "b[*]"], "meta": {"source": "s", "language": None}},
    {"messages": [{"role": "user", "content": "a", "loss_mask": None}], "system": "x y"},
]
JUNK: list[Any] = [None, True, -1, 2, "", "a..b", "a", " x", [], ["a", "a"], {}, {"path": "a"}]
KEYS = [
    "path",
    "each",
    "map",
    "role",
    "content",
    "text",
    "meta",
    "where",
    "order",
    "from",
    "lookup",
    "of",
    "pick",
    "tree",
    "depth",
    "nonsense",
]


def parser_problems(document: Any) -> list[Any]:
    parser, older = Parser(), Version1(None)
    parser.mapping(document if "version" in document else older.rewrite(document))
    return [*parser.problems, *older.problems]


@pytest.mark.parametrize("document", GOOD, ids=lambda d: ",".join(d)[:40])
def test_good_documents_are_good_for_both(document: dict[str, Any]) -> None:
    assert violations("mapping", document) == []
    assert parser_problems(document) == []


@st.composite
def spoilt(draw: st.DrawFn) -> dict[str, Any]:
    """A good document with one to three places changed."""
    document = copy.deepcopy(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 3))):
        place: Any = document
        for _ in range(draw(st.integers(0, 6))):
            inner = [k for k, v in items(place) if isinstance(v, dict | list)]
            if not inner:
                break
            place = place[draw(st.sampled_from(inner))]
        spoil(draw, place)
    return document


def items(place: Any) -> list[tuple[Any, Any]]:
    return list(place.items() if isinstance(place, dict) else enumerate(place))


def spoil(draw: st.DrawFn, place: Any) -> None:
    keys: list[Any] = [k for k, _ in items(place) if k != "version"]
    action = draw(st.sampled_from(["change", "remove", "add"]))
    if action == "add" and isinstance(place, dict):
        place[draw(st.sampled_from(KEYS))] = copy.deepcopy(draw(st.sampled_from(JUNK)))
    elif keys:
        key = draw(st.sampled_from(keys))
        if action == "remove":
            del place[key]
        else:
            place[key] = copy.deepcopy(draw(st.sampled_from(JUNK)))


@pytest.mark.more
@given(spoilt())
@settings(max_examples=600)
def test_parser_and_schema_agree(document: dict[str, Any]) -> None:
    assume(not lacks_a_role(document))
    assert bool(parser_problems(document)) == bool(violations("mapping", document))


def lacks_a_role(document: dict[str, Any]) -> bool:
    """Return whether a message has no role: version 1 guesses it, the schema wants it stated."""
    messages = document.get("messages")
    stated = (
        [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    )
    return "version" not in document and any(one.get("role") in (None, "") for one in stated)


@pytest.mark.parametrize(
    ("document", "pointer", "code", "nearest"),
    [
        ({"version": 3, "text": "a"}, "/version", "schema", None),
        ({"version": 2}, "", "schema", None),
        ({"version": 2, "text": "a", "messages": None}, "", "schema", None),
        ({"version": 2, "text": "a[1:2]"}, "/text", "bad_path", "a[*]"),
        ({"version": 2, "text": {"template": "{{a}} {{b"}}, "/text/template", "schema", None),
        ({"version": 2, "text": {"template": "{{a..b}}"}}, "/text/template", "bad_path", "a.b"),
        ({"version": 2, "text": {"path": "a", "lable": "A. "}}, "/text/lable", "schema", "label"),
        ({"version": 2, "text": {"path": "a", "label": "Answer"}}, "/text/label", "schema", None),
        ({"version": 2, "text": {"path": "a", "literal": "b"}}, "/text", "schema", None),
        (
            {"version": 2, "text": "a", "source": {"format": "jsonlines"}},
            "/source/format",
            "schema",
            "jsonl",
        ),
        (
            {"version": 2, "text": "a", "where": [{"path": "b", "equals": 1}]},
            "/where/0/equals",
            "schema",
            None,
        ),
    ],
)
def test_says_where_what_and_the_nearest(
    document: dict[str, Any], pointer: str, code: str, nearest: str | None
) -> None:
    with pytest.raises(MappingError) as raised:
        bind(document)
    problem = raised.value.problems[0]
    assert (problem.pointer, problem.code, problem.nearest) == (pointer, code, nearest)


def test_a_file_that_is_no_mapping(tmp_path: Any) -> None:
    for name, content in {"cut.json": '{"text": ', "list.json": "[1]"}.items():
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(MappingError, match=name):
            load_mapping(path)
    with pytest.raises(MappingError, match=r"missing\.json"):
        load_mapping(tmp_path / "missing.json")
    good = tmp_path / "good.json"
    good.write_text("\ufeff" + json.dumps({"text": "a"}), encoding="utf-8")
    assert load_mapping(good).draft == {"text": "a"}


@pytest.mark.parametrize(
    "template", ["{{a {{b}}", "{{}} {{a}}", "{{a}}}}", "}}{{a}}", "{{a}", "{", "a", "{{{{a}}}}"]
)
def test_braces_that_do_not_match_are_no_template(template: str) -> None:
    with pytest.raises(MappingError) as raised:
        bind({"version": 2, "text": {"template": template}})
    assert [(p.pointer, p.code) for p in raised.value.problems] == [("/text/template", "schema")]


def test_one_wrong_part_hides_no_other() -> None:
    document = {
        "version": 2,
        "text": {"path": "a[", "label": "XX", "map": {}},
        "meta": {"source": {"template": "{{a[}} {{b}} {{c..d}}"}},
        "a/b~": 1,
    }
    with pytest.raises(MappingError) as raised:
        bind(document)
    found = [(p.pointer, p.code, p.nearest) for p in raised.value.problems]
    assert found == [
        ("/a~1b~0", "schema", None),
        ("/text/map", "schema", None),
        ("/text/label", "schema", None),
        ("/text/path", "bad_path", None),
        ("/meta/source/template", "bad_path", None),
        ("/meta/source/template", "bad_path", "c.d"),
    ]


def test_alternatives_make_records_of_one_kind() -> None:
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    with pytest.raises(MappingError) as raised:
        bind({"version": 2, "any_of": [{"text": "t"}, {"text": None}, {"messages": turns}]})
    assert [(p.pointer, p.code) for p in raised.value.problems] == [("/any_of", "schema")]


def test_alternatives_that_map_nothing_are_saved_as_such() -> None:
    mapping = bind({"version": 2, "any_of": [{"text": None}, {"messages": None}]})
    assert mapping.kind == "irrelevant"
    assert bind(to_document(mapping)).kind == "irrelevant"


WRONG = {
    "provenance": {"by": "me"},
    "text": "a[",
    "version": 2,
    "meta": {"nonsense": 1, "source": "s"},
}


@pytest.mark.parametrize("document", [WRONG, {"text": "a"}, {"version": 2}, [1], {}])
def test_a_document_that_no_tree_holds_is_written_as_it_was(document: Any) -> None:
    mapping = read_tree(document)
    assert to_document(mapping) == document
    assert mapping != read_tree({"version": 2, "text": "a"})


def test_a_document_that_a_tree_holds_is_written_shortest() -> None:
    mapping = read_tree({"meta": {}, "version": 2, "text": ["a"]})
    assert (mapping.draft, to_document(mapping)) == (None, {"version": 2, "text": "a"})


def test_what_is_wrong_stays_until_it_is_mended() -> None:
    mapping = read_tree(WRONG)
    outer = replace(mapping.outer, each=(compile_path("rows[*]"),))
    made = read_changed(mapping, replace(mapping, outer=outer))
    assert made.draft == {**WRONG, "each": "rows[*]"}
    text = Value(kind="path", path=compile_path("a"))
    mended = read_changed(made, replace(made, outer=replace(made.outer, text=text)))
    assert mended.draft == {**WRONG, "each": "rows[*]", "text": "a"}


def test_a_mapping_is_bound_to_rows_where_its_document_says_what_they_mean() -> None:
    rows = [{"a": "x", "name": "n"}]
    older = read_tree({"text": "a", "meta": {"source": "name"}})
    assert bind_tree(older, rows).outer.meta["source"].kind == "path"
    newer = read_tree({"version": 2, "text": "a"})
    assert bind_tree(newer, rows) is newer
    with pytest.raises(MappingError):
        bind_tree(read_tree(WRONG))
