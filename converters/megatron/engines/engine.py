"""Define what a tokenizing engine is, and open the reference engines that others are compared with.

An engine takes Arrow texts and returns one flat array of ids. Results are joined here: of rows, of
parts of a batch, and of a batch that is halved until one bad text is left.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.errors import IngotError, PanickedError, catch_panics, translate_native_errors
from ingot.converters.megatron.tokenizer import TokenizerFile
from ingot.converters.megatron.tokenizer_files import load_huggingface, load_sentencepiece

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer


# The names the reference goes by; it needs no gate and no watching.
REFERENCES: Final = ("hf", "sentencepiece")

# UTF-8 bytes. Larger texts are encoded by the reference, since the samples of a build compare no
# whole one of them, and one at a time, since the libraries need many times their size.
LARGE_TEXT: Final = 4 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineChoice:
    """An engine; `plain`: the texts of special tokens are split like other text."""

    engine: str
    version: str
    plain: bool = False


Ids: TypeAlias = npt.NDArray[np.uint32]
IdCounts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """Texts as ids."""

    ids: Ids  # uint32, of all texts, one after another
    lengths: IdCounts  # int64, ids per text, in order; 0 for a text that failed
    # positions of the texts that could not be encoded, ascending, and why
    failed: tuple[tuple[int, str], ...] = ()


class Engine(Protocol):
    """Encodes texts; an instance belongs to one thread."""

    @property
    def name(self) -> str:
        """Return `hf`, `sentencepiece`, `gigatoken` or `fastokens`."""
        ...

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode valid UTF-8 texts without nulls; no BOS, EOS or EOD is added.

        A text that cannot be encoded is listed in `failed` and takes no other with it.
        """
        ...


class EngineWrongError(IngotError):
    """A fast engine differed from the reference on real text. Fields: engine, text (start of it).

    Whatever the engine wrote has to be made again without it.
    """

    def __init__(self, engine: str, text: str) -> None:
        super().__init__(engine, text)
        self.engine = engine
        self.text = text

    def __str__(self) -> str:
        return f"{self.engine} gives other ids than the reference on {self.text!r}"


class RefusedCallError(Exception):
    """A library refused a call; one bad text fails the whole of it."""


def join_rows(rows: Sequence[npt.NDArray[np.uint32]]) -> Encoded:
    """Join texts whose ids are in one array each."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return Encoded(ids=np.concatenate([np.empty(0, np.uint32), *rows]), lengths=lengths)


def id_offsets(lengths: IdCounts) -> IdCounts:
    """Return where the ids of each text begin and, as one more, where the last ones end; int64."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def are_same_results(left: Encoded, right: Encoded) -> bool:
    """Return whether two results hold the same ids, text by text, and fail on the same texts."""
    return (
        np.array_equal(left.lengths, right.lengths)
        and np.array_equal(left.ids, right.ids)
        and [position for position, _ in left.failed] == [position for position, _ in right.failed]
    )


def differing_texts(left: Encoded, right: Encoded) -> list[int]:
    """Return the ascending positions of the texts on which two results differ."""
    if are_same_results(left, right):
        return []
    results = (left, right)
    rows = [np.split(encoded.ids, np.cumsum(encoded.lengths)[:-1]) for encoded in results]
    failed = [{position for position, _ in encoded.failed} for encoded in results]
    return [
        position
        for position, (ids, other_ids) in enumerate(zip(*rows, strict=False))
        if (position in failed[0]) != (position in failed[1]) or not np.array_equal(ids, other_ids)
    ]


def merge_parts(count: int, parts: Sequence[tuple[npt.NDArray[np.int64], Encoded]]) -> Encoded:
    """Merge the results of the parts of a batch to the result of the batch."""
    lengths = np.zeros(count, np.int64)
    for positions, encoded in parts:
        lengths[positions] = encoded.lengths
    starts = id_offsets(lengths)
    ids: Ids = np.empty(starts[-1], np.uint32)
    for positions, encoded in parts:
        _place_ids(ids, starts[positions], encoded)
    failed = [
        (int(positions[position]), problem)
        for positions, encoded in parts
        for position, problem in encoded.failed
    ]
    return Encoded(ids=ids, lengths=lengths, failed=tuple(sorted(failed)))


def _place_ids(ids: Ids, starts: IdCounts, encoded: Encoded) -> None:
    """Copy the ids of each text to where they start: runs that stay together in one go."""
    if not len(encoded.lengths):
        return
    begins = id_offsets(encoded.lengths)
    shift = starts - begins[:-1]
    breaks = np.flatnonzero(np.diff(shift)) + 1
    for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(shift)], strict=True):
        begin, end = int(begins[first]), int(begins[last])
        ids[begin + shift[first] : end + shift[first]] = encoded.ids[begin:end]


def text_runs(texts: pa.LargeStringArray, size: int) -> list[pa.LargeStringArray]:
    """Return the texts in runs of about `size` bytes; a longer text is a run by itself."""
    starts = byte_offsets(texts)
    runs: list[pa.LargeStringArray] = []
    first = 0
    while first < len(texts):
        last = int(np.searchsorted(starts, starts[first] + size, side="right")) - 1
        last = max(last, first + 1)
        runs.append(texts[first:last])
        first = last
    return runs


