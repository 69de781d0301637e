"""The generated messages, or which extra brings what they need."""

from ingot.converters.errors import ConversionError

try:
    from google.protobuf.message import DecodeError

    from ingot.schemas.monolith import example_pb2, instance_pb2, line_id_pb2
except ImportError as error:
    _PROBLEM = "this needs protobuf 6.33.5 or later, which is not installed"
    raise ConversionError("", _PROBLEM, "pip install 'ingot[recsys]'") from error

__all__ = ["DecodeError", "example_pb2", "instance_pb2", "line_id_pb2"]
