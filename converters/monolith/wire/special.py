"""Special features that kernels do not understand: protobuf's judgement of them."""

from collections.abc import Callable
from typing import Any, Final

from ingot.converters.monolith.wire.kernels.special import BAD_LABEL, BAD_LINE, BAD_WEIGHT


def simple_feature(feature: bytes, status: int) -> bytes | str:
    """A special feature that `read_special` did not understand, written as it does; or a complaint.

    Args:
        feature: a `Feature`, serialized.
        status: BAD_LINE, BAD_LABEL or BAD_WEIGHT.
    """
    from ingot.converters.monolith.messages import example_pb2

    message = example_pb2.Feature.FromString(feature)
    before = message.SerializeToString()
    message.DiscardUnknownFields()
    if message.SerializeToString() != before:
        return "it has unknown fields, which would be lost"
    return _JUDGES[status](message)


def _line(message: Any) -> bytes | str:  # noqa: ANN401 - a message
    from ingot.converters.monolith.messages import DecodeError, line_id_pb2

    values = message.bytes_list.value
    if len(values) != 1:
        return f"it has {len(values)} values"
    try:
        values[0] = line_id_pb2.LineId.FromString(values[0]).SerializeToString()
    except DecodeError:
        return "its bytes are no LineId"
    return bytes(message.SerializeToString())


def _weight(message: Any) -> bytes | str:  # noqa: ANN401
    count = len(message.float_list.value)
    return f"it has {count} values" if count > 1 else _floats(message)


def _floats(message: Any) -> bytes | str:  # noqa: ANN401
    kind = message.WhichOneof("type")
    if kind not in (None, "float_list"):
        return f"it has {kind}"
    return bytes(message.SerializeToString())


_JUDGES: Final[dict[int, Callable[[Any], bytes | str]]] = {
    BAD_LINE: _line,
    BAD_LABEL: _floats,
    BAD_WEIGHT: _weight,
}
