"""Makes the raw files of this folder again, with the same content.

    python examples/criteo/make.py [OUT]

Three days of an invented advertiser in the form of Criteo's click logs: `day_0.gz` and `day_1.gz`
of 2,600 lines, `day_2` of 1,600. Clicks depend on a few columns, on two that meet, and on two of
the integers; about a fourth of the lines have one. Four lines are wrong on purpose: README.md says
which.
"""

import gzip
import math
import random
import sys
import zlib
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
DAYS = {"day_0.gz": 2_600, "day_1.gz": 2_600, "day_2": 1_600}
# How many values a column has; the first ones are seen more often.
SIZES = (400, 40, 24, 30, 16, 3, 20, 16, 8, 60, 12, 25, 10, 30, 8, 12, 4, 20, 6)
SIZES += (300, 24, 40, 50, 18, 20, 9)
TASTES = {1: 1.4, 5: 1.0, 7: 1.2, 12: 1.0, 16: 1.1, 22: 0.8}  # what a column weighs
MEETING = (2, 13)  # groups of people and kinds of goods
MEANS = (3, 40, 12, 6, 900, 60, 9, 12, 50, 1, 3, 1, 8)
NO_NUMBER = (0.4, 0.0, 0.2, 0.2, 0.03, 0.2, 0.04, 0.0, 0.04, 0.4, 0.04, 0.7, 0.2)
NO_VALUE = {0: 0.03, 9: 0.03, 13: 0.1, 18: 0.5, 22: 0.3, 24: 0.4}
WRONG = {  # line of a day, and the line instead
    ("day_0.gz", 700): lambda fields: fields[:21],
    ("day_1.gz", 1_200): lambda fields: [*fields[:5], "12,5", *fields[6:]],
    ("day_1.gz", 1_900): lambda fields: [*fields[:30], "o0ff1ce5", *fields[31:]],
    ("day_2", 300): lambda fields: [*fields, fields[-1]],
}


@cache
def taste(column: int, number: int) -> float:
    """What a value is liked, about -2 to 2; the same in every run."""
    return random.Random(f"{column}:{number}").gauss(0, 1)


def name(column: int, number: int) -> str:
    """The eight hexadecimal digits of a value."""
    return f"{zlib.crc32(f'{column}:{number}'.encode()):08x}"


def integers(dice: random.Random) -> list[int | None]:
    """Thirteen counts, heavy-tailed; the second is sometimes -1."""
    counts = [int(mean * (dice.random() ** -0.7 - 1) * 0.6) for mean in MEANS]
    counts[1] -= dice.random() < 0.2
    return [
        None if dice.random() < share else count
        for count, share in zip(counts, NO_NUMBER, strict=True)
    ]


def values(dice: random.Random) -> list[int | None]:
    """The number of a value of each column."""
    numbers = [int(size * dice.random() ** 2.5) for size in SIZES]
    return [None if dice.random() < NO_VALUE.get(k, 0) else v for k, v in enumerate(numbers)]


def score(counts: list[int | None], numbers: list[int | None]) -> float:
    """The logarithm of the odds of a click."""
    liked = sum(w * taste(k, -1 if numbers[k] is None else numbers[k]) for k, w in TASTES.items())
    people, goods = (numbers[k] or 0 for k in MEETING)
    together = 1.6 if people % 3 == goods % 3 else -0.8
    return -2.2 + liked + together + 0.5 * math.log1p(counts[0] or 0) - 0.2 * (counts[3] is None)


def line(dice: random.Random) -> list[str]:
    """The fields of a good line."""
    counts, numbers = integers(dice), values(dice)
    click = dice.random() < 1 / (1 + math.exp(-score(counts, numbers)))
    cells = [name(k, v) if v is not None else "" for k, v in enumerate(numbers)]
    return [f"{int(click)}", *("" if one is None else f"{one}" for one in counts), *cells]


def day(file: str, lines: int, dice: random.Random) -> bytes:
    """The text of a day."""
    rows = []
    for number in range(1, lines + 1):
        fields = line(dice)
        rows.append("\t".join(WRONG.get((file, number), list)(fields)))
    return "".join(f"{row}\n" for row in rows).encode()


def main(out: Path = HERE) -> None:
    """Write the files."""
    dice = random.Random(20260)
    for file, lines in DAYS.items():
        text = day(file, lines, dice)
        packed = gzip.compress(text, 9, mtime=0) if file.endswith(".gz") else text
        (out / file).write_bytes(packed)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
