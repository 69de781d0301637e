"""Documents and rows that nobody means well with: a problem or a reject, never a traceback."""

from collections.abc import Callable
from pathlib import Path as File
from typing import Any

import pytest

from ingot.converters import rows as row_module
from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import MAX_BYTES, bind, load_mapping
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.paths import Node, PathSyntaxError, compile_path, join_path
from ingot.converters.rows import limit_looks

Unify = Callable[..., UnifiedBatch]


def nested(levels: int, inside: Any = "a") -> Any:
    value = inside
    for _ in range(levels):
        value = [value]
    return value


def problems(document: Any) -> list[tuple[str, str]]:
    with pytest.raises(MappingError) as raised:
        bind(document, None, where="m.json")
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


LONG: dict[str, Any] = {
    "alternatives": {"any_of": ["zz"] * 100_000},
    "joined parts": ["answer"] * 60_000,
    "a path that climbs": ["^.l[*]"] * 6_000,
    "fields of a template": {"template": "{{a}}" * 50_000},
    "what is replaced": {"path": "a", "replace": {f"k{n}": "v" for n in range(6_000)}},
}


@pytest.mark.more
@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
def test_a_mapping_of_more_parts_than_anybody_reads(value: Any) -> None:
    assert problems({"version": 2, "text": value}) == [("", "too_large")]
    assert problems({"version": 2, "any_of": [{"text": value}, {"text": "a"}]})[0][1] == "too_large"


@pytest.mark.more
def test_version_1_has_the_same_bounds() -> None:
    assert problems({"text": ["answer"] * 60_000}) == [("", "too_large")]


@pytest.mark.more
def test_tables_may_be_long() -> None:
    names = [f"n{number}" for number in range(30_000)]
    table = {"path": "a", "map": dict.fromkeys(names, "x")}
    where = [{"path": "a", "in": names}]
    document = {"version": 2, "source": {"columns": names}, "where": where, "text": table}
    assert bind(document).outer.where[0].values == tuple(names)


def test_a_file_larger_than_any_mapping(tmp_path: File) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"version": 2, "text": {"literal": "' + "a" * MAX_BYTES + '"}}')
    with pytest.raises(MappingError, match="too_large: expected at most 1 MiB"):
        load_mapping(file)


CLIMBS = ("l[*].^.l[*].^.l[*].^.l[*].^.l[*]", "l[*].^.*[*].^.*[*].^.*[*].^.l[*]")


@pytest.mark.more
@pytest.mark.parametrize("text", CLIMBS)
def test_a_path_that_multiplies_a_list(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_module, "_MOST_LOOKED_AT", 100_000)
    row = Node({"l": [*range(40)]})
    with pytest.raises(MappingError, match="too_much"), limit_looks():
        compile_path(text).find(row)
    assert len(compile_path("l[*].^.l[*]").find(row)) == 1600


def test_a_text_that_is_made_longer_without_end(unify: Unify) -> None:
    swap = {"path": "a", "replace": {"o": "x" * 900_000}}
    with pytest.raises(MappingError, match="too_much"), limit_looks():
        unify({"version": 2, "text": swap}, [{"a": "o" * 1_000_000}])


