"""Gather rows that are single turns into conversations: by a key, and in an order."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ingot.agent.proposing import names
from ingot.agent.proposing.columns import (
    Column,
    View,
    outer_names,
    parse_finite_number,
    start_alike,
    text_of,
)
from ingot.agent.proposing.names import NAMED, PLAIN
from ingot.agent.proposing.readings import Reading
from ingot.agent.proposing.rules.documents.current_rows import current_rows_condition
from ingot.agent.proposing.rules.text_copies import shared_share
from ingot.agent.proposing.speaker_codes import MOST_CODES, find_sides
from ingot.agent.proposing.speakers import flag_roles, roles_of_values
from ingot.converters.rows import MappingDocument

_TALKS = frozenset(names.name_group("talks"))
_TALKS_CJK = ("对话", "会话", "対話", "会話", "대화")
MAX_PROSE = 2
UNEVEN_FACTOR = 0.75
NAMED_TURNS = 1.1  # names say that rows are turns of a talk, and a column counts them
RARE = 0.02
LEAST_OFTEN = 1.8  # rows of a conversation, on average
SEVERAL = 3  # conversations: fewer show no habit
_IN_TURN = 0.8  # of the rows answer the one before, where nothing else tells a conversation


def grouped_reading(reading: Reading) -> Iterator[Reading]:
    """Yield the reading that groups rows, each of which is a single turn, into conversations."""
    yield from paged_reading(reading)
    by = _find_group_key(reading.view)
    grouping = (by, _find_order(reading.view, by, list(group_rows(by).values()))) if by else None
    by, order = grouping or _find_answering_rows(reading.view) or (None, None)
    if by is None or order is None:
        return
    groups = group_rows(by)
    if order.column is None and not _rows_answer(reading.view, list(groups.values())):
        better = _find_answering_rows(reading.view)
        order = better[1] if better and better[0] is by else order
    rows = [[reading.rows[place] for place in order.sorted(group)] for group in groups.values()]
    is_named = order.column is not None and _names_a_talk(by.name)
    outer: MappingDocument = {"by": [by.path]}
    if order.column:
        outer["sort"] = order.column.path
    yield Reading(
        view=View.of(rows),
        sample=reading.sample,
        source=reading.source,
        outer={"group": outer},
        factor=order.factor * reading.factor * (NAMED_TURNS if is_named else 1.0),
        why=f"rows with the same {by.path} are one conversation, {order.why}",
        threaded=_names_a_thread(by, order.column),
    )


_CLOCK = re.compile(r"\d+:\d\d(?::\d\d)?(?:[.,]\d+)?")
_PARTS = 2  # rows of a text at least
_PARAGRAPH = 120  # words at most
_SAME = 0.5  # of the pairs of words
_RARE_VERSIONS = 0.2


def _names_a_thread(by: Column, sort: Column | None) -> bool:
    """Whether a column that gathers or sorts rows is called a thread."""
    return any("thread" in column.path for column in (by, sort) if column)


def group_rows(by: Column) -> dict[str, list[int]]:
    """Return the numbers of the rows under each value of a column."""
    groups: dict[str, list[int]] = {}
    for place, key in enumerate(by.texts):
        groups.setdefault(key, []).append(place)
    return groups


def _find_answering_rows(view: View) -> tuple[Column, "RowOrder"] | None:
    """A key and an order in which the rows answer each other, by what they hold alone."""
    plain = [c for c in view.columns if not c.many and c.fill >= 0.95]
    texts, codes = _said_by(view)
    best: tuple[float, Column, RowOrder] | None = None
    for by in plain if texts and codes else ():
        often = len(by.texts) / max(1, by.distinct)
        few = by.distinct < SEVERAL or often < LEAST_OFTEN
        if by is texts or by in codes or few or by.words > 3:
            continue
        groups = list(group_rows(by).values())
        for order in _row_orders(plain, by, groups):
            answered = _rows_answer(view, [order.sorted(group) for group in groups])
            if answered and (best is None or answered > best[0]):
                best = (answered, by, order)
    return best[1:] if best else None


def _said_by(view: View) -> tuple[Column | None, list[Column]]:
    """The column of what is said, and those that may say by whom."""
    plain = [c for c in view.columns if not c.many and c.fill >= 0.95]
    texts = [c for c in view.texts if not c.many]
    text_column = max(
        texts, key=lambda c: c.chars * c.distinct / max(1, len(c.present)), default=None
    )
    return text_column, [c for c in plain if 2 <= c.distinct <= MOST_CODES and c is not text_column]


def _rows_answer(view: View, groups: list[list[int]]) -> float:
    """The share of the rows in which somebody answers the row before, 0 where few do."""
    texts, codes = _said_by(view)
    groupings = [
        sides.answered
        for who in (codes if texts else ())
        if texts
        and (sides := find_sides([[(who.texts[n], texts.texts[n]) for n in g] for g in groups]))
    ]
    best = max(groupings, default=0.0)
    return best if best >= _IN_TURN else 0.0


def _row_orders(columns: list[Column], by: Column, groups: list[list[int]]) -> Iterator["RowOrder"]:
    """Columns that differ inside all groups and can sort them, those that count first."""
    rows = [column for column in columns if column is not by]
    able = [c for c in rows if c.numeric or (c.nature == "time" and is_sortable_time(c))]
    apart = [c for c in able if all(len({c.texts[n] for n in g}) == len(g) for g in groups)]
    for column in sorted(apart, key=lambda c: c.distinct == len(c.texts)):
        yield RowOrder(column, f"in the order of {column.path}")


CUT_SHARE = 0.4  # of the texts begin in the middle of a sentence where they are pages


def paged_reading(reading: Reading) -> Iterator[Reading]:
    """Yield the reading that joins rows, which are pages or paragraphs, to ordered texts."""
    texts = [c for c in reading.view.texts if not c.many and c.words >= 8]
    body = max(texts, key=lambda c: c.chars, default=None)
    if body is None:
        return
    low = sum(t.lstrip()[:1].islower() for t in body.present)
    cut = low >= CUT_SHARE * len(body.present)
    for by in sorted(reading.view.columns, key=lambda c: c.nature == "time"):
        often = len(by.present) / max(1, by.distinct)
        if by.many or by is body or by.fill < 1 or by.distinct < 2 or often < 1.5 or by.words > 8:
            continue
        if not cut and not _may_be_paragraphs(reading.view, body, by):
            continue
        groups = group_rows(by)
        order = _counting_order(reading.view, _current_groups(reading.view, body, groups))
        if not cut and not (order and _are_paragraphs(reading.view, body, by, groups)):
            continue
        order = (_restarting_order(reading.view, by) if cut else None) or order
        if order is None or order is by:
            continue
        sorting = RowOrder(order, "")
        rows = [[reading.rows[n] for n in sorting.sorted(group)] for group in groups.values()]
        yield Reading(
            view=View.of(rows),
            sample=reading.sample,
            source=reading.source,
            outer={"group": {"by": [by.path], "sort": order.path}},
            factor=1.2 * reading.factor,
            why=f"rows with the same {by.path} are pages of one text, in the order of {order.path}",
            paged=True,
            threaded=_names_a_thread(by, order),
        )
        return


def _current_groups(view: View, body: Column, groups: dict[str, list[int]]) -> dict[str, list[int]]:
    """The groups without rows that do not hold now: an old wording has the number of the new."""
    conditions, _ = current_rows_condition(view, frozenset([body.path]))
    gone = [
        (view.column(condition["path"]), set(map(text_of, condition.get("not_in", ()))))
        for condition in conditions
    ]
    bad = {n for c, values in gone if c for n, text in enumerate(c.texts) if text in values}
    groups_left = {key: [n for n in group if n not in bad] for key, group in groups.items()}
    return {key: group for key, group in groups_left.items() if group}


def _may_be_paragraphs(view: View, body: Column, by: Column) -> bool:
    """Whether rows can be parts of one text: short ones, several of each, without own titles."""
    if body.words > _PARAGRAPH or len(by.texts) < _PARTS * by.distinct:
        return False
    has_titles = any(
        c.named("title") >= NAMED and c.distinct > 0.5 * len(c.present) for c in view.columns
    )
    return not has_titles and not is_single_turn(view)


def _are_paragraphs(view: View, body: Column, by: Column, groups: dict[str, list[int]]) -> bool:
    """Whether such rows, numbered, are parts of one text: they have facts in common."""
    if _are_versions(body, groups):
        return False
    shared = [c for c in view.columns if c is not by and not c.many and c.distinct > 1]
    return any(
        all(len({c.texts[place] for place in group}) == 1 for group in groups.values())
        for c in shared
    )


def _are_versions(body: Column, groups: dict[str, list[int]]) -> bool:
    """Whether rows of one key hold much the same text again, as versions of one document do."""
    pairs = [
        (body.texts[a], body.texts[b])
        for group in groups.values()
        for a, b in itertools.pairwise(group)
    ]
    return sum(shared_share(a, b) > _SAME for a, b in pairs) > _RARE_VERSIONS * len(pairs)


def _counting_order(view: View, groups: dict[str, list[int]]) -> Column | None:
    """A number that counts the rows of every group, or measures where in it they stand."""
    counts, measures = [], []
    for column in view.columns:
        if not (column.numeric or _is_clock(column)) or column.many or column.fill < 1:
            continue
        spelt = [sorted(_order_number(column.texts[n]) for n in group) for group in groups.values()]
        steps = [b - a for numbers in spelt for a, b in itertools.pairwise(numbers)]
        anew = start_alike(spelt)
        if all(step in (1, 2) for step in steps):
            counts.append((anew, column))
        elif all(step > 0 for step in steps) and anew:
            measures.append(column)
    counted = max(counts, key=lambda count: count[0], default=(False, None))[1]
    return counted or max(
        measures, key=lambda c: max(c.named("order"), c.named("time")), default=None
    )


def _is_clock(column: Column) -> bool:
    """Times of day or positions in a recording that sort as they are spelled."""
    same = len({len(text) for text in column.present}) == 1
    return same and all(map(_CLOCK.fullmatch, column.present))


def _order_number(text: str) -> float:
    """A number, or the seconds of a clock time."""
    parts = [parse_finite_number(part.replace(",", ".")) or 0.0 for part in text.split(":")]
    return sum(part * 60.0**place for place, part in enumerate(reversed(parts)))


def is_single_turn(view: View) -> bool:
    """Return whether each row is one message: a column names the speaker, another has the text."""
    prose = [c for c in view.texts if c.words >= 3 and not c.constant and c.looks("prose") > 0.3]
    return len(prose) <= MAX_PROSE and any(map(_names_both_sides, view.columns))


def _names_both_sides(column: Column) -> bool:
    counts = Counter(column.present)
    if column.many or column.fill < 0.95 or not 2 <= len(counts) <= 8:
        return False
    if min(counts.values()) < RARE * len(column.texts):
        return False
    roles = {names.speaker_role(value) for value in counts}
    return bool(flag_roles(column.name, counts)) or {"user", "assistant"} <= roles


def _find_group_key(view: View) -> Column | None:
    """What rows of one conversation share: an id that comes again, most so in neighbouring rows."""
    turns = is_single_turn(view)
    for column in view.columns:
        if column.many or column.fill < 0.95 or column.words > 8:
            continue
        talk = any(map(_names_a_talk, (column.name, *outer_names(column.path))))
        named = max(column.named(slot) for slot in ("id", "foreign_id", "turns"))
        marked = turns and column.nature in ("uuid", "hash", "mark")
        if named < 0.8 and not talk and not marked:
            continue
        runs = [len(list(group)) for _, group in itertools.groupby(column.texts)]
        returns = column.distinct < 0.8 * len(runs)
        often = len(column.texts) / max(1, column.distinct)
        if column.distinct >= 2 and often >= LEAST_OFTEN and (not returns or turns):
            return column
    return None


def _names_a_talk(name: str) -> bool:
    return bool(_TALKS & set(names.spell_name(name).split("_"))) or any(
        word in name for word in _TALKS_CJK
    )


@dataclass(frozen=True)
class RowOrder:
    """How the rows of a group follow each other: by a column, or as they stand in the file."""

    column: Column | None
    why: str
    factor: float = 1.0

    def sorted(self, group: list[int]) -> list[int]:
        """Sort the row numbers of a group in this order, as the mapping language sorts."""
        if self.column is None:
            return group
        texts = self.column.texts
        numbers = [parse_finite_number(texts[place]) for place in group]
        if all(number is not None for number in numbers):
            ranked = sorted(zip(numbers, group, strict=True))
            return [place for _, place in ranked]
        return sorted(group, key=lambda place: texts[place])


def _find_order(view: View, by: Column, groups: list[list[int]]) -> RowOrder | None:
    """The order of the turns; None where nothing tells it, or no column can put them into it."""
    follows = _reply_targets(view, by, groups)
    counted = _restarting_order(view, by)
    named = [
        RowOrder(c, f"in the order of {c.path}") for c in (counted, *_time_order(view, groups)) if c
    ]
    as_read = RowOrder(None, "in the order of the file")
    if follows is not None:
        ids = [_id_order(c) for c in view.columns if c.named("id") >= PLAIN]
        tried = [*named, as_read, *ids]
        return next((order for order in tried if _order_agrees(order, follows, groups)), None)
    if named:
        return named[0]
    return as_read if is_single_turn(view) or _speaks_in_turn(view, by, groups) else None


def _speaks_in_turn(view: View, by: Column, groups: list[list[int]]) -> bool:
    """Whether a column acts as two speakers in the order of the file, or names who speaks."""
    columns = view.columns if _names_a_talk(by.name) else ()
    for column in columns:
        if column.many or column.fill <= 0.95:
            continue
        texts = [[column.texts[place] for place in group] for group in groups]
        if roles_of_values(column.name, column.facts, texts):
            return True
        several = sum(len(set(group_texts)) > 1 for group_texts in texts) > 0.8 * len(texts)
        if several and column.named_own("speaker") >= NAMED:
            return True
    return False


def _id_order(column: Column) -> RowOrder:
    """The order of ids; as texts of several lengths they may sort otherwise than as numbers."""
    uneven = not column.numeric and len({len(text) for text in column.present}) > 1
    return RowOrder(
        column, f"in the order of {column.path}", factor=UNEVEN_FACTOR if uneven else 1.0
    )


def _restarting_order(view: View, by: Column) -> Column | None:
    """A number that counts up inside every group."""
    for column in view.columns:
        if not column.numeric or column.path == by.path or column.many:
            continue
        numbers = [parse_finite_number(text) or 0.0 for text in column.texts]
        groups = [[numbers[n] for n in group] for group in group_rows(by).values()]
        lists = [g for g in groups if len(g) > 1]
        rises = all(len(set(g)) == len(g) for g in lists)
        starts = len(set(map(min, groups))) <= max(2, 0.2 * len(groups))
        if lists and rises and (starts or names.name_strength(column.name, "order") >= NAMED):
            return column
    return None


def _time_order(view: View, groups: list[list[int]]) -> list[Column]:
    """Points in time that differ inside nearly every group, and sort as they are spelled."""
    times = [c for c in view.columns if is_sortable_time(c) and c.fill > 0.95 and not c.many]
    longer = [group for group in groups if len(group) > 1]
    return [
        c
        for c in times
        if sum(len({c.texts[n] for n in g}) == len(g) for g in longer) >= 0.9 * len(longer)
    ]


def is_sortable_time(column: Column) -> bool:
    """Return whether a column has times that sort as text, or numbers whose name means a time."""
    if column.numeric:
        return column.named_own("time") >= NAMED
    return column.nature == "time" and all(text[:4].isdigit() for text in column.present)


def _reply_targets(view: View, by: Column, groups: list[list[int]]) -> dict[int, int] | None:
    """Row -> the row that it answers, where a column names the id of another row of its group."""
    ids = [c for c in view.columns if c.distinct == len(c.texts) and not c.many]
    for column in view.columns:
        if column.path == by.path or column.many or column in ids or column.fill > 0.95:
            continue
        for identity in ids:
            rows = {text: place for place, text in enumerate(identity.texts)}
            known = {n: rows[t] for n, t in enumerate(column.texts) if t.strip() and t in rows}
            inside = [(a, b) for a, b in known.items() if by.texts[a] == by.texts[b] and a != b]
            if len(known) >= 0.4 * len(column.texts) and len(inside) >= 0.9 * len(known):
                return dict(inside)
    return None


def _order_agrees(order: RowOrder, follows: dict[int, int], groups: list[list[int]]) -> bool:
    """Whether every row stands right behind the one that it answers."""
    longer = [order.sorted(group) for group in groups if len(group) > 1]
    good = sum(all(follows.get(b) == a for a, b in itertools.pairwise(g)) for g in longer)
    return good >= 0.9 * len(longer)
