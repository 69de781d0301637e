"""What a validation finds: broken rules with counts and first places, and what was not checked."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.ctr.checking.rules import NOT_CHECKED, RULES, Rule
from ingot.converters.rows import Json

Mask = NDArray[np.bool_]
_LONGEST = 200  # characters of what was found
PASSED, BROKEN, SKIPPED = "passed", "broken", "not checked"
STATES: Final = (PASSED, BROKEN, SKIPPED)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a rule is broken.

    Attributes:
        file: its path in the folder.
        row: its number from 0 in the file, None where it is about no row.
        column: its name, None where it is about no column.
        found: what is there, shortened.
    """

    file: str
    row: int | None = None
    column: str | None = None
    found: str = ""

    def __post_init__(self) -> None:
        if len(self.found) > _LONGEST:
            object.__setattr__(self, "found", self.found[: _LONGEST - 1] + "…")


@dataclass(kw_only=True)
class Findings:
    """Collects what is broken; holds `max_shown` places of a rule at most.

    Attributes:
        max_shown: places that are kept of each rule.
        counts: how often each rule is broken.
        places: the first places of each broken rule.
        skipped: why a rule was not checked, or not everywhere, by its number.
    """

    max_shown: int = 3
    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[Place]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def add(self, rule: str, place: Place) -> None:
        """Notes that a rule is broken at a place."""
        self.several(rule, 1, [place])

    def several(self, rule: str, count: int, places: Iterable[Place]) -> None:
        """Notes that a rule is broken `count` times; no more places are taken than are kept."""
        if not count:
            return
        self.counts[rule] += count
        kept = self.places.setdefault(rule, [])
        kept.extend(islice(places, self.max_shown - len(kept)))

    def rows(
        self, rule: str, at: "At", column: str, bad: Mask, found: Callable[[int], object]
    ) -> None:
        """Notes every row of a batch where `bad` is true.

        Args:
            rule: its number.
            at: file and first row of the batch.
            column: its name.
            bad: bool[n], a row each.
            found: what stands in row i of the batch.
        """
        rows = np.flatnonzero(bad)
        places = (
            Place(file=at.file, row=at.row + i, column=column, found=str(found(i)))
            for i in map(int, rows)
        )
        self.several(rule, len(rows), places)

    def skip(self, rule: str, why: str) -> None:
        """Notes that a rule could not be checked; the first reason stays."""
        self.skipped.setdefault(rule, why)


@dataclass(frozen=True, kw_only=True)
class At:
    """Where a batch begins: its file and the number of its first row there."""

    file: str
    row: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a rule.

    Attributes:
        rule: the rule.
        state: one of `STATES`.
        count: how often it is broken: rows, elements of lists, files, or figures that differ.
        places: the first of them.
        why: why it was not checked, or where it was not.
    """

    rule: Rule
    state: str
    count: int
    places: tuple[Place, ...]
    why: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a validation says.

    Attributes:
        folder: as it was named.
        profile: what the files say of themselves, None where they say nothing.
        rows: of each split.
        verdicts: one per rule, in order.
        notes: what else a reader has to know.
    """

    folder: str
    profile: dict[str, Json] | None
    rows: dict[str, int]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """The rules that do not hold."""
        return tuple(one for one in self.verdicts if one.state == BROKEN)

    def to_document(self) -> dict[str, Json]:
        """The report as JSON."""
        return {
            "folder": self.folder,
            "profile": self.profile,
            "rows": self.rows,
            "broken": [one.rule.number for one in self.broken],
            "rules": [_verdict(one) for one in self.verdicts],
            "notes": list(self.notes),
            "not_checkable": list(NOT_CHECKED),
        }


def _verdict(one: Verdict) -> dict[str, Json]:
    return {
        "rule": one.rule.number,
        "wants": one.rule.wants,
        "state": one.state,
        "count": one.count,
        "why": one.why,
        "places": [asdict(place) for place in one.places],
    }


def verdicts(found: Findings) -> tuple[Verdict, ...]:
    """A verdict on every rule."""
    return tuple(_judge(rule, found) for rule in RULES)


def _judge(rule: Rule, found: Findings) -> Verdict:
    count = found.counts[rule.number]
    why = found.skipped.get(rule.number, "")
    state = BROKEN if count else SKIPPED if why else PASSED
    places = tuple(found.places.get(rule.number, ()))
    return Verdict(rule=rule, state=state, count=count, places=places, why=why)
