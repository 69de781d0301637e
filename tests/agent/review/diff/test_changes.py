"""Which rule names a change, in what words, and where it stands."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.review.diff.change_rules import CLASSES, RULES, worst_class
from ingot.agent.review.diff.mapping_changes import compare_mappings
from ingot.converters.mapping.documents.parser import Parser
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.language import Mapping
from tests.agent.review.diff.documents import normal_form

Document = dict[str, Any]
USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}
TREE = {"tree": "s[*]", "text": "h", "children": "c[*]", "depth": 2}
LOOKUP = {"lookup": "u[*]", "key": "id", "of": "by", "take": "name"}
MAPPED = {"path": "l", "map": {"x": "de"}}


def doc(**keys: Any) -> Document:
    return {"version": 2, **keys}


def large(document: Document) -> Mapping:
    """Return the tree of a document that is larger than a file may be."""
    return Parser().mapping(document)


def text(value: Any, **keys: Any) -> Document:
    return doc(text=value, **keys)


def chat(*messages: Document, **keys: Any) -> Document:
    return doc(messages=list(messages), **keys)


def said(**keys: Any) -> Document:
    return {"role": "user", "content": "q", **keys}


def by_role(table: Document) -> Document:
    return chat({"each": "t[*]", "role": {"path": "from", "map": table}, "content": "v"})


def split(table: Document) -> Document:
    return chat({"role": {"split": table}, "content": "c"})


def where(*conditions: Document) -> Document:
    return text("a", where=list(conditions))


def files(*patterns: str, **facts: Any) -> Document:
    return text("a", source={"files": list(patterns), **facts})


def first_of(*layouts: Document, **keys: Any) -> Document:
    return doc(any_of=list(layouts), **keys)


A, B, C = {"text": "a"}, {"text": "b"}, {"text": "c"}
MANY = [{"text": f"a{n}"} for n in range(99)]
HOT, COLD = {"path": "t", "min_chars": 3}, {"path": "l", "in": ["x"]}

# rule, old, new, target, old words, new words
CASES: list[tuple[str, Document, Document, str, str | None, str | None]] = [
    ("text_path", text("body"), text(["title", "body"]), "text", "body", "title + body"),
    (
        "text_path",
        text({"literal": "a b"}),
        text("a"),
        "text",
        'always "a b"',
        "a",
    ),
    (
        "content_path",
        chat(USER, ANSWER),
        chat(USER, {**ANSWER, "content": "b"}),
        "messages 2 content",
        "a",
        "b",
    ),
    (
        "system_path",
        chat(USER, ANSWER),
        chat(USER, ANSWER, system="persona"),
        "system",
        None,
        "persona",
    ),
    ("system_path", chat(USER, ANSWER, system="p"), chat(USER, ANSWER), "system", "p", None),
    ("tools_path", chat(USER, ANSWER, tools="t"), chat(USER, ANSWER, tools="u"), "tools", "t", "u"),
    ("value_order", text(["a", "b"]), text(["b", "a"]), "text", "a + b", "b + a"),
    (
        "value_each",
        text({"template": "{{x}}", "each": "t[*]"}),
        text({"template": "{{x}}", "each": "u[*]"}),
        "text",
        'template "{{x}}" for each t[*]',
        'template "{{x}}" for each u[*]',
    ),
    (
        "text_path",
        text("a"),
        text(LOOKUP),
        "text",
        "a",
        "name of the element of u[*] whose id equals by",
    ),
    (
        "text_path",
        text(["a", LOOKUP]),
        text(["a", {**LOOKUP, "take": "$.nick"}]),
        "text",
        "a + name of the element of u[*] whose id equals by",
        "a + nick of the element of u[*] whose id equals by",
    ),
    (
        "message_role",
        by_role({"x": "user"}),
        chat({"each": "t[*]", "role": {"path": LOOKUP, "map": {"x": "user"}}, "content": "v"}),
        "messages 1 role",
        "role by from ('x' → user)",
        "role by name of the element of u[*] whose id equals by ('x' → user)",
    ),
    (
        "where_widened",
        text("a", where=[{"path": LOOKUP, "in": ["x"]}]),
        text("a", where=[{"path": LOOKUP, "in": ["x", "y"]}]),
        "where",
        "name of the element of u[*] whose id equals by is 'x'",
        "name of the element of u[*] whose id equals by is one of 'x', 'y'",
    ),
    (
        "value_tree",
        text(TREE),
        text({**TREE, "depth": 3}),
        "text",
        "h of each node of the tree s[*] (children c[*], at most 2 levels)",
        "h of each node of the tree s[*] (children c[*], at most 3 levels)",
    ),
    (
        "value_tree",
        text(TREE),
        text({**TREE, "children": "$.d[*]"}),
        "text",
        "h of each node of the tree s[*] (children c[*], at most 2 levels)",
        "h of each node of the tree s[*] (children d[*], at most 2 levels)",
    ),
    (
        "value_pick",
        text({"path": "o[*]", "pick": "i"}),
        text({"path": "o[*]", "pick": "j"}),
        "text",
        "o[*] picked by i",
        "o[*] picked by j",
    ),
    (
        "value_pick",
        text({"path": "o[*]", "pick": {"path": "i", "from": 0}}),
        text({"path": "o[*]", "pick": {"path": "i", "from": 1}}),
        "text",
        "o[*] picked by i",
        "o[*] picked by i (counted from 1)",
    ),
    (
        "value_pick",
        text("o[*]"),
        text({"path": "o[*]", "pick": "j"}),
        "text",
        "o[*]",
        "o[*] picked by j",
    ),
    ("value_map", text("l"), text(MAPPED), "text", "l", "l (map 'x' → de)"),
    (
        "map_value_added",
        text(MAPPED),
        text({"path": "l", "map": {"x": "de", "y": None, "z": "a b"}}),
        "text",
        None,
        "map 'y' → left out, 'z' → \"a b\"",
    ),
    (
        "map_value_added",
        text({"path": "o[*]", "pick": {"path": "r", "map": {"x": 0}}}),
        text({"path": "o[*]", "pick": {"path": "r", "map": {"x": 0, "y": 1}}}),
        "text",
        None,
        "map 'y' → 1",
    ),
    (
        "map_value_removed",
        text({"path": "l", "map": {"x": "de", "y": "en"}}),
        text(MAPPED),
        "text",
        "map 'y' → en",
        None,
    ),
    (
        "map_value_changed",
        text(MAPPED),
        text({"path": "l", "map": {"x": "en"}}),
        "text",
        "map 'x' → de",
        "map 'x' → en",
    ),
    (
        "map_value_changed",
        text({"path": "l", "map": {"x": "de", "*": "en"}}),
        text({"path": "l", "map": {"x": "de", "y": "fr", "*": "en"}}),
        "text",
        "map 'y' → en",
        "map 'y' → fr",
    ),
    (
        "map_value_added",
        text({"path": "l", "map": {"x": "de", "y": "en"}}),
        text({"path": "l", "map": {"x": "de", "*": "en"}}),
        "text",
        None,
        "map '*' → en",
    ),
    (
        "map_default",
        text({"path": "l", "map": {"x": "de", "*": "en"}}),
        text({"path": "l", "map": {"x": "de", "*": None}}),
        "text",
        "map '*' → en",
        "map '*' → left out",
    ),
    (
        "map_default",
        text({"path": "l", "map": {"x": "de", "*": None}}),
        text(MAPPED),
        "text",
        "map '*' → left out",
        None,
    ),
    ("value_as", text("a"), text({"path": "a", "as": "json"}), "text", "a", "a (as json)"),
    (
        "value_text_of",
        text("a"),
        text({"path": "a", "text_of": "html"}),
        "text",
        "a",
        "a (text of html)",
    ),
    (
        "value_replace",
        text({"path": "a", "replace": {"<eos>": ""}}),
        text({"path": "a", "replace": {"<eos>": "."}}),
        "text",
        "a (replace '<eos>' → \"\")",
        "a (replace '<eos>' → \".\")",
    ),
    (
        "value_label",
        text(["q", {"path": "o[*]", "label": "A. "}]),
        text(["q", {"path": "o[*]", "label": "1) "}]),
        "text",
        'q + o[*] (label "A. ")',
        'q + o[*] (label "1) ")',
    ),
    (
        "value_sep",
        text({"path": "o[*]", "sep": " "}),
        text("o[*]"),
        "text",
        'o[*] (sep " ")',
        "o[*]",
    ),
    (
        "value_sep",
        text({"concat": ["lookup", "b"], "sep": " "}),
        text(["lookup", "b"]),
        "text",
        'lookup + b (sep " ")',
        "lookup + b",
    ),
    ("value_fallback_added", text("a"), text({"any_of": ["a", "b"]}), "text", "a", "first of a, b"),
    (
        "value_fallback_added",
        chat(USER, ANSWER),
        chat(said(content={"any_of": ["q", "b"]}), ANSWER),
        "messages 1 content",
        "q",
        "first of q, b",
    ),
    (
        "value_fallback",
        text(["a", "b"]),
        text(["a", {"any_of": ["b", "c"]}]),
        "text",
        "a + b",
        "a + first of b, c",
    ),
    (
        "value_fallback",
        chat(USER, said(content="r"), ANSWER),
        chat(USER, said(content={"any_of": ["r", "s"]}), ANSWER),
        "messages 2 content",
        "r",
        "first of r, s",
    ),
    (
        "value_fallback",
        first_of(A, B),
        first_of({"text": {"any_of": ["a", "c"]}}, B),
        "alternative 1: text",
        "a",
        "first of a, c",
    ),
    (
        "message_added",
        chat(USER, ANSWER),
        chat({"role": "system", "content": "p"}, USER, ANSWER),
        "messages 1",
        None,
        "system: p",
    ),
    (
        "message_removed",
        chat(said(content="p"), USER, ANSWER),
        chat(USER, ANSWER),
        "messages 1",
        "user: p",
        None,
    ),
    (
        "message_order",
        chat(USER, ANSWER),
        chat(ANSWER, USER),
        "messages 2",
        "user: q (at place 1)",
        "user: q (at place 2)",
    ),
    (
        "message_each",
        chat(said(each="t[*]"), ANSWER),
        chat(said(each="u[*]"), ANSWER),
        "messages 1 each",
        "t[*]",
        "u[*]",
    ),
    (
        "message_role",
        chat(USER, ANSWER),
        chat(said(role="tool"), ANSWER),
        "messages 1 role",
        "user",
        "tool",
    ),
    (
        "message_role",
        chat({"each": "t[*]", "role": ["user", "assistant"], "content": "$"}),
        chat({"each": "t[*]", "role": ["assistant", "user"], "content": "$"}),
        "messages 1 role",
        "user / assistant in turn",
        "assistant / user in turn",
    ),
    (
        "message_role",
        chat(said(role={"path": "f", "map": {"x": "user"}})),
        chat(said(role={"path": "$.f", "order": ["user", "assistant"]})),
        "messages 1 role",
        "role by f ('x' → user)",
        "role by f (user, then assistant by first message)",
    ),
    (
        "message_where",
        chat(said(each="t[*]")),
        chat(
            said(each="t[*]", where=[{"path": "k", "in": ["x"]}, {"path": "$.q", "min_chars": 1}])
        ),
        "messages 1 where",
        None,
        "k is 'x' and q has at least 1 characters",
    ),
    (
        "role_map_value_added",
        by_role({"h": "user"}),
        by_role({"h": "user", "n": None}),
        "messages 1 role",
        None,
        "'n' → left out",
    ),
    (
        "role_map_value_added",
        by_role({"h": "assistant"}),
        by_role({"h": "assistant", "*": "user"}),
        "messages 1 role",
        None,
        "'*' → user",
    ),
    (
        "role_map_value_changed",
        by_role({"h": "assistant", "*": "user"}),
        by_role({"h": "assistant", "n": None, "*": "user"}),
        "messages 1 role",
        "'n' → user",
        "'n' → left out",
    ),
    (
        "role_map_value_removed",
        by_role({"h": "assistant", "*": "user"}),
        by_role({"h": "assistant"}),
        "messages 1 role",
        "'*' → user",
        None,
    ),
    (
        "role_map_value_removed",
        by_role({"h": "user", "n": None}),
        by_role({"h": "user"}),
        "messages 1 role",
        "'n' → left out",
        None,
    ),
    (
        "role_map_value_changed",
        by_role({"h": "user"}),
        by_role({"h": "tool"}),
        "messages 1 role",
        "'h' → user",
        "'h' → tool",
    ),
    (
        "role_map_value_added",
        chat({"each": "t[*]", "role": {"path": "from"}, "content": "v"}),
        by_role(
            {
                "user": "user",
                "assistant": "assistant",
                "system": "system",
                "tool": "tool",
                "gpt": "assistant",
            }
        ),
        "messages 1 role",
        None,
        "'gpt' → assistant",
    ),
    (
        "split_markers",
        split({"H:": "user"}),
        split({"H:": "user", "A:": "assistant"}),
        "messages 1 role",
        "roles by marker ('H:' → user)",
        "roles by marker ('A:' → assistant, 'H:' → user)",
    ),
    (
        "loss_mask",
        chat(USER, ANSWER),
        chat(USER, {**ANSWER, "loss_mask": False}),
        "messages 2 loss_mask",
        None,
        "false",
    ),
    (
        "loss_mask_from_data",
        chat(USER, ANSWER),
        chat(USER, {**ANSWER, "loss_mask": "w"}),
        "messages 2 loss_mask",
        None,
        "w",
    ),
    (
        "loss_mask",
        chat(USER, {**ANSWER, "loss_mask": "w"}),
        chat(USER, {**ANSWER, "loss_mask": False}),
        "messages 2 loss_mask",
        "w",
        "false",
    ),
    (
        "map_value_added",
        chat(USER, {**ANSWER, "loss_mask": {"path": "w", "map": {"x": 1}}}),
        chat(USER, {**ANSWER, "loss_mask": {"path": "w", "map": {"x": 1, "y": 0}}}),
        "messages 2 loss_mask",
        None,
        "map 'y' → 0",
    ),
    *(
        (f"meta_{key}", text("a"), text("a", meta={key: "k"}), f"meta.{key}", None, "k")
        for key in (
            "source",
            "language",
            "timestamp",
            "token_count",
            "quality_score",
            "original_id",
        )
    ),
    (
        "meta_language",
        text("a", meta={"language": MAPPED}),
        text("a", meta={"language": {"path": "l", "map": {"x": "de", "y": "en"}}}),
        "meta.language",
        None,
        "map 'y' → en",
    ),
    ("each", text("a"), text("a", each="t[*]"), "each", None, "t[*]"),
    (
        "each",
        text("[0]", each=["t[*]", "u[*]"]),
        text("[0]", each=["u[*]", "$.t[*]"]),
        "each",
        "t[*] with u[*]",
        "u[*] with t[*]",
    ),
    (
        "group",
        text("[*].a", group={"by": ["i"]}),
        text("[*].a", group={"by": ["i"], "sort": "n"}),
        "group",
        "rows with equal i",
        "rows with equal i, sorted by n",
    ),
    (
        "where_widened",
        where({"path": "l", "in": ["x"]}),
        where({"path": "l", "in": ["y", "x"]}),
        "where",
        "l is 'x'",
        "l is one of 'x', 'y'",
    ),
    (
        "where_widened",
        where({"path": "l", "not_in": ["x", None]}),
        where({"path": "l", "not_in": [None]}),
        "where",
        "l is not one of 'x', null",
        "l is not null",
    ),
    (
        "where_widened",
        where({"path": "l", "in": ["x"]}),
        where({"path": "l", "not_in": [None]}),
        "where",
        "l is 'x'",
        "l is not null",
    ),
    (
        "where_widened",
        where(HOT),
        where({"path": "t", "min_chars": 2}),
        "where",
        "t has at least 3 characters",
        "t has at least 2 characters",
    ),
    (
        "where_widened",
        where({"path": "t", "max_chars": 3}),
        where({"path": "t", "max_chars": 9}),
        "where",
        "t has at most 3 characters",
        "t has at most 9 characters",
    ),
    ("where_widened", where(HOT), text("a"), "where", "t has at least 3 characters", None),
    (
        "where_widened",
        first_of(A, B, where=[HOT]),
        first_of(A, B),
        "where",
        "t has at least 3 characters",
        None,
    ),
    (
        "where_widened",
        first_of(A, {**B, "where": [HOT]}),
        first_of(A, B),
        "alternative 2: where",
        "t has at least 3 characters",
        None,
    ),
    (
        "where_widened_among_alternatives",
        first_of({**A, "where": [HOT]}, B),
        first_of(A, B),
        "alternative 1: where",
        "t has at least 3 characters",
        None,
    ),
    (
        "where_widened_among_alternatives",
        first_of({**A, "each": "t[*]"}, B, where=[HOT]),
        first_of({**A, "each": "t[*]"}, B),
        "where",
        "t has at least 3 characters",
        None,
    ),
    ("where_tightened", text("a"), where(HOT), "where", None, "t has at least 3 characters"),
    (
        "where_tightened",
        where(HOT),
        where({"path": "t", "min_chars": 9}),
        "where",
        "t has at least 3 characters",
        "t has at least 9 characters",
    ),
    (
        "where_changed",
        where({"path": "l", "in": ["x"]}),
        where({"path": "l", "in": ["y"]}),
        "where",
        "l is 'x'",
        "l is 'y'",
    ),
    (
        "where_changed",
        where({"path": "l", "in": [1]}),
        where({"path": "l", "in": [True]}),
        "where",
        "l is 1",
        "l is true",
    ),
    (
        "where_order",
        first_of({**A, "where": [HOT, COLD]}, B),
        first_of({**A, "where": [COLD, HOT]}, B),
        "alternative 1: where",
        "t has at least 3 characters, l is 'x'",
        "l is 'x', t has at least 3 characters",
    ),
    ("alternative_added", text("a"), first_of(A, B), "alternative 2", None, "text: b"),
    ("alternative_added", first_of(A, B), first_of(A, B, C), "alternative 3", None, "text: c"),
    (
        "alternative_added",
        text("a", each="t[*]"),
        first_of(A, B, each="t[*]"),
        "alternative 2",
        None,
        "one record per t[*]; text: b",
    ),
    ("alternative_inserted", first_of(A, B), first_of(A, C, B), "alternative 2", None, "text: c"),
    ("alternative_removed", first_of(A, B), text("a"), "alternative 2", "text: b", None),
    (
        "alternative_order",
        first_of(A, B, C),
        first_of(B, C, A),
        "alternative 3",
        "text: a (at place 1)",
        "text: a (at place 3)",
    ),
    (
        "alternatives_each",
        first_of(A, B, each="t[*]"),
        first_of({**A, "each": "t[*]"}, {**B, "each": "t[*]"}),
        "alternatives",
        "per element",
        "per row",
    ),
    ("mapped_now", doc(text=None), text("a"), "text", None, "text: a"),
    (
        "mapped_no_more",
        chat(USER, ANSWER),
        doc(messages=None),
        "messages",
        "user: q; assistant: a",
        None,
    ),
    ("records_kind", text("a"), chat(USER, ANSWER), "messages", "text: a", "user: q; assistant: a"),
    (
        "source_files_widened",
        files("a/*.jsonl", format="jsonl"),
        files("a/*.jsonl", "b/*.jsonl.gz", format="jsonl"),
        "source.files",
        "a/*.jsonl",
        "a/*.jsonl, b/*.jsonl.gz",
    ),
    (
        "source_files_widened",
        files("*.txt", "!*index*", format="text"),
        files("*.txt", format="text"),
        "source.files",
        "*.txt, !*index*",
        "*.txt",
    ),
    (
        "source_files_widened",
        files("a/*", format="csv"),
        files("a/*", "b/*", format="csv"),
        "source.files",
        "a/*",
        "a/*, b/*",
    ),
    (
        "source_files_other_kind",
        files("*.jsonl"),
        files("*.jsonl", "*.csv"),
        "source.files",
        "*.jsonl",
        "*.csv, *.jsonl",
    ),
    (
        "source_files_other_kind",
        files("*x.txt"),
        files("*x.txt", "*y.txt"),
        "source.files",
        "*x.txt",
        "*x.txt, *y.txt",
    ),
    (
        "alternatives_many",
        first_of(*MANY, meta={"source": {"literal": "x" * 50_000}}),
        first_of(*MANY, meta={"source": {"literal": "y" * 50_000}}),
        "alternatives",
        "99 alternatives",
        "99 alternatives",
    ),
    (
        "source_files",
        files("*.jsonl", "*.csv"),
        files("*.jsonl"),
        "source.files",
        "*.csv, *.jsonl",
        "*.jsonl",
    ),
    ("source_files", files("!a"), files("!a", "b"), "source.files", "!a", "!a, b"),
    ("source_files", files("*.txt"), files("*.txt", "!x*"), "source.files", "*.txt", "*.txt, !x*"),
    *(
        (
            f"source_{fact}",
            text("a", source={fact: old}),
            text("a", source={fact: new}),
            f"source.{fact}",
            was,
            now,
        )
        for fact, old, new, was, now in (
            ("format", "json", "jsonl", "json", "jsonl"),
            ("encoding", "gbk", "gb18030", "gbk", "gb18030"),
            ("delimiter", ",", "\t", ",", r"'\t'"),
            ("quote", '"', "", '"', "''"),
            ("columns", ["a", "b"], ["b", "a"], "a, b", "b, a"),
            ("header_rows", [3], [2, 3], "3", "2, 3"),
            ("query", "a order by 1", "b order by 1", "a order by 1", "b order by 1"),
            ("root", "data[*]", "*", "data[*]", "*"),
            ("orient", "list", "split", "list", "split"),
            ("html", "main", "raw", "main", "raw"),
            ("json_fields", ["a"], ["b"], "a", "b"),
        )
    ),
]


@pytest.mark.parametrize(("rule", "old", "new", "target", "was", "now"), CASES)
def test_a_rule_names_the_change(
    rule: str, old: Document, new: Document, target: str, was: str | None, now: str | None
) -> None:
    (one,) = compare_mappings(normal_form(old), normal_form(new))
    assert (one.rule, one.kind) == (rule, RULES[rule][0])
    assert (one.target, one.old, one.new) == (target, was, now)
    assert worst_class([one]) == one.kind


def test_every_rule_has_a_case() -> None:
    assert {case[0] for case in CASES} == set(RULES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_place_is_found_in_the_file(case: tuple[Any, ...]) -> None:
    _, old, new, _, _, now = case
    (one,) = compare_mappings(normal_form(old), normal_form(new))
    value: Any = to_document(normal_form(old if now is None else new))
    for step in one.pointer.split("/")[1:]:
        assert step in value if isinstance(value, dict) else int(step) < len(value)
        value = value[step] if isinstance(value, dict) else value[int(step)]


SAME = [
    (text("$.a"), text({"path": "['a']"})),
    (text("x['a']"), text("['x'].a")),
    (text(["a"]), text("a")),
    (text(["a", ["b", "c"]]), text(["a", "b", {"concat": ["c"]}])),
    (text({"path": "a", "sep": "\n"}), text("a")),
    (text({"template": "{{ $.a }}!"}), text({"template": "{{a}}!"})),
    (text({"path": "l", "map": {"x": 1, "y": 2}}), text({"map": {"y": 2, "x": 1}, "path": "l"})),
    (text({"path": "l", "map": {"x": 1, "*": 1}}), text({"path": "l", "map": {"*": 1}})),
    (where({"path": "a", "in": [1.0, "x"]}), where({"path": "a", "in": ["x", 1, 1]})),
    (where(HOT, COLD), where(COLD, HOT, COLD)),
    (first_of(A, B, where=[HOT]), first_of({**A, "where": [HOT]}, {**B, "where": [HOT]})),
    (
        chat({"role": "user", "content": "d[*].q"}, {"role": "assistant", "content": "d[*].a"}),
        chat({"each": "d[*]", **USER}, {"each": "$.d[*]", **ANSWER}),
    ),
    (chat(USER, ANSWER), chat(USER, {"role": "tool", "content": None}, ANSWER)),
    (chat(USER, ANSWER), chat(said(loss_mask=False), {**ANSWER, "loss_mask": True})),
    (
        chat({"each": "t[*]", "role": {"path": "r"}, "content": "v"}),
        chat(
            {
                "each": "t[*]",
                "role": {
                    "path": "r",
                    "map": {n: n for n in ("tool", "user", "system", "assistant")},
                },
                "content": "v",
            }
        ),
    ),
    (files("a", "b"), files("b", "a", "a")),
    (text("a", source={"encoding": "UTF8"}), text("a", source={"encoding": "utf-8"})),
    (text("a", source={"root": "$.d[*]"}), text("a", source={"root": "['d'][*]"})),
    (text("[*].a", group={"by": ["i", "j"]}), text("[*].a", group={"by": ["$.j", "i"]})),
    (text("a", provenance={"mapper": "rules"}), text("a")),
    (text("a", meta={"language": None}), text("a")),
    (doc(text=None), doc(messages=None, source={"format": "csv"})),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_another_spelling_is_no_change(old: Document, new: Document) -> None:
    assert compare_mappings(normal_form(old), normal_form(new)) == ()
    assert compare_mappings(normal_form(new), normal_form(old)) == ()
    assert worst_class(()) == "none"


DIFFERENT = [
    (text("a.b"), text("['a'].b")),  # the exact key `a.b` wins in one of them only
    (text({"path": "l", "map": {"x": 1}}), text({"path": "l", "map": {"x": 1.0}})),
    (text({"path": "l", "map": {"x": 1}}), text({"path": "l", "map": {"x": True}})),
    (
        chat({"role": "user", "content": "d[*].q"}, {"role": "assistant", "content": "d[*].a"}),
        chat({"role": "user", "content": "d[*].q"}, {"role": "assistant", "content": "['d'][*].a"}),
    ),
]


@pytest.mark.parametrize(("old", "new"), DIFFERENT)
def test_what_only_looks_the_same_is_breaking(old: Document, new: Document) -> None:
    assert worst_class(compare_mappings(normal_form(old), normal_form(new))) == "breaking"


def test_the_class_is_the_most_severe_one() -> None:
    old = chat(USER, ANSWER, meta={"language": "l"})
    new = chat(USER, {"role": "assistant", "content": "b", "loss_mask": False})
    found = compare_mappings(normal_form(old), normal_form(new))
    assert [one.rule for one in found] == ["content_path", "loss_mask", "meta_language"]
    assert worst_class(found) == "breaking"
    assert worst_class(found[1:]) == "training"
    assert worst_class(found[2:]) == "meta"
    assert [*CLASSES] == ["none", "additive", "meta", "training", "breaking"]


def test_one_message_put_in_is_one_change() -> None:
    turns = [
        said(content=f"q{n}") if n % 2 else {"role": "assistant", "content": f"a{n}"}
        for n in range(8)
    ]
    new = [*turns[:3], said(content="new"), *turns[3:]]
    (one,) = compare_mappings(normal_form(chat(*turns)), normal_form(chat(*new)))
    assert (one.target, one.rule, one.new) == ("messages 4", "message_added", "user: new")


def test_one_message_put_in_beside_a_changed_one_is_two_changes() -> None:
    new = chat({"role": "system", "content": "p"}, said(content=["t", "q"]), ANSWER)
    found = compare_mappings(normal_form(chat(USER, ANSWER)), normal_form(new))
    assert [(one.target, one.rule) for one in found] == [
        ("messages 1", "message_added"),
        ("messages 2 content", "content_path"),
    ]


def test_what_changed_in_all_alternatives_is_said_once() -> None:
    old, new = first_of(A, B, meta={"language": "l"}), first_of(A, B, meta={"language": "m"})
    (one,) = compare_mappings(normal_form(old), normal_form(new))
    assert (one.target, one.pointer) == ("meta.language", "/meta/language")


def test_what_changed_in_one_alternative_names_it() -> None:
    new = first_of(A, {**B, "meta": {"language": "l"}})
    (one,) = compare_mappings(normal_form(first_of(A, B)), normal_form(new))
    assert (one.target, one.pointer) == ("alternative 2: meta.language", "/any_of/1/meta/language")


def test_long_words_are_shown_from_where_they_differ() -> None:
    long = "x" * 5000
    (one,) = compare_mappings(
        normal_form(text({"literal": long + "old"})), normal_form(text({"literal": long + "new"}))
    )
    assert one.old is not None
    assert one.new is not None
    assert one.old.startswith("...x")
    assert one.old.endswith("xold")
    assert len(one.old) < 200
    assert one.new.endswith("xnew")


def test_long_words_are_cut() -> None:
    parts = [f"part{n}" for n in range(200)]
    (one,) = compare_mappings(normal_form(text("a")), normal_form(text(parts)))
    assert one.new is not None
    assert len(one.new) < 300
    assert one.new.endswith("characters)")


@pytest.mark.more
def test_no_words_are_json() -> None:
    for _, old, new, *_ in CASES:
        for one in compare_mappings(normal_form(old), normal_form(new)):
            assert not any(words.startswith(("{", "[")) for words in (one.old, one.new) if words)


@pytest.mark.more
def test_thousands_of_messages_are_compared() -> None:
    old = [said(content=f"q{n}") for n in range(1500)]
    new = [said(content=f"r{n}") for n in range(1501)]
    found = compare_mappings(normal_form(chat(*old)), normal_form(chat(*new)))
    assert len(found) == 1501
    assert json.dumps([one.rule for one in found[-2:]]) == '["content_path", "message_added"]'


@pytest.mark.more
def test_thousands_of_conditions_are_compared() -> None:
    listed = [f"v{n}" for n in range(12_000)]
    old = text("a", where=[{"path": "p", "not_in": listed}])
    each = [{"path": "p", "not_in": [one]} for one in listed]
    found = compare_mappings(large(old), large(text("a", where=each)))
    assert {one.rule for one in found} == {"where_widened"}
    found = compare_mappings(large(text("a", where=each[:6000])), large(text("a", where=each)))
    assert {one.rule for one in found} == {"where_tightened"}


def test_too_many_alternatives_are_not_compared_one_by_one() -> None:
    many = [{"text": f"a{n}"} for n in range(15_000)]
    other = [one if n % 2 else {"text": f"b{n}"} for n, one in enumerate(many)]
    [one] = compare_mappings(large(doc(any_of=many)), large(doc(any_of=other)))
    assert one.rule == "alternatives_many"
    assert compare_mappings(*(large(doc(any_of=many)) for _ in range(2))) == ()


def test_files_are_widened_for_certain_only_in_one_stated_format() -> None:
    for was, now in (({}, {"format": "text"}), ({"format": "text"}, {})):
        old, new = files("*x.txt", **was), files("*x.txt", "*y.txt", **now)
        found = compare_mappings(normal_form(old), normal_form(new))
        assert [one.rule for one in found] == ["source_files_other_kind", "source_format"]


def test_the_table_of_rules_is_the_one_in_the_documents() -> None:
    page = Path(__file__).parents[4] / "docs" / "review-rules.md"
    rows = [
        line.split(" | ") for line in page.read_text("utf-8").splitlines() if line.startswith("| `")
    ]
    told = {cells[0].strip("| `"): (cells[1], cells[2]) for cells in rows if len(cells) == 4}
    assert told == RULES
