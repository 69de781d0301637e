"""A batch on its way out of a worker: one block of memory per type in place of some fifty tensors.

Every tensor that crosses processes takes a file descriptor and a handshake, of which a machine with
many workers runs out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

Tensors = Mapping[Any, Any]


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a tensor lies: numbers from `start` of the block of its type."""

    kind: Any
    start: int
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A batch whose tensors lie in blocks.

    Attributes:
        batch: the batch with places in place of tensors.
        blocks: one tensor of one dimension per type.
    """

    batch: Any
    blocks: Tensors

    def pin_memory(self) -> "Packed":
        """The same in page-locked memory; torch's pinning thread calls it."""
        blocks = {kind: block.pin_memory() for kind, block in self.blocks.items()}
        return Packed(batch=self.batch, blocks=blocks)


def pack(batch: Any) -> Packed:  # noqa: ANN401
    """Pack dicts of dicts with tensors.

    Args:
        batch: as `collating` makes it; what is no dict and no tensor is kept.
    """
    import torch

    parts: dict[Any, list[Any]] = {}
    ends: dict[Any, int] = {}

    def placed(one: Any) -> Any:  # noqa: ANN401
        if isinstance(one, dict):
            return {key: placed(value) for key, value in one.items()}
        if not isinstance(one, torch.Tensor):
            return one
        place = _Place(kind=one.dtype, start=ends.get(one.dtype, 0), shape=tuple(one.shape))
        parts.setdefault(one.dtype, []).append(one.reshape(-1))
        ends[one.dtype] = place.start + one.numel()
        return place

    template = placed(batch)
    return Packed(batch=template, blocks={kind: torch.cat(part) for kind, part in parts.items()})


def unpack(packed: Packed) -> Any:  # noqa: ANN401
    """The batch that was packed; its tensors are views of the blocks."""

    def tensor(place: _Place) -> Any:  # noqa: ANN401
        size = prod(place.shape)
        return packed.blocks[place.kind][place.start : place.start + size].view(place.shape)

    def unpacked(one: Any) -> Any:  # noqa: ANN401
        if isinstance(one, dict):
            return {key: unpacked(value) for key, value in one.items()}
        return tensor(one) if isinstance(one, _Place) else one

    return unpacked(packed.batch)
