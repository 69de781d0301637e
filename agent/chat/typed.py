"""Values that edits name, as the data has them: conditions by type, speakers by name.

A person types `0` where a table has the text "0", and may misspell a name.
"""

import difflib
from collections.abc import Iterator, Sequence

from ingot.agent.chat.edits import EDIT, WHERE, Document, Edit
from ingot.agent.mappers.rules.table import hits, text_of
from ingot.converters.errors import MappingError, Problem
from ingot.converters.paths import Node, PathSyntaxError
from ingot.converters.rows import Json
from ingot.converters.sample import Sample

_SHOWN = 8


def typed(edits: Sequence[Edit], mapping: Document, sample: Sample) -> tuple[Edit, ...]:
    """The edits with values of `in` and `not_in` typed as the sampled rows have them.

    A value that is spelt like one of the data, and is none, is replaced by that; others stay.

    Args:
        edits: what is to be changed.
        mapping: what they change.
        sample: the rows.

    Raises:
        MappingError: an edit gives a role to a speaker whom no sampled row names.
    """
    nodes = [Node(row.value, row.key) for row in sample.rows]
    made = []
    for number, edit in enumerate(edits):
        if edit["set"] == "where":
            edit = {**edit, "where": [_typed(one, nodes) for one in edit["where"]]}
        if edit["set"] == "role" and len(edits) == 1:  # else an edit before may have changed them
            _see_speaker(edit, number, mapping, nodes)
        made.append(edit)
    return tuple(made)


def _typed(condition: dict[str, Json], nodes: Sequence[Node]) -> dict[str, Json]:
    if condition["op"] not in ("in", "not_in"):
        return condition
    try:
        found = [hits(condition["path"], node)[:1] for node in nodes]
    except PathSyntaxError:  # said as a problem where the mapping is tried
        return condition
    known = {(type(value), value): value for one in found for value in one if _scalar(value)}
    spelt = {text_of(value): value for value in known.values()}
    values = [
        value
        if (type(value), value) in known or value is None
        else spelt.get(text_of(value), value)
        for value in condition["values"]
    ]
    return {**condition, "values": values}


def _scalar(value: Json) -> bool:
    return isinstance(value, str | bool | int | float)


# --- speakers


def _see_speaker(edit: Edit, number: int, mapping: Document, nodes: Sequence[Node]) -> None:
    """See that a sampled row, or the mapping, names the speaker; markers are not looked for."""
    known = list(dict.fromkeys(_speakers(mapping, nodes)))
    if not known or edit["value"] in known:
        return
    named = ", ".join(map(repr, known[:_SHOWN]))
    near = difflib.get_close_matches(edit["value"], known, 1)
    expected = f"a name of the data: {named}"
    nearest = near[0] if near else None
    problem = Problem(f"/edits/{number}/value", EDIT, expected, repr(edit["value"]), nearest)
    raise MappingError(WHERE, (problem,))


def _speakers(mapping: Document, nodes: Sequence[Node]) -> Iterator[str]:
    """The names in the rows, and those that the mapping has a role for."""
    around = mapping.get("each") or ""
    for message in mapping.get("messages") or []:
        role, each = message["role"], message.get("each")
        if not isinstance(role, dict) or "split" in role or isinstance(each, list):
            continue
        path = ".".join(part for part in (around, each, role["path"]) if part)
        yield from role.get("map") or {}
        for node in _rows_of(mapping, nodes):
            yield from (value for value in hits(path, node) if isinstance(value, str))


def _rows_of(mapping: Document, nodes: Sequence[Node]) -> Iterator[Node]:
    """Rows as paths start at them: of groups all rows together."""
    if mapping.get("group"):
        yield Node([node.value for node in nodes])
    else:
        yield from nodes
