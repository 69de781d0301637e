"""The shards of a job: which files, or which pieces of a file, are converted together.

Neighbours stand together up to `SHARD_BYTES` (as stored), a larger file alone, and a plain local
file of lines in pieces of that size, for which it is read once before, to count its rows.
"""

import hashlib
import os
import time
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Final

import numpy as np

from ingot.converters.json_yaml import load_json
from ingot.converters.output.files import (
    InputEntry,
    LockedError,
    encode_json,
    hold_lock,
    write_file,
)
from ingot.converters.output.sharding import JobShard
from ingot.converters.sources import Source, SourceFile
from ingot.converters.sources.facts import FilePiece, SourceSpec, hash_input, input_entry
from ingot.converters.sources.formats.text import is_utf8, read_blocks
from ingot.converters.sources.storage.archives import TarMember
from ingot.converters.sources.storage.listing import LocalFile

SHARD_BYTES = 64 << 20
PLAN: Final = "plan-"
_WAIT_SECONDS: Final = 0.2
_BLOCK: Final = 4 << 20


def plan_shards(
    source: Source, *, cut: bool = True, shard: JobShard | None = None, work: Path | None = None
) -> list[tuple[SourceFile, ...]]:
    """Return the files of each shard, in order; large ones in pieces if `cut`.

    Raises SourceError. With `work`, the parts of a job share the counting of rows in large files:
    each file is counted once.
    """
    known: dict[str, list[SourceFile]] = {}
    if cut and work is not None:
        known = _cut_together(source, shard or JobShard(), work)
    pieces = (
        known.get(file.name) or (_cut_lines(file, source.spec) if cut else [file])
        for file in source.files
    )
    shards: list[list[SourceFile]] = []
    size = 0
    for file in chain.from_iterable(pieces):
        fits = shards and not file.piece and size + file.bytes <= SHARD_BYTES
        if not fits and not (shards and _continues_archive(shards[-1][-1], file)):
            shards.append([])
            size = 0
        shards[-1].append(file)
        size += file.bytes
    return [tuple(shard) for shard in shards]


def stored_bytes(file: SourceFile) -> int:
    """Return the size in bytes of a file, or of a piece of it."""
    return file.piece.size if file.piece else file.bytes


@contextmanager
def hash_cut_files(shards: Sequence[tuple[SourceFile, ...]]) -> Iterator[dict[str, Future[str]]]:
    """Hash the files that are cut beside their conversion: the SHA-256 by name, in the block."""
    cut = [files[0] for files in shards if files[0].piece and files[0].piece.start == 0]
    stopped = Event()
    with ThreadPoolExecutor(1) as thread:
        try:
            yield {file.name: thread.submit(hash_input, file, stopped.is_set) for file in cut}
        finally:
            stopped.set()


def enter_cut_files(
    planned: Iterable[tuple[SourceFile, ...]],
    inputs: Iterable[list[InputEntry]],
    hashes: dict[str, Future[str]],
) -> None:
    """Enter each file that was cut among the inputs of the shard with its first piece."""
    for (file, *_), read in zip(planned, inputs, strict=False):  # a limit leaves shards out
        if file.piece and file.piece.start == 0 and not read:
            known = hashes.get(file.name)
            read.append(input_entry(file, known.result() if known else None))


def _continues_archive(before: SourceFile, file: SourceFile) -> bool:
    """Whether a file lies further on in the compressed tar of the one before.

    Another shard would read such an archive from its start again.
    """
    member, previous = file.place, before.place
    if not isinstance(member, TarMember) or not isinstance(previous, TarMember):
        return False
    return member.offset is None and member.archive == previous.archive


def _cut_lines(file: SourceFile, spec: SourceSpec) -> list[SourceFile]:
    """Cut a file behind line ends into pieces of about `SHARD_BYTES`, where it can be cut."""
    return _in_pieces(file, list(_line_pieces(file))) if _can_be_cut(file, spec) else [file]


def _in_pieces(file: SourceFile, pieces: Sequence[FilePiece]) -> list[SourceFile]:
    return [replace(file, piece=one) for one in pieces] if len(pieces) > 1 else [file]


def _can_be_cut(file: SourceFile, spec: SourceSpec) -> bool:
    facts = file.facts
    has_lines = facts.format == "jsonl" or (facts.format == "text" and spec.root != "$")
    is_plain = facts.compression is None and facts.newline == "\n" and is_utf8(facts.encoding)
    return has_lines and is_plain and file.bytes > SHARD_BYTES and isinstance(file.place, LocalFile)


def _cut_together(source: Source, shard: JobShard, work: Path) -> dict[str, list[SourceFile]]:
    """Cut the files that can be cut, beginning with others than the other parts; wait for those."""
    large = [file for file in source.files if _can_be_cut(file, source.spec)]
    first = len(large) * shard.number // max(1, shard.count)
    queue = deque([*large[first:], *large[:first]])
    pieces_by_name: dict[str, list[SourceFile]] = {}
    while queue:
        file = queue.popleft()
        digest = hashlib.sha256(os.fsencode(file.name)).hexdigest()[:16]
        plan_file = work / f"{PLAN}{digest}.json"
        if not plan_file.exists():
            try:
                with hold_lock(plan_file.with_suffix(".lock"), remove=True):
                    if not plan_file.exists():
                        pieces = [asdict(one) for one in _line_pieces(file)]
                        write_file(plan_file, encode_json({"pieces": pieces}))
            except LockedError:  # another part counts its rows
                queue.append(file)
                time.sleep(_WAIT_SECONDS)
                continue
        stored = load_json(plan_file, own=True)["pieces"]
        pieces_by_name[file.name] = _in_pieces(file, [FilePiece(**one) for one in stored])
    return pieces_by_name


def _line_pieces(file: SourceFile) -> Iterator[FilePiece]:
    start = read = first = rows = 0
    has_content = False  # whether the line that goes on in the next block has something
    with file.place.open() as stream:
        for block in read_blocks(stream, str(file.place), _BLOCK):
            end = block.rfind(b"\n") + 1
            if end:
                line = block.find(b"\n") + 1
                rows += (has_content or not _is_blank(block[:line])) + _count_rows(block, line, end)
                has_content = False
                if read + end - start >= SHARD_BYTES:
                    yield FilePiece(start=start, size=read + end - start, row=first)
                    start, first = read + end, rows
            has_content = has_content or not _is_blank(block[end:])
            read += len(block)
    if read > start:
        yield FilePiece(start=start, size=read - start, row=first)


def _is_blank(line: bytes) -> bool:
    text = line.removeprefix(BOM_UTF8)  # which is no text
    return not text or text.isspace()


def _count_rows(block: bytes, start: int, end: int) -> int:
    """Count the lines of a part of a block that are not blank; each has its end."""
    data = np.frombuffer(block, np.uint8)[start:end]
    line_ends = np.flatnonzero(data == ord("\n"))
    line_starts = np.concatenate(([0], line_ends[:-1] + 1)) if len(line_ends) else line_ends
    if (data[line_starts] == ord("{")).all():
        return len(line_ends)
    return sum(not _is_blank(line) for line in block[start:end].split(b"\n"))
