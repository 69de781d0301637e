"""Avro schemas: what one may ask of a reader, and logical types as JSON values.

A schema of a stranger may be recursive or deep, which ends the process in fastavro's compiled
reader, or make many values of no bytes. Each logical type is renamed to one of `READERS`, by which
fastavro makes JSON values while it decodes.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources.formats.arrow import exact_number, value_converter
from ingot.converters.sources.formats.row_chunks import (
    MAX_DEPTH,
    MAX_ROW_BYTES,
    BrokenRow,
    row_excerpt,
)

_OWN: Final = "ingot-"
_FREE_VALUES: Final = 16  # that an element may have for each of its bytes
_MOST_FREE: Final = 10_000  # values of a row that need no bytes
_MOST_DECIMAL: Final = 1000  # bytes, and digits behind the point
_LEAST: Final = {
    **{"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8},
    **{"bytes": 1, "string": 1},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaFacts:
    """What a schema says.

    Attributes:
        columns: the fields of a row, none where rows are no records.
        schema: the same with logical types as those of `READERS`.
        number_schema: that, and numbers that are not finite are read as null.
        least: the bytes that a row has at least.
        recursive: whether a type holds itself.
        floats: whether there are numbers that may not be finite.
    """

    columns: tuple[str, ...]
    schema: Json
    number_schema: Json
    least: int
    recursive: bool
    floats: bool


def inspect_schema(schema: Json, where: str) -> SchemaFacts:
    """Return the facts of a schema. Raises SourceError where it is none, or asks for too much."""
    try:
        plain = _Inspector(numbers=False)
        marked, cost = plain.inspect(schema, "")
        strict, _ = _Inspector(numbers=True).inspect(schema, "")
        fields = schema.get("fields") if isinstance(schema, dict) else None
        columns = tuple(one["name"] for one in fields or ())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"damaged: its Avro schema is none: {error!r}"[:300]
        raise SourceError(where, problem, "fetch or copy it again") from error
    if plain.refused or cost.depth > MAX_DEPTH or cost.free > _MOST_FREE:
        why = plain.refused or f"it is nested more than {MAX_DEPTH} levels deep, or makes too much"
        raise SourceError(where, f"an Avro schema which is not read: {why}", "write it otherwise")
    return SchemaFacts(
        columns=columns,
        schema=marked,
        number_schema=strict,
        least=cost.least,
        recursive=plain.recursive,
        floats=plain.floats,
    )


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of the values of a type: the least bytes of one, values beyond those paid, and depth."""

    least: int
    free: int
    depth: int = 0


def _paid(least: int) -> _Cost:
    return _Cost(least, 1 - _FREE_VALUES * least)


@dataclass(slots=True)
class _Inspector:
    numbers: bool
    recursive: bool = False
    floats: bool = False
    refused: str = ""
    _named: dict[str, _Cost | None] = field(default_factory=dict)

    def inspect(self, schema: Any, space: str) -> tuple[Json, _Cost]:  # noqa: ANN401 - JSON
        """A schema with renamed logical types, and the cost of its values."""
        if isinstance(schema, list):
            return self._union(schema, space)
        if isinstance(schema, str):
            schema = {"type": schema} if schema in _LEAST else schema
        if isinstance(schema, str):
            return schema, self._reference(schema, space)
        kind = schema["type"]
        if not isinstance(kind, str) or (kind not in _LEAST and kind not in _COMPLEX):
            return self.inspect(kind, space)
        return _COMPLEX.get(kind, _Inspector._primitive)(self, schema, space)

    def _reference(self, name: str, space: str) -> _Cost:
        full = name if "." in name or not space else f"{space}.{name}"
        cost = self._named[full if full in self._named else name]
        if cost is None:
            self.recursive = True
            return _Cost(0, 1)
        return cost

    def _primitive(self, schema: dict[str, Any], _: str) -> tuple[Json, _Cost]:
        kind = schema["type"]
        is_float = kind in ("float", "double")
        self.floats = self.floats or is_float
        logical = _reader_name(kind, schema, self.numbers and is_float)
        return {"type": kind, **logical}, _paid(_LEAST[kind])

    def _union(self, schema: list[Any], space: str) -> tuple[Json, _Cost]:
        branches = [self.inspect(one, space) for one in schema]
        costs = [cost for _, cost in branches]
        free = max(cost.free for cost in costs) - _FREE_VALUES
        least = 1 + min(cost.least for cost in costs)
        depth = max(cost.depth for cost in costs)
        return [marked for marked, _ in branches], _Cost(least, free, depth)

    def _repeated(self, schema: dict[str, Any], space: str) -> tuple[Json, _Cost]:
        kind = schema["type"]
        inner = "items" if kind == "array" else "values"
        marked, cost = self.inspect(schema[inner], space)
        if cost.free > (0 if kind == "array" else _FREE_VALUES):
            self.refused = self.refused or f"an {kind} of values that need no bytes"
        paid = _paid(1)
        return {"type": kind, inner: marked}, _Cost(paid.least, paid.free, cost.depth + 1)

    def _name(self, schema: dict[str, Any], space: str) -> tuple[dict[str, Json], str, str]:
        """What names a type, its full name, and the namespace inside of it."""
        name, stated = schema["name"], schema.get("namespace")
        if "." in name:
            space = name.rpartition(".")[0]
        elif stated is not None:
            space = stated
        kept: dict[str, Json] = {"type": schema["type"], "name": name}
        if stated is not None:
            kept["namespace"] = stated
        full = name if "." in name or not space else f"{space}.{name}"
        return kept, full, space

    def _record(self, schema: dict[str, Any], space: str) -> tuple[Json, _Cost]:
        marked, full, space = self._name(schema, space)
        self._named[full] = None
        fields, costs, names = [], [], set()
        for one in schema["fields"]:
            kind, cost = self.inspect(one["type"], space)
            fields.append({"name": one["name"], "type": kind})
            names.add(one["name"])
            costs.append(cost)
        if len(names) < len(fields):
            raise ValueError("two fields of one name")
        self._named[full] = cost = _Cost(
            sum(one.least for one in costs),
            1 + sum(one.free for one in costs),
            1 + max((one.depth for one in costs), default=0),
        )
        return {**marked, "fields": fields}, cost

    def _enum(self, schema: dict[str, Any], space: str) -> tuple[Json, _Cost]:
        marked, full, _ = self._name(schema, space)
        self._named[full] = cost = _paid(1)
        return {**marked, "symbols": schema["symbols"]}, cost

    def _fixed(self, schema: dict[str, Any], space: str) -> tuple[Json, _Cost]:
        marked, full, _ = self._name(schema, space)
        size = schema["size"]
        if type(size) is not int or not 0 <= size <= MAX_ROW_BYTES:
            raise ValueError(f"a fixed type of {size} bytes")
        self._named[full] = cost = _paid(size)
        return {**marked, "size": size, **_reader_name("fixed", schema, False)}, cost


