"""Which files of a folder are read, under which names and in which order."""

import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.readers.compression import decompressed
from ingot.converters.readers.faults import reading
from ingot.converters.readers.storage import Entry, find
from ingot.converters.rows import Json

_ENDS: Final = r"(?:\.(?:tsv|txt))?(?:\.(?:gz|zst|bz2|xz))?"
_DAY: Final = re.compile(rf"day_(0|[1-9][0-9]{{0,3}}){_ENDS}")
_KAGGLE: Final = re.compile(rf"(train|test){_ENDS}")
_HASHED: Final = 8 << 20
_SHOWN: Final = 5  # names


@dataclass(frozen=True, kw_only=True)
class Part:
    """One input file.

    Attributes:
        name: `day_0`, `train`, ...
        entry: where it is.
        labelled: whether its lines begin with a label.
    """

    name: str
    entry: Entry
    labelled: bool = True


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The parts in the order in which values are first seen; `days`: they are days, not Kaggle's.

    `notes`: what the folder has beside them, and days that it has not, for people.
    """

    where: str
    parts: tuple[Part, ...]
    days: bool
    notes: tuple[str, ...] = ()

    @property
    def shuffled(self) -> int:
        """Parts that are shuffled together: the training days."""
        return len(self.parts) - 1 if self.days else 0

    @property
    def place(self) -> str:
        """`where`, the same from whatever folder it is named; a URL as it is."""
        return self.where if "://" in self.where else str(Path(self.where).absolute())

    def again(self) -> "Inputs":
        """The same parts as they are now.

        Raises:
            SourceError: one is gone.
        """
        days = [int(part.name.removeprefix("day_")) for part in self.parts] if self.days else None
        return find_inputs(self.where, days)

    def stamps(self) -> list[dict[str, Json]]:
        """Part, name, size and time of change of every file."""
        return [
            {"part": part.name, "name": e.name, "bytes": e.bytes, "mtime_ns": e.mtime_ns}
            | ({"etag": e.etag} if e.etag else {})
            for part in self.parts
            for e in [part.entry]
        ]

    def sha256s(self) -> list[dict[str, Json]]:
        """Part, name, size and SHA-256 of every file as stored, as the manifest lists them."""
        return [self.listed(part, _sha256(part.entry)) for part in self.parts]

    def listed(self, part: Part, sha256: str) -> dict[str, Json]:
        """A part as the manifest lists it."""
        entry = part.entry
        return {"part": part.name, "name": entry.name, "bytes": entry.bytes, "sha256": sha256}


def parse_days(text: str) -> tuple[int, ...]:
    """The days of `0-23` or `0,3,5-7`, ascending.

    Raises:
        ConversionError: it is no such list.
    """
    days: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,4})\s*(?:-\s*([0-9]{1,4})\s*)?", piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ConversionError("", f"days are {text!r}", "write them as 0-23 or 0,3,5-7")
        days |= set(range(first, last + 1))
    return tuple(sorted(days))


def find_inputs(where: str, days: Sequence[int] | None = None) -> Inputs:
    """The day files of a folder, or Kaggle's train.txt and test.txt.

    Args:
        where: folder, or URL of one; also one such file.
        days: those that are read; None for all that are there.

    Raises:
        SourceError: there are none, one is missing or there twice, or both kinds are there.
    """
    named = [(entry, entry.name) for entry in find(where).entries if "/" not in entry.name]
    by_day = [(int(m[1]), e) for e, name in named if (m := _DAY.fullmatch(name))]
    kaggle = [(m[1], e) for e, name in named if (m := _KAGGLE.fullmatch(name))]
    if days is None and by_day and kaggle:
        problem = f"holds days and also {kaggle[0][1].name}"
        raise SourceError(where, problem, "say which days are read, as --days 0-23")
    if days is not None:
        return Inputs(where=where, parts=tuple(_days(where, by_day, days)), days=True)
    parts = tuple(_days(where, by_day, None) if by_day else _kaggle(where, kaggle))
    others = sorted({name for _, name in named} - {part.entry.name for part in parts})
    if not parts:
        hint = "the files are named day_0 to day_23 or train.txt, compressed or not: day_0.gz"
        problem = "holds no Criteo files" + (f", but {_some(others)}" if others else "")
        raise SourceError(where, problem, hint)
    notes = [f"passed over: {_some(others)}"] if others else []
    notes += _gaps([day for day, _ in by_day])
    return Inputs(where=where, parts=parts, days=bool(by_day), notes=tuple(notes))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _gaps(days: Sequence[int]) -> list[str]:
    """What is not there between the first and the last day."""
    gone = sorted(set(range(min(days, default=0), max(days, default=0) + 1)) - set(days))
    return [f"not there: {_some([f'day_{day}' for day in gone])}"] if days and gone else []


def _days(where: str, found: list[tuple[int, Entry]], days: Sequence[int] | None) -> Iterator[Part]:
    wanted = sorted({day for day, _ in found} if days is None else set(days))
    if not wanted:
        raise ConversionError(where, "no day is chosen", "write them as 0-23 or 0,3,5-7")
    for day in wanted:
        entry = _the_one(where, f"day_{day}", [entry for at, entry in found if at == day])
        yield Part(name=f"day_{day}", entry=entry)


def _kaggle(where: str, found: list[tuple[str, Entry]]) -> Iterator[Part]:
    for name in ("train", "test"):
        entries = [entry for of, entry in found if of == name]
        if entries:
            entry = _the_one(where, name, entries)
            yield Part(name=name, entry=entry, labelled=name == "train")


def _the_one(where: str, name: str, entries: list[Entry]) -> Entry:
    if not entries:
        raise SourceError(where, f"holds no {name}", "choose among the days that are there: --days")
    if len(entries) > 1:
        told = " and ".join(entry.name for entry in entries)
        raise SourceError(where, f"holds {told}", "keep one of them")
    return entries[0]


def _sha256(entry: Entry) -> str:
    digest = hashlib.sha256()
    with entry.place.open() as stream:
        while block := stream.read(_HASHED):
            digest.update(block)
    return digest.hexdigest()


class _Hashed(io.RawIOBase):
    """A file that hashes what is read of it, once and in order."""

    def __init__(self, raw: BinaryIO, where: str) -> None:
        self._raw, self._where = raw, where
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        with reading(self._where):
            data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self.digest.update(data)
        return len(data)


class Opened:
    """A part being read: its `stream`, decompressed, and in the end its `sha256`."""

    def __init__(self, raw: BinaryIO, where: str) -> None:
        self._hashed = _Hashed(raw, where)
        self._raw = cast(BinaryIO, io.BufferedReader(self._hashed, _HASHED))
        self.stream = decompressed(self._raw, where)

    def sha256(self) -> str:
        """Of the whole file as stored; reads what is left of it."""
        while self._raw.read(_HASHED):
            pass
        return self._hashed.digest.hexdigest()


@contextmanager
def opened(part: Part) -> Iterator[Opened]:
    """Read a part.

    Raises:
        SourceError: it cannot be read.
    """
    with part.entry.place.open() as raw:
        yield Opened(raw, part.entry.name)
