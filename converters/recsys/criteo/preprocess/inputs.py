"""Which files of a folder are read, under which names and in which order.

What decides the bytes of a run.
"""

import hashlib
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from ingot import __version__
from ingot.converters.errors import ConversionError, IngotError, SourceError
from ingot.converters.output.commit import FinishedResult
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.recsys.criteo.preprocess.vocabulary import vocabulary_digest
from ingot.converters.rows import Json
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, list_location
from ingot.converters.sources.storage.read_errors import translate_read_errors

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
        """The same parts as they are now."""
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
        return [self.listed(part, _hash_file(part.entry)) for part in self.parts]

    def listed(self, part: Part, sha256: str) -> dict[str, Json]:
        """A part as the manifest lists it."""
        entry = part.entry
        return {"part": part.name, "name": entry.name, "bytes": entry.bytes, "sha256": sha256}


def parse_days(text: str) -> tuple[int, ...]:
    """The days of `0-23` or `0,3,5-7`, ascending."""
    days: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,4})\s*(?:-\s*([0-9]{1,4})\s*)?", piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ConversionError("", f"days are {text!r}", "write them as 0-23 or 0,3,5-7")
        days |= set(range(first, last + 1))
    return tuple(sorted(days))


def find_inputs(where: str, days: Sequence[int] | None = None) -> Inputs:
    """The day files of a folder, or Kaggle's train.txt and test.txt."""
    named = [(entry, entry.name) for entry in list_location(where).entries if "/" not in entry.name]
    by_day = [(int(m[1]), e) for e, name in named if (m := _DAY.fullmatch(name))]
    kaggle = [(m[1], e) for e, name in named if (m := _KAGGLE.fullmatch(name))]
    if days is None and by_day and kaggle:
        problem = f"holds days and also {kaggle[0][1].name}"
        raise SourceError(where, problem, "say which days are read, as --days 0-23")
    if days is not None:
        return Inputs(where=where, parts=tuple(_day_parts(where, by_day, days)), days=True)
    parts = tuple(_day_parts(where, by_day, None) if by_day else _kaggle_parts(where, kaggle))
    others = sorted({name for _, name in named} - {part.entry.name for part in parts})
    if not parts:
        hint = "the files are named day_0 to day_23 or train.txt, compressed or not: day_0.gz"
        problem = "holds no Criteo files" + (f", but {_name_list(others)}" if others else "")
        raise SourceError(where, problem, hint)
    notes = [f"passed over: {_name_list(others)}"] if others else []
    notes += _missing_days([day for day, _ in by_day])
    return Inputs(where=where, parts=parts, days=bool(by_day), notes=tuple(notes))


def _name_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _missing_days(days: Sequence[int]) -> list[str]:
    """What is not there between the first and the last day."""
    gone = sorted(set(range(min(days, default=0), max(days, default=0) + 1)) - set(days))
    return [f"not there: {_name_list([f'day_{day}' for day in gone])}"] if days and gone else []


def _day_parts(
    where: str, found: list[tuple[int, Entry]], days: Sequence[int] | None
) -> Iterator[Part]:
    wanted = sorted({day for day, _ in found} if days is None else set(days))
    if not wanted:
        raise ConversionError(where, "no day is chosen", "write them as 0-23 or 0,3,5-7")
    for day in wanted:
        entry = _single_entry(where, f"day_{day}", [entry for at, entry in found if at == day])
        yield Part(name=f"day_{day}", entry=entry)


def _kaggle_parts(where: str, found: list[tuple[str, Entry]]) -> Iterator[Part]:
    for name in ("train", "test"):
        entries = [entry for of, entry in found if of == name]
        if entries:
            entry = _single_entry(where, name, entries)
            yield Part(name=name, entry=entry, labelled=name == "train")


def _single_entry(where: str, name: str, entries: list[Entry]) -> Entry:
    if not entries:
        raise SourceError(where, f"holds no {name}", "choose among the days that are there: --days")
    if len(entries) > 1:
        told = " and ".join(entry.name for entry in entries)
        raise SourceError(where, f"holds {told}", "keep one of them")
    return entries[0]


def _hash_file(entry: Entry) -> str:
    digest = hashlib.sha256()
    with entry.place.open() as stream:
        while block := stream.read(_HASHED):
            digest.update(block)
    return digest.hexdigest()


class _HashedFile(io.RawIOBase):
    """A file that hashes what is read of it, once and in order."""

    def __init__(self, raw: BinaryIO, where: str) -> None:
        self._raw, self._where = raw, where
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        with translate_read_errors(self._where):
            data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self.digest.update(data)
        return len(data)


class OpenedPart:
    """A part being read: its `stream`, decompressed, and in the end its `sha256`."""

    def __init__(self, raw: BinaryIO, where: str) -> None:
        self._hashed = _HashedFile(raw, where)
        self._raw = cast(BinaryIO, io.BufferedReader(self._hashed, _HASHED))
        self.stream = open_decompressed(self._raw, where)

    def sha256(self) -> str:
        """Of the whole file as stored; reads what is left of it."""
        while self._raw.read(_HASHED):
            pass
        return self._hashed.digest.hexdigest()


@contextmanager
def open_part(part: Part) -> Iterator[OpenedPart]:
    """Read a part."""
    with part.entry.place.open() as raw:
        yield OpenedPart(raw, part.entry.name)


FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Two runs with equal identities and equal input files make the same folder."""

    inputs: Inputs
    settings: Settings
    vocab_sha256: str | None

    @classmethod
    def of(cls, inputs: Inputs, settings: Settings) -> "Identity":
        """The identity of a run."""
        known = vocabulary_digest(settings.vocab) if settings.vocab is not None else None
        return cls(inputs=inputs, settings=settings, vocab_sha256=known)

    def settled(self) -> dict[str, Json]:
        """What the manifest holds of it."""
        settings = self.settings
        return {
            "decision": "criteo",
            "versions": {"ingot": __version__, "criteo": FORMAT},
            "dense": settings.dense,
            "frequency_threshold": settings.threshold,
            "shuffle_seed": settings.shuffle_seed if self.inputs.shuffled else None,
            "compat": settings.compat,
            "vocab_sha256": self.vocab_sha256,
            "unseen": settings.unseen,
        }

    def key(self) -> str:
        """The staging key. Input files are known by the parts that were read of them."""
        parts = [part.name for part in self.inputs.parts]
        how = [self.settings.encode, self.settings.strict]
        document = [self.settled(), self.inputs.place, parts, how]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def difference(self, there: FinishedResult) -> str | None:
        """What tells a finished folder from the one that this run would make, if anything."""
        for name, ours in self.settled().items():
            theirs = there.manifest.get(name)
            if theirs != ours:
                return _DIFFERENCES[name].format(ours=ours, theirs=theirs)
        if self.settings.strict and there.manifest.get("rejects"):
            return "it was made without --strict, and lines were rejected"
        if there.run.get("inputs") == self.inputs.stamps():
            return None
        try:
            same = there.manifest.get("inputs") == self.inputs.sha256s()
        except IngotError:
            same = False  # the run will say what is wrong with the file
        return None if same else "other input files"


_DIFFERENCES: Final = {
    "decision": "another decision",
    "versions": "another version of ingot",
    "dense": "dense {theirs}, now {ours}",
    "frequency_threshold": "frequency threshold {theirs}, now {ours}",
    "shuffle_seed": "shuffle seed {theirs}, now {ours}",
    "compat": "compat {theirs}, now {ours}",
    "vocab_sha256": "other vocabularies to begin with",
    "unseen": "unseen values {theirs}, now {ours}",
}
