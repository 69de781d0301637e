"""Inspect a finished data set: its header, the lengths of its documents, samples of their texts.

Lengths are counted digit by digit of 16 bits, so that a percentile of 10^8 documents takes two or
three passes and half a megabyte, and no sorting.
"""

import contextlib
import itertools
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.indexed_dataset import (
    INDEX_VERSION,
    IndexedDataSet,
    IntegerArray,
    NumberStretches,
    document_token_counts,
    dtype_code,
    number_stretches,
    open_data_set,
    sequence_starts,
)
from ingot.converters.megatron.options import BuildOptions
from ingot.converters.output.figures import Cells, format_known, list_facts
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.converters.megatron.tokenizer import TokenizerFile

_DIGIT: Final = 16
_BITS: Final = 63


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthBin:
    """Lengths from `low` to `high`, both included, and how many there are."""

    low: int
    high: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthFigures:
    """What there is to say about many lengths in tokens."""

    count: int
    least: int  # least, most, mean: of all of them; 0 without any
    most: int
    mean: float
    median: int  # median, p90, p99: the smallest length that 50, 90, 99 % do not exceed
    p90: int
    p99: int
    bins: tuple[LengthBin, ...]  # powers of two, from the first to the last that is not empty


def measure_lengths(lengths: NumberStretches) -> LengthFigures:
    """Return the figures of some lengths."""
    count, total, shortest, longest = 0, 0, 0, 0
    powers = np.zeros(_BITS + 1, np.int64)
    edges = 1 << np.arange(_BITS, dtype=np.int64)
    for stretch in lengths():
        low = int(stretch.min())
        shortest, longest = (
            low if not count else min(shortest, low),
            max(longest, int(stretch.max())),
        )
        count, total = count + len(stretch), total + int(stretch.sum(dtype=np.int64))
        powers += np.bincount(np.searchsorted(edges, stretch, "right"), minlength=_BITS + 1)
    filled = np.flatnonzero(powers).tolist()
    ranks = [max(1, math.ceil(count * share / 100)) for share in (50, 90, 99)]
    median, p90, p99 = (_find_ranked(lengths, rank, longest) if count else 0 for rank in ranks)
    return LengthFigures(
        count=count,
        least=shortest,
        most=longest,
        mean=total / count if count else 0.0,
        median=median,
        p90=p90,
        p99=p99,
        bins=tuple(
            LengthBin(low=1 << power >> 1, high=(1 << power) - 1, count=int(powers[power]))
            for power in (range(filled[0], filled[-1] + 1) if filled else ())
        ),
    )


