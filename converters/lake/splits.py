"""Which split a record goes into: by its hash alone.

The first eight bytes of a record's hash (`record_hashes`) are a number `v` below 2**64. With the
fractions `f1, f2, ...` the record is of the first split whose `f1 + ... + fi` is greater than
`v / 2**64`; the last split takes the rest. So equal records are in one split, whatever set they are
of, and nothing depends on order, on other records, or on how many there are.
"""

import itertools
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.lake.record_hashes import Numbers
from ingot.converters.rows import Json

_PART = re.compile(r"([a-z0-9_-]{1,50})=([0-9]*\.?[0-9]+)", re.ASCII)
_LONGEST: Final = 40  # digits of a fraction
_TOLERANCE: Final = Fraction(1, 10**9)
_OPTION: Final = "--split"
_HINT: Final = "such as train=0.98,valid=0.02"


@dataclass(frozen=True, kw_only=True, slots=True)
class Splits:
    """Splits in their order: names, and the fractions as texts without zeros at their end."""

    names: tuple[str, ...]
    fractions: tuple[str, ...]

    def bounds(self) -> tuple[int, ...]:
        """Of all but the last: the least `v` that is beyond it, at most 2**64 - 1."""
        ends = itertools.accumulate(Fraction(one) for one in self.fractions[:-1])
        return tuple(min(math.ceil(end * 2**64), 2**64 - 1) for end in ends)

    def places(self, begin: Numbers) -> npt.NDArray[np.int64]:
        """For each `v` the place of its split."""
        bounds = np.array(self.bounds(), np.uint64)
        return np.searchsorted(bounds, begin, "right").astype(np.int64)

    def to_json(self) -> list[dict[str, Json]]:
        """As a manifest holds them."""
        pairs = zip(self.names, self.fractions, strict=True)
        return [{"name": name, "fraction": fraction} for name, fraction in pairs]


ALL: Final = Splits(names=("all",), fractions=("1",))
"""One split that holds everything."""


def parse(text: str) -> Splits:
    """Splits as a person writes them: `train=0.98,valid=0.02`.

    Raises:
        ConversionError: a name or fraction that is none, a name twice, or a sum that is not 1.
    """
    parts = [_part(part.strip()) for part in text.split(",")]
    names = tuple(name for name, _ in parts)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConversionError(_OPTION, f"{twice[0]} is there twice", "give each split its own name")
    total = sum((Fraction(fraction) for _, fraction in parts), Fraction())
    if abs(total - 1) > _TOLERANCE:
        problem = f"the fractions add up to {float(total):.12g}, not to 1"
        raise ConversionError(_OPTION, problem, _HINT)
    return Splits(names=names, fractions=tuple(fraction for _, fraction in parts))


def _part(part: str) -> tuple[str, str]:
    found = _PART.fullmatch(part)
    if not found or len(found[2]) > _LONGEST:
        problem = f"{part[:60]!r} is no split: a name of a-z, 0-9, _ and -, then = and a fraction"
        raise ConversionError(_OPTION, problem, _HINT)
    fraction = Decimal(found[2])
    if not 0 < fraction <= 1:
        problem = f"the fraction of {found[1]} is {found[2]}, not above 0 and at most 1"
        raise ConversionError(_OPTION, problem, _HINT)
    plain = f"{fraction:f}"
    return found[1], plain.rstrip("0").rstrip(".") if "." in plain else plain
