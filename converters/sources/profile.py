"""The inventory of a sample: every path with its types, fill, lengths, values and their looks.

Rules, the LLM prompt and near-miss messages read it. Paths are spelt in the mapping language (odd
keys quoted): a path of a profile can be put into a mapping as it stands. Objects with data as keys
(`turn_1`, `turn_2`, ...; ids) are collapsed to `.*`, and shapes that contain themselves are cut.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
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
        """The spread of the numbers, None where there are none."""
        if not numbers:
            return None
        return cls(low=min(numbers), middle=median(numbers), high=max(numbers), total=sum(numbers))


@dataclass(frozen=True, kw_only=True, slots=True)
class PathFacts:
    """What a sample says about one path.

    Attributes:
        types: hits by JSON type (null, boolean, integer, number, string, list, object).
        places: values in which the last step could have stood (fill rate = 1 - missing / places).
        missing, null, blank: places without it; null hits; texts that are empty or white space.
        distinct: different values that are neither null nor blank (no lists, no objects).
        chars: lengths of the texts, in characters. items: lengths of the lists.
        values: (value, count), most frequent first, where there are few different ones.
        looks: share of the non-blank texts per look (`url`, `prose`, ...; see `text_kinds`), of
            many texts judged by `JUDGED_TEXTS` of them.
        scripts: share of their letters per script (`latin`, `han`, `kana`, `hangul`, ...).
        note: what was cut or collapsed, "" otherwise.
    """

    path: str
    types: dict[str, int]
    rows: int
    places: int
    missing: int
    null: int
    blank: int
    distinct: int
    unique: bool
    chars: Spread | None
    items: Spread | None
    numbers: Spread | None
    values: tuple[tuple[Json, int], ...]
    looks: dict[str, float]
    scripts: dict[str, float]
    examples: tuple[str, ...]
    note: str = ""

    @property
    def filled(self) -> int:
        """Hits that are neither null nor blank."""
        return sum(self.types.values()) - self.null - self.blank


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
        """The facts of a path, None where the sample does not have it."""
        return next((facts for facts in self.paths if facts.path == path), None)

    def to_json(self) -> dict[str, Json]:
        """Plain JSON types, for state and prompts."""
        return asdict(self)


class _Slot:
    """What stands at one place of all rows, in their order.

    Attributes:
        step: the last one; `keyed`: whether the keys of the objects here are data.
        hits: the values here, each with its row and with the number of the hit that it stands in.
    """

    def __init__(self, segments: Place, outer: "_Slot | None" = None, *, keyed: bool) -> None:
        self.segments, self.outer, self.keyed = segments, outer, keyed
        self.hits: list[Json] = []
        self.rows: list[int] = []
        self.inside_of: list[int] = []
        self.note = ""

    def count(self) -> None:
        """Count the hits, once all are known."""
        kinds = Counter(map(type, self.hits))
        self.types = Counter({_TYPES[kind]: count for kind, count in kinds.items()})
        filled = zip(self.rows, self.hits, strict=True)
        self.filled_rows = len({row for row, value in filled if value is not None})
        self.lengths = [len(value) for value in self.hits if value.__class__ is list]
        objects = (value for value in self.hits if value.__class__ is dict)
        self.keys = Counter(chain.from_iterable(objects))
        self.texts = [v for v in self.hits if v.__class__ is str and v.strip()]
        self.blank = kinds[str] - len(self.texts)
        self.numbers = [v for v in self.hits if v.__class__ is int or v.__class__ is float]
        of_one_kind = len(self.hits) in (len(self.texts), len(self.numbers))
        self.values = Counter(self.hits if of_one_kind else map(_counted_value, self._scalars()))

    def _scalars(self) -> Iterator[Json]:
        for value in self.hits:
            kind = value.__class__
            if kind not in (NoneType, list, dict) and (kind is not str or value.strip()):
                yield value

    def order(self, hit: int = 0) -> tuple[int, ...]:
        """Return the number of a hit's row, and which element or key leads to it at each step."""
        if self.outer is None:
            return (self.rows[hit],)
        around, step = self.inside_of[hit], self.segments[-1]
        holder = self.outer.hits[around]
        if isinstance(holder, dict) and not self.outer.keyed:
            place = list(holder).index(step)
        else:
            place = hit - bisect_left(self.inside_of, around)
        return (*self.outer.order(around), place)