def _find_ranked(lengths: NumberStretches, rank: int, longest: int) -> int:
    """The `rank`-th smallest length, from 1: one pass per digit, the highest first."""
    prefix = 0
    for shift in range(longest.bit_length() // _DIGIT * _DIGIT, -1, -_DIGIT):
        counts = np.zeros(1 << _DIGIT, np.int64)
        for stretch in lengths():
            digits = stretch.astype(np.int64) >> shift
            inside = digits[digits >> _DIGIT == prefix]
            counts += np.bincount(inside & ((1 << _DIGIT) - 1), minlength=1 << _DIGIT)
        upto = np.cumsum(counts)
        digit = int(np.searchsorted(upto, rank))
        rank -= int(upto[digit - 1]) if digit else 0
        prefix = prefix << _DIGIT | digit
    return prefix


SAMPLE_TOKENS: Final = 240  # of a document that is a sample
DOCUMENT_TOKENS: Final = 20_000  # of a document that is asked for


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFragment:
    """Part of a document that is read as a whole."""

    sequence: int  # number of its sequence in the document, from 0
    text: str  # decoded, or the ids where there is no tokenizer
    trained: bool | None  # whether it is trained on; None without loss masks


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentSample:
    """A document: its beginning and, if it is long, its end."""

    document: int
    sequences: int
    tokens: int
    head: tuple[TextFragment, ...]  # its beginning, or all of it
    left_out: int  # tokens between the two
    tail: tuple[TextFragment, ...]  # its end; empty where nothing is left out


def read_samples(
    data: IndexedDataSet, chosen: Sequence[int], loaded: "TokenizerFile | None", *, whole: bool
) -> Iterator[DocumentSample]:
    """Yield samples of documents in the order in which they are read."""
    from ingot.converters.megatron.tokenizer import decode_ids

    def reads(ids: Sequence[int]) -> str:
        return decode_ids(loaded, ids) if loaded else " ".join(map(str, ids))

    limit = DOCUMENT_TOKENS if whole else SAMPLE_TOKENS
    for number in chosen:
        first, last = data.tokens.document_indices[number : number + 2]
        start, end = sequence_starts(data.tokens, np.array([first, last])).tolist()
        head_end = end if end - start <= limit else start + limit * 3 // 4
        tail_start = end if head_end == end else end - limit // 4
        yield DocumentSample(
            document=number,
            sequences=int(last - first),
            tokens=end - start,
            head=tuple(_split_fragments(data, (start, head_end), int(first), reads)),
            left_out=tail_start - head_end,
            tail=tuple(_split_fragments(data, (tail_start, end), int(first), reads)),
        )


def _split_fragments(
    data: IndexedDataSet, span: tuple[int, int], first: int, reads: Callable[[Sequence[int]], str]
) -> Iterator[TextFragment]:
    """Cut where a sequence begins, or where training begins or ends."""
    start, end = span
    tokens, width = data.tokens, data.tokens.dtype.itemsize
    while start < end:
        # The last that begins at or before it; those before that one at the same byte are empty.
        sequence = bisect_right(tokens.offsets, start * width) - 1
        fragment_end = min(
            end, (int(tokens.offsets[sequence]) // width) + int(tokens.lengths[sequence])
        )
        for low, high, trained in _training_runs(data, start, fragment_end):
            text = reads(tokens.tokens[low:high].tolist())
            yield TextFragment(sequence=sequence - first, text=text, trained=trained)
        start = fragment_end


def _training_runs(
    data: IndexedDataSet, start: int, end: int
) -> Iterator[tuple[int, int, bool | None]]:
    if data.masks is None:
        yield start, end, None
        return
    mask: Any = data.masks.tokens[start:end] != 0
    cuts = [start, *(np.flatnonzero(np.diff(mask)) + start + 1).tolist(), end]
    for low, high in itertools.pairwise(cuts):
        yield low, high, bool(mask[low - start])


SCANNED_TOKENS: Final = 1 << 30  # tokens that are counted one by one


@dataclass(frozen=True, kw_only=True, slots=True)
class EodUse:
    """Where the id stands that ends a document, in the tokens that were scanned."""

    id: int
    ends: int  # documents that end with it
    documents: int  # documents with tokens
    inside: int  # times that it stands before the end of a document


@dataclass(frozen=True, kw_only=True, slots=True)
class Omissions:
    """What of the source is not in the data set, as its facts tell it."""

    failed_files: int  # files that could not be read
    rejected: int  # rows that could not be tokenized
    filtered: int  # rows that the limits left out


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """What `inspect` found."""

    prefix: str
    # version, dtype, code: of the index: its version, the type of the ids and Megatron's code
    version: int
    dtype: str
    code: int
    documents: int
    empty_documents: int
    sequences: int
    tokens: int
    document_lengths: LengthFigures  # of all documents, the empty ones included, in tokens
    # of all sequences; None where every document has at most one
    sequence_lengths: LengthFigures | None
    packed: bool  # whether a document is a pack of texts
    scanned: int  # tokens, from the first, in which `eod` and `trained` were counted
    eod: EodUse | None  # None where no EOD id is known
    trained: int | None  # tokens that are trained on; None without loss masks
    tokenizer: str | None  # what decoded the samples; None = they are ids
    notes: tuple[str, ...]  # what was noticed
    left_out: Omissions | None  # what did not get into it; None where the facts do not tell
    meta: dict[str, Json]  # the facts of `PREFIX.meta.json`; of the files their number
    samples: tuple[DocumentSample, ...]


def inspect_data_set(
    prefix: Path, *, tokenizer: str | None = None, samples: int = 3, document: int | None = None
) -> Inspection:
    """Look into a data set."""
    data = open_data_set(prefix)
    tokens, files = data.tokens, data.meta.get("files")
    chosen = _choose_documents(data, samples, document)
    loaded, notes = open_tokenizer(data, tokenizer)
    scanned = min(int(tokens.tokens.size), SCANNED_TOKENS)
    several = any(
        bool((np.diff(stretch) > 1).any())
        for _, stretch in number_stretches(tokens.document_indices, overlap=1)
    )
    return Inspection(
        prefix=str(prefix),
        version=INDEX_VERSION,
        dtype=tokens.dtype.name,
        code=dtype_code(tokens),
        documents=tokens.documents,
        empty_documents=sum(int((stretch == 0).sum()) for stretch in document_token_counts(tokens)),
        sequences=len(tokens),
        tokens=int(tokens.tokens.size),
        document_lengths=measure_lengths(lambda: document_token_counts(tokens)),
        sequence_lengths=measure_lengths(lambda: (n for _, n in number_stretches(tokens.lengths)))
        if several
        else None,
        packed=data.packed,
        scanned=scanned,
        eod=_scan_eod(data, scanned, loaded),
        trained=_count_equal(data.masks.tokens[:scanned], 1) if data.masks else None,
        tokenizer=loaded.given if loaded else None,
        notes=tuple(notes),
        left_out=_read_omissions(data.meta),
        meta={**data.meta, "files": len(files)} if isinstance(files, list) else data.meta,
        samples=tuple(read_samples(data, chosen, loaded, whole=document is not None)),
    )


def _choose_documents(data: IndexedDataSet, samples: int, document: int | None) -> list[int]:
    count = data.tokens.documents
    if document is None:
        positions = np.linspace(0, count - 1, min(samples, count)).astype(int)
        return sorted({int(position) for position in positions})
    if not 0 <= document < count:
        problem, hint = f"no document {document}", f"there are {count:,}, from 0"
        raise ConversionError(str(data.prefix), problem, hint)
    return [document]


def open_tokenizer(
    data: IndexedDataSet, requested: str | None
) -> "tuple[TokenizerFile | None, list[str]]":
    """Return the tokenizer, and notes about it."""
    from ingot.converters.megatron.tokenizer import load_tokenizer

    digest = data.tokenizer.get("sha256")
    if requested:
        loaded = load_tokenizer(requested)
        if digest in (None, loaded.sha256):
            return loaded, []
        return loaded, [f"{requested} is not the tokenizer that the data set was built with"]
    name = str(data.tokenizer.get("file") or "")
    for path in (name, str(data.prefix.parent / name)):
        # It may be anybody's text; the check raises nothing, as `Path` would.
        if name and os.path.exists(path):  # noqa: PTH110
            with contextlib.suppress(ConversionError):
                loaded = load_tokenizer(path)
                if digest in (None, loaded.sha256):
                    return loaded, []
    return None, ["no tokenizer at hand: documents are shown as ids"]


def _read_omissions(meta: dict[str, Json]) -> Omissions | None:
    counts = meta.get("counts")
    names = ("failed_files", "rejected", "short", "long")
    values = [counts.get(name) for name in names] if isinstance(counts, dict) else []
    numbers = [number for number in values if type(number) is int]
    if len(numbers) < len(names):
        return None
    failed_files, rejected, short, long = numbers
    return Omissions(failed_files=failed_files, rejected=rejected, filtered=short + long)


def _scan_eod(data: IndexedDataSet, scanned: int, loaded: "TokenizerFile | None") -> EodUse | None:
    number = data.meta.get("eod_id")
    if number is None and loaded and "eod_id" not in data.meta:
        from ingot.converters.megatron.tokenizer import find_eod

        with contextlib.suppress(ConversionError):
            number = find_eod(loaded)
    if not isinstance(number, int):
        return None
    tokens = data.tokens
    ends = documents = 0
    for _, indices in number_stretches(tokens.document_indices, overlap=1):
        starts = sequence_starts(tokens, indices)
        last = starts[1:][np.diff(starts) > 0] - 1
        last = last[last < scanned]
        documents += len(last)
        ends += int((tokens.tokens[last] == number).sum())
    inside = _count_equal(tokens.tokens[:scanned], number) - ends
    return EodUse(id=number, ends=ends, documents=documents, inside=inside)


def _count_equal(numbers: IntegerArray, number: int) -> int:
    return sum(int(np.count_nonzero(stretch == number)) for _, stretch in number_stretches(numbers))


def data_set_facts(seen: Inspection) -> list[Cells]:
    """Return what a terminal shows of a data set, without lengths and samples."""
    empty = f", {seen.empty_documents:,} of them empty" if seen.empty_documents else ""
    return list_facts(
        {
            "data set": seen.prefix,
            "index": f"version {seen.version}, {seen.dtype} (code {seen.code})",
            "documents": f"{seen.documents:,}{empty}",
            "sequences": f"{seen.sequences:,}{', packed' if seen.packed else ''}",
            "tokens": f"{seen.tokens:,}",
            **_scanned_facts(seen),
            **_build_facts(seen),
        }
    )


def _scanned_facts(seen: Inspection) -> dict[str, str]:
    partly = f" (in the first {seen.scanned:,} tokens)" if seen.scanned < seen.tokens else ""
    share = (seen.trained or 0) / (seen.scanned or 1)
    return {
        "EOD": format_known(_eod_text, seen.eod) + (partly if seen.eod else ""),
        "trained": "" if seen.trained is None else f"{seen.trained:,} tokens, {share:.1%}{partly}",
    }


def _eod_text(eod: EodUse) -> str:
    text = f"id {eod.id} ends {eod.ends:,} of {eod.documents:,} documents with tokens"
    return f"{text}, {eod.inside:,} inside"


def _build_facts(seen: Inspection) -> dict[str, str | None]:
    """Return what `PREFIX.meta.json` says."""
    meta, out = seen.meta, seen.left_out
    columns = meta.get("columns")
    names = f": {', '.join(map(str, columns))}" if isinstance(columns, list) else ""
    failed = f", {out.failed_files:,} of them failed" if out and out.failed_files else ""
    return {
        "tokenizer": seen.tokenizer,
        "made of": f"{meta['kind']}{names}" if "kind" in meta else None,
        "files": f"{meta['files']}{failed}" if "files" in meta else None,
        "left out": format_known(_omissions_text, out),
        "options": _options_text(meta.get("options")),
    }


def _omissions_text(out: Omissions) -> str:
    return f"{out.rejected:,} rows rejected, {out.filtered:,} filtered by the limits"


def _options_text(options: Json) -> str:
    if not isinstance(options, dict):
        return ""
    usual = BuildOptions().to_document()
    text = [f"{key}={value}" for key, value in options.items() if value != usual.get(key)]
    return ", ".join(text) or "the defaults"
