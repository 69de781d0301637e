"""The journal of a lane: which units are finished, and which stretches of the files are theirs.

A line of JSON is appended for every finished unit, when its content is in the files. Other lines
say that everything before them is on the disk (`synced`), or has to be done again (`wrong_engine`,
`again`). What lies behind the last good line counts for nothing.

After a crash of the machine, content may be missing of files whose length is right. So units after
the last sync carry checksums, which `recover` compares before a build goes on.
"""

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ingot.converters.rows import Json

FILES: Final = ("bin", "lengths", "documents", "mask", "rejects")
_BLOCK: Final = 1 << 20


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

    def line(self, crcs: dict[str, int]) -> dict[str, Json]:
        """What the journal says of it; `crcs` are the checksums of its content."""
        return {
            "unit": self.unit,
            "spans": self.spans,
            "engine": self.engine,
            "facts": self.facts,
            "failed": self.failed,
            "crcs": crcs,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """What a journal says.

    Attributes:
        stretches: the finished units, by number.
        ends: how long every file of the lane is up to its last good unit, the journal too.
    """

    stretches: dict[int, Stretch]
    ends: dict[str, int]


def lane_file(base: Path, lane: int, kind: str) -> Path:
    """A file of a lane: `BASE.bin.tmp` in the first, `BASE.bin-1.tmp` in the next."""
    number = f"-{lane}" if lane else ""
    return base.with_name(f"{base.name}.{kind}{number}.tmp")


def lanes_of(base: Path) -> list[int]:
    """Numbers of the lanes that there are."""
    head, tail = f"{base.name}.journal", ".tmp"
    found = [0] if lane_file(base, 0, "journal").exists() else []
    for path in base.parent.iterdir():
        if path.name.startswith(f"{head}-") and path.name.endswith(tail):
            number = path.name.removeprefix(f"{head}-").removesuffix(tail)
            found += [int(number)] if number.isdecimal() else []
    return sorted(found)


def read_journal(base: Path, lane: int, *, check: bool = False) -> Journal:
    """Read a journal up to the first unit whose content is gone.

    Args:
        base: see `Lane`.
        lane: its number.
        check: compare the checksums of the units that were not synced.

    Raises:
        OSError: it cannot be read.
    """
    lines = list(_lines(lane_file(base, lane, "journal")))
    synced = max((place for place, (_, one) in enumerate(lines) if "synced" in one), default=-1)
    sizes = {kind: _size(lane_file(base, lane, kind)) for kind in FILES}
    stretches: dict[int, Stretch] = {}
    ends = dict.fromkeys((*FILES, "journal"), 0)
    for place, (size, document) in enumerate(lines):
        if "unit" in document:
            stretch = _stretch(document, lane)
            crcs = document["crcs"] if check and place > synced else None
            if not _is_there(base, stretch, sizes, crcs):
                break
            stretches[stretch.unit] = stretch
            ends.update({kind: end for kind, (_, end) in stretch.spans.items()})
        stretches = _without(stretches, document)
        ends["journal"] += size
    return Journal(stretches=stretches, ends=ends)


def recover(base: Path) -> None:
    """Make the lanes of a build that was broken off hold what is sure, and nothing else.

    Files that could not be read are to be tried again.

    Raises:
        OSError: they cannot be read or cut.
    """
    for lane in lanes_of(base):
        journal = read_journal(base, lane, check=True)
        for kind, end in journal.ends.items():
            path = lane_file(base, lane, kind)
            if _size(path) > end:
                os.truncate(path, end)
        if any(stretch.failed is not None for stretch in journal.stretches.values()):
            _append(base, lane, {"again": "failed"})


def drop_engine(base: Path, lane: int, engine: str) -> None:
    """Note, on the disk, that what an engine tokenized in a lane has to be done again.

    Raises:
        OSError: it cannot be noted.
    """
    _append(base, lane, {"wrong_engine": engine})


def _append(base: Path, lane: int, line: dict[str, Json]) -> None:
    end = read_journal(base, lane).ends["journal"]
    with lane_file(base, lane, "journal").open("ab") as journal:
        journal.truncate(end)
        journal.write(encoded(line))
        journal.flush()
        os.fsync(journal.fileno())


def encoded(line: dict[str, Json]) -> bytes:
    """A line of JSON; names of files that are no Unicode are escaped in it."""
    return json.dumps(line).encode() + b"\n"


def _lines(journal: Path) -> Iterator[tuple[int, dict[str, Json]]]:
    """The good lines from the beginning, and how long each is."""
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


def _without(stretches: dict[int, Stretch], document: dict[str, Json]) -> dict[int, Stretch]:
    """The units but those that a line wants to be done again."""
    if "wrong_engine" in document:
        wrong = document["wrong_engine"]
        return {number: one for number, one in stretches.items() if one.engine != wrong}
    if "again" in document:
        return {number: one for number, one in stretches.items() if one.failed is None}
    return stretches


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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_there(
    base: Path, stretch: Stretch, sizes: dict[str, int], crcs: dict[str, int] | None
) -> bool:
    """Whether the content of a unit is in the files of its lane."""
    if any(sizes[kind] < end for kind, (_, end) in stretch.spans.items()):
        return False
    return crcs is None or all(
        _checksum(lane_file(base, stretch.lane, kind), start, end) == crcs[kind]
        for kind, (start, end) in stretch.spans.items()
    )


def _checksum(path: Path, start: int, end: int) -> int:
    found = 0
    for block in blocks(path, start, end):
        found = zlib.crc32(block, found)
    return found


def blocks(path: Path, start: int, end: int) -> Iterator[bytes]:
    """A stretch of a file, piece by piece.

    Raises:
        OSError: it cannot be read, or ends before.
    """
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
