"""`CriteoBatch` and `KeyedJaggedTensor`: a batch as torchrec has it, without torchrec."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.criteo import kjt_fields
from ingot.converters.recsys.training.environment import check_integer, import_torch

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

    def values(self) -> "torch.Tensor":
        """Return [sum of lengths]: example after example."""
        return self._values

    def lengths(self) -> "torch.Tensor":
        """Return [B]."""
        return self._lengths

    def offsets(self) -> "torch.Tensor":
        """Return [B + 1], from 0."""
        return self._offsets

    _length, _offset = property(lengths), property(offsets)

    def to_dense(self) -> "list[torch.Tensor]":
        """Return the values of each example: B tensors."""
        torch = import_torch()
        return list(torch.split(self._values, self._lengths.tolist()))

    def to_padded_dense(
        self, desired_length: int | None = None, padding_value: float = 0
    ) -> "torch.Tensor":
        """Return [B, desired_length]: values cut or padded at their ends."""
        arange = import_torch().arange
        width = desired_length
        if width is None:
            width = int(self._lengths.max()) if len(self._lengths) else 0
        positions = arange(width, device=self._values.device)
        present = positions < self._lengths[:, None]
        indices = self._offsets[:-1, None] + positions
        padded = self._values.new_full(present.shape, padding_value)
        padded[present] = self._values[indices[present]]
        return padded

    def __repr__(self) -> str:
        return f"JaggedTensor(values={self._values}, lengths={self._lengths})"


class KeyedJaggedTensor:
    """Sparse features of a batch: F keys, B examples, values of each cell one after another.

    The document's fields: `value`, `offset`, `length` and `key` are properties, `stride()`,
    `length_per_key()` and `offset_per_key()` methods as in torchrec, whose names for the others
    are the methods `values()`, `offsets()`, `lengths()` and `keys()`. There are no weights and one
    stride for all keys.

    `from_matrix` is the quick way where every cell holds one id. Batches of one shape then share
    their `lengths` and `offsets`, which are not to be written into.

    Args:
        keys: F names, each once.
        values: [V], feature by feature, then example by example.
        lengths: [F * B], int32 or int64: values of each cell. Give this, `offsets`, or both.
        offsets: [F * B + 1]: where each cell's values begin, and V.
        stride: B; None to find it from the others.

    Raises:
        ValueError: shapes, types or sums that do not fit together.
        ConversionError: torch is not installed.
    """

    def __init__(
        self,
        keys: Sequence[str],
        values: "torch.Tensor",
        *,
        lengths: "torch.Tensor | None" = None,
        offsets: "torch.Tensor | None" = None,
        stride: int | None = None,
    ) -> None:
        names = kjt_fields.check_keys(keys)
        kjt_fields.check_one_dimension("values", values)
        cells = kjt_fields.check_cells(lengths, offsets)
        if stride is None:
            stride = cells // len(names)
        if check_integer("stride", stride, 0) * len(names) != cells:
            reason = f"{len(names)} keys of {stride} examples are not {cells} cells"
            raise ValueError(f"stride: {reason}: lengths has one for each, offsets one more")
        if lengths is not None:
            kjt_fields.check_lengths(lengths, len(values))
        if offsets is not None:
            kjt_fields.check_offsets(offsets, len(values), lengths)
        self._keys, self._values, self._stride = names, values, int(stride)
        self._lengths, self._offsets = lengths, offsets
        self._single = False  # known to hold one value a cell
        self._offset_per_key: list[int] | None = None

    @classmethod
    def from_checked(
        cls,
        keys: list[str],
        values: "torch.Tensor",
        lengths: "torch.Tensor | None",
        offsets: "torch.Tensor | None",
        stride: int,
        *,
        single: bool = False,
        offset_per_key: list[int] | None = None,
    ) -> Self:
        """Make one of fields that are known to fit; `single` says that every cell has one value."""
        tensor = cls.__new__(cls)
        tensor._keys, tensor._values, tensor._stride = keys, values, stride
        tensor._lengths, tensor._offsets = lengths, offsets
        tensor._single, tensor._offset_per_key = single, offset_per_key
        return tensor

    @classmethod
    def from_matrix(
        cls,
        sparse: "npt.NDArray[Any] | torch.Tensor",
        num_embeddings: Sequence[int] | None = None,
        *,
        keys: Sequence[str] | None = None,
    ) -> Self:
        """Make one with one id a cell from a matrix with a row for each example.

        Args:
            sparse: int32 or int64 [B, F], such as a slice of `day_0_sparse.npy`; it is copied.
            num_embeddings: F sizes; ids are taken modulo them, as the reference's `hashes`.
            keys: F names; None for cat_0, cat_1, ...

        Returns:
            `values` of the ids' type, `lengths` int32 ones, `offsets` int32 from 0 to F * B.

        Raises:
            ValueError: another shape or type, sizes that do not fit.
            ConversionError: torch is not installed.
        """
        return cls.from_columns(kjt_fields.transpose_ids(sparse), num_embeddings, keys=keys)

    @classmethod
    def from_columns(
        cls,
        columns: "torch.Tensor",
        num_embeddings: Sequence[int] | None = None,
        *,
        keys: Sequence[str] | None = None,
    ) -> Self:
        """Make one as `from_matrix` does, from int32 or int64 [F, B] that it takes over.

        `num_embeddings` change them.
        """
        torch = import_torch()
        kjt_fields.check_matrix(columns.shape[::-1], columns.dtype, (torch.int32, torch.int64))
        if num_embeddings is not None:
            sizes = kjt_fields.check_sizes(num_embeddings, len(columns))
            kjt_fields.take_tensor_modulo(columns, sizes)
        usual = [f"cat_{index}" for index in range(len(columns))]
        names = usual if keys is None else kjt_fields.check_keys(keys)
        if len(names) != len(columns):
            raise ValueError(f"keys: {len(names)} names of {len(columns)} columns")
        return cls.from_checked(*kjt_fields.single_id_fields(names, columns), single=True)

    @property
    def value(self) -> "torch.Tensor":
        """Return `values()`."""
        return self._values

    @property
    def offset(self) -> "torch.Tensor":
        """Return `offsets()`."""
        return self.offsets()

    @property
    def length(self) -> "torch.Tensor":
        """Return `lengths()`."""
        return self.lengths()

    @property
    def key(self) -> list[str]:
        """Return `keys()`."""
        return self._keys

    def keys(self) -> list[str]:
        """Return the F names."""
        return self._keys

    def values(self) -> "torch.Tensor":
        """Return [V]: feature by feature, then example by example."""
        return self._values

    def lengths(self) -> "torch.Tensor":
        """Return [F * B]: the values of each cell; int32 ones if each holds one id."""
        if self._lengths is None:
            offsets = self.offsets()
            self._lengths = offsets[1:] - offsets[:-1]
        return self._lengths

    def offsets(self) -> "torch.Tensor":
        """Return [F * B + 1]: where each cell's values begin, and V."""
        if self._offsets is None:
            self._offsets = kjt_fields.lengths_to_offsets(self.lengths())
        return self._offsets

    def stride(self) -> int:
        """Return B, the examples of the batch."""
        return self._stride

    def length_per_key(self) -> list[int]:
        """Return F numbers of values: B each if every cell holds one id."""
        return [stop - start for start, stop in pairwise(self.offset_per_key())]

    def offset_per_key(self) -> list[int]:
        """Return F + 1 numbers: where each key's values begin, and V."""
        if self._offset_per_key is None:
            if self._single:
                self._offset_per_key = [i * self._stride for i in range(len(self._keys) + 1)]
            elif self._stride:
                self._offset_per_key = self.offsets()[:: self._stride].tolist()
            else:
                self._offset_per_key = [0] * (len(self._keys) + 1)
        return self._offset_per_key

    def one_each(self) -> bool:
        """Return whether every cell holds one value."""
        return self._single or bool((self.lengths() == 1).all())

    def index_per_key(self) -> dict[str, int]:
        """Return the index of each key."""
        return {key: index for index, key in enumerate(self._keys)}

    def device(self) -> "torch.device":
        """Return the device of the tensors."""
        return self._values.device

    def __getitem__(self, key: str) -> JaggedTensor:
        """The feature of a key; KeyError where there is none of that name."""
        if key not in self._keys:
            known = ", ".join(self._keys[:3]) + (", ..." if len(self._keys) > 3 else "")
            raise KeyError(f"{key!r} is not a key of this batch: {known}")
        return self._feature(self._keys.index(key))

    def _feature(self, index: int) -> JaggedTensor:
        starts, stride = self.offset_per_key(), self._stride
        cells = slice(index * stride, (index + 1) * stride)
        values = self._values[starts[index] : starts[index + 1]]
        offsets = self.offsets()[cells.start : cells.stop + 1] - starts[index]
        return JaggedTensor(values, self.lengths()[cells], offsets)

    def to_dict(self) -> dict[str, JaggedTensor]:
        """Return each key's values, lengths and offsets; `values` and `lengths` are views."""
        keys, stride, starts = self._keys, self._stride, self.offset_per_key()
        if not stride:
            return {key: self._feature(index) for index, key in enumerate(keys)}
        values = self._values.tensor_split(starts[1:-1])
        lengths = self.lengths().view(len(keys), stride).unbind()
        windows = self.offsets().unfold(0, stride + 1, stride)
        offsets = (windows - windows[:, :1]).unbind()
        features = map(JaggedTensor, values, lengths, offsets)
        return dict(zip(keys, features, strict=True))

    def to(self, device: "torch.device | str | int", *, non_blocking: bool = False) -> Self:
        """Return the same on a device; itself if it is there."""
        values = self._values.to(device, non_blocking=non_blocking)
        if values is self._values:
            return self
        if self._single:  # made there: a third of the bytes has to be moved
            columns = values.view(len(self._keys), -1)
            return self.from_checked(*kjt_fields.single_id_fields(self._keys, columns), single=True)
        lengths, offsets = (
            None if one is None else one.to(device, non_blocking=non_blocking)
            for one in (self._lengths, self._offsets)
        )
        fields = (self._keys, values, lengths, offsets, self._stride)
        return self.from_checked(*fields, offset_per_key=self.offset_per_key())

    def pin_memory(self) -> Self:
        """Return a copy in page-locked memory, as a `DataLoader` asks for; needs CUDA."""
        lengths, offsets = (
            one if self._single or one is None else one.pin_memory()
            for one in (self._lengths, self._offsets)
        )
        fields = (self._keys, self._values.pin_memory(), lengths, offsets, self._stride)
        starts = self.offset_per_key()
        return self.from_checked(*fields, single=self._single, offset_per_key=starts)

    def record_stream(self, stream: Any) -> None:  # noqa: ANN401 - of any accelerator
        """Tell the allocator that a stream uses the tensors."""
        for tensor in (self._values, self._lengths, self._offsets):
            if tensor is not None:
                tensor.record_stream(stream)

    def to_torchrec(self) -> Any:  # noqa: ANN401 - a class of an optional package
        """Return the `KeyedJaggedTensor` of torchrec, of the same tensors.

        Raises:
            ConversionError: torchrec is not installed, or does not fit torch.
        """
        try:
            from torchrec.sparse.jagged_tensor import KeyedJaggedTensor as OfTorchrec
        except (ImportError, OSError) as error:  # OSError: fbgemm's library is of another torch
            reason = " ".join(str(error).split())[:200]
            hint = "install torchrec 1.8.0 and fbgemm-gpu-cpu 1.8.0 without what they require"
            raise ConversionError("", f"torchrec cannot be loaded: {reason}", hint) from error
        return OfTorchrec(
            keys=list(self._keys),
            values=self._values,
            lengths=self.lengths(),
            offsets=self.offsets(),
            stride=self._stride,
            length_per_key=self.length_per_key(),
            offset_per_key=list(self.offset_per_key()),
            index_per_key=self.index_per_key(),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # What can be made again does not travel from a worker.
        if self._single:
            return _unpickle_single, (type(self), self._keys, self._values)
        fields = (self._keys, self._values, self._lengths, self._offsets, self._stride)
        return _unpickle, (type(self), *fields)

    def __repr__(self) -> str:
        size_text = f"{len(self._keys)} keys, stride {self._stride}, {len(self._values)} values"
        return f"KeyedJaggedTensor({size_text} of {self._values.dtype} on {self._values.device})"


def _unpickle_single(
    cls: type[KeyedJaggedTensor], keys: list[str], values: "torch.Tensor"
) -> KeyedJaggedTensor:
    return cls.from_checked(
        *kjt_fields.single_id_fields(keys, values.view(len(keys), -1)), single=True
    )


# By this name pickles of earlier versions know `from_checked`.
def _unpickle(cls: type[KeyedJaggedTensor], *fields: Any) -> KeyedJaggedTensor:  # noqa: ANN401
    return cls.from_checked(*fields)


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
        """Return the same on a device."""
        return CriteoBatch._make(one.to(device, non_blocking=non_blocking) for one in self)

    def pin_memory(self) -> "CriteoBatch":
        """Return a copy in page-locked memory."""
        return CriteoBatch._make(one.pin_memory() for one in self)

    def record_stream(self, stream: Any) -> None:  # noqa: ANN401 - of any accelerator
        """Tell the allocator that a stream uses the tensors."""
        for one in self:
            one.record_stream(stream)

    def to_torchrec(self) -> Any:  # noqa: ANN401 - a class of an optional package
        """Return torchrec's `Batch` of the same tensors, as its modules and pipelines take it."""
        sparse = self.sparse_features.to_torchrec()  # says what is missing
        from torchrec.datasets.utils import Batch

        return Batch(self.dense_features, sparse, self.labels)
