"""A data set put together from the lanes: tokens in the order of the units, index, names."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ingot.converters.commit import encode, sync, writing
from ingot.converters.megatron.indexed import (
    MASK_CODE,
    WRITTEN,
    IndexCounts,
    TokenDtype,
    index_paths,
    write_index,
)
from ingot.converters.megatron.journal import Stretch, blocks, lane_file, lanes_of, read_journal
from ingot.converters.megatron.staging import Staging
from ingot.converters.megatron.structure import mask_prefix
from ingot.converters.rows import Json

_COPY_BYTES: Final = 8 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Spooled:
    """The numbers of one kind in all stretches, in the order of the units; see `Numbers`."""

    base: Path
    kind: str
    stretches: tuple[Stretch, ...]

    def __iter__(self) -> Iterator[np.ndarray[Any, np.dtype[np.int32]]]:
        """The numbers as int32, block by block."""
        for stretch in self.stretches:
            start, end = stretch.spans[self.kind]
            path = lane_file(self.base, stretch.lane, self.kind)
            yield from (np.frombuffer(block, "<i4") for block in blocks(path, start, end))


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembled:
    """What is ready to take its names.

    Attributes:
        renames: files and their names, the `.idx` last.
        counts: of the data set.
    """

    renames: tuple[tuple[Path, Path], ...]
    counts: IndexCounts


def finished_units(base: Path) -> dict[int, Stretch]:
    """All units that are finished in any lane."""
    return {
        number: stretch
        for lane in lanes_of(base)
        for number, stretch in read_journal(base, lane).stretches.items()
    }


def total(stretches: Sequence[Stretch]) -> Counter[str]:
    """The counts of several units together."""
    counts: Counter[str] = Counter()
    for stretch in stretches:
        counts.update(stretch.facts)
    return counts


def assemble(
    place: Staging,
    stretches: Sequence[Stretch],
    dtype: TokenDtype,
    *,
    masks: bool,
    rejects: Path,
) -> Assembled:
    """Bring the stretches of the lanes together; everything is on the disk afterwards.

    Args:
        place: where they lie.
        stretches: those that belong to the data set, in order.
        dtype: of the tokens.
        masks: whether there are loss masks.
        rejects: what the file of rejects is going to be called.

    Raises:
        OutputError: something cannot be written.
    """
    bin_path, idx_path, _ = index_paths(place.prefix)
    renames = []
    with writing(place.prefix):
        renames.append((_gathered(place, stretches, "bin"), bin_path))
        lengths, documents = (
            Spooled(base=place.base, kind=kind, stretches=tuple(stretches))
            for kind in ("lengths", "documents")
        )
        counts = write_index(place.file("idx"), WRITTEN[dtype], lengths, documents)
        if masks:
            mask_bin, mask_idx, _ = index_paths(mask_prefix(place.prefix))
            renames.append((_gathered(place, stretches, "mask"), mask_bin))
            write_index(place.file("mask_idx"), MASK_CODE, lengths, documents)
            renames.append((place.file("mask_idx"), mask_idx))
        if any(_size(stretch, "rejects") for stretch in stretches):
            renames.append((_gathered(place, stretches, "rejects"), rejects))
    return Assembled(renames=(*renames, (place.file("idx"), idx_path)), counts=counts)


def commit(
    place: Staging,
    assembled: Assembled,
    *,
    meta: dict[str, Json],
    run: dict[str, Json],
    run_file: Path,
) -> None:
    """Write the two documents, then give everything its name.

    Raises:
        OutputError: something cannot be written.
    """
    _, idx_path, meta_path = index_paths(place.prefix)
    *first, last = assembled.renames
    with writing(place.prefix):
        for kind, document in (("meta", meta), ("run", run)):
            # As it is, for the order of the files is part of what was built.
            place.file(kind).write_bytes(encode(document, sort_keys=kind == "meta"))
            sync(place.file(kind))
    documents = [(place.file("run"), run_file), (place.file("meta"), meta_path)]
    mask_bin, mask_idx, _ = index_paths(mask_prefix(place.prefix))
    rejects = place.prefix.with_name(f"{place.prefix.name}.rejects.jsonl")
    place.commit([*first, *documents, last], [idx_path, mask_idx, mask_bin, rejects])


def _size(stretch: Stretch, kind: str) -> int:
    start, end = stretch.spans[kind]
    return end - start


def _gathered(place: Staging, stretches: Sequence[Stretch], kind: str) -> Path:
    """One file of all stretches: the first lane's own where that is it already."""
    own = lane_file(place.base, 0, kind)
    spans = [(stretch.lane, *stretch.spans[kind]) for stretch in stretches if _size(stretch, kind)]
    if _is_whole(spans, own.stat().st_size if own.exists() else 0):
        sync(own)
        return own
    merged = place.file(f"merged_{kind}")
    with merged.open("wb") as out:
        for lane, start, end in spans:
            with lane_file(place.base, lane, kind).open("rb") as source:
                copy_stretch(source.fileno(), out.fileno(), start, end - start)
    sync(merged)
    return merged


def _is_whole(spans: Sequence[tuple[int, int, int]], size: int) -> bool:
    reached = 0
    for lane, start, end in spans:
        if lane or start != reached:
            return False
        reached = end
    return reached == size


def copy_stretch(source: int, out: int, start: int, size: int) -> None:
    """Append a stretch of one open file to another, inside the kernel where it can do that."""
    while size:
        try:
            done = os.copy_file_range(source, out, min(size, _COPY_BYTES), offset_src=start)
        except OSError:
            done = os.write(out, os.pread(source, min(size, _COPY_BYTES), start))
        if not done:
            raise OSError(f"{size} bytes are missing")
        start, size = start + done, size - done
