"""Match the records of two mappings on one sample: the same, changed, lost, gained.

Records are matched by file, row and element. If the facts about the files differ, rows have other
numbers or are other rows: they are matched by their order in each file if both mappings read as
many rows of every file, else only by their content.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ingot.agent.judging.trial import Trial
from ingot.converters.mapping.check import sample_batches
from ingot.converters.mapping.rows.executor import Record, RowExecutor
from ingot.converters.paths import Node
from ingot.converters.rows import Batch

Key = tuple[str, int, int]
Kind = Literal["changed", "lost", "gained"]


class PlacedRecord(NamedTuple):
    """A record with its place.

    The key is its file, the number of its row among the sampled rows of the file, and the element
    of the row; `place` says the same in words, with the number of the row in the file if known.
    """

    key: Key
    place: str
    record: Record


class Difference(NamedTuple):
    """A place at which the records of both mappings are not the same."""

    kind: Kind
    place: str
    old: Record | None
    new: Record | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordMatch:
    """What became of the old mapping's records: `same` of `of` places have the same record.

    Records were matched by place, or else by their content. The differences are in the order of the
    sample.
    """

    by_place: bool
    same: int
    of: int
    differences: tuple[Difference, ...]

    def count(self, kind: Kind) -> int:
        """Count the differences of one kind."""
        return sum(one.kind == kind for one in self.differences)


def place_records(trial: Trial, *, source_name: str) -> list[PlacedRecord]:
    """Return the records that a mapping makes of its sample, in order."""
    unifier = RowExecutor(trial.mapping, source_name=source_name)
    if trial.mapping.kind == "irrelevant":
        return []
    seen: Counter[str] = Counter()
    found: list[PlacedRecord] = []
    for batch in sample_batches(trial.sample, trial.mapping):
        for at in range(len(batch.rows)):
            found += _row_records(unifier, batch, at, seen[batch.file] + at)
        seen[batch.file] += len(batch.rows)
    return found


def _row_records(
    unifier: RowExecutor, batch: Batch, at: int, number: int
) -> Iterator[PlacedRecord]:
    """Yield the records of one row; elements that gave none keep their number."""
    key = batch.keys[at] if batch.keys is not None else batch.rows[at]
    records, failed = unifier.row(Node(batch.values[at], key))
    without = {element for element, _ in failed}
    elements = [n for n in range(len(records) + len(failed)) if n not in without]
    several = len(records) + len(failed) > 1
    for element, record in zip(elements, records, strict=False):
        place = f"{batch.file} row {batch.rows[at]}" if batch.rows[at] >= 0 else batch.file
        shown = f"{place}, element {element}" if several else place
        yield PlacedRecord((batch.file, number, element), shown, record)


def match_records(
    old: Sequence[PlacedRecord],
    new: Sequence[PlacedRecord],
    *,
    rows: tuple[Counter[str], Counter[str]],
) -> RecordMatch:
    """Compare the records of two mappings."""
    return _match_by_place(old, new) if rows[0] == rows[1] else _match_by_content(old, new)


def count_sampled_rows(trial: Trial) -> Counter[str]:
    """Count the rows, or groups of rows, of each file that a mapping is run on."""
    counts: Counter[str] = Counter()
    for batch in sample_batches(trial.sample, trial.mapping):
        counts[batch.file] += len(batch.rows)
    return +counts


def _match_by_place(old: Sequence[PlacedRecord], new: Sequence[PlacedRecord]) -> RecordMatch:
    before, after = ({one.key: one for one in side} for side in (old, new))
    files = {file: n for n, file in enumerate(dict.fromkeys(one.key[0] for one in (*old, *new)))}
    keys = sorted({*before, *after}, key=lambda key: (files[key[0]], *key[1:]))
    told = [_difference(before.get(key), after.get(key)) for key in keys]
    unlike = tuple(one for one in told if one is not None)
    return RecordMatch(
        by_place=True, same=len(keys) - len(unlike), of=len(keys), differences=unlike
    )


def _difference(old: PlacedRecord | None, new: PlacedRecord | None) -> Difference | None:
    if old is None:
        return Difference("gained", new.place, None, new.record) if new else None
    if new is None:
        return Difference("lost", old.place, old.record, None)
    if old.record == new.record:
        return None
    return Difference("changed", new.place, old.record, new.record)


def _match_by_content(old: Sequence[PlacedRecord], new: Sequence[PlacedRecord]) -> RecordMatch:
    """Match records of the same content, wherever they stand."""
    before, after = (Counter(map(_record_text, side)) for side in (old, new))
    same = (before & after).total()
    unlike = (
        *(Difference("lost", one.place, one.record, None) for one in _surplus_records(old, after)),
        *(
            Difference("gained", one.place, None, one.record)
            for one in _surplus_records(new, before)
        ),
    )
    return RecordMatch(by_place=False, same=same, of=same + len(unlike), differences=unlike)


def _record_text(one: PlacedRecord) -> str:
    return json.dumps(one.record, sort_keys=True)


def _surplus_records(side: Iterable[PlacedRecord], other: Counter[str]) -> Iterator[PlacedRecord]:
    """Yield the records that the other side does not have, or not as often."""
    left = Counter(other)
    for one in side:
        if left[_record_text(one)]:
            left[_record_text(one)] -= 1
        else:
            yield one
