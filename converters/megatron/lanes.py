"""The unfinished output of one process: files that only grow, and a journal of finished units.

A lane is the tokens, the lengths of the sequences, the sizes of the documents, the loss masks and
the rejects of the units that one process did, in the order in which it did them. Its journal has a
line for every finished unit: the stretches of the files that are its own. What lies behind the last
line of the journal belongs to a unit that was not finished, and is cut off when the lane is opened
again. The data set is put together from the stretches, in the order of the units; so a unit that
has to be done again leaves a hole in its lane, nothing more.

After a crash of the machine, content may be missing of files whose length is right. The lane is
synced to the disk every few seconds, and units after the last sync carry a checksum that is
compared when the lane is opened again.
"""

import contextlib
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

import numpy as np
import orjson

from ingot.converters.megatron.shaping import Documents
from ingot.converters.rows import Json

SYNC_SECONDS: Final = 5.0
_BLOCK: Final = 1 << 20
_FILES: Final = ("bin", "lengths", "documents", "loss_mask.bin", "rejects")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """A finished unit in its lane.

    Attributes:
        unit: its number.
        lane: the lane.
        spans: for every file of the lane, bytes from and to.
        engine: what tokenized it.
        facts: counts of what became of its rows.
        failed: what was wrong with its file; the stretch is empty then.
    """

    unit: int
    lane: int
    spans: dict[str, tuple[int, int]]
    engine: str
    facts: dict[str, int]
    failed: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A place in a lane that one can go back to."""

    ends: dict[str, int]
    crcs: dict[str, int]


def lane_file(base: Path, lane: int, kind: str) -> Path:
    """A file of a lane: `BASE.bin.tmp` in the first, `BASE.lane-1.bin.tmp` in the others."""
    number = f".lane-{lane}" if lane else ""
    return base.with_name(f"{base.name}{number}.{kind}.tmp")


@dataclass(kw_only=True)
class Lane:
    """A lane that is written: `append` what a unit gives, then `finish` it, or `rollback`.

    Args:
        base: path whose name all its files begin with.
        number: of the lane.

    Attributes:
        finished: the units that were finished when it was opened, and since.

    Raises:
        OSError: it cannot be written.
    """

    base: Path
    number: int = 0
    finished: dict[int, Stretch] = field(default_factory=dict)
    _files: dict[str, BinaryIO] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)
    _unit: dict[str, int] = field(default_factory=dict)
    _crcs: dict[str, int] = field(default_factory=dict)
    _synced: float = 0.0
    _journal: BinaryIO | None = None

    def __enter__(self) -> "Lane":
        for stretch in read_journal(self.base, self.number, check=True):
            self.finished[stretch.unit] = stretch
        kept = _kept(self.base, self.number)
        for kind in _FILES:
            file = lane_file(self.base, self.number, kind).open("ab")
            file.truncate(kept[kind])
            self._files[kind] = file
        journal = lane_file(self.base, self.number, "journal").open("ab")
        journal.truncate(kept["journal"])
        self._journal = journal
        self._ends = {kind: kept[kind] for kind in _FILES}
        self._begin()
        self._synced = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in (*self._files.values(), self._journal):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()

    def _begin(self) -> None:
        self._unit = dict(self._ends)
        self._crcs = dict.fromkeys(_FILES, 0)

    def append(self, documents: Documents) -> None:
        """Append documents."""
        self.extend(documents.tokens, documents.mask)
        self.close_documents(documents.lengths, documents.sizes)

    def extend(self, tokens: Any, mask: Any | None) -> None:  # noqa: ANN401
        """Append tokens (of any unsigned or the written type) of sequences counted later."""
        self._write("bin", tokens.data)
        if mask is not None:
            self._write("loss_mask.bin", mask.data)

    def close_documents(self, lengths: Any, sizes: Any) -> None:  # noqa: ANN401
        """Say how long the next sequences are, and how many each next document has."""
        self._write("lengths", lengths.astype("<i4").data)
        self._write("documents", sizes.astype("<i4").data)

    def reject(self, lines: bytes) -> None:
        """Append lines of rejects."""
        self._write("rejects", lines)

    def _write(self, kind: str, data: Any) -> None:  # noqa: ANN401
        size = memoryview(data).nbytes
        if size:
            self._files[kind].write(data)
            self._ends[kind] += size
            self._crcs[kind] = zlib.crc32(data, self._crcs[kind])

    def mark(self) -> Mark:
        """The present place, for `rollback`."""
        return Mark(ends=dict(self._ends), crcs=dict(self._crcs))

    def rollback(self, mark: Mark | None = None) -> None:
        """Go back to a mark, or to the beginning of the unit; of the rejects only to the latter."""
        kinds = [kind for kind in _FILES if mark is None or kind != "rejects"]
        mark = mark or Mark(ends=dict(self._unit), crcs=dict.fromkeys(_FILES, 0))
        for kind in kinds:
            self._crcs[kind] = mark.crcs[kind]
            if self._ends[kind] != mark.ends[kind]:
                self._files[kind].flush()
                self._files[kind].truncate(mark.ends[kind])
                self._ends[kind] = mark.ends[kind]

    def finish(self, unit: int, engine: str, facts: dict[str, int]) -> Stretch:
        """Close a unit: what was appended since the last one is its own."""
        spans = {kind: (self._unit[kind], self._ends[kind]) for kind in _FILES}
        return self._note(unit, engine, facts, spans, None)

    def fail(self, unit: int, problem: str, facts: dict[str, int]) -> Stretch:
        """Close a unit whose file cannot be read: it gives nothing."""
        self.rollback()
        spans = {kind: (self._ends[kind], self._ends[kind]) for kind in _FILES}
        return self._note(unit, "", facts, spans, problem)

    def _note(
        self,
        unit: int,
        engine: str,
        facts: dict[str, int],
        spans: dict[str, tuple[int, int]],
        failed: str | None,
    ) -> Stretch:
        for file in self._files.values():
            file.flush()
        line = {
            "unit": unit,
            "spans": spans,
            "engine": engine,
            "facts": facts,
            "failed": failed,
            "crcs": self._crcs,
        }
        self._line(line)
        stretch = Stretch(
            unit=unit, lane=self.number, spans=spans, engine=engine, facts=facts, failed=failed
        )
        self.finished[unit] = stretch
        self._begin()
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()
        return stretch

    def _line(self, line: dict[str, Json]) -> None:
        assert self._journal is not None
        self._journal.write(orjson.dumps(line) + b"\n")
        self._journal.flush()

    def sync(self) -> None:
        """Wait until everything finished is on the disk, and say so in the journal."""
        for file in self._files.values():
            os.fdatasync(file.fileno())
        self._line({"synced": True})
        assert self._journal is not None
        os.fdatasync(self._journal.fileno())
        self._synced = time.monotonic()


def drop_engine(base: Path, lane: int, engine: str) -> None:
    """Note that what an engine tokenized in a lane has to be done again."""
    path = lane_file(base, lane, "journal")
    whole = _whole(path)
    with path.open("ab") as journal:
        journal.truncate(len(whole))
        journal.write(orjson.dumps({"wrong_engine": engine}) + b"\n")


def read_journal(base: Path, lane: int, *, check: bool = False) -> Iterator[Stretch]:
    """The finished units of a lane; those whose content is gone end the list.

    Args:
        base: see `Lane`.
        lane: its number.
        check: compare the checksums of the units that were not synced.
    """
    stretches, _ = _read(base, lane, check=check)
    yield from stretches.values()


def lanes_of(base: Path) -> list[int]:
    """Numbers of the lanes that there are."""
    head, tail = f"{base.name}.lane-", ".journal.tmp"
    found = [0] if lane_file(base, 0, "journal").exists() else []
    for path in base.parent.glob("*" + tail):
        number = path.name.removeprefix(head).removesuffix(tail)
        if path.name.startswith(head) and number.isdecimal():
            found.append(int(number))
    return sorted(found)


def _kept(base: Path, lane: int) -> dict[str, int]:
    """The length of every file of a lane up to the end of its last good unit."""
    return _read(base, lane, check=True)[1]


def _read(base: Path, lane: int, *, check: bool) -> tuple[dict[int, Stretch], dict[str, int]]:
    lines = _whole(lane_file(base, lane, "journal")).splitlines(keepends=True)
    documents = [orjson.loads(line) for line in lines]
    synced = max((i for i, one in enumerate(documents) if "synced" in one), default=-1)
    stretches: dict[int, Stretch] = {}
    ends = dict.fromkeys((*_FILES, "journal"), 0)
    for place, (line, document) in enumerate(zip(lines, documents, strict=True)):
        if "unit" in document:
            stretch = _stretch(document, lane)
            if not _there(base, stretch, document["crcs"] if check and place > synced else None):
                break
            stretches[stretch.unit] = stretch
            ends.update({kind: end for kind, (_, end) in stretch.spans.items()})
        elif "wrong_engine" in document:
            wrong = document["wrong_engine"]
            stretches = {n: one for n, one in stretches.items() if one.engine != wrong}
        ends["journal"] += len(line)
    return stretches, ends


def _stretch(document: dict[str, Json], lane: int) -> Stretch:
    spans = {kind: (start, end) for kind, (start, end) in document["spans"].items()}
    return Stretch(
        unit=document["unit"],
        lane=lane,
        spans=spans,
        engine=document["engine"],
        facts=document["facts"],
        failed=document["failed"],
    )


def _whole(journal: Path) -> bytes:
    """The journal up to the end of its last whole line."""
    try:
        content = journal.read_bytes()
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]


def _there(base: Path, stretch: Stretch, crcs: dict[str, int] | None) -> bool:
    """Whether the content of a unit is in the files of its lane."""
    for kind, (start, end) in stretch.spans.items():
        path = lane_file(base, stretch.lane, kind)
        if (path.stat().st_size if path.exists() else 0) < end:
            return False
        if crcs is not None and _checksum(path, start, end) != crcs[kind]:
            return False
    return True


def _checksum(path: Path, start: int, end: int) -> int:
    found = 0
    for block in blocks(path, start, end):
        found = zlib.crc32(block, found)
    return found


def blocks(path: Path, start: int, end: int) -> Iterator[bytes]:
    """A stretch of a file, piece by piece."""
    if start == end:
        return
    with path.open("rb") as file:
        file.seek(start)
        while start < end:
            block = file.read(min(_BLOCK, end - start))
            if not block:
                return
            start += len(block)
            yield block


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