_COMPLEX: Final[dict[str, Callable[[_Inspector, dict[str, Any], str], tuple[Json, _Cost]]]] = {
    "record": _Inspector._record,
    "error": _Inspector._record,
    "enum": _Inspector._enum,
    "fixed": _Inspector._fixed,
    "array": _Inspector._repeated,
    "map": _Inspector._repeated,
}


def _reader_name(kind: str, schema: dict[str, Any], number: bool) -> dict[str, Json]:
    """The logical type that makes JSON of a type; one that is not known is none."""
    logical = schema.get("logicalType")
    scale = schema.get("scale", 0)
    if logical == "decimal" and not (type(scale) is int and 0 <= scale <= _MOST_DECIMAL):
        logical = None
    sizes = {"duration": 12, "uuid": 16}
    if kind == "fixed" and sizes.get(str(logical), schema.get("size")) != schema.get("size"):
        logical = None
    if f"{kind}-{_OWN}{logical}" not in READERS:
        logical = "number" if number else "text" if kind in ("bytes", "fixed") else None
    return {"logicalType": f"{_OWN}{logical}", "scale": scale} if logical else {}


class _Noted(threading.local):
    broken: BrokenRow | None = None


_noted = _Noted()


def take_broken_value() -> BrokenRow | None:
    """The first value since the last call that this thread could not read."""
    broken, _noted.broken = _noted.broken, None
    return broken


def _break(detail: str, data: bytes) -> Json:
    _noted.broken = _noted.broken or BrokenRow(detail, row_excerpt(data))
    return None


def _text(value: bytes, *_: object) -> Json:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _break("binary that is no UTF-8 text", value)


def _decimal(value: bytes, schema: dict[str, Any], _: object) -> Json:
    if len(value) > _MOST_DECIMAL:
        return _break(f"a decimal of {len(value):,} bytes", b"")
    sign, digits, _exponent = Decimal(int.from_bytes(value, "big", signed=True)).as_tuple()
    return exact_number(Decimal((sign, digits, -schema["scale"])))


def _duration(value: bytes, *_: object) -> Json:
    months, days, millis = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
    return f"P{months}M{days}D{value_converter(pa.duration('ms'))(millis)[1:]}"


def _number(value: float, *_: object) -> Json:
    return value if math.isfinite(value) else None


def _time_reader(kind: pa.DataType) -> Callable[[Any, object, object], Json]:
    convert = value_converter(kind)
    return lambda value, _schema, _reader: convert(value)


# By the name that fastavro gives: the type and the logical type.
READERS: Final[dict[str, Callable[[Any, Any, Any], Json]]] = {
    **{f"{kind}-{_OWN}text": _text for kind in ("bytes", "fixed")},
    **{f"{kind}-{_OWN}decimal": _decimal for kind in ("bytes", "fixed")},
    **{f"{kind}-{_OWN}number": _number for kind in ("float", "double")},
    f"fixed-{_OWN}duration": _duration,
    f"fixed-{_OWN}uuid": lambda value, *_: str(UUID(bytes=value)),
    f"int-{_OWN}date": _time_reader(pa.date32()),
    f"int-{_OWN}time-millis": _time_reader(pa.time32("ms")),
    f"long-{_OWN}time-micros": _time_reader(pa.time64("us")),
    **{
        f"long-{_OWN}{local}timestamp-{name}": _time_reader(
            pa.timestamp(unit, tz=None if local else "UTC")
        )
        for local in ("", "local-")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
