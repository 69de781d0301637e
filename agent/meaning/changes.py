"""What a new mapping says otherwise than an old one, target by target, each change with its class.

Both are given in normal form. Every layout is compared as it is run, that is, alternatives with the
keys around them; what changed alike in all of them is said once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ingot.agent.meaning.alternatives import Alternative, alternatives, paired, per_row, too_many
from ingot.agent.meaning.conditions import where_changes
from ingot.agent.meaning.conversations import message_changes
from ingot.agent.meaning.exact import exactly
from ingot.agent.meaning.normal import normal, written
from ingot.agent.meaning.rules import CLASSES, RULES, Change, change
from ingot.agent.meaning.sources import source_changes
from ingot.agent.meaning.values import value_changes
from ingot.agent.meaning.words import each_text, group_text, layout_text, short, told
from ingot.converters.language import META_KEYS
from ingot.converters.rows import Json

__all__ = ["CLASSES", "RULES", "Change", "changes", "class_of", "normal", "written"]

Document = dict[str, Json]


def changes(old: Document, new: Document) -> tuple[Change, ...]:
    """What a new mapping says otherwise than an old one; both in normal form.

    In the order of the language: source, group, then the layouts key by key. No change at all means
    that every row gives the same records.
    """
    if too_many(old, new):
        return _uncompared(old, new)
    before, after = alternatives(old), alternatives(new)
    kinds = _kind(before), _kind(after)
    if kinds == (None, None):
        return ()
    if None in kinds:
        return (_relevance(before, after),)
    found = source_changes(old.get("source", {}), new.get("source", {}))
    found += _group_changes(old.get("group"), new.get("group"))
    if kinds[0] != kinds[1]:
        words = _all_texts(before), _all_texts(after)
        return (*found, change("records_kind", kinds[1] or "", *words, _place(new)))
    if _tried_otherwise(old, new):
        was, now = ("per row" if per_row(one) else "per element" for one in (old, new))
        found.append(change("alternatives_each", "alternatives", was, now, "/any_of"))
    return (*found, *_layout_changes(before, after, rows=per_row(old) or per_row(new)))


def class_of(found: Iterable[Change]) -> str:
    """The most severe class of some changes; `none` of none."""
    return max((one.kind for one in found), key=CLASSES.index, default="none")


def _uncompared(old: Document, new: Document) -> tuple[Change, ...]:
    """One change for all, where the alternatives are too many to look at each."""
    if exactly(old) == exactly(new):
        return ()
    was, now = (f"{len(one.get('any_of', [None]))} alternatives" for one in (old, new))
    return (change("alternatives_many", "alternatives", was, now, _place(new)),)


# --- relevance and kind


def _kind(layouts: list[Alternative]) -> str | None:
    keys = ("messages", "text")
    return next((key for key in keys if any(key in one.layout for one in layouts)), None)


def _relevance(before: list[Alternative], after: list[Alternative]) -> Change:
    if _kind(before) is None:
        kind = _kind(after) or ""
        return change("mapped_now", kind, None, _all_texts(after), after[0].pointer(kind))
    kind = _kind(before) or ""
    return change("mapped_no_more", kind, _all_texts(before), None, before[0].pointer(kind))


def _place(document: Document) -> str:
    return next((f"/{key}" for key in ("text", "messages", "any_of") if key in document), "")


def _all_texts(layouts: list[Alternative]) -> str:
    return short(" | ".join(layout_text(one.layout) for one in layouts))


def _group_changes(old: Json, new: Json) -> list[Change]:
    if exactly(old) == exactly(new):
        return []
    return [change("group", "group", *told(old, new, group_text), "/group")]


# --- alternatives


def _tried_otherwise(old: Document, new: Document) -> bool:
    """Whether several alternatives were tried per row and are per element, or the reverse."""
    several = "any_of" in old and "any_of" in new
    return several and per_row(old) != per_row(new) and ("each" in old or "each" in new)


def _layout_changes(
    old: list[Alternative], new: list[Alternative], *, rows: bool
) -> Iterator[Change]:
    """The changes of the layouts; `rows`: alternatives are tried for whole rows."""
    pairs = paired(old, new)
    both = [(i, j) for i, j in pairs if i is not None and j is not None]
    per_pair = [list(_changes_within(old[i], new[j], last=i == len(old) - 1)) for i, j in both]
    common = _in_all(per_pair) if len(both) == len(old) > 1 else set()
    yield from _common_changes(per_pair, common, rows)
    for (i, j), found in zip(both, per_pair, strict=True):
        name = new[j].name or old[i].name
        last = i == len(old) - 1
        for one in found:
            if _said(one) not in common:
                yield replace(_among(one, last=last), target=f"{name}{one.target}")
    yield from _without_partner(old, new, pairs)


def _said(one: Change) -> tuple[str, str, str | None, str | None]:
    return one.target, one.rule, one.old, one.new


def _in_all(per_pair: list[list[Change]]) -> set[tuple[str, str, str | None, str | None]]:
    return set.intersection(*({_said(one) for one in found} for found in per_pair))


def _common_changes(
    per_pair: list[list[Change]],
    common: set[tuple[str, str, str | None, str | None]],
    rows: bool,
) -> Iterator[Change]:
    """What changed alike in all alternatives.

    A row that passes a condition passes it in each of them, so none takes a row from another,
    unless they are tried for whole rows of which some elements pass.
    """
    for one in per_pair[0] if common else ():
        if _said(one) in common and (rows or one.rule != "where_order"):
            yield _among(one, last=not rows)


def _among(one: Change, *, last: bool) -> Change:
    """The change as it counts in its place among alternatives."""
    if one.rule != "where_widened" or last:
        return one
    rule = "where_widened_among_alternatives"
    return change(rule, one.target, one.old, one.new, one.pointer)


def _without_partner(
    old: list[Alternative], new: list[Alternative], pairs: list[tuple[int | None, int | None]]
) -> Iterator[Change]:
    gone = {exactly(old[i].layout): i for i, j in pairs if i is not None and j is None}
    come = {exactly(new[j].layout): j for i, j in pairs if i is None and j is not None}
    last = max((j for i, j in pairs if i is not None and j is not None), default=-1)
    for spelt, i in gone.items():
        words = short(layout_text(old[i].layout))
        target = f"alternative {i + 1}"
        if spelt in come:
            moved = come[spelt]
            was, now = (f"{words} (at place {place + 1})" for place in (i, moved))
            target = f"alternative {moved + 1}"
            yield change("alternative_order", target, was, now, new[moved].base)
        else:
            yield change("alternative_removed", target, words, None, old[i].base)
    for spelt, j in come.items():
        if spelt not in gone:
            rule = "alternative_added" if j > last else "alternative_inserted"
            words = short(layout_text(new[j].layout))
            yield change(rule, f"alternative {j + 1}", None, words, new[j].base)


# --- one layout


def _changes_within(old: Alternative, new: Alternative, *, last: bool) -> Iterator[Change]:
    """What differs between two layouts; `last`: a row that gives nothing here gives nothing."""
    before, after = old.layout, new.layout
    if exactly(before.get("each")) != exactly(after.get("each")):
        words = told(before.get("each"), after.get("each"), each_text)
        yield change("each", "each", *words, _pointer(old, new, "each"))
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


def _pointer(old: Alternative, new: Alternative, key: str) -> str:
    return (new if _stated(new, key) is not None else old).pointer(key)


def _stated(side: Alternative, key: str) -> Json:
    value: Json = side.layout
    for step in key.split("/"):
        value = value.get(step) if value is not None else None
    return value


def _value_changes(
    old: Alternative, new: Alternative, key: str, path_rule: str, *, needed: bool
) -> list[Change]:
    return value_changes(
        _stated(old, key),
        _stated(new, key),
        target=key,
        path_rule=path_rule,
        pointer=_pointer(old, new, key),
        needed=needed,
    )


def _meta_changes(old: Alternative, new: Alternative, key: str) -> list[Change]:
    """Whatever changes of a meta value, it is one change of that value."""
    rule, place = f"meta_{key}", f"meta/{key}"
    found = _value_changes(old, new, place, rule, needed=False)
    return [change(rule, f"meta.{key}", one.old, one.new, one.pointer) for one in found]
