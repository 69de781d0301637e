"""Rows that are documents as they stand now: drafts, old versions and deleted ones are left out."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from ingot.agent.proposing import names
from ingot.agent.proposing.columns import Column, View, outer_names
from ingot.agent.proposing.names import NAMED
from ingot.agent.proposing.rules.context_columns import good_rows_condition
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import count_words

_MOST_VALUES = 8
_UNREAD = 0.5  # the most that one may claim where a status is not understood
_FEWEST = 3  # rows
_NEARLY_ALL = 0.8
_LABEL_WORDS = 6
_DIGIT = re.compile(r"\d")
_DATED = ("_at", "_on", "_date", "_time", "_am", "_le")


def current_rows_condition(view: View, used: frozenset[str]) -> tuple[list[Json], float]:
    """Return conditions for the currently valid rows, and the highest score of a draft then."""
    conditions: list[Json] = good_rows_condition(view, used, ("gone",)) or []
    if label := _label_row_condition(view):
        conditions.append(label)
    read = {condition["path"] for condition in conditions}
    places = {tuple(outer_names(path)) for path in used} | {()}
    most = 1.0
    for column in view.columns:
        apart = tuple(outer_names(column.path)) not in places or column.path.startswith("^")
        if column.path in read | used or column.many or apart or not column.present:
            continue
        condition = _column_condition(view, column)
        if condition and _keeps_most(column, condition):
            conditions.append({"path": column.path, **condition})
        if _leaves_unknown(column, condition):
            most = _UNREAD
    return conditions, most


def _label_row_condition(view: View) -> Json:
    """A condition against a first row that only says in words what the columns are."""
    columns = [c for c in view.columns if c.present]
    first = [c.texts[0].strip() for c in columns if not c.many and c.texts[0].strip()]
    if view.each or len(first) < _NEARLY_ALL * len(columns) or len(set(first)) < len(first):
        return None
    counted = [c for c in columns if not _DIGIT.search(c.texts[0]) and _are_counted(c.texts[1:])]
    if len(counted) < 2 or max(map(count_words, first)) > _LABEL_WORDS:
        return None
    key = max(counted, key=lambda c: c.distinct)
    return {"path": key.path, "not_in": [key.texts[0]]}


def _are_counted(texts: Sequence[str]) -> bool:
    return len(texts) >= _FEWEST and all(_DIGIT.search(text) for text in texts)


def _column_condition(view: View, column: Column) -> dict[str, Json]:
    """What a column says of its rows, {} where it says nothing that is understood."""
    if dated := _date_condition(view, column):
        return dated
    values = _few_values(column)
    standing = _names_a_standing(column)
    known = set(map(names.spell_name, names.name_group("rows_of_no_document")))
    gone = [v for v in values if names.spell_name(v) in known]
    if standing:
        gone += [v for v in values if names.verdict_of(v) == "gone" and v not in gone]
    elif column.named("label") < NAMED:
        return {}
    if standing and not gone:
        gone = _superseded_values(view, column.texts, values)
    return {"not_in": gone} if gone else {}


def _few_values(column: Column) -> list[str]:
    values = sorted(set(column.present))
    few = 2 <= len(values) <= _MOST_VALUES and column.words < 4
    return values if few and 2 * len(values) <= len(column.present) + 2 else []


def _names_a_standing(column: Column) -> bool:
    """Whether a name is that of a status: `RPT_STAT`, `公開状態`."""
    spelt, known = names.spell_name(column.name), names.name_group("standings")
    ends = any(spelt.endswith(f"_{name}") for name in known)
    return (
        spelt in known
        or ends
        or any(len(name) > 1 and name in spelt for name in known if not name.isascii())
    )


def _date_condition(view: View, column: Column) -> dict[str, Json]:
    """The time at which a row was deleted; or published, where rows without it are drafts."""
    if column.nature != "time" or column.fill > 0.99:
        return {}
    spelt = names.spell_name(column.name)
    bare = next((spelt.removesuffix(end) for end in _DATED if spelt.endswith(end)), spelt)
    if names.flags_bad_rows(bare):
        return {"max_chars": 0}
    filled = ["set" if text.strip() else "" for text in column.texts]
    gone = _superseded_values(view, filled, ["", "set"])
    return {"min_chars": 1} if gone == [""] else {"max_chars": 0} if gone == ["set"] else {}


def _superseded_values(view: View, marks: Sequence[str], values: Sequence[str]) -> list[str]:
    """The values of rows that another row of the same key replaces: one row a key has another."""
    for key in view.columns:
        again = len(key.texts) - key.distinct
        if key.many or key.fill < 1 or not 0 < again <= 0.5 * len(key.texts):
            continue
        if max(key.named("id"), key.named("foreign_id")) < 0.8 and key.words > 1.5:
            continue
        groups: dict[str, Counter[str]] = {}
        for text, mark in zip(key.texts, marks, strict=True):
            groups.setdefault(text, Counter())[mark] += 1
        if gone := _never_alone(groups, values):
            return gone
    return []


def _never_alone(groups: Mapping[str, Counter[str]], values: Sequence[str]) -> list[str]:
    alone = {next(iter(group)) for group in groups.values() if len(group) == 1}
    gone = [value for value in values if value not in alone]
    sizes = [sum(n for mark, n in group.items() if mark not in gone) for group in groups.values()]
    return gone if gone and alone and set(sizes) == {1} else []


def _keeps_most(column: Column, condition: Mapping[str, Json]) -> bool:
    """Whether a condition leaves a good part of the rows."""
    bad = set(map(str, condition.get("not_in", ())))
    count = sum(text not in bad and text.title() not in bad for text in column.texts)
    return count >= max(_FEWEST, 0.3 * len(column.texts))


def _leaves_unknown(column: Column, condition: Mapping[str, Json]) -> bool:
    """Whether a status has values that nobody understands."""
    if not _names_a_standing(column):
        return False
    bad = condition.get("not_in", ())
    return (
        any(names.verdict_of(value) == "" for value in _few_values(column) if value not in bad)
        and not bad
    )
