"""The data sets of a lake: files grouped by content and folder, under names that stay the same."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.sources import Source, SourceFile
from ingot.converters.sources.facts import LeftOut, SourceSpec
from ingot.converters.sources.file_groups import group_files, guessed_spec
from ingot.converters.sources.file_kinds import (
    FEWEST_CODE,
    may_hold_documents,
    side_file_reason,
)
from ingot.converters.sources.interchange.yaml_toml import find_records
from ingot.converters.sources.source import EntryFiles, read_form
from ingot.converters.sources.storage.listing import Entry, Listing, file_stem
from ingot.converters.sources.storage.places import storage_places
from ingot.converters.sources.tables.partitions import read_partitions
from ingot.converters.sources.tables.table_folders import table_folders

JOINT: Final = "--"
_ODD_NAME = re.compile(r"[^\w.+=@ -]")
_MOST_BYTES: Final = 120
_HASH: Final = 8
# Names that some file system or tool takes for something else.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|\.+|", re.IGNORECASE)
_ENDINGS = (".proposal", ".sample", ".json")


def data_set_name(*parts: str) -> str:
    """Return one name of several parts.

    It ends with a hash of them where something had to be changed.
    """
    joined = JOINT.join(parts)
    text = re.sub(r"\s+", " ", _ODD_NAME.sub("_", joined)).strip(" .-")
    clean = text.encode("utf-8", "ignore")[:_MOST_BYTES].decode("utf-8", "ignore").strip(" .-")
    faithful = clean == joined and not any(JOINT in part for part in parts)
    if faithful and not _RESERVED.fullmatch(clean) and not clean.lower().endswith(_ENDINGS):
        return clean
    # Different parts never give the same name.
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{clean or 'set'}-{digest[:_HASH]}"


TOP_FOLDER: Final = "."
_SPLITS = "train(ing)?|dev(elopment)?|test(ing)?|valid(ation)?|val|eval(uation)?"
_DATE = r"\d{4}[-_.]\d{2}([-_.]\d{2})?([-_T]\d{2}.*)?|(19|20)\d{6}"
# What divides a data set, wherever it stands below the root ...
_PART = re.compile(rf"({_SPLITS}|data|[^=]+=.*|{_DATE})", re.IGNORECASE)
# ... and what does below a folder of its own: in the root these may be the data sets' names.
_INNER_PART = re.compile(
    r"(default|shards?|parts?|\d{1,6}|(part|shard|chunk|split|batch|bucket|fold)s?[-_]?\d+.*)",
    re.IGNORECASE,
)
_CARDS = re.compile(
    r"dataset_infos?\.json|dataset_card\.\w+|croissant\.json|datapackage\.json", re.IGNORECASE
)
_README = re.compile(r"readme(\.md|\.markdown)?", re.IGNORECASE)
_FRONT = re.compile(rb"(\xef\xbb\xbf)?---[ \t]*\r?\n")
_WORDS = re.compile(rf"(?<![a-z])({_SPLITS}|part|shard|chunk|of)(?![a-z])|\d+", re.IGNORECASE)
_EDGES = " -_.,~+"


def is_card(entry: Entry) -> bool:
    """Return whether a file says by name that it describes a data set."""
    base = entry.name.rpartition("/")[2]
    return bool(_CARDS.fullmatch(base) or _README.fullmatch(base))


def card_folders(entries: Iterable[Entry]) -> frozenset[str]:
    """Return the folders below the root that a card or a README with front matter makes a set."""
    folders = set()
    for entry in entries:
        folder, _, base = entry.name.rpartition("/")
        if folder and is_card(entry) and (_CARDS.fullmatch(base) or _has_front_matter(entry)):
            folders.add(folder)
    return frozenset(folders)


def _has_front_matter(entry: Entry) -> bool:
    try:
        with entry.place.open() as raw, translate_read_errors(str(entry.place)):
            return bool(_FRONT.match(raw.read(64)))
    except SourceError:
        return False


def set_folder(name: str, carded: frozenset[str]) -> str:
    """Return the data set's folder of a file: the nearest with a card, else its own less parts."""
    folders = name.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        if "/".join(folders[:depth]) in carded:
            return "/".join(folders[:depth])
    while folders and (
        _PART.fullmatch(folders[-1]) or (len(folders) > 1 and _INNER_PART.fullmatch(folders[-1]))
    ):
        folders.pop()
    return "/".join(folders) or TOP_FOLDER