@pytest.mark.parametrize(
    "text",
    ["[" * 50_000 + "]" * 50_000, '{"text": ' + "9" * 5_000 + "}", '{"version": 2, "text": NaN}'],
    ids=["deep", "digits", "nan"],
)
def test_a_file_that_no_parser_likes(tmp_path: File, text: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(MappingError, match="bad_json"):
        load_mapping(path)


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
    from ingot.converters.mapping.row_paths import observed_paths

    assert len(observed_paths([{f"k{i}": 1 for i in range(50_000)}])) <= 2_000


# --- paths


def test_long_paths_are_refused_or_cheap() -> None:
    for text in ("[:" * 20_000, "a" + "[" * 20_000, "a." * 1_000 + "a", "." * 50_000, "[" * 9_000):
        with pytest.raises(PathSyntaxError):
            compile_path(text)
    assert compile_path(".".join("abcdefgh")).find(Node({"a.b": {"c.d.e.f": {"g.h": 1}}})) == [1]


@pytest.mark.parametrize("digits", ["9" * 5_000, "-" + "9" * 400])
def test_an_index_that_no_list_reaches_is_no_path(digits: str) -> None:
    with pytest.raises(PathSyntaxError):
        compile_path(f"a[{digits}]")


def test_quoted_keys_take_surrogate_pairs_and_no_halves() -> None:
    assert compile_path(r"['\ud83d\ude00']").find(Node({"\U0001f600": 1})) == [1]
    with pytest.raises(PathSyntaxError, match="surrogate"):
        compile_path(r"['\ud83d']")


# --- rows


@pytest.mark.more
@pytest.mark.parametrize("levels", [300, 1_000, 20_000])
def test_a_row_nested_without_end(unify: Unify, levels: int) -> None:
    rows = [{"t": nested(levels)}, {"t": {"k": nested(levels, {"k": "\n"})}}]
    done = unify({"version": 2, "text": "t"}, rows)
    assert [(r.reason, len(r.found or "")) for r in done.rejects] == [("not_text", 80)] * 2
    done = unify({"version": 2, "text": {"path": "t", "as": "json"}}, rows)
    assert [record["text"] for record in done.records] == [
        "[" * levels + '"a"' + "]" * levels,
        '{"k": ' + "[" * levels + '{"k": "\\n"}' + "]" * levels + "}",
    ]


@pytest.mark.parametrize(
    "number",
    [10**400, -(10**400), "1" * 5_000, "1e999", 10**5_000, "Infinity"],
    ids=lambda _: "",
)
def test_numbers_without_end_are_no_meta(unify: Unify, number: Any) -> None:
    document = {"version": 2, "text": "t", "meta": {"token_count": "n", "quality_score": "n"}}
    done = unify(document, [{"t": "x", "n": number}])
    assert done.records[0]["meta"]["token_count"] is None
    assert done.meta_failures == {"token_count: not_a_number": 1, "quality_score: not_a_number": 1}


@pytest.mark.parametrize(
    "choice", [float("inf"), float("nan"), 10**400, "9" * 5_000, -1, "AA", [1]]
)
def test_a_choice_that_names_no_place(unify: Unify, choice: Any) -> None:
    document = {"version": 2, "text": {"path": "o[*]", "pick": "p"}}
    done = unify(document, [{"o": ["a"], "p": choice}])
    assert [r.reason for r in done.rejects] == ["bad_pick"]


def test_an_integer_longer_than_any_text_of_one(unify: Unify) -> None:
    document = {"version": 2, "text": "t", "where": [{"path": "w", "not_in": [1]}]}
    done = unify(document, [{"t": 10**5_000}, {"w": 1, "t": "x"}, {"t": [10**5_000]}])
    assert [r.reason for r in done.rejects] == ["not_text", "filtered", "not_text"]


@pytest.mark.parametrize("row", [None, True, 1.5, "x", [], {}, [[]], {"": {"": None}}])
def test_rows_of_any_shape(unify: Unify, row: Any) -> None:
    done = unify({"version": 2, "text": ["a.b[0]", "['']['']", "~.x", "^.a"]}, [row])
    assert [r.reason for r in done.rejects] == ["empty_text"]


def test_odd_keys_are_keys(unify: Unify) -> None:
    names = [
        "__proto__",
        "",
        "a.b[0]",
        "[*]",
        "*",
        "^",
        "~",
        "$",
        "{{x}}",
        "a'b\\",
        "\n",
        "k" * 99_999,
    ]
    row = {name: f"<{number}>" for number, name in enumerate(names)}
    paths = [join_path(name) if name != "[*]" else "['[*]']" for name in names]
    assert unify({"version": 2, "text": paths}, [row]).records[0]["text"].split("\n") == [
        *row.values()
    ]
