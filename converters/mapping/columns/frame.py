"""Places in Arrow columns: where a path leads in a schema, and what it finds in a batch.

A `Frame` is what paths start at: the rows of a batch, or the elements of the lists in one of its
columns. A path that the schema can follow is a `Way`, found once; following it gives a `Column`.
Every look is noted, so that the counts per path are those of the row executor.
"""

import json
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.mapping.lookup import Lookup
from ingot.converters.paths import FILE, Index, Key, Names, Path
from ingot.converters.sources.formats.arrow import time_text_array

Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.int64]


class NotColumnarError(Exception):
    """A mapping or schema that vectors do not execute, and why; stays inside this package."""


PRESENT = "\0present"  # ends the name of a column of booleans: where the other exists


class Step(NamedTuple):
    """One step down in a schema: the child of a struct, or an element of a list.

    `present` is the child that says where it exists, None where it does everywhere.
    """

    kind: Literal["field", "item"]
    place: int
    present: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnPath:
    """Where a path leads in a schema.

    Attributes:
        leaf: the type that is found there, None where the path finds nothing in any row.
        is_file: it is the name of the file, wherever the path starts.
    """

    path: Path
    steps: tuple[Step, ...]
    leaf: pa.DataType | None
    is_file: bool = False


class Column(NamedTuple):
    """What a way finds: an array, null where there is no value, and where the place exists.

    `there` is None where it exists everywhere; a place that exists and holds null is null, one that
    does not exist is missing.
    """

    array: pa.Array
    there: Mask | None


class Evaluation(NamedTuple):
    """One evaluation of a path: its counter, where it was evaluated, and what it found."""

    counter: list[int]
    active: Mask
    column: Column
    parents: Places | None


@dataclass(kw_only=True)
class Frame:
    """What paths start at, for one batch.

    Attributes:
        active: where values are evaluated at all (rows that a condition left out are not).
        looks: every evaluation of a path, shared by the frames of a batch.
        file: what `@file` gives.
    """

    values: pa.Array | pa.RecordBatch
    size: int
    active: Mask
    looks: list[Evaluation] = field(default_factory=list)
    parents: Places | None = None
    positions: Places | None = None
    file: str = ""

    def look(self, way: ColumnPath, counter: list[int], active: Mask) -> pa.Array:
        """The plain scalars that a way finds; noted as evaluated for the places of `active`."""
        found = follow_path(way, self)
        column = Column(to_plain(found.array), found.there)
        self.looks.append(Evaluation(counter, active, column, self.parents))
        return column.array


def locate_path(path: Path, kind: pa.DataType) -> ColumnPath:
    """Where a path leads in values of a type."""
    if isinstance(path, Lookup):
        raise NotColumnarError("a lookup")
    steps: list[Step] = []
    here: pa.DataType | None = kind
    if path.is_file:
        if FILE in field_names(kind):
            raise NotColumnarError(f"a column {FILE}")
        return ColumnPath(path=path, steps=(), leaf=pa.string(), is_file=True)
    for step in path.steps:
        if here is None:
            break
        if isinstance(step, Names):
            here = _locate_names(step.names, here, steps)
        elif isinstance(step, Key):
            here = _locate_child(step.name, here, steps)
        elif isinstance(step, Index):
            here = _locate_item(step.place, here, steps)
        else:
            raise NotColumnarError(f"{path.text}: the mark {step.mark}")
    return ColumnPath(path=path, steps=tuple(steps), leaf=here)


def _locate_names(
    names: tuple[str, ...], kind: pa.DataType, steps: list[Step]
) -> pa.DataType | None:
    """A run of plain names: at each struct the longest run that is a field is taken first."""
    here: pa.DataType | None = kind
    position = 0
    while position < len(names) and here is not None:
        runs = range(len(names), position, -1)
        keys = {".".join(names[position:end]): end for end in runs}
        known = field_names(here)
        name = next((key for key in keys if key in known), None)
        if name is None:
            return None
        position = keys[name]
        here = _locate_child(name, here, steps)
    return here


def field_names(kind: pa.DataType) -> list[str]:
    """The keys that every value of a type has; none where it is no struct."""
    if pa.types.is_map(kind) or pa.types.is_union(kind) or isinstance(kind, pa.BaseExtensionType):
        raise NotColumnarError(f"a value of type {kind}")
    if not pa.types.is_struct(kind):
        return []
    names = [child.name for child in kind]
    if len(set(names)) < len(names):
        raise NotColumnarError("two fields with one name")
    return names


def _locate_child(name: str, kind: pa.DataType, steps: list[Step]) -> pa.DataType | None:
    names = field_names(kind)
    if name not in names:
        return None
    present = f"{name}{PRESENT}"
    there = names.index(present) if present in names else None
    steps.append(Step("field", names.index(name), there))
    return kind.field(steps[-1].place).type


