"""What a loader finds out before it starts: torch, the rank of this process, integer arguments."""

import os
from numbers import Integral
from typing import Any, Final

from ingot.converters.errors import ArgumentError, ConversionError

_LARGEST: Final = (1 << 64) - 1


def torch_missing_error() -> ConversionError:
    """Return the error of an environment without torch."""
    return ConversionError("", "torch is not installed", "pip install 'ingot[torch]'")


def import_torch() -> Any:  # noqa: ANN401
    """Return the module."""
    try:
        import torch
    except ImportError as error:
        raise torch_missing_error() from error
    return torch


def in_worker() -> bool:
    """Return whether this process is a worker of a `DataLoader`."""
    return import_torch().utils.data.get_worker_info() is not None


def resolve_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the rank and the number of ranks, as given or as torch.distributed knows them.

    Environment variables are not used: another program may have set them, and a wrong guess would
    lose rows or deliver them twice without an error.
    """
    if rank is None and world_size is None:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        if os.environ.get("WORLD_SIZE", "").strip() not in ("", "1"):
            problem = "WORLD_SIZE is set, but torch.distributed is not initialised"
            hint = "call init_process_group first, or give rank and world_size"
            raise ValueError(f"rank: {problem}: {hint}")
        return 0, 1
    if rank is None or world_size is None:
        raise ValueError("rank and world_size: give both, or neither")
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(f"rank: {rank} of {world_size}: ranks are 0 to world_size - 1")
    return rank, world_size


def check_integer(name: str, value: int, minimum: int, maximum: int = _LARGEST) -> int:
    """Return an integer argument that lies in its range."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ArgumentError(name, f"{value!r} is not an integer")
    if not minimum <= value <= maximum:
        bits = (maximum + 1).bit_length() - 1
        top = f"2**{bits} - 1" if maximum + 1 == 1 << bits and bits >= 31 else f"{maximum}"
        raise ArgumentError(name, f"{value} is not between {minimum} and {top}")
    return int(value)
