"""What the paths of a mapping find in a batch of Arrow columns.

A `Frame` is what paths start at: the rows of a batch, or the elements of the lists in one of its
columns. Following a `ColumnPath` from there gives a `Column`. Every look is noted, so that the
counts per path are those of the row executor.
"""

import json
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.mapping.columns.scope import ColumnPath, plain_type
from ingot.converters.sources.formats.arrow import finite_numbers, time_text_array

Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.int64]


class TooMuchTextError(Exception):
    """Text that is repeated at many places outgrows what a column holds."""


# A larger batch is cut, so that no column of text outgrows the offsets that Arrow has for it.
MAX_BATCH_BYTES = 64 << 20


class Column(NamedTuple):
    """What a way finds: an array, null where there is no value, and where the place exists."""

    array: pa.Array
    there: Mask | None  # None: everywhere


class Evaluation(NamedTuple):
    """One evaluation of a path: its counter, and the places."""

    counter: list[int]
    active: Mask  # where it was evaluated
    there: Mask | None  # of these, where it found something; None: everywhere
    valid: Mask | None  # and where more than null; None: everywhere
    rows: Places | None  # the rows of the places


@dataclass(kw_only=True)
class Frame:
    """What paths start at, for one batch, whose frames share `failed`, `looks` and `repeated`."""

    values: pa.Array | pa.RecordBatch
    size: int
    active: Mask  # where values are evaluated at all (rows that a condition left out are not)
    failed: Mask  # rows in which something is wrong
    looks: list[Evaluation] = field(default_factory=list)
    repeated: list[int] = field(default_factory=lambda: [0])  # bytes of texts, at many places
    rows: Places | None = None  # the row of each place, None where the places are the rows
    outer: "Frame | None" = None  # the frame whose lists the places are elements of
    parents: Places | None = None  # their places there
    owners: Places | None = None  # as `parents`, in the frame from which one path led here
    numbers: Places | None = None  # count from 0 the elements of each owner
    file: str = ""  # what `@file` gives

    def look(self, way: ColumnPath, counter: list[int], active: Mask) -> pa.Array:
        """Return the plain scalars that a path finds.

        The places of `active` are noted as evaluated.
        """
        array, there = self.scalars(way)
        valid = valid_mask(array) if array.null_count else None
        self.looks.append(Evaluation(counter, active, there, valid, self.rows))
        return array

    def scalars(self, way: ColumnPath) -> Column:
        """Return the plain scalars that a way finds."""
        source, places = self, None
        for _ in range(way.up):
            if source.outer is None or source.parents is None:
                raise ValueError("a way that leads out of the rows")
            places = source.parents if places is None else source.parents[places]
            source = source.outer
        found = follow_path(way, source)
        array = to_plain(found.array)
        if places is None:
            return Column(array, found.there)
        if pa.types.is_string(array.type) and array.null_count < len(array):
            starts, ends = _text_bounds(array)
            self.count_repeated(int((ends - starts)[places].sum()))
        there = None if found.there is None else found.there[places]
        return Column(array.take(pa.array(places)), there)

    def count_repeated(self, size: int) -> None:
        """Count bytes of a text that is repeated. Raises TooMuchTextError beyond the bound."""
        self.repeated[0] += size
        if self.repeated[0] > MAX_BATCH_BYTES:
            raise TooMuchTextError

    def fail(self, places: Mask) -> None:
        """Note that something is wrong at some places: their rows go to the row executor."""
        if places.any():
            self.failed[np.flatnonzero(places) if self.rows is None else self.rows[places]] = True


def follow_path(way: ColumnPath, frame: Frame) -> Column:
    """Follow a way from every value of a frame."""
    if way.is_file:
        return Column(pa.repeat(pa.scalar(frame.file, pa.string()), frame.size), None)
    if way.leaf is None:
        return Column(pa.nulls(frame.size, pa.string()), np.zeros(frame.size, np.bool_))
    here, there = frame.values, None
    for step in way.steps:
        reached = _present_mask(here, step.present)
        if isinstance(here, pa.RecordBatch):
            here = here.column(step.place)
        elif step.kind == "field":
            here = pc.struct_field(here, step.place)
        else:
            # An element of each list, from the end if negative, and which lists have it.
            offsets = here.offsets.to_numpy().astype(np.int64)
            starts, ends = offsets[:-1], offsets[1:]
            wanted = (ends if step.place < 0 else starts) + step.place
            within = (wanted >= starts) & (wanted < ends) & valid_mask(here)
            here = here.values.take(pa.array(wanted, mask=~within))
            reached = within if reached is None else reached & within
        if reached is not None:
            there = reached if there is None else there & reached
    return Column(here, there)


