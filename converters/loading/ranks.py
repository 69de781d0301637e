"""Which part of an epoch is this process's, and arguments that are whole numbers."""

import os
from numbers import Integral
from typing import Final

_LARGEST: Final = (1 << 64) - 1


def place(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """The rank and the number of ranks, given or torch.distributed's.

    Environment variables are not taken for it: they may be another program's, and a guess that is
    wrong would lose rows or give them twice without a word.

    Raises:
        ValueError: one of them alone, a rank that is not below world_size, or neither given, no
            torch.distributed and WORLD_SIZE above 1.
    """
    if rank is None and world_size is None:
        return _surroundings()
    if rank is None or world_size is None:
        raise ValueError("rank and world_size: give both, or neither")
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(f"rank: {rank} of {world_size}: ranks are 0 to world_size - 1")
    return rank, world_size


def _surroundings() -> tuple[int, int]:
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if os.environ.get("WORLD_SIZE", "").strip() not in ("", "1"):
        said = "WORLD_SIZE is set, but torch.distributed is not initialised"
        raise ValueError(f"rank: {said}: call init_process_group before, or give rank, world_size")
    return 0, 1


def whole(name: str, value: int, least: int, most: int = _LARGEST) -> int:
    """An argument that is a whole number.

    Args:
        name: of the argument, for the message.
        value: numpy's integers are welcome, a bool is a slip.
        least: of the range.
        most: of it, included.

    Raises:
        ValueError: it is none, or not in the range.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name}: {value!r} is no whole number")
    if not least <= value <= most:
        bits = (most + 1).bit_length() - 1
        top = f"2**{bits} - 1" if most + 1 == 1 << bits and bits >= 31 else f"{most}"
        raise ValueError(f"{name}: {value} is not from {least} to {top}")
    return int(value)
