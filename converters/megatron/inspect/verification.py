"""Verify a finished data set: in itself, and against the data that it was made of.

In itself: files and index fit together, every id is in the vocabulary, masks are 0 or 1. Against
the data: documents drawn at random are made once more from their rows and compared id by id.
"""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.megatron.chat.loss_masks import LossMasker
from ingot.converters.megatron.chat.templates import load_template
from ingot.converters.megatron.documents import (
    NEW_DOCUMENT,
    DocumentRules,
    ShapedDocuments,
    Shard,
)
from ingot.converters.megatron.engines.engine import Engine, open_reference
from ingot.converters.megatron.indexed_dataset import (
    WRITTEN_CODES,
    IndexedDataSet,
    IntegerArray,
    Tokens,
    index_paths,
    mask_prefix,
    number_stretches,
    open_data_set,
)
from ingot.converters.megatron.options import BuildOptions
from ingot.converters.megatron.read.input_files import InputFile, InputLayout, Unit, stamp_files
from ingot.converters.megatron.read.preparation import Preparer
from ingot.converters.megatron.read.row_batches import read_rows
from ingot.converters.megatron.run.pipeline import tokenize_shard

if TYPE_CHECKING:
    from ingot.converters.megatron.tokenizer import TokenizerFile


_BATCH_ROWS: Final = 4_096