def is_list(kind: pa.DataType) -> bool:
    """True for the list types whose elements lie in one array."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind))


def refuse_views(kind: pa.DataType) -> None:
    """Refuse elements with views: Arrow cannot yet take some of them. Raises NotColumnarError."""
    types = pa.types
    if types.is_string_view(kind) or types.is_binary_view(kind):
        raise NotColumnarError(f"elements of type {kind}")
    for place in range(kind.num_fields):
        refuse_views(kind.field(place).type)


def _locate_item(place: int, kind: pa.DataType, steps: list[Step]) -> pa.DataType | None:
    if is_list(kind):
        refuse_views(kind.value_type)
        steps.append(Step("item", place))
        return kind.value_type
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        raise NotColumnarError(f"an element of type {kind}")
    return None


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
            here, within = _list_items(here, step.place)
            reached = within if reached is None else reached & within
        if reached is not None:
            there = reached if there is None else there & reached
    return Column(here, there)


def _present_mask(here: pa.Array | pa.RecordBatch, present: int | None) -> Mask | None:
    """Where the next step can be taken; None where it can be everywhere."""
    if isinstance(here, pa.RecordBatch):
        return None if present is None else as_mask(here.column(present))
    valid = valid_mask(here) if here.null_count else None
    if present is None:
        return valid
    there = as_mask(pc.fill_null(pc.struct_field(here, present), False))
    return there if valid is None else there & valid


def valid_mask(array: pa.Array) -> Mask:
    """Where an array is not null."""
    return as_mask(array.is_valid())


def as_mask(booleans: pa.Array) -> Mask:
    """An Arrow boolean array without nulls as a mask."""
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask


def _list_items(lists: pa.Array, place: int) -> tuple[pa.Array, Mask]:
    """An element of each list (from the end if negative), and which lists have it."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    starts, ends = offsets[:-1], offsets[1:]
    wanted = (ends if place < 0 else starts) + place
    within = (wanted >= starts) & (wanted < ends) & valid_mask(lists)
    return lists.values.take(pa.array(wanted, mask=~within)), within


def spread_lists(lists: pa.Array, parent: Frame) -> Frame:
    """The elements of lists, one per row of `parent`, as a frame; null holds none."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    parents = np.repeat(np.arange(parent.size), counts)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return Frame(
        values=lists.flatten(),
        size=len(parents),
        active=parent.active[parents],
        looks=parent.looks,
        parents=parents,
        positions=np.arange(len(parents)) - starts,
        file=parent.file,
    )


def count_evaluations(looks: list[Evaluation], kept: Mask) -> None:
    """Add what was looked up in the kept rows to the counters: looked up, missing, null."""
    everything = bool(kept.all())
    for look in looks:
        active = look.active
        if not everything:
            active = active & (kept if look.parents is None else kept[look.parents])
        there, array = look.column.there, look.column.array
        reached = active if there is None else active & there
        looked, found = int(active.sum()), int(reached.sum())
        look.counter[0] += looked
        look.counter[1] += looked - found
        if array.null_count:
            look.counter[2] += found - int((reached & valid_mask(array)).sum())


# --- scalars and their text


def plain_type(kind: pa.DataType | None) -> pa.DataType | None:
    """The type in which scalars of a type are looked at, None where they have no text.

    Text and times of every kind are `string`, floats `double`, dictionaries their values.
    """
    types = pa.types
    if kind is None:
        return pa.string()
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if text or types.is_temporal(kind):
        return pa.string()
    if types.is_floating(kind):
        return pa.float64()
    return kind if types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind) else None


def to_plain(array: pa.Array) -> pa.Array:
    """An array of scalars in its plain type; floats that are not finite are null, as in rows."""
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_dictionary(kind):
        return to_plain(array.dictionary_decode())
    if pa.types.is_floating(kind):
        wide = array.cast(pa.float64())
        return pc.if_else(pc.is_finite(wide), wide, pa.scalar(None, pa.float64()))
    return time_text_array(array) if pa.types.is_temporal(kind) else array.cast(plain_type(kind))


def locate_scalar(path: Path, kind: pa.DataType) -> ColumnPath:
    """Where a path leads, which has to be a value that has a text."""
    way = locate_path(path, kind)
    if plain_type(way.leaf) is None:
        raise NotColumnarError(f"{path.text}: a value of type {way.leaf}")
    return way


def to_text(array: pa.Array) -> pa.Array:
    """The text of plain scalars: JSON spelling for numbers and booleans."""
    if pa.types.is_string(array.type):
        return array
    if pa.types.is_floating(array.type):
        spelled = [None if v is None else json.dumps(v) for v in array.to_pylist()]
        return pa.array(spelled, pa.string())
    return array.cast(pa.string())


def blank_mask(texts: pa.Array) -> Mask:
    """Where a text is nothing, empty or white space only: what `is_blank` says of each."""
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
    """Where a text has at least one character."""
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
    """An array with null at the places of a mask."""
    if not gone.any():
        return array
    return pc.if_else(pa.array(gone), pa.scalar(None, array.type), array)
