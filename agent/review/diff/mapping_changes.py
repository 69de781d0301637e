"""Compare two mappings target by target, each alternative laid over the outer keys."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from ingot.agent.reporting.mapping_words import cut_text, each_text, group_text, layout_text
from ingot.agent.review.diff.change_rules import Change, exact_text, make_change
from ingot.agent.review.diff.message_changes import Pair, message_changes
from ingot.agent.review.diff.part_changes import (
    PlacedCondition,
    part_changes,
    source_changes,
    value_changes,
    where_changes,
)
from ingot.converters.mapping.language import META_KEYS
from ingot.converters.rows import Json, MappingDocument

_KEYS = ("each", "where", "text", "messages", "system", "tools", "meta")
# Pairs of alternatives, and characters of the keys around them, said again for each of them.
_MOST_PAIRS, _MOST_AROUND = 4_000_000, 4 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Alternative:
    """One layout laid over the outer keys, with its conditions, the outer ones first.

    Its targets begin with `name` (`alternative 1: `); `base` is its JSON Pointer, and `own` is what
    it states itself.
    """

    layout: MappingDocument
    name: str
    base: str
    own: MappingDocument
    where: list[PlacedCondition]

    def value(self, key: str) -> Json:
        """Return what stands under a key (`text`, `meta/language`), None if nothing does."""
        return _value_at(self.layout, key)

    def pointer(self, key: str) -> str:
        """Return the JSON Pointer to a key: into the alternative if it is stated there."""
        return f"{'' if _value_at(self.own, key) is None else self.base}/{key}"


def _value_at(layout: MappingDocument, key: str) -> Json:
    block, _, inner = key.partition("/")
    value = layout.get(block)
    return (value or {}).get(inner) if inner else value


def _expand_alternatives(document: MappingDocument) -> list[_Alternative]:
    """Return the layouts of a mapping in normal form, in the order in which they are tried."""
    outer = {key: document[key] for key in _KEYS if document.get(key) is not None}
    around = _place_conditions(outer, "")
    found = []
    for number, variant in enumerate(document.get("any_of", [{}])):
        several = "any_of" in document
        base = f"/any_of/{number}" if several else ""
        layout = {
            **outer,
            **variant,
            "where": [*outer.get("where", []), *variant.get("where", [])],
            "meta": {**outer.get("meta", {}), **variant.get("meta", {})},
        }
        found.append(
            _Alternative(
                layout={key: one for key, one in layout.items() if one not in ([], {})},
                name=f"alternative {number + 1}: " if several else "",
                base=base,
                own=variant,
                where=[*around, *_place_conditions(variant, base)],
            )
        )
    return found


def _place_conditions(layout: MappingDocument, base: str) -> list[PlacedCondition]:
    return [
        PlacedCondition(
            one,
            f"{base}/where/{place}",
            frozenset(map(exact_text, one.get("in") or one.get("not_in") or ())),
        )
        for place, one in enumerate(layout.get("where", []))
    ]


def compare_mappings(old: MappingDocument, new: MappingDocument) -> tuple[Change, ...]:
    """Compare two mappings in normal form.

    The changes are in the order of the language: source, group, then the layouts key by key. No
    change at all means that every row gives the same records.
    """
    if _has_too_many_pairs(old, new):
        was, now = (f"{len(one.get('any_of', [None]))} alternatives" for one in (old, new))
        place = _first_pointer(new)
        many = make_change("alternatives_many", "alternatives", was, now, place)
        return () if exact_text(old) == exact_text(new) else (many,)
    before, after = _expand_alternatives(old), _expand_alternatives(new)
    kinds = _records_kind(before), _records_kind(after)
    if "" in kinds:
        return tuple(_relevance_changes(before, after, *kinds))
    found = [
        *source_changes(old.get("source", {}), new.get("source", {})),
        *part_changes("group", "group", old.get("group"), new.get("group"), group_text, "/group"),
    ]
    if kinds[0] != kinds[1]:
        words = _all_texts(before), _all_texts(after)
        return (*found, make_change("records_kind", kinds[1], *words, _first_pointer(new)))
    # Alternatives are tried for whole rows where one has its own `each`.
    rows = [any("each" in variant for variant in one.get("any_of", [])) for one in (old, new)]
    several = "any_of" in old and "any_of" in new
    if several and rows[0] != rows[1] and ("each" in old or "each" in new):
        was, now = ("per row" if one else "per element" for one in rows)
        found.append(make_change("alternatives_each", "alternatives", was, now, "/any_of"))
    return (*found, *_layout_changes(before, after, rows=any(rows)))


def _has_too_many_pairs(old: MappingDocument, new: MappingDocument) -> bool:
    most = [len(document.get("any_of", ())) for document in (old, new)]
    around = [
        len(exact_text({key: document.get(key) for key in _KEYS})) * count
        for document, count in zip((old, new), most, strict=True)
    ]
    return most[0] * most[1] > _MOST_PAIRS or max(around) > _MOST_AROUND


# --- relevance and kind


def _records_kind(layouts: Sequence[_Alternative]) -> str:
    keys = ("messages", "text")
    return next((key for key in keys if any(key in one.layout for one in layouts)), "")


def _relevance_changes(
    before: Sequence[_Alternative], after: Sequence[_Alternative], was: str, now: str
) -> Iterator[Change]:
    if now:
        place = after[0].pointer(now)
        yield make_change("mapped_now", now, None, _all_texts(after), place)
    elif was:
        place = before[0].pointer(was)
        yield make_change("mapped_no_more", was, _all_texts(before), None, place)


def _first_pointer(document: MappingDocument) -> str:
    return next((f"/{key}" for key in ("text", "messages", "any_of") if key in document), "")


def _all_texts(layouts: Sequence[_Alternative]) -> str:
    return cut_text(" | ".join(layout_text(one.layout) for one in layouts))


# --- alternatives


def _layout_changes(
    old: Sequence[_Alternative], new: Sequence[_Alternative], *, rows: bool
) -> Iterator[Change]:
    """Compare all layouts; `rows`: alternatives are tried for whole rows."""
    pairs = _pair_alternatives(old, new)
    both = [(i, j) for i, j in pairs if i is not None and j is not None]
    per_pair = [list(_layout_pair_changes(old[i], new[j], last=i == len(old) - 1)) for i, j in both]
    # What changed in all alternatives alike. A row that passes a condition passes it in each of
    # them, so none takes a row from another, unless they are tried for whole rows of which some
    # elements pass.
    common = (
        set.intersection(*({_change_identity(one) for one in found} for found in per_pair))
        if len(both) == len(old) > 1
        else set()
    )
    for one in per_pair[0] if common else ():
        if _change_identity(one) in common and (rows or one.rule != "where_order"):
            yield _change_among_alternatives(one, last=not rows)
    for (i, j), found in zip(both, per_pair, strict=True):
        name = new[j].name or old[i].name
        for one in found:
            if _change_identity(one) not in common:
                settled = _change_among_alternatives(one, last=i == len(old) - 1)
                yield replace(settled, target=f"{name}{one.target}")
    yield from _unpaired_changes(old, new, pairs)


def _pair_alternatives(old: Sequence[_Alternative], new: Sequence[_Alternative]) -> list[Pair]:
    """Pair old alternatives with new ones, in the order of both."""
    before, after = ([exact_text(one.layout) for one in side] for side in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        pair
        for _, first, end, new_first, new_end in matcher.get_opcodes()
        for pair in zip_longest(range(first, end), range(new_first, new_end))
    ]


def _change_identity(one: Change) -> tuple[str, str, str | None, str | None]:
    return one.target, one.rule, one.old, one.new


def _change_among_alternatives(one: Change, *, last: bool) -> Change:
    if one.rule != "where_widened" or last:
        return one
    rule = "where_widened_among_alternatives"
    return make_change(rule, one.target, one.old, one.new, one.pointer)


def _unpaired_changes(
    old: Sequence[_Alternative], new: Sequence[_Alternative], pairs: Sequence[Pair]
) -> Iterator[Change]:
    gone = {exact_text(old[i].layout): i for i, j in pairs if i is not None and j is None}
    come = {exact_text(new[j].layout): j for i, j in pairs if i is None and j is not None}
    last = max((j for i, j in pairs if i is not None and j is not None), default=-1)
    for spelt, i in gone.items():
        words = cut_text(layout_text(old[i].layout))
        if spelt in come:
            was, now = (f"{words} (at place {place + 1})" for place in (i, come[spelt]))
            target = f"alternative {come[spelt] + 1}"
            yield make_change("alternative_order", target, was, now, new[come[spelt]].base)
        else:
            yield make_change(
                "alternative_removed", f"alternative {i + 1}", words, None, old[i].base
            )
    for spelt, j in come.items():
        if spelt not in gone:
            rule = "alternative_added" if j > last else "alternative_inserted"
            words = cut_text(layout_text(new[j].layout))
            yield make_change(rule, f"alternative {j + 1}", None, words, new[j].base)


def _layout_pair_changes(old: _Alternative, new: _Alternative, *, last: bool) -> Iterator[Change]:
    """Compare two layouts; `last`: a row that gives nothing here gives nothing."""

    def sides(key: str) -> tuple[Json, Json, str]:
        before, after = old.value(key), new.value(key)
        return before, after, (old if after is None else new).pointer(key)

    before, after, pointer = sides("each")
    yield from part_changes("each", "each", before, after, each_text, pointer)
    where = where_changes(old.where, new.where)
    yield from (one for one in where if one.rule != "where_order" or not last)
    before, after, pointer = sides("messages")
    if before is not None and after is not None:
        yield from message_changes(before, after, pointer, decides=last)
    for key in ("text", "system", "tools"):
        before, after, pointer = sides(key)
        needed = key == "text" and last
        yield from value_changes(
            before, after, target=key, path_rule=f"{key}_path", pointer=pointer, needed=needed
        )
    for key in META_KEYS:  # whatever changes in a meta value is one change of that value
        before, after, pointer = sides(f"meta/{key}")
        rule, target = f"meta_{key}", f"meta.{key}"
        for one in value_changes(before, after, target=target, path_rule=rule, pointer=pointer):
            yield make_change(rule, target, one.old, one.new, pointer)
