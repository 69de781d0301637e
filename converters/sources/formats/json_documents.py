"""JSON files that are read as one value: a row, the rows at a root, or the rows of a table.

A table is a data frame in pandas' orient `split`, `list` or `columns`. One in the orient `index`
(row name to row) is an object keyed by row, which `json_rows` reads.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Final

from ingot.converters.errors import SourceError, truncated_error
from ingot.converters.paths import Node, compile_path
from ingot.converters.rows import Json, RowError
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.json_rows import RowRoot
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    TABLE_ROWS,
    BrokenRow,
    RowChunk,
    chunk_of_counted,
    ends_early,
    join_parts,
    parse_row,
    row_excerpt,
)

# Rows one after the other, and their names.
_Rows = tuple[Iterator[Json], list[str] | None]
_HINT: Final = "correct or leave out `source.orient`"
_SPLIT_KEYS: Final = {"columns", "data", "index"}


def read_json_document(
    parts: Iterator[bytes], stem: str, root: RowRoot, where: str
) -> Iterator[RowChunk]:
    """Yield the file's one value as a row with the key `stem`, or the rows at `root` in it."""
    value, count = parse_json_document(parts, where=where)
    if type(value) is BrokenRow or root.whole:
        yield replace(chunk_of_counted([(value, count)]), keys=[stem])
        return
    for chunk in find_root_rows(value, root, where):
        yield replace(chunk, non_finite={0: count} if count else {})  # for the first row
        count = 0


def find_root_rows(value: Json, root: RowRoot, where: str) -> Iterator[RowChunk]:
    """Yield what a root finds in the value of a file. Raises SourceError."""
    path = root.text
    try:
        nodes = compile_path(path).nodes(Node(value))
    except RowError as error:
        raise SourceError(where, f"root {path}: {error.reason} at {error.path}") from error
    if not nodes:
        raise SourceError(
            where, f"root {path} is not in the file", "choose one of the roots that were found"
        )
    if root.orient:
        for node in nodes:
            yield from unfold_table(node.value, root.orient, where)
        return
    keys = [node.key for node in nodes if isinstance(node.key, str)]
    keyed = len(keys) == len(nodes) and path.endswith("*")
    yield RowChunk(values=[node.value for node in nodes], keys=keys if keyed else None)


def parse_json_document(
    parts: Iterator[bytes], limit: int = MAX_ROW_BYTES, where: str | None = None
) -> tuple[Json, int]:
    """Return the value of a whole file, or `BrokenRow` (also past `limit` bytes), and its count."""
    text = join_parts(parts, limit)
    if isinstance(text, BrokenRow):
        return text, 0
    value, count = parse_row(text)
    if type(value) is BrokenRow and where is not None and ends_early(text):
        raise truncated_error(where, "the file ends inside its JSON value")
    return value, count


def unfold_table(value: Json, orient: str, where: str) -> Iterator[RowChunk]:
    """Yield the rows of a table, with their names where it has some. Raises SourceError."""
    if not isinstance(value, dict):
        raise _not_a_table(where, orient, "it is not an object")
    rows, keys = _TABLES[orient](value, where)
    for start in count(0, TABLE_ROWS):
        values = list(islice(rows, TABLE_ROWS))
        if not values:
            return
        yield RowChunk(values=values, keys=keys and keys[start : start + TABLE_ROWS])


def _not_a_table(where: str, orient: str, why: str) -> SourceError:
    return SourceError(where, f"not a table in the orient {orient}: {why}", _HINT)


def _label_text(label: Json) -> str:
    return label if isinstance(label, str) else json.dumps(label, ensure_ascii=False)


def _split_rows(value: dict[str, Json], where: str) -> _Rows:
    names, data, index = value.get("columns"), value.get("data"), value.get("index")
    if not isinstance(names, list) or not isinstance(data, list):
        raise _not_a_table(where, "split", "`columns` and `data` have to be lists")
    if index is not None and (not isinstance(index, list) or len(index) != len(data)):
        raise _not_a_table(where, "split", f"`index` has to be a list of {len(data)} names")
    columns = column_names([_label_text(name) for name in names])
    rows = (_split_row(cells, columns) for cells in data)
    return rows, None if index is None else [_label_text(name) for name in index]


