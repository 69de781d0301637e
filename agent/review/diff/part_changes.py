"""Compare values, conditions of `where` and facts of `source`."""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from ingot.agent.reporting.mapping_words import (
    LONGEST,
    common_length,
    condition_text,
    cut_text,
    fact_text,
    pairs_text,
    value_text,
)
from ingot.agent.review.diff.change_rules import Change, exact_text, make_change
from ingot.converters.mapping.language import (
    MODIFIERS,
    TREE_KEYS,
    Condition,
    Modifier,
    Scalar,
    Value,
)
from ingot.converters.sources.facts import SourceSpec

_BEFORE, _WINDOW = 40, 120  # characters
_BY_PART = ("value", "map")  # kinds of modifiers that are compared part by part
Table = Mapping[str, Scalar]


def part_changes(
    rule: str, target: str, old: object, new: object, words: Callable[[Any], str], pointer: str
) -> list[Change]:
    """Return one change if two parts differ; None is a part that is not there."""
    if exact_text(old) == exact_text(new):
        return []
    return [make_change(rule, target, *contrast_texts(old, new, words), pointer)]


def contrast_texts(
    old: object, new: object, words: Callable[[Any], str]
) -> tuple[str | None, str | None]:
    """Describe two different parts, cut; if they begin alike, from where they differ."""
    before, after = (None if part is None else words(part) for part in (old, new))
    if before is None or after is None:
        return before and cut_text(before), after and cut_text(after)
    if before == after:
        before, after = _first_difference(*(json.loads(exact_text(one)) for one in (old, new)))
    if before[:LONGEST] == after[:LONGEST]:
        start = max(0, common_length(before, after) - _BEFORE)
        return _window(before, start), _window(after, start)
    return cut_text(before), cut_text(after)


def _first_difference(old: object, new: object) -> tuple[str, str]:
    """Return the innermost parts, at the same place of both documents, that differ first."""
    while True:
        if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
            pairs = [(old[key], new[key]) for key in old]
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            pairs = list(zip(old, new, strict=True))
        else:
            return _leaf_text(old), _leaf_text(new)
        old, new = next((o, n) for o, n in pairs if _leaf_text(o) != _leaf_text(n))


def _leaf_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _window(text: str, start: int) -> str:
    end = start + _WINDOW
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"


# --- values


class _Facet(NamedTuple):
    """One respect in which two values differ, with the entries of a map if it is one of these."""

    rule: str
    old: Table | None = None
    new: Table | None = None


def value_changes(
    old: Value | None,
    new: Value | None,
    *,
    target: str,
    path_rule: str,
    pointer: str,
    needed: bool = False,
) -> list[Change]:
    """Compare two values."""
    if old is None or new is None:
        return part_changes(path_rule, target, old, new, value_text, pointer)
    facets = {(one.rule, exact_text(one[1:])): one for one in _facets(old, new, needed=needed)}
    return [
        make_change(facet.rule or path_rule, target, *_facet_texts(facet, old, new), pointer)
        for facet in facets.values()
    ]


def _facet_texts(facet: _Facet, old: Value, new: Value) -> tuple[str | None, str | None]:
    if facet.old is None and facet.new is None:
        return contrast_texts(old, new, value_text)
    before, after = contrast_texts(facet.old, facet.new, pairs_text)
    return before and f"map {before}", after and f"map {after}"


def only_adds_entries(old: Value, new: Value) -> bool:
    """Check whether two values differ only by entries added to maps without `*`."""
    return {facet.rule for facet in _facets(old, new, needed=False)} == {"map_value_added"}


def _facets(old: Value, new: Value, *, needed: bool) -> Iterator[_Facet]:
    """Yield in what two values differ; a rule "" stands for another path or form."""
    if exact_text(old) == exact_text(new):
        return
    fallback = _Facet("value_fallback_added" if needed else "value_fallback")
    if old.kind != new.kind:
        first = new.kind == "any_of" and new.is_bare
        yield fallback if first and exact_text(new.parts[0]) == exact_text(old) else _Facet("")
        return
    if old.kind == "any_of" and old.each:
        fallback = _Facet("value_fallback")
    if old.parts:
        yield from _part_facets(old.parts, new.parts, fallback if old.kind == "any_of" else None)
    elif exact_text(_form_of(old)) != exact_text(_form_of(new)):
        yield _Facet("")
    if old.tree and new.tree:
        inside = ([getattr(one.tree, key) for key in TREE_KEYS] for one in (old, new))
        if any(exact_text(one) != exact_text(other) for one, other in zip(*inside, strict=True)):
            yield _Facet("value_tree")
    before, after = old.modifiers(), new.modifiers()
    for one in sorted(MODIFIERS, key=lambda one: one.kind in _BY_PART):
        yield from _modifier_facets(one, before.get(one), after.get(one))


