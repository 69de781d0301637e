"""The data sets of a lake: every file is told by its content and put to those it belongs to.

Files of one place, one format and one shape are one data set (`places`, `readers/grouping`). A file
that cannot be read belongs to the data set whose files it resembles by name, which then fails: it
is not converted without it in silence.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from ingot.converters.lake.naming import name_of
from ingot.converters.lake.places import TOP, carded, common_stem, is_card, place_of
from ingot.converters.readers import Source, SourceFile
from ingot.converters.readers.facts import LeftOut
from ingot.converters.readers.grouping import all_groups, guessed
from ingot.converters.readers.sidefiles import BINARY, side_file
from ingot.converters.readers.sniff import LFS
from ingot.converters.readers.source import Looked
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.readers.storage import Entry, Listing

_PACKED = re.compile(r"\.(gz|gzip|zst|zstd|bz2|xz)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One file of the lake and what was found in it.

    Attributes:
        entry: the file.
        looked: the data files in it (several in an archive) and what is none.
        fault: why it cannot be read, "" where it can.
    """

    entry: Entry
    looked: Looked = field(default_factory=lambda: Looked([], []))
    fault: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """Files of a lake that are one data set.

    Attributes:
        name: its name in the lake.
        place: its folder, relative to the root.
        source: how it is read; no files where there is no data.
        faults: files of it that cannot be read, with the reason: (name, why).
        cards: files beside it that describe it.
        said: what it is, where it is recognised as data for another command; None else.
    """

    name: str
    place: str
    source: Source
    faults: tuple[LeftOut, ...] = ()
    cards: tuple[Entry, ...] = ()
    said: object | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """What lies in a lake: data sets by name, and files that belong to none, with the reason."""

    sets: tuple[DataSet, ...]
    left_out: tuple[LeftOut, ...]

    def all_left_out(self) -> list[LeftOut]:
        """Every file that is not read, beside data sets and elsewhere, by name."""
        beside = (one for each in self.sets for one in each.source.left_out)
        return sorted([*self.left_out, *beside], key=lambda one: one.name)


# Says what a place holds where another command reads it, None else.
Recognise = Callable[[Source], object | None]


def survey(
    root: str, seen: Iterable[Seen], known: Mapping[str, str], recognise: Recognise
) -> Survey:
    """Put the files of a lake together to data sets.

    Args:
        root: where the lake lies, as the user wrote it.
        seen: every file, in the order of the names.
        known: the data set that a file belonged to in an earlier run: names stay.
        recognise: see there; is asked once per place.
    """
    files = list(seen)
    folders = carded(one.entry for one in files)
    places: dict[str, list[Seen]] = defaultdict(list)
    for one in files:
        places[place_of(one.entry.name, folders)].append(one)
    there = {one.name for each in files for one in each.looked.files}
    there |= {one.entry.name for one in files}
    names = _Names({file: name for file, name in known.items() if file in there})
    sets: list[DataSet] = []
    left_out: list[LeftOut] = []
    for place in sorted(places):
        made = _Place(root, place, places[place]).sets(names, recognise)
        sets += made
        if not made:
            left_out += [one for each in places[place] for one in each.looked.left_out]
    return Survey(sets=tuple(sorted(sets, key=lambda one: one.name)), left_out=tuple(left_out))


