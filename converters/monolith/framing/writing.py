"""Records put into frames and written, as Monolith's own writer does it.

What a frame has beside sort_id and message is zero: `kafka_dump_prefix`, `kafka_dump`, and the type
in a lagrangex header.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError
from ingot.converters.monolith.contract import MAX_RECORD, Kind
from ingot.converters.monolith.framing.compression import compressing
from ingot.converters.monolith.framing.framing import MAX_SORT_ID, Framing
from ingot.converters.monolith.records import Bytes, Records


class Writable(Protocol):
    """What takes bytes."""

    def write(self, data: bytes, /) -> object:
        """Take some bytes."""


def unfit(records: Records, framing: Framing) -> NDArray[np.bool_]:
    """bool[R], the records whose data_source_key a lagrangex header cannot hold: low byte not 0."""
    low = (records.source & np.uint32(255)) != 0
    return low if framing.lagrangex_header else np.zeros(len(records), np.bool_)


def framed(records: Records, framing: Framing, kind: Kind) -> Bytes:
    """uint8[N], the records as a stream has them.

    A sort_id is left out where the framing has none, a data_source_key where it has no lagrangex
    header.

    Raises:
        ConversionError: a message or sort_id is larger than readers take, or a data_source_key does
            not fit (see `unfit`).
    """
    _check(records, framing, kind)
    sizes = records.stop - records.start
    each = 8 + 8 * framing.lagrangex_header + 16 * framing.kafka_dump_prefix
    each += 8 * framing.kafka_dump + 8 * framing.sort_id
    total = int(sizes.sum()) + each * len(records)
    if framing.sort_id:
        total += int((records.sort_stop - records.sort_start).sum())
    out = np.empty(total, np.uint8)
    _frame(records, framing, out)
    return out


def _frame(records: Records, framing: Framing, out: Bytes) -> None:
    from ingot.converters.monolith.framing.kernels import frame

    frame(
        records.data,
        records.start,
        records.stop,
        records.sort_start,
        records.sort_stop,
        records.source,
        framing.bits,
        out,
    )


def _check(records: Records, framing: Framing, kind: Kind) -> None:
    limit = MAX_RECORD[kind]
    _refuse(records, records.stop - records.start > limit, f"is over {limit} bytes")
    if framing.sort_id:
        large = records.sort_stop - records.sort_start > MAX_SORT_ID
        _refuse(records, large, f"has a sort_id of over {MAX_SORT_ID} bytes")
    misfit = unfit(records, framing)
    _refuse(records, misfit, "has a data_source_key that no lagrangex header holds")


def _refuse(records: Records, wrong: NDArray[np.bool_], problem: str) -> None:
    if wrong.any():
        at = int(wrong.argmax())
        hint = "the low 8 bits of a data_source_key must be 0, sizes within Monolith's limits"
        raise ConversionError(f"record {records.number + at}", problem, hint)


class RecordWriter:
    """Writes records to a stream, framed and compressed.

    Attributes:
        records: written so far.
        bytes: of frames written so far, before compression.
    """

    def __init__(
        self, stream: Writable, framing: Framing, kind: Kind, compression: str = "none"
    ) -> None:
        """Write to `stream`, which stays open; `compression` is one of `COMPRESSIONS`.

        Raises:
            ConversionError: an unknown compression.
        """
        self._packed = compressing(stream, compression)
        self._framing = framing
        self._kind = kind
        self.records = 0
        self.bytes = 0

    def write(self, records: Records) -> None:
        """Append records. Raises ConversionError for what `framed` refuses."""
        data = framed(records, self._framing, self._kind)
        self._packed.write(data.tobytes())
        self.records += len(records)
        self.bytes += len(data)

    def close(self) -> None:
        """Write what compression still holds."""
        self._packed.close()
