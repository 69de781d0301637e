"""The role `{"path": ..., "order": [...]}`: speakers in the order of their first message."""

from collections.abc import Callable
from typing import Any

import pytest

from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import check_mapping
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.sources.sample import Sample, SampledRow

Unify = Callable[..., UnifiedBatch]
BY = {"path": "by", "order": ["user", "assistant"]}


def entry(**keys: Any) -> dict[str, Any]:
    return {"each": "t[*]", "role": BY, "content": "x", **keys}


def chat(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"version": 2, "messages": list(messages)}


def row(*said: tuple[Any, str]) -> dict[str, Any]:
    return {"t": [{"by": by, "x": x} for by, x in said]}


def roles(done: UnifiedBatch) -> list[str]:
    return ["".join(one["role"][0] for one in record["messages"]) for record in done.records]


def test_every_record_has_its_own_order(unify: Unify) -> None:
    rows = [
        row(("Ann", "q"), ("Bo", "a"), ("Bo", "b"), ("Ann", "r")),
        row(("Bo", "q"), ("Ann", "a")),
        row((7, "q"), ("7", "r"), (True, "a")),
    ]
    assert roles(unify(chat(entry()), rows)) == ["uaau", "ua", "uua"]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([("Ann", "q"), ("Bo", "a"), ("Cy", "b")], "Cy"),
        ([("Ann", "q"), (None, "a"), ("Bo", "b")], "null"),
    ],
)
def test_a_further_speaker_rejects_the_row(
    unify: Unify, said: list[tuple[Any, str]], found: str
) -> None:
    done = unify(chat(entry()), [row(*said), row(("Cy", "q"), ("Ann", "a"))])
    assert [(one.reason, one.path, one.found) for one in done.rejects] == [
        ("unmapped_value", "by", found)
    ]
    assert roles(done) == ["ua"]


def test_who_says_nothing_has_no_place(unify: Unify) -> None:
    said = row(("Log", " "), ("Ann", "q"), (None, ""), ("Bo", "a"))
    assert roles(unify(chat(entry()), [said])) == ["ua"]
    whispered = entry(where=[{"path": "by", "not_in": ["Log"]}])
    assert roles(unify(chat(whispered), [row(("Log", "!"), ("Ann", "q"), ("Bo", "a"))])) == ["ua"]


def test_entries_of_one_path_share_the_order(unify: Unify) -> None:
    kinds = [[{"path": "by", "in": ["Bo"]}], [{"path": "by", "not_in": ["Bo"]}]]
    document = chat(*(entry(where=where) for where in kinds))
    assert roles(unify(document, [row(("Ann", "q"), ("Bo", "a"), ("Ann", "r"))])) == ["uau"]


def test_more_than_two_roles(unify: Unify) -> None:
    three = entry(role={**BY, "order": ["system", "user", "assistant"]})
    assert roles(unify(chat(three), [row(("a", "s"), ("b", "q"), ("c", "r"))])) == ["sua"]


def test_a_check_names_further_speakers() -> None:
    rows = [row(("Ann", "q"), ("Bo", "a"), ("Cy", "b"))]
    sampled = (SampledRow(file="a.jsonl", row=0, key=None, value=rows[0]),)
    sample = Sample(rows=sampled, bad=(), complete=True, total_rows=1)
    report = check_mapping(bind(chat(entry())), sample, source_name="a")
    found = [(one.pointer, one.code, one.got) for one in report.problems]
    assert ("/messages/0/role/path", "unmapped_value", "Cy (1 times)") in found


@pytest.mark.parametrize(
    ("role", "pointer"),
    [
        ({"path": "by", "order": ["user"]}, "/messages/0/role/order"),
        ({"path": "by", "order": "user"}, "/messages/0/role/order"),
        ({"path": "by", "order": ["user", None]}, "/messages/0/role/order/1"),
        ({**BY, "map": {"Ann": "user"}}, "/messages/0/role/map"),
        ({"order": ["user", "assistant"]}, "/messages/0/role"),
    ],
)
def test_a_wrong_order_is_named(role: Any, pointer: str) -> None:
    with pytest.raises(MappingError) as raised:
        bind(chat(entry(role=role)), None, where="m.json")
    assert [one.pointer for one in raised.value.problems] == [pointer]


def test_an_order_comes_back_as_it_was() -> None:
    assert to_document(bind(chat(entry()))) == chat(entry())
