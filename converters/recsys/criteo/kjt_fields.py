"""What a `KeyedJaggedTensor` can be made of: shapes, types and sums that fit together."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ArgumentError
from ingot.converters.recsys.criteo.contract import take_modulo as take_modulo_of
from ingot.converters.recsys.training.environment import check_integer, import_torch

if TYPE_CHECKING:
    import torch

MOST_EMBEDDINGS: Final = (1 << 31) - 1  # rows of an embedding table: ids are int32


def check_sizes(
    sizes: Sequence[int],
    features: int,
    name: str = "num_embeddings",
    maximum: int = MOST_EMBEDDINGS,
    owner: str = "",
) -> list[int]:
    """Return the sizes of an argument, one for each feature; by default the rows of its tables."""
    if len(sizes) != features:
        counts = f"{len(sizes)} sizes, and {owner}{features} features"
        raise ArgumentError(name, f"{counts}: give one for each")
    return [check_integer(f"{name}[{index}]", size, 1, maximum) for index, size in enumerate(sizes)]


def check_matrix(shape: Sequence[int], dtype: object, types: tuple[object, object]) -> None:
    """See that ids have a row for each example and one of the types."""
    if len(shape) != 2 or not shape[1]:
        raise ValueError(f"sparse: shape {tuple(shape)}: a row for each example is needed, [B, F]")
    if dtype not in types:
        raise ValueError(f"sparse: {dtype}: ids are int32 or int64")


def check_keys(keys: Sequence[str]) -> list[str]:
    """Check and return the names of features."""
    names = list(keys)
    if not names or isinstance(keys, str) or len(set(names)) != len(names):
        raise ValueError(f"keys: {keys!r}: names are needed, each once")
    return names


def check_one_dimension(name: str, tensor: "torch.Tensor") -> None:
    """See that an argument is a tensor of one dimension."""
    torch = import_torch()
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != 1:
        raise ValueError(f"{name}: a tensor of one dimension is needed")


def check_cells(lengths: "torch.Tensor | None", offsets: "torch.Tensor | None") -> int:
    """Return F * B, as lengths and offsets have it."""
    torch = import_torch()
    cells = set()
    for name, tensor, extra in (("lengths", lengths, 0), ("offsets", offsets, 1)):
        if tensor is None:
            continue
        check_one_dimension(name, tensor)
        if tensor.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name}: {tensor.dtype}: int32 or int64 is needed")
        if len(tensor) < extra:
            raise ValueError(f"{name}: it is empty: 0 and the end of each cell are needed")
        cells.add(len(tensor) - extra)
    if not cells:
        raise ValueError("lengths: give these or offsets")
    if len(cells) > 1:
        raise ValueError("offsets: as many as lengths and one more are needed")
    return cells.pop()


def check_lengths(lengths: "torch.Tensor", values: int) -> None:
    """See that lengths are those of so many values."""
    if len(lengths) and int(lengths.min()) < 0:
        raise ValueError("lengths: one is below 0")
    total = int(lengths.sum())
    if total != values:
        raise ValueError(f"lengths: they add up to {total}, and there are {values} values")


def check_offsets(offsets: "torch.Tensor", values: int, lengths: "torch.Tensor | None") -> None:
    """See that offsets are those of so many values, and of lengths if there are any."""
    if int(offsets[0]) != 0 or int(offsets[-1]) != values:
        range_text = f"they go from {int(offsets[0])} to {int(offsets[-1])}"
        raise ValueError(f"offsets: {range_text}: 0 to {values}, the number of values, is needed")
    differences = offsets[1:] - offsets[:-1]
    if len(differences) and int(differences.min()) < 0:
        raise ValueError("offsets: one is below the one before it")
    if lengths is not None and not bool((differences == lengths).all()):
        raise ValueError("offsets: they contradict lengths")


_CACHED_SIZES: Final = 16


def single_id_fields(
    keys: list[str], columns: "torch.Tensor"
) -> "tuple[list[str], torch.Tensor, torch.Tensor, torch.Tensor, int]":
    """Return the fields of ids [F, B]: see `KeyedJaggedTensor.from_checked`."""
    cells = columns.numel()
    lengths, offsets = (
        _cached_lengths(cells) if columns.is_cpu else _make_lengths(cells, columns.device)
    )
    return keys, columns.reshape(-1), lengths, offsets, columns.shape[1]


@lru_cache(_CACHED_SIZES)
def _cached_lengths(cells: int) -> "tuple[torch.Tensor, torch.Tensor]":
    # A tensor made under inference mode could be used in no later training step.
    with import_torch().inference_mode(False):
        return _make_lengths(cells, "cpu")


def _make_lengths(cells: int, device: "torch.device | str") -> "tuple[torch.Tensor, torch.Tensor]":
    """`lengths` and `offsets` of so many cells of one id."""
    torch = import_torch()
    lengths = torch.ones(cells, dtype=torch.int32, device=device)
    return lengths, torch.arange(cells + 1, dtype=torch.int32, device=device)


def lengths_to_offsets(lengths: "torch.Tensor") -> "torch.Tensor":
    """Return the offsets that lengths add up to, of the same type."""
    offsets: torch.Tensor = lengths.new_zeros(len(lengths) + 1)
    import_torch().cumsum(lengths, 0, dtype=lengths.dtype, out=offsets[1:])
    return offsets


def transpose_ids(sparse: "npt.NDArray[Any] | torch.Tensor") -> "torch.Tensor":
    """Return ids [B, F] as [F, B] in memory of their own."""
    loaded = import_torch()
    columns: torch.Tensor
    if isinstance(sparse, loaded.Tensor):
        check_matrix(sparse.shape, sparse.dtype, (loaded.int32, loaded.int64))
        columns = sparse.t().clone(memory_format=loaded.contiguous_format)
        return columns
    matrix = np.asarray(sparse)
    check_matrix(matrix.shape, matrix.dtype, (np.int32, np.int64))
    # A mapped file is read-only, and torch warns of that: so the copy is numpy's.
    columns = loaded.from_numpy(np.array(matrix.T, order="C"))
    return columns


def take_tensor_modulo(columns: "torch.Tensor", sizes: Sequence[int]) -> None:
    """Take ids [F, B] modulo the tables' sizes, in place."""
    if columns.is_cpu:
        take_modulo_of(columns.numpy(), sizes)
    else:
        columns.remainder_(columns.new_tensor(list(sizes))[:, None])
