"""Ids of texts to documents of a data set: BOS and EOS, the limits in tokens, EOD, empty documents.

Everything is done on flat arrays for a whole batch; no Python object per token or per document.
"""

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.indexed import DTYPES, WRITTEN, EmptyDocs, TokenDtype
from ingot.converters.megatron.options import LongDocs

# What a text is to the one before it.
NEW_DOCUMENT: Final = 0
NEW_SEQUENCE: Final = 1  # a further sequence of the same document
GOES_ON: Final = 2  # the same sequence, cut where cutting changes no id

Tokens: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.uint8]
Sizes: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What is put around documents, and which stay.

    Attributes:
        dtype: of the tokens as they are written.
        bos: ids before every document that has tokens.
        eos: ids behind it.
        eod: the id behind every document, None = none.
        empty_docs: see `BuildOptions`.
        min_tokens: see `BuildOptions`.
        max_tokens: see `BuildOptions`.
        long_docs: see `BuildOptions`.
        chat: documents are conversations: one that ends with the EOD id gets no second one.
    """

    dtype: TokenDtype
    bos: tuple[int, ...] = ()
    eos: tuple[int, ...] = ()
    eod: int | None = None
    empty_docs: EmptyDocs = "index"
    min_tokens: int | None = None
    max_tokens: int | None = None
    long_docs: LongDocs = "filter"
    chat: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Texts:
    """The ids of complete documents, before anything is done to them.

    Attributes:
        ids: of all texts, one after another.
        lengths: ids per text.
        kinds: what each text is to the one before it; None = each is a document.
        mask: one byte per id, 1 = trained on; None = the data set has no loss masks.
        ends: per document, whether its end is trained on; None without masks.
        failed: per text, whether it could not be tokenized; None = none.
    """

    ids: Tokens
    lengths: Sizes
    kinds: npt.NDArray[np.uint8] | None = None
    mask: Mask | None = None
    ends: Flags | None = None
    failed: Flags | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents:
    """Documents as they are written.

    Attributes:
        tokens: in the type of the data set.
        mask: one byte per token, None without loss masks.
        lengths: tokens per sequence.
        sizes: sequences per document.
        tally: how many documents were `short`, `long` (left out), `truncated`, `split`, `empty`.
    """

    tokens: Tokens
    mask: Mask | None
    lengths: Sizes
    sizes: Sizes
    tally: dict[str, int] = field(default_factory=dict)


def written(ids: Tokens, dtype: TokenDtype, where: str = "") -> Tokens:
    """The ids in the type that is written.

    Raises:
        ConversionError: one does not fit.
    """
    kind = np.dtype(DTYPES[WRITTEN[dtype]])
    limit = np.iinfo(kind).max
    if len(ids) and int(ids.max()) > limit:
        raise ConversionError(
            where, f"id {int(ids.max())} does not fit {dtype} (up to {limit})", "use --dtype u32"
        )
    return ids.astype(kind, copy=False)


@dataclass(kw_only=True, slots=True)
class _State:
    """Documents while they are worked on: sequences, and what each document consists of."""

    tokens: Tokens
    mask: Mask | None
    lengths: Sizes  # per sequence
    sizes: Sizes  # sequences per document
    ends: Flags | None
    tally: dict[str, int]

    def owners(self) -> Sizes:
        """The document of each sequence."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def totals(self) -> Sizes:
        """Tokens per document."""
        return _sums(self.lengths, self.sizes)

    def keep_tokens(self, kept: Flags) -> None:
        self.tokens = self.tokens[kept]
        if self.mask is not None:
            self.mask = self.mask[kept]

    def keep_documents(self, kept: Flags) -> None:
        sequences = np.repeat(kept, self.sizes)
        self.keep_tokens(np.repeat(sequences, self.lengths))
        self.lengths, self.sizes = self.lengths[sequences], self.sizes[kept]
        if self.ends is not None:
            self.ends = self.ends[kept]

    def insert(self, places: Sizes, values: Tokens, trained: Tokens | None) -> None:
        """Put tokens before the places; those at one place in their order."""
        self.tokens = np.insert(self.tokens, places, values)
        if self.mask is not None:
            self.mask = np.insert(self.mask, places, 0 if trained is None else trained)


def shape(texts: Texts, rules: Rules) -> Documents:
    """Make documents of texts; a document with a text that failed is left out.

    Raises:
        ConversionError: an id does not fit the type.
    """
    state = _grouped(texts, written(texts.ids, rules.dtype))
    _drop_empty_sequences(state)
    if rules.bos or rules.eos:
        _frame(state, rules)
    _limit(state, rules)
    _close(state, rules)
    return Documents(
        tokens=state.tokens,
        mask=state.mask,
        lengths=state.lengths,
        sizes=state.sizes,
        tally={name: count for name, count in state.tally.items() if count},
    )


def _grouped(texts: Texts, tokens: Tokens) -> _State:
    """Texts that go on joined to sequences, sequences counted by document, failed ones left out."""
    lengths = texts.lengths
    if texts.kinds is None:
        sizes = np.ones(len(lengths), np.int64)
        dead = texts.failed
    else:
        first = np.flatnonzero(texts.kinds != GOES_ON)
        begins = np.flatnonzero(texts.kinds == NEW_DOCUMENT)
        sizes = np.diff(np.searchsorted(first, [*begins, len(texts.kinds)]))
        dead = None
        if texts.failed is not None:
            dead = _reduced(texts.failed.astype(np.int64), begins) > 0
        lengths = _reduced(lengths, first)
    state = _State(
        tokens=tokens, mask=texts.mask, lengths=lengths, sizes=sizes, ends=texts.ends, tally={}
    )
    if dead is not None and dead.any():
        state.keep_documents(~dead)
    return state