def _split_row(cells: Json, columns: Sequence[str]) -> Json:
    if isinstance(cells, list) and len(cells) == len(columns):
        return dict(zip(columns, cells, strict=True))
    many = f"{len(cells)} cells" if isinstance(cells, list) else "no list of cells"
    excerpt = row_excerpt(json.dumps(cells, ensure_ascii=False))
    return BrokenRow(f"{many} for {len(columns)} columns", excerpt)


def _list_rows(value: dict[str, Json], where: str) -> _Rows:
    for name, column in value.items():
        if not isinstance(column, list):
            raise _not_a_table(where, "list", f"column {row_excerpt(name)!r} is not a list")
    sizes = {len(column): name for name, column in value.items()}
    if len(sizes) > 1:
        (most, long), (fewest, short) = max(sizes.items()), min(sizes.items())
        mismatch = f"{row_excerpt(long)!r} has {most} values, {row_excerpt(short)!r} has {fewest}"
        raise _not_a_table(where, "list", f"column {mismatch}")
    cells = zip(*value.values(), strict=True)
    return (dict(zip(value, row, strict=True)) for row in cells), None


def _keyed_rows(value: dict[str, Json], where: str) -> _Rows:
    """Rows in the order in which their keys come; a cell that a column lacks is missing."""
    for name, column in value.items():
        if not isinstance(column, dict):
            raise _not_a_table(where, "columns", f"column {row_excerpt(name)!r} is not an object")
    keys = list(dict.fromkeys(key for column in value.values() for key in column))
    return ({n: column[k] for n, column in value.items() if k in column} for k in keys), keys


_TABLES: Final = {"split": _split_rows, "list": _list_rows, "columns": _keyed_rows}


def fold_table(rows: Sequence[dict[str, Json]], keys: Sequence[str] | None, orient: str) -> Json:
    """Return the table that `unfold_table` reads as these rows, `keys` being their names."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if orient == "split":
        data = [[row.get(name) for name in names] for row in rows]
        return {"columns": names, **({} if keys is None else {"index": list(keys)}), "data": data}
    if orient == "list":
        return {name: [row.get(name) for row in rows] for name in names}
    named = list(zip(keys or map(str, range(len(rows))), rows, strict=True))
    return {name: {key: row[name] for key, row in named if name in row} for name in names}


def guess_orient(value: Json) -> tuple[str, int] | None:
    """Return the orient of an object that is a table, and how many rows it has; None in doubt.

    Values decide: a column has values of one type, and all columns have the same rows; the cells
    of a row are of several types. So rows that are keyed by an id are not taken for columns, and
    where both could be, as in a table of texts only, nothing is guessed, unless rows are numbered.
    """
    if not isinstance(value, dict):
        return None
    if {"columns", "data"} <= value.keys():
        return ("split", len(value["data"])) if _is_split(value) else None
    columns = list(value.values())
    if len(columns) < 2 or not all(
        isinstance(column, list | dict) and column for column in columns
    ):
        return None
    orient = "list" if isinstance(columns[0], list) else "columns"
    if any(isinstance(column, list) != (orient == "list") for column in columns):
        return None
    rows = len(columns[0])
    if orient == "list":
        even = all(len(column) == rows for column in columns)
    else:
        even = all(column.keys() == columns[0].keys() for column in columns)
    kinds = [_cell_types(column if orient == "list" else column.values()) for column in columns]
    mixed = len(set[type]().union(*kinds)) > 1
    if orient == "columns":
        # Rows have numbers as names, and columns words: so pandas names rows by itself.
        mixed |= all(map(str.isdecimal, columns[0])) and not any(map(str.isdecimal, value))
    if rows < 2 or not even or not mixed or any(len(kind) > 1 for kind in kinds):
        return None
    # A list of objects is read as rows itself.
    return None if orient == "list" and {dict} in kinds else (orient, rows)


def _is_split(value: dict[str, Json]) -> bool:
    """Whether an object has the keys of the orient `split`, and rows that fit its columns."""
    names, data, index = value.get("columns"), value.get("data"), value.get("index")
    if not (set(value) <= _SPLIT_KEYS and isinstance(names, list) and isinstance(data, list)):
        return False
    fits = all(isinstance(row, list) and len(row) == len(names) for row in data)
    named = index is None or (isinstance(index, list) and len(index) == len(data))
    return fits and named and bool(data) and not any(isinstance(n, list | dict) for n in names)


def _cell_types(cells: Iterable[Json]) -> set[type]:
    """The types of cells that are not null; all numbers are one."""
    return {float if type(cell) is int else type(cell) for cell in cells if cell is not None}
