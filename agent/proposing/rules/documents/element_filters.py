"""Elements of a list that are no part of the text: advertisements, captions, repealed paragraphs.

A value has no `where` of its own; a `pick` whose choice is null leaves an element out.
"""

from collections.abc import Mapping, Sequence

from ingot.agent.proposing.columns import View, text_of, values_at
from ingot.agent.proposing.names import name_group, spell_name
from ingot.agent.proposing.readings import path_below
from ingot.agent.proposing.rules.documents.current_rows import current_rows_condition
from ingot.converters.paths import Node
from ingot.converters.rows import Json

_MOST_TYPES = 12
_ROWS = 200
_NEARLY_ALL = 0.9
_UNCLEAR = 0.55  # the most where it is not understood which elements are text


def keep_elements(view: View, value: Json, element: str) -> tuple[Json, float]:
    """The value without the elements that are no text, and the most that a draft may then claim."""
    held = [v for node in view.nodes[:_ROWS] for v in values_at(element, node)]
    rows = [one for one in held if isinstance(one, dict)]
    if len(rows) < _NEARLY_ALL * len(held) or not rows:
        return value, 1.0
    parts = [path_below(value, element)] if isinstance(value, str) else value["concat"]
    told = [one for one in map(Node, rows) if any(map(text_of, _texts_at(parts, one)))]
    conditions, most = _conditions(
        View.over(told), [part for part in parts if isinstance(part, str)]
    )
    silent = [one for one in map(Node, rows) if not any(map(text_of, _texts_at(parts, one)))]
    conditions = [_without_silent(one, told, silent) for one in conditions]
    picks = [_pick_of(one) for one in conditions]
    if not picks:
        return value, most
    if None in picks or not _are_filled([*told, *silent], parts, conditions):
        return value, min(most, _UNCLEAR)
    pick: Json = None
    for one in picks:
        pick = {**one, "pick": pick} if pick else one
    return {"each": element, "concat": [_keep(part, pick) for part in parts]}, most


def _conditions(elements: View, used: Sequence[str]) -> tuple[list[Json], float]:
    conditions, most = current_rows_condition(elements, frozenset(used))
    read = {one["path"] for one in conditions}
    conditions += [one for one in _type_conditions(elements) if one["path"] not in read]
    return [one for one in conditions if one["path"] not in used], most


def _without_silent(condition: Json, told: Sequence[Node], silent: Sequence[Node]) -> Json:
    """The condition against the types without any text too."""
    if "not_in" not in condition:
        return condition
    types, without = (
        [value for node in nodes for value in values_at(condition["path"], node)]
        for nodes in (told, silent)
    )
    more = [one for n, one in enumerate(without) if one not in types and one not in without[:n]]
    return {**condition, "not_in": [*condition["not_in"], *more]}


def _are_filled(
    elements: Sequence[Node], parts: Sequence[Json], conditions: Sequence[Json]
) -> bool:
    """Whether all elements that stay have all parts: nothing can be picked of a blank one."""
    kept = [node for node in elements if all(_holds(one, node) for one in conditions)]
    return all(any(map(text_of, _texts_at([part], node))) for node in kept for part in parts)


def _texts_at(parts: Sequence[Json], node: Node) -> list[Json]:
    paths = [part["path"] if isinstance(part, dict) else part for part in parts]
    return [value for path in paths for value in values_at(path, node)]


def _holds(condition: Mapping[str, Json], node: Node) -> bool:
    value = next(iter(values_at(condition["path"], node)), None)
    return value not in condition["not_in"] if "not_in" in condition else bool(text_of(value))


def _type_conditions(elements: View) -> list[Json]:
    """Conditions on the fields that name the type of an element, by what the types are called."""
    known = set(map(spell_name, name_group("blocks_of_no_text")))
    found: list[Json] = []
    for column in elements.columns:
        types = sorted(set(column.present))
        few = 2 <= len(types) <= _MOST_TYPES and 2 * len(types) <= len(column.present)
        gone: list[Json] = [one for one in types if spell_name(one) in known]
        if few and not column.many and 0 < len(gone) < len(types):
            found.append({"path": column.path, "not_in": gone})
    return found


def _pick_of(condition: Mapping[str, Json]) -> Json:
    """A `pick` of the only text where a condition holds, None where it cannot say that."""
    gone: Sequence[Json] | None = condition.get("not_in")
    if gone is None and not condition.get("min_chars"):
        return None
    table = {text_of(value): None for value in gone or ()} | {"*": 0}
    return {"path": condition["path"], "map": table}


def _keep(part: Json, pick: Json) -> Json:
    """A part that is there if the pick gives its number."""
    plain = isinstance(part, str) and "[*]" not in part
    return {"path": part, "pick": pick} if plain else {"concat": [part], "pick": pick}
