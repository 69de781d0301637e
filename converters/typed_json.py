"""Frozen dataclasses to plain JSON and back, by their type hints.

A hint may say how a field stands in JSON: `Annotated[T, OMIT]`.
"""

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ingot.converters.rows import Json

T = TypeVar("T")

OMIT = "left out where it has its default"
UNSTORED = "never written"
EMPTY = "an empty object stands for None"


def encode(value: Any, hint: Any = None) -> Json:  # noqa: ANN401
    """Return the plain JSON of a dataclass, or of any value of a type hint."""
    inner = _strip_hint(hint or type(value))
    if value is None:
        return {} if EMPTY in getattr(hint, "__metadata__", ()) else None
    if is_dataclass(inner) or is_typeddict(inner):
        return _encode_fields(value, inner)
    origin, arguments = get_origin(inner), get_args(inner)
    if origin in (tuple, list):
        return [encode(one, arguments[0]) for one in value]
    if origin is dict:
        return {key: encode(one, arguments[1]) for key, one in value.items()}
    return value


def _encode_fields(value: Any, kind: Any) -> dict[str, Json]:  # noqa: ANN401
    hints = _field_hints(kind)
    if is_typeddict(kind):
        return {key: encode(one, hints[key]) for key, one in value.items()}
    return {
        one.name: encode(getattr(value, one.name), hints[one.name])
        for one in fields(kind)
        if not _is_left_out(getattr(value, one.name), one, hints[one.name])
    }


def _is_left_out(value: Any, one: Field[Any], hint: Any) -> bool:  # noqa: ANN401
    marks = getattr(hint, "__metadata__", ())
    return UNSTORED in marks or (OMIT in marks and value == one.default)


def decode(kind: type[T], document: Json) -> T:
    """Return the value of a type that `encode` has made plain JSON of.

    Fields of other versions are left out; in a `TypedDict` an empty object is an absent value.
    """
    return cast("T", _decode_hint(kind, document))


def _decode_hint(hint: Any, document: Json) -> Any:  # noqa: ANN401
    inner = _strip_hint(hint)
    if document is None or (not document and inner is not hint and is_dataclass(inner)):
        return None
    if is_typeddict(inner):
        return _decode_typed_dict(inner, document)
    if is_dataclass(inner):
        return _decode_dataclass(inner, document)
    origin, arguments = get_origin(inner), get_args(inner)
    if origin is tuple:
        return tuple(_decode_hint(arguments[0], one) for one in document)
    if origin is list:
        return [_decode_hint(arguments[0], one) for one in document]
    if origin is dict:
        return {key: _decode_hint(arguments[1], one) for key, one in document.items()}
    return document


def _decode_dataclass(kind: Any, document: Mapping[str, Json]) -> Any:  # noqa: ANN401
    hints = _field_hints(kind)
    known = {key: document[key] for key in hints if key in document}
    return kind(**{key: _decode_hint(hints[key], one) for key, one in known.items()})


def _decode_typed_dict(kind: Any, document: Mapping[str, Json]) -> dict[str, Any]:  # noqa: ANN401
    hints = _field_hints(kind)
    return {
        key: _decode_hint(hints[key], one)
        for key, one in document.items()
        if key in hints and not (one == {} and is_dataclass(hints[key]))
    }


@cache
def _field_hints(kind: Any) -> dict[str, Any]:  # noqa: ANN401
    return get_type_hints(kind, include_extras=True)


def _strip_hint(hint: Any) -> Any:  # noqa: ANN401
    """Return the type without its marks and without None."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        return _strip_hint(next(one for one in get_args(hint) if one is not NoneType))
    return hint