def _counted_value(value: Json) -> Json:
    return str(value).lower() if isinstance(value, bool) else value


class _Walk:
    """One walk over the values, place by place, with a set of places whose keys are data."""

    def __init__(self, values: Sequence[Json], keyed: frozenset[Place]) -> None:
        self.keyed = keyed
        top = _Slot((), keyed=() in keyed)
        top.hits, top.rows = list(values), list(range(len(values)))
        waiting = found = [top] if values else []
        while waiting:
            waiting = [inside for slot in waiting for inside in self._inside(slot)]
            found = [*found, *waiting]
        for slot in found:
            slot.count()
        self.slots = {slot.segments: slot for slot in sorted(found, key=_Slot.order)}

    def _inside(self, slot: _Slot) -> list[_Slot]:
        """The places right below another one."""
        found: dict[str, _Slot | None] = {}
        for number, value in enumerate(slot.hits):
            if value.__class__ is dict:
                steps = repeat(".*") if slot.keyed else value
                pairs = zip(steps, value.values(), strict=False)
            elif value.__class__ is list:
                pairs = zip(repeat("[*]"), value, strict=False)
            else:
                continue
            row = slot.rows[number]
            for step, one in pairs:
                if step not in found:
                    found[step] = self._below(slot, step)
                if (inside := found[step]) is not None:
                    inside.hits.append(one)
                    inside.rows.append(row)
                    inside.inside_of.append(number)
        return [inside for inside in found.values() if inside is not None]

    def _below(self, slot: _Slot, step: str) -> _Slot | None:
        place = slot.segments
        if len(place) >= MAX_DEPTH or (place.count(step) >= SAME_STEP and step != "[*]"):
            slot.note = "the same shape goes on inside"
            return None
        return _Slot((*place, step), slot, keyed=(*place, step) in self.keyed)


def _has_one_shape(slot: _Slot, slots: dict[Place, _Slot]) -> bool:
    """Whether what lies under every key is of one JSON type, and no scalar."""
    kinds: Counter[str] = Counter()
    for key in slot.keys:
        inner = slots.get((*slot.segments, key))
        if inner:
            kinds += inner.types
    del kinds["null"]
    return len(kinds) == 1 and next(iter(kinds)) in ("object", "list")


def keys_are_data(keys: Counter[str], objects: int, one_shape: bool) -> bool:
    """Whether the keys of some objects are data (numbered turns, ids), not names of fields."""
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
        found = frozenset(
            place
            for place, slot in walk.slots.items()
            if slot.keys
            and place not in keyed
            and keys_are_data(slot.keys, slot.types["object"], _has_one_shape(slot, walk.slots))
        )
        if not found:
            break
        shallow = min(len(place) for place in found)
        keyed |= {place for place in found if len(place) == shallow}
    return walk


_GOLDEN = (5**0.5 - 1) / 2


def pick_evenly(items: Sequence[T], most: int) -> Sequence[T]:
    """At most `most` of some items, one from each of so many runs of them, the first among them.

    Where in its run follows the golden ratio: at equal distances items that alternate look all
    the same.
    """
    if len(items) <= most:
        return items
    places = (int((n + n * _GOLDEN % 1) * len(items) / most) for n in range(most))
    return [items[place] for place in places]


