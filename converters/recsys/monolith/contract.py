"""Fixed names, numbers and limits of Monolith's data formats. Source: `docs/monolith.md`."""

from typing import Final

"""What the records of a stream are, as Monolith names them."""

LINE_ID: Final = "__LINE_ID__"
LABEL: Final = "__LABEL__"
INSTANCE_WEIGHT: Final = "instance_weight"
"""Features that say something of the row itself: see `docs/monolith.md`."""

"""Bytes of a message beyond which Monolith's reader refuses it."""
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
    "unreadable": "the stream cannot be read on",
    "size": "a record is larger than Monolith's reader takes",
    "deadbeef": "the size of a record is 0xfefefefe",
    "sort_id": "what should be a sort_id is too large or a message itself",
    "empty": "a record is empty",
    "message": "a record is no message of its kind",
    "features": "a record has more features than are read",
    "batch_size": "batch_size is not the number of features of a list, or more than is read",
    "shared": "a SHARED list is empty",
    "line_id": "__LINE_ID__ is not one value that is a LineId",
    "label": "__LABEL__ is no float_list",
    "weight": "instance_weight is no float_list of at most one value",
    "twice": "the LineId, labels or weight are said twice: in a field and in a feature",
    "unknown": "an unknown field would be taken for another one in the target",
    "mandatory": "the LineId lacks uid, req_time or sample_rate",
    "data_source_key": "data_source_key does not fit a lagrangex header",
    "cell": "a cell of a table does not fit its column's kind",
}
"""Why a record, or a row of one, was rejected."""
