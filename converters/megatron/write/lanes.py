"""Write the unfinished output of one process: files that only grow, a journal of finished units.

A line of JSON is appended to the journal for every finished unit, when its content is in the files.
Other lines say that everything before them is on the disk (`synced`), or has to be done again
(`wrong_engine`, `again`). What follows the last good line is ignored.

After a crash of the machine, content may be missing of files whose length is right. So units after
the last sync carry checksums, which `recover_lanes` compares before a build resumes.
"""

import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, TypedDict

from ingot.converters.json_yaml import UNSTORED, decode, encode
from ingot.converters.megatron.documents import ShapedDocuments

LANE_FILES: Final = ("bin", "lengths", "documents", "mask", "rejects")
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class LaneStretch:
    """A finished unit in its lane."""

    unit: int
    lane: Annotated[int, UNSTORED]
    spans: dict[str, tuple[int, int]]  # for every file of the lane, bytes from and to
    engine: str
    facts: dict[str, int]  # counts of what became of its rows
    failed: str | None = None  # what was wrong with its file; the stretch is empty then


class JournalLine(TypedDict, total=False):
    """A line of the journal: a finished unit (the fields of `LaneStretch`, too), or a mark."""

    unit: int
    crcs: dict[str, int]  # checksums of its content
    synced: bool
    wrong_engine: str
    again: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """What a journal says."""

    stretches: dict[int, LaneStretch]  # the finished units, by number
    # how long every file of the lane is up to its last good unit, the journal too
    ends: dict[str, int]


def lane_file(base: Path, lane: int, kind: str) -> Path:
    """Return a file of a lane: `BASE.bin.tmp` of the first, `BASE.bin-1.tmp` of the next."""
    number = f"-{lane}" if lane else ""
    return base.with_name(f"{base.name}.{kind}{number}.tmp")


def lane_numbers(base: Path) -> list[int]:
    """Return the numbers of the existing lanes."""
    head, tail = f"{base.name}.journal", ".tmp"
    numbers = [0] if lane_file(base, 0, "journal").exists() else []
    for path in base.parent.iterdir():
        if path.name.startswith(f"{head}-") and path.name.endswith(tail):
            number = path.name.removeprefix(f"{head}-").removesuffix(tail)
            numbers += [int(number)] if number.isdecimal() else []
    return sorted(numbers)


