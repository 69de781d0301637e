"""Shards: texts on their way to an engine, with the row of each and what becomes of the others.

A shard is about a MiB of texts in the order of their rows. A text that is too long for one call is
cut where that changes no id; its pieces are shards of their own, which together are one document.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.megatron.chats.render import Span
from ingot.converters.megatron.engines.engine import Lengths
from ingot.converters.megatron.shaping import NEW_DOCUMENT
from ingot.converters.rows import Reject

SHARD_BYTES: Final = 1 << 20
LONG_CHARS: Final = 1 << 18  # a longer text is cut

RowNumbers: TypeAlias = npt.NDArray[np.int64]
Kinds: TypeAlias = npt.NDArray[np.uint8]

_NO_ROWS: Final = np.zeros(0, np.int64)
_NO_TEXTS: Final = pa.array([], pa.large_string())


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """Texts for one call of an engine; or none, where there is only something to be counted.

    Attributes:
        texts: the texts, without nulls.
        rows: number of the row of each; of what opens a long document, its row.
        kinds: what each is to the one before it (see `shaping`); None = each is a document.
        skips: leading ids of each text that are to be dropped; None where there are none.
        spans: per text, what of it is trained on; None where nothing is a conversation.
        long: belongs to one long document; else all its documents are complete.
        opens: the long document begins here.
        closes: it ends here.
        dropped: on the shard that closes it: it is left out after all.
        tally: what became of rows: see `writing.COUNTS`.
        rejects: rows that end here.
        read: bytes of the file that have been read now.
        row_group: where the rows lie.
    """

    texts: pa.LargeStringArray = field(default_factory=lambda: _NO_TEXTS)
    rows: RowNumbers = field(default_factory=lambda: _NO_ROWS)
    kinds: Kinds | None = None
    skips: Lengths | None = None
    spans: tuple[tuple[Span, ...], ...] | None = None
    long: bool = False
    opens: bool = False
    closes: bool = False
    dropped: bool = False
    tally: dict[str, int] = field(default_factory=dict)
    rejects: tuple[Reject, ...] = ()
    read: int = 0
    row_group: int | None = None


def sliced(
    texts: pa.LargeStringArray, rows: RowNumbers, kinds: Kinds | None, parts: int
) -> Iterator[Shard]:
    """Shards of about `SHARD_BYTES`, or smaller ones where that makes fewer than `parts`.

    A document is never in two of them.
    """
    if not len(texts):
        return
    ends = np.cumsum(pc.binary_length(texts).to_numpy())
    size = max(1, min(SHARD_BYTES, -(-int(ends[-1]) // parts)))
    own = np.maximum(ends - 1, 0) // size  # which part the last byte of each text is in
    if kinds is not None:
        begins = np.flatnonzero(kinds == NEW_DOCUMENT)
        own = np.repeat(own[begins], np.diff([*begins, len(kinds)]))
    borders = (np.flatnonzero(np.diff(own)) + 1).tolist()
    for begin, end in zip([0, *borders], [*borders, len(texts)], strict=True):
        yield Shard(
            texts=texts.slice(begin, end - begin),
            rows=rows[begin:end],
            kinds=None if kinds is None else kinds[begin:end],
        )


def with_rejects(shards: Iterable[Shard], rejects: Sequence[Reject]) -> Iterator[Shard]:
    """Rejects with the shard that holds the rows around them, so that they stay in order."""
    left = list(rejects)
    for shard in shards:
        last = max([*shard.rows[-1:], *(reject.row for reject in shard.rejects)], default=-1)
        own = [reject for reject in left if reject.row < last]
        if own:
            left = left[len(own) :]
            shard = replace(shard, rejects=(*own, *shard.rejects))
        yield shard
    if left:
        yield Shard(rejects=tuple(left))


def rejected(name: str, row: int, reason: str, found: str) -> Reject:
    """A row of the file `name` that ends here."""
    return Reject(file=name, row=row, element=None, reason=reason, path=None, found=found)
