"""Rows of a table, and texts of its records, that may have a sign: whole columns are looked at.

What is found here is more than what has a sign, and never less; `signs` decides on each by itself.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ingot.converters.mapping.columns.frame import Mask, Places, as_mask, blank_mask
from ingot.converters.mapping.taken import (
    CARRIES,
    MEDIA_KINDS,
    OFFERED_TOOLS,
    THOUGHT,
    Taken,
    bare_name,
)

_FILES = r"\.(?:jpe?g|png|gif|webp|bmp|tiff?|wav|mp3|flac|ogg|m4a|mp4|avi|mov|webm|mkv)"
_MEDIA_NAME = rf"(?i)^\s*\S+{_FILES}|^\s*\S{{0,9}}data:(?:image|audio|video)/"
_MEDIA_TYPE = f"^(?:{MEDIA_KINDS.pattern})$"
_TRANSCRIPT = r"\A[^\p{L}\p{N}]*(?:user|human|用户)"
_MEDIA_TEXT = rf"<\|?(?:image|audio|video|img)|!\[|^\S+{_FILES}|^data:(?:image|audio|video)/"
_IN_TALKS = rf"(?im){_MEDIA_TEXT}|{_TRANSCRIPT}"
_IN_DOCUMENTS = f"(?i){_TRANSCRIPT}"


def candidate_rows(table: pa.RecordBatch, taken: Taken, *, chat: bool) -> list[int]:
    """The places of the rows of a table that have to be looked at."""
    look = _Look(table.num_rows, chat=chat)
    owners = np.arange(table.num_rows)
    if taken.each:  # groups: each row is the list in its one column
        look.array(table.column(0), owners, taken)
    else:
        columns = list(zip(table.schema.names, table.columns, strict=True))
        look.fields(columns, owners, taken)
        for name, column in columns if chat else ():
            if name not in taken.known and OFFERED_TOOLS.search(name):
                look.mark(owners, column.is_valid())
    places: list[int] = np.flatnonzero(look.marked).tolist()
    return places


def candidate_texts(
    table: pa.RecordBatch, rows: Places, *, chat: bool
) -> Iterator[tuple[int, str]]:
    """The texts of records that have to be looked at, each with the row of its record."""
    texts = table.column(0)
    if chat:
        owners = rows[pc.list_parent_indices(texts).to_numpy()]
        texts = pc.struct_field(texts.flatten(), "content")
    else:
        owners = rows
    hits = pc.match_substring_regex(texts, _IN_TALKS if chat else _IN_DOCUMENTS)
    yield from zip(owners[as_mask(hits)].tolist(), texts.filter(hits).to_pylist(), strict=True)


class _Look:
    """Marks rows by what lies in their columns, however deep."""

    def __init__(self, size: int, *, chat: bool) -> None:
        self.marked: Mask = np.zeros(size, np.bool_)
        self._chat = chat

    def mark(self, owners: Places, held: pa.Array) -> None:
        """Mark the rows of the places at which something is held."""
        self.marked[owners[as_mask(pc.fill_null(held, False))]] = True

    def fields(
        self, columns: Sequence[tuple[str, pa.Array]], owners: Places, taken: Taken | None
    ) -> None:
        """Look at the columns of a table, or of the objects in it."""
        for name, column in columns:
            if name == "type" and _is_text(column.type):
                self.mark(owners, pc.match_substring_regex(column, _MEDIA_TYPE))
            self.array(column, owners, taken and taken.at(name))

    def array(
        self, array: pa.Array, owners: Places, taken: Taken | None, *, element: bool = False
    ) -> None:
        """Look at values and at all that lies inside of them."""
        kind = array.type
        if types.is_dictionary(kind):
            array, kind = array.dictionary_decode(), kind.value_type
        if _is_text(kind):
            if self._chat:
                self.mark(owners, pc.match_substring_regex(array, _MEDIA_NAME))
        elif types.is_struct(kind):
            columns = list(zip(kind.names, array.flatten(), strict=True))
            if element and taken and self._chat:
                self._elements(columns, owners, taken)
            self.fields(columns, owners, taken)
        elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            if taken and taken.has_places:
                self.mark(owners, array.is_valid())
            inside = owners[pc.list_parent_indices(array).to_numpy()]
            self.array(array.flatten(), inside, taken and taken.each, element=True)
        elif kind.num_fields or types.is_string_view(kind) or isinstance(kind, pa.ExtensionType):
            self.mark(owners, array.is_valid())

    def _elements(
        self, columns: Sequence[tuple[str, pa.Array]], owners: Places, taken: Taken
    ) -> None:
        """Look at what elements of a list hold beside what is taken of them."""
        silent = np.ones(len(owners), np.bool_)
        for name, column in columns:
            below = taken.at(name)
            if below and below.whole and column.type == pa.string():
                silent &= blank_mask(column)
        for name, column in columns:
            if name in taken.known or column.null_count == len(column):
                continue
            held = as_mask(_held(column))
            speaks = CARRIES.fullmatch(bare_name(name)) or name == THOUGHT
            self.marked[owners[held if speaks else held & silent]] = True


def _held(column: pa.Array) -> pa.Array:
    """Where a value is there and not empty."""
    kind = column.type
    if types.is_list(kind) or types.is_large_list(kind):
        return pc.fill_null(pc.greater(pc.list_value_length(column), 0), False)
    if _is_text(kind):
        return pc.fill_null(pc.greater(pc.binary_length(column), 0), False)
    return column.is_valid()


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))
