"""Compare the shape of the data with the one that a mapping was made for.

Samples of the same data differ, so a difference stops a run only where the other sample would have
shown it too: what is in few rows, or what a small sample could have missed, is told.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Lookup
from dataclasses import dataclass, replace
from math import comb
from typing import Literal, cast

from ingot.agent.privacy import NOT_SHOWN, Redactor
from ingot.agent.proposing.fingerprint import Shape, shape_fingerprint
from ingot.agent.state import Change, SafeChange
from ingot.converters.errors import Problem
from ingot.converters.mapping.language import ROLES, Mapping, RoleFromData
from ingot.converters.mapping.path_uses import outer_path

# The chance that samples of the same data differ so, below which the data differs.
_CHANCE = 0.012
_HALVINGS = 12
_MOST_WEIGHT = 500  # rows; more than any sample has comes from a file edited by hand
NO_TYPES: frozenset[str] = frozenset()
_STEP = re.compile(r"\['(?:[^'\\]|\\.)*+'\]|\[[^\]]*+\]?|\.?[^.\[\]]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedPaths:
    """A shape with its paths spelt so that it can be compared with another.

    `types` holds the types of every path, rare ones too, `usual` those that are not rare, `part`
    the share of the rows that have a path, `mixed` that of a type where there are several.
    """

    types: dict[str, frozenset[str]]
    usual: dict[str, frozenset[str]]
    part: dict[str, float]
    mixed: dict[tuple[str, str], float]
    roles: dict[str, frozenset[str]]
    weight: int

    @classmethod
    def of(cls, shape: Shape, other: Shape) -> "ComparedPaths":
        """Return the paths of one shape, spelled so that two shapes can be compared.

        Objects whose keys are data in either shape have `.*` in both.
        """
        keyed = _find_keyed_paths(shape) | _find_keyed_paths(other)
        usual = _merge_paths(_split_types(shape.get("paths", {})), keyed)
        rare = _merge_paths(_split_types(shape.get("rare", {})), keyed)
        part, mixed = _path_shares(shape, keyed)
        return cls(
            types={
                path: usual.get(path, NO_TYPES) | rare.get(path, NO_TYPES)
                for path in {**usual, **rare}
            },
            usual=usual,
            part=part,
            mixed=mixed,
            roles=_merge_paths(shape.get("roles", {}), keyed),
            weight=min(int(shape.get("weight", 1)), _MOST_WEIGHT),
        )

    def share(self, path: str, kind: str) -> float:
        """Return the share of the rows that have a path with a value of that type."""
        return self.part.get(path, 0.0) * self.mixed.get((path, kind), 1.0)

    def would_show(self, share: float, other: "ComparedPaths") -> bool:
        """Return whether what a share of these rows has, and none of the other's, is no chance."""
        return bool((1 - least_share(share, self.weight)) ** other.weight <= _CHANCE)

    def blank(self, path: str) -> bool:
        """Return whether what holds a path is only null, an empty list or an empty object here."""
        *_, enclosing = ["", *_enclosing_paths(path)]
        kinds = self.types.get(enclosing)
        if kinds is None:
            return False
        if path.endswith("[*]"):
            return not kinds or "list" in kinds
        inside = (f"{enclosing}.", f"{enclosing}['")
        return not kinds or (
            "object" in kinds and not any(p.startswith(inside) for p in self.types)
        )


def least_share(share: float, weight: int) -> float:
    """Return the least share in the data that leaves it likely that a sample shows as much."""
    if share >= 1:
        return 1.0
    seen, low, high = round(share * weight), 0.0, share
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        probabilities = (
            comb(weight, n) * middle**n * (1 - middle) ** (weight - n) for n in range(seen)
        )
        if 1 - sum(probabilities) > _CHANCE:
            high = middle
        else:
            low = middle
    return low


def _find_keyed_paths(shape: Shape) -> frozenset[str]:
    """The places whose keys are data: what stands before a `.*`."""
    keyed = set()
    for path in [*shape.get("paths", {}), *shape.get("rare", {})]:
        steps = _STEP.findall(path)
        keyed |= {"".join(steps[:n]) for n, step in enumerate(steps) if step in (".*", "*")}
    return frozenset(keyed)


