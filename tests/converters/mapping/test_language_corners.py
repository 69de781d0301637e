"""Corners of the language that the examples of docs/mapping.md do not show."""

from collections.abc import Callable
from typing import Any

import pytest

from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.path_uses import path_uses
from ingot.converters.mapping.rows.executor import UnifiedBatch

Unify = Callable[..., UnifiedBatch]
D = [{"q": "1", "a": "2", "w": 0}, {"q": "3", "a": "4", "w": 1}]
TURNS = [("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4")]


def said(unified: UnifiedBatch) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in unified.records[0]["messages"]]


def test_a_message_that_does_not_exist_does_not_part_its_neighbours(unify: Unify) -> None:
    messages = [
        {"role": "user", "content": "d[*].q"},
        {"role": "tool", "content": None},
        {"role": "assistant", "content": "d[*].a"},
    ]
    done = unify({"messages": messages}, [{"d": D}])
    assert (said(done), done.ragged) == (TURNS, 0)


def test_a_message_that_does_not_exist_leaves_no_turn_one_sided(unify: Unify) -> None:
    messages = [
        {"each": "d[*]", "role": "user", "content": "q"},
        {"each": "d[*]", "role": "tool", "content": None},
        {"each": "d[*]", "role": "assistant", "content": "a"},
    ]
    done = unify({"version": 2, "messages": messages}, [{"d": D}])
    assert (said(done), done.ragged) == (TURNS, 0)


def test_one_each_in_two_spellings_is_one(unify: Unify) -> None:
    messages = [
        {"each": "$.d[*]", "role": "user", "content": "q"},
        {"each": "d[*]", "role": "assistant", "content": "$.a"},
    ]
    assert said(unify({"version": 2, "messages": messages}, [{"d": D}])) == TURNS


def test_the_short_form_takes_a_loss_mask_along(unify: Unify) -> None:
    messages = [
        {"role": "user", "content": "d[*].q"},
        {"role": "assistant", "content": "d[*].a", "loss_mask": "d[*].w"},
    ]
    done = unify({"version": 2, "messages": messages}, [{"d": D}])
    assert said(done) == TURNS
    masks = [m["loss_mask"] for m in done.records[0]["messages"]]
    assert masks == [False, False, False, True]


def test_a_loss_mask_of_the_row_is_never_looked_up_in_an_element(unify: Unify) -> None:
    messages = [
        {"role": "user", "content": "d[*].q"},
        {"role": "assistant", "content": "d[*].a", "loss_mask": "good"},
    ]
    done = unify({"version": 2, "messages": messages}, [{"d": D, "good": False}])
    assert [m["loss_mask"] for m in done.records[0]["messages"]] == [False, False]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"any_of": [{"path": "a[*]", "sep": ", "}, "b"]}, "1, 2"),
        ({"any_of": [["a[0]", "a[1]"], "b"], "sep": "; "}, "1; 2"),
        ({"any_of": [{"concat": ["a[0]", "a[1]"], "sep": " "}, "b"]}, "1 2"),
        ({"any_of": ["a[*]", "b"], "sep": "; "}, "1; 2"),
        ({"any_of": ["a[*]", "b"], "label": "1) "}, "1) 1\n2) 2"),
        ({"any_of": ["x", {"any_of": ["y", {"path": "a[*]", "sep": "+"}]}]}, "1+2"),
    ],
)
def test_the_first_value_that_says_something_keeps_its_own_separator(
    unify: Unify, value: Any, text: str
) -> None:
    done = unify({"version": 2, "text": value}, [{"a": ["1", "2"], "b": "3", "x": " "}])
    assert done.records[0]["text"] == text


def test_a_row_counts_where_its_fault_is(unify: Unify) -> None:
    document = {
        "version": 2,
        "each": "x[*]",
        "where": [{"path": "k", "in": [1]}],
        "text": "t",
    }
    done = unify(document, [{"x": [{"k": 0}, {"k": 1, "t": []}, {"k": 1, "t": {}}]}])
    assert [(r.reason, r.rows) for r in done.rejects] == [
        ("filtered", 0),
        ("not_text", 1),
        ("not_text", 0),
    ]
    assert (done.rejected, done.filtered) == (1, 0)


