"""`where` of an entry of `messages`: conditions on the elements of its `each`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import CheckReport, check_mapping
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.path_uses import shared_paths
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample

Unify = Callable[..., UnifiedBatch]
Document = dict[str, Any]
SAID = {"path": "kind", "in": ["said"]}


def entry(role: Any, content: Any = "text", *where: Document) -> Document:
    return {"each": "log[*]", "where": list(where), "role": role, "content": content}


def chat(*messages: Document) -> Document:
    return {"version": 2, "messages": list(messages)}


def turns(done: UnifiedBatch) -> list[tuple[str, str]]:
    assert done.rejects == []
    return [(one["role"], one["content"]) for one in done.records[0]["messages"]]


LOG = [
    {"kind": "said", "by": "user", "text": "q"},
    {"kind": "joined", "by": "Ann", "text": "Ann is here"},
    {"kind": "call", "text": {"name": "weather"}},
    {"kind": "said", "by": "assistant", "text": "a"},
    None,
]


def test_a_list_is_split_by_kind_in_its_order(unify: Unify) -> None:
    called = entry("tool", "text.name", {"path": "kind", "in": ["call"]})
    document = chat(entry({"path": "by"}, "text", SAID), called)
    done = unify(document, [{"log": LOG}])
    assert turns(done) == [("user", "q"), ("tool", "weather"), ("assistant", "a")]
    assert done.ragged == 0


def test_a_side_that_is_asked_and_silent_is_ragged(unify: Unify) -> None:
    document = chat(entry("user", "text", SAID), entry("assistant", "reply", SAID))
    rows = [[{"kind": "said", "text": "q", "reply": "a"}, {"kind": "note", "text": "n"}]]
    assert unify(document, [{"log": log} for log in rows]).ragged == 0
    rows[0].append({"kind": "said", "text": "r"})
    assert unify(document, [{"log": log} for log in rows]).ragged == 1


def test_conditions_look_around_and_at_the_place(unify: Unify) -> None:
    beyond = {"path": "~", "not_in": [0]}
    open_ = {"path": "^.state", "in": ["open"]}
    document = chat(entry(["user", "assistant"], "$", beyond, open_))
    done = unify(document, [{"state": "open", "log": ["zero", "one", "two"]}])
    assert turns(done) == [("assistant", "one"), ("user", "two")]
    assert unify(document, [{"state": "shut", "log": ["a", "b"]}]).rejects[0].reason == "no_prompt"


def test_what_a_tool_says_is_a_prompt(unify: Unify) -> None:
    document = chat(entry("tool", "text", SAID), entry("assistant", "reply", SAID))
    log = [{"kind": "said", "text": "22 degrees", "reply": "It is warm."}]
    assert turns(unify(document, [{"log": log}])) == [
        ("tool", "22 degrees"),
        ("assistant", "It is warm."),
    ]


def test_without_each_the_record_is_looked_at(unify: Unify) -> None:
    hint = {"role": "user", "content": "hint", "where": [{"path": "hinted", "in": [True]}]}
    document = chat(hint, {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"})
    row = {"hint": "h", "q": "q", "a": "a"}
    assert turns(unify(document, [row]))[0] == ("user", "q")
    assert turns(unify(document, [{**row, "hinted": True}]))[0] == ("user", "h")


def test_what_has_no_text_has_no_length(unify: Unify) -> None:
    document = chat(entry("user", "kind", {"path": "text", "min_chars": 1}))
    (reject,) = unify(document, [{"log": LOG}]).rejects
    assert (reject.reason, reject.path) == ("not_text", "text")


def test_entries_with_conditions_are_not_zipped(unify: Unify) -> None:
    some = {"role": "user", "content": "log[*].text", "where": [{"path": "log", "not_in": [None]}]}
    other = {"role": "assistant", "content": "log[*].by"}
    log = [{"text": "q", "by": "a"}, {"text": "r", "by": "b"}]
    assert turns(unify(chat(some, other), [{"log": log}])) == [
        ("user", "q\nr"),
        ("assistant", "a\nb"),
    ]


def checked(folder: Path, document: Document, log: list[Any]) -> CheckReport:
    (folder / "log.jsonl").write_text(json.dumps({"log": log}) + "\n")
    sample = draw_sample(open_source(str(folder)))
    return check_mapping(bind(document), sample, source_name="log")


def test_a_check_looks_at_the_elements_that_pass(tmp_path: Path) -> None:
    role = {"path": "by", "map": {"assistant": "assistant", "*": "user"}}
    report = checked(tmp_path, chat(entry(role, "text", SAID)), LOG)
    assert report.problems == ()
    assert report.others == ('role by by: 1 of 2 messages fall under "*" (user): user (1 times)',)
    assert [(one.path, one.pointer, one.resolved) for one in report.paths] == [
        ("log[*]", "/messages/0/each", 1),
        ("log[*] › kind", "/messages/0/where/0/path", 1),
        ("log[*] › by", "/messages/0/role/path", 1),
        ("log[*] › text", "/messages/0/content", 1),
    ]
    called = entry("tool", "text.nam", {"path": "kind", "in": ["call"]})
    document = chat(entry({"path": "by"}, "text", SAID), called)
    problems = checked(tmp_path, document, LOG).problems
    assert [(one.pointer, one.nearest) for one in problems] == [
        ("/messages/1/content", "text.name")
    ]


def test_one_text_for_both_sides_is_seen() -> None:
    asked, told = ({"path": "kind", "in": [kind]} for kind in "qa")
    split = chat(entry("user", "text", asked), entry("assistant", "text", told))
    assert list(shared_paths(bind(split))) == []
    for where in ([], [asked]):
        both = chat(entry("user", "text", asked), {**entry("assistant"), "where": where})
        if not where:
            del both["messages"][1]["where"]
        assert [one.path for one in shared_paths(bind(both))] == ["log[*].text"]


@pytest.mark.parametrize(
    ("where", "pointer"),
    [
        ([], "/messages/0/where"),
        ([{"path": "a[", "in": [1]}], "/messages/0/where/0/path"),
        ([{"path": "a"}], "/messages/0/where/0"),
        ([{"path": "a", "in": []}], "/messages/0/where/0/in"),
        ({"path": "a", "in": [1]}, "/messages/0/where"),
    ],
)
def test_wrong_conditions_are_named(where: Any, pointer: str) -> None:
    message = {"each": "log[*]", "where": where, "role": "user", "content": "text"}
    with pytest.raises(MappingError) as raised:
        bind(chat(message), None, where="m.json")
    assert [one.pointer for one in raised.value.problems] == [pointer]


def test_conditions_come_back_as_they_were() -> None:
    document = chat(entry("user", "text", SAID, {"path": "text", "min_chars": 2}))
    assert to_document(bind(document)) == document
