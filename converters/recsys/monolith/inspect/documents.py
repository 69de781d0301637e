"""Format rows as complete JSON documents, and the documents as lines for people, long values cut.

Bytes are strings where they are UTF-8, else `{"base64": "..."}`; floats are the shortest that read
back as the same; what JSON has no number for is "NaN", "Infinity" or "-Infinity".
"""

import base64
import datetime as dt
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ingot.converters.recsys.monolith.contract import FEATURE_KINDS, LABEL
from ingot.converters.recsys.monolith.fid import BITS
from ingot.converters.recsys.monolith.inspect.figures import json_number
from ingot.converters.recsys.monolith.record_index import Rows
from ingot.converters.rows import Json

_UNSET: Final = FEATURE_KINDS[0]
_SINGLE: Final = ("float_list", "float_lists", "float_value")  # of 32 bits


def row_documents(
    rows: Rows, first: int = 0, features: Collection[str] | None = None
) -> Iterator[dict[str, Json]]:
    """Yield a document for each row."""
    names = [name.decode("utf-8", "backslashreplace") for name in rows.names]
    for row in range(len(rows)):
        entries = range(int(rows.first[row]), int(rows.first[row + 1]))
        selected = [one for one in entries if features is None or names[rows.name[one]] in features]
        yield {
            "row": first + row,
            "record": int(rows.record[row]),
            "row_in_batch": rows.row_in_batch(row),
            "offset": int(rows.offset[row]),
            "sort_id": _text_value(rows.data[rows.sort_start[row] : rows.sort_stop[row]].tobytes()),
            "data_source_key": int(rows.source[row]),
            "line_id": _line_id_document(rows.line_id(row)),
            "label": [_float32_number(one) for one in rows.labels(row).tolist()],
            "instance_weight": _float32_number(float(rows.weight[row]))
            if rows.weighted[row]
            else None,
            "features": [_entry_document(rows, one, names[rows.name[one]]) for one in selected],
            **_parse_unknown(rows.data[rows.rest_start[row] : rows.rest_stop[row]].tobytes()),
        }


def _line_id_document(serialized: bytes | None) -> dict[str, Json] | None:
    from ingot.converters.recsys.monolith.contract import line_id_pb2

    if serialized is None:
        return None
    message = line_id_pb2.LineId.FromString(serialized)
    fields = {field.name: _line_field_value(value) for field, value in message.ListFields()}
    return {**fields, **_unknown_fields(message)}


def _line_field_value(value: Any) -> Json:  # noqa: ANN401 - whatever a field holds
    if isinstance(value, bytes | str):  # text that is no UTF-8 comes as bytes
        return _text_value(value)
    if isinstance(value, float):
        return _float32_number(value)
    return value if isinstance(value, bool | int) else list(value)


def _entry_document(rows: Rows, entry: int, name: str) -> dict[str, Json]:
    from ingot.converters.recsys.monolith.contract import example_pb2

    numbers = {"id": int(rows.ident[entry]), "sorted_id": int(rows.sorted_id[entry])}
    extra = rows.data[rows.extra_start[entry] : rows.extra_stop[entry]].tobytes()
    if rows.raw[entry]:
        raw = example_pb2.RawFeature.FromString(rows.feature(entry))
        features = list(map(_message_document, raw.feature))
        content = {"kind": "raw", "feature": features, **_unknown_fields(raw)}
    else:
        content = feature_document(rows.feature(entry))
    return {
        "name": name,
        **{key: number for key, number in numbers.items() if number},
        **content,
        **_parse_unknown(extra, "unknown_beside"),
    }


def feature_document(serialized: bytes) -> dict[str, Json]:
    """Return a `Feature` with its kind, its value, and fids as `slot:signature`."""
    from ingot.converters.recsys.monolith.contract import example_pb2

    if not serialized:
        return {"kind": _UNSET}
    return _message_document(example_pb2.Feature.FromString(serialized))


