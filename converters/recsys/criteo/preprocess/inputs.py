"""The files of a folder that a run reads, in their order, and what decides the bytes of the run."""

import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

from ingot import __version__
from ingot.converters.errors import ConversionError, SourceError, translate_read_errors
from ingot.converters.output.difference import FinishedResult
from ingot.converters.output.files import InputEntry, InputStamp
from ingot.converters.output.identity import RunIdentity
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.recsys.criteo.preprocess.vocabulary import vocabulary_digest
from ingot.converters.sources.facts import absolute_location, input_entry, input_stamp
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, list_location

_ENDS: Final = r"(?:\.(?:tsv|txt))?(?:\.(?:gz|zst|bz2|xz))?"
_DAY: Final = re.compile(rf"day_(0|[1-9][0-9]{{0,3}}){_ENDS}")
_KAGGLE: Final = re.compile(rf"(train|test){_ENDS}")
_HASHED: Final = 1 << 18  # bytes at least that are read and hashed at a time
_SHOWN: Final = 5  # names


@dataclass(frozen=True, kw_only=True)
class Part:
    """One input file."""

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
        """Return the number of parts that are shuffled together: the training days."""
        return len(self.parts) - 1 if self.days else 0

    @property
    def place(self) -> str:
        """Return `where` in a form that does not depend on the current folder."""
        return absolute_location(self.where)

    def again(self) -> "Inputs":
        """Return the same parts as they are now."""
        days = [int(part.name.removeprefix("day_")) for part in self.parts] if self.days else None
        return find_inputs(self.where, days)

    def stamps(self) -> list[InputStamp]:
        """Return part, name, size and time of change of every file."""
        stamps = [input_stamp(part.entry, part=part.name) for part in self.parts]
        for stamp in stamps:
            if not stamp.get("etag"):
                stamp.pop("etag")
        return stamps

    def listed_entries(self) -> list[InputEntry]:
        """Return part, name, size and SHA-256 of every file, as the manifest lists them."""
        return [input_entry(part.entry, part=part.name) for part in self.parts]


def parse_days(text: str) -> tuple[int, ...]:
    """Return the days of `0-23` or `0,3,5-7`, ascending."""
    days: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,4})\s*(?:-\s*([0-9]{1,4})\s*)?", piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ConversionError("", f"days are {text!r}", "write them as 0-23 or 0,3,5-7")
        days |= set(range(first, last + 1))
    return tuple(sorted(days))


def find_inputs(location: str, days: Sequence[int] | None = None) -> Inputs:
    """Return the day files of a folder, or Kaggle's train.txt and test.txt."""
    entries = [
        (entry, entry.name) for entry in list_location(location).entries if "/" not in entry.name
    ]
    by_day = [(int(m[1]), e) for e, name in entries if (m := _DAY.fullmatch(name))]
    kaggle = [(m[1], e) for e, name in entries if (m := _KAGGLE.fullmatch(name))]
    if days is None and by_day and kaggle:
        problem = f"holds days and also {kaggle[0][1].name}"
        raise SourceError(location, problem, "say which to read with `days`, as 0-23")
    if days is not None:
        return Inputs(where=location, parts=tuple(_day_parts(location, by_day, days)), days=True)
    parts = tuple(_day_parts(location, by_day, None) if by_day else _kaggle_parts(location, kaggle))
    other_names = sorted({name for _, name in entries} - {part.entry.name for part in parts})
    if not parts:
        hint = "the files are named day_0 to day_23 or train.txt, compressed or not: day_0.gz"
        problem = "holds no Criteo files" + (
            f", but {_name_list(other_names)}" if other_names else ""
        )
        raise SourceError(location, problem, hint)
    notes = [f"passed over: {_name_list(other_names)}"] if other_names else []
    present = [day for day, _ in by_day]
    absent = sorted({*range(min(present, default=0), max(present, default=0))} - {*present})
    notes += [f"not there: {_name_list([f'day_{day}' for day in absent])}"] if absent else []
    return Inputs(where=location, parts=parts, days=bool(by_day), notes=tuple(notes))


def _name_list(names: Sequence[str]) -> str:
    suffix = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + suffix


def _day_parts(
    location: str, by_day: list[tuple[int, Entry]], days: Sequence[int] | None
) -> Iterator[Part]:
    chosen = sorted({day for day, _ in by_day} if days is None else set(days))
    if not chosen:
        raise ConversionError(location, "no day is chosen", "write them as 0-23 or 0,3,5-7")
    for day in chosen:
        entry = _single_entry(
            location, f"day_{day}", [entry for number, entry in by_day if number == day]
        )
        yield Part(name=f"day_{day}", entry=entry)


def _kaggle_parts(location: str, by_name: list[tuple[str, Entry]]) -> Iterator[Part]:
    for name in ("train", "test"):
        entries = [entry for entry_name, entry in by_name if entry_name == name]
        if entries:
            entry = _single_entry(location, name, entries)
            yield Part(name=name, entry=entry, labelled=name == "train")


def _single_entry(location: str, name: str, entries: list[Entry]) -> Entry:
    if not entries:
        raise SourceError(location, f"holds no {name}", "choose `days` that are there")
    if len(entries) > 1:
        names = " and ".join(entry.name for entry in entries)
        raise SourceError(location, f"holds {names}", "keep one of them")
    return entries[0]


class _HashedFile(io.RawIOBase):
    """A file that hashes what is read of it, once and in order."""

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._raw, self._where = raw, path
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        with translate_read_errors(self._where):
            count: int = self._raw.readinto(buffer)  # type: ignore[attr-defined]
        self.digest.update(buffer[:count])
        return count


class OpenedPart:
    """A part being read: its `stream`, decompressed, and in the end its `sha256`."""

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._hashed = _HashedFile(raw, path)
        self._raw = cast("BinaryIO", io.BufferedReader(self._hashed, _HASHED))
        self.stream = open_decompressed(self._raw, path)

    def sha256(self) -> str:
        """Return the SHA-256 of the whole stored file; what is left of it is read."""
        while self._raw.read(_HASHED):
            pass
        return self._hashed.digest.hexdigest()


FORMAT: Final = 1


def run_identity(inputs: Inputs, settings: Settings) -> RunIdentity:
    """Return what decides the bytes of a run."""

    def reject_difference(finished: FinishedResult) -> str | None:
        allowed = settings.strict and finished.manifest.get("rejects")
        return "it was made without `strict`, and lines were rejected" if allowed else None

    details = [settings.encode, settings.strict]
    return RunIdentity(
        settled={
            "decision": "criteo",
            "versions": {"ingot": __version__, "criteo": FORMAT},
            "dense": settings.dense,
            "frequency_threshold": settings.threshold,
            "shuffle_seed": settings.shuffle_seed if inputs.shuffled else None,
            "compat": settings.compat,
            "vocab_sha256": vocabulary_digest(settings.vocab) if settings.vocab else None,
            "unseen": settings.unseen,
        },
        place=[inputs.place, [part.name for part in inputs.parts], details],
        stamps=inputs.stamps(),
        entries=inputs.listed_entries,
        words={"vocab_sha256": "other vocabularies to begin with"},
        further=reject_difference,
    )
