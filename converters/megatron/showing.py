"""Documents of a data set as a person reads them, cut where sequences and training begin."""

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ingot.converters.megatron.indexed import IndexedReader
from ingot.converters.megatron.structure import DataSet, starts

if TYPE_CHECKING:
    from ingot.converters.megatron.tokenizer import TokenizerFile

SAMPLE_TOKENS: Final = 240  # of a document that is a sample
DOCUMENT_TOKENS: Final = 20_000  # of a document that is asked for

Decode: TypeAlias = Callable[[Sequence[int]], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fragment:
    """Part of a document that is read as a whole.

    Attributes:
        sequence: number of its sequence in the document, from 0.
        text: decoded, or the ids where there is no tokenizer.
        trained: whether it is trained on; None without loss masks.
    """

    sequence: int
    text: str
    trained: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A document: its beginning and, if it is long, its end.

    Attributes:
        document: its number, from 0.
        sequences: how many it has.
        tokens: how many it has.
        head: its beginning, or all of it.
        left_out: tokens between the two.
        tail: its end; empty where nothing is left out.
    """

    document: int
    sequences: int
    tokens: int
    head: tuple[Fragment, ...]
    left_out: int
    tail: tuple[Fragment, ...]


def read_samples(
    data: DataSet, chosen: Sequence[int], loaded: "TokenizerFile | None", *, whole: bool
) -> Iterator[Sample]:
    """Documents as they are read.

    Args:
        data: the data set.
        chosen: numbers of the documents.
        loaded: decodes the ids; None = they are shown as they are.
        whole: show up to `DOCUMENT_TOKENS` of each, else `SAMPLE_TOKENS`.
    """
    from ingot.converters.megatron.tokenizer import decode

    def reads(ids: Sequence[int]) -> str:
        return decode(loaded, ids) if loaded else " ".join(map(str, ids))

    most = DOCUMENT_TOKENS if whole else SAMPLE_TOKENS
    for number in chosen:
        first, last = data.tokens.document_indices[number : number + 2]
        start, end = starts(data.tokens, np.array([first, last])).tolist()
        head_end = end if end - start <= most else start + most * 3 // 4
        tail_start = end if head_end == end else end - most // 4
        yield Sample(
            document=number,
            sequences=int(last - first),
            tokens=end - start,
            head=tuple(_fragments(data, (start, head_end), int(first), reads)),
            left_out=tail_start - head_end,
            tail=tuple(_fragments(data, (tail_start, end), int(first), reads)),
        )


def _fragments(
    data: DataSet, span: tuple[int, int], first: int, reads: Decode
) -> Iterator[Fragment]:
    """Cut where a sequence begins, or where training begins or ends."""
    start, end = span
    tokens, width = data.tokens, data.tokens.dtype.itemsize
    while start < end:
        sequence = _sequence_at(tokens, start * width)
        ends = min(end, (int(tokens.offsets[sequence]) // width) + int(tokens.lengths[sequence]))
        for low, high, trained in _runs(data, start, ends):
            text = reads(tokens.tokens[low:high].tolist())
            yield Fragment(sequence=sequence - first, text=text, trained=trained)
        start = ends


def _sequence_at(tokens: IndexedReader, offset: int) -> int:
    """The last sequence that begins at or before a byte; those before it at that byte are empty."""
    return bisect_right(tokens.offsets, offset) - 1


def _runs(data: DataSet, start: int, end: int) -> Iterator[tuple[int, int, bool | None]]:
    if data.masks is None:
        yield start, end, None
        return
    mask: Any = data.masks.tokens[start:end] != 0
    cuts = [start, *(np.flatnonzero(np.diff(mask)) + start + 1).tolist(), end]
    for low, high in itertools.pairwise(cuts):
        yield low, high, bool(mask[low - start])
