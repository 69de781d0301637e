"""Values of conditions as the data has them: a person types `0` where a table has the text "0"."""

from collections.abc import Iterable, Sequence

from ingot.agent.chat.edits import Edit
from ingot.agent.mappers.rules.table import hits, text_of
from ingot.converters.paths import Node, PathSyntaxError
from ingot.converters.rows import Json
from ingot.converters.sample import Sample


def typed(edits: Sequence[Edit], sample: Sample) -> tuple[Edit, ...]:
    """The edits with values of `in` and `not_in` typed as the sampled rows have them.

    A value that is spelt like one of the data, and is none, is replaced by that; others stay.
    """
    nodes = [Node(row.value, row.key) for row in sample.rows]
    return tuple(
        {**edit, "where": [_typed(one, nodes) for one in edit["where"]]}
        if edit["set"] == "where"
        else edit
        for edit in edits
    )


def _typed(condition: dict[str, Json], nodes: Iterable[Node]) -> dict[str, Json]:
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
