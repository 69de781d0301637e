"""Rows and features that a conversion leaves out, and negatives of which it takes a share."""

import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.monolith.record_index import Rows

_TEST: Final = re.compile(r"\s*(\d{1,6})\s*(<=|>=|==|!=|<|>)\s*([-+]?[0-9.eE+-]+|[-+]?inf)\s*")
_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, kw_only=True)
class LabelTest:
    """A test of one label, as `0>=1` says it: position, comparison, value.

    Attributes:
        position: of the label, from 0.
        compare: the comparison's sign.
        value: what the label is compared with, as a float32.
    """

    position: int
    compare: str
    value: float

    @staticmethod
    def parse(text: str) -> "LabelTest":
        """The test that `0>=1` says."""
        match = _TEST.fullmatch(text)
        try:
            value = float(np.float32(match[3])) if match else 0.0
        except ValueError:
            match = None
        if match is None:
            hint = "write position, comparison and value: 0>=1"
            raise ConversionError("", f"{text!r} is no test of a label", hint)
        return LabelTest(position=int(match[1]), compare=match[2], value=value)

    def __str__(self) -> str:
        return f"{self.position}{self.compare}{self.value:g}"

    def holds(self, rows: Rows) -> NDArray[np.bool_]:
        """bool[R]; false for rows that have no such label."""
        there = np.diff(rows.label_first) > self.position
        holds = np.zeros(len(rows), np.bool_)
        labels = rows.label[rows.label_first[:-1][there] + self.position]
        holds[there] = _COMPARE[self.compare](labels, np.float32(self.value))
        return holds


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What a conversion leaves out.

    Attributes:
        labels: tests that a row has to pass, all of them.
        has: names of features that a row must have with a value.
        lacks: names of features that a row must not have with a value.
        negative: which rows are negatives.
        negative_rate: the share of them that is taken; None: all, and sample rates stay.
        seed: of the choice among negatives.
        features: patterns of names, of which a feature must match one; none: all are taken.
        drop_features: patterns of names that are left out.
        drop_raw: leave raw features out.
        drop_unset: leave features without a value out.
        matched: names and patterns of these that features had; filled by `apply`.
    """

    labels: tuple[LabelTest, ...] = ()
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    negative: LabelTest = field(
        default_factory=lambda: LabelTest(position=0, compare="<=", value=0.0)
    )
    negative_rate: float | None = None
    seed: int = 0
    features: tuple[str, ...] = ()
    drop_features: tuple[str, ...] = ()
    drop_raw: bool = False
    drop_unset: bool = False
    matched: set[str] = field(default_factory=set, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.negative_rate is not None and not 0 < self.negative_rate <= 1:
            problem = f"the share of negatives is {self.negative_rate:g}"
            raise ConversionError("", problem, "it must be above 0 and at most 1")

    @cached_property
    def are_any(self) -> bool:
        """Whether anything is left out or changed."""
        return self != Filters(seed=self.seed, negative=self.negative)

    def apply(self, rows: Rows, stream: str, dropped: Counter[str]) -> Rows:
        """The rows that are left, with the features that are left."""
        if not self.are_any:
            return rows
        self._note_matched(rows)
        keep = self._keep(rows, stream, dropped)
        negatives = self.negative.holds(rows)[keep] if self.negative_rate is not None else None
        left = rows.chosen(keep, self._features(rows))
        return left if negatives is None else self._scale_sample_rates(left, negatives)

    def unmatched(self) -> tuple[str, ...]:
        """Names and patterns that no feature of the rows so far had."""
        given = (*self.has, *self.lacks, *self.features, *self.drop_features)
        return tuple(one for one in given if one not in self.matched)

    def _note_matched(self, rows: Rows) -> None:
        names = {name.decode() for name in rows.names}
        self.matched.update(names.intersection((*self.has, *self.lacks)))
        for pattern in {*self.features, *self.drop_features} - self.matched:
            if any(fnmatchcase(name, pattern) for name in names):
                self.matched.add(pattern)

    def _keep(self, rows: Rows, stream: str, dropped: Counter[str]) -> NDArray[np.bool_]:
        keep = np.ones(len(rows), np.bool_)
        for reason, passes in self._tests(rows, stream):
            dropped[reason] += int((keep & ~passes).sum())
            keep &= passes
        return keep

    def _tests(self, rows: Rows, stream: str) -> list[tuple[str, NDArray[np.bool_]]]:
        tests = [("label", test.holds(rows)) for test in self.labels]
        tests += [("has", _has_feature(rows, name)) for name in self.has]
        tests += [("lacks", ~_has_feature(rows, name)) for name in self.lacks]
        if self.negative_rate is not None:
            taken = _random_shares(rows, stream, self.seed) < self.negative_rate
            tests.append(("negative", taken | ~self.negative.holds(rows)))
        return tests

    def _features(self, rows: Rows) -> NDArray[np.bool_] | None:
        keep = np.array([self._takes(name.decode()) for name in rows.names], np.bool_)[rows.name]
        if self.drop_raw:
            keep &= ~rows.raw
        if self.drop_unset:
            keep &= rows.stop > rows.start
        return keep

    def _takes(self, name: str) -> bool:
        if self.features and not _matches(name, self.features):
            return False
        return not _matches(name, self.drop_features)

    def _scale_sample_rates(self, rows: Rows, negatives: NDArray[np.bool_]) -> Rows:
        """Negatives say with which rate they were taken, times the one that they had."""
        from ingot.converters.recsys.monolith.line_ids import decode_line_ids, with_sample_rate

        lines = decode_line_ids(rows)
        before = np.where(lines.given["sample_rate"], lines.numbers["sample_rate"], np.float32(1))
        rate = (before * np.float32(self.negative_rate)).astype(np.float32)
        return with_sample_rate(rows, rate, negatives)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _has_feature(rows: Rows, name: str) -> NDArray[np.bool_]:
    """bool[R], which rows have a feature with a value."""
    wanted = np.array([one == name.encode() for one in rows.names], np.bool_)
    entries = wanted[rows.name] & (rows.stop > rows.start)
    has = np.zeros(len(rows), np.bool_)
    has[rows.entry_row[entries]] = True
    return has


def _random_shares(rows: Rows, stream: str, seed: int) -> NDArray[np.float64]:
    """float64[R] in [0, 1), random by seed, stream and a row's place in it.

    The same rows are chosen whatever else is converted beside them.
    """
    start = xxhash.xxh64_intdigest(stream.encode(), seed=seed)
    row = np.maximum(rows.row, 0).astype(np.uint64)
    place = rows.record.astype(np.uint64) << np.uint64(20) ^ row
    mixed = _splitmix64(_splitmix64(place) + np.uint64(start)) >> np.uint64(11)
    return mixed.astype(np.float64) * 2.0**-53


def _splitmix64(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))
