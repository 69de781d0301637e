"""The rules of the processed contract by number, and what a validation finds.

The first figure is the section of the contract; 0 is its preamble, what the decisions add stands in
the section that it settles. `docs/ctr.md` holds the same table, and a test compares the two.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.json_yaml import shorten_text


@dataclass(frozen=True)
class Rule:
    """One rule."""

    number: str
    wants: str
    # whether the contract's text leaves it open, so that it holds for files that carry a profile,
    # and is not checked in other writers' files
    decided: bool = False


RULES: Final = (
    Rule("R0.1", "train/ and valid/ are there, each with a Parquet file"),
    Rule("R0.2", "every file can be read to its end"),
    Rule("R0.3", "only the declared columns exist, each once"),
    Rule("R1.1", "the six columns of labels and ids are there"),
    Rule("R1.2", "y_ctr, y_cvr, y_ctcvr, click_mask are float32 scalars"),
    Rule("R1.3", "row_id is an int64 scalar, entity_id a string"),
    Rule("R1.4", "labels and click_mask are 0 or 1"),
    Rule("R1.5", "y_ctcvr is y_ctr * y_cvr"),
    Rule("R1.6", "click_mask is y_ctr (clicked), or 1 (exposed)", decided=True),
    Rule("R1.7", "with funnel drop or coerce, no row has y_cvr 1 and y_ctr 0", decided=True),
    Rule("R1.8", "every row_id is unique over all splits"),
    Rule("R1.9", "row_id is not negative and rises in a split", decided=True),
    Rule("R1.10", "no entity in both splits", decided=True),
    Rule("R1.11", "the hash of entity_id decides the split: train or valid", decided=True),
    Rule("R2.1", "every feature has its _idx column"),
    Rule("R2.2", "a feature with use_value has its _val column"),
    Rule("R2.3", "a feature without use_value has no _val column"),
    Rule("R2.4", "scalars for single-value features, lists for those with max_len"),
    Rule("R2.5", "_idx holds int64, _val float32"),
    Rule("R2.6", "lists are at most max_len long"),
    Rule("R2.7", "the lists of _idx and _val of a row are equally long"),
    Rule("R3.1", "no list is empty; a missing token is written as [1]"),
    Rule("R3.2", "the missing id 1 stands alone in its list"),
    Rule("R3.3", "the value beside the missing id is 1.0"),
    Rule("R3.4", "the padding id 0 is in no file"),
    Rule("R3.5", "ids are not negative and below the feature's number of ids"),
    Rule("R3.6", "id 2 appears only for a token out of the vocabulary, or for hash 0"),
    Rule("R3.7", "values are finite", decided=True),
    Rule("R3.8", "no list holds an id of the vocabulary twice", decided=True),
    Rule(
        "R3.9", "every id in the range of the vocabulary belongs to a token in vocab/", decided=True
    ),
    Rule("R5.1", "no cell and no element is null"),
    Rule("R7.1", "featuremap.yaml is there and valid"),
    Rule("R7.2", "the profile of every file matches the featuremap", decided=True),
    Rule("R7.3", "vocab/ lists each token once, by falling count, with its id", decided=True),
    Rule("R7.4", "the counts in stats.json add up and match the files", decided=True),
    Rule("R7.5", "manifest.json matches the files in size and SHA-256", decided=True),
)
NUMBERS: Final = tuple(rule.number for rule in RULES)

NOT_CHECKED: Final = (
    "whether labels, ids and values match the raw data: the raw data is not read",
    "whether the right tokens of a list were kept, in the right order, when it was cut to max_len",
    "whether a list of hashed ids repeats a token: two tokens can have the same hash",
    "R3.6, R3.8, R3.9 of hybrid features with tail_ids contract: hashes share the vocabulary's ids",
    "whether rows with click_mask 1 were really shown: every raw row counts as an impression",
    "the batches of the loader: they are not files",
)
"""What files alone cannot show."""

Mask = NDArray[np.bool_]
_LONGEST = 200  # characters of what was found
PASSED, BROKEN, SKIPPED = "passed", "broken", "not checked"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a rule is broken."""

    file: str
    row: int | None = None  # its number from 0 in the file, None where it is about no row
    column: str | None = None  # its name, None where it is about no column
    found: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", shorten_text(self.found, _LONGEST))


@dataclass(kw_only=True)
class Findings:
    """Collects what is broken; holds `max_shown` places of a rule at most."""

    max_shown: int = 3
    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[Place]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def add(self, rule: str, place: Place) -> None:
        """Note that a rule is broken at a place."""
        self.add_several(rule, 1, [place])

    def add_several(self, rule: str, count: int, places: Iterable[Place]) -> None:
        """Note that a rule is broken `count` times; no more places are taken than are kept."""
        if not count:
            return
        self.counts[rule] += count
        shown = self.places.setdefault(rule, [])
        shown.extend(islice(places, self.max_shown - len(shown)))

    def rows(
        self,
        rule: str,
        start: "BatchStart",
        column: str,
        mask: Mask,
        found: Callable[[int], object],
    ) -> None:
        """Note every row of a batch where `mask` is true."""
        rows = np.flatnonzero(mask)
        places = (
            Place(file=start.file, row=start.row + i, column=column, found=str(found(i)))
            for i in map(int, rows)
        )
        self.add_several(rule, len(rows), places)

    def skip(self, rule: str, reason: str) -> None:
        """Note that a rule could not be checked; the first reason stays."""
        self.skipped.setdefault(rule, reason)


@dataclass(frozen=True, kw_only=True)
class BatchStart:
    """Where a batch begins: its file and the number of its first row there."""

    file: str
    row: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a rule."""

    rule: Rule
    state: str
    count: int
    places: tuple[Place, ...]
    why: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a validation says."""

    folder: str
    profile: dict[str, object] | None  # what the files say of themselves
    rows: dict[str, int]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """Return the rules that do not hold."""
        return tuple(one for one in self.verdicts if one.state == BROKEN)

    def to_document(self) -> dict[str, object]:
        """Return the report as JSON."""
        return {
            "folder": self.folder,
            "profile": self.profile,
            "rows": self.rows,
            "broken": [one.rule.number for one in self.broken],
            "rules": [
                {
                    "rule": one.rule.number,
                    "wants": one.rule.wants,
                    "state": one.state,
                    "count": one.count,
                    "why": one.why,
                    "places": [asdict(place) for place in one.places],
                }
                for one in self.verdicts
            ],
            "notes": list(self.notes),
            "not_checkable": list(NOT_CHECKED),
        }


def rule_verdicts(findings: Findings) -> tuple[Verdict, ...]:
    """Return a verdict on every rule."""
    verdicts = []
    for rule in RULES:
        count, reason = findings.counts[rule.number], findings.skipped.get(rule.number, "")
        state = BROKEN if count else SKIPPED if reason else PASSED
        places = tuple(findings.places.get(rule.number, ()))
        verdicts.append(Verdict(rule=rule, state=state, count=count, places=places, why=reason))
    return tuple(verdicts)