def _collapse_keys(path: str, keyed: frozenset[str]) -> str:
    """A path with `.*` wherever keys are data in one of the two shapes."""
    if not keyed:
        return path
    collapsed = ""
    for step in _STEP.findall(path):
        is_key = step != "[*]"
        collapsed += (".*" if collapsed else "*") if collapsed in keyed and is_key else step
    return collapsed


def _split_types(types: Lookup[str, str]) -> dict[str, list[str]]:
    """The types of each path; null is none."""
    return {path: [k for k in kinds.split("|") if k != "null"] for path, kinds in types.items()}


def _merge_paths(
    names_by_path: Lookup[str, Sequence[str]], keyed: frozenset[str]
) -> dict[str, frozenset[str]]:
    """What is known of each path, with what is known of others that are now spelt like it."""
    merged: dict[str, frozenset[str]] = {}
    for path, names in names_by_path.items():
        collapsed = _collapse_keys(path, keyed)
        merged[collapsed] = merged.get(collapsed, NO_TYPES).union(names)
    return merged


def _path_shares(
    shape: Shape, keyed: frozenset[str]
) -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    """The share of the rows that have a path, and of its values that are of a type."""
    part: dict[str, float] = {}
    mixed: dict[tuple[str, str], float] = {}
    for path in shape.get("paths", {}):
        collapsed = _collapse_keys(path, keyed)
        part[collapsed] = max(part.get(collapsed, 0.0), shape.get("partly", {}).get(path, 1.0))
        for kind, share in shape.get("mixed", {}).get(path, {}).items():
            mixed[collapsed, kind] = max(mixed.get((collapsed, kind), 0.0), share)
    return part, mixed


def outermost_paths(paths: Sequence[str]) -> list[str]:
    """Return the paths that lie inside none of the others, which come and go with them."""
    all_of = set(paths)
    return [path for path in paths if not all_of.intersection(_enclosing_paths(path))]


def _enclosing_paths(path: str) -> Iterator[str]:
    steps = _STEP.findall(path)
    yield from ("".join(steps[:n]) for n in range(1, len(steps)))


def kinds_text(kinds: frozenset[str]) -> str:
    """Return types as one text: `number|string`."""
    return "|".join(sorted(kinds)) or "null"


MOST_CHANGES = 40
CHANGE_HEADS = ("path", "change", "before", "after")
_MOST_NAMES = 5


def find_drift(stored: Shape, current: Shape) -> tuple[Change, ...]:
    """Return what differs, first what stops a run."""
    changes = [*_fact_changes(stored, current), *_shape_changes(stored, current)]
    return tuple(sorted(changes, key=lambda one: not one.stops))


def mapping_changes(changes: Sequence[Change], mapping: Mapping) -> tuple[Change, ...]:
    """Return the changes as they concern a mapping.

    A new speaker stops a run only if the mapping reads roles there and names none for it.
    """
    # By path the names of speakers for which the mapping has a role; `*` is every name.
    names_by_path: dict[str, set[str]] = {}
    for layout in mapping.alternatives():
        for message in layout.messages or ():
            if isinstance(message.role, RoleFromData):
                path = outer_path(message.each, message.role.path.text)
                path = outer_path(layout.each, path)
                path = path.removeprefix("[*].") if mapping.group else path
                names = ("*",) if message.role.order else message.role.map or ROLES
                names_by_path.setdefault(path, set()).update(names)
    return tuple(
        replace(one, stops=one.stops and _lacks_role(one, names_by_path.get(one.path)))
        if one.what == "role value"
        else one
        for one in changes
    )


def _lacks_role(change: Change, names: set[str] | None) -> bool:
    """Whether a mapping that reads this path has no role for one of the new names."""
    return names is not None and "*" not in names and not set(change.names) <= names


def stored_shape(mapping: Mapping | None) -> Shape | None:
    """Return the shape in a mapping's provenance; None if there is none to compare with.

    A mapping whose `source` was edited since reads other rows and columns: its shape says nothing.
    """
    shape = ((mapping and mapping.provenance) or {}).get("shape")
    if not mapping or not shape or shape.get("facts", {}) != mapping.source.to_document():
        return None
    return cast("Shape", dict(shape))


