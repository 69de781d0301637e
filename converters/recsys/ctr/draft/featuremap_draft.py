"""Draft a featuremap for a plain table from the statistics of a sample of it.

A column that gives a label away, as it is known only after that, is found by its values.
"""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingot.converters.errors import ReviewNeeded, SourceError
from ingot.converters.recsys.ctr.draft import feature_choice as roles
from ingot.converters.recsys.ctr.draft.column_profile import (
    Profile,
    Sample,
    read_stretches,
    take_sample,
)
from ingot.converters.recsys.ctr.featuremap import FeatureMap, parse
from ingot.converters.recsys.ctr.settings import ChosenColumns
from ingot.converters.recsys.ctr.table import table_cells as read

_NO_COLUMNS: Final = ChosenColumns()
ROWS: Final = 200_000  # of the sample by default, and at most compared with the labels


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A proposed featuremap."""

    text: str
    featuremap: FeatureMap
    decisions: tuple[roles.Decision, ...]
    doubts: tuple[str, ...]
    rows: int
    whole: bool

    def to_json(self) -> dict[str, Any]:
        """Return the decisions and doubts as plain JSON."""
        return {
            "rows": self.rows,
            "whole": self.whole,
            "columns": [asdict(one) for one in self.decisions],
            "doubts": list(self.doubts),
        }


def draft(path: str, *, rows: int | None = ROWS, chosen: ChosenColumns = _NO_COLUMNS) -> Draft:
    """Propose a featuremap."""
    sample = take_sample(path, rows)
    table_roles, doubts = _find_roles(path, sample, chosen)
    separators = roles.separators_of(sample.profiles)
    role_by_column = {one.column: one.role for one in table_roles.decisions}
    for name in chosen.features:
        _named_profile(path, sample.profiles, name)
    labels = [one.name for one in (table_roles.click, table_roles.conversion) if one]
    leaks = _find_leaks(path, sample.profiles, labels, rows)
    features = roles.choose_features(
        sample, role_by_column, separators, leaks, chosen.features, doubts
    )
    decisions = [*table_roles.decisions, *features]
    if not any(one.feature for one in decisions):
        raise ReviewNeeded(path, "no column is left that could be a feature", "is it a CTR log?")
    table = _table_lines(sample, table_roles, separators)
    text = roles.draft_yaml(path, sample, table, decisions)
    return Draft(
        text=text,
        featuremap=parse(text, path),
        decisions=tuple(decisions),
        doubts=tuple(dict.fromkeys(doubts)),
        rows=sample.rows,
        whole=sample.whole,
    )


@dataclass(frozen=True)
class _Roles:
    click: Profile
    conversion: Profile | None
    entity: Profile
    sample: Profile | None
    decisions: tuple[roles.Decision, ...]


def _find_roles(path: str, sample: Sample, chosen: ChosenColumns) -> tuple[_Roles, list[str]]:
    profiles = sample.profiles
    click, doubt = _named_profile(path, profiles, chosen.click) or roles.find_click(profiles)
    doubts = [doubt]
    entity, doubt = _named_profile(path, profiles, chosen.entity) or roles.find_entity(profiles)
    if click is None or entity is None:
        missing, hints = [], []
        if click is None:
            candidates = ", ".join(one.name for one in profiles if one.is_label)
            missing.append("the click")
            hints.append(f"`click` (a column of 0 and 1: {candidates or 'no column'})")
        if entity is None:
            missing.append("the entity, by which rows are split")
            hints.append("`entity`, such as the user's id")
        problem = f"no column is plainly {', and none '.join(missing)}"
        raise ReviewNeeded(path, problem, f"name it: {'; '.join(hints)}")
    doubts.append(doubt)
    named = _named_profile(path, profiles, chosen.conversion)
    conversion = named[0] if named else roles.find_conversion(profiles, click)
    if conversion is None:
        doubts.append("no column is plainly a conversion: y_cvr is 0 in every row (`conversion`)")
        doubts += roles.unfilled_conversions(profiles, click)
    named = _named_profile(path, profiles, chosen.sample)
    unique = named[0] if named else roles.find_sample(profiles, entity)
    for label in (click, conversion):
        doubts += _label_problem(path, label) if label else []
    decisions = [
        roles.Decision(
            column=one.name, role=role, why=f"{100 * one.labels[1] / max(1, one.rows):.3g} % are 1"
        )
        for role, one in (("click", click), ("conversion", conversion))
        if one
    ]
    decisions.append(
        roles.Decision(column=entity.name, role="entity", why=roles.cardinality(entity))
    )
    if unique:
        reason = (
            f"{roles.cardinality(unique)}, none of them twice" if not named else "as it was said"
        )
        decisions.append(roles.Decision(column=unique.name, role="sample", why=reason))
    table_roles = _Roles(click, conversion, entity, unique, tuple(decisions))
    return table_roles, [one for one in doubts if one]


def _named_profile(
    path: str, profiles: Sequence[Profile], name: str | None
) -> tuple[Profile | None, str] | None:
    """The profile of a column that a person named; None where none was."""
    if name is None:
        return None
    names = [one.name for one in profiles]
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
        raise SourceError(path, f"no column {name}", f"nearest: {close[0]}" if close else "")
    return profiles[names.index(name)], ""


def _label_problem(path: str, label: Profile) -> list[str]:
    negatives, positives, invalid = label.labels
    if invalid > 0.05 * label.rows or not label.rows:
        counts_text = f"{invalid:,} of {label.rows:,} values are neither 0 nor 1"
        problem = f"column {label.name} cannot be a label: {counts_text}"
        raise SourceError(path, problem, "name another column, or create one of 0 and 1")
    doubts = []
    if invalid:
        doubts.append(
            f"{label.name}: {invalid:,} cells are neither 0 nor 1: their rows are rejects"
        )
    if not positives or not negatives:
        doubts.append(f"{label.name} has only {'ones' if positives else 'zeros'} in the sample")
    return doubts


def _table_lines(
    sample: Sample, table_roles: _Roles, separators: roles.Separators
) -> list[tuple[str, Any, str]]:
    """The keys of `table` with their values, and why."""
    reasons = {one.role: one.why for one in table_roles.decisions}
    conversion = table_roles.conversion.name if table_roles.conversion else None
    lines: list[tuple[str, Any, str]] = [
        ("entity_id", table_roles.entity.name, reasons["entity"]),
        ("y_ctr", table_roles.click.name, reasons["click"]),
        ("y_cvr", conversion, reasons.get("conversion", "no column is one")),
    ]
    if table_roles.sample:
        lines.append(("sample_id", table_roles.sample.name, reasons["sample"]))
    if separators.token:
        lines.append(("token_separator", separators.token, "in lists"))
    if separators.value:
        lines.append(("value_separator", separators.value, "before a value"))
    missing = Counter[str]()
    for one in sample.profiles:
        missing.update({text: count for text, count in one.missing_texts.items() if count})
    if missing:
        counts_text = ", ".join(f"{text} {count:,}" for text, count in sorted(missing.items()))
        lines.append(("missing", ["", *sorted(missing)], f"cells: {counts_text}"))
    return lines


_LEAST = 5  # rows of a value or label: fewer agree by chance
_LEAST_ROWS = 50
_MOST_VALUES = 0.2  # of the rows: more values than that are ids
_NEARLY_ALL = 0.99
# Rows of the other label that chance would give; none is seen then once in a million columns.
_BY_CHANCE = 14.0


def _find_leaks(
    path: str, profiles: Sequence[Profile], labels: Sequence[str], rows: int | None
) -> dict[str, str]:
    """Return why a column gives a label away, for each that does, from the first rows of a table.

    Such a column determines a label (each of its values, or each side of a threshold, has one), or
    it is filled, or other than 0, only where a label is 1.
    """
    profiles = [one for one in profiles if one.name not in labels and not one.shape.unread]
    columns = {one.name: _Column(one, len(labels)) for one in profiles}
    label_blocks: list[NDArray[np.int8]] = []  # int8[labels, rows]
    names = [*labels, *columns]
    for batch, _ in read_stretches(path, names, ROWS if rows is None else min(rows, ROWS)):
        label_blocks.append(np.stack([read.read_labels(batch[name], name) for name in labels]))
        for name, column in columns.items():
            column.add(batch[name], label_blocks[-1], f"{path}: column {name}")
    all_labels = (
        np.concatenate(label_blocks, axis=1)
        if label_blocks
        else np.empty((len(labels), 0), np.int8)
    )
    leaks = {}
    for name, column in columns.items():
        reasons = (
            column.reason(label_number, one, all_labels[label_number])
            for label_number, one in enumerate(labels)
        )
        if (reason := next(filter(None, reasons), None)) is not None:
            leaks[name] = reason
    return leaks


class _Column:
    """What the cells of a column are beside every label."""

    def __init__(self, profile: Profile, labels: int) -> None:
        shape = (labels, 2)
        self.profile = profile
        self.filled = np.zeros(shape, np.int64)  # cells with a token
        self.active = np.zeros(shape, np.int64)  # those other than 0
        self.low, self.high = np.full(shape, np.inf), np.full(shape, -np.inf)  # of the numbers
        self.coded: list[pa.DictionaryArray] = []

    def add(self, cells: pa.Array, labels: NDArray[np.int8], where: str) -> None:
        """Compare a stretch of the column with its labels, int8[labels, rows]."""
        filled = np.diff(read.read_tokens(cells, self.profile.cell_format(), where).offsets) > 0
        active, numbers = filled, None
        if not self.profile.shape.nested:
            texts = read.cell_texts(cells, where)
            active = filled & ~read.is_among(texts, read.FALSE)
            if self.profile.tokens.distinct <= _MOST_VALUES * self.profile.rows:
                self.coded.append(texts.fill_null(b"").dictionary_encode())
            if self.profile.shape.number and (numbers := _numbers(texts)) is not None:
                active &= numbers != 0
        for number, label_values in enumerate(labels):
            for label in (0, 1):
                rows = label_values == label
                self.filled[number, label] += int((filled & rows).sum())
                self.active[number, label] += int((active & rows).sum())
                if numbers is None or not (known := numbers[rows & ~np.isnan(numbers)]).size:
                    continue
                self.low[number, label] = min(self.low[number, label], known.min())
                self.high[number, label] = max(self.high[number, label], known.max())

    def reason(self, number: int, label: str, label_values: NDArray[np.int8]) -> str | None:
        """Return how the column leaks a label, None if it does not."""
        counts = np.array([(label_values == 0).sum(), (label_values == 1).sum()])
        if counts.min() < _LEAST or counts.sum() < _LEAST_ROWS:
            return None
        (low, high), filled = (self.low[number], self.high[number]), self.filled[number]
        for state, counted in (("filled", filled), ("other than 0", self.active[number])):
            expected = counted.sum() * counts[0] / counts.sum()
            is_rare = (
                counted[0] <= (1 - _NEARLY_ALL) * counted.sum() and counted[0] <= 0.05 * expected
            )
            if counted[1] >= _LEAST and expected >= _BY_CHANCE and is_rare:
                share = f"{counted[1]:,} of {counted.sum():,} such rows"
                return f"tells {label}: it is {state} only where {label} is 1 ({share})"
        if self.coded and _determines(self.coded, label_values):
            return f"tells {label}: each of its values stands beside one value of {label} only"
        disjoint = np.isfinite(low).all() and (high[0] < low[1] or high[1] < low[0])
        if filled.min() >= _LEAST and filled.sum() >= _LEAST_ROWS and disjoint:
            spans = (f"{low[one]:g} to {high[one]:g} where {label} is {one}" for one in (0, 1))
            return f"tells {label}: its numbers are {' and '.join(spans)}"
        return None


def _determines(coded: Sequence[pa.DictionaryArray], label_values: NDArray[np.int8]) -> bool:
    """Whether every value has one label: for nearly all rows of label 0, and of label 1."""
    unified = pa.chunked_array(coded).unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in unified.chunks])
    values = len(unified.chunk(0).dictionary)
    known = label_values >= 0
    rows = np.bincount(codes[known], minlength=values)
    positives = np.bincount(codes[known], label_values[known], values)
    frequent = rows >= _LEAST
    positives_determined, negatives_determined = (
        positives[frequent & (positives == rows)].sum(),
        rows[frequent & (positives == 0)].sum(),
    )
    negatives = rows.sum() - positives.sum()
    return bool(
        positives_determined >= _NEARLY_ALL * positives.sum()
        and negatives_determined >= _NEARLY_ALL * negatives
    )


def _numbers(texts: pa.LargeBinaryArray) -> NDArray[np.float64] | None:
    """float64[n], NaN where a cell is empty; None where a cell is no number."""
    missing = read.is_among(texts, (b"",))
    try:
        nullable = pc.if_else(pa.array(missing), pa.scalar(None, texts.type), texts)
        numbers = nullable.cast(pa.large_string()).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
