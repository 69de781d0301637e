"""Compare two mappings target by target, each alternative laid over the outer keys."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ingot.agent.reporting.mapping_words import cut_text, each_text, group_text, layout_text
from ingot.agent.review.diff.change_rules import CLASSES, Change, make_change
from ingot.agent.review.diff.message_changes import message_changes
from ingot.agent.review.diff.normal_form import exact_text
from ingot.agent.review.diff.part_changes import (
    PlacedCondition,
    contrast_optional_texts,
    source_changes,
    value_changes,
    where_changes,
)
from ingot.converters.mapping.language import META_KEYS
from ingot.converters.rows import Json

_KEYS = ("each", "where", "text", "messages", "system", "tools", "meta")
# Pairs of alternatives, and characters of the keys around them, said again for each of them.
_MOST_PAIRS, _MOST_AROUND = 4_000_000, 4 << 20
# (place among the old alternatives, place among the new ones); None = it has no partner.
Pair = tuple[int | None, int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Alternative:
    """One layout laid over the outer keys, with its conditions, the outer ones first.

    Its targets begin with `name` (`alternative 1: `); `base` is its JSON Pointer, and `own` are the
    keys (`text`, `meta/language`) that it states itself.
    """

    layout: dict[str, Json]
    name: str = ""
    base: str = ""
    own: frozenset[str] = frozenset()
    where: tuple[PlacedCondition, ...] = ()

    def pointer(self, key: str) -> str:
        """Return the JSON Pointer to a key: into the alternative if it is stated there."""
        return f"{self.base if key in self.own else ''}/{key}"


def _expand_alternatives(document: dict[str, Json]) -> list[_Alternative]:
    """Return the layouts of a mapping in normal form, in the order in which they are tried."""
    outer = {key: document[key] for key in _KEYS if document.get(key) is not None}
    around = _place_conditions(outer, "")
    if "any_of" not in document:
        return [_Alternative(layout=outer, where=around)]
    return [
        _overlay_variant(outer, around, variant, number)
        for number, variant in enumerate(document["any_of"])
    ]


def _overlay_variant(
    outer: dict[str, Json],
    around: tuple[PlacedCondition, ...],
    variant: dict[str, Json],
    number: int,
) -> _Alternative:
    base = f"/any_of/{number}"
    layout = {**outer, **variant}
    if meta := {**outer.get("meta", {}), **variant.get("meta", {})}:
        layout["meta"] = meta
    if where := [*outer.get("where", []), *variant.get("where", [])]:
        layout["where"] = where
    return _Alternative(
        layout=layout,
        name=f"alternative {number + 1}: ",
        base=base,
        own=frozenset([*variant, *(f"meta/{key}" for key in variant.get("meta", {}))]),
        where=(*around, *_place_conditions(variant, base)),
    )


def _place_conditions(layout: dict[str, Json], base: str) -> tuple[PlacedCondition, ...]:
    return tuple(
        PlacedCondition(
            one,
            f"{base}/where/{place}",
            frozenset(map(exact_text, one.get("in") or one.get("not_in") or ())),
        )
        for place, one in enumerate(layout.get("where", []))
    )


def _has_too_many_pairs(old: dict[str, Json], new: dict[str, Json]) -> bool:
    most = [len(document.get("any_of", ())) for document in (old, new)]
    around = [
        len(exact_text({key: document.get(key) for key in _KEYS})) * count
        for document, count in zip((old, new), most, strict=True)
    ]
    return most[0] * most[1] > _MOST_PAIRS or max(around) > _MOST_AROUND


def _is_tried_per_row(document: dict[str, Json]) -> bool:
    """Check whether alternatives are tried for whole rows, since one has its own `each`."""
    return any("each" in variant for variant in document.get("any_of", []))


def _pair_alternatives(old: list[_Alternative], new: list[_Alternative]) -> list[Pair]:
    """Pair old alternatives with new ones, in the order of both."""
    before, after = ([exact_text(one.layout) for one in side] for side in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [pair for _, *range_ in matcher.get_opcodes() for pair in _pair_stretch(*range_)]


def _pair_stretch(first: int, end: int, new_first: int, new_end: int) -> Iterator[Pair]:
    for step in range(max(end - first, new_end - new_first)):
        before, after = first + step, new_first + step
        yield before if before < end else None, after if after < new_end else None


Document = dict[str, Json]


def compare_mappings(old: Document, new: Document) -> tuple[Change, ...]:
    """Compare two mappings in normal form.

    The changes are in the order of the language: source, group, then the layouts key by key. No
    change at all means that every row gives the same records.
    """
    if _has_too_many_pairs(old, new):
        return _uncompared_changes(old, new)
    before, after = _expand_alternatives(old), _expand_alternatives(new)
    kinds = _common_kind(before), _common_kind(after)
    if kinds == (None, None):
        return ()
    if None in kinds:
        return (_relevance_change(before, after),)
    found = source_changes(old.get("source", {}), new.get("source", {}))
    found += _group_changes(old.get("group"), new.get("group"))
    if kinds[0] != kinds[1]:
        words = _all_texts(before), _all_texts(after)
        return (
            *found,
            make_change("records_kind", kinds[1] or "", *words, _irrelevance_pointer(new)),
        )
    if _differ_in_row_scope(old, new):
        was, now = ("per row" if _is_tried_per_row(one) else "per element" for one in (old, new))
        found.append(make_change("alternatives_each", "alternatives", was, now, "/any_of"))
    return (
        *found,
        *_layout_changes(before, after, rows=_is_tried_per_row(old) or _is_tried_per_row(new)),
    )


def worst_class(found: Iterable[Change]) -> str:
    """Return the most severe class of some changes; `none` if there are none."""
    return max((one.kind for one in found), key=CLASSES.index, default="none")


def _uncompared_changes(old: Document, new: Document) -> tuple[Change, ...]:
    """Return one change for all if there are too many alternatives to compare each."""
    if exact_text(old) == exact_text(new):
        return ()
    was, now = (f"{len(one.get('any_of', [None]))} alternatives" for one in (old, new))
    return (make_change("alternatives_many", "alternatives", was, now, _irrelevance_pointer(new)),)


# --- relevance and kind


def _common_kind(layouts: list[_Alternative]) -> str | None:
    keys = ("messages", "text")
    return next((key for key in keys if any(key in one.layout for one in layouts)), None)


def _relevance_change(before: list[_Alternative], after: list[_Alternative]) -> Change:
    if _common_kind(before) is None:
        kind = _common_kind(after) or ""
        return make_change("mapped_now", kind, None, _all_texts(after), after[0].pointer(kind))
    kind = _common_kind(before) or ""
    return make_change("mapped_no_more", kind, _all_texts(before), None, before[0].pointer(kind))


def _irrelevance_pointer(document: Document) -> str:
    return next((f"/{key}" for key in ("text", "messages", "any_of") if key in document), "")


def _all_texts(layouts: list[_Alternative]) -> str:
    return cut_text(" | ".join(layout_text(one.layout) for one in layouts))


def _group_changes(old: Json, new: Json) -> list[Change]:
    if exact_text(old) == exact_text(new):
        return []
    return [make_change("group", "group", *contrast_optional_texts(old, new, group_text), "/group")]


# --- alternatives


def _differ_in_row_scope(old: Document, new: Document) -> bool:
    several = "any_of" in old and "any_of" in new
    return (
        several
        and _is_tried_per_row(old) != _is_tried_per_row(new)
        and ("each" in old or "each" in new)
    )


def _layout_changes(
    old: list[_Alternative], new: list[_Alternative], *, rows: bool
) -> Iterator[Change]:
    """Compare all layouts; `rows`: alternatives are tried for whole rows."""
    pairs = _pair_alternatives(old, new)
    both = [(i, j) for i, j in pairs if i is not None and j is not None]
    per_pair = [list(_layout_pair_changes(old[i], new[j], last=i == len(old) - 1)) for i, j in both]
    common = (
        set.intersection(*({_change_identity(one) for one in found} for found in per_pair))
        if len(both) == len(old) > 1
        else set()
    )
    yield from _common_changes(per_pair, common, rows)
    for (i, j), found in zip(both, per_pair, strict=True):
        name = new[j].name or old[i].name
        last = i == len(old) - 1
        for one in found:
            if _change_identity(one) not in common:
                yield replace(
                    _change_among_alternatives(one, last=last), target=f"{name}{one.target}"
                )
    yield from _unpaired_changes(old, new, pairs)


def _change_identity(one: Change) -> tuple[str, str, str | None, str | None]:
    return one.target, one.rule, one.old, one.new


def _common_changes(
    per_pair: list[list[Change]],
    common: set[tuple[str, str, str | None, str | None]],
    rows: bool,
) -> Iterator[Change]:
    """Yield what changed in all alternatives alike.

    A row that passes a condition passes it in each of them, so none takes a row from another,
    unless they are tried for whole rows of which some elements pass.
    """
    for one in per_pair[0] if common else ():
        if _change_identity(one) in common and (rows or one.rule != "where_order"):
            yield _change_among_alternatives(one, last=not rows)


def _change_among_alternatives(one: Change, *, last: bool) -> Change:
    if one.rule != "where_widened" or last:
        return one
    rule = "where_widened_among_alternatives"
    return make_change(rule, one.target, one.old, one.new, one.pointer)


def _unpaired_changes(
    old: list[_Alternative], new: list[_Alternative], pairs: list[tuple[int | None, int | None]]
) -> Iterator[Change]:
    gone = {exact_text(old[i].layout): i for i, j in pairs if i is not None and j is None}
    come = {exact_text(new[j].layout): j for i, j in pairs if i is None and j is not None}
    last = max((j for i, j in pairs if i is not None and j is not None), default=-1)
    for spelt, i in gone.items():
        words = cut_text(layout_text(old[i].layout))
        target = f"alternative {i + 1}"
        if spelt in come:
            moved = come[spelt]
            was, now = (f"{words} (at place {place + 1})" for place in (i, moved))
            target = f"alternative {moved + 1}"
            yield make_change("alternative_order", target, was, now, new[moved].base)
        else:
            yield make_change("alternative_removed", target, words, None, old[i].base)
    for spelt, j in come.items():
        if spelt not in gone:
            rule = "alternative_added" if j > last else "alternative_inserted"
            words = cut_text(layout_text(new[j].layout))
            yield make_change(rule, f"alternative {j + 1}", None, words, new[j].base)


# --- one layout


def _layout_pair_changes(old: _Alternative, new: _Alternative, *, last: bool) -> Iterator[Change]:
    """Compare two layouts; `last`: a row that gives nothing here gives nothing."""
    before, after = old.layout, new.layout
    if exact_text(before.get("each")) != exact_text(after.get("each")):
        words = contrast_optional_texts(before.get("each"), after.get("each"), each_text)
        yield make_change("each", "each", *words, _pointer(old, new, "each"))
    where = where_changes(list(old.where), list(new.where), target="where")
    yield from (one for one in where if one.rule != "where_order" or not last)
    if "messages" in before and "messages" in after:
        yield from message_changes(
            before["messages"],
            after["messages"],
            target="messages",
            pointer=new.pointer("messages"),
            decides=last,
        )
    for key in ("text", "system", "tools"):
        yield from _value_changes(old, new, key, f"{key}_path", needed=key == "text" and last)
    for key in META_KEYS:
        yield from _meta_changes(old, new, key)


def _pointer(old: _Alternative, new: _Alternative, key: str) -> str:
    return (new if _own_value(new, key) is not None else old).pointer(key)


def _own_value(side: _Alternative, key: str) -> Json:
    value: Json = side.layout
    for step in key.split("/"):
        value = value.get(step) if value is not None else None
    return value


def _value_changes(
    old: _Alternative, new: _Alternative, key: str, path_rule: str, *, needed: bool
) -> list[Change]:
    return value_changes(
        _own_value(old, key),
        _own_value(new, key),
        target=key,
        path_rule=path_rule,
        pointer=_pointer(old, new, key),
        needed=needed,
    )


def _meta_changes(old: _Alternative, new: _Alternative, key: str) -> list[Change]:
    """Count whatever changes in a meta value as one change of that value."""
    rule, place = f"meta_{key}", f"meta/{key}"
    found = _value_changes(old, new, place, rule, needed=False)
    return [make_change(rule, f"meta.{key}", one.old, one.new, one.pointer) for one in found]
