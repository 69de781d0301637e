"""Values beside the name of a secret: pairs, lists side by side, rows under a header."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ingot.agent.privacy.secrets import VALUE_KEY, is_like_secret, is_secret_name, names_secret
from ingot.converters.rows import Json

Pair = tuple[str, Json]  # a name, and what stands beside it
_VALUE_KEY = re.compile(VALUE_KEY)
_HEADS = frozenset(
    (
        *("names", "keys", "fields", "columns", "cols", "header", "headers", "column_names"),
        *("colnames", "field_names", "attributes", "params", "parameters", "variables"),
    )
)
_HEADER_ROWS = 3  # among the first so many rows of a table names may stand
_LONGEST_CELL = 40  # characters of a name
_IDENTIFIER = re.compile(r"[^\W\d][\w.-]{0,39}")
_COMPOUND = re.compile(r"[A-Za-z]\w{0,39}(?:[_.-]|(?<=[a-z])(?=[A-Z]))[\w.-]{1,40}")


def find_pairs(value: Json) -> Iterator[Pair]:
    """Yield the values that one object or list holds beside the name of a secret.

    Only the value itself and its elements are searched.
    """
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            yield from find_below_header(value)
        yield from (
            (flag, content)
            for flag, content in pairwise(value)
            if isinstance(flag, str) and flag.startswith("-") and is_secret_name(flag)
        )
    elif isinstance(value, dict):
        yield from _beside_name(value)
        for key, content in value.items():
            if key.lower() in _HEADS and isinstance(content, list) and any(map(_is_name, content)):
                yield from _beside_names(content, value)


def _beside_name(cells: dict[str, Json]) -> Iterator[Pair]:
    """What an object holds beside a cell that is a name: `{"label": "DB_PASSWORD", "val": ...}`.

    Without such a key only the one other cell, if it looks like a secret.
    """
    texts = {
        key: cell for key, cell in cells.items() if cell is not None and not isinstance(cell, bool)
    }
    names = {
        key: cell for key, cell in texts.items() if isinstance(cell, str) and names_secret(cell)
    }
    for named, name in names.items():
        alone = len(texts) == 2 and _COMPOUND.fullmatch(name) is not None
        for key, cell in texts.items():
            like = alone and isinstance(cell, str) and is_like_secret(cell)
            if key != named and (like or _VALUE_KEY.search(key)):
                yield name, cell


def _is_name(value: Json) -> bool:
    return isinstance(value, str) and is_secret_name(value)


def _beside_names(names: list[Json], around: dict[str, Json]) -> Iterator[Pair]:
    """Elements at the place of a name in the other lists, or in the rows of one."""
    places = [(at, name) for at, name in enumerate(names) if _is_name(name)]
    for other in around.values():
        if other is names or not isinstance(other, list):
            continue
        rows = [row for row in other if isinstance(row, list)] or [other]
        for row in rows:
            if len(row) == len(names):
                yield from ((name, row[at]) for at, name in places)


def find_below_header(rows: Sequence[Json], least: int = 2) -> Iterator[Pair]:
    """Yield cells of a table whose names are a row of it, of at least so many cells.

    Names are short, differ, and stand nowhere else in their column. Rows of a name and a value are
    pairs; where all cells may be names they are looked at as both.
    """
    pairs = _name_first(rows) if least == 2 else []
    yield from ((name, content) for name, content in pairs if names_secret(name))
    if pairs and not all(_is_identifier(content) for _, content in pairs):
        return
    for at, row in enumerate(rows[:_HEADER_ROWS]):
        head = _cells(row)
        secret = [key for key, name in head.items() if _is_name(name)]
        if not 0 < len(secret) < len(head) or len(head) < least or not _are_names(head):
            continue
        later = map(_cells, rows[at + 1 :])
        below = [row for row in later if len(row) == len(head) and row != head]
        if not any(cells.get(key) == name for cells in below for key, name in head.items()):
            yield from ((head[key], cells.get(key)) for cells in below for key in secret)


def _name_first(rows: Sequence[Json]) -> list[Pair]:
    """Rows of two cells of which the first is a name; none for a header above sentences."""
    cells = [list(_cells(row).values()) for row in rows]
    if not all(len(cell) == 2 and _is_identifier(cell[0]) for cell in cells):
        return []
    prose = [isinstance(content, str) and " " in content for _, content in cells]
    below_header = len(prose) > 1 and prose.count(False) == 1 and not prose[0]
    return [] if below_header else [(str(name), content) for name, content in cells]


def _is_identifier(value: Json) -> bool:
    return isinstance(value, str) and _IDENTIFIER.fullmatch(value) is not None


def _cells(row: Json) -> dict[Json, Json]:
    return row if isinstance(row, dict) else dict(enumerate(row if isinstance(row, list) else ()))


def _are_names(head: dict[Json, Json]) -> bool:
    names = [name for name in head.values() if isinstance(name, str) and name]
    short = all(len(name) <= _LONGEST_CELL for name in names)
    return short and len(set(names)) == len(head)
