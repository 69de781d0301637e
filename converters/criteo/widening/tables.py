"""The tables of a multi-hot conversion: in memory, or in files that are mapped into it."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.commit import encode, sync_tree, writing
from ingot.converters.criteo.widening.drawing import blocks, states
from ingot.converters.criteo.widening.parameters import Parameters
from ingot.converters.criteo.widening.room import check_room
from ingot.converters.errors import ConversionError, SourceError

Tables = list[NDArray[np.int32] | None]
"""[n, size] of each feature that is widened, column 0 the id itself; None of the others."""
_SAID: Final = "parameters.json"


def drawn(parameters: Parameters) -> Tables:
    """The tables, in memory.

    Raises:
        ConversionError: they do not fit into it.
    """
    tables: Tables = [None] * len(parameters.sizes)
    try:
        for place, state in states(parameters):
            rows, size = parameters.num_embeddings[place], parameters.sizes[place]
            table, at = np.empty((rows, size), np.int32), 0
            for block in blocks(state, rows, size, parameters.distribution):
                table[at : at + len(block)] = block
                at += len(block)
            tables[place] = table
    except MemoryError as error:
        said = f"the tables take {parameters.table_bytes / 1e9:,.1f} GB of memory, and are too much"
        raise ConversionError("", said, "give a folder to keep them in") from error
    return tables


def kept(parameters: Parameters, folder: Path) -> Tables:
    """The tables, mapped from files that are made where they are not there yet.

    They lie in a folder of their own below `folder`, named after the parameters: those of several
    conversions do not meet. Who comes while another makes them waits for it.

    Raises:
        OutputError: the files cannot be written.
        SourceError: what lies there is damaged.
    """
    place = folder / f"multihot-{parameters.digest()[:16]}"
    if not place.exists():
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(folder / f".{place.name}.lock"):
                if not place.exists():
                    _make(parameters, place)
    return [
        _opened(place / _name(at), (rows, size)) if size > 1 else None
        for at, (rows, size) in enumerate(
            zip(parameters.num_embeddings, parameters.sizes, strict=True)
        )
    ]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait for the lock; the operating system frees it when its holder dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(parameters: Parameters, place: Path) -> None:
    unfinished = place.with_name(f".{place.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    check_room(place.parent, parameters.table_bytes, "tables")
    try:
        unfinished.mkdir()
        for at, state in states(parameters):
            with (unfinished / _name(at)).open("wb") as file:
                _write(file, parameters, at, state)
        (unfinished / _SAID).write_bytes(encode(parameters.to_json()))
        sync_tree(unfinished)
        unfinished.rename(place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(
    file: BinaryIO, parameters: Parameters, place: int, state: np.random.RandomState
) -> None:
    rows, size = parameters.num_embeddings[place], parameters.sizes[place]
    header = {"descr": "<i4", "fortran_order": False, "shape": (rows, size)}
    np.lib.format.write_array_header_1_0(file, header)
    for block in blocks(state, rows, size, parameters.distribution):
        file.write(block.astype("<i4", copy=False).data)


def _name(place: int) -> str:
    return f"table_{place}.npy"


def _opened(path: Path, shape: tuple[int, int]) -> NDArray[np.int32]:
    # Copy on write, and nobody writes: torch wants to be able to.
    try:
        table: NDArray[np.int32] = np.lib.format.open_memmap(path, "c")
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    if table.shape != shape or table.dtype != np.dtype("<i4"):
        raise _damaged(path, f"{table.dtype} of shape {table.shape}")
    return table


def _damaged(path: Path, said: str) -> SourceError:
    hint = f"delete {path.parent}: it is made again"
    return SourceError(str(path), f"is no table of these parameters: {said}", hint)