def hide_changes(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes without paths and values, of files that a mapping reads in its own way."""
    return tuple(replace(one, path=NOT_SHOWN, before="", after="") for one in changes)


def redacted_changes(changes: Sequence[Change], redactor: Redactor) -> tuple[SafeChange, ...]:
    """Return the first changes as a report may hold them."""
    return tuple(
        SafeChange(
            Change(
                path=redactor.text(one.path),
                before=redactor.text(one.before),
                after=redactor.text(one.after),
                what=one.what,
                stops=one.stops,
            )
        )
        for one in changes[:MOST_CHANGES]
    )


def drift_problem(stopping: Sequence[Change]) -> Problem:
    """Return the changes that stop a run, as one problem of the mapping."""
    expected = "data of the shape that the mapping was made for (or --allow-drift)"
    return Problem("/provenance/shape", "drift", expected, first_changes(stopping))


def first_changes(changes: Sequence[Change]) -> str:
    """Return the first changes on one line, and how many more there are."""
    texts = "; ".join(f"{one.what}: {one.path} {one.values_text}" for one in changes[:_MOST_NAMES])
    remaining = len(changes) - _MOST_NAMES
    return f"{texts}; {remaining} more" if remaining > 0 else texts


def change_lines(changes: Sequence[Change]) -> list[str]:
    """Return the changes as a table of plain text, one a line; many are cut."""
    rows = [CHANGE_HEADS, *map(change_cells, changes[:MOST_CHANGES])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    remaining = len(changes) - MOST_CHANGES
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [*lines, f"{remaining} more"] if remaining > 0 else lines


def change_cells(change: Change) -> tuple[str, str, str, str]:
    """Return a change as a row of a table: path, what, before, after."""
    kind = change.what if change.stops else f"{change.what} (noted)"
    return change.path, kind, change.before, change.after


def _fact_changes(stored: Shape, current: Shape) -> Iterator[Change]:
    """Facts about the files; that they are read as before is the mapping's to say."""
    before, after = stored.get("facts", {}), current.get("facts", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            old, new = (str(facts.get(name, "")) for facts in (before, after))
            yield Change(path=name, what="fact", before=old, after=new, stops=False)


def _shape_changes(stored: Shape, current: Shape) -> Iterator[Change]:
    if "wide" in stored or "wide" in current:
        if shape_fingerprint({**stored, "facts": {}}) != shape_fingerprint(
            {**current, "facts": {}}
        ):
            before, after = _width_text(stored), _width_text(current)
            yield Change(path="$", what="type", before=before, after=after, stops=False)
        return
    old, new = ComparedPaths.of(stored, current), ComparedPaths.of(current, stored)
    yield from _one_sided_paths(old, new, "vanished")
    yield from _one_sided_paths(new, old, "appeared")
    for path in old.types:
        if path in new.types:
            yield from _type_change(path, old, new)
    yield from _role_changes(old, new)


def _width_text(shape: Shape) -> str:
    return f"{shape.get('wide') or len(shape.get('paths', {}))} paths"


def _one_sided_paths(
    first: ComparedPaths, other: ComparedPaths, kind: Literal["appeared", "vanished"]
) -> Iterator[Change]:
    for path in outermost_paths([path for path in first.types if path not in other.types]):
        kinds, share = kinds_text(first.types[path]), first.part.get(path, 0.0)
        before, after = (kinds, "") if kind == "vanished" else ("", kinds)
        stops = bool(first.usual.get(path)) and first.would_show(share, other)
        # What fills a place that was there is told.
        stops = stops and not (kind == "appeared" and other.blank(path))
        yield Change(path=path, what=kind, before=before, after=after, stops=stops)


def _type_change(path: str, old: ComparedPaths, new: ComparedPaths) -> Iterator[Change]:
    """Another type; a type that is gone beside others that stay is no change."""
    before, after = old.types[path], new.types[path]
    if not after - before or not before:
        return
    usual = new.usual.get(path, frozenset())
    stops = any(new.would_show(new.share(path, kind), old) for kind in usual - before)
    yield Change(
        path=path, what="type", before=kinds_text(before), after=kinds_text(after), stops=stops
    )


def _role_changes(old: ComparedPaths, new: ComparedPaths) -> Iterator[Change]:
    for path, names in new.roles.items():
        if path in old.roles and (added := names - old.roles[path]):
            before, after = ", ".join(sorted(old.roles[path])), ", ".join(sorted(names))
            change = Change(path=path, what="role value", before=before, after=after, stops=True)
            yield replace(change, names=tuple(sorted(added)))
