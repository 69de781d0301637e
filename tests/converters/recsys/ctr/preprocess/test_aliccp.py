"""Reading raw Ali-CCP files: numbers as Python reads them, lines however they are cut."""

import io
import random
import struct
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr.preprocess.aliccp import (
    COMMON,
    SKELETON,
    Fields,
    Layout,
    read_rows,
)
from ingot.converters.recsys.ctr.preprocess.row_collector import Rows
from ingot.converters.recsys.ctr.preprocess.token_kernels import _TENS
from ingot.converters.recsys.ctr.preprocess.vocabulary import Interner

FIELDS = Fields(names=("1", "22"), numbers=np.arange(2, dtype=np.int16))


def read(content: bytes, layout: Layout = SKELETON, size: int = 8 << 20) -> list[Rows]:
    stream = io.BytesIO(content)
    return list(read_rows(stream, "file", layout, FIELDS, Interner(), Interner(), size))


def values(numbers: list[bytes]) -> tuple[list[float | None], Rows]:
    """What each number is read as, None where it is dropped; one token a line."""
    content = b"".join(b"e,1,1\x02a\x03%s\n" % number for number in numbers)
    rows = read(content, COMMON)[0]
    tokens = rows.tokens[0]
    lengths = np.diff(tokens.offsets)
    given = iter(tokens.values.tolist())
    return [next(given) if length else None for length in lengths.tolist()], rows


def plain(number: bytes) -> float | None:
    """Python's float, rounded to float32; 0.0 for what is not finite then."""
    with suppress(ValueError):
        rounded = np.array([float(number.decode())]).astype(np.float32)
        return float(rounded[0]) if np.isfinite(rounded[0]) else 0.0
    return None


def check_numbers(numbers: list[bytes]) -> None:
    found, _ = values(numbers)
    with np.errstate(over="ignore"):
        expected = [plain(one) for one in numbers]
    assert len(found) == len(numbers)
    wrong = [
        (number, ours, theirs)
        for number, ours, theirs in zip(numbers, found, expected, strict=True)
        if bits(ours) != bits(theirs)
    ]
    assert not wrong, wrong[:5]


def bits(number: float | None) -> bytes | None:
    """To tell 0.0 from -0.0."""
    return None if number is None else struct.pack("<d", number)


def decimals(count: int, seed: int) -> Iterator[bytes]:
    """Plain decimals of every length, many of them hard to round."""
    rng = random.Random(seed)
    for _ in range(count):
        digits = "".join(rng.choices("0123456789", k=rng.randint(1, 24)))
        at = rng.randint(0, len(digits))
        sign = rng.choice(("", "", "-", "+"))
        dot = rng.choice((".", ".", ".", ""))
        yield f"{sign}{digits[:at]}{dot}{digits[at:]}".encode()


def ties(count: int, seed: int) -> Iterator[bytes]:
    """Decimals half way between two float32, and their neighbours."""
    rng = random.Random(seed)
    for _ in range(count):
        (low,) = struct.unpack("<f", struct.pack("<I", rng.randrange(0x3F000000, 0x4B000000)))
        high = float(np.nextafter(np.float32(low), np.float32(np.inf)))
        number = np.nextafter((low + high) / 2, rng.choice((0.0, low, 1e9)))
        yield repr(float(number)).encode()


@pytest.mark.more
def test_decimals() -> None:
    check_numbers([*decimals(20_000, seed=1), *ties(5_000, seed=2)])


@pytest.mark.long
def test_millions_of_decimals() -> None:
    for seed in range(10):
        check_numbers([*decimals(150_000, seed + 10), *ties(50_000, seed + 50)])


_PIECES = st.sampled_from(
    (
        *"0123456789",
        *".+-eE_",
        *" \t\r\x0b\x0c\x1c\x1f\x00",
        "inf",
        "nan",
        "infinity",
        "e-5",
        "ß",
        "٣",
    )
)


@pytest.mark.more
@settings(max_examples=200)
@given(st.lists(st.lists(_PIECES, max_size=6).map("".join), min_size=1, max_size=30))
def test_anything_as_a_number(texts: list[str]) -> None:
    check_numbers([text.encode() for text in texts])


def test_numbers_of_17_digits_are_rounded_once() -> None:
    """Digits beyond 2^53, divided by a power of ten, would be rounded before that, too."""
    check_numbers([b"2.2724584341049194", b"3.3003555536270142", b"1.7626194357872009"])


def test_powers_of_ten_are_exact() -> None:
    assert _TENS.tolist() == [float(f"1e{power}") for power in range(23)]


