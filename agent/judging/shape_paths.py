"""Spell and weigh the paths of a shape so that two shapes can be compared."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Lookup
from dataclasses import dataclass
from math import comb

from ingot.converters.rows import Json

ShapeDocument = Lookup[str, Json]

# The chance that samples of the same data differ so, below which the data differs.
_CHANCE = 0.012
_HALVINGS = 12
_MOST_WEIGHT = 500
NO_TYPES: frozenset[str] = frozenset()
_STEP = re.compile(r"\['(?:[^'\\]|\\.)*'\]|\[[^\]]*\]|\.?[^.\[\]]+")


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
    def of(cls, shape: ShapeDocument, other: ShapeDocument) -> "ComparedPaths":
        """The paths of one shape; objects whose keys are data in either have `.*` in both."""
        keyed = _keyed_places(shape) | _keyed_places(other)
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
            weight=_sample_weight(shape),
        )

    def share(self, path: str, kind: str) -> float:
        """The share of the rows that have a path with a value of that type."""
        return self.part.get(path, 0.0) * self.mixed.get((path, kind), 1.0)

    def would_show(self, share: float, other: "ComparedPaths") -> bool:
        """Whether what a share of these rows has, and none of the other's, is no chance."""
        return bool((1 - least_share(share, self.weight)) ** other.weight <= _CHANCE)

    def blank(self, path: str) -> bool:
        """Whether what a path lies in is here only null, an empty list or an empty object."""
        *_, around = ["", *_enclosing_paths(path)]
        kinds = self.types.get(around)
        if kinds is None:
            return False
        if path.endswith("[*]"):
            return not kinds or "list" in kinds
        inside = (f"{around}.", f"{around}['")
        return not kinds or (
            "object" in kinds and not any(p.startswith(inside) for p in self.types)
        )


def _sample_weight(shape: ShapeDocument) -> int:
    """What a sample is worth in rows; more than any sample has comes from a file edited by hand."""
    return min(int(shape.get("weight", 1)), _MOST_WEIGHT)


def least_share(share: float, weight: int) -> float:
    """The least share in the data that leaves it likely that a sample shows as much."""
    if share >= 1:
        return 1.0
    seen, low, high = round(share * weight), 0.0, share
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _tail_probability(seen, weight, middle) > _CHANCE:
            high = middle
        else:
            low = middle
    return low


def _tail_probability(seen: int, weight: int, share: float) -> float:
    """The chance that so many of so many rows have what that share of all rows has."""
    fewer = (comb(weight, n) * share**n * (1 - share) ** (weight - n) for n in range(seen))
    return 1 - sum(fewer)


def _path_steps(path: str) -> list[str]:
    return _STEP.findall(path)


def _keyed_places(shape: ShapeDocument) -> frozenset[str]:
    """The places whose keys are data: what stands before a `.*`."""
    found = set()
    for path in [*shape.get("paths", {}), *shape.get("rare", {})]:
        steps = _path_steps(path)
        found |= {"".join(steps[:n]) for n, step in enumerate(steps) if step in (".*", "*")}
    return frozenset(found)


def _collapse_keys(path: str, keyed: frozenset[str]) -> str:
    """A path with `.*` wherever keys are data in one of the two shapes."""
    if not keyed:
        return path
    made = ""
    for step in _path_steps(path):
        named = step != "[*]"
        made += (".*" if made else "*") if made in keyed and named else step
    return made


def _split_types(types: Lookup[str, str]) -> dict[str, list[str]]:
    """The types of each path; null is none."""
    return {path: [k for k in kinds.split("|") if k != "null"] for path, kinds in types.items()}


def _merge_paths(
    found: Lookup[str, Sequence[str]], keyed: frozenset[str]
) -> dict[str, frozenset[str]]:
    """What is known of each path, with what is known of others that are now spelt like it."""
    made: dict[str, frozenset[str]] = {}
    for path, names in found.items():
        spelt = _collapse_keys(path, keyed)
        made[spelt] = made.get(spelt, NO_TYPES).union(names)
    return made


def _path_shares(
    shape: ShapeDocument, keyed: frozenset[str]
) -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    """The share of the rows that have a path, and of its values that are of a type."""
    part: dict[str, float] = {}
    mixed: dict[tuple[str, str], float] = {}
    for path in shape.get("paths", {}):
        spelt = _collapse_keys(path, keyed)
        part[spelt] = max(part.get(spelt, 0.0), shape.get("partly", {}).get(path, 1.0))
        for kind, share in shape.get("mixed", {}).get(path, {}).items():
            mixed[spelt, kind] = max(mixed.get((spelt, kind), 0.0), share)
    return part, mixed


def outermost_paths(paths: Sequence[str]) -> list[str]:
    """Paths that are inside none of the others: what is in an object comes and goes with it."""
    all_of = set(paths)
    return [path for path in paths if not all_of.intersection(_enclosing_paths(path))]


def _enclosing_paths(path: str) -> Iterator[str]:
    steps = _path_steps(path)
    yield from ("".join(steps[:n]) for n in range(1, len(steps)))


def kinds_text(kinds: frozenset[str]) -> str:
    """Types as one text: `number|string`."""
    return "|".join(sorted(kinds)) or "null"
