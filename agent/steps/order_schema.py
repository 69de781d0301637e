"""An order as an object: what its settings allow, by a JSON Schema made of their declarations."""

from math import isfinite
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

from ingot.agent.proposing.order import Order
from ingot.converters.convert.options import language_code
from ingot.converters.errors import ConversionError
from ingot.converters.mapping.bind import read_tree
from ingot.converters.output.sharding import SCALE
from ingot.converters.rows import Json
from ingot.converters.settings import DeclaredSetting, list_settings
from ingot.converters.sources.documents.kinds import ISO_639_1

CONTROL = "[\x00-\x1f\x7f-\x9f\ud800-\udfff]"  # no part of a name, and no path to open
_WORD: Json = {"minLength": 1, "maxLength": 4096, "not": {"type": "string", "pattern": CONTROL}}
_MOST: Json = 2**53  # what every JSON reader keeps exact
_TEXT: dict[str, Json] = {"type": "string", **_WORD}
_NAME: dict[str, Json] = {"type": ["string", "null"], **_WORD}
FLAG: dict[str, Json] = {"type": "boolean"}
_NUMBERS = {int: "integer", float: "number"}


def _value_schema(declared: DeclaredSetting) -> dict[str, Json]:
    kinds, setting = get_args(declared.type) or (declared.type,), declared.setting
    if declared.type is bool:
        return FLAG
    if setting.parse is language_code:
        return {"enum": [None, "mix", *sorted(ISO_639_1)]}
    if get_origin(declared.type) is Literal:
        return {"enum": [*kinds]}
    number = next((_NUMBERS[kind] for kind in kinds if kind in _NUMBERS), None)
    if number is None:
        return _NAME if NoneType in kinds else _TEXT
    most = _MOST if setting.maximum is None else setting.maximum
    bounds: Json = {"minimum": setting.minimum, "maximum": most}
    return {"type": [number, "null"] if NoneType in kinds else number, **bounds}


_PLACES = {one.name for one in list_settings(Order) if one.setting.section == SCALE}
DECLARED = {
    one.name: one
    for one in list_settings(Order)
    if not one.setting.positional and one.name not in _PLACES
}
# What a person may type, by the name of the field; `source` stands by itself.
TYPED_OPTIONS = {"out": _NAME, **{name: _value_schema(one) for name, one in DECLARED.items()}}
SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "required": ["source"],
    "additionalProperties": False,
    "properties": {
        "source": _TEXT,
        **TYPED_OPTIONS,
        "mapping": {"type": ["object", "null"]},
        "mapping_file": _NAME,
    },
}


def check_order(document: Json, *, served: bool = True) -> Order:
    """The order that an object holds; a mapping in it is used, and no mapper is asked.

    Where the work is done is for the command line alone to say: not `served`.
    """
    where: Json = {}
    if not served:
        where = {key: document[key] for key in _PLACES & document.keys()}
        document = {key: value for key, value in document.items() if key not in where}
    faults = schema_faults(SCHEMA, document)
    # NaN is neither below a bound nor above it.
    if not faults and not isfinite(document.get("min_confidence") or 0):
        faults = ["min_confidence: no number from 0 to 1"]
    if faults:
        raise ConversionError("order", "; ".join(faults[:5]))
    stated = document.get("mapping")
    given = {} if stated is None else {"mapper": "file", "mapping": read_tree(stated)}
    numbers = {key: value for key, value in document.items() if isinstance(value, float)}
    whole = {key: int(numbers[key]) for key in _WHOLE_NUMBERS & numbers.keys()}
    return Order(**{**document, **whole, **given, **where})


_WHOLE_NUMBERS = {  # 5.0 is an integer in JSON
    name for name, schema in TYPED_OPTIONS.items() if "integer" in schema.get("type", "")
}


def schema_faults(schema: dict[str, Json], document: Json) -> list[str]:
    """What is wrong with a value, each with its place."""
    from jsonschema import Draft202012Validator

    return sorted(map(_fault_text, Draft202012Validator(schema).iter_errors(document)))


def _fault_text(error: Any) -> str:  # noqa: ANN401
    place = "/".join(map(str, error.absolute_path))
    said = _fault_cause(error)
    return f"{place}: {said}" if place else said


def _fault_cause(error: Any) -> str:  # noqa: ANN401
    """What is wrong, without the parts of a schema that are too long to be read."""
    if error.validator == "not":
        return "control characters stand in no name"
    if error.validator == "maxLength":
        return f"longer than {error.validator_value} characters"
    if error.validator == "enum" and "mix" in error.validator_value:
        return f"{error.instance!r:.80} is neither an ISO 639-1 code (zh, en, ...) nor mix"
    return str(error.message[:200])
