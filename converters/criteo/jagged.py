"""One feature of a batch: values, and how many of them each example has."""

from typing import TYPE_CHECKING

from ingot.converters.loading.passing import torch as installed_torch

if TYPE_CHECKING:
    import torch


class JaggedTensor:
    """One feature of a `KeyedJaggedTensor`: example b has values[offsets[b] : offsets[b + 1]].

    `values()`, `lengths()` and `offsets()` are the tensors' public names; `_values`, `_length` and
    `_offset` the document's, `_lengths` and `_offsets` torchrec's: the same objects.
    """

    def __init__(
        self, values: "torch.Tensor", lengths: "torch.Tensor", offsets: "torch.Tensor"
    ) -> None:
        self._values, self._lengths, self._offsets = values, lengths, offsets

    @property
    def _length(self) -> "torch.Tensor":
        return self._lengths

    @property
    def _offset(self) -> "torch.Tensor":
        return self._offsets

    def values(self) -> "torch.Tensor":
        """[sum of lengths], example after example."""
        return self._values

    def lengths(self) -> "torch.Tensor":
        """[B]."""
        return self._lengths

    def offsets(self) -> "torch.Tensor":
        """[B + 1], from 0."""
        return self._offsets

    def to_dense(self) -> "list[torch.Tensor]":
        """The values of each example: B tensors."""
        torch = installed_torch()
        return list(torch.split(self._values, self._lengths.tolist()))

    def to_padded_dense(
        self, desired_length: int | None = None, padding_value: float = 0
    ) -> "torch.Tensor":
        """[B, desired_length], values cut or filled up at their ends.

        Args:
            desired_length: None for the longest example's.
            padding_value: cast to the values' type.
        """
        arange = installed_torch().arange
        width = desired_length
        if width is None:
            width = int(self._lengths.max()) if len(self._lengths) else 0
        steps = arange(width, device=self._values.device)
        there = steps < self._lengths[:, None]
        places = self._offsets[:-1, None] + steps
        padded = self._values.new_full(there.shape, padding_value)
        padded[there] = self._values[places[there]]
        return padded

    def __repr__(self) -> str:
        return f"JaggedTensor(values={self._values}, lengths={self._lengths})"
