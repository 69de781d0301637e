"""Compare values, conditions of `where` and facts of `source`."""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from ingot.agent.reporting.mapping_words import (
    LONGEST,
    common_length,
    condition_text,
    cut_text,
    fact_text,
    pairs_text,
    value_text,
)
from ingot.agent.review.diff.change_rules import Change, make_change
from ingot.agent.review.diff.normal_form import exact_text
from ingot.converters.rows import Json

_BEFORE, _WINDOW = 40, 120  # characters
_FORMS = ("path", "concat", "any_of", "template", "literal")
_MODIFIERS = ("each", "as", "replace", "label", "sep")


def contrast_texts(old: Json, new: Json, words: Callable[[Json], str]) -> tuple[str, str]:
    """Describe two different parts, cut; if they begin alike, from where they differ."""
    before, after = words(old), words(new)
    if before == after:
        before, after = map(_leaf_text, _first_difference(old, new))
    if before[:LONGEST] == after[:LONGEST]:
        start = max(0, common_length(before, after) - _BEFORE)
        return _window(before, start), _window(after, start)
    return cut_text(before), cut_text(after)


def contrast_optional_texts(
    old: Json, new: Json, words: Callable[[Json], str]
) -> tuple[str | None, str | None]:
    """Contrast two parts of which one may be None: not there."""
    if old is not None and new is not None:
        return contrast_texts(old, new, words)
    before, after = (None if part is None else cut_text(words(part)) for part in (old, new))
    return before, after


def _first_difference(old: Json, new: Json) -> tuple[Json, Json]:
    """Return the innermost parts, at the same place of both, that differ first."""
    while True:
        if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
            pairs = [(old[key], new[key]) for key in old]
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            pairs = list(zip(old, new, strict=True))
        else:
            return old, new
        old, new = next((o, n) for o, n in pairs if _leaf_text(o) != _leaf_text(n))


def _leaf_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _window(text: str, start: int) -> str:
    end = start + _WINDOW
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"


class _Facet(NamedTuple):
    """One respect in which two values differ, with the entries of a map if it is one of these."""

    rule: str
    old: dict[str, Json] | None = None
    new: dict[str, Json] | None = None


def value_changes(
    old: Json, new: Json, *, target: str, path_rule: str, pointer: str, needed: bool = False
) -> list[Change]:
    """Compare two values."""
    if exact_text(old) == exact_text(new):
        return []
    if old is None or new is None:
        return [
            make_change(path_rule, target, *contrast_optional_texts(old, new, value_text), pointer)
        ]
    facets = {
        (f.rule, exact_text([f.old, f.new])): f for f in _differing_facets(old, new, needed=needed)
    }
    return [
        make_change(facet.rule or path_rule, target, *_facet_texts(facet, old, new), pointer)
        for facet in facets.values()
    ]


def _facet_texts(facet: _Facet, old: Json, new: Json) -> tuple[str | None, str | None]:
    if facet.old is None and facet.new is None:
        return contrast_texts(old, new, value_text)
    before, after = contrast_optional_texts(facet.old, facet.new, pairs_text)
    return before and f"map {before}", after and f"map {after}"


def only_adds_entries(old: Json, new: Json) -> bool:
    """Check whether two values differ only by entries added to maps without `*`."""
    facets = list(_differing_facets(old, new, needed=False))
    return bool(facets) and all(facet.rule == "map_value_added" for facet in facets)


def _differing_facets(old: Json, new: Json, *, needed: bool) -> Iterator[_Facet]:
    """Yield in what two values differ; a rule "" stands for another path or form."""
    if exact_text(old) == exact_text(new):
        return
    before, after = _explicit_form(old), _explicit_form(new)
    form = next(form for form in _FORMS if form in before)
    if form not in after:
        yield _Facet(_form_rule(old, after, needed))
        return
    parts = isinstance(before[form], list)
    same = exact_text(before[form]) == exact_text(after[form])
    if not same and not parts:
        yield _Facet("")
    elif not same:
        grows = needed and form == "any_of" and "each" not in before
        yield from _part_facets(form, before[form], after[form], needed=grows)
    for key in _MODIFIERS:
        if exact_text(before.get(key)) != exact_text(after.get(key)):
            yield _Facet(f"value_{key}")
    yield from _pick_facets(before.get("pick"), after.get("pick"))
    yield from _lookup_facets(before.get("map"), after.get("map"))


def _explicit_form(value: Json) -> dict[str, Json]:
    if isinstance(value, str):
        return {"path": value}
    return {"concat": value} if isinstance(value, list) else value


