"""Every distinct token of a data set once, as a small number."""

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.ctr.building.kernels.interning import intern, rehash
from ingot.converters.errors import ConversionError

_SLOTS = 1 << 10
_MOST = (1 << 31) - 1


class Interner:
    """Codes 0, 1, 2, ... for (field, bytes) in order of appearance; no Python object per token.

    Memory: about 30 bytes and the token's own for each distinct token.

    Attributes:
        count: codes so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._slots = np.full(_SLOTS, -1, np.int32)
        self._hashes = np.empty(_SLOTS // 2, np.uint64)
        self._owners = np.empty(_SLOTS // 2, np.int16)
        self._ends = np.zeros(_SLOTS // 2 + 1, np.int64)
        self._arena = np.empty(_SLOTS, np.uint8)

    def add(
        self,
        text: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        fields: NDArray[np.int16] | int = 0,
    ) -> NDArray[np.int32]:
        """The codes of tokens, new ones included.

        Args:
            text: bytes with the tokens.
            starts: first byte of each token in it.
            lengths: bytes of each token.
            fields: field of each token, or of all.

        Returns:
            int32, one per token.
        """
        if isinstance(fields, int):
            fields = np.full(len(starts), fields, np.int16)
        codes = np.empty(len(starts), np.int32)
        # In steps, so that room for tokens that are all new stays small.
        step = max(1 << 16, self.count // 4)
        for first in range(0, len(starts), step):
            part = slice(first, first + step)
            self._make_room(len(starts[part]), int(lengths[part].sum(dtype=np.int64)))
            self.count = intern(
                text,
                starts[part],
                lengths[part],
                fields[part],
                self._slots,
                self._hashes,
                self._owners,
                self._arena,
                self._ends,
                self.count,
                codes[part],
            )
        return codes

    def add_array(self, tokens: pa.Array, field: int = 0) -> NDArray[np.int32]:
        """The codes of an Arrow large_binary array without nulls."""
        buffers = tokens.buffers()
        offsets = np.frombuffer(buffers[1], np.int64, len(tokens) + 1, tokens.offset * 8)
        text = np.frombuffer(buffers[2] or b"", np.uint8)
        return self.add(text, offsets[:-1], np.diff(offsets).astype(np.int32), field)

    def owners(self) -> NDArray[np.int16]:
        """The field of each code."""
        return self._owners[: self.count]

    def texts(self) -> pa.LargeBinaryArray:
        """The bytes of each code, without a copy."""
        offsets = pa.py_buffer(self._ends[: self.count + 1])
        arena = pa.py_buffer(self._arena[: self._ends[self.count]])
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), self.count, [None, offsets, arena]
        )

    def _make_room(self, tokens: int, size: int) -> None:
        most = self.count + tokens
        if most > _MOST:
            raise ConversionError("", f"there are more than {_MOST:,} distinct tokens")
        if most > len(self._hashes):
            room = max(most, 2 * len(self._hashes))
            self._hashes = grown(self._hashes, room)
            self._owners = grown(self._owners, room)
            self._ends = grown(self._ends, room + 1)
        if self._ends[self.count] + size > len(self._arena):
            self._arena = grown(
                self._arena, int(max(self._ends[self.count] + size, 2 * len(self._arena)))
            )
        if 2 * most > len(self._slots):
            self._slots = np.full(1 << (2 * most - 1).bit_length(), -1, np.int32)
            rehash(self._slots, self._hashes, self.count)


_Element = TypeVar("_Element", bound=np.generic)


def grown(array: NDArray[_Element], size: int) -> NDArray[_Element]:
    """A copy with zeros behind it, `size` elements in all."""
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger
