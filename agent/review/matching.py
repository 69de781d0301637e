"""The records of two mappings on one sample, matched: which are the same, changed, lost, gained.

Records are matched by file, row and element. Where the facts about the files differ, rows have
other numbers or are other rows: they are matched by their order in each file if both mappings read
as many rows of every file, else records are only looked for by what they say.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ingot.agent.trial import Trial
from ingot.converters.check import sample_batches
from ingot.converters.paths import Node
from ingot.converters.rows import Batch
from ingot.converters.unify import Record, Unifier

Key = tuple[str, int, int]
Kind = Literal["changed", "lost", "gained"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A record with its place.

    Attributes:
        key: file, number of the row among the sampled rows of the file, element of the row.
        place: the same as people read it, with the row's number in the file where it is known.
        record: the unified record.
    """

    key: Key
    place: str
    record: Record


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A place at which the records of both mappings are not the same."""

    kind: Kind
    place: str
    old: Record | None
    new: Record | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Matched:
    """What became of the old mapping's records.

    Attributes:
        by_place: whether they were matched by place, not by what they say.
        same: records that are the same.
        of: places at which there is a record of either side.
        differences: all others, in the order of the sample.
    """

    by_place: bool
    same: int
    of: int
    differences: tuple[Difference, ...]

    def count(self, kind: Kind) -> int:
        """How many differences there are of one kind."""
        return sum(one.kind == kind for one in self.differences)


def placed(trial: Trial, *, source_name: str) -> list[Placed]:
    """The records that a mapping makes of its sample, in order."""
    unifier = Unifier(trial.mapping, source_name=source_name)
    if trial.mapping.kind == "irrelevant":
        return []
    seen: Counter[str] = Counter()
    found: list[Placed] = []
    for batch in sample_batches(trial.sample, trial.mapping):
        for at in range(len(batch.rows)):
            found += _row(unifier, batch, at, seen[batch.file] + at)
        seen[batch.file] += len(batch.rows)
    return found


def _row(unifier: Unifier, batch: Batch, at: int, number: int) -> Iterator[Placed]:
    """The records of one row; elements that gave none keep their number."""
    key = batch.keys[at] if batch.keys is not None else batch.rows[at]
    records, failed = unifier.row(Node(batch.values[at], key))
    without = {element for element, _ in failed}
    elements = [n for n in range(len(records) + len(failed)) if n not in without]
    several = len(records) + len(failed) > 1
    for element, record in zip(elements, records, strict=False):
        place = f"{batch.file} row {batch.rows[at]}" if batch.rows[at] >= 0 else batch.file
        yield Placed(
            key=(batch.file, number, element),
            place=f"{place}, element {element}" if several else place,
            record=record,
        )


def matched(
    old: Sequence[Placed], new: Sequence[Placed], *, rows: tuple[Counter[str], Counter[str]]
) -> Matched:
    """Compare the records of two mappings.

    Args:
        old: those of the old mapping.
        new: those of the new mapping.
        rows: how many rows of each file either of them was run on.
    """
    return _by_place(old, new) if rows[0] == rows[1] else _by_content(old, new)


def sampled_rows(trial: Trial) -> Counter[str]:
    """How many rows, or groups of rows, of each file a mapping is run on."""
    counts: Counter[str] = Counter()
    for batch in sample_batches(trial.sample, trial.mapping):
        counts[batch.file] += len(batch.rows)
    return +counts


def _by_place(old: Sequence[Placed], new: Sequence[Placed]) -> Matched:
    before, after = ({one.key: one for one in side} for side in (old, new))
    files = {file: n for n, file in enumerate(dict.fromkeys(one.key[0] for one in (*old, *new)))}
    keys = sorted({*before, *after}, key=lambda key: (files[key[0]], *key[1:]))
    told = [_difference(before.get(key), after.get(key)) for key in keys]
    unlike = tuple(one for one in told if one is not None)
    return Matched(by_place=True, same=len(keys) - len(unlike), of=len(keys), differences=unlike)


def _difference(old: Placed | None, new: Placed | None) -> Difference | None:
    """What differs at a place, None where nothing does."""
    if old is None:
        return Difference(kind="gained", place=new.place, old=None, new=new.record) if new else None
    if new is None:
        return Difference(kind="lost", place=old.place, old=old.record, new=None)
    if old.record == new.record:
        return None
    return Difference(kind="changed", place=new.place, old=old.record, new=new.record)


def _by_content(old: Sequence[Placed], new: Sequence[Placed]) -> Matched:
    """Records that say the same are the same, wherever they stand."""
    before, after = (Counter(map(_said, side)) for side in (old, new))
    same = (before & after).total()
    lost = [
        Difference(kind="lost", place=one.place, old=one.record, new=None)
        for one in _beyond(old, after)
    ]
    gained = [
        Difference(kind="gained", place=one.place, old=None, new=one.record)
        for one in _beyond(new, before)
    ]
    unlike = (*lost, *gained)
    return Matched(by_place=False, same=same, of=same + len(unlike), differences=unlike)


def _said(one: Placed) -> str:
    return json.dumps(one.record, sort_keys=True)


def _beyond(side: Iterable[Placed], other: Counter[str]) -> Iterator[Placed]:
    """The records that the other side has not, or not as often."""
    left = Counter(other)
    for one in side:
        if left[_said(one)]:
            left[_said(one)] -= 1
        else:
            yield one