def _reduced(numbers: Sizes, starts: Sizes) -> Sizes:
    if not len(starts):
        return np.zeros(0, np.int64)
    sums: Sizes = np.add.reduceat(numbers, starts)
    return sums


def _sums(numbers: Sizes, sizes: Sizes) -> Sizes:
    """The sum of each group of consecutive numbers; groups may be empty."""
    ends = np.concatenate([[0], np.cumsum(numbers)])
    borders = np.cumsum(sizes)
    sums: Sizes = ends[borders] - ends[borders - sizes]
    return sums


def _drop_empty_sequences(state: _State) -> None:
    filled = state.lengths > 0
    if not filled.all():
        state.sizes = _sums(filled.astype(np.int64), state.sizes)
        state.lengths = state.lengths[filled]


def _frame(state: _State, rules: Rules) -> None:
    """BOS and EOS around every document that has tokens."""
    totals = state.totals()
    ends = np.cumsum(totals)
    full = totals > 0
    before, behind = len(rules.bos), len(rules.eos)
    places = np.concatenate(
        [
            np.repeat((ends - totals)[full, None], before, axis=1),
            np.repeat(ends[full, None], behind, axis=1),
        ],
        axis=1,
    ).ravel()
    # The end of a document is trained on or not; its beginning never is.
    trained = None
    if state.ends is not None:
        closing = np.repeat(state.ends[full, None].astype(np.uint8), behind, axis=1)
        opening = np.zeros((len(closing), before), np.uint8)
        trained = np.concatenate([opening, closing], axis=1).ravel()
    values = np.tile(np.array([*rules.bos, *rules.eos], state.tokens.dtype), int(full.sum()))
    state.insert(places, values, trained)
    last = np.cumsum(state.sizes)[full] - 1
    state.lengths = state.lengths.copy()
    state.lengths[last - state.sizes[full] + 1] += before
    state.lengths[last] += behind


def _limit(state: _State, rules: Rules) -> None:
    if rules.min_tokens is not None:
        kept = state.totals() >= rules.min_tokens
        state.tally["short"] = int((~kept).sum())
        if not kept.all():
            state.keep_documents(kept)
    if rules.max_tokens is None:
        return
    if rules.long_docs == "split":
        _split(state, rules.max_tokens)
        return
    over = state.totals() > rules.max_tokens
    if not over.any():
        return
    if rules.long_docs == "filter":
        state.tally["long"] = int(over.sum())
        state.keep_documents(~over)
    else:
        state.tally["truncated"] = int(over.sum())
        _truncate(state, rules.max_tokens, over)


def _truncate(state: _State, limit: int, over: Flags) -> None:
    owners = state.owners()
    ends = np.cumsum(state.lengths)
    starts = ends - state.lengths
    document_starts = np.cumsum(state.totals()) - state.totals()
    inside = starts - document_starts[owners]  # of each sequence in its document
    kept = np.clip(limit - inside, 0, state.lengths)
    positions = np.arange(len(state.tokens)) - np.repeat(starts, state.lengths)
    state.keep_tokens(positions < np.repeat(kept, state.lengths))
    state.lengths = kept
    if state.ends is not None:
        state.ends = state.ends & ~over
    _drop_empty_sequences(state)


def _split(state: _State, limit: int) -> None:
    pieces = -(-state.lengths // limit)
    if not (pieces > 1).any():
        return
    state.tally["split"] = int((_sums((pieces > 1).astype(np.int64), state.sizes) > 0).sum())
    last = np.cumsum(pieces) - 1
    lengths = np.full(int(pieces.sum()), limit, np.int64)
    lengths[last] = state.lengths - (pieces - 1) * limit
    state.sizes = _sums(pieces, state.sizes)
    state.lengths = lengths


def _close(state: _State, rules: Rules) -> None:
    """Empty documents, and the EOD behind the others."""
    empty = state.sizes == 0
    state.tally["empty"] = int(empty.sum())
    if rules.empty_docs == "drop" and empty.any():
        state.keep_documents(~empty)
        empty = np.zeros(len(state.sizes), np.bool_)
    if rules.eod is None:
        return
    ends = np.cumsum(state.totals())
    closed = np.ones(len(ends), np.bool_) if rules.empty_docs == "eod" else ~empty
    if rules.chat and len(state.tokens):
        closed &= empty | (state.tokens[ends - 1] != rules.eod)
    trained = None if state.ends is None else state.ends[closed].astype(np.uint8)
    eods = np.full(int(closed.sum()), rules.eod, state.tokens.dtype)
    state.insert(ends[closed], eods, trained)
    _lengthen(state, closed, empty)


def _lengthen(state: _State, closed: Flags, empty: Flags) -> None:
    """Count the EOD in the last sequence of each closed document; an empty one gets a sequence."""
    last = np.cumsum(state.sizes)
    grown = closed & ~empty
    state.lengths = state.lengths.copy()
    state.lengths[last[grown] - 1] += 1
    born = closed & empty
    if born.any():
        state.lengths = np.insert(state.lengths, last[born], 1)
        state.sizes = state.sizes + born
