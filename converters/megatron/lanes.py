"""The unfinished output of one process: files that only grow, and a journal of finished units.

A lane is the tokens, the lengths of the sequences, the sizes of the documents, the loss masks and
the rejects of the units that one process did, in the order in which it did them. Its journal has a
line for every finished unit: the stretches of the files that are its own. What lies behind the last
line of the journal belongs to a unit that was not finished, and is cut off when the lane is opened
again. The data set is put together from the stretches, in the order of the units; so a unit that
has to be done again leaves a hole in its lane, nothing more.
"""

import contextlib
import os
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

from ingot.converters.megatron.journal import FILES, Stretch, encoded, lane_file, read_journal
from ingot.converters.megatron.shaping import Documents
from ingot.converters.rows import Json

SYNC_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A place in a lane that one can go back to."""

    ends: dict[str, int]
    crcs: dict[str, int]


@dataclass(kw_only=True)
class Lane:
    """A lane that is written: `append` what a unit gives, then `finish` it, or `rollback`.

    Args:
        base: path whose name all its files begin with.
        number: of the lane.

    Raises:
        OSError: it cannot be written.
    """

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
            for kind in (*FILES, "journal"):
                file = lane_file(self.base, self.number, kind).open("ab")
                self._files[kind] = file
                file.truncate(self._ends[kind])
        except OSError:
            self._close()
            raise
        self._begin()
        self._synced = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):  # what was not flushed belongs to no finished unit
                file.close()

    def _begin(self) -> None:
        self._unit = dict(self._ends)
        self._crcs = dict.fromkeys(FILES, 0)

    def append(self, documents: Documents) -> None:
        """Append documents."""
        self.extend(documents.tokens, documents.mask)
        self.close_documents(documents.lengths, documents.sizes)

    def extend(self, tokens: Any, mask: Any | None) -> None:  # noqa: ANN401
        """Append tokens (in the written type) of sequences that are counted later."""
        self._write("bin", tokens.data)
        if mask is not None:
            self._write("mask", mask.data)

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
        kinds = [kind for kind in FILES if mark is None or kind != "rejects"]
        mark = mark or Mark(ends=dict(self._unit), crcs=dict.fromkeys(FILES, 0))
        for kind in kinds:
            self._crcs[kind] = mark.crcs[kind]
            if self._ends[kind] != mark.ends[kind]:
                self._files[kind].flush()
                self._files[kind].truncate(mark.ends[kind])
                self._ends[kind] = mark.ends[kind]

    def finish(self, unit: int, engine: str, facts: dict[str, int]) -> Stretch:
        """Close a unit: what was appended since the last one is its own."""
        return self._note(unit, engine, facts, None)

    def fail(self, unit: int, problem: str, facts: dict[str, int]) -> Stretch:
        """Close a unit whose file cannot be read: it gives nothing."""
        self.rollback()
        return self._note(unit, "", facts, problem)

    def _note(self, unit: int, engine: str, facts: dict[str, int], failed: str | None) -> Stretch:
        for kind in FILES:
            self._files[kind].flush()
        stretch = Stretch(
            unit=unit,
            lane=self.number,
            spans={kind: (self._unit[kind], self._ends[kind]) for kind in FILES},
            engine=engine,
            facts=facts,
            failed=failed,
        )
        self._line(stretch.line(self._crcs))
        self._begin()
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()
        return stretch

    def _line(self, line: dict[str, Json]) -> None:
        self._files["journal"].write(encoded(line))
        self._files["journal"].flush()

    def sync(self) -> None:
        """Wait until everything finished is on the disk, and say so in the journal."""
        for kind in FILES:
            os.fdatasync(self._files[kind].fileno())
        self._line({"synced": True})
        os.fdatasync(self._files["journal"].fileno())
        self._synced = time.monotonic()