class _Names:
    """Gives names: those of earlier runs first, then new ones that nobody has."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self._taken: set[str] = set()
        self._former = frozenset(known.values())

    def former(self, files: Sequence[str]) -> str | None:
        """The name under which most of these files were known."""
        names = [name for file in files if (name := self._known.get(file)) is not None]
        free = [name for name in names if name not in self._taken]
        if not free:
            return None
        name = max(sorted(set(free)), key=free.count)
        self._taken.add(name)
        return name

    def new(self, *parts: str) -> str:
        """A name of these parts; with a number where it is taken."""
        name, number = name_of(*parts), 1
        while name in self._taken or name in self._former:
            number += 1
            name = name_of(*parts, str(number))
        self._taken.add(name)
        return name


class _Place:
    """The files of one place."""

    def __init__(self, root: str, place: str, seen: Sequence[Seen]) -> None:
        self._root, self._place = root.rstrip("/") or root, place
        self._entries = tuple(one.entry for one in seen)
        self._files = [file for one in seen for file in one.looked.files]
        self._faults = [LeftOut(name=one.entry.name, why=one.fault) for one in seen if one.fault]
        self._left_out: list[LeftOut] = []
        endings = {_ending(file.name) for file in self._files}
        for one in (one for each in seen for one in each.looked.left_out):
            (self._faults if _is_lost(one, endings) else self._left_out).append(one)
        self._cards = tuple(entry for entry in self._entries if is_card(entry))

    def sets(self, names: _Names, recognise: Recognise) -> list[DataSet]:
        """The data sets of the place; [] where there is nothing but side files."""
        odd = any(side_file(one.name) is None for one in self._left_out)
        if not (self._files or self._faults or odd):
            return []
        said = recognise(self._source("", self._files, self._left_out, self._entries))
        if said is not None or not (self._files or self._faults):
            return [self._whole(names, said)]
        groups, others = all_groups(self._files)
        broken = _shared_out(self._faults, groups)
        if len(groups) < len(broken):
            groups.append(())  # of files that cannot be read and are like none that can
        return [
            self._part(names, files, broken[number], others if number == 0 else (), groups)
            for number, files in enumerate(groups)
        ]

    def _whole(self, names: _Names, said: object | None) -> DataSet:
        """The place as one data set, whatever is in it."""
        name = self._named(names, [entry.name for entry in self._entries], "")
        source = self._source(name, self._files, self._left_out, self._entries)
        return DataSet(
            name=name,
            place=self._place,
            source=source,
            faults=tuple(self._faults),
            cards=self._cards,
            said=said,
        )

    def _part(
        self,
        names: _Names,
        files: Sequence[SourceFile],
        broken: Sequence[LeftOut],
        others: Sequence[LeftOut],
        groups: Sequence[Sequence[SourceFile]],
    ) -> DataSet:
        """One data set of the place; the first has what is left out beside all of them."""
        first, alone = files is groups[0], len(groups) == 1
        members = [*(file.name for file in files), *(one.name for one in broken)]
        entries = self._entries if alone else self._containers(files)
        name = self._named(names, members, "" if alone else _told_apart(members, files))
        return DataSet(
            name=name,
            place=self._place,
            source=self._source(name, files, [*self._left_out, *others] if first else [], entries),
            faults=tuple(broken),
            cards=self._cards,
        )

    def _named(self, names: _Names, members: Sequence[str], apart: str) -> str:
        top = PurePosixPath(urlsplit(self._root).path).name or "lake"
        folders = [top] if self._place == TOP else self._place.split("/")
        return names.former(members) or names.new(*folders, *([apart] if apart else []))

    def _containers(self, files: Sequence[SourceFile]) -> tuple[Entry, ...]:
        """The entries that these files are, or lie in."""
        places = {getattr(file.place, "archive", file.place) for file in files}
        return tuple(entry for entry in self._entries if entry.place in places)

    def _source(
        self,
        name: str,
        files: Sequence[SourceFile],
        left_out: Sequence[LeftOut],
        entries: tuple[Entry, ...],
    ) -> Source:
        """The files as a source; where rows lie in JSON objects is not looked at yet."""
        return Source(
            location=_printable(
                self._root if self._place == TOP else f"{self._root}/{self._place}"
            ),
            name=name,
            spec=SourceSpec(),
            files=tuple(files),
            left_out=tuple(sorted(left_out, key=lambda one: one.name)),
            guessed=guessed(files),
            roots=(),
            listing=Listing(base=name, direct=False, entries=entries),
        )


def _printable(location: str) -> str:
    """A location as messages can name it; the files are opened by their own places."""
    return "".join(c if c.isprintable() else "_" for c in location)


def _told_apart(members: Sequence[str], files: Sequence[SourceFile]) -> str:
    """What tells a data set from others of its place: its files' names, or their format."""
    return common_stem(members) or (files[0].facts.format if files else "unreadable")


def _shared_out(
    faults: Sequence[LeftOut], groups: Sequence[Sequence[SourceFile]]
) -> list[list[LeftOut]]:
    """Files that cannot be read, by the group whose files end alike; those of none come last."""
    endings = [{_ending(file.name) for file in group} for group in groups]
    shared: list[list[LeftOut]] = [[] for _ in groups]
    lone: list[LeftOut] = []
    for fault in faults:
        alike = (n for n, known in enumerate(endings) if _ending(fault.name) in known)
        number = next(alike, None)
        (lone if number is None else shared[number]).append(fault)
    return [*shared, lone] if lone else shared


def _is_lost(one: LeftOut, endings: Collection[str]) -> bool:
    """Whether a file that holds no data was to hold some: a crash or a fetch left it so."""
    return one.why == LFS or (one.why == BINARY and _ending(one.name) in endings)


def _ending(name: str) -> str:
    return PurePosixPath(_PACKED.sub("", name.lower())).suffix
