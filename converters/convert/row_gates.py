"""Gates on all rows: what a conversion counted is held against the limits of the gates.

A mapping that nobody approved is stopped before the commit; its staged parts stay. Who approves
exactly these counts commits them without reading a row again.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from ingot.converters.convert.result import Counts
from ingot.converters.errors import CountsReviewNeeded
from ingot.converters.mapping.check import MAX_UNREADABLE, MIN_COVERAGE
from ingot.converters.mapping.rows.executor import SOFT_REASONS
from ingot.converters.mapping.signs import exceeds, sign_text

# By gate the rows that a person approved; None: any number, as the sample shows them too.
Approved = Mapping[str, int | None]
_FAULTS: Final = "rejected"
_UNREADABLE: Final = "unreadable"


def refuse_unapproved(
    counts: Counts, approved: Approved | None, where: str, *, documents: bool
) -> dict[str, int]:
    """Stop where a gate's limit is passed by more rows than a person approved; return what was.

    Raises CountsReviewNeeded, whose counts are to be approved.
    """
    if approved is None:  # a person answers for the mapping
        return {}
    passed = {name: (rows, text) for name, rows, text in _passed_gates(counts, documents=documents)}
    beyond = [
        name
        for name, (rows, _) in passed.items()
        if (most := approved.get(name, 0)) is not None and rows > most
    ]
    asked = {name: rows for name, (rows, _) in passed.items()}
    if not beyond:
        return asked
    said = "; ".join(passed[name][1] for name in beyond)
    problem = f"a gate on all {counts.rows['read']:,} rows stops it: {said}"
    raise CountsReviewNeeded(where, problem, "", asked)


def _passed_gates(counts: Counts, *, documents: bool) -> Iterator[tuple[str, int, str]]:
    """Each gate whose limit is passed: its name, the count, and what people read of it."""
    written = counts.records["written"]
    for name, found in counts.signs.items():
        if exceeds(name, found["rows"], counts.rows["converted"], documents=documents):
            yield name, found["rows"], sign_text(name, found)
    unreadable = counts.rejects["bad_row"] + counts.rejects["bad_json"]
    if unreadable > MAX_UNREADABLE * counts.rows["read"]:
        text = f"{unreadable:,} rows cannot be read (limit: {MAX_UNREADABLE:.0%})"
        yield _UNREADABLE, unreadable, text
    soft = sum(counts.rejects[reason] for reason in SOFT_REASONS)
    faults = counts.records["rejected"] - unreadable - soft
    tried = written + faults + soft + counts.records["filtered"]
    if faults > (1 - MIN_COVERAGE) * tried:
        text = f"{faults:,} of {tried:,} records were rejected (limit: {1 - MIN_COVERAGE:.0%})"
        yield _FAULTS, faults, text
