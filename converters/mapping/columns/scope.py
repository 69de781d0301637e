"""Where the paths of a mapping lead in an Arrow schema, found once for each schema.

A path starts at a `Scope`: the type of the rows of a batch, or of the elements of the lists in one
of its columns. One that the schema can follow becomes a `ColumnPath`.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import pyarrow as pa

from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.rows.values import PathStats
from ingot.converters.paths import FILE, Index, Key, Mark, Names, Path, compile_path, steps_text


class NotColumnarError(Exception):
    """A mapping or schema that vectors do not execute, and why; stays inside this package."""


PRESENT = "\0present"  # ends the name of a column of booleans: where the other exists


class PathStep(NamedTuple):
    """One step down in a schema: the child of a struct, or an element of a list."""

    kind: Literal["field", "item"]
    place: int
    present: int | None = None  # the child that says where it exists, None: everywhere


class Around(NamedTuple):
    """An object around what paths start at: so many frames out, and so many steps down there."""

    up: int
    steps: tuple[PathStep, ...]
    kind: pa.DataType


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What paths are compiled against: the type that they start at, and the counts."""

    kind: pa.DataType
    stats: PathStats
    around: tuple[Around, ...] = ()  # the objects around it, the nearest first


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnPath:
    """Where a path leads in a schema."""

    steps: tuple[PathStep, ...]
    leaf: pa.DataType | None  # what is found there, None where nothing is in any row
    up: int = 0  # it starts so many frames further out
    is_file: bool = False  # it is the name of the file, wherever the path starts


def locate_path(path: Path, scope: Scope) -> ColumnPath:
    """Return where a path leads in values of a type."""
    if isinstance(path, Lookup):
        raise NotColumnarError("a lookup")
    if path.is_file:
        if FILE in field_names(scope.kind):
            raise NotColumnarError(f"a column {FILE}")
        return ColumnPath(steps=(), leaf=pa.string(), is_file=True)
    up = Mark("^")
    ups = next((n for n, step in enumerate(path.steps) if step != up), len(path.steps))
    around = (Around(0, (), scope.kind), *scope.around)
    start, down = around[ups] if ups < len(around) else None, path.steps[ups:]
    if start is None:
        return ColumnPath(steps=(), leaf=None)
    steps = list(start.steps)
    here: pa.DataType | None = start.kind
    for step in down:
        if here is None:
            break
        if isinstance(step, Names | Key):
            names = step.names if isinstance(step, Names) else (step.name,)
            here = _locate_names(names, here, steps)
        elif isinstance(step, Index):
            here = _locate_item(step.place, here, steps)
        else:
            raise NotColumnarError(f"{path.text}: the mark {step.mark}")
    if start.up and here is not None:
        refuse_views(here)
    return ColumnPath(steps=tuple(steps), leaf=here, up=start.up)


def locate_lists(path: Path, scope: Scope) -> tuple[list[ColumnPath], Path, Scope]:
    """Return where the lists of a path lie, the rest behind the last `[*]`, and its scope."""
    ways: list[ColumnPath] = []
    steps, end = path.steps, Mark("[*]")
    while end in steps:
        cut = steps.index(end)
        way = locate_path(compile_path(steps_text(steps[:cut])), scope)
        if way.up or (way.leaf is not None and not is_list(way.leaf)):
            raise NotColumnarError(f"{path.text}: a value of type {way.leaf}")
        if way.leaf is not None:
            refuse_views(way.leaf.value_type)
        scope = _elements_scope(way, scope)
        ways.append(way)
        steps = steps[cut + 1 :]
    return ways, compile_path(steps_text(steps)) if ways else path, scope


def locate_each(each: tuple[Path, ...], scope: Scope) -> tuple[list[ColumnPath], Scope]:
    """Return where the lists of an `each` lie, and the scope of their elements."""
    if len(each) > 1:
        raise NotColumnarError("lists walked in step")
    ways: list[ColumnPath] = []
    for path in each:
        ways, rest, scope = locate_lists(path, scope)
        if not ways or rest.steps:
            raise NotColumnarError(f"each over {path.text}: no [*] at the end")
    return ways, scope


def _elements_scope(way: ColumnPath, scope: Scope) -> Scope:
    if way.leaf is None:
        return Scope(kind=pa.null(), stats=scope.stats)
    around = [Around(up + 1, steps, kind) for up, steps, kind in scope.around]
    kind = scope.kind
    for number, step in enumerate(way.steps):
        if pa.types.is_struct(kind):
            around.insert(0, Around(1, way.steps[:number], kind))
        kind = kind.field(step.place).type if step.kind == "field" else kind.value_type
    return Scope(kind=way.leaf.value_type, stats=scope.stats, around=tuple(around))


def _locate_names(
    names: tuple[str, ...], kind: pa.DataType, steps: list[PathStep]
) -> pa.DataType | None:
    """A run of plain names: at each struct the longest run that is a field is taken first."""
    here, position = kind, 0
    while position < len(names):
        runs = range(len(names), position, -1)
        keys = {".".join(names[position:end]): end for end in runs}
        known = field_names(here)
        name = next((key for key in keys if key in known), None)
        if name is None:
            return None
        position, present = keys[name], f"{name}{PRESENT}"
        there = known.index(present) if present in known else None
        steps.append(PathStep("field", known.index(name), there))
        here = here.field(steps[-1].place).type
    return here


def field_names(kind: pa.DataType) -> list[str]:
    """Return the keys that every value of a type has; none where it is no struct."""
    if pa.types.is_map(kind) or pa.types.is_union(kind) or isinstance(kind, pa.BaseExtensionType):
        raise NotColumnarError(f"a value of type {kind}")
    if not pa.types.is_struct(kind):
        return []
    names = [child.name for child in kind]
    if len(set(names)) < len(names):
        raise NotColumnarError("two fields with one name")
    return names


def is_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a list whose elements lie in one array."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def refuse_views(kind: pa.DataType) -> None:
    """Refuse elements with views: Arrow cannot yet take some of them. Raises NotColumnarError."""
    types = pa.types
    if types.is_string_view(kind) or types.is_binary_view(kind):
        raise NotColumnarError(f"elements of type {kind}")
    for place in range(kind.num_fields):
        refuse_views(kind.field(place).type)


def _locate_item(place: int, kind: pa.DataType, steps: list[PathStep]) -> pa.DataType | None:
    if is_list(kind):
        refuse_views(kind.value_type)
        steps.append(PathStep("item", place))
        return kind.value_type
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        raise NotColumnarError(f"an element of type {kind}")
    return None


def plain_type(kind: pa.DataType | None) -> pa.DataType | None:
    """Return the type in which scalars of a type are looked at, None if they have no text."""
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


def locate_scalar(path: Path, scope: Scope) -> ColumnPath:
    """Return where a path leads, which has to be a value that has a text."""
    way = locate_path(path, scope)
    if plain_type(way.leaf) is None:
        raise NotColumnarError(f"{path.text}: a value of type {way.leaf}")
    return way
