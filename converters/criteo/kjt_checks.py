"""What a `KeyedJaggedTensor` can be made of: shapes, types and sums that fit together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ingot.converters.loading.passing import torch as installed_torch
from ingot.converters.loading.ranks import whole

if TYPE_CHECKING:
    import torch

MOST_EMBEDDINGS: Final = (1 << 31) - 1
"""Rows of an embedding table: ids are int32."""


def checked_sizes(num_embeddings: Sequence[int], features: int) -> list[int]:
    """The rows of each embedding table.

    Raises:
        ValueError: not so many, or one that is no whole number from 1 to 2**31 - 1.
    """
    if len(num_embeddings) != features:
        said = f"{len(num_embeddings)} sizes, and {features} features"
        raise ValueError(f"num_embeddings: {said}: give one for each")
    return [
        whole(f"num_embeddings[{place}]", size, 1, MOST_EMBEDDINGS)
        for place, size in enumerate(num_embeddings)
    ]


def check_matrix(shape: Sequence[int], dtype: object, types: tuple[object, object]) -> None:
    """See that ids have a row for each example and one of the types.

    Raises:
        ValueError: they do not.
    """
    if len(shape) != 2 or not shape[1]:
        raise ValueError(f"sparse: shape {tuple(shape)}: a row for each example is needed, [B, F]")
    if dtype not in types:
        raise ValueError(f"sparse: {dtype}: ids are int32 or int64")


def checked_keys(keys: Sequence[str]) -> list[str]:
    """The names of features.

    Raises:
        ValueError: there is none, or one twice.
    """
    names = list(keys)
    if not names or isinstance(keys, str) or len(set(names)) != len(names):
        raise ValueError(f"keys: {keys!r}: names are needed, each once")
    return names


def check_one_dimension(name: str, tensor: "torch.Tensor") -> None:
    """See that an argument is a tensor of one dimension.

    Raises:
        ValueError: it is not.
    """
    torch = installed_torch()
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != 1:
        raise ValueError(f"{name}: a tensor of one dimension is needed")


def checked_cells(lengths: "torch.Tensor | None", offsets: "torch.Tensor | None") -> int:
    """F * B, as lengths and offsets have it.

    Raises:
        ValueError: none given, no whole numbers, or two numbers of cells.
    """
    torch = installed_torch()
    cells = set()
    for name, tensor, more in (("lengths", lengths, 0), ("offsets", offsets, 1)):
        if tensor is None:
            continue
        check_one_dimension(name, tensor)
        if tensor.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name}: {tensor.dtype}: int32 or int64 is needed")
        if len(tensor) < more:
            raise ValueError(f"{name}: it is empty: 0 and the end of each cell are needed")
        cells.add(len(tensor) - more)
    if not cells:
        raise ValueError("lengths: give these or offsets")
    if len(cells) > 1:
        raise ValueError("offsets: as many as lengths and one more are needed")
    return cells.pop()


def check_lengths(lengths: "torch.Tensor", values: int) -> None:
    """See that lengths are those of so many values.

    Raises:
        ValueError: they are not.
    """
    if len(lengths) and int(lengths.min()) < 0:
        raise ValueError("lengths: one is below 0")
    total = int(lengths.sum())
    if total != values:
        raise ValueError(f"lengths: they add up to {total}, and there are {values} values")


def check_offsets(offsets: "torch.Tensor", values: int, lengths: "torch.Tensor | None") -> None:
    """See that offsets are those of so many values, and of lengths if there are any.

    Raises:
        ValueError: they are not.
    """
    if int(offsets[0]) != 0 or int(offsets[-1]) != values:
        said = f"they go from {int(offsets[0])} to {int(offsets[-1])}"
        raise ValueError(f"offsets: {said}: 0 to {values}, the number of values, is needed")
    steps = offsets[1:] - offsets[:-1]
    if len(steps) and int(steps.min()) < 0:
        raise ValueError("offsets: one is below the one before it")
    if lengths is not None and not bool((steps == lengths).all()):
        raise ValueError("offsets: they contradict lengths")
