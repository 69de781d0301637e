"""Rows as JSON documents that leave nothing out: what `ingot monolith cat` shows.

Bytes are strings where they are UTF-8, else `{"base64": "..."}`; floats are the shortest that read
back as the same; what JSON has no number for is "NaN", "Infinity" or "-Infinity".
"""

import base64
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np

from ingot.converters.monolith.contract import FEATURE_KINDS
from ingot.converters.monolith.fid import BITS
from ingot.converters.monolith.looking.figures import json_number
from ingot.converters.monolith.rows import Rows
from ingot.converters.rows import Json

_UNSET: Final = FEATURE_KINDS[0]
_SINGLE: Final = ("float_list", "float_lists", "float_value")  # of 32 bits


def documents(
    rows: Rows, first: int = 0, wanted: Collection[str] | None = None
) -> Iterator[dict[str, Json]]:
    """A document for each row.

    Args:
        rows: R rows.
        first: the number of the first of them.
        wanted: names of the features that are shown, None = all.

    Raises:
        ConversionError: protobuf is not installed.
    """
    names = [name.decode("utf-8", "backslashreplace") for name in rows.names]
    for at in range(len(rows)):
        entries = range(int(rows.first[at]), int(rows.first[at + 1]))
        shown = [one for one in entries if wanted is None or names[rows.name[one]] in wanted]
        yield {
            "row": first + at,
            "record": int(rows.record[at]),
            "row_in_batch": rows.row_in_batch(at),
            "offset": int(rows.offset[at]),
            "sort_id": _text(rows.data[rows.sort_start[at] : rows.sort_stop[at]].tobytes()),
            "data_source_key": int(rows.source[at]),
            "line_id": _line_id(rows.line_id(at)),
            "label": [_single(one) for one in rows.labels(at).tolist()],
            "instance_weight": _single(float(rows.weight[at])) if rows.weighted[at] else None,
            "features": [_named(rows, one, names[rows.name[one]]) for one in shown],
            **_unknown_in(rows.data[rows.rest_start[at] : rows.rest_stop[at]].tobytes()),
        }


def _line_id(serialized: bytes | None) -> dict[str, Json] | None:
    """The fields that are given, by name; None where there is no LineId."""
    from ingot.converters.monolith.messages import line_id_pb2

    if serialized is None:
        return None
    message = line_id_pb2.LineId.FromString(serialized)
    given = {field.name: _field(value) for field, value in message.ListFields()}
    return {**given, **_unknown(message)}


def _field(value: Any) -> Json:  # noqa: ANN401 - whatever a field holds
    if isinstance(value, bytes | str):  # text that is no UTF-8 comes as bytes
        return _text(value)
    if isinstance(value, float):
        return _single(value)
    return value if isinstance(value, bool | int) else list(value)


def _named(rows: Rows, entry: int, name: str) -> dict[str, Json]:
    numbers = {"id": int(rows.ident[entry]), "sorted_id": int(rows.sorted_id[entry])}
    beside = rows.data[rows.extra_start[entry] : rows.extra_stop[entry]].tobytes()
    return {
        "name": name,
        **{key: number for key, number in numbers.items() if number},
        **(_raw(rows.feature(entry)) if rows.raw[entry] else feature(rows.feature(entry))),
        **_unknown_in(beside, "unknown_beside"),
    }


def feature(serialized: bytes) -> dict[str, Json]:
    """A `Feature`: its kind, its value, and fids as `slot:signature`.

    Raises:
        ConversionError: protobuf is not installed.
    """
    from ingot.converters.monolith.messages import example_pb2

    if not serialized:
        return {"kind": _UNSET}
    return _of_message(example_pb2.Feature.FromString(serialized))


def _raw(serialized: bytes) -> dict[str, Json]:
    from ingot.converters.monolith.messages import example_pb2

    message = example_pb2.RawFeature.FromString(serialized)
    return {"kind": "raw", "feature": list(map(_of_message, message.feature)), **_unknown(message)}


def _of_message(message: Any) -> dict[str, Json]:  # noqa: ANN401 - a Feature
    kind = message.WhichOneof("type")
    if kind is None:
        return {"kind": _UNSET, **_unknown(message)}
    value = _value(kind, getattr(message, kind))
    fids = {"fid": fids_told(kind, value)} if kind.startswith("fid") else {}
    return {"kind": kind, "value": value, **fids, **_unknown(message)}


def _value(kind: str, held: Any) -> Json:  # noqa: ANN401 - a list, lists or a value
    if kind.endswith("_lists"):
        return [_values(kind, one.value) for one in held.list]
    if kind.endswith("_list"):
        return _values(kind, held.value)
    return _values(kind, [held])[0]


def _values(kind: str, values: Any) -> list[Json]:  # noqa: ANN401 - a container of protobuf's
    if kind in _SINGLE:
        return list(map(_single, values))
    if kind.startswith("double"):
        return list(map(json_number, values))
    return list(map(_text, values)) if kind.startswith("bytes") else list(values)


def fids_told(kind: str, value: Json) -> Json:
    """Fids, or lists of them, as `slot:signature`; a version 2 fid beyond 2^63 has slots so too."""
    if isinstance(value, list):
        return [fids_told(kind, one) for one in value]
    bits = BITS["v1" if kind.startswith("fid_v1") else "v2"].signature
    return f"{value >> bits}:{value & ((1 << bits) - 1)}"


def _single(value: float) -> Json:
    """A float of 32 bits by its shortest decimals."""
    return json_number(float(str(np.float32(value))))


def _text(value: bytes | str) -> Json:
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _unknown_in(serialized: bytes, key: str = "unknown") -> dict[str, Json]:
    """Unknown fields that stand alone."""
    from google.protobuf.empty_pb2 import Empty

    return _unknown(Empty.FromString(serialized), key) if serialized else {}


def _unknown(message: Any, key: str = "unknown") -> dict[str, Json]:  # noqa: ANN401 - any message
    """The unknown fields of a message by number, in the order of the wire; nothing without any."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = _by_number(UnknownFieldSet(message))
    return {key: found} if found else {}


def _by_number(fields: Any) -> dict[str, Json]:  # noqa: ANN401 - an UnknownFieldSet
    found: dict[str, Json] = {}
    for field in fields:
        value = field.data
        if isinstance(value, bytes):
            value = _text(value)
        elif not isinstance(value, int):  # a group
            value = _by_number(value)
        found.setdefault(str(field.field_number), []).append(value)
    return found