StoredSequence: TypeAlias = tuple[Tokens, npt.NDArray[np.uint8] | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """A file of the source, and the documents that are its own."""

    name: str  # relative to the source
    first: int  # its first document in the data set
    documents: int
    bytes: int | None  # its size when it was read; None = not known


@dataclass(frozen=True, kw_only=True, slots=True)
class RemadeDocument:
    """A document as its source gives it."""

    row: int | None  # its first row in the file; None where it is not known
    sequences: list[StoredSequence]  # ids and mask of each of its sequences
    problem: str | None = None  # why there is none


@dataclass(frozen=True, kw_only=True, slots=True)
class RawSource:
    """The raw data of a data set, and the way it was built."""

    data: IndexedDataSet
    folder: Path  # where the files lie; or the only file
    preparer: Preparer
    rules: DocumentRules
    engine: Engine  # the reference
    masker: LossMasker | None  # makes loss masks; None = there are none

    def remake(
        self, file: SourceFile, chosen: npt.NDArray[np.int64]
    ) -> Iterator[tuple[int, RemadeDocument]]:
        """Yield the chosen documents of a file, made again from its rows."""
        input_file, numbers = self._locate_documents(file), set(chosen.tolist())
        if self.data.packed:
            yield from self._packs(input_file, chosen)
            return
        # Where the counts differ, tokens decide which ones are in the data set: all are made.
        complete = sum(1 for _ in self._documents(input_file)) == file.documents
        number = file.first
        for document in self._documents(input_file):
            if not complete or number in numbers:
                remade = self._remake_document(document, file.name)
                if remade is None and not complete:
                    continue
                if number in numbers:
                    row = int(document.rows[0])
                    left_out = RemadeDocument(row=row, sequences=[], problem="is left out")
                    yield number, remade or left_out
            number += 1
        if (count := number - file.first) != file.documents:
            problem = f"{file.documents:,} documents from this file, which gives {count:,}"
            yield file.first, RemadeDocument(row=None, sequences=[], problem=problem)

    def _locate_documents(self, file: SourceFile) -> InputFile:
        relative = PurePosixPath(file.name)
        if relative.is_absolute() or ".." in relative.parts:
            meta_path = str(index_paths(self.data.prefix)[2])
            raise ConversionError(
                meta_path, f"{file.name!r} is not a file of a source", "build it again"
            )
        path = self.folder if self.folder.is_file() else self.folder / relative
        if not path.is_file():
            hint = "give the folder of the input as `source`"
            raise SourceError(str(path), "cannot be read: no such file", hint)
        input_file = replace(stamp_files([path])[0], name=file.name)
        if file.bytes not in (None, input_file.bytes):
            problem = (
                f"{input_file.bytes:,} bytes, {file.bytes:,} when the data set was built from it"
            )
            raise ConversionError(str(path), problem, "verify against the data as it was")
        return input_file

    def _documents(self, file: InputFile) -> Iterator[Shard]:
        """Yield each document before it is tokenized, as a shard of its own."""
        unit = Unit(number=0, file=0, row_groups=None, first_row=0, bytes=file.bytes)
        rows = read_rows(file, unit, self.preparer.layout, batch_size=_BATCH_ROWS)
        for shard in self.preparer.prepare(file.name, rows):
            yield from _split_shard(shard)

    def _remake_document(self, document: Shard, name: str) -> RemadeDocument | None:
        shard = tokenize_shard(document, name, self.engine, self.masker, self.rules)
        documents = shard.documents
        if documents is None or not len(documents.sizes):
            return None
        return RemadeDocument(row=int(document.rows[0]), sequences=_document_sequences(documents))

    def _packs(
        self, file: InputFile, chosen: npt.NDArray[np.int64]
    ) -> Iterator[tuple[int, RemadeDocument]]:
        """Packs say nothing of rows: each of their texts has to be one that the file gives."""
        digests = {
            _sequence_digest(sequence)
            for document in self._documents(file)
            if (remade := self._remake_document(document, file.name))
            for sequence in remade.sequences
        }
        for number in chosen.tolist():
            stored = list(stored_sequences(self.data, number))
            strange = [n for n, one in enumerate(stored) if _sequence_digest(one) not in digests]
            problem = f"sequence {strange[0]} is not a text of the file" if strange else None
            yield number, RemadeDocument(row=None, sequences=stored, problem=problem)


def stored_sequences(data: IndexedDataSet, number: int) -> Iterator[StoredSequence]:
    """Yield ids and mask of each sequence of a document, as stored in the data set."""
    first, end = data.tokens.document_indices[number : number + 2]
    for sequence in range(int(first), int(end)):
        yield data.tokens[sequence], None if data.masks is None else data.masks[sequence]


def _split_shard(shard: Shard) -> Iterator[Shard]:
    starts = np.arange(len(shard.texts))
    if shard.kinds is not None:
        starts = np.flatnonzero(shard.kinds == NEW_DOCUMENT)
    for start, end in itertools.pairwise([*starts.tolist(), len(shard.texts)]):
        yield shard.slice(start, end)


def _document_sequences(documents: ShapedDocuments) -> list[StoredSequence]:
    cuts = np.cumsum(documents.lengths)[:-1]
    tokens = np.split(documents.tokens, cuts) if len(documents.lengths) else []
    masks = itertools.repeat(None) if documents.mask is None else np.split(documents.mask, cuts)
    return list(zip(tokens, masks, strict=False))


def _sequence_digest(sequence: StoredSequence) -> bytes:
    ids, mask = sequence
    return hashlib.sha256(ids.tobytes() + (b"" if mask is None else mask.tobytes())).digest()


def open_source(data: IndexedDataSet, folder: Path, loaded: "TokenizerFile") -> RawSource:
    """Open the raw data of a data set, read as its facts say that it was built."""
    meta_path, meta = str(index_paths(data.prefix)[2]), data.meta
    try:
        options = BuildOptions.from_document(meta["options"])
        ids = [*meta["bos"], *meta["eos"], 0 if meta["eod_id"] is None else meta["eod_id"]]
        if meta["dtype"] not in WRITTEN_CODES or not all(type(n) is int and n >= 0 for n in ids):
            raise TypeError(f"dtype {meta['dtype']!r:.40}, ids {ids!r:.80}")
        layout = InputLayout(kind=meta["kind"], columns=tuple(meta["columns"]))
        rules = DocumentRules.from_options(
            options,
            dtype=meta["dtype"],
            bos=tuple(meta["bos"]),
            eos=tuple(meta["eos"]),
            eod=meta["eod_id"],
            chat=layout.kind == "sft",
        )
        template = load_template(options.chat_template, loaded) if rules.chat else None
        template_digest = meta["chat_template"]["sha256"] if rules.chat else None
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"does not say how the data set was built: {error}"
        raise ConversionError(meta_path, problem, "verify what ingot built itself") from error
    if template is not None and template.sha256 != template_digest:
        raise ConversionError(meta_path, "its chat template is another one now", "put it back")
    return RawSource(
        data=data,
        folder=folder,
        preparer=Preparer(layout=layout, options=options, template=template),
        rules=rules,
        engine=open_reference(loaded, plain=options.plain),
        masker=LossMasker(loaded, plain=options.plain) if data.masks else None,
    )


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


def verify_data_set(
    prefix: Path,
    source: Path,
    tokenizer: str,
    *,
    samples: int | None = DEFAULT_SAMPLES,
    seed: int = 0,
) -> Verification:
    """Check a data set."""
    from ingot.converters.megatron.tokenizer import load_tokenizer

    data = open_data_set(prefix)
    loaded = load_tokenizer(tokenizer)
    digest = data.tokenizer.get("sha256")
    if digest not in (None, loaded.sha256):
        other = f"built with another tokenizer than {loaded.given}"
        raise ConversionError(str(prefix), other, f"name the one with sha256 {digest}")
    check_tokens(data, loaded.largest_id)
    files, failed = _source_files(data)
    chosen = _draw_documents(data.tokens.documents, samples, seed)
    raw = open_source(data, source, loaded)
    differences: list[DocumentDifference] = []
    read = differing = 0
    for file in files:
        in_file = chosen[(chosen >= file.first) & (chosen < file.first + file.documents)]
        if not len(in_file):
            continue
        read += 1
        for number, remade in raw.remake(file, in_file):
            problem = remade.problem or _first_difference(data, number, remade.sequences)
            differing += problem is not None
            if problem is not None and len(differences) < _REPORTED:
                row, name = remade.row, file.name
                difference = DocumentDifference(
                    document=number, file=name, row=row, problem=problem
                )
                differences.append(difference)
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
    bounds = [(data.prefix, data.tokens.tokens, largest_id, "id")]
    if data.masks is not None:
        bounds.append((mask_prefix(data.prefix), data.masks.tokens, 1, "mask"))
    for prefix, numbers, largest, name in bounds:
        for first, stretch in number_stretches(numbers):
            wrong = (stretch < 0) | (stretch > largest)
            if wrong.any():
                index = int(wrong.argmax())
                problem = (
                    f"{name} {stretch[index]} at token {first + index:,}, the largest is {largest}"
                )
                hint = "build the tokens again, or name the tokenizer they are from"
                raise ConversionError(str(index_paths(prefix)[0]), problem, hint)


def _source_files(data: IndexedDataSet) -> tuple[list[SourceFile], int]:
    """The files of the source in order, and how many more failed and gave no documents."""
    meta_path = str(index_paths(data.prefix)[2])
    entries = data.meta.get("files")
    if not isinstance(entries, list):
        problem = "does not say which documents are from which file"
        hint = "verify what ingot built itself, before it was merged"
        raise ConversionError(meta_path, problem, hint)
    read = [one for one in entries if not (isinstance(one, dict) and one.get("status") == "failed")]
    files, first = [], 0
    for one in read:
        try:
            name, count, size = str(one["path"]), int(one["documents"]), one.get("bytes")
        except (TypeError, KeyError, ValueError) as error:
            raise ConversionError(meta_path, f"files: {one!r:.100}", "build it again") from error
        files.append(SourceFile(name=name, first=first, documents=count, bytes=size))
        first += count
    if first != data.tokens.documents:
        problem = f"tells of {first:,} documents, the index holds {data.tokens.documents:,}"
        raise ConversionError(meta_path, problem, "build it again")
    return files, len(entries) - len(read)


def _draw_documents(documents: int, samples: int | None, seed: int) -> npt.NDArray[np.int64]:
    if samples is None or samples >= documents:
        return np.arange(documents)
    numbers = np.random.default_rng(seed).choice(documents, samples, replace=False)
    return np.sort(numbers)


def _first_difference(
    data: IndexedDataSet, document: int, expected: Sequence[tuple[IntegerArray, Any]]
) -> str | None:
    stored = list(stored_sequences(data, document))
    if len(stored) != len(expected):
        return f"{len(stored)} sequences, {len(expected)} expected"
    for number, (ours, theirs) in enumerate(zip(stored, expected, strict=True)):
        if len(ours[0]) != len(theirs[0]):
            return f"sequence {number}: {len(ours[0])} tokens, {len(theirs[0])} expected"
        for name, actual, required in zip(("id", "mask"), ours, theirs, strict=True):
            if actual is not None and required is not None and (actual != required).any():
                index = int((actual != required).argmax())
                position = f"sequence {number}, token {index}"
                return f"{position}: {name} {actual[index]}, {required[index]} expected"
    return None
