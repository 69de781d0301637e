"""Values that stand beside the name of a secret: pairs, lists side by side, rows under a header."""

from collections.abc import Iterator, Sequence

from ingot.agent.privacy.secrets import is_secret_name
from ingot.converters.rows import Json

Pair = tuple[str, Json]  # a name, and what stands beside it
_NAMES = frozenset(
    (
        *("name", "key", "field", "param", "parameter", "variable", "var", "property", "setting"),
        *("attribute", "option", "header", "k"),
    )
)
_VALUES = frozenset(("value", "values", "val", "v"))
_HEADS = frozenset(
    (
        *("names", "keys", "fields", "columns", "cols", "header", "headers", "column_names"),
        *("colnames", "field_names", "attributes", "params", "parameters", "variables"),
    )
)
_HEADER_ROWS = 3  # among the first so many rows of a table names may stand
_LONGEST_CELL = 40  # characters of a name


def find_pairs(value: Json) -> Iterator[Pair]:
    """What one object or list holds beside the name of a secret, itself and its elements alone."""
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            yield from find_below_header(value)
    elif isinstance(value, dict):
        names = [one for key, one in value.items() if key.lower() in _NAMES and _is_name(one)]
        for key, one in value.items() if names else ():
            if key.lower() in _VALUES:
                yield names[0], one
        for key, one in value.items():
            if key.lower() in _HEADS and isinstance(one, list) and any(map(_is_name, one)):
                yield from _beside_names(one, value)


def _is_name(value: Json) -> bool:
    return isinstance(value, str) and is_secret_name(value)


def _beside_names(names: list[Json], around: dict[str, Json]) -> Iterator[Pair]:
    """Elements at the place of a name in the other lists, or in the rows of one."""
    places = [(at, name) for at, name in enumerate(names) if _is_name(name)]
    for other in around.values():
        if other is names or not isinstance(other, list):
            continue
        rows = [one for one in other if isinstance(one, list)] or [other]
        for row in rows:
            if len(row) == len(names):
                yield from ((name, row[at]) for at, name in places)


def find_below_header(rows: Sequence[Json], least: int = 2) -> Iterator[Pair]:
    """Cells of a table whose names are a row of it, of at least so many cells.

    Names are short, differ, and stand nowhere else in their column.
    """
    for at, row in enumerate(rows[:_HEADER_ROWS]):
        head = _cells(row)
        secret = [key for key, name in head.items() if _is_name(name)]
        if not 0 < len(secret) < len(head) or len(head) < least or not _are_names(head):
            continue
        others = map(_cells, rows[at + 1 :])
        below = [one for one in others if len(one) == len(head) and one != head]
        if not any(cells.get(key) == name for cells in below for key, name in head.items()):
            yield from ((head[key], cells.get(key)) for cells in below for key in secret)


def _cells(row: Json) -> dict[Json, Json]:
    return row if isinstance(row, dict) else dict(enumerate(row if isinstance(row, list) else ()))


def _are_names(head: dict[Json, Json]) -> bool:
    names = [name for name in head.values() if isinstance(name, str) and name]
    short = all(len(name) <= _LONGEST_CELL for name in names)
    return short and len(set(names)) == len(head)
