"""Turn ids of texts into documents of a data set: BOS and EOS, limits in tokens, EOD, empty ones.

Everything is done on flat arrays for a whole batch; no Python object per token or per document.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.chat.loss_masks import TrainedSpans
from ingot.converters.megatron.chat.rendering import TextSpan
from ingot.converters.megatron.indexed_dataset import DTYPES, WRITTEN_CODES, TokenDtype, Tokens
from ingot.converters.megatron.options import BuildOptions, EmptyDocs, LongDocs
from ingot.converters.rows import Reject

# What a text is to the one before it.
NEW_DOCUMENT: Final = 0
NEW_SEQUENCE: Final = 1  # a further sequence of the same document

Mask: TypeAlias = npt.NDArray[np.uint8]
Sizes: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
TextKinds: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentRules:
    """What is put around documents, and which stay."""

    dtype: TokenDtype  # of the tokens as they are written
    bos: tuple[int, ...] = ()  # ids before every document that has tokens
    eos: tuple[int, ...] = ()  # ids behind it
    eod: int | None = None  # the id behind every document, None = none
    empty_docs: EmptyDocs = "index"
    min_tokens: int | None = None
    max_tokens: int | None = None
    long_docs: LongDocs = "filter"
    # documents are conversations: one that ends with the EOD id gets no second one
    chat: bool = False

    @staticmethod
    def from_options(options: BuildOptions, **facts: Any) -> "DocumentRules":  # noqa: ANN401
        """Return the rules of the options; `facts` come from the tokenizer and the input."""
        return DocumentRules(
            empty_docs=options.empty_docs,
            min_tokens=options.min_tokens,
            max_tokens=options.most_tokens,
            long_docs=options.long_docs,
            **facts,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizedTexts:
    """The ids of complete documents, before anything is done to them."""

    ids: Tokens  # of all texts, one after another
    lengths: Sizes
    # what each text is to the one before it; None = each is a document
    kinds: TextKinds | None = None
    # one byte per id, 1 = trained on; None = the data set has no loss masks
    mask: Mask | None = None
    ends: Flags | None = None  # per document, whether its end is trained on; None without masks
    failed: Flags | None = None  # per text, whether it could not be tokenized; None = none


@dataclass(frozen=True, kw_only=True, slots=True)
class ShapedDocuments:
    """Documents as they are written."""

    tokens: Tokens  # in the type of the data set
    mask: Mask | None  # one byte per token, None without loss masks
    lengths: Sizes  # tokens per sequence
    sizes: Sizes  # sequences per document
    # how many documents were `short`, `long` (left out), `truncated`, `split`, `empty`
    tally: dict[str, int] = field(default_factory=dict)


def cast_ids(ids: Tokens, dtype: TokenDtype) -> Tokens:
    """Convert the ids to the type that is written."""
    kind = np.dtype(DTYPES[WRITTEN_CODES[dtype]])
    limit = np.iinfo(kind).max
    if len(ids) and int(ids.max()) > limit:
        problem = f"id {int(ids.max())} does not fit {dtype} (up to {limit})"
        raise ConversionError("", problem, "use `dtype` u32")
    return ids.astype(kind, copy=False)


@dataclass(kw_only=True, slots=True)
class _ShapingState:
    """Documents while they are worked on: sequences, and what each document consists of."""

    tokens: Tokens
    mask: Mask | None
    lengths: Sizes  # per sequence
    sizes: Sizes  # sequences per document
    ends: Flags | None
    tally: dict[str, int]

    def totals(self) -> Sizes:
        return _group_sums(self.lengths, self.sizes)

    def keep_tokens(self, mask: Flags) -> None:
        self.tokens = self.tokens[mask]
        if self.mask is not None:
            self.mask = self.mask[mask]

    def keep_documents(self, mask: Flags) -> None:
        sequences = np.repeat(mask, self.sizes)
        self.keep_tokens(np.repeat(sequences, self.lengths))
        self.lengths, self.sizes = self.lengths[sequences], self.sizes[mask]
        if self.ends is not None:
            self.ends = self.ends[mask]

    def insert(self, positions: Sizes, values: Tokens, trained: Tokens | None) -> None:
        self.tokens = np.insert(self.tokens, positions, values)
        if self.mask is not None:
            self.mask = np.insert(self.mask, positions, 0 if trained is None else trained)


def shape_documents(texts: TokenizedTexts, rules: DocumentRules) -> ShapedDocuments:
    """Make documents of texts; a document with a text that failed is left out."""
    state = _group_texts(texts, cast_ids(texts.ids, rules.dtype))
    _drop_empty_sequences(state)
    _count_doubled(state, rules)
    if rules.bos or rules.eos:
        _frame_documents(state, rules)
    _limit_documents(state, rules)
    _close_documents(state, rules)
    return ShapedDocuments(
        tokens=state.tokens,
        mask=state.mask,
        lengths=state.lengths,
        sizes=state.sizes,
        tally={name: count for name, count in state.tally.items() if count},
    )


def _group_texts(texts: TokenizedTexts, tokens: Tokens) -> _ShapingState:
    """Texts counted by document, documents with a text that failed left out."""
    sizes = np.ones(len(texts.lengths), np.int64)
    dead = texts.failed
    if texts.kinds is not None:
        begins = np.flatnonzero(texts.kinds == NEW_DOCUMENT)
        sizes = np.diff([*begins, len(texts.kinds)])
        if dead is not None:
            dead = np.logical_or.reduceat(dead, begins)
    state = _ShapingState(
        tokens=tokens,
        mask=texts.mask,
        lengths=texts.lengths,
        sizes=sizes,
        ends=texts.ends,
        tally={},
    )
    if dead is not None and dead.any():
        state.keep_documents(~dead)
    return state


def _group_sums(numbers: Sizes, sizes: Sizes) -> Sizes:
    """The sum of each group of consecutive numbers; groups may be empty."""
    totals = np.concatenate([[0], np.cumsum(numbers)])
    borders = np.cumsum(sizes)
    sums: Sizes = totals[borders] - totals[borders - sizes]
    return sums


def _drop_empty_sequences(state: _ShapingState) -> None:
    filled = state.lengths > 0
    if not filled.all():
        state.sizes = _group_sums(filled.astype(np.int64), state.sizes)
        state.lengths = state.lengths[filled]


def _frame_documents(state: _ShapingState, rules: DocumentRules) -> None:
    """BOS and EOS around every document that has tokens."""
    totals = state.totals()
    stops = np.cumsum(totals)
    full = totals > 0
    before, after = len(rules.bos), len(rules.eos)
    positions = np.concatenate(
        [
            np.repeat((stops - totals)[full, None], before, axis=1),
            np.repeat(stops[full, None], after, axis=1),
        ],
        axis=1,
    ).ravel()
    # The end of a document is trained on or not; its beginning never is.
    trained = None
    if state.ends is not None:
        closing = np.repeat(state.ends[full, None].astype(np.uint8), after, axis=1)
        opening = np.zeros((len(closing), before), np.uint8)
        trained = np.concatenate([opening, closing], axis=1).ravel()
    values = np.tile(np.array([*rules.bos, *rules.eos], state.tokens.dtype), int(full.sum()))
    state.insert(positions, values, trained)
    last = np.cumsum(state.sizes)[full] - 1
    state.lengths = state.lengths.copy()
    state.lengths[last - state.sizes[full] + 1] += before
    state.lengths[last] += after


def _limit_documents(state: _ShapingState, rules: DocumentRules) -> None:
    if rules.min_tokens is not None:
        long_enough = state.totals() >= rules.min_tokens
        state.tally["short"] = int((~long_enough).sum())
        if not long_enough.all():
            state.keep_documents(long_enough)
    if rules.max_tokens is None:
        return
    if rules.long_docs == "split":
        _split_sequences(state, rules.max_tokens)
        return
    over = state.totals() > rules.max_tokens
    if not over.any():
        return
    if rules.long_docs == "filter":
        state.tally["long"] = int(over.sum())
        state.keep_documents(~over)
    else:
        state.tally["truncated"] = int(over.sum())
        _truncate_documents(state, rules.max_tokens, over)


def _truncate_documents(state: _ShapingState, limit: int, over: Flags) -> None:
    owners = np.repeat(np.arange(len(state.sizes)), state.sizes)
    stops = np.cumsum(state.lengths)
    starts = stops - state.lengths
    document_starts = np.cumsum(state.totals()) - state.totals()
    inside = starts - document_starts[owners]  # of each sequence in its document
    kept_lengths = np.clip(limit - inside, 0, state.lengths)
    positions = np.arange(len(state.tokens)) - np.repeat(starts, state.lengths)
    state.keep_tokens(positions < np.repeat(kept_lengths, state.lengths))
    state.lengths = kept_lengths
    if state.ends is not None:
        state.ends = state.ends & ~over
    _drop_empty_sequences(state)


def _split_sequences(state: _ShapingState, limit: int) -> None:
    pieces = -(-state.lengths // limit)
    if not (pieces > 1).any():
        return
    state.tally["split"] = int((_group_sums((pieces > 1).astype(np.int64), state.sizes) > 0).sum())
    last = np.cumsum(pieces) - 1
    lengths = np.full(int(pieces.sum()), limit, np.int64)
    lengths[last] = state.lengths - (pieces - 1) * limit
    state.sizes = _group_sums(pieces, state.sizes)
    state.lengths = lengths


def _close_documents(state: _ShapingState, rules: DocumentRules) -> None:
    """Empty documents, and the EOD behind the others."""
    empty = state.sizes == 0
    state.tally["empty"] = int(empty.sum())
    if rules.empty_docs == "drop" and empty.any():
        state.keep_documents(~empty)
        empty = np.zeros(len(state.sizes), np.bool_)
    if rules.eod is None:
        return
    stops = np.cumsum(state.totals())
    closed = np.ones(len(stops), np.bool_) if rules.empty_docs == "eod" else ~empty
    if rules.chat and len(state.tokens):
        closed &= empty | (state.tokens[stops - 1] != rules.eod)
    trained = None if state.ends is None else state.ends[closed].astype(np.uint8)
    eods = np.full(int(closed.sum()), rules.eod, state.tokens.dtype)
    state.insert(stops[closed], eods, trained)
    _count_eod(state, closed, empty)


def _count_doubled(state: _ShapingState, rules: DocumentRules) -> None:
    """Count documents that have the BOS that is put before them, or the EOS or EOD behind them."""
    totals = state.totals()
    stops = np.cumsum(totals)[totals > 0]
    starts = stops - totals[totals > 0]
    # A conversation that ends with the EOD gets no second one.
    closing = rules.eos if rules.eod is None or rules.chat else (*rules.eos, rules.eod)
    begins_doubled = np.isin(state.tokens[starts], rules.bos[-1:])
    ends_doubled = np.isin(state.tokens[stops - 1], closing[:1])
    ends_doubled |= any(one == following for one, following in pairwise(closing))
    state.tally |= {"two_bos": int(begins_doubled.sum()), "two_eos": int(ends_doubled.sum())}


def _count_eod(state: _ShapingState, closed: Flags, empty: Flags) -> None:
    """Count the EOD in the last sequence of each closed document; an empty one gets a sequence."""
    last = np.cumsum(state.sizes)
    grown = closed & ~empty
    state.lengths = state.lengths.copy()
    state.lengths[last[grown] - 1] += 1
    born = closed & empty
    if born.any():
        state.lengths = np.insert(state.lengths, last[born], 1)
        state.sizes = state.sizes + born


SHARD_BYTES: Final = 1 << 20

_NO_ROWS: Final = np.zeros(0, np.int64)
_NO_TEXTS: Final = pa.array([], pa.large_string())


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """Texts for one call of an engine; or none, where there is only something to be counted."""

    texts: pa.LargeStringArray = field(default_factory=lambda: _NO_TEXTS)
    # number of the row of each
    rows: Sizes = field(default_factory=lambda: _NO_ROWS)
    # what each is to the one before it; None = each is a document
    kinds: TextKinds | None = None
    # what of the texts is trained on; None where nothing is a conversation
    spans: TrainedSpans | None = None
    tally: dict[str, int] = field(default_factory=dict)  # what became of rows: see `writing.COUNTS`
    rejects: tuple[Reject, ...] = ()  # rows that end here
    read: int = 0  # bytes of the file that have been read now
    row_group: int | None = None

    def slice(self, begin: int, end: int) -> "Shard":
        """Return the texts from `begin` to `end` as a shard that counts nothing."""
        return Shard(
            texts=self.texts.slice(begin, end - begin),
            rows=self.rows[begin:end],
            kinds=None if self.kinds is None else self.kinds[begin:end],
            spans=None if self.spans is None else self.spans.slice(begin, end),
        )


@dataclass(slots=True)
class PendingShard:
    """Texts on their way into a shard, some with what of them is trained on."""

    texts: list[str] = field(default_factory=list)
    spans: list[tuple[TextSpan, ...]] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    bytes: int = 0

    def add(self, row: int, kind: int, text: str, spans: tuple[TextSpan, ...]) -> None:
        """Take the next text."""
        self.texts.append(text)
        self.kinds.append(kind)
        self.rows.append(row)
        self.spans.append(spans)
        self.bytes += len(text)

    def shard(self) -> Shard:
        """Return the shard."""
        return Shard(
            texts=pa.array(self.texts, pa.large_string()),
            rows=np.array(self.rows, np.int64),
            kinds=np.array(self.kinds, np.uint8) if any(self.kinds) else None,
            spans=TrainedSpans.of_texts(self.texts, self.spans) if self.spans else None,
        )


def slice_shards(shard: Shard, parts: int) -> Iterator[Shard]:
    """Yield shards of about `SHARD_BYTES`, or smaller ones if that gives fewer than `parts`.

    A document is never in two of them.
    """
    if not len(shard.texts):
        return
    text_ends = np.cumsum(pc.binary_length(shard.texts).to_numpy())
    size = max(1, min(SHARD_BYTES, -(-int(text_ends[-1]) // parts)))
    # Which part the last byte of each text is in.
    part_numbers = np.maximum(text_ends - 1, 0) // size
    if shard.kinds is not None:
        begins = np.flatnonzero(shard.kinds == NEW_DOCUMENT)
        part_numbers = np.repeat(part_numbers[begins], np.diff([*begins, len(shard.kinds)]))
    borders = (np.flatnonzero(np.diff(part_numbers)) + 1).tolist()
    for first, last in zip([0, *borders], [*borders, len(shard.texts)], strict=True):
        yield shard.slice(first, last)


def attach_rejects(shards: Iterable[Shard], rejects: Sequence[Reject]) -> Iterator[Shard]:
    """Yield each shard with the rejects of the rows around its own, so that they stay in order."""
    remaining = list(rejects)
    for shard in shards:
        last = max([*shard.rows[-1:], *(reject.row for reject in shard.rejects)], default=-1)
        shard_rejects = [reject for reject in remaining if reject.row < last]
        if shard_rejects:
            remaining = remaining[len(shard_rejects) :]
            shard = replace(shard, rejects=(*shard_rejects, *shard.rejects))
        yield shard
    if remaining:
        yield Shard(rejects=tuple(remaining))


def reject_row(name: str, row: int, reason: str, found: str) -> Reject:
    """Return the reject of a row of the file `name`."""
    return Reject(file=name, row=row, element=None, reason=reason, path=None, found=found)
