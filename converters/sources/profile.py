"""The inventory of a sample: every path with its types, fill, lengths, values and their looks.

Rules, the LLM prompt and near-miss messages read it. Paths are spelt in the mapping language (odd
keys quoted): a path of a profile can be put into a mapping as it stands. Objects with data as keys
(`turn_1`, `turn_2`, ...; ids) are collapsed to `.*`, and shapes that contain themselves are cut.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, repeat
from statistics import median
from types import NoneType
from typing import TypeVar

from ingot.converters.paths import join_path
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import script_counts, text_looks

MAX_PATHS = 400
FEW_VALUES = 12
MAX_DEPTH = 14
JUDGED_TEXTS = 1000  # texts of a path whose looks are judged, spread over all; of many paths fewer
JUDGED_IN_ALL = 40_000
SHORT_CHARS = 500  # what is judged of texts up to here is kept: rows are looked at several times
SAME_STEP = 3
_NUMBERED = re.compile(r"(\D*?)\d+")
_TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "list",
    dict: "object",
}

Place = tuple[str | int, ...]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """Least, middle and greatest of a set of numbers, and their sum."""

    low: float
    middle: float
    high: float
    total: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Spread | None":
        """Return the spread of the numbers, None if there are none."""
        if not numbers:
            return None
        return cls(low=min(numbers), middle=median(numbers), high=max(numbers), total=sum(numbers))


class PathFacts:
    """What a sample says about one path; what nobody asks is not counted.

    Attributes:
        segments: the steps to it, after those of `outer`; `keyed`: whether keys here are data.
        hits: the values here in the order of the rows, each with its row in `hit_rows` and, in
            `inside_of`, with the number of the hit of `outer` that it stands in.
        judged: the most texts whose looks are judged; `cut`: whether what lies deeper is left out.
    """

    def __init__(
        self, segments: Place, outer: "PathFacts | None" = None, *, keyed: bool = False
    ) -> None:
        self.segments, self.outer, self.keyed = segments, outer, keyed
        self.hits: list[Json] = []
        self.hit_rows: list[int] = []
        self.inside_of: list[int] = []
        self.judged = JUDGED_TEXTS
        self.cut = False

    def order(self, hit: int = 0) -> tuple[int, ...]:
        """Return the number of a hit's row, and which element or key leads to it at each step."""
        if self.outer is None:
            return (self.hit_rows[hit],)
        around, step = self.inside_of[hit], self.segments[-1]
        holder = self.outer.hits[around]
        if isinstance(holder, dict) and not self.outer.keyed:
            place = list(holder).index(step)
        else:
            place = hit - bisect_left(self.inside_of, around)
        return (*self.outer.order(around), place)

    @cached_property
    def path(self) -> str:
        """Return the path in the mapping language."""
        return join_path(*self.segments)

    @cached_property
    def types(self) -> dict[str, int]:
        """Return hits by JSON type (null, boolean, integer, number, string, list, object)."""
        return {_TYPES[kind]: count for kind, count in Counter(map(type, self.hits)).items()}

    @cached_property
    def rows(self) -> int:
        """Return the rows with a value that is not null."""
        places = zip(self.hit_rows, self.hits, strict=True)
        return len({row for row, value in places if value is not None})

    @cached_property
    def places(self) -> int:
        """Return the values that could hold the last step: elements of a list, or objects."""
        if self.outer is None or self.segments[-1] in ("[*]", ".*"):
            return len(self.hits)
        return self.outer.types.get("object", 0)

    @property
    def missing(self) -> int:
        """Return places without it: the fill rate is 1 - missing / places."""
        return self.places - len(self.hits)

    @property
    def null(self) -> int:
        """Return hits that are null."""
        return self.types.get("null", 0)

    @property
    def blank(self) -> int:
        """Return texts that are empty or white space."""
        return self.types.get("string", 0) - len(self.texts)

    @property
    def filled(self) -> int:
        """Return hits that are neither null nor blank."""
        return len(self.hits) - self.null - self.blank

    @cached_property
    def texts(self) -> list[str]:
        """Return the texts that are not blank."""
        return [v for v in self.hits if v.__class__ is str and v.strip()]

    @cached_property
    def keys(self) -> Counter[str]:
        """Return the keys of the objects."""
        return Counter(chain.from_iterable(v for v in self.hits if v.__class__ is dict))

    @cached_property
    def chars(self) -> Spread | None:
        """Return the lengths of the texts, in characters."""
        return Spread.of([len(text) for text in self.texts])

    @cached_property
    def items(self) -> Spread | None:
        """Return the lengths of the lists."""
        return Spread.of([len(value) for value in self.hits if value.__class__ is list])

    @cached_property
    def numbers(self) -> Spread | None:
        """Return the numbers."""
        return Spread.of([v for v in self.hits if v.__class__ is int or v.__class__ is float])

    @cached_property
    def _counts(self) -> Counter[Json]:
        if set(self.types) <= {"integer", "number"} or len(self.texts) == len(self.hits):
            return Counter(self.hits)
        return Counter(
            str(value).lower() if value.__class__ is bool else value
            for value in self.hits
            if value.__class__ not in (NoneType, list, dict)
            and (value.__class__ is not str or value.strip())
        )

    @property
    def distinct(self) -> int:
        """Return different values that are neither null nor blank (no lists, no objects)."""
        return len(self._counts)

    @property
    def unique(self) -> bool:
        """Return whether these are several and each stands there once."""
        return self.distinct > 1 and max(self._counts.values()) == 1

    @cached_property
    def values(self) -> tuple[tuple[Json, int], ...]:
        """Return values with their counts, most frequent first, if there are few different ones."""
        return tuple(self._counts.most_common()) if self.distinct <= FEW_VALUES else ()

    @cached_property
    def looks(self) -> dict[str, float]:
        """Return the share of the judged texts per look (`url`, `prose`, ...; see `text_kinds`)."""
        judged = pick_evenly(self.texts, self.judged)
        looks = (_kept_looks(t) if len(t) <= SHORT_CHARS else text_looks(t) for t in judged)
        return _shares(Counter(chain.from_iterable(looks)), max(1, len(judged)))

    @cached_property
    def scripts(self) -> dict[str, float]:
        """Return the share of their letters per script (`latin`, `han`, `kana`, `hangul`, ...)."""
        counts: Counter[str] = Counter()
        for text in pick_evenly(self.texts, self.judged):
            counts.update(script_counts(text[:2000]))
        return _shares(counts, max(1, counts.total()))

    @cached_property
    def examples(self) -> tuple[str, ...]:
        """Return the beginnings of some texts."""
        picks = sorted({0, len(self.texts) // 2, len(self.texts) - 1}) if self.texts else []
        return tuple(dict.fromkeys(self.texts[i][:300] for i in picks))

    @property
    def note(self) -> str:
        """Return what was cut or collapsed, "" otherwise."""
        if self.cut:
            return "the same shape goes on inside"
        return f"{len(self.keys)} different keys" if len(self.keys) > 40 else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """The facts of every path, in the order in which the paths first occur."""

    rows: int
    paths: tuple[PathFacts, ...]
    cut: int = 0

    def __getitem__(self, path: str) -> PathFacts:
        if (facts := self.get(path)) is None:
            raise KeyError(path)
        return facts

    def get(self, path: str) -> PathFacts | None:
        """Return the facts of a path, None if the sample does not have it."""
        return next((facts for facts in self.paths if facts.path == path), None)


class _Walk:
    """One walk over the values, place by place, with a set of places whose keys are data."""

    def __init__(self, values: Sequence[Json], keyed: frozenset[Place]) -> None:
        self.keyed = keyed
        top = PathFacts((), keyed=() in keyed)
        top.hits, top.hit_rows = list(values), list(range(len(values)))
        waiting = nodes = [top] if values else []
        while waiting:
            waiting = [inside for slot in waiting for inside in self._inside(slot)]
            nodes = [*nodes, *waiting]
        self.slots = {slot.segments: slot for slot in sorted(nodes, key=PathFacts.order)}

    def _inside(self, slot: PathFacts) -> list[PathFacts]:
        """The places right below another one."""
        paths: dict[str, PathFacts | None] = {}
        for number, value in enumerate(slot.hits):
            if value.__class__ is dict:
                steps = repeat(".*") if slot.keyed else value
                pairs = zip(steps, value.values(), strict=False)
            elif value.__class__ is list:
                pairs = zip(repeat("[*]"), value, strict=False)
            else:
                continue
            row = slot.hit_rows[number]
            for step, child in pairs:
                if step not in paths:
                    paths[step] = self._below(slot, step)
                if (inside := paths[step]) is not None:
                    inside.hits.append(child)
                    inside.hit_rows.append(row)
                    inside.inside_of.append(number)
        return [inside for inside in paths.values() if inside is not None]

    def _below(self, slot: PathFacts, step: str) -> PathFacts | None:
        place = slot.segments
        if len(place) >= MAX_DEPTH or (place.count(step) >= SAME_STEP and step != "[*]"):
            slot.cut = True
            return None
        return PathFacts((*place, step), slot, keyed=(*place, step) in self.keyed)


def _are_data(slot: PathFacts, slots: dict[Place, PathFacts]) -> bool:
    """Whether the keys at a place are data; of one shape is what is no scalar under every key."""
    kinds: Counter[str] = Counter()
    for key in slot.keys:
        inner = slots.get((*slot.segments, key))
        if inner:
            kinds += Counter(inner.types)
    del kinds["null"]
    one_shape = len(kinds) == 1 and next(iter(kinds)) in ("object", "list")
    return keys_are_data(slot.keys, slot.types.get("object", 0), one_shape)


def keys_are_data(keys: Counter[str], objects: int, one_shape: bool) -> bool:
    """Return whether the keys of objects are data (such as numbers of turns), not field names."""
    if len(keys) < 2:
        return False
    stems = {match.group(1) if (match := _NUMBERED.fullmatch(key)) else None for key in keys}
    if one_shape and len(stems) == 1 and None not in stems:
        return True
    usual = sum(keys.values()) / max(1, objects)
    rare = max(keys.values()) <= 0.3 * objects
    return len(keys) > 40 and (rare or objects == 1) and len(keys) >= usual


def _walk_values(values: Sequence[Json]) -> _Walk:
    keyed: frozenset[Place] = frozenset()
    for _ in range(4):
        walk = _Walk(values, keyed)
        kinds = frozenset(
            place
            for place, slot in walk.slots.items()
            if slot.keys and place not in keyed and _are_data(slot, walk.slots)
        )
        if not kinds:
            break
        shallow = min(len(place) for place in kinds)
        keyed |= {place for place in kinds if len(place) == shallow}
    return walk


_GOLDEN = (5**0.5 - 1) / 2


def pick_evenly(items: Sequence[T], most: int) -> Sequence[T]:
    """Pick at most `most` items, one from each of as many equal runs, always the first item of all.

    The position within each run follows the golden ratio: at equal distances, alternating items
    would all look the same.
    """
    if len(items) <= most:
        return items
    places = (int((n + n * _GOLDEN % 1) * len(items) / most) for n in range(most))
    return [items[place] for place in places]


def _shares(counts: Counter[str], whole: int) -> dict[str, float]:
    return {key: round(count / whole, 3) for key, count in counts.most_common() if count}


_kept_looks = lru_cache(maxsize=8192)(text_looks)


def _choose_slots(slots: dict[Place, PathFacts]) -> list[PathFacts]:
    """At most `MAX_PATHS` places: of more those with the most text, and what they lie in."""
    if len(slots) <= MAX_PATHS:
        return list(slots.values())
    chars = {place: sum(map(len, slot.texts)) for place, slot in slots.items()}
    places: set[Place] = set()
    for place in sorted(slots, key=lambda place: -chars[place]):
        heads = {place[:n] for n in range(len(place) + 1)}
        if len(places | heads) <= MAX_PATHS:
            places |= heads
    return [slot for place, slot in slots.items() if place in places]


def profile_values(values: Sequence[Json]) -> Profile:
    """Take the inventory of rows, or of what stands at some place in each of them."""
    slots = _walk_values(values).slots
    chosen = _choose_slots(slots)
    for slot in chosen:
        slot.judged = max(50, min(JUDGED_TEXTS, JUDGED_IN_ALL // len(slots)))
    return Profile(rows=len(values), paths=tuple(chosen), cut=len(slots) - len(chosen))


def all_facts(values: Sequence[Json]) -> tuple[PathFacts, ...]:
    """Return the facts of all paths, those that a profile cuts too."""
    return tuple(_walk_values(values).slots.values())
