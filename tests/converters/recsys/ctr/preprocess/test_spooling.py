"""Rows on disk between the passes."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ingot.converters.recsys.ctr.preprocess.row_collector import Rows, Spool, Tokens, read_spool

Plain = list[tuple[int, int, int, int, list[tuple[list[int], list[float]]]]]


def rows_of(first: int, count: int, fields: int = 2) -> Rows:
    """Rows of which each has as many tokens as its number says, modulo 4."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    lengths = numbers % 4
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    codes = np.repeat(numbers, lengths).astype(np.int32)
    one = Tokens(offsets=offsets, codes=codes, values=codes.astype(np.float32) / 2)
    return Rows(
        rows=numbers,
        clicks=(numbers % 2).astype(np.uint8),
        purchases=(numbers % 3 == 0).astype(np.uint8),
        entities=(numbers % 5).astype(np.int32),
        samples=None,
        tokens=(one,) * fields,
    )


def plain(rows: Rows) -> Plain:
    lists = [
        [
            (one.codes[first:last].tolist(), one.values[first:last].tolist())
            for one in rows.tokens
            for first, last in [one.offsets[at : at + 2].tolist()]
        ]
        for at in range(len(rows.rows))
    ]
    columns = (rows.rows, rows.clicks, rows.purchases, rows.entities)
    return list(zip(*(column.tolist() for column in columns), lists, strict=True))


@pytest.mark.parametrize("most", [None, 1, 2, 3, 7, 100])
@pytest.mark.parametrize("sizes", [[], [1], [5, 4], [0, 3, 0, 10]])
def test_what_was_written(tmp_path: Path, sizes: list[int], most: int | None) -> None:
    expected: Plain = []
    with closing(Spool(tmp_path / "spool", 2)) as spool:
        for size in sizes:
            part = rows_of(len(expected), size)
            expected += plain(spool.write(part))
    parts = [plain(part) for part in read_spool(tmp_path / "spool", 2, most)]
    assert [row for part in parts for row in part] == expected
    assert all(1 <= len(part) <= (most or 100) for part in parts)


def test_some_of_the_rows(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "spool", 2)) as spool:
        written = spool.write(rows_of(0, 9), np.arange(9) % 3 == 0)
        assert spool.write(rows_of(9, 3), np.zeros(3, np.bool_)).rows.tolist() == []
    assert plain(written) == [one for one in plain(rows_of(0, 9)) if one[0] % 3 == 0]
    parts = [plain(part) for part in read_spool(tmp_path / "spool", 2, 2)]
    assert parts == [plain(written)[:2], plain(written)[2:]]


@pytest.mark.parametrize("most", [None, 1, 4])
@pytest.mark.parametrize(("start", "stop"), [(0, 12), (3, 3), (2, 7), (5, 9), (9, 12), (4, 5)])
def test_a_part_of_the_rows(tmp_path: Path, start: int, stop: int, most: int | None) -> None:
    with closing(Spool(tmp_path / "spool", 2)) as spool:
        for first, count in ((0, 5), (5, 4), (9, 3)):
            spool.write(rows_of(first, count))
    parts = read_spool(tmp_path / "spool", 2, most, start, stop)
    assert [one for part in parts for one in plain(part)] == plain(rows_of(0, 12))[start:stop]


def test_closing_twice(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 0)
    spool.write(rows_of(0, 3, fields=0))
    spool.close()
    spool.close()
    assert [part.rows.tolist() for part in read_spool(tmp_path / "spool", 0)] == [[0, 1, 2]]