def _present_mask(here: pa.Array | pa.RecordBatch, present: int | None) -> Mask | None:
    """Where the next step can be taken; None if it can be everywhere."""
    if isinstance(here, pa.RecordBatch):
        return None if present is None else as_mask(here.column(present))
    valid = valid_mask(here) if here.null_count else None
    if present is None:
        return valid
    there = as_mask(pc.fill_null(pc.struct_field(here, present), False))
    return there if valid is None else there & valid


def valid_mask(array: pa.Array) -> Mask:
    """Return where an array is not null."""
    return as_mask(array.is_valid())


def as_mask(booleans: pa.Array) -> Mask:
    """Return an Arrow boolean array without nulls as a mask."""
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask


def spread_each(ways: list[ColumnPath], frame: Frame) -> tuple[Frame, Places]:
    """The elements of the lists that some ways lead to, one after the other, and their owners."""
    owners = np.arange(frame.size)
    for way in ways:
        empty = pa.nulls(frame.size, pa.list_(pa.null()))
        lists = empty if way.leaf is None else follow_path(way, frame).array
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        parents = np.repeat(np.arange(frame.size), counts)
        frame = replace(
            frame,
            values=lists.flatten(),
            size=len(parents),
            active=frame.active[parents],
            rows=parents if frame.rows is None else frame.rows[parents],
            outer=frame,
            parents=parents,
        )
        owners = owners[parents]
    return replace(frame, owners=owners, numbers=number_places(owners)), owners


def number_places(owners: Places) -> Places:
    """Count the places of each owner from 0; the owners are in order."""
    first = np.searchsorted(owners, owners)
    return np.arange(len(owners)) - first


def count_evaluations(looks: list[Evaluation], kept: Mask) -> None:
    """Add what was looked up in the kept rows to the counters: looked up, missing, null."""
    everything = bool(kept.all())
    for look in looks:
        active = look.active
        if not everything:
            active = active & (kept if look.rows is None else kept[look.rows])
        reached = active if look.there is None else active & look.there
        looked, found = int(active.sum()), int(reached.sum())
        look.counter[0] += looked
        look.counter[1] += looked - found
        if look.valid is not None:
            look.counter[2] += found - int((reached & look.valid).sum())


# --- scalars and their text


def to_plain(array: pa.Array) -> pa.Array:
    """Return an array of scalars in its plain type.

    Floats that are not finite are null, as in rows.
    """
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_dictionary(kind):
        return to_plain(array.dictionary_decode())
    if pa.types.is_floating(kind):
        return finite_numbers(array)
    return time_text_array(array) if pa.types.is_temporal(kind) else array.cast(plain_type(kind))


def to_text(array: pa.Array) -> pa.Array:
    """Return the text of plain scalars: JSON spelling for numbers and booleans."""
    if pa.types.is_string(array.type):
        return array
    if pa.types.is_floating(array.type):
        spelled = [None if v is None else json.dumps(v) for v in array.to_pylist()]
        return pa.array(spelled, pa.string())
    return array.cast(pa.string())


def blank_mask(texts: pa.Array) -> Mask:
    """Return where a text is nothing, empty or white space only: what `is_blank` says of each."""
    if texts.null_count == len(texts):
        return np.ones(len(texts), np.bool_)
    starts, ends = _text_bounds(texts)
    blank: Mask = starts == ends
    if not texts.null_count and not blank.any():
        firsts = np.frombuffer(texts.buffers()[2], np.uint8)[starts]
        if not _MAY_BE_SPACE[firsts].any():
            return blank
    space = pc.or_(pc.utf8_is_space(texts), pa.array(blank))
    return as_mask(pc.fill_null(space, True))


def said_mask(texts: pa.Array) -> Mask:
    """Return where a text has at least one character."""
    if texts.null_count == len(texts):
        return np.zeros(len(texts), np.bool_)
    starts, ends = _text_bounds(texts)
    longer: Mask = starts < ends
    return longer & valid_mask(texts) if texts.null_count else longer


# The first bytes of characters that may be white space: control characters, the blank, the rest.
_MAY_BE_SPACE = np.array([byte <= ord(" ") or byte > 0x7F for byte in range(256)])


def _text_bounds(texts: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    return offsets[:-1], offsets[1:]


def null_where(array: pa.Array, gone: Mask) -> pa.Array:
    """Return an array with null at the places of a mask."""
    if not gone.any():
        return array
    return pc.if_else(pa.array(gone), pa.scalar(None, array.type), array)


def filter_array(array: pa.Array, kept: Mask) -> pa.Array:
    """Return the values at the places of a mask."""
    return array if kept.all() else array.filter(pa.array(kept))
