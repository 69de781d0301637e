"""The generated messages, loaded when they are asked for, and which extra brings what they need."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ingot.converters.errors import ConversionError

if TYPE_CHECKING:
    from google.protobuf.message import DecodeError

    from ingot.schemas.monolith import example_pb2, instance_pb2, line_id_pb2

__all__ = ["DecodeError", "example_pb2", "instance_pb2", "line_id_pb2"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module, or an error's class
    """One of the names above."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name == "DecodeError":
            return import_module("google.protobuf.message").DecodeError
        return import_module(f"ingot.schemas.monolith.{name}")
    except ImportError as error:
        problem = "this needs protobuf 6.33.5 or later, which is not installed"
        raise ConversionError("", problem, "pip install 'ingot[recsys]'") from error