def _form_rule(old: Json, after: dict[str, Json], needed: bool) -> str:
    """Return the rule for another form: the value may have become the first of several."""
    first = after.keys() == {"any_of"} and exact_text(after["any_of"][0]) == exact_text(old)
    if not first:
        return ""
    return "value_fallback_added" if needed else "value_fallback"


def _part_facets(form: str, old: list[Json], new: list[Json], *, needed: bool) -> Iterator[_Facet]:
    spelt, respelt = list(map(exact_text, old)), list(map(exact_text, new))
    if sorted(spelt) == sorted(respelt):
        yield _Facet("value_order")
    elif len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            yield from _differing_facets(before, after, needed=False)
    elif form == "any_of" and respelt[: len(spelt)] == spelt:
        yield _Facet("value_fallback_added" if needed else "value_fallback")
    else:
        yield _Facet("")


def _pick_facets(old: Json, new: Json) -> Iterator[_Facet]:
    if exact_text(old) == exact_text(new):
        return
    if old is None or new is None:
        yield _Facet("value_pick")
        return
    for facet in _differing_facets(old, new, needed=False):
        yield facet if facet.rule.startswith("map_") else _Facet("value_pick")


def _lookup_facets(old: dict[str, Json] | None, new: dict[str, Json] | None) -> Iterator[_Facet]:
    if (old is None) != (new is None):
        yield _Facet("value_map")
    elif old is not None and new is not None:
        yield from _entry_facets(old, new)


def _entry_facets(old: dict[str, Json], new: dict[str, Json]) -> Iterator[_Facet]:
    default = _select_entries(old, {"*"}), _select_entries(new, {"*"})
    if exact_text(default[0]) != exact_text(default[1]):
        yield _Facet("map_default", default[0], default[1])
    rules = ("map_value_added", "map_value_removed", "map_value_changed")
    for rule, keys in zip(rules, _compare_keys(old, new), strict=True):
        if keys := keys - {"*"}:
            # Beside a `*`, a value had an outcome before and has one after, whatever is listed.
            named = "map_value_changed" if any(default) else rule
            yield _Facet(named, _select_entries(old, keys), _select_entries(new, keys))


def _select_entries(table: dict[str, Json], keys: set[str]) -> dict[str, Json] | None:
    return {key: to for key, to in table.items() if key in keys} or None


def _compare_keys(
    old: dict[str, Json], new: dict[str, Json]
) -> tuple[set[str], set[str], set[str]]:
    """Return the keys that were added, removed, and changed."""
    changed = {
        key for key in old.keys() & new.keys() if exact_text(old[key]) != exact_text(new[key])
    }
    return new.keys() - old.keys(), old.keys() - new.keys(), changed


def table_changes(
    old: dict[str, Json],
    new: dict[str, Json],
    *,
    target: str,
    rules: tuple[str, str, str],
    pointer: Callable[[str], str],
) -> list[Change]:
    """Compare a role's map, by the rules for entries added, removed, and changed."""
    found = []
    for rule, keys in zip(rules, _compare_keys(old, new), strict=True):
        if not keys:
            continue
        words = contrast_optional_texts(
            _select_entries(old, keys), _select_entries(new, keys), pairs_text
        )
        found.append(make_change(rule, target, *words, pointer(min(keys))))
    return found


Condition = dict[str, Json]

# Old conditions of one path that a new one is held against; beyond, it counts as one that tightens.
_MOST_HELD = 20


class PlacedCondition(NamedTuple):
    """A condition, the JSON Pointer to it, and its values as they are compared."""

    condition: Condition
    pointer: str
    values: frozenset[str]


def where_changes(
    old: list[PlacedCondition], new: list[PlacedCondition], *, target: str
) -> list[Change]:
    """Compare the conditions of one layout, old ones paired with new ones of their path.

    A condition that admits more is `where_widened`, whatever stands around it.
    """
    before, after = _distinct_conditions(old), _distinct_conditions(new)
    if list(before) != list(after) and before.keys() == after.keys():
        words = (_conditions_text(old), _conditions_text(new))
        return [make_change("where_order", target, *words, new[0].pointer)]
    gone = [one for key, one in before.items() if key not in after]
    come = [one for key, one in after.items() if key not in before]
    return list(_pair_changes(gone, come, list(before.values()), target))


def _distinct_conditions(conditions: list[PlacedCondition]) -> dict[str, PlacedCondition]:
    once: dict[str, PlacedCondition] = {}
    for one in conditions:
        once.setdefault(exact_text(one.condition), one)
    return once


def _conditions_text(conditions: list[PlacedCondition]) -> str:
    return cut_text(", ".join(condition_text(one.condition) for one in conditions))


