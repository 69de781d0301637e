"""Draft a featuremap for a plain table from the statistics of a sample of it."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ingot.converters.errors import ReviewNeeded, SourceError
from ingot.converters.recsys.ctr.draft import feature_choice as roles
from ingot.converters.recsys.ctr.draft.column_profile import Profile, Sample, take_sample
from ingot.converters.recsys.ctr.draft.label_leaks import find_leaks
from ingot.converters.recsys.ctr.featuremap import FeatureMap, parse
from ingot.converters.recsys.ctr.settings import ChosenColumns

_NO_COLUMNS: Final = ChosenColumns()
ROWS: Final = 200_000


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
        """The decisions and doubts as plain JSON."""
        return {
            "rows": self.rows,
            "whole": self.whole,
            "columns": [asdict(one) for one in self.decisions],
            "doubts": list(self.doubts),
        }


def draft(path: str, *, rows: int | None = ROWS, chosen: ChosenColumns = _NO_COLUMNS) -> Draft:
    """Propose a featuremap."""
    sample = take_sample(path, rows)
    found, doubts = _find_roles(path, sample, chosen)
    separators = roles.separators_of(sample.profiles)
    taken = {one.column: one.role for one in found.decisions}
    for name in chosen.features:
        _named_profile(path, sample.profiles, name)
    labels = [one.name for one in (found.click, found.conversion) if one]
    leaks = find_leaks(path, sample.profiles, labels, rows)
    features = roles.choose_features(sample, taken, separators, leaks, chosen.features, doubts)
    decisions = [*found.decisions, *features]
    if not any(one.feature for one in decisions):
        raise ReviewNeeded(path, "no column is left that could be a feature", "is it a CTR log?")
    table = _table_lines(sample, found, separators)
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
    click, said = _named_profile(path, profiles, chosen.click) or roles.find_click(profiles)
    doubts = [said]
    entity, said = _named_profile(path, profiles, chosen.entity) or roles.find_entity(profiles)
    if click is None or entity is None:
        raise _not_found_error(path, profiles, click, entity)
    doubts.append(said)
    given = _named_profile(path, profiles, chosen.conversion)
    conversion = given[0] if given else roles.find_conversion(profiles, click)
    if conversion is None:
        doubts.append("no column is plainly a conversion: y_cvr is 0 in every row (`conversion`)")
        doubts += roles.unfilled_conversions(profiles, click)
    given = _named_profile(path, profiles, chosen.sample)
    unique = given[0] if given else roles.find_sample(profiles, entity)
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
        why = f"{roles.cardinality(unique)}, none of them twice" if not given else "as it was said"
        decisions.append(roles.Decision(column=unique.name, role="sample", why=why))
    found = _Roles(click, conversion, entity, unique, tuple(decisions))
    return found, [one for one in doubts if one]


def _named_profile(
    path: str, profiles: Sequence[Profile], name: str | None
) -> tuple[Profile | None, str] | None:
    """The profile of a column that a person named; None where none was."""
    if name is None:
        return None
    names = [one.name for one in profiles]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
        raise SourceError(path, f"no column {name}", f"nearest: {near[0]}" if near else "")
    return profiles[names.index(name)], ""


def _not_found_error(
    path: str, profiles: Sequence[Profile], click: Profile | None, entity: Profile | None
) -> ReviewNeeded:
    wanted, ways = [], []
    if click is None:
        able = ", ".join(one.name for one in profiles if one.is_label)
        wanted.append("the click")
        ways.append(f"`label` (a column of 0 and 1: {able or 'no column'})")
    if entity is None:
        wanted.append("the entity, by which rows are split")
        ways.append("`entity`, such as the user's id")
    problem = f"no column is plainly {', and none '.join(wanted)}"
    return ReviewNeeded(path, problem, f"name it: {'; '.join(ways)}")


def _label_problem(path: str, label: Profile) -> list[str]:
    zeros, ones, others = label.labels
    if others > 0.05 * label.rows or not label.rows:
        counted = f"{others:,} of {label.rows:,} values are neither 0 nor 1"
        problem = f"column {label.name} cannot be a label: {counted}"
        raise SourceError(path, problem, "name another column, or create one of 0 and 1")
    said = []
    if others:
        said.append(f"{label.name}: {others:,} cells are neither 0 nor 1: their rows are rejects")
    if not ones or not zeros:
        said.append(f"{label.name} has only {'ones' if ones else 'zeros'} in the sample")
    return said


def _table_lines(
    sample: Sample, found: _Roles, separators: roles.Separators
) -> list[tuple[str, Any, str]]:
    """The keys of `table` with their values, and why."""
    why = {one.role: one.why for one in found.decisions}
    conversion = found.conversion.name if found.conversion else None
    lines: list[tuple[str, Any, str]] = [
        ("entity_id", found.entity.name, why["entity"]),
        ("y_ctr", found.click.name, why["click"]),
        ("y_cvr", conversion, why.get("conversion", "no column is one")),
    ]
    if found.sample:
        lines.append(("sample_id", found.sample.name, why["sample"]))
    if separators.token:
        lines.append(("token_separator", separators.token, "in lists"))
    if separators.value:
        lines.append(("value_separator", separators.value, "before a value"))
    missing = Counter[str]()
    for one in sample.profiles:
        missing.update({text: count for text, count in one.missing_texts.items() if count})
    if missing:
        shown = ", ".join(f"{text} {count:,}" for text, count in sorted(missing.items()))
        lines.append(("missing", ["", *sorted(missing)], f"cells: {shown}"))
    return lines