def take_lane(base: Path) -> int:
    """Begin a lane that nobody has, beside those of other parts; give its number."""
    number = max(lane_numbers(base), default=0) + 1
    while True:
        try:
            os.close(os.open(lane_file(base, number, "journal"), os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            number += 1
        else:
            return number


def read_journal(base: Path, lane: int, *, check: bool = False) -> Journal:
    """Read a journal up to the first unit whose content is gone."""
    lines = list(_read_lines(lane_file(base, lane, "journal")))
    synced = max((number for number, (_, one) in enumerate(lines) if "synced" in one), default=-1)
    sizes = {kind: _file_size(lane_file(base, lane, kind)) for kind in LANE_FILES}
    stretches: dict[int, LaneStretch] = {}
    file_ends = dict.fromkeys((*LANE_FILES, "journal"), 0)
    for number, (size, document) in enumerate(lines):
        if "unit" in document:
            stretch = decode(LaneStretch, {**document, "lane": lane})
            crcs = document["crcs"] if check and number > synced else None
            if not _is_content_there(base, stretch, sizes, crcs):
                break
            stretches[stretch.unit] = stretch
            file_ends.update({kind: end for kind, (_, end) in stretch.spans.items()})
        stretches = _drop_units(stretches, document)
        file_ends["journal"] += size
    return Journal(stretches=stretches, ends=file_ends)


def recover_lanes(base: Path, *, retry_failed: bool = True) -> None:
    """Make the lanes of a build that was broken off hold what is sure, and nothing else.

    Files that could not be read are to be tried `retry_failed`.
    """
    for lane in lane_numbers(base):
        journal = read_journal(base, lane, check=True)
        for kind, end in journal.ends.items():
            path = lane_file(base, lane, kind)
            if _file_size(path) > end:
                os.truncate(path, end)
        if retry_failed and any(
            stretch.failed is not None for stretch in journal.stretches.values()
        ):
            _append_line(base, lane, {"again": "failed"})


def wrong_engines(base: Path) -> frozenset[str]:
    """Return the engines that were found to be wrong in any lane."""
    lines = (
        line
        for lane in lane_numbers(base)
        for line in _read_lines(lane_file(base, lane, "journal"))
    )
    return frozenset(line["wrong_engine"] for _, line in lines if "wrong_engine" in line)


def drop_engine(base: Path, lane: int, engine: str) -> None:
    """Record on disk that what an engine tokenized in a lane has to be done again."""
    _append_line(base, lane, {"wrong_engine": engine})


def _append_line(base: Path, lane: int, line: JournalLine) -> None:
    end = read_journal(base, lane).ends["journal"]
    with lane_file(base, lane, "journal").open("ab") as journal:
        journal.truncate(end)
        journal.write(encode_line(line))
        journal.flush()
        os.fsync(journal.fileno())


def encode_line(line: JournalLine) -> bytes:
    """Encode a line of JSON; names of files that are not Unicode are escaped in it."""
    return json.dumps(line).encode() + b"\n"


def _read_lines(journal: Path) -> Iterator[tuple[int, JournalLine]]:
    try:
        content = journal.read_bytes()
    except FileNotFoundError:
        return
    for line in content.split(b"\n")[:-1]:
        try:
            document = json.loads(line)
        except ValueError:
            return
        yield len(line) + 1, document


def _drop_units(stretches: dict[int, LaneStretch], document: JournalLine) -> dict[int, LaneStretch]:
    """The units but those that a line wants to be done again."""
    if "wrong_engine" in document:
        wrong = document["wrong_engine"]
        return {number: one for number, one in stretches.items() if one.engine != wrong}
    if "again" in document:
        return {number: one for number, one in stretches.items() if one.failed is None}
    return stretches


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_content_there(
    base: Path, stretch: LaneStretch, sizes: dict[str, int], crcs: dict[str, int] | None
) -> bool:
    """Whether the content of a unit is in the files of its lane."""
    if any(sizes[kind] < end for kind, (_, end) in stretch.spans.items()):
        return False
    if crcs is None:
        return True
    for kind, span in stretch.spans.items():
        blocks = file_blocks(lane_file(base, stretch.lane, kind), *span)
        if reduce(lambda crc, block: zlib.crc32(block, crc), blocks, 0) != crcs[kind]:
            return False
    return True


def file_blocks(path: Path, start: int, end: int) -> Iterator[bytes]:
    """Yield a byte range of a file in blocks."""
    if start == end:
        return
    with path.open("rb") as file:
        file.seek(start)
        while start < end:
            block = file.read(min(_BLOCK, end - start))
            if not block:
                raise OSError(f"{path.name} lacks {end - start} bytes")
            start += len(block)
            yield block


SYNC_SECONDS: Final = 5.0


@dataclass(kw_only=True)
class Lane:
    """A lane that is written: `append` what a unit gives, then `finish` it, or `rollback`."""

    base: Path
    number: int = 0
    _files: dict[str, BinaryIO] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)
    _unit: dict[str, int] = field(default_factory=dict)
    _crcs: dict[str, int] = field(default_factory=dict)
    _synced: float = 0.0

    def __enter__(self) -> "Lane":
        self._ends = read_journal(self.base, self.number).ends
        try:
            for kind in (*LANE_FILES, "journal"):
                file = lane_file(self.base, self.number, kind).open("ab")
                self._files[kind] = file
                file.truncate(self._ends[kind])
        except OSError:
            self.__exit__()
            raise
        self._begin()
        self._synced = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):  # what was not flushed belongs to no finished unit
                file.close()

    def _begin(self) -> None:
        self._unit = dict(self._ends)
        self._crcs = dict.fromkeys(LANE_FILES, 0)

    def append(self, documents: ShapedDocuments) -> None:
        """Append documents."""
        self._write("bin", documents.tokens.data)
        if documents.mask is not None:
            self._write("mask", documents.mask.data)
        self._write("lengths", documents.lengths.astype("<i4").data)
        self._write("documents", documents.sizes.astype("<i4").data)

    def reject(self, lines: bytes) -> None:
        """Append lines of rejects."""
        self._write("rejects", lines)

    def _write(self, kind: str, data: Any) -> None:  # noqa: ANN401
        size = memoryview(data).nbytes
        if size:
            self._files[kind].write(data)
            self._ends[kind] += size
            self._crcs[kind] = zlib.crc32(data, self._crcs[kind])

    def rollback(self) -> None:
        """Go back to the beginning of the unit."""
        self._crcs = dict.fromkeys(LANE_FILES, 0)
        for kind in LANE_FILES:
            if self._ends[kind] != self._unit[kind]:
                self._files[kind].flush()
                self._files[kind].truncate(self._unit[kind])
                self._ends[kind] = self._unit[kind]

    def finish(
        self, unit: int, engine: str, facts: dict[str, int], failed: str | None = None
    ) -> LaneStretch:
        """Close a unit: what was appended since the last one is its own, nothing if it failed."""
        if failed is not None:
            self.rollback()
        for kind in LANE_FILES:
            self._files[kind].flush()
        stretch = LaneStretch(
            unit=unit,
            lane=self.number,
            spans={kind: (self._unit[kind], self._ends[kind]) for kind in LANE_FILES},
            engine=engine,
            facts=facts,
            failed=failed,
        )
        self._line(encode(stretch) | {"crcs": self._crcs})
        self._begin()
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()
        return stretch

    def _line(self, line: JournalLine) -> None:
        self._files["journal"].write(encode_line(line))
        self._files["journal"].flush()

    def sync(self) -> None:
        """Wait until everything finished is on the disk, and say so in the journal."""
        for kind in LANE_FILES:
            os.fdatasync(self._files[kind].fileno())
        self._line({"synced": True})
        os.fdatasync(self._files["journal"].fileno())
        self._synced = time.monotonic()