def _pair_changes(
    gone: list[PlacedCondition],
    come: list[PlacedCondition],
    before: list[PlacedCondition],
    target: str,
) -> Iterator[Change]:
    pairs = [*_pairs(gone, come, _path_and_operator), *_pairs(gone, come, _path)]
    for one, other in pairs:
        words = contrast_texts(one.condition, other.condition, condition_text)
        yield make_change(_condition_rule(one, other), target, *words, other.pointer)
    for one in gone:
        words_gone = cut_text(condition_text(one.condition))
        yield make_change("where_widened", target, words_gone, None, one.pointer)
    known = _comparable_by_path(before)
    for other in come:
        held = any(_implies(one, other) for one in known[other.condition["path"]])
        rule = "where_widened" if held else "where_tightened"
        words_come = cut_text(condition_text(other.condition))
        yield make_change(rule, target, None, words_come, other.pointer)


def _comparable_by_path(
    conditions: Iterable[PlacedCondition],
) -> dict[str, list[PlacedCondition]]:
    found: dict[str, list[PlacedCondition]] = defaultdict(list)
    for one in conditions:
        if len(known := found[one.condition["path"]]) < _MOST_HELD:
            known.append(one)
    return found


def _pairs(
    gone: list[PlacedCondition], come: list[PlacedCondition], alike: Callable[[Condition], Hashable]
) -> list[tuple[PlacedCondition, PlacedCondition]]:
    """Pair conditions that are alike, and take them out of both lists."""
    left: dict[Hashable, deque[PlacedCondition]] = defaultdict(deque)
    for other in come:
        left[alike(other.condition)].append(other)
    found = [(one, left[key].popleft()) for one in gone if left[key := alike(one.condition)]]
    taken = {id(one) for pair in found for one in pair}
    for side in (gone, come):
        side[:] = [one for one in side if id(one) not in taken]
    return found


def _path(one: Condition) -> Hashable:
    return str(one["path"])


def _path_and_operator(one: Condition) -> Hashable:
    return frozenset(one), one["path"]


def _condition_rule(old: PlacedCondition, new: PlacedCondition) -> str:
    if _implies(old, new):
        return "where_widened"
    return "where_tightened" if _implies(new, old) else "where_changed"


def _implies(one: PlacedCondition, other: PlacedCondition) -> bool:
    """Check whether every row that passes one condition passes the other, for certain."""
    was, now = one.condition, other.condition
    if was["path"] != now["path"]:
        return False
    if "min_chars" in was and "min_chars" in now:
        return bool(now["min_chars"] <= was["min_chars"])
    if "max_chars" in was and "max_chars" in now:
        return bool(now["max_chars"] >= was["max_chars"])
    if "in" in was:
        if "in" in now:
            return one.values <= other.values
        return "not_in" in now and not one.values & other.values
    return "not_in" in was and "not_in" in now and other.values <= one.values


_FACTS = ("files", "format", "encoding", "delimiter", "quote", "columns", "root", "json_fields")


def source_changes(old: dict[str, Json], new: dict[str, Json]) -> list[Change]:
    """Compare the facts about the files."""
    found = []
    for fact in _FACTS:
        before, after = old.get(fact), new.get(fact)
        if exact_text(before) == exact_text(after):
            continue
        rule = f"source_{fact}"
        if fact == "files" and before and after and _is_wider(before, after):
            # Otherwise files that come may outweigh those of the format that was found before.
            pinned = "format" in old and old["format"] == new.get("format")
            rule = "source_files_widened" if pinned else "source_files_other_kind"
        words = contrast_optional_texts(before, after, fact_text)
        found.append(make_change(rule, f"source.{fact}", *words, f"/source/{fact}"))
    return found


def _is_wider(old: list[str], new: list[str]) -> bool:
    """Check whether the new patterns choose every file that the old ones choose, for certain.

    The last pattern that matches decides: each pattern that chose has to stand before no other
    exclusions than those it stood before. Where all exclude, the rest is chosen, and one pattern
    that chooses would end that.
    """
    if all(map(_excludes, old)):
        return set(new) <= set(old)
    return all(
        any(
            pattern == other and _later_exclusions(new, there) <= _later_exclusions(old, here)
            for there, other in enumerate(new)
        )
        for here, pattern in enumerate(old)
        if not _excludes(pattern)
    )


def _excludes(pattern: str) -> bool:
    return pattern.startswith("!")


def _later_exclusions(patterns: list[str], place: int) -> set[str]:
    return set(filter(_excludes, patterns[place:]))
