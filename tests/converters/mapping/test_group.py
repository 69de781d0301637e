"""Grouping of rows: equality of keys, order, accounting, bad keys, bounded memory."""

import itertools
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import OutputError
from ingot.converters.mapping.language import Group
from ingot.converters.mapping.rows import group as group_module
from ingot.converters.mapping.rows.group import BATCH_GROUPS, group_rows
from ingot.converters.paths import compile_path
from ingot.converters.rows import BadRow, Batch


def group(*by: str, sort: str | None = None) -> Group:
    return Group(by=tuple(map(compile_path, by)), sort=compile_path(sort) if sort else None)


def batch(values: list, start: int = 0, file: str = "a.jsonl", **more: object) -> Batch:
    rows = range(start, start + len(values))
    return Batch(file=file, rows=rows, values=values, **more)  # type: ignore[arg-type]


def values(batches: list[Batch]) -> list:
    return [value for one in batches for value in one.values]


def ids(batches: list[Batch]) -> list[list]:
    return [[row["i"] for row in rows] for rows in values(batches)]


def test_groups_stand_in_order_of_first_appearance_with_first_row_and_weight() -> None:
    rows = [{"k": k, "i": i} for i, k in enumerate("bbacab")]
    out = list(group_rows([batch(rows[:4]), batch(rows[4:], start=4)], group("k")))
    assert ids(out) == [[0, 1, 5], [2, 4], [3]]
    assert [list(b.rows) for b in out] == [[0, 2, 3]]
    assert [list(b.weights or ()) for b in out] == [[3, 2, 1]]


@pytest.mark.parametrize(
    ("given_values", "expected"),
    [
        ([10, 9, 2.5, "1"], [3, 2, 1, 0]),  # all numbers, one of them as text
        (["10", "9", " 2 ", "1e1"], [2, 1, 0, 3]),  # a CSV knows text only; 10 == 1e1 is stable
        (["10", "9", "b"], [0, 1, 2]),  # one is no number: all by text
        ([2**70 + 1, 2**70, 1.5], [2, 1, 0]),  # exact beyond floats and 64 bits
        ([3, None, 1], [2, 0, 1]),  # without a value: last
        ([True, 2, False], [1, 2, 0]),  # booleans are no numbers
        (["é", "z", "Z"], [2, 1, 0]),  # code points, no locale
    ],
)
def test_sort(given_values: list, expected: list[int]) -> None:
    rows = [{"k": 1, "t": value, "i": i} for i, value in enumerate(given_values)]
    assert ids(list(group_rows([batch(rows)], group("k", sort="t")))) == [expected]


def test_rows_without_the_sort_value_or_with_one_of_a_wrong_type_come_last() -> None:
    rows = [{"k": 1, "i": 0}, {"k": 1, "i": 1, "t": "text"}, {"k": 1, "i": 2, "t": [1]}]
    assert ids(list(group_rows([batch(rows)], group("k", sort="t[*]")))) == [[2, 0, 1]]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (1, "1", False),
        (1, True, False),
        ({"x": 1, "y": 2}, {"y": 2.0, "x": 1}, True),
        ([1, 2], [2, 1], False),
        ("é", "e\u0301", False),
    ],
)
def test_keys_are_equal_as_json_values_are(a: object, b: object, same: bool) -> None:
    rows = [{"k": a, "i": 0}, {"k": b, "i": 1}]
    assert ids(list(group_rows([batch(rows)], group("k")))) == ([[0, 1]] if same else [[0], [1]])


def test_rows_without_any_key_are_alone_and_null_equals_missing_beside_another_key() -> None:
    alone = [{"i": 0}, {"k": None, "i": 1}, {"k": "", "i": 2}, {"k": "", "i": 3}]
    assert ids(list(group_rows([batch(alone)], group("k")))) == [[0], [1], [2, 3]]
    pairs = [{"k": 1, "i": 0}, {"k": 1, "l": None, "i": 1}, {"l": 1, "i": 2}]
    assert ids(list(group_rows([batch(pairs)], group("k", "l")))) == [[0, 1], [2]]


