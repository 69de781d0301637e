"""A finished data set with its loss masks and its facts, opened only if the parts fit together.

Everything is looked through in stretches: memory does not grow with the data set, whose index alone
may be gigabytes.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.indexed import DTYPES, HEADER_BYTES, IndexedReader, index_paths
from ingot.converters.rows import Json

STRETCH: Final = 1 << 20  # numbers that are looked at together

Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """A data set that holds together.

    Attributes:
        prefix: its place, without the endings.
        tokens: the ids.
        masks: the loss masks, 1 = trained, of the same shape; None where there are none.
        meta: what `PREFIX.meta.json` holds; {} without it.
    """

    prefix: Path
    tokens: IndexedReader
    masks: IndexedReader | None
    meta: dict[str, Json]

    @property
    def packed(self) -> bool:
        """Whether a document is a pack, whose sequences are texts of their own."""
        options = self.meta.get("options")
        return bool(isinstance(options, dict) and options.get("pack"))


def mask_prefix(prefix: Path) -> Path:
    """Where the loss masks of a data set lie."""
    return prefix.with_name(prefix.name + ".loss_mask")


def open_data_set(prefix: Path) -> DataSet:
    """Open a data set and check every number of its index.

    Raises:
        ConversionError: a file is missing, cut or of another kind, sequences do not lie one after
            another, documents go backwards, or the masks are of another shape than the tokens.
    """
    tokens = IndexedReader(prefix)
    if tokens.dtype.kind not in "iu":
        raise _broken(index_paths(prefix)[1], f"{tokens.dtype.name} numbers are no token ids")
    check_index(prefix, tokens)
    masks = None
    if any(path.exists() for path in index_paths(mask_prefix(prefix))[:2]):
        masks = IndexedReader(mask_prefix(prefix))
        check_index(mask_prefix(prefix), masks)
        _check_shape(prefix, tokens, masks)
    return DataSet(prefix=prefix, tokens=tokens, masks=masks, meta=read_meta(prefix))


def read_meta(prefix: Path) -> dict[str, Json]:
    """What `PREFIX.meta.json` holds; {} where there is none, as beside what other tools wrote.

    Raises:
        ConversionError: it cannot be read, or is no JSON object.
    """
    path = index_paths(prefix)[2]
    if not path.is_file():
        return {}
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConversionError(str(path), f"not JSON: {error}", "mend or remove it") from error
    if not isinstance(document, dict):
        raise ConversionError(str(path), "not a JSON object", "mend or remove it")
    return document


def stretches(numbers: Numbers, *, overlap: int = 0) -> Iterator[tuple[int, Numbers]]:
    """Views of at most `STRETCH` numbers, each with its place and `overlap` numbers of the next."""
    for start in range(0, len(numbers) - overlap, STRETCH):
        yield start, numbers[start : start + STRETCH + overlap]


def starts(tokens: IndexedReader, sequences: Numbers) -> npt.NDArray[np.int64]:
    """Where sequences start in the `.bin`, in tokens; one past the last starts at the end."""
    if not len(tokens):
        return np.zeros(len(sequences), np.int64)
    places = tokens.offsets[np.minimum(sequences, len(tokens) - 1)] // tokens.dtype.itemsize
    return np.where(sequences == len(tokens), tokens.tokens.size, places).astype(np.int64)


def document_lengths(tokens: IndexedReader) -> Iterator[npt.NDArray[np.int64]]:
    """Tokens per document, in stretches."""
    for _, indices in stretches(tokens.document_indices, overlap=1):
        yield np.diff(starts(tokens, indices))


def check_index(prefix: Path, tokens: IndexedReader) -> None:
    """Check every number of an index.

    Raises:
        ConversionError: sequences do not lie one after another, or documents go backwards.
    """
    path = index_paths(prefix)[1]
    end = 0
    for place, lengths in stretches(tokens.lengths):
        ends = np.cumsum(lengths, dtype=np.int64) * tokens.dtype.itemsize + end
        expected = np.concatenate([[end], ends[:-1]])
        wrong = (lengths < 0) | (tokens.offsets[place : place + len(lengths)] != expected)
        _refuse(path, wrong, place, "sequence {} does not begin where the one before it ends")
        end = int(ends[-1])
    if tokens.document_indices[0] != 0:
        raise _broken(path, "the first document does not begin with the first sequence")
    for place, indices in stretches(tokens.document_indices, overlap=1):
        _refuse(path, np.diff(indices) < 0, place, "document {} ends before it begins")


def _check_shape(prefix: Path, tokens: IndexedReader, masks: IndexedReader) -> None:
    path = index_paths(mask_prefix(prefix))[1]
    if masks.dtype != np.uint8:
        raise _broken(path, f"loss masks of type {masks.dtype.name}, uint8 expected")
    parts: tuple[tuple[str, Callable[[IndexedReader], Numbers]], ...] = (
        ("sequence", lambda reader: reader.lengths),
        ("document", lambda reader: reader.document_indices),
    )
    for name, part in parts:
        ours, theirs = part(masks), part(tokens)
        if len(ours) != len(theirs):
            raise _broken(path, f"another number of {name}s than the tokens")
        for place, numbers in stretches(ours):
            wrong = numbers != theirs[place : place + len(numbers)]
            _refuse(path, wrong, place, f"{name} {{}} is not that of the tokens")


def _refuse(path: Path, wrong: npt.NDArray[np.bool_], place: int, problem: str) -> None:
    if wrong.any():
        raise _broken(path, problem.format(place + int(wrong.argmax())))


def _broken(path: Path, problem: str) -> ConversionError:
    return ConversionError(str(path), problem, "build the tokens again")


def index_bytes(tokens: IndexedReader) -> int:
    """Size of an `.idx` that holds these sequences and documents and nothing else."""
    return HEADER_BYTES + 12 * len(tokens) + 8 * len(tokens.document_indices)


def dtype_code(tokens: IndexedReader) -> int:
    """Megatron's code of the type of the ids."""
    return next(code for code, name in DTYPES.items() if np.dtype(name) == tokens.dtype)
