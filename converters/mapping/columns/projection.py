"""Rows of JSON as Arrow columns: of each row only what a mapping looks at.

What is missing is told from null by a column beside it (`PRESENT`), which stands only where some
row has nothing. Values of several kinds in one place, and keys with dots that may stand for a path,
have no columns: such rows are left to the row executor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from ingot.converters.mapping.columns.scope import PRESENT, NotColumnarError
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.path_uses import path_uses
from ingot.converters.paths import Index, Key, Mark, Names, Path
from ingot.converters.rows import Json

_KINDS = "values of several kinds"
_SCALARS = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


@dataclass(kw_only=True, slots=True)
class Projection:
    """What a mapping looks at in a value: fields of an object, or elements of a list, or itself."""

    fields: dict[str, "Projection"] = field(default_factory=dict)
    items: "Projection | None" = None
    dotted: set[str] = field(default_factory=set)  # keys, taken before a path of several names

    def table(self, rows: Sequence[Json]) -> pa.RecordBatch:
        """Return the columns of rows; rows that are lists have one.

        Raises NotColumnarError if they have none.
        """
        if self.items is not None:
            return pa.RecordBatch.from_arrays([self.array(rows)], names=["rows"])
        arrays = self._field_arrays(rows)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def array(self, values: Sequence[Json]) -> pa.Array:
        """Return some values as an array.

        Raises NotColumnarError if they are of several kinds.
        """
        if self.fields:
            values, mask = _fill_null(values, {})
            arrays = self._field_arrays(values)
            return pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays), mask=mask)
        return _scalar_array(values) if self.items is None else _list_array(values, self.items)

    def _field_arrays(self, values: Sequence[Json]) -> dict[str, pa.Array]:
        arrays = {}
        try:
            for key in self.dotted:
                if any(key in value for value in values):
                    raise NotColumnarError(f"the key {key}")
            for name, inner in self.fields.items():
                try:
                    found = [value[name] for value in values]
                except KeyError:
                    if any(value.__class__ is not dict for value in values):
                        raise NotColumnarError(_KINDS) from None
                    found = [value.get(name) for value in values]
                    arrays[f"{name}{PRESENT}"] = pa.array([name in value for value in values])
                arrays[name] = inner.array(found)
        except TypeError:  # no object
            raise NotColumnarError(_KINDS) from None
        return arrays


def _fill_null(values: Sequence[Json], empty: Json) -> tuple[Sequence[Json], pa.Array | None]:
    """Values with an empty one in the place of null, and where that is; None for nowhere."""
    null = [value is None for value in values]
    if not any(null):
        return values, None
    return [empty if value is None else value for value in values], pa.array(null)


def _list_array(values: Sequence[Json], items: Projection) -> pa.ListArray:
    if any(value.__class__ is not list and value is not None for value in values):
        raise NotColumnarError(_KINDS)
    values, mask = _fill_null(values, [])
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    inner = items.array(list(chain.from_iterable(values)))
    return pa.ListArray.from_arrays(pa.array(offsets), inner, mask=mask)


def _scalar_array(values: Sequence[Json]) -> pa.Array:
    try:
        texts = pa.array(values, pa.string())
    except pa.ArrowException:  # no texts
        texts = None
    if isinstance(texts, pa.ChunkedArray):
        raise NotColumnarError("more text than a column holds")
    if texts is not None:
        return texts
    kinds = set(map(type, values)) - {type(None)}
    kind = _SCALARS.get(kinds.pop()) if len(kinds) == 1 else None
    if kind is None:
        raise NotColumnarError(_KINDS)
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError):
        raise NotColumnarError("integers beyond 64 bits") from None


def compile_projection(mapping: Mapping) -> Projection:
    """Return what a mapping looks at. Raises NotColumnarError if its paths have no columns."""
    whole = Projection()
    for use in path_uses(mapping):
        if use.of_row:
            continue
        trail = [whole]
        for around in use.scope:
            each = around if isinstance(around, tuple) else getattr(around, "each", None)
            if each is None or len(each) > 1:
                raise NotColumnarError(use.pointer)
            for path in each:
                _walk_down(trail, path)
        if use.path.is_file:
            trail[-1].dotted.add(use.path.text)
        else:
            _walk_down(trail, use.path)
    if not whole.fields and not whole.items:
        raise NotColumnarError("nothing is looked at")
    _refuse_several_kinds(whole)
    return whole


def _walk_down(trail: list[Projection], path: Path) -> None:
    """Follow a path from the last place of a trail, whose places stand inside each other."""
    for step in path.steps:
        place = trail[-1]
        if step == Mark("^"):
            del trail[-1]
            while trail and not trail[-1].fields:
                del trail[-1]
            if not trail:  # around the row there is nothing
                trail.append(Projection())
            continue
        if isinstance(step, Index) or step == Mark("[*]"):
            place.items = place.items or Projection()
            trail.append(place.items)
            continue
        if not isinstance(step, Names | Key):
            raise NotColumnarError(path.text)
        names = step.names if isinstance(step, Names) else (step.name,)
        for number, name in enumerate(names):
            ends = range(number + 2, len(names) + 1)
            trail[-1].dotted |= {".".join(names[number:end]) for end in ends}
            trail.append(trail[-1].fields.setdefault(name, Projection()))


def _refuse_several_kinds(place: Projection) -> None:
    if (place.fields and place.items) or not place.dotted.isdisjoint(place.fields):
        raise NotColumnarError(_KINDS)
    for inner in (*place.fields.values(), *([place.items] if place.items else [])):
        _refuse_several_kinds(inner)
