"""What fields messages have, as arrays for kernels, taken from the generated code."""

from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.wire.kernels.varints import FIXED32, FIXED64, LENGTH, VARINT

NUMBERS: Final = 256
"""Field numbers below which a field can be known."""
UNKNOWN, SCALAR, SCALARS, TEXT, RAW, MESSAGE, MESSAGES = range(7)
"""What a field is: UNKNOWN; one number; numbers (packed or not); UTF-8; bytes or text that is not
checked; a message that occurs once; messages."""

_WIRES: Final = {
    "int32": VARINT,
    "int64": VARINT,
    "uint32": VARINT,
    "bool": VARINT,
    "enum": VARINT,
    "fixed64": FIXED64,
    "double": FIXED64,
    "float": FIXED32,
    "string": LENGTH,
    "bytes": LENGTH,
    "message": LENGTH,
}


WIRE_SHIFT, MESSAGE_SHIFT = 8, 16


@cache
def shapes() -> tuple[dict[str, int], NDArray[np.int32]]:
    """The messages of an Example, an ExampleBatch and a LineId.

    Returns:
        The number of each message by its name, and int32[messages, NUMBERS] their fields: what a
        field is (UNKNOWN, ...) in the low 8 bits, its wire type in the next 8, the number of its
        message above.

    Raises:
        ConversionError: protobuf is not installed.
    """
    from ingot.converters.monolith.messages import example_pb2

    found: dict[str, Any] = {}
    for name in ("Example", "ExampleBatch"):
        _collect(example_pb2.DESCRIPTOR.message_types_by_name[name], found)
    numbers = {name: at for at, name in enumerate(found)}
    fields = np.zeros((len(found), NUMBERS), np.int32)
    for name, message in found.items():
        for field in message.fields:
            following = numbers[field.message_type.name] if field.message_type else 0
            wire = _WIRES[_type_of(field)] << WIRE_SHIFT
            number = numbers[name], field.number
            fields[number] = _kind(field, message) | wire | following << MESSAGE_SHIFT
    return numbers, fields


def _collect(message: Any, found: dict[str, Any]) -> None:  # noqa: ANN401 - descriptors have no types
    if message.name in found:
        return
    found[message.name] = message
    for field in message.fields:
        if field.message_type is not None:
            _collect(field.message_type, found)


def _type_of(field: Any) -> str:  # noqa: ANN401
    names = {
        value: name.removeprefix("TYPE_").lower()
        for name, value in vars(type(field)).items()
        if name.startswith("TYPE_")
    }
    return str(names[field.type])


def _kind(field: Any, message: Any) -> int:  # noqa: ANN401
    kind, repeated = _type_of(field), field.is_repeated
    if kind == "message":
        return MESSAGES if repeated else MESSAGE
    if kind in ("string", "bytes"):
        # proto2 takes any bytes for text
        return TEXT if kind == "string" and message.name != "LineId" else RAW
    return SCALARS if repeated else SCALAR
