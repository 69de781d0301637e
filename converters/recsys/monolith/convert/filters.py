"""Rows and features that a conversion leaves out, and negatives of which it takes a share."""

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from ingot.converters.recsys.monolith.convert.settings import Filters, LabelTest
from ingot.converters.recsys.monolith.record_index import Rows

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def filter_rows(filters: Filters, rows: Rows, stream: str, dropped: Counter[str]) -> Rows:
    """Return the rows that are left, with the features that are left."""
    if not filters.are_any:
        return rows
    _note_matched(filters, rows)
    keep = _kept_rows(filters, rows, stream, dropped)
    negatives = _holds(filters.negative, rows)[keep] if filters.negative_rate is not None else None
    left = rows.chosen(keep, _kept_features(filters, rows))
    return left if negatives is None else _scale_sample_rates(filters, left, negatives)


def _note_matched(filters: Filters, rows: Rows) -> None:
    names = {name.decode() for name in rows.names}
    filters.matched.update(names.intersection((*filters.has, *filters.lacks)))
    for pattern in {*filters.features, *filters.drop_features} - filters.matched:
        if any(fnmatchcase(name, pattern) for name in names):
            filters.matched.add(pattern)


def _kept_rows(
    filters: Filters, rows: Rows, stream: str, dropped: Counter[str]
) -> NDArray[np.bool_]:
    keep = np.ones(len(rows), np.bool_)
    for reason, passes in _row_tests(filters, rows, stream):
        dropped[reason] += int((keep & ~passes).sum())
        keep &= passes
    return keep


def _row_tests(filters: Filters, rows: Rows, stream: str) -> list[tuple[str, NDArray[np.bool_]]]:
    tests = [("label", _holds(test, rows)) for test in filters.labels]
    tests += [("has", _has_feature(rows, name)) for name in filters.has]
    tests += [("lacks", ~_has_feature(rows, name)) for name in filters.lacks]
    if filters.negative_rate is not None:
        taken = _random_shares(rows, stream, filters.seed) < filters.negative_rate
        tests.append(("negative", taken | ~_holds(filters.negative, rows)))
    return tests


def _kept_features(filters: Filters, rows: Rows) -> NDArray[np.bool_] | None:
    keep = np.array([_takes_feature(filters, name.decode()) for name in rows.names], np.bool_)[
        rows.name
    ]
    if filters.drop_raw:
        keep &= ~rows.raw
    if filters.drop_unset:
        keep &= rows.stop > rows.start
    return keep


def _takes_feature(filters: Filters, name: str) -> bool:
    if filters.features and not _matches(name, filters.features):
        return False
    return not _matches(name, filters.drop_features)


def _scale_sample_rates(filters: Filters, rows: Rows, negatives: NDArray[np.bool_]) -> Rows:
    """Negatives say with which rate they were taken, times the one that they had."""
    from ingot.converters.recsys.monolith.line_ids import decode_line_ids, with_sample_rate

    lines = decode_line_ids(rows)
    before = np.where(lines.given["sample_rate"], lines.numbers["sample_rate"], np.float32(1))
    rate = (before * np.float32(filters.negative_rate)).astype(np.float32)
    return with_sample_rate(rows, rate, negatives)


def _holds(test: LabelTest, rows: Rows) -> NDArray[np.bool_]:
    """Return bool[R]; false for rows that have no such label."""
    there = np.diff(rows.label_first) > test.position
    holds = np.zeros(len(rows), np.bool_)
    labels = rows.label[rows.label_first[:-1][there] + test.position]
    holds[there] = _COMPARE[test.compare](labels, np.float32(test.value))
    return holds


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
