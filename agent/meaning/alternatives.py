"""The layouts of a mapping as they are run: every alternative laid over the outer keys."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from ingot.agent.meaning.conditions import Placed
from ingot.agent.meaning.exact import exactly
from ingot.converters.rows import Json

_KEYS = ("each", "where", "text", "messages", "system", "tools", "meta")
# Pairs of alternatives, and characters of the keys around them, said again for each of them.
_MOST_PAIRS, _MOST_AROUND = 4_000_000, 4 << 20
# (place among the old alternatives, place among the new ones); None = it has no partner.
Pair = tuple[int | None, int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """One layout with all that holds in it.

    Attributes:
        layout: its keys, with those of the mapping around it.
        name: what its targets begin with: `alternative 1: `, nothing where there is only one.
        base: JSON Pointer to the alternative, "" for the mapping itself.
        own: the keys (`text`, `meta/language`) that stand in the alternative.
        where: the conditions with their places, those of the mapping first.
    """

    layout: dict[str, Json]
    name: str = ""
    base: str = ""
    own: frozenset[str] = frozenset()
    where: tuple[Placed, ...] = ()

    def pointer(self, key: str) -> str:
        """The JSON Pointer to a key: into the alternative where it stands there."""
        return f"{self.base if key in self.own else ''}/{key}"


def alternatives(document: dict[str, Json]) -> list[Alternative]:
    """The layouts of a mapping in normal form, in the order in which they are tried."""
    outer = {key: document[key] for key in _KEYS if document.get(key) is not None}
    around = _placed(outer, "")
    if "any_of" not in document:
        return [Alternative(layout=outer, where=around)]
    return [
        _laid_over(outer, around, variant, number)
        for number, variant in enumerate(document["any_of"])
    ]


def _laid_over(
    outer: dict[str, Json], around: tuple[Placed, ...], variant: dict[str, Json], number: int
) -> Alternative:
    base = f"/any_of/{number}"
    layout = {**outer, **variant}
    if meta := {**outer.get("meta", {}), **variant.get("meta", {})}:
        layout["meta"] = meta
    if where := [*outer.get("where", []), *variant.get("where", [])]:
        layout["where"] = where
    return Alternative(
        layout=layout,
        name=f"alternative {number + 1}: ",
        base=base,
        own=frozenset([*variant, *(f"meta/{key}" for key in variant.get("meta", {}))]),
        where=(*around, *_placed(variant, base)),
    )


def _placed(layout: dict[str, Json], base: str) -> tuple[Placed, ...]:
    conditions = enumerate(layout.get("where", []))
    return tuple(Placed(condition=one, pointer=f"{base}/where/{i}") for i, one in conditions)


def too_many(old: dict[str, Json], new: dict[str, Json]) -> bool:
    """Whether the alternatives of two mappings are more than can be compared one by one."""
    most = [len(document.get("any_of", ())) for document in (old, new)]
    around = [
        len(exactly({key: document.get(key) for key in _KEYS})) * count
        for document, count in zip((old, new), most, strict=True)
    ]
    return most[0] * most[1] > _MOST_PAIRS or max(around) > _MOST_AROUND


def per_row(document: dict[str, Json]) -> bool:
    """Whether alternatives are tried for whole rows, since one has an `each` of its own."""
    return any("each" in variant for variant in document.get("any_of", []))


def paired(old: list[Alternative], new: list[Alternative]) -> list[Pair]:
    """Which old alternative has become which new one, in the order of both."""
    before, after = ([exactly(one.layout) for one in side] for side in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [pair for _, *range_ in matcher.get_opcodes() for pair in _of_stretch(*range_)]


def _of_stretch(first: int, end: int, new_first: int, new_end: int) -> Iterator[Pair]:
    for step in range(max(end - first, new_end - new_first)):
        before, after = first + step, new_first + step
        yield before if before < end else None, after if after < new_end else None
