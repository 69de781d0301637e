"""Records as places in the bytes they lie in: what readers give, kernels change, writers take."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Records:
    """Consecutive records of one stream, R of them.

    Attributes:
        data: uint8[B] that all places point into; never written to.
        start: int64[R] where messages begin.
        stop: int64[R] where they end.
        sort_start: int64[R] where the sort_ids of their frames begin.
        sort_stop: int64[R] where these end; equal where there is none.
        source: uint32[R] the data_source_key of a lagrangex header; 0 under other framings.
        offset: int64[R] where their frames begin, in bytes of the decompressed stream.
        number: of the first of them in the stream, from 0.
    """

    data: Bytes
    start: Places
    stop: Places
    sort_start: Places
    sort_stop: Places
    source: NDArray[np.uint32]
    offset: Places
    number: int

    def __len__(self) -> int:
        return len(self.start)

    def message(self, at: int) -> bytes:
        """The bytes of message `at`."""
        return self.data[self.start[at] : self.stop[at]].tobytes()

    def sort_id(self, at: int) -> bytes:
        """The sort_id of record `at`."""
        return self.data[self.sort_start[at] : self.sort_stop[at]].tobytes()

    def part(self, first: int, last: int) -> "Records":
        """Records first..last-1."""
        cut = slice(first, last)
        return replace(
            self,
            start=self.start[cut],
            stop=self.stop[cut],
            sort_start=self.sort_start[cut],
            sort_stop=self.sort_stop[cut],
            source=self.source[cut],
            offset=self.offset[cut],
            number=self.number + first,
        )


def unframed(messages: list[bytes]) -> Records:
    """Messages that come from no stream, one behind the other, without sort_ids."""
    stop = np.cumsum([len(message) for message in messages], dtype=np.int64)
    start = stop - np.array([len(message) for message in messages], np.int64)
    nothing = np.zeros(len(messages), np.int64)
    return Records(
        data=np.frombuffer(b"".join(messages), np.uint8),
        start=start,
        stop=stop,
        sort_start=nothing,
        sort_stop=nothing,
        source=np.zeros(len(messages), np.uint32),
        offset=start,
        number=0,
    )


@dataclass(frozen=True, kw_only=True)
class Bad:
    """Something in a stream that is no record, or a record, or a row of one, that cannot be used.

    Attributes:
        offset: where its frame begins, in bytes of the decompressed stream.
        bytes: of the stream that were passed over; 0 where framing found a record.
        record: number of the record in the stream, from 0.
        row: number of the row in its batch, from 0; None for the whole record.
        reason: one of `contract.REASONS`.
        detail: what was found, for people; may hold untrusted text.
    """

    offset: int
    bytes: int
    record: int
    row: int | None
    reason: str
    detail: str
