"""Raw lines by hypothesis: most are rows, some have fields or numbers of fields that cannot be."""

import gzip
import random
from collections.abc import Callable

import zstandard
from hypothesis import strategies as st

from tests.converters.recsys.criteo.reference import DENSE, SPARSE, Raw

COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda content: content,
    ".gz": lambda content: gzip.compress(content, 1, mtime=0),
    ".zst": zstandard.ZstdCompressor().compress,
}
INTEGERS = (
    *(b"", b"0", b"-1", b"-2", b"-3", b"-4", b"-0", b"000", b"007", b"-0001", b"1", b"2", b"15"),
    *(b"16", b"1023", b"1024", b"2147483647", b"-2147483648", b"2000000000", b"2147483644"),
    b"0" * 30 + b"12",
)
VALUES = (
    *(b"", b"0", b"00000000", b"a", b"A", b"0a", b"0000000a", b"deadBEEF", b"80000000"),
    *(b"ffffffff", b"FFFFFFFF", b"7fffffff", b"00ffffffff", b"1234567", b"68fd1e64", b"1"),
    b"0" * 40 + b"1",
)
NASTY = (
    *(b"-", b"--1", b"-1", b"+1", b"1.0", b"1e3", b"2147483648", b"-2147483649", b"0x1f", b"1f"),
    *(b" ", b"1 ", b" 1", b"\x00", b"1\x00", b'"1"', b"'", b"1_0", b"g", b"123456789", b"nan"),
    *(b"99999999999999999999999999", b"100000000", b"000000000000100000000", b"12345678g"),
    *("é".encode(), "１".encode(), b"\xff", b"\r", b"1\r", b"x" * 81, b"y" * 80, b"z" * 3000),
    *("ж".encode() * 60, b"\x1b[31m", b"\\N", b"NULL", b"-a", b",", b"/", b":", b"@", b"`", b"G"),
)
COLUMNS = DENSE + SPARSE


def row(rng: random.Random, labelled: bool) -> list[bytes]:
    """The fields of a row."""
    label = [rng.choice((b"0", b"0", b"1", b"", b"-7", b"2147483647"))] * labelled
    dense = [rng.choice(INTEGERS) for _ in range(DENSE)]
    return [*label, *dense, *(rng.choice(VALUES) for _ in range(SPARSE))]


def plain_line(rng: random.Random, values: int = 50) -> bytes:
    """A row as the public files have them, of few values."""
    label = b"%d" % (rng.random() < 0.1)
    dense = [b"%d" % rng.randrange(-1, 200) if rng.random() < 0.8 else b"" for _ in range(DENSE)]
    spread = (b"%08x" % (rng.randrange(values) * 2654435761 % 2**32) for _ in range(SPARSE))
    return b"\t".join([label, *dense, *(v if rng.random() < 0.9 else b"" for v in spread)])


def content(rows: int, seed: int, values: int = 50) -> bytes:
    """A file of rows as the public files have them."""
    rng = random.Random(seed)
    return b"".join(plain_line(rng, values) + b"\n" for _ in range(rows))


@st.composite
def lines(draw: st.DrawFn, *, labelled: bool = True, nasty: bool = True) -> bytes:
    """One line, without its end."""
    fields = row(random.Random(draw(st.integers(0, 1 << 16))), labelled)
    kind = draw(st.sampled_from(("row", "row", "row", "field", "columns", "free"))) if nasty else ""
    if kind == "field":
        for _ in range(draw(st.integers(1, 2))):
            fields[draw(st.integers(0, len(fields) - 1))] = draw(st.sampled_from(NASTY))
    elif kind == "columns":
        count = draw(st.sampled_from((0, 1, 2, len(fields) - 1, len(fields) + 1, 80)))
        fields = (fields * 3)[:count]
    elif kind == "free":
        alphabet = st.sampled_from([b"\t", b"0", b"f", b"-", b"\r", b"\x00", b"\xff", b'"'])
        return b"".join(draw(st.lists(alphabet, max_size=60)))
    return b"\t".join(fields)


@st.composite
def files(draw: st.DrawFn, *, labelled: bool = True, nasty: bool = True) -> bytes:
    """A file: lines with ends of either kind, the last perhaps without one."""
    found = draw(st.lists(lines(labelled=labelled, nasty=nasty), max_size=12))
    end = draw(st.sampled_from((b"\n", b"\r\n")))
    return end.join(found) + end * (draw(st.booleans()) and bool(found))


@st.composite
def days(draw: st.DrawFn, *, nasty: bool = True) -> list[Raw]:
    """Some day files, compressed or not."""
    numbers = sorted(draw(st.sets(st.integers(0, 23), min_size=1, max_size=4)))
    return [Raw(f"day_{number}", f"day_{number}", draw(files(nasty=nasty))) for number in numbers]


def stored(part: Raw, ending: str) -> Raw:
    """A part's file, compressed and named so; what the reference reads stays `content`."""
    content = COMPRESSED[ending](part.content)
    return Raw(part.name, part.name + ending, content, part.labelled)
