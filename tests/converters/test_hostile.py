"""Documents and rows that nobody means well with: a problem or a reject, never a traceback."""

from collections.abc import Callable
from pathlib import Path as File
from typing import Any

import pytest

from ingot.converters.errors import MappingError
from ingot.converters.mapping import bind, load, parse
from ingot.converters.unify import Unified

Unify = Callable[..., Unified]


def nested(levels: int, inside: Any = "a") -> Any:
    value = inside
    for _ in range(levels):
        value = [value]
    return value


def problems(document: Any) -> list[tuple[str, str]]:
    with pytest.raises(MappingError) as raised:
        parse(document, where="m.json")
    with pytest.raises(MappingError) as bound:
        bind(document)
    str(raised.value).encode()
    assert bound.value.problems == raised.value.problems
    return [(problem.pointer, problem.code) for problem in raised.value.problems]


# --- mapping documents


@pytest.mark.parametrize("levels", [60, 200, 1_000, 10_000])
@pytest.mark.parametrize(
    "document",
    [
        lambda deep: {"version": 2, "text": deep},
        lambda deep: {"text": deep},
        lambda deep: {"messages": [{"content": deep}]},
        lambda deep: {"version": 2, "text": "a", "provenance": {"x": deep}},
        lambda deep: deep,
    ],
)
def test_a_document_nested_without_end(levels: int, document: Callable[[Any], Any]) -> None:
    ((_, code),) = problems(document(nested(levels)))
    assert code == "schema"


def test_a_document_may_be_as_deep_as_anyone_needs() -> None:
    document = {"version": 2, "text": nested(30), "provenance": {"x": nested(30)}}
    assert bind(document).outer.text is not None


@pytest.mark.parametrize(
    "text",
    ["[" * 50_000 + "]" * 50_000, '{"text": ' + "9" * 5_000 + "}", '{"version": 2, "text": NaN}'],
    ids=["deep", "digits", "nan"],
)
def test_a_file_that_no_parser_likes(tmp_path: File, text: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(MappingError, match="bad_json"):
        load(path)


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"version": 2, "text": {"path": "a", "map": {"x": 10**5_000}}}, "/text/map/x"),
        ({"version": 2, "text": {"path": "a", "map": {"x": float("nan")}}}, "/text/map/x"),
        ({"version": 2, "text": "a", "meta": {"source": {"literal": "\ud800"}}}, None),
        ({"version": 2, "text": "a", "\ud800": 1}, None),
        ({"version": 2, "text": "\udfff"}, "/text"),
    ],
)
def test_values_that_no_file_can_hold(document: Any, pointer: str | None) -> None:
    found = problems(document)
    assert found
    assert pointer is None or found == [(pointer, "schema")]


def test_roles_are_not_inferred_from_nothing() -> None:
    assert ("/messages/0/content", "schema") in problems({"messages": [{"content": []}]})


def test_a_role_is_inferred_where_a_path_does_not_fit_the_rows() -> None:
    document = {"messages": [{"content": "instruction[*]"}, {"content": "answer"}]}
    mapping = bind(document, [{"instruction": "x", "answer": "y"}] * 3)
    assert [m.role for m in mapping.outer.messages or ()] == ["user", "assistant"]


def test_observed_paths_are_bounded() -> None:
    from ingot.converters.bind import observed_paths

    assert len(observed_paths([{f"k{i}": 1 for i in range(50_000)}])) <= 2_000