def byte_offsets(texts: pa.LargeStringArray) -> IdCounts:
    """Return where the texts begin in their buffer and, as one more, where the last ends; int64."""
    first = texts.offset
    if not len(texts):
        return np.zeros(1, np.int64)
    return np.frombuffer(texts.buffers()[1], np.int64)[first : first + len(texts) + 1]


FIRST_BYTE: Final = np.int8(-64)  # of a character; what follows it in UTF-8 is less


def texts_buffer(texts: pa.LargeStringArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of all texts without a copy.

    `byte_offsets` tells where each text begins, less the first offset.
    """
    starts = byte_offsets(texts)
    buffer = texts.buffers()[2] if len(texts) else None
    if buffer is None:
        return np.empty(0, np.uint8)
    return np.frombuffer(buffer, np.uint8)[starts[0] : starts[-1]]


def join_results(parts: Sequence[Encoded]) -> Encoded:
    """Join the results of runs of texts to the result of all texts."""
    if len(parts) == 1:
        return parts[0]
    starts = id_offsets(np.array([len(part.lengths) for part in parts], np.int64)).tolist()
    positions = [np.arange(start, end) for start, end in pairwise(starts)]
    return merge_parts(starts[-1], list(zip(positions, parts, strict=True)))


def encode_by_halves(
    texts: pa.LargeStringArray, call: Callable[[pa.LargeStringArray], Encoded]
) -> Encoded:
    """Encode texts; a refused call is halved until the text that causes it stands alone."""
    try:
        return call(texts)
    except RefusedCallError as error:
        if len(texts) == 1:
            return Encoded(
                ids=np.empty(0, np.uint32), lengths=np.zeros(1, np.int64), failed=((0, str(error)),)
            )
    middle = len(texts) // 2
    return join_results(
        [encode_by_halves(texts[:middle], call), encode_by_halves(texts[middle:], call)]
    )


# Bytes of text in one call: what the libraries return for them takes some forty times as much.
_RUN_BYTES: Final = 1 << 20


class _Library:
    """The library's object, made again after a panic: that leaves locks behind it unusable."""

    def __init__(self, loaded: TokenizerFile, plain: bool) -> None:
        self._loaded = loaded
        self._plain = plain
        self.tokenizer: Tokenizer = load_huggingface(loaded.data)
        if plain:
            self.renew()

    def renew(self) -> None:
        self.tokenizer = load_huggingface.__wrapped__(self._loaded.data)
        self.tokenizer.encode_special_tokens = self._plain


_OPEN: Final[WeakValueDictionary[tuple[str, bool], _Library]] = WeakValueDictionary()
_OPENING: Final = threading.Lock()


class Library:
    """An engine that `_call`s a library."""

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts; a text that the library refuses or panics on is listed as failed."""
        return join_results(
            [encode_by_halves(run, self._call) for run in text_runs(texts, _RUN_BYTES)]
        )

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        raise NotImplementedError


class HuggingFace(Library):
    """The engine of a `tokenizer.json`."""

    name = "hf"

    def __init__(self, library: _Library) -> None:
        self._library = library

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        try:
            with catch_panics():
                encodings = self._library.tokenizer.encode_batch_fast(
                    texts.to_pylist(), add_special_tokens=False
                )
        except PanickedError as error:
            self._library.renew()
            raise RefusedCallError(str(error)) from error
        except Exception as error:  # the library raises nothing more precise
            raise RefusedCallError(str(error)) from error
        return join_rows([np.array(encoding.ids, np.uint32) for encoding in encodings])


class SentencePiece(Library):
    """The engine of a `.model`; with 1 thread a text is encoded in the calling one."""

    name = "sentencepiece"

    def __init__(self, processor: "SentencePieceProcessor", threads: int) -> None:
        self._processor = processor
        self._threads = threads

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        values = texts.to_pylist()
        with translate_native_errors(RefusedCallError):
            if self._threads == 1:
                rows = [self._processor.encode(value) for value in values]
            else:
                rows = self._processor.encode(values, num_threads=self._threads)
        return join_rows([np.array(row, np.uint32) for row in rows])


def open_reference(loaded: TokenizerFile, *, plain: bool = False, threads: int = 1) -> Engine:
    """Open Hugging Face `tokenizers` for a `tokenizer.json`, sentencepiece for a `.model`."""
    if loaded.kind == "sentencepiece":
        return SentencePiece(load_sentencepiece(loaded.data), threads)
    if threads > 1:
        os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    parallelism = "true" if threads > 1 else "false"
    if os.environ.get("TOKENIZERS_PARALLELISM") != parallelism:
        os.environ["TOKENIZERS_PARALLELISM"] = parallelism
    with _OPENING:
        library = _OPEN.get((loaded.sha256, plain))
        if library is None:
            library = _OPEN[loaded.sha256, plain] = _Library(loaded, plain)
    return HuggingFace(library)