def _form_of(value: Value) -> object:
    """Return what carries a value of one piece."""
    tree = value.tree and value.tree.path
    return tree or value.path or value.template or value.literal


def _modifier_facets(modifier: Modifier, old: object, new: object) -> Iterator[_Facet]:
    rule = f"value_{modifier.key}"
    if modifier.kind not in _BY_PART or old is None or new is None:
        yield from () if exact_text(old) == exact_text(new) else (_Facet(rule),)
    elif isinstance(old, Value) and isinstance(new, Value):
        for facet in _facets(old, new, needed=False):
            yield facet if facet.rule.startswith("map_") else _Facet(rule)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _entry_facets(old, new)


def _part_facets(
    old: Sequence[Value], new: Sequence[Value], fallback: _Facet | None
) -> Iterator[_Facet]:
    before, after = list(map(exact_text, old)), list(map(exact_text, new))
    if before == after:
        return
    if sorted(before) == sorted(after):
        yield _Facet("value_order")
    elif len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from _facets(one, other, needed=False)
    else:
        yield fallback if fallback and after[: len(before)] == before else _Facet("")


def _entry_facets(old: Table, new: Table) -> Iterator[_Facet]:
    before, after = _effective_entries(old, new)
    for change, keys in _different_keys(before, after).items():
        # A new `*` stands for values that were rejected.
        default = set() if change == "added" else keys & {"*"}
        for rule, chosen in ("map_default", default), (f"map_value_{change}", keys - default):
            if chosen:
                yield _Facet(rule, _select_entries(before, chosen), _select_entries(after, chosen))


def _effective_entries(old: Table, new: Table) -> tuple[Table, Table]:
    """Return two maps with what they give for each key of either; `*` is any other value."""
    keys = [*old, *(key for key in new if key not in old)]
    before, after = (
        {key: one.get(key, one.get("*")) for key in keys if "*" in one or key in one}
        for one in (old, new)
    )
    return before, after


def _select_entries(table: Table, keys: set[str]) -> Table | None:
    return {key: value for key, value in table.items() if key in keys} or None


def _different_keys(old: Table, new: Table) -> dict[str, set[str]]:
    shared = old.keys() & new.keys()
    return {
        "added": new.keys() - shared,
        "removed": old.keys() - shared,
        "changed": {key for key in shared if exact_text(old[key]) != exact_text(new[key])},
    }


def role_map_changes(
    old: Table, new: Table, target: str, pointer: Callable[[str], str]
) -> list[Change]:
    """Compare the maps of two roles; what a map does not name has the role of `*`, or none."""
    changes = []
    before, after = _effective_entries(old, new)
    for change, keys in _different_keys(before, after).items():
        if keys:
            entries = _select_entries(before, keys), _select_entries(after, keys)
            words = contrast_texts(*entries, pairs_text)
            changes.append(
                make_change(f"role_map_value_{change}", target, *words, pointer(min(keys)))
            )
    return changes


# --- conditions

# Old conditions of one path that a new one is held against; beyond, it counts as one that tightens.
_MOST_HELD = 20


class PlacedCondition(NamedTuple):
    """A condition, the JSON Pointer to it, and its values as they are compared."""

    condition: Condition
    pointer: str
    values: frozenset[str]


def where_changes(old: list[PlacedCondition], new: list[PlacedCondition]) -> list[Change]:
    """Compare the conditions of one layout, old ones paired with new ones of their path."""
    before, after = _distinct_conditions(old), _distinct_conditions(new)
    if list(before) != list(after) and before.keys() == after.keys():
        old_text, new_text = (
            cut_text(", ".join(condition_text(one.condition) for one in side))
            for side in (old, new)
        )
        return [make_change("where_order", "where", old_text, new_text, new[0].pointer)]
    removed = [one for key, one in before.items() if key not in after]
    added = [one for key, one in after.items() if key not in before]
    return list(_pair_changes(removed, added, list(before.values())))


