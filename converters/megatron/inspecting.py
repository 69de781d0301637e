"""What is in a finished data set: its header, how long its documents are, what they say.

Memory does not grow with the data set. What has to be counted token by token (EODs, trained tokens)
is counted in the first `SCANNED` tokens, and the report says in how many.
"""

import contextlib
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.indexed import VERSION
from ingot.converters.megatron.lengths import Lengths, measure
from ingot.converters.megatron.showing import Sample, read_samples
from ingot.converters.megatron.structure import (
    DataSet,
    Numbers,
    document_lengths,
    dtype_code,
    open_data_set,
    starts,
    stretches,
)
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.converters.megatron.tokenizer import TokenizerFile

SCANNED: Final = 1 << 30  # tokens that are counted one by one


@dataclass(frozen=True, kw_only=True, slots=True)
class Eod:
    """Where the id stands that ends a document, in the tokens that were scanned.

    Attributes:
        id: the id.
        ends: documents that end with it.
        documents: documents with tokens.
        inside: times that it stands before the end of a document.
    """

    id: int
    ends: int
    documents: int
    inside: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """What of the source is not in the data set, as its facts tell it.

    Attributes:
        failed_files: files that could not be read.
        rejected: rows that could not be tokenized.
        filtered: rows that the limits left out.
    """

    failed_files: int
    rejected: int
    filtered: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """What `inspect` found.

    Attributes:
        prefix: the data set.
        version, dtype, code: of the index: its version, the type of the ids and Megatron's code.
        documents, empty_documents, sequences, tokens: counts.
        document_lengths: of all documents, the empty ones included, in tokens.
        sequence_lengths: of all sequences; None where every document has at most one.
        packed: whether a document is a pack of texts.
        scanned: tokens, from the first, in which `eod` and `trained` were counted.
        eod: None where no EOD id is known.
        trained: tokens that are trained on; None without loss masks.
        tokenizer: what decoded the samples; None = they are ids.
        notes: what was noticed.
        left_out: what did not get into it; None where the facts do not tell.
        meta: the facts of `PREFIX.meta.json`; of the files their number.
        samples: some documents.
    """

    prefix: str
    version: int
    dtype: str
    code: int
    documents: int
    empty_documents: int
    sequences: int
    tokens: int
    document_lengths: Lengths
    sequence_lengths: Lengths | None
    packed: bool
    scanned: int
    eod: Eod | None
    trained: int | None
    tokenizer: str | None
    notes: tuple[str, ...]
    left_out: LeftOut | None
    meta: dict[str, Json]
    samples: tuple[Sample, ...]

    def to_document(self) -> dict[str, Json]:
        """All of it as JSON."""
        return dataclasses.asdict(self)


def inspect(
    prefix: Path,
    *,
    tokenizer: str | None = None,
    samples: int = 3,
    document: int | None = None,
) -> Inspection:
    """Look into a data set.

    Args:
        prefix: where it lies, without the endings.
        tokenizer: what reads the ids; None = the one that its facts name, where it lies here or
            beside the data set and is the same.
        samples: documents to show, spread from the first to the last.
        document: the one to show in their place.

    Raises:
        ConversionError: the data set is broken, the tokenizer cannot be loaded, there is no such
            document.
    """
    data = open_data_set(prefix)
    tokens = data.tokens
    chosen = _chosen(data, samples, document)
    loaded, notes = _tokenizer(data, tokenizer)
    scanned = min(int(tokens.tokens.size), SCANNED)
    several = any(
        bool((np.diff(some) > 1).any()) for _, some in stretches(tokens.document_indices, overlap=1)
    )
    return Inspection(
        prefix=str(prefix),
        version=VERSION,
        dtype=tokens.dtype.name,
        code=dtype_code(tokens),
        documents=tokens.documents,
        empty_documents=sum(int((some == 0).sum()) for some in document_lengths(tokens)),
        sequences=len(tokens),
        tokens=int(tokens.tokens.size),
        document_lengths=measure(lambda: document_lengths(tokens)),
        sequence_lengths=measure(lambda: (n for _, n in stretches(tokens.lengths)))
        if several
        else None,
        packed=data.packed,
        scanned=scanned,
        eod=_eod(data, scanned, loaded),
        trained=_count(data.masks.tokens[:scanned], 1) if data.masks else None,
        tokenizer=loaded.given if loaded else None,
        notes=tuple(notes),
        left_out=_left_out(data.meta),
        meta=_facts(data.meta),
        samples=tuple(read_samples(data, chosen, loaded, whole=document is not None)),
    )