def test_numbers_that_are_not_finite() -> None:
    found, rows = values([b"nan", b"-inf", b"1e39", b"-1e400", b"3.4028235677973366e38", b"1"])
    assert found == [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    assert rows.counts["not_finite"] == 5


def test_a_number_is_no_farther_than_its_token() -> None:
    rows = read(b"e,3,1\x02a\x031_0\x011\x02a\x03 2\x0122\x02b\x035 \r\n", COMMON)[0]
    assert [one.values.tolist() for one in rows.tokens] == [[10.0, 2.0], [5.0]]
    assert not rows.counts["bad_number"]
    assert not rows.counts["wrong_count"]


LINES = (
    *(
        b"7,0,1,e,1,1\x02a\x031",
        b"7,1,1,f,0,",
        b"",
        b"x",
        b"7,2,0,e,0,",
        b"7,0,0,,0,",
        b"\xff,0,0,e,1,1",
    ),
    *(b"7,0,0,\xff,0,", b"7,0,0,e," + b"1" * 300, b"7,0,0,g,2,1\x02\xff\x031\x0122\x02b\x032"),
    *(b"7,0,0,e,1,1\x02a,b\x033", b"\x00,0,0,\x00,1,22\x02\x00\x034"),
)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from((b"\n", b"\r\n"))), max_size=12),
    st.booleans(),
    st.integers(1, 400),
)
def test_blocks_of_any_size(lines: list[tuple[bytes, bytes]], cut: bool, size: int) -> None:
    content = b"".join(line + end for line, end in lines)
    content = content.removesuffix(b"\n") if cut else content
    whole, parts = read(content), read(content, size=size)
    assert joined(whole) == joined(parts)
    rows, rejects = joined(parts)[0], joined(parts)[5]
    assert sorted([*rows, *(one.row for one in rejects)]) == list(range(len(content.splitlines())))


def joined(blocks: list[Rows]) -> tuple[list[object], ...]:
    """Everything that blocks hold, without the places where they were cut."""
    names = ("rows", "clicks", "purchases", "entities", "samples")
    flat = [[v for block in blocks for v in getattr(block, name).tolist()] for name in names]
    rejects = [one for block in blocks for one in block.rejects]
    lists = [
        (block.tokens[at].codes[first:last].tolist(), block.tokens[at].values[first:last].tolist())
        for block in blocks
        for row in range(len(block.rows))
        for at in range(2)
        for first, last in [block.tokens[at].offsets[row : row + 2]]
    ]
    counts = [sorted((block_counts(blocks)).items())]
    return (*flat, rejects, lists, counts)


def block_counts(blocks: list[Rows]) -> dict[str, int]:
    total: dict[str, int] = {}
    for block in blocks:
        for name, count in block.counts.items():
            total[name] = total.get(name, 0) + count
    return {name: count for name, count in total.items() if count}


def test_rejects() -> None:
    content = b"7,0,1,e,0,\nshort\n7,9,x,e,0,\n7,0,x,e,0,\n7,0,0,,0,\n7,0,0,\xff,0,\n%s\n" % (
        b"l" * 999
    )
    (rows,) = read(content)
    assert rows.rows.tolist() == [0]
    assert rows.read == 7
    assert [(one.file, one.row, one.reason, one.found) for one in rows.rejects] == [
        ("file", 1, "columns", "short"),
        ("file", 2, "label", "9"),
        ("file", 3, "label", "x"),
        ("file", 4, "entity_id", ""),
        ("file", 5, "entity_id", "\\xff"),
        ("file", 6, "columns", "l" * 200),
    ]


def test_lines_of_common_features() -> None:
    (rows,) = read(b"e,0,\n,0,\nf,1\n", COMMON)
    assert rows.rows.tolist() == [0]
    assert [one.reason for one in rows.rejects] == ["entity_id", "columns"]
    assert rows.samples is None


def test_an_empty_file() -> None:
    assert read(b"") == []


def test_a_long_line_in_small_blocks() -> None:
    tokens = b"\x01".join(b"1\x02%d\x031" % number for number in range(20_000))
    blocks = read(b"e,20000,%s\ne,0,\n" % tokens, COMMON, size=1000)
    assert sum(len(one.tokens[0].codes) for one in blocks) == 20_000
    assert [row for one in blocks for row in one.rows.tolist()] == [0, 1]


class _Endless(io.RawIOBase):
    """A file of one line that never ends."""

    def read(self, size: int = -1) -> bytes:
        return b"x" * size


@pytest.mark.long
def test_a_line_that_never_ends() -> None:
    rows = read_rows(_Endless(), "file", SKELETON, FIELDS, Interner(), Interner(), 64 << 20)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="file: a line is longer than 1 GiB"):
        next(rows)