def _message_document(message: Any) -> dict[str, Json]:  # noqa: ANN401 - a Feature
    kind = message.WhichOneof("type")
    if kind is None:
        return {"kind": _UNSET, **_unknown_fields(message)}
    value = _kind_value(kind, getattr(message, kind))
    fids = {"fid": format_fids(kind, value)} if kind.startswith("fid") else {}
    return {"kind": kind, "value": value, **fids, **_unknown_fields(message)}


def _kind_value(kind: str, value: Any) -> Json:  # noqa: ANN401 - a list, lists or a value
    if kind.endswith("_lists"):
        return [_kind_values(kind, one.value) for one in value.list]
    if kind.endswith("_list"):
        return _kind_values(kind, value.value)
    return _kind_values(kind, [value])[0]


def _kind_values(kind: str, values: Any) -> list[Json]:  # noqa: ANN401 - a container of protobuf's
    if kind in _SINGLE:
        return list(map(_float32_number, values))
    if kind.startswith("double"):
        return list(map(json_number, values))
    return list(map(_text_value, values)) if kind.startswith("bytes") else list(values)


def format_fids(kind: str, value: Json) -> Json:
    """Format fids or lists of them as `slot:signature`, also version 2 fids beyond 2^63."""
    if isinstance(value, list):
        return [format_fids(kind, one) for one in value]
    bits = BITS["v1" if kind.startswith("fid_v1") else "v2"].signature
    return f"{value >> bits}:{value & ((1 << bits) - 1)}"


def _float32_number(value: float) -> Json:
    """A float of 32 bits by its shortest decimals."""
    return json_number(float(str(np.float32(value))))


def _text_value(value: bytes | str) -> Json:
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _parse_unknown(serialized: bytes, key: str = "unknown") -> dict[str, Json]:
    from google.protobuf.empty_pb2 import Empty

    return _unknown_fields(Empty.FromString(serialized), key) if serialized else {}


