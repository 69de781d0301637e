"""Batches of one id a cell: columns from rows, and the numbers that follow from the shape."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ingot.converters.criteo.contract import KEYS, SPARSE
from ingot.converters.criteo.kjt_checks import check_matrix
from ingot.converters.criteo.modulo import take_modulo as take_modulo_of
from ingot.converters.loading.passing import torch as installed_torch

if TYPE_CHECKING:
    import torch

_KEPT: Final = 16


def one_each(
    keys: list[str], columns: "torch.Tensor"
) -> "tuple[list[str], torch.Tensor, torch.Tensor, torch.Tensor, int]":
    """The fields of ids [F, B]: see `KeyedJaggedTensor._set`."""
    cells = columns.numel()
    lengths, offsets = _counted(cells) if columns.is_cpu else _count(cells, columns.device)
    return keys, columns.reshape(-1), lengths, offsets, columns.shape[1]


@lru_cache(_KEPT)
def _counted(cells: int) -> "tuple[torch.Tensor, torch.Tensor]":
    # A tensor made under inference mode could be used in no later training step.
    with installed_torch().inference_mode(False):
        return _count(cells, "cpu")


def _count(cells: int, device: "torch.device | str") -> "tuple[torch.Tensor, torch.Tensor]":
    """`lengths` and `offsets` of so many cells of one id."""
    torch = installed_torch()
    ones = torch.ones(cells, dtype=torch.int32, device=device)
    return ones, torch.arange(cells + 1, dtype=torch.int32, device=device)


def summed(lengths: "torch.Tensor") -> "torch.Tensor":
    """The offsets that lengths add up to, of the same type."""
    offsets: torch.Tensor = lengths.new_zeros(len(lengths) + 1)
    installed_torch().cumsum(lengths, 0, dtype=lengths.dtype, out=offsets[1:])
    return offsets


def transposed(sparse: "npt.NDArray[Any] | torch.Tensor") -> "torch.Tensor":
    """Ids [B, F] as [F, B] in memory of their own.

    Raises:
        ValueError: another shape or type.
    """
    loaded = installed_torch()
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


def take_modulo(columns: "torch.Tensor", sizes: Sequence[int]) -> None:
    """Ids [F, B] modulo the tables' sizes, in place."""
    if columns.is_cpu:
        take_modulo_of(columns.numpy(), sizes)
    else:
        columns.remainder_(columns.new_tensor(list(sizes))[:, None])


def default_keys(count: int) -> list[str]:
    """cat_0, cat_1, ... of so many features."""
    return list(KEYS) if count == SPARSE else [f"cat_{place}" for place in range(count)]
