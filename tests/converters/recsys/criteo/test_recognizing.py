"""Raw Criteo logs and preprocessed arrays are told by their content."""

import io
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.sources.recognizers.criteo import (
    CRITEO_HEAD,
    count_array_rows,
    recognize_criteo,
)

GOLDEN = Path(__file__).parents[3] / "golden/criteo"
DAY = (GOLDEN / "day_0").read_bytes()


def lines(change) -> bytes:
    """The first rows of the golden day, each changed."""
    return b"".join(b"\t".join(change(one.split(b"\t"))) + b"\n" for one in DAY.split(b"\n")[:50])


@pytest.mark.parametrize("size", [400, 5000, CRITEO_HEAD])
@pytest.mark.parametrize("day", ["day_0", "day_1", "day_2"])
def test_however_much_is_seen(day, size):
    assert recognize_criteo((GOLDEN / day).read_bytes()[:size]) == "labelled"


def test_one_line_and_a_part_of_one():
    line = DAY.split(b"\n")[0]
    assert (
        recognize_criteo(line)
        == recognize_criteo(line + b"\n")
        == recognize_criteo(line + b"\r\n")
        == "labelled"
    )
    assert recognize_criteo(line[:200]) is None


def test_without_labels():
    assert recognize_criteo(lines(lambda fields: fields[1:])) == "unlabelled"


def test_some_lines_may_be_broken():
    broken = [b"short\tline", b"", b"0\t" * 60]
    whole = DAY.split(b"\n")[:20]
    assert recognize_criteo(b"\n".join(broken + whole)) == "labelled"
    assert recognize_criteo(b"\n".join(broken * 5 + whole)) is None


def with_(at: int, text: bytes):
    return lambda fields: [*fields[:at], text, *fields[at + 1 :]]


def sparse(spelled):
    rng = random.Random(1)
    return lambda fields: [*fields[:14], *(spelled(rng) for _ in range(26))]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"\t" * 39,
        (b"\t" * 39 + b"\n") * 9,
        lines(lambda fields: [*fields, b"1"]),
        lines(lambda fields: fields[:-2]),
        lines(with_(0, b"2")),
        lines(with_(0, b"yes")),
        lines(with_(3, b"1.5")),
        lines(with_(3, b"12345678901")),
        lines(with_(20, b"text")),
        lines(with_(20, b"0123456789")),
        lines(lambda fields: [b",".join(fields)]),
        lines(sparse(lambda rng: b"%d" % rng.randrange(10**8))),
        lines(sparse(lambda rng: b"%08d" % rng.randrange(10**8))),
        lines(sparse(lambda rng: b"202%05d" % rng.randrange(10**5))),
        lines(sparse(lambda rng: b"%x" % rng.randrange(1 << 20))),
        lines(sparse(lambda rng: b"")),
        lines(sparse(lambda rng: b"%016x" % rng.randrange(1 << 64))),
        bytes(range(256)) * 40,
        b"0\t1\t2\tWhat is this?\tA question\n" * 50,
    ],
)
def test_what_is_none(data):
    assert recognize_criteo(data) is None


@given(st.lists(st.lists(st.text(max_size=10) | st.integers().map(str), max_size=45)))
def test_ordinary_tables_are_none(rows):
    assert recognize_criteo("\n".join("\t".join(row) for row in rows).encode()) is None


@given(st.binary(max_size=500))
def test_anything_is_none(data):
    assert recognize_criteo(data) is None
    assert count_array_rows(io.BytesIO(data), "sparse") is None
    assert count_array_rows(io.BytesIO(b"\x93NUMPY\x01\x00" + data), "dense") is None


@pytest.mark.parametrize(
    ("array", "kind", "rows"),
    [
        (np.zeros((7, 13), np.float32), "dense", 7),
        (np.zeros((7, 1), np.int32), "labels", 7),
        (np.zeros((0, 26), np.int64), "sparse", 0),
        (np.zeros((7, 26), np.float32), "sparse", None),
        (np.zeros((7, 13), np.int32), "dense", None),
        (np.zeros((7, 14), np.float32), "dense", None),
        (np.zeros(7, np.int32), "labels", None),
    ],
)
def test_arrays_are_told_by_their_headers(array, kind, rows):
    stream = io.BytesIO()
    np.save(stream, array)
    stream.seek(0)
    assert count_array_rows(stream, kind) == rows