def _unknown_fields(message: Any, key: str = "unknown") -> dict[str, Json]:  # noqa: ANN401 - any message
    """The unknown fields of a message by number, in the order of the wire; nothing without any."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    fields = _fields_by_number(UnknownFieldSet(message))
    return {key: fields} if fields else {}


def _fields_by_number(fields: Any) -> dict[str, Json]:  # noqa: ANN401 - an UnknownFieldSet
    values_by_number: dict[str, Json] = {}
    for field in fields:
        value = field.data
        if isinstance(value, bytes):
            value = _text_value(value)
        elif not isinstance(value, int):  # a group
            value = _fields_by_number(value)
        values_by_number.setdefault(str(field.field_number), []).append(value)
    return values_by_number


CellTexts = tuple[str, str, str]

MOST_VALUES: Final = 8  # values of a list that are shown
MOST_LISTS: Final = 4
MOST_CHARACTERS: Final = 60  # of a text that is shown
_TIMES: Final = ("req_time", "generate_time")
_PER_SECOND: Final = (1, 10**3, 10**6, 10**9)
_FIRST_TIME, _LAST_TIME = 946_684_800, 4_102_444_800  # 2000 and 2100: what else is no time


def row_heading(document: dict[str, Json]) -> str:
    """Return the number of a row and its position in the stream, for display."""
    parts = [f"row {document['row']:,}", f"record {document['record']:,}"]
    if document["row_in_batch"] is not None:
        parts.append(f"row {document['row_in_batch']:,} of it")
    return ", ".join([*parts, f"offset {document['offset']:,}"])


def row_cells(document: dict[str, Json]) -> Iterator[CellTexts]:
    """Yield one line for each part of a row: what it is, its kind, its value."""
    if document["sort_id"]:
        yield "sort_id", "", _format_text(document["sort_id"])
    yield "LineId", "", _format_line_id(document["line_id"])
    yield LABEL, "", _format_list(document["label"], "none")
    if document["instance_weight"] is not None:
        yield "instance_weight", "", str(document["instance_weight"])
    if document["data_source_key"]:
        yield "data_source_key", "", str(document["data_source_key"])
    if "unknown" in document:
        yield "unknown", "", _format_unknown(document["unknown"])
    unset = 0
    for one in document["features"]:
        if one["kind"] == FEATURE_KINDS[0] and "unknown" not in one:
            unset += 1
        else:
            yield one["name"], one["kind"], ", ".join(_feature_parts(one))
    if unset:
        yield f"{unset:,} unset", "", ""


def _feature_parts(feature: dict[str, Json]) -> Iterator[str]:
    if "feature" in feature:
        yield ", ".join(f"({inner['kind']}) {_format_value(inner)}" for inner in feature["feature"])
    elif feature["kind"] != FEATURE_KINDS[0]:
        yield _format_value(feature)
    for name in ("id", "sorted_id"):
        if name in feature:
            yield f"{name} {feature[name]}"
    for name in ("unknown", "unknown_beside"):
        if name in feature:
            yield f"unknown {_format_unknown(feature[name])}"


def _format_value(feature: dict[str, Json]) -> str:
    if feature["kind"] == FEATURE_KINDS[0]:
        return "unset"
    value = feature.get("fid", feature["value"])
    spell = str if "fid" in feature else _format_text
    if not isinstance(value, list):
        return spell(value)
    if not feature["kind"].endswith("_lists"):
        return _format_list(value, "empty", spell)
    lists = [f"[{_format_list(inner, '', spell)}]" for inner in value[:MOST_LISTS]]
    return _join_cut(lists, len(value), "lists") if value else "no list"


def _format_list(values: Sequence[Json], nothing: str, spell: Any = None) -> str:  # noqa: ANN401
    texts = [(spell or _format_text)(one) for one in values[:MOST_VALUES]]
    return _join_cut(texts, len(values), "values") if texts else nothing


def _join_cut(texts: list[str], count: int, unit: str) -> str:
    suffix = f" ... {count:,} {unit}" if count > len(texts) else ""
    return " ".join(texts) + suffix


def _format_line_id(line: dict[str, Json] | None) -> str:
    if line is None:
        return "none"
    fields = [
        f"{name} {_format_line_field(name, one)}" for name, one in line.items() if name != "unknown"
    ]
    if "unknown" in line:
        fields.append(f"unknown {_format_unknown(line['unknown'])}")
    return ", ".join(fields) or "empty"


def _format_line_field(name: str, value: Json) -> str:
    if isinstance(value, list):
        return f"[{_format_list(value, '')}]"
    time = _format_time(value) if name in _TIMES else ""
    return _format_text(value) + (f" ({time})" if time else "")


def _format_time(value: int) -> str:
    """A time since 1970 for people, by the unit in which it is one of our days."""
    for unit in _PER_SECOND:
        if _FIRST_TIME <= value // unit < _LAST_TIME:
            return dt.datetime.fromtimestamp(value // unit, dt.UTC).strftime(
                "%Y-%m-%d %H:%M:%S UTC"
            )
    return ""


def _format_unknown(fields: dict[str, Json]) -> str:
    texts = [f"{number}: {_format_list(values, '')}" for number, values in fields.items()]
    return "{" + ", ".join(texts) + "}"


def _format_text(value: Json) -> str:
    """A value; texts in quotes, bytes that are none by their beginning."""
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity"):
        cut = value[:MOST_CHARACTERS]
        suffix = f" ... {len(value):,} characters" if len(value) > len(cut) else ""
        return json.dumps(cut, ensure_ascii=False) + suffix
    if isinstance(value, dict):
        inner = value.get("base64")
        return _format_bytes(inner) if isinstance(inner, str) else _format_unknown(value)
    return str(value)


def _format_bytes(encoded: str) -> str:
    data = base64.b64decode(encoded)
    beginning = data[: MOST_CHARACTERS // 3]
    return f"{len(data):,} bytes 0x{beginning.hex()}" + (
        "..." if len(data) > len(beginning) else ""
    )
