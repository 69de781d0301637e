"""Find threads in rows that are posts: one of each thread asks, another one was accepted."""

from collections.abc import Iterator
from dataclasses import replace

from ingot.agent.proposing.columns import Column, View, text_of
from ingot.agent.proposing.readings import Draft, Reading
from ingot.agent.proposing.rules.answers.accepted_answers import (
    Answers,
    list_answers,
    marked_elements,
)
from ingot.agent.proposing.rules.conversations.row_groups import (
    LEAST_OFTEN,
    SEVERAL,
    RowOrder,
    group_rows,
    is_sortable_time,
)
from ingot.converters.paths import Node
from ingot.converters.rows import Json

_ELEMENT = "[*]"
_UNSURE = 0.45
_SCORE = 0.85
_SHARE = 0.9  # of the threads have exactly one post that asks
_MOST_KINDS = 6
_ASKS = 0.5  # of the posts that ask


def thread_readings(reading: Reading) -> Iterator[Reading]:
    """Rows gathered by a key, where the first of each group asks and another one is marked."""
    columns = [c for c in reading.view.columns if not c.many and c.fill == 1]
    able = sorted(filter(is_sortable_time, columns), key=lambda c: c.numeric)
    able += [c for c in columns if c.numeric and c not in able]
    kinds = [c for c in reading.view.own if not c.many and 2 <= c.distinct <= _MOST_KINDS]
    marked = [set(rows) for c in kinds for text, rows in group_rows(c).items() if text]
    for by in columns:
        often = len(by.present) / max(1, by.distinct)
        if by.words > 3 or by.distinct < SEVERAL or often < LEAST_OFTEN:
            continue
        groups = list(group_rows(by).values())
        asking = [rows for rows in marked if _asks_in_groups(rows, by, len(groups))]
        for order in (RowOrder(None, ""), *(RowOrder(c, "") for c in able if c is not by)):
            places = [order.sorted(group) for group in groups] if asking else []
            firsts = {group[0] for group in places}
            if not any(rows <= firsts for rows in asking):
                continue
            rows = [[reading.rows[n] for n in group] for group in places]
            if thread_drafts(view := View.of(rows)):
                outer = {"by": [by.path], **({"sort": order.column.path} if order.column else {})}
                why = f"rows with the same {by.path} are one thread"
                yield replace(reading, view=view, outer={"group": outer}, why=why)
                return


def _asks_in_groups(rows: set[int], by: Column, groups: int) -> bool:
    """Whether one row in nearly every group is among these, and no other one is."""
    return _SHARE * groups <= len(rows) == len({by.texts[n] for n in rows})


def thread_drafts(view: View) -> list[Draft]:
    """The one row of a group that asks, and the one among the others that was accepted."""
    if not all(isinstance(node.value, list) for node in view.nodes):
        return []
    return [
        draft
        for posts in list_answers(view, _ELEMENT)
        for kind in posts.marks
        for value in _asking_values(posts, kind)
        for draft in _accepted_drafts(view, posts, kind, value)
    ][:1]


def _asking_values(posts: Answers, kind: Column) -> list[Json]:
    """The values of a column that only the first row of nearly every group has."""
    if not 2 <= kind.distinct <= _MOST_KINDS:
        return []
    firsts = {row: n for n, row in reversed(list(enumerate(posts.rows)))}
    found: dict[str, Json] = {}
    for value in (held[0] for held in kind.values if held and text_of(held[0])):
        places = posts.places([text_of(value) == text for text in kind.texts])
        first = all(numbers == [firsts[row]] for row, numbers in places.items())
        if first and len(places) >= _SHARE * len(firsts):
            found[text_of(value)] = value
    return list(found.values())


def _accepted_drafts(view: View, posts: Answers, kind: Column, value: Json) -> Iterator[Draft]:
    asked = [text_of(value) == text for text in kind.texts]
    asking = View.over([posts.view.nodes[n] for n, one in enumerate(asked) if one])
    if not any(c.path == posts.body.path and c.looks("question") >= _ASKS for c in asking.columns):
        return
    kept = [n for n, one in enumerate(asked) if not one]
    nodes = [Node(posts.view.nodes[n].value) for n in kept]
    inner = View.over(nodes)
    body = next((c for c in inner.columns if c.path == posts.body.path), None)
    if body is None:
        return
    rows = tuple(posts.rows[n] for n in kept)
    others = replace(posts, view=inner, rows=rows, body=body)
    for where, taken, sure in marked_elements(others):
        places = others.places(taken)
        if 2 * len(places) < len(view.nodes) or any(len(one) > 1 for one in places.values()):
            continue
        turns: list[Json] = [
            {"each": _ELEMENT, "where": chosen, "role": role, "content": body.path}
            for role, chosen in (
                ("user", [{"path": kind.path, "in": [value]}]),
                ("assistant", where),
            )
        ]
        yield Draft(
            kind="sft",
            body={"messages": turns},
            score=_SCORE,
            why=f"{kind.path} tells what asks, {where} what was accepted",
            used=frozenset({f"{_ELEMENT}.{body.path}"}),
            most=1.0 if sure else _UNSURE,
        )