def test_a_key_called_dollar_survives_the_short_form(unify: Unify) -> None:
    messages = [
        {"role": "user", "content": "$.$.d[*].q"},
        {"role": "assistant", "content": "$.$.d[*].a"},
    ]
    assert said(unify({"version": 2, "messages": messages}, [{"$": {"d": D}}])) == TURNS


@pytest.mark.parametrize(
    ("answer", "text"), [("B", "(b) tin"), (0, "(a) wood"), ("C", None), (None, None)]
)
def test_a_picked_option_keeps_its_letter(unify: Unify, answer: Any, text: str | None) -> None:
    value = {"path": "options[*]", "pick": "answer", "label": "(a) "}
    count = {"path": "numbers[*]", "pick": "answer"}
    document = {"version": 2, "text": [value, "t"], "meta": {"token_count": count}}
    row = {"options": ["wood", "tin", None], "answer": answer, "t": "x", "numbers": [5, 6, 7]}
    done = unify(document, [row])
    assert done.records[0]["text"] == (f"{text}\nx" if text else "x")
    expected = {"B": 6, 0: 5, "C": 7, None: None}[answer]
    assert done.records[0]["meta"]["token_count"] == expected


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (1, "wood"),
        ("2", "tin"),
        (2.0, "tin"),
        ("B", "tin"),
        ("three", "lead"),
        (0, None),
        ("0", None),
        (4, None),
        (True, None),
    ],
)
def test_a_pick_may_count_from_one(unify: Unify, answer: Any, text: str | None) -> None:
    table = {"three": 3, "1": 1, "2": 2, "2.0": 2.0, "0": 0, "4": 4, "B": "B", "true": True}
    for pick in ({"path": "answer", "from": 1}, {"path": "answer", "map": table, "from": 1}):
        if answer == "three" and "map" not in pick:
            continue
        document = {"version": 2, "text": {"path": "options[*]", "pick": pick}}
        done = unify(document, [{"options": ["wood", "tin", "lead"], "answer": answer}])
        found = done.records[0]["text"] if done.records else done.rejects[0].reason
        assert found == (text or "bad_pick")


@pytest.mark.parametrize(
    ("pick", "pointer"),
    [
        ({"path": "a", "from": 2}, "/text/pick/from"),
        ({"path": "a", "from": True}, "/text/pick/from"),
        ({"path": "a", "from": "1"}, "/text/pick/from"),
        ({"concat": ["a"], "from": 1}, "/text/pick/concat"),
        ({"path": "a", "as": "json", "from": 1}, "/text/pick/as"),
    ],
)
def test_a_wrong_pick_is_named(pick: Any, pointer: str) -> None:
    with pytest.raises(MappingError) as raised:
        bind({"version": 2, "text": {"path": "o[*]", "pick": pick}})
    assert raised.value.problems[0].pointer == pointer


def test_a_pick_that_counts_from_one_stays_one() -> None:
    document = {"version": 2, "text": {"path": "o[*]", "pick": {"path": "a", "from": 1}}}
    assert to_document(bind(document)) == document
    assert [use.pointer for use in path_uses(bind(document))] == ["/text/path", "/text/pick/path"]


def test_an_alternative_keeps_the_outer_each_or_has_its_own(unify: Unify) -> None:
    document = {
        "version": 2,
        "each": "x[*]",
        "any_of": [{"each": "y[*]", "text": "t"}, {"text": "u"}],
    }
    done = unify(document, [{"x": [{"u": "of x"}]}, {"y": [{"t": "of y"}]}])
    assert [record["text"] for record in done.records] == ["of x", "of y"]


@pytest.mark.parametrize("table", [{"a": 1}, {"": "a"}, {}, ["a"], {"a": None}])
def test_only_texts_replace_texts(table: Any) -> None:
    document = {"version": 2, "text": {"path": "t", "replace": table}}
    with pytest.raises(MappingError, match=r"/text/replace.*an object of text to text"):
        bind(document, None, where="m.json")