def _distinct_conditions(conditions: list[PlacedCondition]) -> dict[str, PlacedCondition]:
    once: dict[str, PlacedCondition] = {}
    for one in conditions:
        once.setdefault(exact_text(one.condition), one)
    return once


def _pair_changes(
    removed: list[PlacedCondition], added: list[PlacedCondition], before: list[PlacedCondition]
) -> Iterator[Change]:
    keyed = _take_pairs(removed, added, lambda one: (one.op, exact_text(one.path)))
    for one, other in [*keyed, *_take_pairs(removed, added, lambda one: exact_text(one.path))]:
        words = contrast_texts(one.condition, other.condition, condition_text)
        tightened = "where_tightened" if _implies(other, one) else "where_changed"
        rule = "where_widened" if _implies(one, other) else tightened
        yield make_change(rule, "where", *words, other.pointer)
    for one in removed:
        text = cut_text(condition_text(one.condition))
        yield make_change("where_widened", "where", text, None, one.pointer)
    known: dict[str, list[PlacedCondition]] = defaultdict(list)
    for one in before:
        known[exact_text(one.condition.path)].append(one)
    for other in added:
        same_path = known[exact_text(other.condition.path)][:_MOST_HELD]
        rule = (
            "where_widened" if any(_implies(one, other) for one in same_path) else "where_tightened"
        )
        text = cut_text(condition_text(other.condition))
        yield make_change(rule, "where", None, text, other.pointer)


def _take_pairs(
    removed: list[PlacedCondition],
    added: list[PlacedCondition],
    key_of: Callable[[Condition], Hashable],
) -> list[tuple[PlacedCondition, PlacedCondition]]:
    """Pair conditions that are alike, and take them out of both lists."""
    unpaired: dict[Hashable, deque[PlacedCondition]] = defaultdict(deque)
    for other in added:
        unpaired[key_of(other.condition)].append(other)
    matched = [
        (one, unpaired[key].popleft()) for one in removed if unpaired[key := key_of(one.condition)]
    ]
    paired = {id(one) for pair in matched for one in pair}
    for side in (removed, added):
        side[:] = [one for one in side if id(one) not in paired]
    return matched


def _implies(first: PlacedCondition, second: PlacedCondition) -> bool:
    """Check whether every row that passes one condition passes the other, for certain."""
    first_condition, second_condition = first.condition, second.condition
    ops = first_condition.op, second_condition.op
    if exact_text(first_condition.path) != exact_text(second_condition.path):
        return False
    if ops == ("min_chars", "min_chars"):
        return second_condition.limit <= first_condition.limit
    if ops == ("max_chars", "max_chars"):
        return second_condition.limit >= first_condition.limit
    if ops == ("in", "in"):
        return first.values <= second.values
    if ops == ("in", "not_in"):
        return not first.values & second.values
    return ops == ("not_in", "not_in") and second.values <= first.values


# --- facts about the files


def source_changes(old: SourceSpec, new: SourceSpec) -> list[Change]:
    """Compare the facts about the files; the rule of each is `source_` and its name."""
    changes = []
    for fact in (one.name for one in fields(SourceSpec)):
        before, after = getattr(old, fact), getattr(new, fact)
        rule = f"source_{fact}"
        if fact == "files" and before and after and _is_wider(before, after):
            # Otherwise files that come may outweigh those of the format that was found before.
            pinned = old.format is not None and old.format == new.format
            rule = "source_files_widened" if pinned else "source_files_other_kind"
        changes += part_changes(rule, f"source.{fact}", before, after, fact_text, f"/source/{fact}")
    return changes


def _is_wider(old: Sequence[str], new: Sequence[str]) -> bool:
    """Check whether the new patterns choose every file that the old ones choose, for certain.

    The last pattern that matches decides: each pattern that chose has to stand before no other
    exclusions than those it stood before. Where all exclude, the rest is chosen, and one pattern
    that chooses would end that.
    """
    if all(pattern.startswith("!") for pattern in old):
        return set(new) <= set(old)
    return all(
        any(
            pattern == other
            and _later_exclusions(new, new_number) <= _later_exclusions(old, old_number)
            for new_number, other in enumerate(new)
        )
        for old_number, pattern in enumerate(old)
        if not pattern.startswith("!")
    )


def _later_exclusions(patterns: Sequence[str], start: int) -> set[str]:
    return {pattern for pattern in patterns[start:] if pattern.startswith("!")}
