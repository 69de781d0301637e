"""Rows of a table, and texts of its records, that may have a sign: whole columns are looked at.

What is found here is more than what has a sign, and never less; `signs` decides on each by itself.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ingot.converters.mapping.columns.frame import Mask, Places, as_mask, blank_mask
from ingot.converters.mapping.taken import (
    CARRIES,
    MEDIA_KINDS,
    NOWHERE,
    THOUGHT_KINDS,
    Taken,
)
from ingot.converters.sources.formats.arrow import storage_array
from ingot.converters.sources.text_kinds import EMBEDS

_FILES = r"\.(?:jpe?g|png|gif|webp|bmp|tiff?|wav|mp3|flac|ogg|m4a|mp4|avi|mov|webm|mkv)"
_MEDIA_NAME = rf"(?i)^\s*\S+{_FILES}|^\s*\S{{0,9}}data:(?:image|audio|video)/"
_TOLD = rf"^(?:{'|'.join(sorted(MEDIA_KINDS | THOUGHT_KINDS))})$|{_MEDIA_NAME}"
_MEDIUM = "image|img|audio|video|speech|media"
# Patterns are compiled for every batch: without classes of Unicode, which are large.
_TRANSCRIPT = r"\A[^0-9A-Za-z]*(?:user|human|用户)"
_MEDIA_MARK = rf"<[a-z_|]*(?:{_MEDIUM})|\[(?:{_MEDIUM})|!\["
_MEDIA_TEXT = rf"{_MEDIA_MARK}|^\S+{_FILES}|^data:(?:image|audio|video)/"
_IN_TALKS = rf"(?im){_MEDIA_TEXT}|{_TRANSCRIPT}"
_IN_DOCUMENTS = f"(?i){_TRANSCRIPT}"


def candidate_rows(table: pa.RecordBatch, taken: Taken, *, grouped: bool) -> list[int]:
    """Return the places of the rows of a table that have to be looked at."""
    marked, owners = np.zeros(table.num_rows, np.bool_), np.arange(table.num_rows)
    rows = table.column(0) if grouped else table.to_struct_array()  # lists in its one column
    for places, held in _suspects(rows, owners, taken):
        marked[places[held]] = True
    found: list[int] = np.flatnonzero(marked).tolist()
    return found


def candidate_texts(texts: pa.Array, rows: Places, *, chat: bool) -> Iterator[tuple[int, str]]:
    """Yield the texts of records that have to be looked at, each with the row of its record."""
    marks = pc.match_substring_regex(texts, _IN_TALKS if chat else _IN_DOCUMENTS)
    hits = pc.or_(marks, pc.match_substring(texts, EMBEDS))
    yield from zip(rows[as_mask(hits)].tolist(), texts.filter(hits).to_pylist(), strict=True)


_Suspects = Iterator[tuple[Places, Mask]]


def _suspects(array: pa.Array, owners: Places, place: Taken) -> _Suspects:
    """The rows of values, and where one may be a sign."""
    kind = array.type
    if types.is_dictionary(kind):
        array, kind = storage_array(array), kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        if not place.whole:  # else its record is looked at
            yield owners, _mask(pc.match_substring_regex(array, _TOLD))
    elif types.is_struct(kind):
        columns = dict(zip(kind.names, array.flatten(), strict=True))
        if place.texts:
            yield from _untaken_fields(columns, owners, place)
        for key, column in columns.items():
            yield from _suspects(column, owners, place.at(key))
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inside = owners[pc.list_parent_indices(array).to_numpy()]
        yield from _suspects(array.flatten(), inside, place.each or NOWHERE)
    elif kind.num_fields or types.is_string_view(kind) or isinstance(kind, pa.ExtensionType):
        yield owners, as_mask(array.is_valid())


def _untaken_fields(columns: dict[str, pa.Array], owners: Places, place: Taken) -> _Suspects:
    """Where objects hold something beside what is taken of them."""
    extra = [name for name in columns.keys() - place.below.keys() if place.has_beside(name)]
    silent = np.full(len(owners), bool(extra))
    for name, column in columns.items() if extra else ():
        if place.at(name).whole and column.type == pa.string():
            silent &= blank_mask(column)
    for name in extra:
        held = as_mask(columns[name].is_valid())
        if types.is_list(columns[name].type):
            held = _mask(pc.greater(pc.list_value_length(columns[name]), 0))
        yield owners, held if place.top or CARRIES.fullmatch(name) else held & silent


def _mask(found: pa.Array) -> Mask:
    return as_mask(pc.fill_null(found, False))
