"""Made-up days of Criteo click logs, with the shape and the growth of the terabyte set.

    python benchmarks/criteo/generate.py OUT --rows 1000000 [--days 2] [--seed 7] [--gz]
        [--dirt 0.001] [--crlf] [--kaggle] [--threads 2]

Writes `day_0`, `day_1`, ...: no header, 40 fields between tabs, label, 13 integers, 26 values of
eight hexadecimal digits, an empty field where a value is missing. `--rows` is the number of all
days together; they are as equal as possible. `--kaggle` writes `train.txt` and `test.txt` instead,
the latter without labels; `--gz` packs every file.

The values of a column follow Zipf and Mandelbrot: number k of 0 to `values` has the integral of
(x + shift)^-exponent from k to k + 1. For the 15 columns of more than 3,000 values these three are
fitted, each column for itself, to what is known of the real set: the different values in all
4,373,472,329 rows, those in the sample that leaves out 87.5 % of the rows without a click
(published after a modulo of ten million, which is undone), and those that occur at least three
times. All three come out within 7 % for every column, for most within 3 %. So the number of
different values grows with the rows as it does there: a benchmark of a few million rows meets as
many new ones as so many rows of the real set in random order would. What a value is called is a
bijection of 32 bits.

Not published, and so assumed here:

* the other columns: all of their values, exponent 2;
* missing shares and means of the integers: those of the Kaggle set, as published; for the others
  its shares on columns of like size. A line has 244 bytes, those of the real set some 250;
* the integers: heavy-tailed (Lomax, shape 1.6), the second from -1 on;
* 3.26 % clicks, of nothing else dependent; no drift between days.

`--dirt SHARE` makes that share of the lines odd, in the manners of `ODD`: wrong numbers of fields,
numbers and digits that are none, values out of range, and some that only look wrong. The same
options give the same bytes, whatever the number of threads; in memory is a block for each.
"""

import argparse
import gzip
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from criteo_lines import SHAPE, fill
from numpy.typing import NDArray

Fields = list[bytes]

