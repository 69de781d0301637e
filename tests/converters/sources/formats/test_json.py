"""JSON in all its layouts: exact values, broken rows in their place, files larger than memory."""

import io
import json
import math
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ingot.agent.proposing.proposal import Request
from ingot.agent.proposing.rules.mapper import propose
from ingot.agent.review.pinning.pin import unparse_fields
from ingot.cli.app import app
from ingot.converters.errors import SourceError
from ingot.converters.rows import Batch, Json
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources import root_candidates as roots
from ingot.converters.sources.formats.detection import HEAD
from ingot.converters.sources.formats.json_rows import (
    TrailingDataError,
    compile_root,
    read_concatenated_values,
    read_elements,
)
from ingot.converters.sources.formats.row_chunks import (
    JsonTextError,
    ends_early,
    has_long_digits,
    parse_counted,
    parse_json,
)
from ingot.converters.sources.formats.text import read_utf8_blocks
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document
from tests.conftest import SURE

AS_FOUND = SourceSpec()


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def read(location: str, spec: SourceSpec = AS_FOUND) -> tuple[list[Json], list[tuple[int, str]]]:
    batches = list(open_source(location, spec).batches())
    values = [value for batch in batches for value in batch.values]
    return values, [(bad.row, bad.reason) for batch in batches for bad in batch.bad]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_a_value_is_read_as_the_standard_library_reads_it(value: Json) -> None:
    text = json.dumps(value).encode()
    assert parse_json(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18446744073709551616", 18446744073709551616),
        ("-9223372036854775809", -9223372036854775809),
        ('{"n": [1, 123456789012345678901234567890]}', {"n": [1, 123456789012345678901234567890]}),
        ('"12345678901234567890123"', "12345678901234567890123"),
        ("0.12345678901234567890123", 0.12345678901234567890123),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('"\\u4e2d\\ud83d\\ude00\\u0000"', "中😀\0"),
    ],
)
def test_values_are_exact(text: str, value: Json) -> None:
    assert parse_json(text.encode()) == value
    assert type(parse_json(text.encode())) is type(value)


@given(st.integers(0, 12_000), st.integers(17, 40))
def test_a_run_of_digits_is_found_wherever_it_begins(place: int, length: int) -> None:
    data = b"1 2,33 " * 2000
    assert not has_long_digits(data)
    run = b"x" + b"7" * length + b"x"
    assert has_long_digits(data[:place] + run + data[place:]) == (length >= 19)