def _chosen(data: DataSet, samples: int, document: int | None) -> list[int]:
    there = data.tokens.documents
    if document is None:
        places = np.linspace(0, there - 1, min(samples, there)).astype(int)
        return sorted({int(place) for place in places})
    if not 0 <= document < there:
        problem, hint = f"no document {document}", f"there are {there:,}, from 0"
        raise ConversionError(str(data.prefix), problem, hint)
    return [document]


def _tokenizer(data: DataSet, given: str | None) -> "tuple[TokenizerFile | None, list[str]]":
    """The tokenizer, and what is to be said about it."""
    from ingot.converters.megatron.tokenizer import load_tokenizer

    facts = data.meta.get("tokenizer")
    facts = facts if isinstance(facts, dict) else {}
    stated = facts.get("sha256")
    if given:
        loaded = load_tokenizer(given)
        if stated in (None, loaded.sha256):
            return loaded, []
        return loaded, [f"{given} is not the tokenizer that the data set was built with"]
    named = str(facts.get("file") or "")
    for place in (named, str(data.prefix.parent / named)):
        if named and _is_here(place):
            with contextlib.suppress(ConversionError):
                loaded = load_tokenizer(place)
                if stated in (None, loaded.sha256):
                    return loaded, []
    return None, ["no tokenizer at hand: documents are shown as ids"]


def _is_here(named: str) -> bool:
    """Whether facts name a file or folder of this machine; they may be anybody's."""
    try:
        return Path(named).is_file() or Path(named).is_dir()
    except OSError:
        return False


def _facts(meta: dict[str, Json]) -> dict[str, Json]:
    files = meta.get("files")
    return {**meta, "files": len(files)} if isinstance(files, list) else meta


def _left_out(meta: dict[str, Json]) -> LeftOut | None:
    counts = meta.get("counts")
    names = ("failed_files", "rejected", "short", "long")
    told = [counts.get(name) for name in names] if isinstance(counts, dict) else []
    known = [number for number in told if type(number) is int]
    if len(known) < len(names):
        return None
    failed_files, rejected, short, long = known
    return LeftOut(failed_files=failed_files, rejected=rejected, filtered=short + long)


def _eod(data: DataSet, scanned: int, loaded: "TokenizerFile | None") -> Eod | None:
    number = data.meta.get("eod_id")
    if number is None and loaded and "eod_id" not in data.meta:
        number = _likely_eod(loaded)
    if not isinstance(number, int):
        return None
    tokens = data.tokens
    ends = documents = 0
    for _, indices in stretches(tokens.document_indices, overlap=1):
        places = starts(tokens, indices)
        last = places[1:][np.diff(places) > 0] - 1
        last = last[last < scanned]
        documents += len(last)
        ends += int((tokens.tokens[last] == number).sum())
    inside = _count(tokens.tokens[:scanned], number) - ends
    return Eod(id=number, ends=ends, documents=documents, inside=inside)


def _likely_eod(loaded: "TokenizerFile") -> int | None:
    from ingot.converters.megatron.tokenizer import find_eod

    try:
        return find_eod(loaded)
    except ConversionError:
        return None


def _count(numbers: Numbers, wanted: int) -> int:
    return sum(int(np.count_nonzero(some == wanted)) for _, some in stretches(numbers))