def test_files_are_grouped_apart_and_bad_rows_pass() -> None:
    bad = BadRow(row=1, detail="not JSON", found="{")
    first = batch([{"k": 1, "i": 0}], bad=[bad])
    second = batch([{"k": 1, "i": 1}, {"k": 1, "i": 2}], file="b.jsonl")
    out = list(group_rows([first, second], group("k")))
    assert [(b.file, len(b.values), list(b.bad)) for b in out] == [
        ("a.jsonl", 0, [bad]),
        ("a.jsonl", 1, []),
        ("b.jsonl", 1, []),
    ]


def test_a_key_path_that_meets_a_wrong_type_makes_a_bad_row() -> None:
    rows = [{"k": "text", "i": 0}, {"k": [7], "i": 1}]
    bad, good = group_rows([batch(rows)], group("k[*]"))
    assert [(b.row, b.detail) for b in bad.bad] == [(0, "group: not_a_list")]
    assert ids([good]) == [[1]]


def test_keys_of_rows_serve_as_group_keys_and_are_kept() -> None:
    rows = [{"i": 0}, {"i": 1}, {"i": 2}]
    (out,) = group_rows([batch(rows, keys=["x", "y", "x"])], group("~"))
    assert ids([out]) == [[0, 2], [1]]
    assert list(out.keys or ()) == ["x", "y"]


def test_values_come_back_as_they_went_in(tmp_path: Path) -> None:
    row = {"k": "1", "wide": 2**80, "text": "\u4e2d\x00\U0001f600", "n": [None, True, -0.0, 1e300]}
    (out,) = group_rows([batch([row])], group("k"), folder=tmp_path)
    assert repr(out.values) == repr([[row]])
    assert not list(tmp_path.iterdir())


def test_an_abandoned_grouping_leaves_no_file(tmp_path: Path) -> None:
    groups = group_rows([batch([{"k": i} for i in range(1000)])], group("k"), folder=tmp_path)
    assert len(next(groups).values) == BATCH_GROUPS
    groups.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_an_output_error() -> None:
    with pytest.raises(OutputError, match="cannot hold the rows"):
        list(group_rows([batch([{"k": 1}])], group("k"), folder=Path("/proc/nowhere")))


KEYS = st.one_of(st.none(), st.integers(0, 5), st.sampled_from("abc"))


@pytest.mark.more
@given(keys=st.lists(KEYS, max_size=40), cuts=st.sets(st.integers(0, 40)))
def test_the_split_into_batches_does_not_matter_and_no_row_is_lost(
    keys: list, cuts: set[int]
) -> None:
    rows = [{"k": key, "i": i} for i, key in enumerate(keys)]
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    parts = [batch(rows[a:b], start=a) for a, b in itertools.pairwise(edges)]
    out = list(group_rows(parts, group("k")))
    assert values(out) == values(list(group_rows([batch(rows)], group("k"))))
    assert sorted(i for one in ids(out) for i in one) == list(range(len(rows)))
    assert sum(sum(b.weights or ()) for b in out) == len(rows)


@pytest.mark.more
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_module, "HELD_BYTES", 1 << 20)

    def rows(count: int) -> list[Batch]:
        shuffled = random.Random(7)
        for start in range(0, count, 200):
            block = [{"k": shuffled.randrange(count // 4), "text": "x" * 500} for _ in range(200)]
            yield batch(block, start=start)

    def peak(count: int) -> int:
        tracemalloc.start()
        seen = sum(
            sum(b.weights or ()) for b in group_rows(rows(count), group("k"), folder=tmp_path)
        )
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seen == count
        return used

    # 10 MB of text; SQLite's own page cache is bounded by its setting and not counted here.
    assert peak(20_000) < 6 << 20