def _example_texts(texts: Sequence[str]) -> tuple[str, ...]:
    picks = sorted({0, len(texts) // 2, len(texts) - 1}) if texts else []
    return tuple(dict.fromkeys(texts[i][:300] for i in picks))


def _shares(counts: Counter[str], whole: int) -> dict[str, float]:
    return {key: round(count / whole, 3) for key, count in counts.most_common() if count}


def _possible_places(slot: _Slot, slots: dict[Place, _Slot]) -> int:
    """How often the last step could have stood: once per list element, once per object around."""
    hits = sum(slot.types.values())
    if not slot.segments or slot.segments[-1] in ("[*]", ".*"):
        return hits
    return slots[slot.segments[:-1]].types["object"]


def _judge_text(text: str) -> tuple[tuple[str, ...], Counter[str]]:
    return text_looks(text), script_counts(text[:2000])


_judge_cached = lru_cache(maxsize=8192)(_judge_text)


def _path_facts(slot: _Slot, slots: dict[Place, _Slot]) -> PathFacts:
    hits = sum(slot.types.values())
    places = _possible_places(slot, slots)
    looks: list[str] = []
    letters: dict[str, int] = {}
    most = max(50, min(JUDGED_TEXTS, JUDGED_IN_ALL // len(slots)))
    judged = pick_evenly(slot.texts, most)
    for text in judged:
        found, counts = _judge_cached(text) if len(text) <= SHORT_CHARS else _judge_text(text)
        looks += found
        for script, count in counts.items():
            letters[script] = letters.get(script, 0) + count
    few = len(slot.values) <= FEW_VALUES
    return PathFacts(
        path=join_path(*slot.segments),
        types=dict(slot.types),
        rows=slot.filled_rows,
        places=places,
        missing=places - hits,
        null=slot.types["null"],
        blank=slot.blank,
        distinct=len(slot.values),
        unique=len(slot.values) > 1 and max(slot.values.values()) == 1,
        chars=Spread.of([len(text) for text in slot.texts]),
        items=Spread.of(slot.lengths),
        numbers=Spread.of(slot.numbers),
        values=tuple(slot.values.most_common()) if few else (),
        looks=_shares(Counter(looks), max(1, len(judged))),
        scripts=_shares(Counter(letters), max(1, sum(letters.values()))),
        examples=_example_texts(slot.texts),
        note=slot.note or (f"{len(slot.keys)} different keys" if len(slot.keys) > 40 else ""),
    )


def _choose_slots(slots: dict[Place, _Slot]) -> list[_Slot]:
    """At most `MAX_PATHS` places: of more those with the most text, and what they lie in."""
    if len(slots) <= MAX_PATHS:
        return list(slots.values())
    chars = {place: sum(map(len, slot.texts)) for place, slot in slots.items()}
    kept: set[Place] = set()
    for place in sorted(slots, key=lambda place: -chars[place]):
        heads = {place[:n] for n in range(len(place) + 1)}
        if len(kept | heads) <= MAX_PATHS:
            kept |= heads
    return [slot for place, slot in slots.items() if place in kept]


def profile_values(values: Sequence[Json]) -> Profile:
    """Take the inventory of rows, or of what stands at some place in each of them."""
    walk = _walk_values(values)
    kept = _choose_slots(walk.slots)
    return Profile(
        rows=len(values),
        paths=tuple(_path_facts(slot, walk.slots) for slot in kept),
        cut=len(walk.slots) - len(kept),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Outline:
    """The few facts of a path that need no look at its texts; as in `PathFacts`."""

    path: str
    types: dict[str, int]
    rows: int
    places: int
    missing: int
    values: tuple[Json, ...]


def outlines(values: Sequence[Json]) -> tuple[Outline, ...]:
    """The outlines of all paths: those of a profile and more, at a small part of its cost."""
    walk = _walk_values(values)
    return tuple(_outline(slot, walk.slots) for slot in walk.slots.values())


def _outline(slot: _Slot, slots: dict[Place, _Slot]) -> Outline:
    places = _possible_places(slot, slots)
    return Outline(
        path=join_path(*slot.segments),
        types=dict(slot.types),
        rows=slot.filled_rows,
        places=places,
        missing=places - sum(slot.types.values()),
        values=tuple(slot.values) if len(slot.values) <= FEW_VALUES else (),
    )
