"""Documents of rows as lines for people: cells of name, kind and values, long ones cut."""

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ingot.converters.monolith.contract import FEATURE_KINDS, LABEL
from ingot.converters.rows import Json

Cells = tuple[str, str, str]

MOST_VALUES: Final = 8
"""Values of a list that are shown."""
MOST_LISTS: Final = 4
MOST_CHARACTERS: Final = 60
"""Of a text that is shown."""
_TIMES: Final = ("req_time", "generate_time")
_PER_SECOND: Final = (1, 10**3, 10**6, 10**9)
_FIRST_TIME, _LAST_TIME = 946_684_800, 4_102_444_800  # 2000 and 2100: what else is no time


def head(document: dict[str, Json]) -> str:
    """Which row it is: its number, and its place in the stream."""
    told = [f"row {document['row']:,}", f"record {document['record']:,}"]
    if document["row_in_batch"] is not None:
        told.append(f"row {document['row_in_batch']:,} of it")
    return ", ".join([*told, f"offset {document['offset']:,}"])


def cells(document: dict[str, Json]) -> Iterator[Cells]:
    """What the row says, a line each: what it is, its kind, its value."""
    if document["sort_id"]:
        yield "sort_id", "", _text(document["sort_id"])
    yield "LineId", "", _line_id(document["line_id"])
    yield LABEL, "", _list(document["label"], "none")
    if document["instance_weight"] is not None:
        yield "instance_weight", "", str(document["instance_weight"])
    if document["data_source_key"]:
        yield "data_source_key", "", str(document["data_source_key"])
    if "unknown" in document:
        yield "unknown", "", _unknown(document["unknown"])
    yield from _features(document["features"])


def _features(features: Sequence[dict[str, Json]]) -> Iterator[Cells]:
    unset = 0
    for one in features:
        if one["kind"] == FEATURE_KINDS[0] and "unknown" not in one:
            unset += 1
        else:
            yield one["name"], one["kind"], ", ".join(_of_feature(one))
    if unset:
        yield f"{unset:,} unset", "", ""


def _of_feature(one: dict[str, Json]) -> Iterator[str]:
    if "feature" in one:
        yield ", ".join(f"({inner['kind']}) {_told(inner)}" for inner in one["feature"])
    elif one["kind"] != FEATURE_KINDS[0]:
        yield _told(one)
    for name in ("id", "sorted_id"):
        if name in one:
            yield f"{name} {one[name]}"
    for name in ("unknown", "unknown_beside"):
        if name in one:
            yield f"unknown {_unknown(one[name])}"


def _told(one: dict[str, Json]) -> str:
    """The value of a feature; of fids slot and signature."""
    if one["kind"] == FEATURE_KINDS[0]:
        return "unset"
    value = one.get("fid", one["value"])
    spell = str if "fid" in one else _text
    if not isinstance(value, list):
        return spell(value)
    if not one["kind"].endswith("_lists"):
        return _list(value, "empty", spell)
    told = [f"[{_list(inner, '', spell)}]" for inner in value[:MOST_LISTS]]
    return _cut(told, len(value), "lists") if value else "no list"


def _list(values: Sequence[Json], nothing: str, spell: Any = None) -> str:  # noqa: ANN401
    told = [(spell or _text)(one) for one in values[:MOST_VALUES]]
    return _cut(told, len(values), "values") if told else nothing


def _cut(told: list[str], count: int, what: str) -> str:
    """What is shown, and how many there are where these are more."""
    more = f" ... {count:,} {what}" if count > len(told) else ""
    return " ".join(told) + more


def _line_id(line: dict[str, Json] | None) -> str:
    if line is None:
        return "none"
    told = [f"{name} {_given(name, one)}" for name, one in line.items() if name != "unknown"]
    if "unknown" in line:
        told.append(f"unknown {_unknown(line['unknown'])}")
    return ", ".join(told) or "empty"


def _given(name: str, value: Json) -> str:
    if isinstance(value, list):
        return f"[{_list(value, '')}]"
    time = _time(value) if name in _TIMES else ""
    return _text(value) + (f" ({time})" if time else "")


def _time(value: int) -> str:
    """A time since 1970 for people, by the unit in which it is one of our days."""
    for unit in _PER_SECOND:
        if _FIRST_TIME <= value // unit < _LAST_TIME:
            return dt.datetime.fromtimestamp(value // unit, dt.UTC).strftime(
                "%Y-%m-%d %H:%M:%S UTC"
            )
    return ""


def _unknown(fields: dict[str, Json]) -> str:
    told = [f"{number}: {_list(values, '')}" for number, values in fields.items()]
    return "{" + ", ".join(told) + "}"


def _text(value: Json) -> str:
    """A value; texts in quotes, bytes that are none by their beginning."""
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity"):
        cut = value[:MOST_CHARACTERS]
        more = f" ... {len(value):,} characters" if len(value) > len(cut) else ""
        return json.dumps(cut, ensure_ascii=False) + more
    if isinstance(value, dict):
        inner = value.get("base64")
        return _bytes(inner) if isinstance(inner, str) else _unknown(value)
    return str(value)


def _bytes(encoded: str) -> str:
    import base64

    data = base64.b64decode(encoded)
    shown = data[: MOST_CHARACTERS // 3]
    return f"{len(data):,} bytes 0x{shown.hex()}" + ("..." if len(data) > len(shown) else "")