@pytest.mark.parametrize(
    "text",
    [
        *("-NaN", "[+Infinity]", "[nan]", "{NaN: 1}", "[1NaN]", "[NaN", '[NaN, "NaN]'),
        *('"\\ud800"', '"\xff"', '"a\tb"', "{'a': 1}", "[1,]", "", "1 2"),
        *("1e999", "[" * 3000, "9" * 5000),
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(JsonTextError):
        parse_json(text.encode("latin-1"))


@pytest.mark.parametrize(
    ("text", "value", "count"),
    [
        ("NaN", None, 1),
        ('{"a": NaN, "b": [Infinity, -Infinity, 1]}', {"a": None, "b": [None, None, 1]}, 3),
        ('{"NaN": "say \\"NaN\\" now", "b": NaN}', {"NaN": 'say "NaN" now', "b": None}, 1),
        ("[NaN, 123456789012345678901234567890]", [None, 123456789012345678901234567890], 1),
        ('["Infinity"]', ["Infinity"], 0),
    ],
)  # fmt: skip
def test_numbers_that_are_not_finite_are_null(text: str, value: Json, count: int) -> None:
    assert parse_counted(text.encode()) == (value, count)


def test_an_error_behind_such_a_number_names_its_place() -> None:
    with pytest.raises(JsonTextError, match="at character 20"):
        parse_json(b'{"a": NaN, "b": [1, oops]}')


@pytest.mark.parametrize(
    ("name", "spec", "places"),
    [
        ("a.jsonl", SourceSpec(), [(1, 1), (299, 2)]),
        ("a.json", SourceSpec(), [(1, 1), (299, 2)]),
        ("o.json", SourceSpec(root="rows[*]"), [(1, 1), (299, 2)]),
        ("o.json", SourceSpec(root="rows"), [(0, 4)]),  # one value: those of all the file
        ("o.json", SourceSpec(root="$"), [(0, 4)]),
        ("t.csv", SourceSpec(json_fields=("j",)), [(1, 1), (299, 2)]),
    ],
)
def test_each_row_says_how_many_numbers_it_lost(
    tmp_path: Path, name: str, spec: SourceSpec, places: list[tuple[int, int]]
) -> None:
    rows: list[Json] = [{"n": number} for number in range(300)]
    rows[1], rows[299] = {"n": math.nan}, {"n": [math.inf, -math.inf]}
    lines = list(map(json.dumps, rows))
    doubled = [line.replace('"', '""') for line in lines]
    cells = [f'{number};"{line}"' for number, line in enumerate(doubled)]
    texts = {
        "a.jsonl": "\n".join(lines),
        "a.json": json.dumps(rows),
        "o.json": json.dumps({"rows": rows, "loss": math.nan}),
        "t.csv": "\n".join(["i;j", *cells]),
    }
    source = open_source(write(tmp_path, name, texts[name]), spec)
    batches = list(source.batches())
    assert [one for batch in batches for one in batch.non_finite] == places
    assert not [bad for batch in batches for bad in batch.bad]
    found = draw_sample(source, rows=1000).non_finite
    numbers = sum(count for _, count in places)
    assert found == {"numbers": numbers, "rows": len(places), "file": name, "row": places[0][0]}


def test_lines_that_all_hold_such_a_number_are_lines(tmp_path: Path) -> None:
    line = json.dumps({"a": math.nan, "text": "x"}) + "\n"
    path = write(tmp_path, "a.txt", line * 3)
    assert open_source(path).files[0].facts.format == "jsonl"
    assert read(path) == ([{"a": None, "text": "x"}] * 3, [])


def test_a_file_with_such_a_number_that_is_cut_off_is_truncated(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", '{"a": NaN, "b": [1, 2')
    with pytest.raises(SourceError, match="ends inside its JSON value"):
        list(open_source(path, SourceSpec(format="json", root="$")).batches())


def _parts(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@given(
    st.lists(JSON_VALUES, max_size=6),
    st.integers(1, 40),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_elements_of_a_list_do_not_depend_on_block_bounds(
    values: list[Json], size: int, indent: int | None, ascii_only: bool
) -> None:
    document = {"meta": {"data": [1], "x": '[\\"'}, "data": values, "after": {"k": [2]}}
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    root = compile_root("data[*]", "test")
    groups = read_elements(iter(_parts(text, size)), root, "test")
    assert [parse_json(element.data) for group in groups for element in group] == json.loads(
        json.dumps(values)
    )


@pytest.mark.more
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON_VALUES), st.integers(1, 40))
def test_members_of_an_object_keep_their_keys(members: dict[str, Json], size: int) -> None:
    text = json.dumps(members, ensure_ascii=False).encode()
    groups = read_elements(iter(_parts(text, size)), compile_root("*", "test"), "test")
    read_back = {element.key: parse_json(element.data) for group in groups for element in group}
    assert read_back == json.loads(json.dumps(members))


@pytest.mark.more
@given(
    st.lists(st.dictionaries(st.text(), st.integers() | st.text(), max_size=3), min_size=1),
    st.sampled_from(["", "\n", ",\n", " "]),
    st.integers(1, 30),
)
def test_values_in_a_row_are_told_apart(
    values: list[dict[str, Json]], between: str, size: int
) -> None:
    text = between.join(json.dumps(value, indent=2) for value in values).encode()
    groups = read_concatenated_values(iter(_parts(text, size)), "test")
    assert [parse_json(element.data) for group in groups for element in group] == values


def test_rows_before_the_end_of_a_cut_off_list_are_given(tmp_path: Path) -> None:
    rows = [{"id": number, "text": "x" * 50} for number in range(1000)]
    path = write(tmp_path, "cut.json", json.dumps(rows)[:-30])
    seen: list[Json] = []
    batches = open_source(path).batches()
    with pytest.raises(SourceError, match=r"cut\.json: cut off: the JSON ends inside element 999"):
        seen.extend(value for batch in batches for value in batch.values)
    assert seen == rows[:999]


KEYED = json.dumps({f"id{n}": {"q": f"what \u00e9 {n}", "a": "so" * 20} for n in range(200)})
LISTED = json.dumps({"version": 1, "data": [{"q": f"what {n}", "a": "[{"} for n in range(200)]})
CUT = [KEYED[:5000], LISTED[:3000], json.dumps(json.loads(LISTED), indent=1)[:3000], LISTED[:-1]]


@pytest.mark.parametrize("text", CUT)
@pytest.mark.parametrize("spec", [AS_FOUND, SourceSpec(root="$"), SourceSpec(root="data[0]")])
def test_one_object_that_is_cut_off_is_an_error(
    tmp_path: Path, text: str, spec: SourceSpec
) -> None:
    source = open_source(write(tmp_path, "cut.json", text), spec)
    message = r"cut\.json: cut off: the file ends inside its JSON value"
    with pytest.raises(SourceError, match=message):
        list(source.batches())
    for most in (8 << 20, 1000):
        with pytest.raises(SourceError, match=message):
            draw_sample(source, max_bytes=most)


@pytest.mark.parametrize("text", CUT)
def test_a_run_over_a_cut_off_object_ends_with_exit_1(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "cut.json", text)
    ran = CliRunner().invoke(app, ["run", path, "--out", str(tmp_path / "out"), *SURE])
    assert ran.exit_code == 1
    assert "cut off" in ran.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("indent", [None, 1])
def test_a_text_ends_early_wherever_it_is_cut(indent: int | None) -> None:
    value = {"a": ["\u4e2d\U0001f600\u00e9", 'q"\\', True, -1.5e3, None], "b": {"c": {}}}
    text = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    assert all(ends_early(text[:end]) for end in range(1, len(text)))
    assert not ends_early(text)


@pytest.mark.parametrize(
    "text",
    ['{"a": {"b": 1,, "c": "}"}, "d": 2}', '{"a": "it"s", "b": 2}', '{"a": "cut\n', '{"a": \xff, '],
)
def test_one_object_that_is_wrong_before_its_end_is_a_bad_row(tmp_path: Path, text: str) -> None:
    values, bad = read(write(tmp_path, "odd.json", text.encode("latin-1")))
    assert values == []
    assert [row for row, _ in bad] == [0]


def test_a_broken_element_is_one_bad_row(tmp_path: Path) -> None:
    path = write(
        tmp_path, "a.json", '[{"a": 1}, {"a": nope}, {"a": 3}, {"a": "say "hi" now"}, {"a": 5}]'
    )
    values, bad = read(path)
    assert values == [{"a": 1}, {"a": 3}, {"a": 5}]
    assert bad == [(1, "bad_row"), (3, "bad_row")]


def test_something_behind_the_list_is_an_error(tmp_path: Path) -> None:
    rows = json.dumps([{"a": number} for number in range(100)])
    source = open_source(write(tmp_path, "a.json", rows), SourceSpec(format="json"))
    write(tmp_path, "a.json", rows + "\n[3]")
    with pytest.raises(TrailingDataError, match="after the JSON value comes"):
        list(source.batches())


@pytest.mark.parametrize("first", ['["a", "b"] is a list', '{"a": {"b": 1}} is an object'])
def test_a_long_text_that_begins_with_a_json_value_is_read_as_text(
    tmp_path: Path, first: str
) -> None:
    content = first + "\na line of plain text" * (HEAD // 20 + 1)
    source = open_source(write(tmp_path, "a.txt", content))
    assert [file.facts.format for file in source.files] == ["text"]


def test_broken_lines_keep_their_place_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = [
        '{"a": 1}',
        "",
        "oops",
        '{"a": NaN}',
        "   ",
        '{"a": "\\ud800"}',
        '{"a": 12345678901234567890123}',
    ]
    path = write(tmp_path, "a.jsonl", "\r\n".join(lines))
    batch = next(open_source(path).batches())
    assert list(batch.values) == [{"a": 1}, {"a": None}, {"a": 12345678901234567890123}]
    assert list(batch.rows) == [0, 2, 4]
    assert list(batch.non_finite) == [(2, 1)]
    assert [(bad.row, bad.found) for bad in batch.bad] == [
        (1, "oops"),
        (3, '{"a": "\\ud800"}'),
    ]


def test_bytes_that_are_no_utf8_break_one_row_only(tmp_path: Path) -> None:
    good = [f'{{"t": "中文 {number}"}}'.encode() for number in range(50)]
    path = write(tmp_path, "a.jsonl", b"\n".join([*good, b'{"t": "\xff\xfe"}', *good]))
    values, bad = read(path)
    assert len(values) == 100
    assert bad == [(50, "bad_row")]


PRETTY = json.dumps({"a": 1, "t": "x"}, indent=2)


@pytest.mark.parametrize(
    ("name", "content", "layout", "values"),
    [
        ("a.json", '{"a": 1}\n{"a": 2}\n', "jsonl", [{"a": 1}, {"a": 2}]),
        ("a.jsonl", '[{"a": 1}, {"a": 2}]', "json list", [{"a": 1}, {"a": 2}]),
        ("a.jsonl", '[\n {"a": 1},\n {"a": 2}\n]\n', "json list", [{"a": 1}, {"a": 2}]),
        ("noext", '{"a": 1}\n{"a": 2}\n', "jsonl", [{"a": 1}, {"a": 2}]),
        ("a.json", PRETTY + "\n" + PRETTY, "json values", [{"a": 1, "t": "x"}] * 2),
        ("a.json", '{"a": 1}{"a": 2}{"a": 3}', "json values", [{"a": 1}, {"a": 2}, {"a": 3}]),
        ("a.json", '{"a": 1},\n{"a": 2},\n', "json values", [{"a": 1}, {"a": 2}]),
        ("a.json", PRETTY, "json object", [{"a": 1, "t": "x"}]),
        ("a.json", '{"a": 1}', "json object", [{"a": 1}]),
        ("a.jsonl", '{"a": 1}', "jsonl", [{"a": 1}]),
        ("a.json", '["x", "y"]', "json list", ["x", "y"]),
        ("a.json", "[]", "json list", []),
        ("a.json", "[1, 2,\n3]", "json list", [1, 2, 3]),
        ("a.jsonl", '["u", "v"]\n["w", "x"]\n', "jsonl", [["u", "v"], ["w", "x"]]),
        ("a.jsonl", '"one"\n"two"\n', "jsonl", ["one", "two"]),
        ("a.txt", '\ufeff{"a": 1}\n{"a": 2}', "jsonl", [{"a": 1}, {"a": 2}]),
    ],
)
def test_layouts_are_told_by_content(
    tmp_path: Path, name: str, content: str, layout: str, values: list[Json]
) -> None:
    path = write(tmp_path, name, content)
    facts = open_source(path).files[0].facts
    assert layout == (facts.format if facts.format == "jsonl" else f"json {facts.layout}")
    assert read(path) == (values, [])


def test_a_first_line_that_is_broken_does_not_hide_the_format(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", 'garbage\n{"a": 1}\n{"a": 2}\n')
    assert read(path) == ([{"a": 1}, {"a": 2}], [(0, "bad_row")])


def test_a_first_row_longer_than_the_head_is_read(tmp_path: Path) -> None:
    rows = [{"text": "y" * 700_000}, {"text": "z"}]
    lines = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    listed = write(tmp_path, "b.json", json.dumps(rows, indent=1))
    assert read(lines) == (rows, [])
    assert read(listed) == (rows, [])


KEYED = {"id1": {"q": "a", "n": 1}, "id2": {"q": "b", "n": 2}, "id3": {"q": "c", "n": 3}}


@pytest.mark.parametrize(
    ("document", "root", "values", "keys"),
    [
        (KEYED, "*", list(KEYED.values()), list(KEYED)),
        ({"data": [1, 2], "v": 1}, "data[*]", [1, 2], None),
        ({"v": "data", "data": {"items": [{"a": 1}]}}, "data.items[*]", [{"a": 1}], None),
        ({"data": {"x": 1, "y": 2}}, "data.*", [1, 2], ["x", "y"]),
        ({"a.b": [1], "a": {"b": [2]}}, "a.b[*]", [1], None),
        ({"a": {"b": [2]}, "a.b": [1]}, "$['a']['b'][*]", [2], None),
        ({"a": {"c": 1}, "z": {"b": [9]}, "k": 1}, "$", None, ["file"]),
        ({"data": [{"ps": [1, 2]}, {"ps": [3]}, {}]}, "data[*].ps[*]", [1, 2, 3], None),
        ([{"rows": [5]}, {"rows": [6, 7]}], "[1].rows[*]", [6, 7], None),
        ([[1], [2]], "$", [[[1], [2]]], ["file"]),
    ],
)
def test_root_says_where_the_rows_lie(
    tmp_path: Path, document: Json, root: str, values: list[Json] | None, keys: list[str] | None
) -> None:
    for indent in (None, 2):
        path = write(tmp_path, "file.json", json.dumps(document, indent=indent))
        batches = list(open_source(path, SourceSpec(root=root)).batches())
        found = [value for batch in batches for value in batch.values]
        assert found == ([document] if values is None else values)
        assert [list(batch.keys) if batch.keys is not None else None for batch in batches] == [keys]


@pytest.mark.parametrize(
    ("document", "root", "message"),
    [
        ({"data": [1]}, "rows[*]", "no list at root rows"),
        ({"a": {"c": 1}, "z": {"b": [9]}}, "a.b[*]", "no list at root a.b"),
        ({"data": {"x": 1}}, "data[*]", "no list at root data"),
        ([1, 2], "data[*]", "no list at root data"),
        ([1], "[3]", "root \\[3\\] is not in the file"),
        ({"data": [1]}, "data[?x]", "root 'data"),
    ],
)
def test_a_root_that_is_not_there_is_an_error(
    tmp_path: Path, document: Json, root: str, message: str
) -> None:
    path = write(tmp_path, "file.json", json.dumps(document))
    with pytest.raises(SourceError, match=message):
        read(path, SourceSpec(root=root, format="json"))


def test_root_is_refused_where_a_line_is_a_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"a": [1]}\n{"a": [2]}\n')
    with pytest.raises(SourceError, match="root is for JSON files"):
        read(path, SourceSpec(root="a[*]", format="jsonl"))


@pytest.mark.parametrize(
    ("document", "best"),
    [
        ({"name": "exam", "examples": [{"q": "1"}, {"q": "2"}, {"q": "3"}]}, "examples[*]"),
        ({"data": {"train": [{"q": "1"}, {"q": "2"}, {"q": "3"}]}}, "data.train[*]"),
        (KEYED, "*"),
        ({f"doc-{n}": "long text " * 10 for n in range(12)}, "*"),
        ({"title": "t", "body": "running text " * 40, "refs": [{"n": 1}]}, "$"),
        ({"loss": 1.5, "steps": 3}, "$"),
    ],
)
def test_roots_are_offered_best_first(tmp_path: Path, document: Json, best: str) -> None:
    source = open_source(write(tmp_path, "file.json", json.dumps(document)))
    assert source.roots[0].path == best
    assert "$" in [root.path for root in source.roots]
    rows = sum(len(batch.values) for batch in source.with_spec(SourceSpec(root=best)).batches())
    assert rows == source.roots[0].rows


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({"v": 1, "data": [{"t": "x" * 900}] * 2000, "d": {}}, ["data[*]"]),
        ({f"id{n}": {"t": "x" * 900, "l": []} for n in range(2000)}, ["*"]),
    ],
)
def test_roots_of_a_file_too_large_to_load_come_from_its_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: Json, paths: list[str]
) -> None:
    monkeypatch.setattr(roots, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(roots, "_HEAD_BLOCKS", 2)
    monkeypatch.setattr(roots, "MAX_HEAD", 1 << 20)
    source = open_source(write(tmp_path, "file.json", json.dumps(document)))
    found = [(root.path, root.rows) for root in source.roots]
    assert found[:1] == [(path, None) for path in paths]
    again = source.with_spec(SourceSpec(root=paths[0]))
    assert sum(len(batch.values) for batch in again.batches()) == 2000


def test_json_fields_are_parsed_before_anything_else(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "chat": '[{"role": "user"}]', "meta": {"x": '{"y": 1}'}},
        {"id": 2, "chat": None, "meta": {}},
        {"id": 3, "chat": "  ", "meta": {"x": {"y": 2}}},
        {"id": 4, "chat": "[broken", "meta": {}},
    ]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    batch = next(open_source(path, SourceSpec(json_fields=("chat", "meta.x"))).batches())
    assert [row["chat"] for row in batch.values] == [[{"role": "user"}], None, None]
    assert batch.values[0]["meta"] == {"x": {"y": 1}}
    (bad,) = batch.bad
    assert (bad.row, bad.reason, bad.path, bad.found) == (3, "bad_json", "chat", "[broken")


LOG = {"body": json.dumps({"in": json.dumps({"text": "Hi"}), "a.b": {"c": "[1]"}})}
CALLS = {"calls": [{"arguments": '{"x": 1}'}, {"arguments": " "}, {"name": "y"}], "by": {"k": "2"}}


@pytest.mark.parametrize(
    ("fields", "row", "parsed"),
    [
        (("body", "body.in"), LOG, {"body": {"in": {"text": "Hi"}, "a.b": {"c": "[1]"}}}),
        (("body.in", "body"), LOG, {"body": json.loads(LOG["body"])}),
        (
            ("body", "body.a.b.c", "body['in']"),
            LOG,
            {"body": {"in": {"text": "Hi"}, "a.b": {"c": [1]}}},
        ),
        (
            ("calls[*].arguments", "by.*"),
            CALLS,
            {
                "calls": [{"arguments": {"x": 1}}, {"arguments": None}, {"name": "y"}],
                "by": {"k": 2},
            },
        ),
        (("['*']",), {"*": "[1]", "a": "[2]"}, {"*": [1], "a": "[2]"}),
        (
            ("calls[-1].name", "calls[9]", "calls.name", "by[*]"),
            {"calls": [{"name": "1"}], "by": 1},
            {"calls": [{"name": 1}], "by": 1},
        ),
    ],
)
def test_json_inside_json_is_reached_in_order(
    fields: tuple[str, ...], row: Json, parsed: Json, tmp_path: Path
) -> None:
    path = write(tmp_path, "a.jsonl", f"{json.dumps(row)}\n{json.dumps(row)}\n")
    assert read(path, SourceSpec(json_fields=fields)) == ([parsed, parsed], [])
    assert unparse_fields(parsed, SourceSpec(json_fields=fields)) == unparsed(row)


def unparsed(row: Json) -> Json:
    """A blank text that was parsed is null, and comes back as the empty text."""
    return json.loads(json.dumps(row).replace('": " "', '": ""'))


def test_broken_json_inside_json_names_its_field(tmp_path: Path) -> None:
    rows = [{"body": json.dumps({"in": text})} for text in ("[broken", "[1]")]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    batch = next(open_source(path, SourceSpec(json_fields=("body", "body.in"))).batches())
    (bad,) = batch.bad
    assert (bad.row, bad.reason, bad.path, bad.found) == (0, "bad_json", "body.in", "[broken")
    assert batch.values == [{"body": {"in": [1]}}]


def test_rules_propose_json_inside_json(tmp_path: Path) -> None:
    said = [("Why is the sky blue today?", "Blue light is scattered most of all."),
            ("How far away is the moon?", "About 384,400 kilometres from the earth.")]  # fmt: skip
    rows = [
        {"id": n, "event": json.dumps({"body": json.dumps({"question": q, "answer": a})})}
        for n, (q, a) in enumerate(said * 10)
    ]
    source = open_source(write(tmp_path, "log.jsonl", "\n".join(map(json.dumps, rows))))
    mapping = document(propose(source, draw_sample(source), Request(mode="sft")).mapping)
    assert mapping["source"] == {"json_fields": ["event", "event.body"]}
    assert [one["content"] for one in mapping["messages"]] == [
        "event.body.question",
        "event.body.answer",
    ]


def test_batches_are_small_and_numbered_through(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", "\n".join(json.dumps({"a": n}) for n in range(9000)))
    batches: list[Batch] = list(open_source(path).batches())
    assert max(len(batch.values) for batch in batches) <= 4096
    assert [row for batch in batches for row in batch.rows] == list(range(9000))
    assert orjson.dumps([v["a"] for b in batches for v in b.values]) == orjson.dumps([*range(9000)])


def test_a_row_nested_too_deeply_is_a_bad_row(tmp_path: Path) -> None:
    file = tmp_path / "deep.jsonl"
    deepest, deeper = (b"[" * depth + b"]" * depth for depth in (256, 257))
    wide = b"[" + b",".join([b'{"a":[]}'] * 300) + b"]"
    rows = [b'{"t":1}', deepest, deeper, b"[" * 1000 + b"]" * 1000, b"[" * 9000, wide]
    file.write_bytes(b"\n".join(rows))
    (batch,) = open_source(str(file), SourceSpec(format="jsonl")).batches()
    assert list(batch.rows) == [0, 1, 5]
    assert [(bad.row, bad.detail[:20]) for bad in batch.bad][:2] == [
        (2, "nested more than 256"),
        (3, "nested more than 256"),
    ]
    assert len(batch.bad) == 3


def test_large_and_small_objects_of_one_shape_are_read_together(tmp_path: Path) -> None:
    def exam(rows: int) -> str:
        examples = [
            {"question": f"What is {n}?", "answer": ["A"], "note": "x" * 50} for n in range(rows)
        ]
        return json.dumps({"keywords": "exam", "example": examples}, indent=1)

    for name, rows in (("large", 4000), ("small", 20)):
        (tmp_path / f"{name}.json").write_text(exam(rows))
    assert (tmp_path / "large.json").stat().st_size > 300_000
    source = open_source(str(tmp_path))
    assert ([file.name for file in source.files], source.left_out) == (
        ["large.json", "small.json"],
        (),
    )


@pytest.mark.parametrize(
    "text", ["[", "{", '[[["a","b"],', "[" * 20_000, '{"a": [{"b": "c', '[{"q": "x']
)
@pytest.mark.parametrize("name", ["a.json", "a.dat"])
def test_json_that_ends_inside_its_first_value_is_damaged(
    tmp_path: Path, text: str, name: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match=r"cut off|not complete|ends inside"):
        list(open_source(str(tmp_path / name)).batches())


@pytest.mark.parametrize("name", ["a.jsonl", "a.dat"])
def test_a_first_line_beyond_what_is_looked_at_is_a_row_of_many(tmp_path: Path, name: str) -> None:
    rows = [{"n": 0, "text": "word " * 1_800_000}, {"n": 1, "text": "b"}, {"n": 2, "text": "c"}]
    (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(str(tmp_path / name))
    assert [row["n"] for batch in source.batches() for row in batch.values] == [0, 1, 2]
    assert not draw_sample(source, max_bytes=1 << 20).bad


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1 << 20])
def test_a_byte_order_mark_begins_no_line(size: int) -> None:
    mark = b"\xef\xbb\xbf"
    lines = (mark + b'{"a": 1}', mark + mark + b'{"a": 2}', b'{"a": "' + mark + b'"}', mark)
    data = b"\n".join(lines)

    class Pieces(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            return super().read(size)

    found = b"".join(read_utf8_blocks(Pieces(data), "a", "utf-8"))
    assert found == b'{"a": 1}\n{"a": 2}\n{"a": "\xef\xbb\xbf"}\n'
