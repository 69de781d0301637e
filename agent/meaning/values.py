"""What a change of a value means: its form, its parts, and each of its modifiers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ingot.agent.meaning.exact import exactly
from ingot.agent.meaning.rules import Change, change
from ingot.agent.meaning.words import compared, pairs_text, told
from ingot.agent.preview import value_text
from ingot.converters.rows import Json

_FORMS = ("path", "concat", "any_of", "template", "literal")
_MODIFIERS = ("each", "as", "replace", "label", "sep")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Facet:
    """One respect in which two values differ; with entries of a map where it is one of these."""

    rule: str
    old: dict[str, Json] | None = None
    new: dict[str, Json] | None = None


def value_changes(
    old: Json, new: Json, *, target: str, path_rule: str, pointer: str, needed: bool = False
) -> list[Change]:
    """The changes of a value.

    Args:
        old: the value, None where there was none.
        new: likewise.
        target: how the place is called.
        path_rule: the rule for another path or form.
        pointer: JSON Pointer to the place.
        needed: whether there was no record where the value was blank, and none of another
            alternative either.
    """
    if exactly(old) == exactly(new):
        return []
    if old is None or new is None:
        return [change(path_rule, target, *told(old, new, value_text), pointer)]
    facets = {(f.rule, exactly([f.old, f.new])): f for f in _facets(old, new, needed=needed)}
    return [
        change(facet.rule or path_rule, target, *_words(facet, old, new), pointer)
        for facet in facets.values()
    ]


def _words(facet: _Facet, old: Json, new: Json) -> tuple[str | None, str | None]:
    if facet.old is None and facet.new is None:
        return compared(old, new, value_text)
    before, after = told(facet.old, facet.new, pairs_text)
    return before and f"map {before}", after and f"map {after}"


def only_looks_up_more(old: Json, new: Json) -> bool:
    """Whether two values differ in nothing but entries that were added to maps without `*`."""
    facets = list(_facets(old, new, needed=False))
    return bool(facets) and all(facet.rule == "map_value_added" for facet in facets)


def _facets(old: Json, new: Json, *, needed: bool) -> Iterator[_Facet]:
    """In what two values differ; a rule "" stands for another path or form."""
    if exactly(old) == exactly(new):
        return
    before, after = _spelt_out(old), _spelt_out(new)
    form = next(form for form in _FORMS if form in before)
    if form not in after:
        yield _Facet(rule=_other_form(old, after, needed))
        return
    parts = isinstance(before[form], list)
    same = exactly(before[form]) == exactly(after[form])
    if not same and not parts:
        yield _Facet(rule="")
    elif not same:
        grows = needed and form == "any_of" and "each" not in before
        yield from _parts(form, before[form], after[form], needed=grows)
    for key in _MODIFIERS:
        if exactly(before.get(key)) != exactly(after.get(key)):
            yield _Facet(rule=f"value_{key}")
    yield from _picked(before.get("pick"), after.get("pick"))
    yield from _looked_up(before.get("map"), after.get("map"))


def _spelt_out(value: Json) -> dict[str, Json]:
    if isinstance(value, str):
        return {"path": value}
    return {"concat": value} if isinstance(value, list) else value


def _other_form(old: Json, after: dict[str, Json], needed: bool) -> str:
    """The rule where the form is another: the value may have become the first of several."""
    first = after.keys() == {"any_of"} and exactly(after["any_of"][0]) == exactly(old)
    if not first:
        return ""
    return "value_fallback_added" if needed else "value_fallback"


def _parts(form: str, old: list[Json], new: list[Json], *, needed: bool) -> Iterator[_Facet]:
    spelt, respelt = list(map(exactly, old)), list(map(exactly, new))
    if sorted(spelt) == sorted(respelt):
        yield _Facet(rule="value_order")
    elif len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            yield from _facets(before, after, needed=False)
    elif form == "any_of" and respelt[: len(spelt)] == spelt:
        yield _Facet(rule="value_fallback_added" if needed else "value_fallback")
    else:
        yield _Facet(rule="")


def _picked(old: Json, new: Json) -> Iterator[_Facet]:
    if exactly(old) == exactly(new):
        return
    if old is None or new is None:
        yield _Facet(rule="value_pick")
        return
    for facet in _facets(old, new, needed=False):
        yield facet if facet.rule.startswith("map_") else _Facet(rule="value_pick")


def _looked_up(old: dict[str, Json] | None, new: dict[str, Json] | None) -> Iterator[_Facet]:
    if (old is None) != (new is None):
        yield _Facet(rule="value_map")
    elif old is not None and new is not None:
        yield from _entries(old, new)


def _entries(old: dict[str, Json], new: dict[str, Json]) -> Iterator[_Facet]:
    default = _only(old, {"*"}), _only(new, {"*"})
    if exactly(default[0]) != exactly(default[1]):
        yield _Facet(rule="map_default", old=default[0], new=default[1])
    rules = ("map_value_added", "map_value_removed", "map_value_changed")
    for rule, keys in zip(rules, differing(old, new), strict=True):
        if keys := keys - {"*"}:
            # Beside a `*`, a value had an outcome before and has one after, whatever is listed.
            named = "map_value_changed" if any(default) else rule
            yield _Facet(rule=named, old=_only(old, keys), new=_only(new, keys))


def _only(table: dict[str, Json], keys: set[str]) -> dict[str, Json] | None:
    return {key: to for key, to in table.items() if key in keys} or None


def differing(old: dict[str, Json], new: dict[str, Json]) -> tuple[set[str], set[str], set[str]]:
    """The keys that were added, removed, and changed."""
    changed = {key for key in old.keys() & new.keys() if exactly(old[key]) != exactly(new[key])}
    return new.keys() - old.keys(), old.keys() - new.keys(), changed


def table_changes(
    old: dict[str, Json],
    new: dict[str, Json],
    *,
    target: str,
    rules: tuple[str, str, str],
    pointer: Callable[[str], str],
) -> list[Change]:
    """The changes of a role's map, by the rules for entries added, removed, and changed."""
    found = []
    for rule, keys in zip(rules, differing(old, new), strict=True):
        if not keys:
            continue
        words = told(_only(old, keys), _only(new, keys), pairs_text)
        found.append(change(rule, target, *words, pointer(min(keys))))
    return found