def common_stem(names: Sequence[str]) -> str:
    """Return what the names of files have in common, without numbers, splits and endings.

    "" = nothing.
    """
    bare_stems = (_WORDS.sub("", file_stem(name)) for name in names)
    stems = sorted(re.sub(r"[-_.]{2,}", "-", stem).strip(_EDGES) for stem in bare_stems)
    pairs = zip(stems[0], stems[-1], strict=False)  # what these share, all share
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)).strip(_EDGES)


_PACKED = re.compile(r"\.(gz|gzip|zst|zstd|bz2|xz)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenFile:
    """One file of the lake and what was found in it."""

    entry: Entry
    looked: EntryFiles = field(default_factory=lambda: EntryFiles([], []))
    fault: str = ""  # why it cannot be read
    place: str = ""  # the folder of documents that it is in or below


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """Files of a lake that are one data set."""

    name: str
    place: str
    source: Source
    faults: tuple[LeftOut, ...] = ()
    cards: tuple[Entry, ...] = ()
    said: object | None = None  # what it is, where another command reads it


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """What lies in a lake: data sets by name, and files that belong to none, with the reason."""

    sets: tuple[DataSet, ...]
    left_out: tuple[LeftOut, ...]

    def all_left_out(self) -> list[LeftOut]:
        """Return every file that is not read, beside data sets and elsewhere, by name."""
        in_sets = (one for each in self.sets for one in each.source.left_out)
        return sorted([*self.left_out, *in_sets], key=lambda one: one.name)


_NAMED: Final = 5  # files of each reason
_REASONS: Final = 40


def group_by_reason(left_out: Iterable[LeftOut]) -> list[tuple[str, int, list[str]]]:
    """Return the reasons for left-out files, most files first, each with its first names."""
    names: dict[str, list[str]] = defaultdict(list)
    for file in left_out:
        names[file.reason or file.why].append(file.name)
    ordered = sorted(names.items(), key=lambda one: (-len(one[1]), one[0]))
    return [(why, len(files), files[:_NAMED]) for why, files in ordered[:_REASONS]]


# Says what a place holds where another command reads it, None else.
Recognise = Callable[[Source], object | None]


def survey_lake(
    root: str, seen: Iterable[SeenFile], known: Mapping[str, str], recognise: Recognise
) -> Survey:
    """Put the files of a lake together to data sets."""
    files = list(seen)
    entries = [one.entry for one in files]
    folders = card_folders(entries).union(table_folders(entries))
    seen_by_folder: dict[str, list[SeenFile]] = defaultdict(list)
    for one in files:
        seen_by_folder[one.place or set_folder(one.entry.name, folders)].append(one)
    seen_names = {one.name for each in files for one in each.looked.files}
    seen_names |= {one.entry.name for one in files}
    names = _Names({file: name for file, name in known.items() if file in seen_names})
    sets: list[DataSet] = []
    left_out: list[LeftOut] = []
    read = [
        folder
        for folder, members in seen_by_folder.items()
        if any(one.looked.files for one in members)
    ]
    for folder in sorted(seen_by_folder):
        if any(
            folder == TOP_FOLDER or one.startswith(f"{folder}/") for one in read if one != folder
        ):
            seen_by_folder[folder] = [_without_notes(one) for one in seen_by_folder[folder]]
        folder_sets = _LakeFolder(root, folder, seen_by_folder[folder]).sets(names, recognise)
        sets += folder_sets
        if not folder_sets:
            left_out += [one for each in seen_by_folder[folder] for one in each.looked.left_out]
    return Survey(sets=tuple(sorted(sets, key=lambda one: one.name)), left_out=tuple(left_out))


def _without_notes(seen: SeenFile) -> SeenFile:
    """A file above data: lines of what is settings by name are a note."""
    inspected = EntryFiles([], [*seen.looked.left_out])
    for file in seen.looked.files:
        why = side_file_reason(file.name) if file.facts.format == "text" else None
        if why is None:
            inspected.files.append(file)
        else:
            inspected.left_out.append(LeftOut.of(file, why))
    return replace(seen, looked=inspected)


def mark_records(seen: Sequence[SeenFile]) -> None:
    """Have the files of YAML or TOML read as rows where each file of their folder is a record."""
    folders: dict[str, list[EntryFiles]] = defaultdict(list)
    for one in seen:
        folders[one.entry.name.rpartition("/")[0]].append(one.looked)
    for inspected_files in folders.values():
        other_names = (
            left_out.name for inspected in inspected_files for left_out in inspected.left_out
        )
        marked = iter(
            find_records(
                [file for inspected in inspected_files for file in inspected.files], other_names
            )
        )
        for inspected in inspected_files:
            inspected.files[:] = islice(marked, len(inspected.files))


def document_folders(seen: Sequence[SeenFile]) -> dict[str, str]:
    """Return the highest folders of documents without structured data, by the files below them."""
    sets = {set_folder(one.entry.name, frozenset()) for one in seen if one.looked.files}
    return dict(_find_document_folders(seen, "", sets))


def _find_document_folders(
    seen: Sequence[SeenFile], folder: str, sets: Collection[str]
) -> Iterator[tuple[str, str]]:
    inner = f"{folder}/" if folder else ""
    below: dict[str, list[SeenFile]] = defaultdict(list)
    for one in seen:
        below[one.entry.name[len(inner) :].rpartition("/")[0].partition("/")[0]].append(one)
    # The root is a folder of documents if some lie in it: else its folders are data sets.
    if (folder or _are_documents(below[""])) and _are_documents(seen):
        yield from ((one.entry.name, folder or TOP_FOLDER) for one in seen)
    elif folder not in sets:  # what lies below the folder of a data set is a note of it
        for name in sorted(below.keys() - {""}):
            yield from _find_document_folders(below[name], f"{inner}{name}", sets)


def _are_documents(seen: Sequence[SeenFile]) -> bool:
    read = [(file.name, read_form(file), file.bytes) for one in seen for file in one.looked.files]
    left_out = [item for one in seen for item in one.looked.left_out]
    lost = any(one.fault for one in seen)
    return not lost and may_hold_documents(read, left_out, fewest_code=FEWEST_CODE)


class _Names:
    """Gives names: those of earlier runs first, then new ones that nobody has."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self._taken: set[str] = set()
        self._former = frozenset(known.values())

    def former(self, files: Sequence[str]) -> str | None:
        """Return the name under which most of these files were known."""
        names = [name for file in files if (name := self._known.get(file)) is not None]
        free = [name for name in names if name not in self._taken]
        if not free:
            return None
        name = max(sorted(set(free)), key=free.count)
        self._taken.add(name)
        return name

    def new(self, *parts: str) -> str:
        """Return a name of these parts; with a number where it is taken."""
        name, number = data_set_name(*parts), 1
        while name in self._taken or name in self._former:
            number += 1
            name = data_set_name(*parts, str(number))
        self._taken.add(name)
        return name


class _LakeFolder:
    """The files of one place."""

    def __init__(self, root: str, place: str, seen: Sequence[SeenFile]) -> None:
        self._root, self._place = root.rstrip("/") or root, place
        self._entries = tuple(one.entry for one in seen)
        self._files = [file for one in seen for file in one.looked.files]
        self._faults = [LeftOut(name=one.entry.name, why=one.fault) for one in seen if one.fault]
        self._left_out: list[LeftOut] = []
        endings = {_ending(file.name) for file in self._files}
        for one in (one for each in seen for one in each.looked.left_out):
            # A lost file was to hold some data: a crash or a fetch left it so.
            torn = one.kind == "binary" and _ending(one.name) in endings
            lost = one.kind == "unfetched" or torn
            (self._faults if lost else self._left_out).append(one)
        self._cards = tuple(entry for entry in self._entries if is_card(entry))

    def sets(self, names: _Names, recognise: Recognise) -> list[DataSet]:
        """Return the data sets of the place; [] if there is nothing but auxiliary files."""
        has_data = any(
            side_file_reason(one.name) is None or one.is_unread for one in self._left_out
        )
        if not (self._files or self._faults or has_data):
            return []
        proposal = recognise(self._source("", self._files, self._left_out, self._entries))
        if proposal is not None or not (self._files or self._faults):
            # The place is one data set, whatever is in it.
            name = self._named(names, [entry.name for entry in self._entries], "")
            source = self._source(name, self._files, self._left_out, self._entries)
            return [self._data_set(source, self._faults, proposal)]
        groups, ungrouped = group_files(self._files)
        broken = _share_faults(self._faults, groups)
        if len(groups) < len(broken):
            groups.append(())  # of files that cannot be read and are like none that can
        return [
            self._part(names, files, broken[number], ungrouped if number == 0 else (), groups)
            for number, files in enumerate(groups)
        ]

    def _part(
        self,
        names: _Names,
        files: Sequence[SourceFile],
        broken: Sequence[LeftOut],
        ungrouped: Sequence[LeftOut],
        groups: Sequence[Sequence[SourceFile]],
    ) -> DataSet:
        """One data set of the place; the first has what is left out beside all of them."""
        first, alone = files is groups[0], len(groups) == 1
        members = [*(file.name for file in files), *(one.name for one in broken)]
        entries = self._entries if alone else self._containers(files)
        # What tells it from others of the place: its files' names, or their format.
        suffix = common_stem(members) or (files[0].facts.format if files else "unreadable")
        name = self._named(names, members, "" if alone else suffix)
        left_out = [*self._left_out, *ungrouped] if first else []
        return self._data_set(self._source(name, files, left_out, entries), broken, None)

    def _data_set(
        self, source: Source, faults: Sequence[LeftOut], proposal: object | None
    ) -> DataSet:
        return DataSet(
            name=source.name,
            place=self._place,
            source=source,
            faults=tuple(faults),
            cards=self._cards,
            said=proposal,
        )

    def _named(self, names: _Names, members: Sequence[str], suffix: str) -> str:
        top = PurePosixPath(urlsplit(self._root).path).name or "lake"
        folders = [top] if self._place == TOP_FOLDER else self._place.split("/")
        return names.former(members) or names.new(*folders, *([suffix] if suffix else []))

    def _containers(self, files: Sequence[SourceFile]) -> tuple[Entry, ...]:
        """The entries that these files are, or lie in."""
        locations = {one for file in files for one in (file.place, *storage_places(file.place))}
        return tuple(entry for entry in self._entries if entry.place in locations)

    def _source(
        self,
        name: str,
        files: Sequence[SourceFile],
        left_out: Sequence[LeftOut],
        entries: tuple[Entry, ...],
    ) -> Source:
        """The files as a source; where rows lie in JSON objects is not looked at yet."""
        location = self._root if self._place == TOP_FOLDER else f"{self._root}/{self._place}"
        own_names, inside = {file.name for file in files}, tuple(f"{one.name}/" for one in entries)
        other_names = [one.name for one in self._files if one.name.startswith(inside)]
        return Source(
            # As messages can name it; the files are opened by their own places.
            location="".join(c if c.isprintable() else "_" for c in location),
            name=name,
            spec=SourceSpec(),
            files=read_partitions(files),
            left_out=tuple(sorted(left_out, key=lambda one: one.name)),
            guessed=guessed_spec(
                files, other_names=[one for one in other_names if one not in own_names]
            ),
            roots=(),
            listing=Listing(base=name, direct=False, entries=entries),
        )


def _share_faults(
    faults: Sequence[LeftOut], groups: Sequence[Sequence[SourceFile]]
) -> list[list[LeftOut]]:
    """Files that cannot be read, by the group whose files end alike; those of none come last."""
    endings = [{_ending(file.name) for file in group} for group in groups]
    shared: list[list[LeftOut]] = [[] for _ in groups]
    lone: list[LeftOut] = []
    for fault in faults:
        matching = (n for n, known in enumerate(endings) if _ending(fault.name) in known)
        number = next(matching, None)
        (lone if number is None else shared[number]).append(fault)
    return [*shared, lone] if lone else shared


def _ending(name: str) -> str:
    return PurePosixPath(_PACKED.sub("", name.lower())).suffix
