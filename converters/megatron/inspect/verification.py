"""Verify a finished data set: in itself, and against the data that it was made of.

In itself: files and index fit together, every id is in the vocabulary, masks are 0 or 1. Against
the data: documents drawn at random are made once more from their rows and compared id by id.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.indexed_dataset import (
    IndexedDataSet,
    IntegerArray,
    index_paths,
    mask_prefix,
    number_stretches,
    open_data_set,
)
from ingot.converters.megatron.inspect.source_documents import (
    RemadeDocument,
    SourceFile,
    open_source,
    stored_sequences,
)
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.converters.megatron.tokenizer.tokenizer import TokenizerFile

DEFAULT_SAMPLES: Final = 200
_REPORTED: Final = 20  # differences that are told one by one


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentDifference:
    """A document that is not what its source gives."""

    document: int
    file: str  # of the source
    row: int | None  # in that file, from 0; None where it is not known (packs)
    problem: str  # what differs


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What was checked and found."""

    # documents, sequences, tokens: of the data set, all of them checked in themselves
    documents: int
    sequences: int
    tokens: int
    compared: int  # documents that were made once more
    files: int  # files of the source that were read for it
    # files that the build could not read: they gave no documents, and none of them was looked at
    failed_files: int
    masked: bool  # whether loss masks were compared, too
    differing: int  # documents that differ
    differences: tuple[DocumentDifference, ...]  # the first of them

    def to_document(self) -> dict[str, Json]:
        """All of it as JSON."""
        return asdict(self)


def verify_data_set(
    prefix: Path,
    source: Path,
    tokenizer: str,
    *,
    samples: int | None = DEFAULT_SAMPLES,
    seed: int = 0,
) -> Verification:
    """Check a data set."""
    from ingot.converters.megatron.tokenizer.tokenizer import load_tokenizer

    data = open_data_set(prefix)
    loaded = load_tokenizer(tokenizer)
    _check_tokenizer(data, loaded)
    check_tokens(data, loaded.largest_id)
    files, failed = _source_files(data)
    chosen = _draw_documents(data.tokens.documents, samples, seed)
    raw = open_source(data, source, loaded)
    differences: list[DocumentDifference] = []
    read = differing = 0
    for file in files:
        own = chosen[(chosen >= file.first) & (chosen < file.first + file.documents)]
        if not len(own):
            continue
        read += 1
        for number, remade in raw.remake(file, own):
            found = _compare_document(data, number, file.name, remade)
            differing += found is not None
            if found is not None and len(differences) < _REPORTED:
                differences.append(found)
    return Verification(
        documents=data.tokens.documents,
        sequences=len(data.tokens),
        tokens=int(data.tokens.tokens.size),
        compared=len(chosen),
        files=read,
        failed_files=failed,
        masked=data.masks is not None,
        differing=differing,
        differences=tuple(differences),
    )


def check_tokens(data: IndexedDataSet, largest_id: int) -> None:
    """Check every id, and every byte of the masks."""
    bounds: list[tuple[Path, IntegerArray, int, str]] = [
        (data.prefix, data.tokens.tokens, largest_id, "id")
    ]
    if data.masks is not None:
        bounds.append((mask_prefix(data.prefix), data.masks.tokens, 1, "mask"))
    for prefix, numbers, most, name in bounds:
        for place, some in number_stretches(numbers):
            wrong = (some < 0) | (some > most)
            if wrong.any():
                at = int(wrong.argmax())
                problem = f"{name} {some[at]} at token {place + at:,}, the largest is {most}"
                hint = "build the tokens again, or name the tokenizer they are from"
                raise ConversionError(str(index_paths(prefix)[0]), problem, hint)


def _check_tokenizer(data: IndexedDataSet, loaded: "TokenizerFile") -> None:
    facts = data.meta.get("tokenizer")
    stated = facts.get("sha256") if isinstance(facts, dict) else None
    if stated not in (None, loaded.sha256):
        problem = f"built with another tokenizer than {loaded.given}"
        raise ConversionError(str(data.prefix), problem, f"name the one with sha256 {stated}")


def _source_files(data: IndexedDataSet) -> tuple[list[SourceFile], int]:
    """The files of the source in order, and how many more failed and gave no documents."""
    where = str(index_paths(data.prefix)[2])
    told = data.meta.get("files")
    if not isinstance(told, list):
        problem = "does not say which documents are from which file"
        hint = "verify what ingot built itself, before it was merged"
        raise ConversionError(where, problem, hint)
    read = [one for one in told if not (isinstance(one, dict) and one.get("status") == "failed")]
    files, first = [], 0
    for one in read:
        try:
            name, count, size = str(one["path"]), int(one["documents"]), one.get("bytes")
        except (TypeError, KeyError, ValueError) as error:
            raise ConversionError(where, f"files: {one!r:.100}", "build it again") from error
        files.append(SourceFile(name=name, first=first, documents=count, bytes=size))
        first += count
    if first != data.tokens.documents:
        problem = f"tells of {first:,} documents, the index holds {data.tokens.documents:,}"
        raise ConversionError(where, problem, "build it again")
    return files, len(told) - len(read)


def _draw_documents(documents: int, samples: int | None, seed: int) -> npt.NDArray[np.int64]:
    if samples is None or samples >= documents:
        return np.arange(documents)
    drawn = np.random.default_rng(seed).choice(documents, samples, replace=False)
    return np.sort(drawn)


def _compare_document(
    data: IndexedDataSet, number: int, file: str, remade: RemadeDocument
) -> DocumentDifference | None:
    problem = remade.problem
    if problem is None:
        problem = _first_difference(list(stored_sequences(data, number)), remade.sequences)
    if problem is None:
        return None
    return DocumentDifference(document=number, file=file, row=remade.row, problem=problem)


def _first_difference(
    stored: Sequence[tuple[IntegerArray, Any]], expected: Sequence[tuple[IntegerArray, Any]]
) -> str | None:
    if len(stored) != len(expected):
        return f"{len(stored)} sequences, {len(expected)} expected"
    for number, (ours, theirs) in enumerate(zip(stored, expected, strict=True)):
        if len(ours[0]) != len(theirs[0]):
            return f"sequence {number}: {len(ours[0])} tokens, {len(theirs[0])} expected"
        for name, own, wanted in zip(("id", "mask"), ours, theirs, strict=True):
            if own is not None and wanted is not None and (own != wanted).any():
                at = int((own != wanted).argmax())
                place = f"sequence {number}, token {at}"
                return f"{place}: {name} {own[at]}, {wanted[at]} expected"
    return None
