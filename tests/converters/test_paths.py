"""The path language: walking, marks, errors, and its agreement with RFC 9535."""

import pickle
from typing import Any

import jsonpath_rfc9535
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.paths import (
    MAX_STEPS,
    Key,
    Node,
    Path,
    PathSyntaxError,
    compile_path,
    join_path,
    quote_name,
    steps_text,
)
from ingot.converters.rows import RowError

ROW: dict[str, Any] = {
    "a": {"b": [{"c": 1}, {"c": None}, {}]},
    "meta.lang": "zh",
    "meta": {"lang": "en", "x": 2},
    "中文": "字",
    "x y": {"k-1": [[1, 2], [3]]},
    "*": "star",
    "^": "hat",
    "~": "wave",
    "none": None,
    "q'uote": 7,
    "deep": {"er": {"est": 5}, "er.est": 6},
}


def find(path: str, row: Any = ROW, key: str | int | None = 0) -> list[Any]:
    return compile_path(path).find(Node(row, key))


@pytest.mark.parametrize(
    ("path", "hits"),
    [
        ("a.b[*].c", [1, None]),
        ("$.a.b[0].c", [1]),
        ("a.b[-1]", [{}]),
        ("a.b[5]", []),
        ("a['b'][0][\"c\"]", [1]),
        ("meta.lang", ["zh"]),  # the exact key wins
        ("meta.x", [2]),
        ("['meta'].lang", ["en"]),
        ("deep.er.est", [6]),  # the longest run that is a key, at every object
        ("中文", ["字"]),
        ("x y.k-1[*][*]", [1, 2, 3]),
        ("x y.k-1[*][0]", [1, 3]),
        ("['*']", ["star"]),
        ("['^']", ["hat"]),
        ("['~']", ["wave"]),
        (r"['q\'uote']", [7]),
        ("none", [None]),
        ("none.x", []),
        ("none[*]", []),
        ("none.*", []),
        ("missing[*].x", []),
        ("a.b.c", []),
        ("a.*[0].c", [1]),
        ("a.*.~", ["b"]),
        ("a.b[*].~", [0, 1, 2]),
        ("a.b[*].^.~", ["a", "a", "a"]),
        ("a.b[1].c.^.^.^", [ROW]),
        ("^", []),
        ("~", [0]),
    ],
)
def test_finds(path: str, hits: list[Any]) -> None:
    assert find(path) == hits


def test_the_value_itself_is_dollar() -> None:
    assert find("$", "a row that is text") == ["a row that is text"]
    assert find("$[1]", ["x", "y"]) == ["y"]


@pytest.mark.parametrize(
    ("path", "reason", "found"),
    [
        ("a[*]", "not_a_list", '{"b"'),
        ("a.b.*", "not_an_object", '[{"c"'),
        ("中文[*]", "not_a_list", "字"),
    ],
)
def test_a_wildcard_on_the_wrong_thing_rejects_the_row(path: str, reason: str, found: str) -> None:
    with pytest.raises(RowError) as raised:
        find(path)
    assert raised.value.reason == reason
    assert raised.value.path == path
    assert raised.value.found.startswith(found)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("", None),
        ("a..b", "a.b"),
        ("a[1:3].b", "a[*].b"),
        ("a[?(@.x>1)].b", "a[*].b"),
        ("a[name]", "a['name']"),
        ("a.[0]", "a[0]"),
        ("a.", "a"),
        (" a", "a"),
        ("a[]", "a[*]"),
        ("$.", "$"),
        ("a[0", None),
    ],
)
def test_what_is_no_path_is_refused_with_the_nearest_legal_form(
    text: str, nearest: str | None
) -> None:
    with pytest.raises(PathSyntaxError) as raised:
        compile_path(text)
    assert raised.value.nearest == nearest


def test_paths_are_equal_by_text_and_pickle() -> None:
    path = compile_path("a.b[*].^.c")
    assert pickle.loads(pickle.dumps(path)) == path
    assert path == Path("a.b[*].^.c")
    assert len({path, Path("a.b[*].^.c")}) == 1


NAMES = st.text(min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(NAMES)
def test_any_key_can_be_quoted(name: str) -> None:
    assert compile_path(quote_name(name)).find(Node({name: 1})) == [1]
    assert compile_path(join_path("up", name, 0)).find(Node({"up": {name: [2]}})) == [2]


@st.composite
def rows_and_segments(draw: st.DrawFn) -> tuple[Any, list[str | int]]:
    """A row and a path into it that mostly leads somewhere."""
    row = draw(st.dictionaries(NAMES, JSON, min_size=1, max_size=3))
    value: Any = row
    segments: list[str | int] = []
    for _ in range(draw(st.integers(1, 4))):
        if isinstance(value, dict) and value:
            key = draw(st.sampled_from(sorted(value)) | NAMES)
            segments.append(key)
            value = value.get(key)
        elif isinstance(value, list) and value:
            if draw(st.booleans()):
                segments.append("[*]")
                value = value[0]
            else:
                place = draw(st.integers(-3, 3))
                segments.append(place)
                value = value[place] if -len(value) <= place < len(value) else None
        else:
            break
    return row, segments


@pytest.mark.more
@given(rows_and_segments())
@settings(max_examples=300)
def test_agrees_with_rfc_9535(case: tuple[Any, list[str | int]]) -> None:
    row, segments = case
    if "[*]" in [segment for segment in segments if segment in row]:
        return  # a key that is spelt like a wildcard
    ours = "".join(
        segment
        if segment == "[*]"
        else f"[{segment}]"
        if isinstance(segment, int)
        else quoted(segment)
        for segment in segments
    )
    oracle = [node.value for node in jsonpath_rfc9535.find("$" + ours, row)]
    try:
        found = compile_path(ours).find(Node(row))
    except RowError:
        return  # RFC 9535 lets [*] run over objects and past scalars; here both are the row's fault
    assert found == oracle


def quoted(name: str) -> str:
    return steps_text((Key(name),))


@pytest.mark.parametrize("step", [".a", "[*]"])
def test_a_path_has_so_many_steps(step: str) -> None:
    compile_path("a" + step * (MAX_STEPS - 1))
    with pytest.raises(PathSyntaxError, match=f"more than {MAX_STEPS} steps"):
        compile_path("a" + step * MAX_STEPS)


@given(rows_and_segments())
def test_steps_spell_themselves(case: tuple[Any, list[str | int]]) -> None:
    path = compile_path(join_path(*case[1]))
    again = compile_path(steps_text(path.steps))
    assert again.steps == path.steps


def test_a_quoted_star_is_no_wildcard() -> None:
    assert compile_path("['*'].a").first_wildcard is None
    assert compile_path("a['[*]']").first_wildcard is None
    assert compile_path("a.*[*]").first_wildcard == 1
