"""Fixed names, numbers and limits of Monolith's data formats, and its generated messages.

The messages (`DecodeError`, `example_pb2`, `instance_pb2`, `line_id_pb2`) are loaded when they are
asked for: they need the extra `recsys`. Source: `docs/monolith.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ingot.converters.errors import ConversionError

if TYPE_CHECKING:
    from google.protobuf.message import DecodeError as DecodeError

    from ingot.schemas.monolith import example_pb2 as example_pb2
    from ingot.schemas.monolith import instance_pb2 as instance_pb2
    from ingot.schemas.monolith import line_id_pb2 as line_id_pb2

LINE_ID: Final = "__LINE_ID__"
LABEL: Final = "__LABEL__"
INSTANCE_WEIGHT: Final = "instance_weight"
"""Features that describe the row itself, see `docs/monolith.md`."""

DEADBEEF: Final = 0xFEFEFEFE
"""A size that Monolith's reader takes for memory that was never written."""
MAX_FEATURES: Final = 1 << 20
"""Features of one Example, or lists of one ExampleBatch, that are read; more are refused."""
MAX_BATCH_FEATURES: Final = 1 << 22
"""Features of the rows of one ExampleBatch that is written: they are in memory together."""
MAX_BATCH_ROWS: Final = 1 << 20
"""Rows of one ExampleBatch that are read: shared lists alone could stand for any number."""

FEATURE_KINDS: Final[dict[int, str]] = {
    0: "unset",
    1: "fid_v1_list",
    2: "fid_v2_list",
    3: "float_list",
    4: "double_list",
    5: "int64_list",
    6: "bytes_list",
    7: "fid_v2_lists",
    8: "float_lists",
    9: "double_lists",
    10: "int64_lists",
    11: "bytes_lists",
    12: "int64_value",
    13: "float_value",
    14: "double_value",
    15: "bytes_value",
    16: "fid_v1_lists",
}
"""The field numbers of the oneof of `Feature`; 0: none of them is set."""

REASONS: Final[dict[str, str]] = {
    "truncated": "the stream ends inside a record",
    "unreadable": "the rest of the stream cannot be read",
    "size": "a record is larger than Monolith's reader accepts",
    "deadbeef": "the size of a record is 0xfefefefe",
    "sort_id": "the sort_id is too large, or is itself a message",
    "empty": "a record is empty",
    "message": "a record is not a message of its kind",
    "features": "a record has too many features",
    "batch_size": "batch_size differs from the number of features of a list, or is too large",
    "shared": "a SHARED list is empty",
    "line_id": "__LINE_ID__ does not hold exactly one LineId",
    "label": "__LABEL__ is not a float_list",
    "weight": "instance_weight is not a float_list of at most one value",
    "twice": "the LineId, labels or weight differ between a field and a feature",
    "unknown": "the target would read an unknown field as one of its own fields",
    "mandatory": "the LineId lacks uid, req_time or sample_rate",
    "data_source_key": "data_source_key does not fit a lagrangex header",
    "cell": "a cell does not fit the kind of its column",
}
"""Why a record, or a row of one, was rejected."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module, or an error's class
    """Return one of the generated modules, or protobuf's error."""
    if name not in ("DecodeError", "example_pb2", "instance_pb2", "line_id_pb2"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name == "DecodeError":
            attribute = import_module("google.protobuf.message").DecodeError
        else:
            attribute = import_module(f"ingot.schemas.monolith.{name}")
    except ImportError as error:
        problem = "this needs protobuf 6.33.5 or later, which is not installed"
        raise ConversionError("", problem, "pip install 'ingot[recsys]'") from error
    globals()[name] = attribute  # so that it is asked for once
    return attribute
