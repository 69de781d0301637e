"""Rows of a table, and texts of its records, that may have a sign: whole columns are looked at.

What is found here is more than what has a sign, and never less; `signs` decides on each by itself.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ingot.converters.mapping.columns.frame import Mask, Places, as_mask, blank_mask
from ingot.converters.mapping.taken import CARRIES, MEDIA_KINDS, OFFERED_TOOLS, Taken
from ingot.converters.sources.formats.arrow import storage_array

_FILES = r"\.(?:jpe?g|png|gif|webp|bmp|tiff?|wav|mp3|flac|ogg|m4a|mp4|avi|mov|webm|mkv)"
_MEDIA_NAME = rf"(?i)^\s*\S+{_FILES}|^\s*\S{{0,9}}data:(?:image|audio|video)/"
_MEDIA = rf"^(?:{'|'.join(sorted(MEDIA_KINDS))})$|{_MEDIA_NAME}"
_MEDIUM = "image|img|audio|video|speech|media"
_TRANSCRIPT = r"\A[^\p{L}\p{N}]*(?:user|human|用户)"
_MEDIA_MARK = rf"<\|?(?:[a-z]{{1,9}}_){{0,3}}(?:{_MEDIUM})|\[(?:{_MEDIUM})|!\["
_MEDIA_TEXT = rf"{_MEDIA_MARK}|^\S+{_FILES}|^data:(?:image|audio|video)/"
_IN_TALKS = rf"(?im){_MEDIA_TEXT}|{_TRANSCRIPT}"
_IN_DOCUMENTS = f"(?i){_TRANSCRIPT}"


def candidate_rows(table: pa.RecordBatch, taken: Taken, *, grouped: bool) -> list[int]:
    """The places of the rows of a table that have to be looked at."""
    marked, owners = np.zeros(table.num_rows, np.bool_), np.arange(table.num_rows)
    rows = table.column(0) if grouped else table.to_struct_array()  # lists in its one column
    for places, held in _suspects(rows, owners, taken, top=not grouped):
        marked[places[held]] = True
    found: list[int] = np.flatnonzero(marked).tolist()
    return found


def candidate_texts(
    table: pa.RecordBatch, rows: Places, *, chat: bool
) -> Iterator[tuple[int, str]]:
    """The texts of records that have to be looked at, each with the row of its record."""
    owners, texts = rows, table.column(0)
    if chat:
        owners = rows[pc.list_parent_indices(texts).to_numpy()]
        texts = pc.struct_field(texts.flatten(), "content")
    hits = pc.match_substring_regex(texts, _IN_TALKS if chat else _IN_DOCUMENTS)
    yield from zip(owners[as_mask(hits)].tolist(), texts.filter(hits).to_pylist(), strict=True)


_Suspects = Iterator[tuple[Places, Mask]]


def _suspects(array: pa.Array, owners: Places, taken: Taken | None, *, top: bool) -> _Suspects:
    """The rows of values, and where one may be a sign."""
    kind = array.type
    if types.is_dictionary(kind):
        array, kind = storage_array(array), kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        yield owners, _mask(pc.match_substring_regex(array, _MEDIA))
    elif types.is_struct(kind):
        columns = dict(zip(kind.names, array.flatten(), strict=True))
        if taken and taken.texts:
            yield from _untaken_fields(columns, owners, taken, top=top)
        for key, column in columns.items():
            yield from _suspects(column, owners, taken and taken.at(key), top=False)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inside = owners[pc.list_parent_indices(array).to_numpy()]
        yield from _suspects(array.flatten(), inside, taken and taken.each, top=False)
    elif kind.num_fields or types.is_string_view(kind) or isinstance(kind, pa.ExtensionType):
        yield owners, as_mask(array.is_valid())


def _untaken_fields(
    columns: dict[str, pa.Array], owners: Places, taken: Taken, *, top: bool
) -> _Suspects:
    """Where objects hold something beside what is taken of them."""
    silent = np.full(len(owners), not top)
    for name, column in columns.items():
        below = taken.at(name)
        if below and below.whole and column.type == pa.string():
            silent &= blank_mask(column)
    for name, column in columns.items():
        if name not in taken.below:
            held = as_mask(column.is_valid())
            if types.is_list(column.type):
                held = _mask(pc.greater(pc.list_value_length(column), 0))
            speaks = OFFERED_TOOLS.search(name) if top else CARRIES.fullmatch(name)
            yield owners, held if speaks else held & silent


def _mask(found: pa.Array) -> Mask:
    return as_mask(pc.fill_null(found, False))