COLUMNS: Final = {  # of each sparse column: values, exponent, shift
    0: (1.541e9, 1.22, 1000.0),
    1: (39_060, 2.03, 3.0),
    2: (17_295, 2.09, 3.0),
    3: (7_424, 2.18, 1.0),
    4: (20_265, 2.06, 3.0),
    5: (3, 2.0, 1.0),
    6: (7_122, 2.15, 1.0),
    7: (1_543, 2.0, 1.0),
    8: (63, 2.0, 1.0),
    9: (5.413e8, 1.22, 100.0),
    10: (4_225_000, 1.7, 100.0),
    11: (409_400, 2.18, 300.0),
    12: (10, 2.0, 1.0),
    13: (2_209, 2.0, 1.0),
    14: (11_938, 2.18, 1.0),
    15: (155, 2.0, 1.0),
    16: (4, 2.0, 1.0),
    17: (976, 2.0, 1.0),
    18: (14, 2.0, 1.0),
    19: (2.568e9, 1.13, 30.0),
    20: (1.08e8, 1.28, 10.0),
    21: (6.493e8, 1.1, 0.5),
    22: (612_600, 2.12, 300.0),
    23: (12_973, 2.12, 1.0),
    24: (108, 2.0, 1.0),
    25: (36, 2.0, 1.0),
}
NO_VALUE: Final = (
    dict.fromkeys((0, 9, 11, 19, 20, 21), 0.034)  # as the six large ones of Kaggle
    | {25: 0.12, 13: 0.44, 16: 0.44, 22: 0.44, 24: 0.44, 18: 0.76}
)
MEANS: Final = (3.5, 106, 27, 7.3, 18_539, 116, 16, 12.5, 106, 0.6, 2.7, 1.0, 8.2)
NO_NUMBER: Final = (
    *(0.454, 0.0, 0.215, 0.217, 0.026, 0.224, 0.043),
    *(0.0005, 0.043, 0.454, 0.043, 0.765, 0.217),
)
LOWEST: Final = (0, -1, *(0 for _ in range(11)))
ROOM: Final = 2 + 13 * 11 + 26 * 9  # bytes that a line may take
BLOCK: Final = 16_384  # rows
DIGITS: Final = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The columns as the kernel reads them.

    Attributes:
        curve: float64[26, 4], of each column: start and width of the range of (k + shift)^power
            that variates are spread over, 1 / power, shift.
        last: int64[26], the largest number of a value.
        missing: uint64[39], the share without a value of integers and others, in 1 / 65536.
        scale: float64[13], of the integers.
        lowest: int64[13], the same.
    """

    curve: NDArray[np.float64]
    last: NDArray[np.int64]
    missing: NDArray[np.uint64]
    scale: NDArray[np.float64]
    lowest: NDArray[np.int64]


def shape() -> Shape:
    """Of `COLUMNS`, `NO_VALUE`, `MEANS` and `NO_NUMBER`."""
    curves = []
    for values, exponent, shift in COLUMNS.values():
        power = 1.0 - exponent
        # Number k takes what lies between k and k + 1.
        low, high = shift**power, (values + shift) ** power
        curves.append((low, high - low, 1.0 / power, shift))
    shares = np.array([*NO_NUMBER, *(NO_VALUE.get(k, 0.0) for k in COLUMNS)])
    return Shape(
        curve=np.array(curves),
        last=np.array([int(values) - 1 for values, _, _ in COLUMNS.values()]),
        missing=np.rint(shares * 65536).astype(np.uint64),
        scale=np.array(MEANS) * (SHAPE - 1.0),
        lowest=np.array(LOWEST),
    )


def _with(place: int, text: bytes) -> Callable[[Fields], bytes]:
    """Another text in this field, counted from the end."""

    def changed(fields: Fields) -> bytes:
        return b"\t".join([*fields[:place], text, *fields[len(fields) + place + 1 :]])

    return changed


ODD: Final[dict[str, Callable[[Fields], bytes]]] = {
    "a field less": lambda fields: b"\t".join(fields[:-1]),
    "a field more": lambda fields: b"\t".join([*fields, b"0"]),
    "nothing": lambda _: b"",
    "cut off": lambda fields: b"\t".join(fields)[:40],
    "label a word": lambda fields: b"\t".join([b"yes", *fields[1:]]),
    "a fraction": _with(-30, b"1.5"),
    "a word": _with(-31, b"abc"),
    "past 32 bits": _with(-32, b"99999999999"),
    "a lone sign": _with(-33, b"-"),
    "no digit": _with(-5, b"0000xyz1"),
    "nine digits": _with(-6, b"123456789"),
    "a prefix": _with(-7, b"0x1f"),
    "a blank": _with(-8, b" 1f"),
    # All from here on is right.
    "zeros before": _with(-9, b"00000000001f"),
    "few digits": _with(-10, b"1f"),
    "capitals": _with(-11, b"DEADBEEF"),
    "zero": _with(-12, b"00000000"),
    "the largest": _with(-13, b"ffffffff"),
    "no logarithm": _with(-34, b"-4"),
    "minus infinity": _with(-35, b"-3"),
    "the largest integer": _with(-36, b"2147483647"),
    "a label past 24 bits": lambda fields: b"\t".join([b"16777217", *fields[1:]]),
    "all empty": lambda fields: b"\t" * (len(fields) - 1),
    "carriage return": lambda fields: b"\t".join(fields) + b"\r",
}


def keyed(seed: int, day: int, use: int) -> int:
    """A number of 64 bits for one use of one day."""
    drawn = np.random.SeedSequence([seed, day, use]).generate_state(1, np.uint64)
    return int(drawn[0])


@dataclass(frozen=True, kw_only=True)
class Day:
    """One file that is to be made.

    Attributes:
        rows: how many.
        seed: of the set.
        number: of the file.
        labelled: whether lines begin with a label.
        dirt: the share of odd lines.
        crlf: whether lines end as on Windows.
    """

    rows: int
    seed: int
    number: int
    labelled: bool = True
    dirt: float = 0.0
    crlf: bool = False

    def block(self, first: int, form: Shape) -> bytes:
        """The lines from row `first` on, at most `BLOCK`."""
        starts = np.empty(min(BLOCK, self.rows - first) + 1, np.int64)
        out = np.empty(len(starts) * ROOM, np.uint8)
        key = np.uint64(keyed(self.seed, self.number, 0))
        curve, last = form.curve, form.last
        given = (form.missing, form.scale, form.lowest, DIGITS)
        fill(first, key, self.labelled, curve, last, *given, out, starts)
        text = out[: starts[-1]].tobytes()
        if self.dirt:
            text = self._dirty(text, first, starts)
        return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") if self.crlf else text

    def _dirty(self, text: bytes, first: int, starts: NDArray[np.int64]) -> bytes:
        """The same with odd lines."""
        rng = np.random.default_rng([self.seed, self.number, 1, first])
        rows = np.flatnonzero(rng.random(len(starts) - 1) < self.dirt)
        kinds = rng.integers(0, len(ODD), len(rows))
        ways, pieces, done = list(ODD.values()), [], 0
        for row, kind in zip(rows.tolist(), kinds.tolist(), strict=True):
            fields = text[starts[row] : starts[row + 1] - 1].split(b"\t")
            pieces += [text[done : starts[row]], ways[kind](fields), b"\n"]
            done = int(starts[row + 1])
        return b"".join([*pieces, text[done:]])

    def blocks(self, threads: int) -> Iterator[bytes]:
        """All lines, in order; never more than a few blocks at a time."""
        form, waiting = shape(), deque()
        with ThreadPoolExecutor(threads) as pool:
            for first in range(0, self.rows, BLOCK):
                waiting.append(pool.submit(self.block, first, form))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file to write, packed if its name says so; its bytes tell no time and no name."""
    with path.open("wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed:
            yield packed


def days(given: argparse.Namespace) -> dict[str, Day]:
    """The files of a command line, by name."""
    count = 2 if given.kaggle else given.days
    names = ["train.txt", "test.txt"] if given.kaggle else [f"day_{k}" for k in range(count)]
    ends = [given.rows * k // count for k in range(count + 1)]
    odd = {"dirt": given.dirt, "crlf": given.crlf, "seed": given.seed}
    return {
        name + ".gz" * given.gz: Day(
            rows=ends[k + 1] - ends[k], number=k, labelled=name != "test.txt", **odd
        )
        for k, name in enumerate(names)
    }


def main(argv: list[str] | None = None) -> None:
    """Write the files; tells their rows and bytes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of all files together")
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--gz", action="store_true")
    parser.add_argument("--dirt", type=float, default=0.0, help="the share of odd lines")
    parser.add_argument("--crlf", action="store_true")
    parser.add_argument("--kaggle", action="store_true", help="train.txt and test.txt")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(argv)
    if not (0 <= given.dirt <= 1 and given.rows >= 0 and 1 <= given.days <= 24):
        sys.exit("--dirt is a share, --rows is not negative, --days is 1 to 24")
    given.out.mkdir(parents=True, exist_ok=True)
    for name, day in days(given).items():
        with opened(given.out / name) as file:
            size = sum(file.write(block) for block in day.blocks(given.threads))
        print(f"{name}: {day.rows:,} rows, {size:,} bytes")


if __name__ == "__main__":
    main()
