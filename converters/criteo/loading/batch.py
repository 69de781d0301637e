"""What a batch is: three tensors' worth of rows, under torchrec's names."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

    from ingot.converters.criteo.kjt import KeyedJaggedTensor


class CriteoBatch(NamedTuple):
    """Rows for a training step; the fields of torchrec's `Batch`, which can be unpacked too.

    Attributes:
        dense_features: float32 [B, 13].
        sparse_features: the ids of cat_0 to cat_25.
        labels: int32 [B].
    """

    dense_features: "torch.Tensor"
    sparse_features: "KeyedJaggedTensor"
    labels: "torch.Tensor"

    def to(self, device: "torch.device | str | int", non_blocking: bool = False) -> "CriteoBatch":
        """The same on a device."""
        return CriteoBatch(
            self.dense_features.to(device, non_blocking=non_blocking),
            self.sparse_features.to(device, non_blocking=non_blocking),
            self.labels.to(device, non_blocking=non_blocking),
        )

    def pin_memory(self) -> "CriteoBatch":
        """A copy in page-locked memory."""
        dense, sparse, labels = self
        return CriteoBatch(dense.pin_memory(), sparse.pin_memory(), labels.pin_memory())

    def record_stream(self, stream: Any) -> None:  # noqa: ANN401 - of any accelerator
        """Tell the allocator that a stream uses the tensors."""
        for one in self:
            one.record_stream(stream)

    def to_torchrec(self) -> Any:  # noqa: ANN401 - a class of an optional package
        """Torchrec's `Batch` of the same tensors, as its modules and pipelines take it.

        Raises:
            ConversionError: torchrec is not installed, or does not fit torch.
        """
        sparse = self.sparse_features.to_torchrec()  # says what is missing
        from torchrec.datasets.utils import Batch

        return Batch(self.dense_features, sparse, self.labels)
